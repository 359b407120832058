/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates and destroys the client.
 *
 * Callers block in their own thread; the HTTP engine's thread does the I/O. No I/O happens under
 * the `lock` in struct kube. Paths and headers of requests are in kube_request.c, requests with
 * their retries in kube_exchange.c, the verbs in kube_object.c and kube_list.c, watching in
 * kube_watch.c, kube_wait.c and kube_waits.c.
 */
#include "kube/kube_priv.h"
#include "kube/kube_version.h"

#include <stdlib.h>
#include <string.h>

#include "common/limits.h"
#include "common/mem.h"

#define ATTEMPT_MS 30000
#define WATCH_SILENCE_MS 150000
#define WATCH_BACKOFF_MS 250
#define WATCH_BACKOFF_MOST_MS 5000
#define WATCH_TIMEOUT_S 240
#define MISTAKE_MS 1000
#define FILL_MS 15000
#define LOOK_MS 5000
#define LATE_MS 5000

static void endpoint_changed(void *arg, const struct http_endpoint *endpoint)
{
	struct kube *k = arg;
	if (k->http) /* otherwise start_engine() is about to use this endpoint */
		http_set_endpoint(k->http, endpoint);
}

static void tuning_default(int *value, int otherwise)
{
	if (*value == 0)
		*value = otherwise;
}

static void tuning_complete(struct kube_tuning *t)
{
	tuning_default(&t->attempt_ms, ATTEMPT_MS);
	tuning_default(&t->watch_silence_ms, WATCH_SILENCE_MS);
	tuning_default(&t->watch_backoff_ms, WATCH_BACKOFF_MS);
	tuning_default(&t->watch_backoff_most_ms, WATCH_BACKOFF_MOST_MS);
	tuning_default(&t->watch_timeout_s, WATCH_TIMEOUT_S);
	tuning_default(&t->fill_ms, FILL_MS);
	tuning_default(&t->resync_ms, LOOK_MS);
	tuning_default(&t->mistake_ms, MISTAKE_MS);
	tuning_default(&t->late_ms, LATE_MS);
	tuning_default(&t->page, LIMIT_KUBE_PAGE);
}

static struct kube *kube_destroy(struct kube *k)
{
	http_free(k->http);
	kube_watches_free(k);
	kube_versions_free(k);
	kube_config_free(k->config);
	kube_limiter_destroy(&k->limiter);
	kube_indeterminate_destroy(&k->indeterminate);
	pthread_mutex_destroy(&k->lock);
	free(k->user_agent);
	free(k->field_manager);
	free(k);
	return NULL;
}

static int start_engine(struct kube *k, struct err *err)
{
	struct kube_access *access = kube_config_get(k->config, false);
	int rc = http_new(access->endpoint, &k->tuning.http, &k->http, err);
	kube_config_put(k->config, access);
	return rc;
}

int kube_new_tuned(const struct kube_options *o, const struct kube_tuning *tuning,
                   struct kube **ret, struct err *err)
{
	struct kube_source source = { .kubeconfig = o->kubeconfig,
		                      .context = o->context,
		                      .service_account_dir = o->service_account_dir };
	const char *agent = o->user_agent ? o->user_agent : "snap-csi";
	struct kube *k = xcalloc(1, sizeof(*k));
	if (tuning)
		k->tuning = *tuning;
	tuning_complete(&k->tuning);
	pthread_mutex_init(&k->lock, NULL);
	kube_trim_init(k);
	kube_limiter_init(&k->limiter, o->qps, o->burst);
	kube_indeterminate_init(&k->indeterminate, k->tuning.late_ms);
	k->user_agent = xstrdup(agent);
	k->field_manager = xstrndup(agent, strcspn(agent, "/"));
	if (kube_config_new(&source, endpoint_changed, k, &k->config, err) ||
	    start_engine(k, err)) {
		kube_destroy(k);
		return -1;
	}
	*ret = k;
	return 0;
}

int kube_new(const struct kube_options *options, struct kube **ret, struct err *err)
{
	return kube_new_tuned(options, NULL, ret, err);
}

struct kube *kube_free(struct kube *k)
{
	if (!k)
		return NULL;
	http_stop(k->http);
	kube_limiter_stop(&k->limiter);
	{
		WITH_LOCK(&k->lock);
		k->stopping = true;
		kube_watches_stop(k);
		wait_queue_wake(&k->changed);
		while (k->users > 0)
			IGNORE_RESULT(wait_queue_wait(&k->changed, &k->lock, deadline_never()));
	}
	return kube_destroy(k);
}

void kube_enter(struct kube *k)
{
	WITH_LOCK(&k->lock);
	k->users++;
}

void kube_leave(struct kube *k)
{
	WITH_LOCK(&k->lock);
	/*
	 * Only kube_free() waits for this wake-up; threads that sleep before a retry stay asleep.
	 */
	if (--k->users == 0)
		wait_queue_wake(&k->changed);
}
