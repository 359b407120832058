/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the hosts of the attachments: DPF's DPUNode and its DPUs, whose state is the cause of many
 * waits. The driver's Role permits it to get DPUNodes and to list DPUs. Changes only the tree's
 * `nodes` and findings.
 */
#include "inspect/api_scan.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "dpf/dpu_node.h"

#define UNREADY_S 10 /* a DPU that became not Ready less than this long ago may be starting */

struct dpu_host {
	const char *name;
	/* an attachment to this host is not ready, or waits to be attached or detached */
	bool troubled;
	struct json *facts;
	struct dpu_count dpus;
};

struct dpu_hosts {
	struct api_scan *l;
	struct dpu_host *v; /* sorted by name */
	size_t n;
	struct api_sort busy, unready, outdated, unusable;
};

static int hosts_by_name(const void *a, const void *b)
{
	return strcmp(((const struct dpu_host *)a)->name, ((const struct dpu_host *)b)->name);
}

static struct dpu_host *hosts_find(const struct dpu_hosts *h, const char *name)
{
	const struct dpu_host wanted = { .name = name };

	return h->n ? bsearch(&wanted, h->v, h->n, sizeof(*h->v), hosts_by_name) : NULL;
}

static bool is_settled(const struct json *facts)
{
	return api_seconds(facts, "deleting") < 0 &&
	       (api_is(facts, "ready") || api_is(facts, "attached"));
}

/* Adds the hosts of a list to v, or only counts them if v is NULL. */
static size_t hosts_add(struct dpu_host *v, const struct json *list)
{
	size_t n = 0;

	json_foreach (item, list)
		if (dns1123_subdomain(api_text(item, "node"))) {
			if (v)
				v[n] = (struct dpu_host) { .name = api_text(item, "node"),
					                   .troubled = !is_settled(item) };
			n++;
		}
	return n;
}

static size_t hosts_add_all(struct dpu_host *v, const struct json *tree)
{
	size_t n = 0;

	json_foreach (volume, json_member(tree, "volumes")) {
		const struct json *api = json_member(volume, "api");

		n += hosts_add(v ? v + n : NULL, json_member(api, "attachments"));
		n += hosts_add(v ? v + n : NULL, json_member(api, "volumeAttachments"));
	}
	return n;
}

static void hosts_collect(struct dpu_hosts *h)
{
	size_t all = hosts_add_all(NULL, h->l->r->tree);

	if (!all)
		return;
	h->v = xcalloc(all, sizeof(*h->v));
	hosts_add_all(h->v, h->l->r->tree);
	qsort(h->v, all, sizeof(*h->v), hosts_by_name);
	for (size_t i = 0; i < all; i++) {
		const struct dpu_host next = h->v[i];

		if (h->n && str_eq(h->v[h->n - 1].name, next.name))
			h->v[h->n - 1].troubled |= next.troubled;
		else
			h->v[h->n++] = next;
	}
}

static void hosts_add_facts(struct dpu_hosts *h)
{
	struct json *nodes = inspect_list(json_sub(h->l->r->tree, "api"), "nodes");

	for (size_t i = 0; i < h->n; i++) {
		h->v[i].facts = json_object();
		json_set_str(h->v[i].facts, "name", h->v[i].name);
		h->v[i].dpus.node = h->v[i].name;
		json_append(nodes, h->v[i].facts);
	}
}

/* Reads the DPUNode. Returns false if no further DPUNode can be read. */
static bool host_read_dpu_node(struct api_scan *l, struct dpu_host *host)
{
	struct json *object AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	int rc = kube_get(l->c.kube, &dpu_node_kind, l->c.namespace, host->name, l->d, &object,
	                  &err);

	if (rc < 0)
		api_unread(l, "could not determine whether a host is being rebooted or updated",
		           err.msg);
	else if (rc == KUBE_ABSENT)
		json_set_bool(host->facts, "missing", true);
	else
		json_set(host->facts, "dpuNode", api_dpu_node_facts(&l->eye, object));
	return rc >= 0;
}

/*
 * Reads the DPUNodes one by one, at most as many as the report can name. Hosts with waiting
 * attachments are read first.
 */
static void hosts_read_dpu_nodes(struct dpu_hosts *h)
{
	size_t n = 0;

	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < h->n; i++) {
			if (h->v[i].troubled != (pass == 0))
				continue;
			if (n++ == API_SORT_MOST) {
				api_unread(
					h->l, "the DPUNodes of some hosts",
					"at most 100 are read; `inspect volume` reads those of one "
					"volume");
				return;
			}
			if (!host_read_dpu_node(h->l, &h->v[i]))
				return;
		}
}

static int hosts_read_dpu(void *arg, const struct json *item, struct err *err)
{
	struct dpu_hosts *h = arg;
	const char *node = json_str(item, "spec.dpuNodeName");
	struct dpu_host *host = node ? hosts_find(h, node) : NULL;

	(void)err;
	if (!host)
		return 0;
	dpu_count_add(&host->dpus, item);
	json_append(inspect_list(host->facts, "dpus"), api_dpu_facts(&h->l->eye, item));
	return 0;
}

/* ---- findings ---- */

static void host_check_busy(struct dpu_hosts *h, const struct dpu_host *host)
{
	struct str why AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	char *ref AUTO(free) = api_ref(h->l, &dpu_node_kind, host->name);
	char *next AUTO(free) = NULL;

	json_foreach (text, json_at(host->facts, "dpuNode.busy"))
		str_addf(&why, "%s%s", why.len ? ", " : "", json_text(text));
	if (!why.len || !api_one_more(&h->busy))
		return;
	next = xasprintf("volumes on node %s may wait until DPF has finished: kubectl -n "
	                 "%s describe dpunodes %s shows the reason, a manual reboot for example",
	                 host->name, h->l->c.namespace, host->name);
	inspect_finding(h->l->r, ref, next, "is not in service: %s", why.ptr);
}

static void dpu_report_unready(struct dpu_hosts *h, const struct dpu_host *host,
                               const struct json *dpu, const char *ref)
{
	const char *phase = api_text(dpu, "phase");
	char *next AUTO(free) = xasprintf(
		"wait for DPF to make it ready: kubectl -n %s describe dpus %s; the attachments "
		"of node %s are not ready until then",
		h->l->c.namespace, api_text(dpu, "name"), host->name);

	inspect_finding(h->l->r, ref, next, "the DPU of node %s is not Ready%s%s%s: %s", host->name,
	                *phase ? " (phase " : "", phase, *phase ? ")" : "",
	                api_text(dpu, "reason"));
}

static void dpu_check(struct dpu_hosts *h, const struct dpu_host *host, const struct json *dpu)
{
	char *ref AUTO(free) = api_ref(h->l, &dpu_kind, api_text(dpu, "name"));
	int64_t since = api_seconds(dpu, "since");
	char *next AUTO(free) = NULL;

	if (!api_is(dpu, "ready") && (since < 0 || since >= UNREADY_S) && api_one_more(&h->unready))
		dpu_report_unready(h, host, dpu, ref);
	if (!*api_text(dpu, "outdated") || !api_one_more(&h->outdated))
		return;
	next = xasprintf(
		"DPF must provision the DPU again, which removes the devices of its volumes: "
		"drain node %s first; the DPUSet of the DPU shows when this happens",
		host->name);
	inspect_finding(h->l->r, ref, next, "the DPU of node %s is outdated: %s", host->name,
	                api_text(dpu, "outdated"));
}

/* Reports which rule of dpu_count_is_usable() is broken. */
static void host_report_unusable(struct dpu_hosts *h, const struct dpu_host *host, const char *ref)
{
	static const char annotation[] = DPU_ANNOTATION_PREFERRED;
	const struct dpu_count *n = &host->dpus;
	const char *ns = h->l->c.namespace;
	char *next AUTO(free) = NULL;

	if (n->all > 1 && n->preferred != 1) {
		next = xasprintf("annotate exactly one: kubectl -n %s annotate dpus NAME %s=", ns,
		                 annotation);
		inspect_finding(h->l->r, ref, next,
		                "DPF can select none of its %zu DPUs (%zu have the annotation %s, "
		                "expected 1), and needs one to attach and to detach",
		                n->all, n->preferred, annotation);
		return;
	}
	next = xasprintf(
		"check that a DPUSet selects it (kubectl -n %s get dpusets,dpudevices). If the "
		"host was removed permanently, delete the DPUNode, and DPF detaches: kubectl -n "
		"%s delete dpunodes %s",
		ns, ns, host->name);
	if (n->all)
		inspect_finding(h->l->r, ref, next,
		                "its DPU is being deleted, and DPF needs one to attach and to "
		                "detach");
	else
		inspect_finding(h->l->r, ref, next,
		                "has no DPU (0 DPUs have spec.dpuNodeName %s, expected 1), and DPF "
		                "needs one to attach and to detach",
		                host->name);
}

static void hosts_check(struct dpu_hosts *h, bool dpus_are_known)
{
	for (size_t i = 0; i < h->n; i++) {
		const struct dpu_host *host = &h->v[i];
		char *ref AUTO(free) = api_ref(h->l, &dpu_node_kind, host->name);

		host_check_busy(h, host);
		json_foreach (dpu, json_member(host->facts, "dpus"))
			dpu_check(h, host, dpu);
		if (dpus_are_known && !api_is(host->facts, "missing") &&
		    !dpu_count_is_usable(&host->dpus) && api_one_more(&h->unusable))
			host_report_unusable(h, host, ref);
	}
}

void api_check_nodes(struct api_scan *l)
{
	const struct deadline all = l->d;
	struct dpu_hosts h = {
		.l = l,
		.busy = { l, "DPUNodes that are not in service", 0 },
		.unready = { l, "DPUs that are not Ready", 0 },
		.outdated = { l, "DPUs that are outdated", 0 },
		.unusable = { l, "DPUNodes without a DPU that DPF can use", 0 },
	};

	hosts_collect(&h);
	if (!h.n)
		return;
	hosts_add_facts(&h);
	l->d = deadline_clamp(all, l->causes_ms);
	hosts_read_dpu_nodes(&h);
	l->d = deadline_clamp(all, l->causes_ms);
	hosts_check(&h, api_read_optional(l, &dpu_kind, l->c.namespace, NULL,
	                                  "could not determine the state of the DPUs",
	                                  hosts_read_dpu, &h));
	l->d = all;
	free(h.v);
}
