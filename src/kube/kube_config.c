/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The current API server address and credentials, re-read when their files change.
 *
 * Each request first takes a reference to the current data. A check of the files costs up to six
 * stat() calls, so hundreds of requests per second share one check. One thread at a time reads the
 * files, outside the lock; during this time the other threads use the current data. The lock guards
 * `current`, all reference counts and `loading`.
 */
#include "kube/kube_access.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/deadline.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/wait_queue.h"

#define FAILED_PAUSE_NS INT64_C(1000000000)
#define LOOK_EVERY_NS INT64_C(20000000)

struct kube_config {
	pthread_mutex_t lock;
	struct wait_queue loaded;
	struct kube_access *current;
	bool loading;
	_Atomic int64_t looked_at; /* when the files were last checked; monotonic ns */
	/* after a failed reading: no new reading before this time; monotonic ns */
	int64_t not_before;
	char *kubeconfig, *context, *service_account_dir;
	void (*changed)(void *arg, const struct http_endpoint *endpoint);
	void *arg;
};

int kube_config_new(const struct kube_source *source,
                    void (*changed)(void *arg, const struct http_endpoint *endpoint), void *arg,
                    struct kube_config **ret, struct err *err)
{
	struct kube_access *first = NULL;
	struct kube_config *c;
	if (kube_access_load(source, &first, err))
		return -1;
	c = xcalloc(1, sizeof(*c));
	pthread_mutex_init(&c->lock, NULL);
	c->current = first;
	c->current->refs = 1;
	c->kubeconfig = xstrdup_or_null(source->kubeconfig);
	c->context = xstrdup_or_null(source->context);
	c->service_account_dir = xstrdup_or_null(source->service_account_dir);
	c->changed = changed;
	c->arg = arg;
	*ret = c;
	return 0;
}

struct kube_config *kube_config_free(struct kube_config *c)
{
	if (!c)
		return NULL;
	assert(!c->loading && c->current->refs == 1);
	kube_access_free(c->current);
	free(c->kubeconfig);
	free(c->context);
	free(c->service_account_dir);
	pthread_mutex_destroy(&c->lock);
	free(c);
	return NULL;
}

static void unref_locked(struct kube_config *c, struct kube_access *a)
{
	assert_locked(&c->lock);
	assert(a->refs > 0);
	if (--a->refs == 0)
		kube_access_free(a);
}

static struct kube_access *ref_current(struct kube_config *c)
{
	WITH_LOCK(&c->lock);
	c->current->refs++;
	return c->current;
}

void kube_config_put(struct kube_config *c, struct kube_access *a)
{
	WITH_LOCK(&c->lock);
	unref_locked(c, a);
}

/*
 * Returns true if this thread must replace `seen` by a new reading. If `force` is set and another
 * thread is reading, waits for that thread, whose result is newer than the credentials that the
 * server has refused.
 */
static bool access_claim_load(struct kube_config *c, const struct kube_access *seen, bool force)
{
	bool waited;
	WITH_LOCK(&c->lock);
	waited = c->loading;
	while (force && c->loading)
		IGNORE_RESULT(wait_queue_wait(&c->loaded, &c->lock, deadline_never()));
	if (c->loading || c->current != seen || (force && waited))
		return false;
	if (!force && monotonic_ns() < c->not_before)
		return false;
	c->loading = true;
	return true;
}

static void access_load(struct kube_config *c)
{
	struct kube_access *fresh = NULL;
	struct kube_source source = { .kubeconfig = c->kubeconfig,
		                      .context = c->context,
		                      .service_account_dir = c->service_account_dir };
	struct err err = ERR_INIT;
	if (kube_access_load(&source, &fresh, &err))
		log_limited(LOG_WARNING, 60,
		            "credentials changed and cannot be read, the old ones stay in use: %s",
		            err.msg);
	WITH_LOCK(&c->lock);
	c->loading = false;
	wait_queue_wake(&c->loaded);
	if (!fresh) {
		c->not_before = monotonic_ns() + FAILED_PAUSE_NS;
		return;
	}
	fresh->refs = 1;
	unref_locked(c, c->current);
	c->current = fresh;
	c->changed(c->arg, fresh->endpoint);
}

static bool is_stale(struct kube_config *c, const struct kube_access *a)
{
	int64_t now = monotonic_ns();
	if (now - atomic_load(&c->looked_at) < LOOK_EVERY_NS)
		return false;
	atomic_store(&c->looked_at, now);
	return kube_access_is_stale(a);
}

struct kube_access *kube_config_get(struct kube_config *c, bool force)
{
	struct kube_access *a = ref_current(c);
	if (!force && !is_stale(c, a))
		return a;
	if (access_claim_load(c, a, force))
		access_load(c);
	kube_config_put(c, a);
	return ref_current(c);
}
