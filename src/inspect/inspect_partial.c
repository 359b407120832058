/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the host's part of the report while the API server does not answer. The text is rendered
 * before the first request to the API server, so the thread shares no data with the scan.
 */
#include <pthread.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/mem.h"
#include "common/wait_queue.h"
#include "inspect/inspect.h"

struct inspect_partial {
	pthread_t thread;
	pthread_mutex_t lock;
	struct wait_queue end;
	bool stopped, printed; /* under the lock */
	struct deadline at;
	FILE *out;
	char *text;
};

static bool partial_wait(struct inspect_partial *p)
{
	WITH_LOCK(&p->lock);

	while (!p->stopped && wait_queue_wait(&p->end, &p->lock, p->at))
		;
	return !p->stopped;
}

static void *partial_main(void *arg)
{
	struct inspect_partial *p = arg;

	p->printed = partial_wait(p);
	if (!p->printed)
		return NULL;
	fputs(p->text, p->out);
	fputs("\nThe API server has not answered yet; its part follows, within 30 s.\n", p->out);
	fflush(p->out);
	return NULL;
}

struct inspect_partial *inspect_partial_start(const struct inspect_report *r, int64_t after_ms,
                                              FILE *out)
{
	struct inspect_partial *p = xcalloc(1, sizeof(*p));
	size_t n;
	FILE *memory = open_memstream(&p->text, &n);

	if (memory) {
		inspect_print(r, memory);
		fclose(memory);
	}
	p->at = deadline_in_ms(after_ms);
	p->out = out;
	pthread_mutex_init(&p->lock, NULL);
	if (p->text && !pthread_create(&p->thread, NULL, partial_main, p))
		return p;
	free(p->text);
	free(p);
	return NULL;
}

bool inspect_partial_stop(struct inspect_partial *p)
{
	bool printed;

	if (!p)
		return false;
	{
		WITH_LOCK(&p->lock);
		p->stopped = true;
		wait_queue_wake(&p->end);
	}
	pthread_join(p->thread, NULL);
	printed = p->printed;
	pthread_mutex_destroy(&p->lock);
	free(p->text);
	free(p);
	return printed;
}
