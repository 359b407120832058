/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller's side of a follower. The watch decides which events the follower receives, and when
 * (kube_watch.c, kube_watch_all.c). Owns nothing, because a struct kube_follow lives and ends with
 * its watch.
 */
#include "kube/kube_follow.h"

#include <assert.h>

#include "common/mem.h"
#include "kube/kube_watch.h"

struct kube_follow *kube_follow(struct kube *k, const struct kube_kind *kind, const char *ns,
                                kube_follow_fn *fn, void *arg)
{
	struct kube_follow *f = xcalloc(1, sizeof(*f));
	f->fn = fn;
	f->arg = arg;
	WITH_LOCK(&k->lock);
	f->w = watch_for(k, kind, ns);
	assert(!f->w->follow && !f->w->waits.first);
	f->w->follow = f;
	watch_kick(f->w);
	return f;
}

int64_t kube_follow_closed_ms(struct kube_follow *f, char why[KUBE_WATCH_ERROR_MAX])
{
	WITH_LOCK(&f->w->k->lock);
	snprintf(why, KUBE_WATCH_ERROR_MAX, "%s", f->w->down);
	if (!f->w->closed_at)
		return 0;
	return 1 + (monotonic_ns() - f->w->closed_at) / INT64_C(1000000);
}
