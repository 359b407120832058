/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resume point of a watch is the newest resourceVersion that the watch has delivered. This file
 * detects that the server is at an earlier version.
 *
 * Versions of a collection only grow. After the watch has delivered version N, a created object or
 * a list has a version of at least N, whichever API server answers, because both go through etcd. A
 * lower version proves that etcd's data were replaced by older data. A watch from N is then silent
 * until the new history has passed N, and misses all earlier changes of that history.
 *
 * Answers from an API server's cache (resourceVersion=0), answers to a PATCH (which may change
 * nothing) and further pages of a list prove nothing, and are not compared.
 */
#include "kube/kube_watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"

static uint64_t number_of(const char *version)
{
	return kube_version_number((struct line_span) { version, version ? strlen(version) : 0 });
}

/* Returns true, and logs a warning, if the version is older. */
static bool is_older(const struct kube_kind *kind, uint64_t version, uint64_t than)
{
	if (version == 0 || version >= than)
		return false;
	log_limited(LOG_WARNING, 30,
	            "watch %s: the API server is at resourceVersion %" PRIu64 " (expected %" PRIu64
	            " or later): its data are older than before, as after a restore of etcd; see "
	            "docs/operate/backup.md, \"After a restore of etcd\"",
	            kind->plural, version, than);
	return true;
}

struct kube_watch *watch_find(struct kube *k, const struct kube_kind *kind, const char *ns)
{
	struct kube_watch *w;
	assert_locked(&k->lock);
	for (w = k->watches; w; w = w->next)
		if (str_eq(w->kind.plural, kind->plural) && str_eq(w->kind.group, kind->group) &&
		    str_eq(w->kind.version, kind->version) && (w->ns == ns || str_eq(w->ns, ns)))
			break;
	return w;
}

/* ---- the engine's thread ---- */

void watch_set_version(struct kube_watch *w, struct line_span version)
{
	WITH_LOCK(&w->k->lock);
	snprintf(w->version, sizeof(w->version), "%.*s", (int)version.n, version.at);
}

bool watch_is_reverted(const struct kube_watch *w, struct line_span version)
{
	return is_older(&w->kind, kube_version_number(version), number_of(w->version));
}

/*
 * Call it when an answer or a bookmark contradicts the resume point. Returns true if the watch must
 * list again.
 */
static bool may_revert(struct kube_watch *w)
{
	int64_t now = monotonic_ns();
	if (w->reverted_at &&
	    now - w->reverted_at < w->k->tuning.watch_silence_ms * INT64_C(1000000))
		return false;
	w->reverted_at = now;
	return true;
}

bool watch_is_refuted(struct kube_watch *w, struct line_span version)
{
	return watch_is_reverted(w, version) && may_revert(w);
}

bool watch_consume_refuted(struct kube_watch *w)
{
	{
		WITH_LOCK(&w->k->lock);
		if (!w->waits.live || w->refuted != w->lists)
			return false;
		w->refuted = 0;
	}
	return may_revert(w);
}

/* ---- callers' threads ---- */

struct kube_resume_point kube_resume_point_of(struct kube *k, const struct kube_kind *kind,
                                              const char *ns)
{
	const struct kube_watch *w;
	WITH_LOCK(&k->lock);
	w = watch_find(k, kind, ns);
	if (!w || !w->waits.live)
		return (struct kube_resume_point) { 0 };
	return (struct kube_resume_point) { w->lists, number_of(w->version) };
}

void kube_resume_point_compare(struct kube *k, const struct kube_kind *kind, const char *ns,
                               struct kube_resume_point before, const char *version)
{
	struct kube_watch *w;
	if (!is_older(kind, number_of(version), before.version))
		return;
	WITH_LOCK(&k->lock);
	w = watch_find(k, kind, ns);
	w->refuted = before.lists;
	watch_kick(w);
}
