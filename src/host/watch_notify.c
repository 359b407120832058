/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status is one sentence, generated from the table each time and sent if it differs from the
 * last one sent. Sending does not block.
 */
#include "host/watch_priv.h"

#include <stdlib.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/log.h"
#include "common/sd_notify.h"

/*
 * A stream that ends is normally reopened at once; only after this time, in ms, is the API server
 * reported as unreachable.
 */
#define CLOSED_MS 10000
#define STATUS_MAX 500

static void send(const char *text)
{
	struct err err = ERR_INIT;

	if (sd_notify_send(text, &err))
		log_limited(LOG_WARNING, 600, "%s", err.msg);
}

/*
 * Sends the status on one line and without control characters, because parts of it may come from an
 * object.
 */
static void send_status(const char *status)
{
	struct str text AUTO(str_clear) = STR_INIT((size_t)STATUS_MAX * SHOWN_BYTES_MAX);

	str_add(&text, "STATUS=");
	str_add_shown(&text, status);
	send(text.ptr);
}

static void notify_add_table(struct watch *w, struct str *s, bool *ret_tried)
{
	const struct tracked *trouble = NULL;
	unsigned attached = 0, others = 0;

	WITH_LOCK(&w->lock);
	*ret_tried = w->complete;
	for (const struct tracked *f = w->table.first; f; f = f->next) {
		attached += f->state == TRACKED_ATTACHED;
		others += f->state != TRACKED_ATTACHED;
		*ret_tried &= f->tried;
		if (!trouble && *f->why)
			trouble = f;
	}
	str_addf(s, "%u attached, %u not", attached, others);
	if (trouble)
		str_addf(s, "; volume %s: %s", trouble->volume, trouble->why);
	if (*w->refused)
		str_addf(s, "; not following: %s", w->refused);
	else if (!w->complete)
		str_add(s, "; the attachments are still being listed");
}

static void notify_add_outage(struct watch *w, struct str *s)
{
	char why[KUBE_WATCH_ERROR_MAX];
	struct kube_follow *f;

	{
		WITH_LOCK(&w->lock);
		f = w->follow;
	}
	if (f && kube_follow_closed_ms(f, why) > CLOSED_MS)
		str_addf(s, "; the API server is unreachable: %s", why);
}

void watch_notify(struct watch *w, struct watch_notify *t)
{
	struct str status AUTO(str_clear) = STR_INIT(STATUS_MAX);
	int64_t now = monotonic_ns();
	bool tried;

	if (!t->begun) {
		t->begun = true;
		t->begun_at = now;
		t->watchdog_ms = sd_notify_watchdog_ms();
	}
	notify_add_table(w, &status, &tried);
	notify_add_outage(w, &status);
	if (!str_eq(t->status, status.ptr)) {
		send_status(status.ptr);
		free(t->status);
		t->status = str_take(&status);
	}
	if (!t->ready && (tried || now - t->begun_at > WATCH_READY_MS * NS_PER_MS)) {
		t->ready = true;
		send("READY=1");
	}
	if (t->watchdog_ms && now >= t->watchdog_at) {
		send("WATCHDOG=1");
		t->watchdog_at = now + t->watchdog_ms * NS_PER_MS / 2;
	}
}

void watch_notify_end(struct watch_notify *t)
{
	send("STOPPING=1\nSTATUS=stopping; attached volumes stay");
	free(t->status);
	t->status = NULL;
}
