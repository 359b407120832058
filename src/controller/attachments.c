/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds attachments. The index answers without a request. Before a call is refused because of an
 * entry, the attachment is re-read, and an entry that the read disproves is dropped from the index.
 *
 * Without the index, attachments are listed. Because the API has no selector for spec fields, the
 * driver's own attachments carry labels. Attachments created by the Go plugin or by hand have no
 * labels; all of them are listed with "!label". One call lists for all calls that wait at that time
 * (attachment_lists.h). A label only finds an attachment; the attachment's spec determines its
 * volume and node.
 */
#include "controller/attachments.h"

#include <assert.h>

#include "volume/context_keys.h"
#include "common/str.h"
#include "controller/attachment_index.h"
#include "controller/attachment_lists.h"
#include "controller/names.h"

void attachment_label(const struct controller *c, struct json *object, const char *node,
                      const char *volume)
{
	struct json *labels = json_sub(json_sub(object, "metadata"), "labels");
	char value[LABEL_VALUE_MAX + 1];

	json_set_str(labels, LABEL_MANAGED_BY, c->driver_name);
	label_value(volume, value);
	json_set_str(labels, LABEL_VOLUME, value);
	label_value(node, value);
	json_set_str(labels, LABEL_NODE, value);
}

typedef int each_fn(void *arg, const struct json *item, struct err *err);

/* Like attachment_index_ready(), for a driver with or without an index. */
static int index_ready(const struct controller *c, struct deadline d, struct err *err)
{
	return c->attachments ? attachment_index_ready(c->attachments, d, err) : INDEX_UNUSABLE;
}

/* Results of reading an attachment that the index has: 0, REFUTED, or -1. */
enum { REFUTED = 1 };

/*
 * Reads the attachment. Its name may now belong to the same volume on another node; the index is
 * then updated first.
 */
static int read_ref(const struct controller *c, const char *volume, const struct attachment_ref *p,
                    struct deadline d, struct json **ret, struct err *err)
{
	struct dpu_attachment_key key;
	char ref[OBJECT_REF_MAX];
	int rc = *p->name ? kube_get(c->kube, &dpu_attachment_kind, c->namespace, p->name, d, ret,
	                             err)
	                  : KUBE_ABSENT;

	if (rc < 0)
		return err_wrap(err, "%s", object_ref(c, &dpu_attachment_kind, p->name, ref));
	key = dpu_attachment_key(*ret);
	if (rc == 0 && str_eq(key.volume, volume) && str_eq(key.node, p->node))
		return 0;
	if (rc == 0)
		attachment_there(c, *ret);
	if (c->attachments)
		attachment_index_drop(c->attachments, volume, p);
	return REFUTED;
}

static int each_ref(const struct controller *c, const char *volume, const struct attachment_refs *p,
                    each_fn *fn, void *arg, struct deadline d, struct err *err)
{
	for (size_t i = 0; i < p->n; i++) {
		struct json *item AUTO(json_free) = NULL;
		int rc = read_ref(c, volume, &p->v[i], d, &item, err);

		/* fn checks its current volume and node. */
		if (rc == 0 || (rc == REFUTED && item))
			rc = fn(arg, item, err);
		else if (rc == REFUTED)
			continue;
		if (rc)
			return rc;
	}
	return 0;
}

/*
 * An additional return value: all attachments are being re-read; retry with the index after that.
 */
enum { NOT_READY = 2 };

static int each_of_index(const struct controller *c, const char *volume, each_fn *fn, void *arg,
                         struct deadline d, struct err *err)
{
	struct attachment_refs p AUTO(attachment_refs_clear) = { .n = 0 };

	if (!attachment_index_find(c->attachments, volume, NULL, ATTACHMENT_ANY_AGE, SIZE_MAX, &p))
		return NOT_READY;
	return each_ref(c, volume, &p, fn, arg, d, err) < 0 ? -1 : 0;
}

/* The attachments of one volume that lists have found. */
struct listed_refs {
	const char *volume;
	struct attachment_refs refs;
};

static void find_refs(void *arg, const struct attachment_table *t)
{
	struct listed_refs *l = arg;

	attachment_table_find(t, l->volume, NULL, ATTACHMENT_ANY_AGE, SIZE_MAX, &l->refs);
}

static int each_of_lists(const struct controller *c, const char *volume, each_fn *fn, void *arg,
                         struct deadline d, struct err *err)
{
	static const enum attachment_listed both[] = { ATTACHMENTS_OF_VOLUME,
		                                       ATTACHMENTS_UNLABELLED };
	int rc = 0;

	for (size_t i = 0; i < ARRAY_LEN(both) && rc == 0; i++) {
		struct listed_refs l = { .volume = volume };

		rc = attachment_lists_ask(c->lists, c, both[i], volume, d, find_refs, &l, err);
		if (rc == 0)
			rc = each_ref(c, volume, &l.refs, fn, arg, d, err);
		attachment_refs_clear(&l.refs);
	}
	return rc < 0 ? -1 : 0;
}

int attachments_each(const struct controller *c, const char *volume, each_fn *fn, void *arg,
                     struct deadline d, struct err *err)
{
	int rc;

	do {
		rc = index_ready(c, d, err);
		if (rc < 0)
			return -1;
		rc = (rc ? each_of_lists : each_of_index)(c, volume, fn, arg, d, err);
	} while (rc == NOT_READY);
	return rc;
}

/* Adds the attachments of the volume that a list contains. */
static void scan_volume(void *arg, const struct attachment_table *t)
{
	struct attachment_scan *scan = arg;
	struct attachment_refs found AUTO(attachment_refs_clear) = { .n = 0 };

	attachment_table_find(t, scan->volume, scan->node, ATTACHMENT_ANY_AGE, 1, &found);
	if (scan->node && attachment_table_is_on(t, scan->volume, scan->node))
		scan->here = true;
	if (found.n && !scan->n_elsewhere) {
		scan->elsewhere = TAKE(found.v[0].node);
		scan->elsewhere_name = TAKE(found.v[0].name);
	}
	scan->n_elsewhere += found.all;
}

/*
 * Counts only this driver's attachments, because others may use functions that are not in its
 * limit. Attachments with labels are counted by attachments_count().
 */
static void scan_unlabelled(void *arg, const struct attachment_table *t)
{
	struct attachment_scan *scan = arg;

	scan_volume(scan, t);
	if (scan->node)
		scan->unlabelled = attachment_table_count(t, scan->node).ours;
}

static void count_labelled(void *arg, const struct attachment_table *t)
{
	struct attachment_scan *scan = arg;

	scan->on_node = scan->unlabelled + attachment_table_count(t, scan->node).ours;
}

static int scan_lists(const struct controller *c, struct deadline d, struct attachment_scan *scan,
                      struct err *err)
{
	if (attachment_lists_ask(c->lists, c, ATTACHMENTS_OF_VOLUME, scan->volume, d, scan_volume,
	                         scan, err) ||
	    attachment_lists_ask(c->lists, c, ATTACHMENTS_UNLABELLED, NULL, d, scan_unlabelled,
	                         scan, err))
		return -1;
	scan->on_node = scan->unlabelled;
	return 0;
}

/* Reads the attachments one by one until one exists. */
static int confirm_elsewhere(const struct controller *c, struct deadline d,
                             struct attachment_scan *scan, struct err *err)
{
	for (;;) {
		struct attachment_refs p AUTO(attachment_refs_clear) = { .n = 0 };
		struct json *item AUTO(json_free) = NULL;
		int rc;

		if (!attachment_index_find(c->attachments, scan->volume, scan->node,
		                           scan->older_only ? scan->than : ATTACHMENT_ANY_AGE, 1,
		                           &p))
			return NOT_READY;
		if (!p.n)
			return 0;
		rc = read_ref(c, scan->volume, &p.v[0], d, &item, err);
		if (rc < 0)
			return -1;
		if (rc == REFUTED)
			continue;
		scan->n_elsewhere = p.all;
		scan->elsewhere = TAKE(p.v[0].node);
		scan->elsewhere_name = TAKE(p.v[0].name);
		return 0;
	}
}

static int scan_index(const struct controller *c, struct deadline d, struct attachment_scan *scan,
                      struct err *err)
{
	struct attachment_count n = { .all = 0 };

	scan->by_index = true;
	scan->here = false;
	if (scan->node) {
		n = attachment_index_count(c->attachments, scan->node);
		if (!attachment_index_is_on(c->attachments, scan->volume, scan->node, &scan->here))
			return NOT_READY;
	}
	scan->on_node = n.ours;
	scan->unlabelled = n.unlabelled;
	return scan->anywhere ? 0 : confirm_elsewhere(c, d, scan, err);
}

int attachments_scan(const struct controller *c, struct deadline d, struct attachment_scan *scan,
                     struct err *err)
{
	bool lists_only = scan->older_only && scan->than == ATTACHMENT_UNSEEN;
	int rc;

	while ((rc = lists_only ? INDEX_UNUSABLE : index_ready(c, d, err)) == 0) {
		rc = scan_index(c, d, scan, err);
		if (rc != NOT_READY)
			return rc;
	}
	if (rc < 0)
		return -1;
	scan->by_index = scan->here = false;
	scan->unlabelled = 0;
	return scan_lists(c, d, scan, err);
}

int attachments_count(const struct controller *c, struct deadline d, struct attachment_scan *scan,
                      struct err *err)
{
	assert(scan->node);
	return attachment_lists_ask(c->lists, c, ATTACHMENTS_ON_NODE, scan->node, d, count_labelled,
	                            scan, err);
}

bool attachments_know_node(const struct controller *c, const char *node)
{
	return c->attachments && attachment_index_count(c->attachments, node).all > 0;
}

bool attachments_know_uid(const struct controller *c, const char *volume, const char *node,
                          char ret[ATTACHMENT_UID_MAX + 1])
{
	return c->attachments && attachment_index_uid(c->attachments, volume, node, ret);
}

void attachment_there(const struct controller *c, const struct json *object)
{
	const struct attachment_fact fact = attachment_fact_of(object, c->driver_name);

	if (c->attachments)
		attachment_index_made(c->attachments, &fact);
}

void attachment_gone(const struct controller *c, const char *volume, const char *node,
                     const char *uid)
{
	if (c->attachments)
		attachment_index_gone(c->attachments, volume, node, uid);
}

void attachment_scan_clear(struct attachment_scan *scan)
{
	free(scan->elsewhere);
	free(scan->elsewhere_name);
	scan->elsewhere = scan->elsewhere_name = NULL;
}
