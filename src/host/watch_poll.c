/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Polls because a server may leave a watch unanswered for minutes while it answers other requests.
 * Sends one GET for each attachment of this host. With lists, an overloaded server would send the
 * attachments of all nodes to all hosts.
 */
#include "host/watch_priv.h"

#include "common/cleanup.h"
#include "dpf/dpu_attachment.h"

/* A stream that ends is normally reopened at once; the poll starts only after this time, in ms. */
#define CLOSED_MS 5000
#define ANSWER_MS 5000

static bool is_closed(struct watch *w)
{
	char why[KUBE_WATCH_ERROR_MAX];
	struct kube_follow *f;

	{
		WITH_LOCK(&w->lock);
		f = w->follow;
	}
	return f && kube_follow_closed_ms(f, why) > CLOSED_MS;
}

static void collect_names(struct watch *w, struct strs *names, struct strs *uids)
{
	WITH_LOCK(&w->lock);
	for (const struct tracked *f = w->table.first; f && !w->stop; f = f->next)
		if (!f->gone) {
			strs_add(names, f->name);
			strs_add(uids, f->uid);
		}
}

static int poll_attachment(struct watch *w, const char *name, const char *uid)
{
	struct attachment_file f AUTO(attachment_file_clear) = { .tree = NULL };
	struct deadline d = deadline_in_ms(ANSWER_MS);
	struct json *tree = NULL;
	struct err ignored = ERR_INIT;
	int rc;

	d.cancel = &w->stopping;
	rc = kube_get(w->kube, &dpu_attachment_kind, w->a->namespace, name, d, &tree, &ignored);
	if (rc < 0)
		return -1;
	if (rc || !str_eq(dpu_attachment_key(tree).uid, uid)) {
		json_free(tree);
		watch_apply(w, uid, NULL);
	} else {
		attachment_take(tree, &f);
		watch_apply(w, uid, &f);
	}
	return 0;
}

void watch_poll(struct watch *w)
{
	struct strs names AUTO(strs_clear) = STRS_INIT, uids AUTO(strs_clear) = STRS_INIT;

	if (!is_closed(w))
		return;
	collect_names(w, &names, &uids);
	for (size_t i = 0; i < names.n; i++)
		if (poll_attachment(w, names.v[i], uids.v[i]))
			break;
}
