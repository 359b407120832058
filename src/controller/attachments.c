/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scan of all attachments.  The API has no selector for spec fields and attachments of other makers
 * carry no label, so each is looked at once and forgotten: memory follows one page.
 */
#include "controller/attachments.h"

#include "common/context_keys.h"
#include "common/mem.h"
#include "common/str.h"

struct pass {
	const struct controller *c;
	struct attachment_scan *scan;
};

static bool counts_on_node(const struct pass *p, const struct json *item,
                           const struct dpu_attachment_key *key)
{
	const struct json *labels = json_at(item, "metadata.labels");

	/* Others' attachments may be of functions that the limit is not about. */
	return p->scan->node && str_eq(key->node, p->scan->node) &&
	       str_eq(json_text(json_member(labels, LABEL_MANAGED_BY)), p->c->driver_name) &&
	       str_eq(json_str(item, "spec.functionType"), p->scan->pf ? "pf" : "vf");
}

static int look_at(void *arg, const struct json *item, struct err *err)
{
	const struct pass *p = arg;
	struct attachment_scan *scan = p->scan;
	struct dpu_attachment_key key = dpu_attachment_key(item);

	(void)err;
	if (counts_on_node(p, item, &key))
		scan->on_node++;
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

	return kube_list(c->kube, &dpu_attachment_kind, c->namespace, NULL, look_at, &pass, d, err);
}

void attachment_scan_clear(struct attachment_scan *scan)
{
	free(scan->elsewhere);
	free(scan->elsewhere_name);
	scan->elsewhere = scan->elsewhere_name = NULL;
}
