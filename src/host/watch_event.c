/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches the text of an event for the node's name before it parses the text, because a namespace
 * may have thousands of attachments of other nodes. The deletion of an invalid object is processed
 * as well.
 */
#include "host/watch_priv.h"

#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "kube/kube_event.h"

/* Returns true if the event may concern this node, or if only a parser can decide that. */
static bool event_may_concern(const struct watch *w, struct line_span object)
{
	struct kube_member spec = { .name = "spec" }, node = { .name = "dpuNodeName" };
	struct line_span name;

	if (!kube_members(object, &spec, 1) || !kube_members(spec.value, &node, 1) ||
	    !kube_plain_text(node.value, &name))
		return true;
	return name.n == strlen(w->a->node) && memcmp(name.at, w->a->node, name.n) == 0;
}

void watch_apply(struct watch *w, const char *uid, const struct attachment_file *f)
{
	int64_t now = monotonic_ns();

	WITH_LOCK(&w->lock);
	if (f)
		tracked_update(&w->table, f, now);
	else
		tracked_gone(&w->table, uid, now);
	w->notified = true;
	wait_queue_wake(&w->changed);
}

static void event_consume_object(struct watch *w, bool deleted, const char *text, size_t n)
{
	struct attachment_file f AUTO(attachment_file_clear) = { .tree = NULL };
	struct json *tree = NULL;
	struct err err = ERR_INIT;

	if (!event_may_concern(w, (struct line_span) { text, n }))
		return;
	if (json_parse("an attachment", text, n, &tree, &err)) {
		log_limited(LOG_WARNING, 60, "an attachment cannot be read: %s", err.msg);
		return;
	}
	attachment_take(tree, &f);
	if (!str_eq(f.is.key.node, w->a->node) || !*f.is.key.uid)
		return;
	if (*f.fault)
		log_limited(LOG_WARNING, 60, "attachment %s cannot be evaluated: %s", f.is.key.name,
		            f.fault);
	watch_apply(w, f.is.key.uid, deleted ? NULL : &f);
}

static void set_refused(struct watch *w, const char *text, size_t n)
{
	WITH_LOCK(&w->lock);
	snprintf(w->refused, sizeof(w->refused), "%.*s", (int)n, text);
	w->notified = true;
	wait_queue_wake(&w->changed);
}

static void event_list_begin(struct watch *w)
{
	WITH_LOCK(&w->lock);
	tracked_list_begin(&w->table);
}

static void event_list_end(struct watch *w)
{
	WITH_LOCK(&w->lock);
	tracked_list_end(&w->table, monotonic_ns());
	w->complete = true;
}

void watch_event(void *arg, enum kube_follow_event news, const char *text, size_t n)
{
	struct watch *w = arg;

	switch (news) {
	case KUBE_FOLLOW_BEGIN:
		event_list_begin(w);
		break;
	case KUBE_FOLLOW_LISTED:
	case KUBE_FOLLOW_CHANGED:
	case KUBE_FOLLOW_DELETED:
		event_consume_object(w, news == KUBE_FOLLOW_DELETED, text, n);
		break;
	case KUBE_FOLLOW_COMPLETE:
		event_list_end(w);
		set_refused(w, "", 0);
		break;
	case KUBE_FOLLOW_REFUSED:
		set_refused(w, text, n);
		break;
	}
}
