/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding attachments without reading all of them. The API has no selector for spec fields, so ours
 * carry labels. Attachments by the Go plugin or by hand have none; they are listed with "!label",
 * so where there are many of them, each scan costs a list of them all. A label only finds an
 * attachment; its spec decides what it is.
 */
#include "controller/attachments.h"

#include <assert.h>

#include "volume/context_keys.h"
#include "common/mem.h"
#include "common/str.h"
#include "controller/names.h"

#define WITHOUT_LABEL "!" LABEL_VOLUME

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

static int list(const struct controller *c, const char *selector, each_fn *fn, void *arg,
                struct deadline d, struct err *err)
{
	return kube_list(c->kube, &dpu_attachment_kind, c->namespace, selector, fn, arg, d, err);
}

int attachments_each(const struct controller *c, const char *volume, each_fn *fn, void *arg,
                     struct deadline d, struct err *err)
{
	char value[LABEL_VALUE_MAX + 1];
	char *selector AUTO(free) = NULL;

	label_value(volume, value);
	selector = xasprintf(LABEL_VOLUME "=%s", value);
	if (list(c, selector, fn, arg, d, err))
		return -1;
	return list(c, WITHOUT_LABEL, fn, arg, d, err);
}

struct pass {
	const struct controller *c;
	struct attachment_scan *scan;
};

/* Only this driver's attachments count: others may use functions that are not in its limit. */
static int count(void *arg, const struct json *item, struct err *err)
{
	const struct pass *p = arg;
	const struct json *labels = json_at(item, "metadata.labels");
	struct dpu_attachment_key key = dpu_attachment_key(item);

	(void)err;
	if (str_eq(key.node, p->scan->node) &&
	    str_eq(json_text(json_member(labels, LABEL_MANAGED_BY)), p->c->driver_name))
		p->scan->on_node++;
	return 0;
}

static int look_at(void *arg, const struct json *item, struct err *err)
{
	const struct pass *p = arg;
	struct attachment_scan *scan = p->scan;
	struct dpu_attachment_key key = dpu_attachment_key(item);
	bool labelled = json_member(json_at(item, "metadata.labels"), LABEL_VOLUME);

	/* attachments_count() finds the labelled ones, by their node's label. */
	if (scan->node && !labelled)
		(void)count(arg, item, err);
	if (!str_eq(key.volume, scan->volume))
		return 0;
	if (scan->node && str_eq(key.node, scan->node)) {
		scan->here = true;
		return 0;
	}
	if (!scan->n_elsewhere++) {
		scan->elsewhere = xstrdup(key.node);
		scan->elsewhere_name = xstrdup(key.name);
	}
	return 0;
}

int attachments_scan(const struct controller *c, struct deadline d, struct attachment_scan *scan,
                     struct err *err)
{
	struct pass pass = { .c = c, .scan = scan };

	return attachments_each(c, scan->volume, look_at, &pass, d, err);
}

int attachments_count(const struct controller *c, struct deadline d, struct attachment_scan *scan,
                      struct err *err)
{
	struct pass pass = { .c = c, .scan = scan };
	char value[LABEL_VALUE_MAX + 1];
	char *selector AUTO(free) = NULL;

	assert(scan->node);
	label_value(scan->node, value);
	selector = xasprintf(LABEL_NODE "=%s," LABEL_VOLUME, value);
	return list(c, selector, count, &pass, d, err);
}

void attachment_scan_clear(struct attachment_scan *scan)
{
	free(scan->elsewhere);
	free(scan->elsewhere_name);
	scan->elsewhere = scan->elsewhere_name = NULL;
}
