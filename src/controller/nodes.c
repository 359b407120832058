/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of a node and their fallbacks. Nodes that were found are cached for some time
 * (node_cache.h), so that not every attach reads the node. The Go plugin reads no nodes, so under
 * its ClusterRole some of these reads are forbidden. After a refusal, the kind is not read again
 * for a minute, so that not every publish pays for failing requests. kube_get() trusts a refusal
 * only if the API server itself sent it, and sent it twice.
 */
#include "controller/nodes.h"

#include <string.h>

#include "common/cleanup.h"
#include "controller/attachments.h"
#include "controller/event_recorder.h"
#include "controller/names.h"
#include "controller/node_cache.h"
#include "dpf/dpu_node.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"

/* first pause after a refusal; doubled each time */
#define REFUSED_FOR_NS (INT64_C(60) * 1000000000)
#define REFUSED_MOST_NS (INT64_C(600) * 1000000000)

/* Result: the API server refuses reads of such objects, or does not have the kind. */
enum { UNREADABLE = 2 };

/*
 * Skips the kind during a pause that grows each time, because while a permission is missing, each
 * attempt costs a second and a log line. again_at is the value that this caller found before its
 * request. Many callers may have sent a request at once; the first refusal counts for all of them.
 */
static void rest_optional_kind(struct optional_kind *optional, int64_t again_at)
{
	int64_t pause = atomic_load(&optional->pause) * 2;

	if (pause == 0)
		pause = REFUSED_FOR_NS;
	if (pause > REFUSED_MOST_NS)
		pause = REFUSED_MOST_NS;
	if (atomic_compare_exchange_strong(&optional->again_at, &again_at, monotonic_ns() + pause))
		atomic_store(&optional->pause, pause);
}

/* The values of again_at of an optional kind, before this caller's request and during it. */
struct optional_request {
	int64_t again_at, mine;
};

/* Returns false if a refusal is recent, or if another caller is requesting the kind. */
static bool optional_kind_ask(struct optional_kind *optional, struct optional_request *ret)
{
	int64_t now = monotonic_ns(), again_at = atomic_load(&optional->again_at);
	int64_t mine = again_at ? now + REFUSED_FOR_NS : 0;

	*ret = (struct optional_request) { again_at, mine };
	/*
	 * When the pause is over, one caller sends the request, and the others still skip the kind.
	 */
	return !again_at || (now >= again_at &&
	                     atomic_compare_exchange_strong(&optional->again_at, &again_at, mine));
}

/* Returns the result of a request; a refusal becomes UNREADABLE. */
static int optional_kind_answer(struct optional_kind *optional, const struct kube_kind *kind,
                                const struct optional_request *r, int rc, struct err *err)
{
	if (rc < 0 && (err->code == ERR_PERMISSION || err->code == ERR_PRECONDITION)) {
		if (!r->again_at)
			log_msg(LOG_INFO, "%s objects cannot be read: %s", kind->kind, err->msg);
		err_clear(err);
		rest_optional_kind(optional, r->mine);
		return UNREADABLE;
	}
	if (rc >= 0)
		atomic_store(&optional->pause, 0);
	/* Any other error proves nothing about the permission, so the next caller tries again. */
	atomic_store(&optional->again_at, rc >= 0 ? 0 : r->again_at);
	return rc;
}

/*
 * Like kube_get(), but returns UNREADABLE if the API server refuses the read. For at least a minute
 * after that, returns UNREADABLE without a request.
 */
static int get_optional(struct controller *c, struct optional_kind *optional,
                        const struct kube_kind *kind, const char *ns, const char *name,
                        struct deadline d, struct json **ret, struct err *err)
{
	struct optional_request r;

	if (!optional_kind_ask(optional, &r))
		return UNREADABLE;
	return optional_kind_answer(optional, kind, &r,
	                            kube_get(c->kube, kind, ns, name, d, ret, err), err);
}

/* Returns 0, UNREADABLE, or -1. */
static int check_core_node(struct controller *c, const char *node, struct deadline d,
                           struct err *err)
{
	struct json *object AUTO(json_free) = NULL;
	int rc = get_optional(c, &c->nodes, &core_node_kind, NULL, node, d, &object, err);

	if (rc == KUBE_ABSENT)
		return err_set(err, ERR_NOT_FOUND, "node not found: there is no Node %s", node);
	if (rc == UNREADABLE && !atomic_exchange(&c->node_check_warned, true))
		log_msg(LOG_WARNING,
		        "neither DPUNode nor Node objects may be read: ControllerPublishVolume to "
		        "a node that does not exist will time out instead of answering NOT_FOUND; "
		        "allow get of dpunodes.provisioning.dpu.nvidia.com in namespace %s",
		        c->namespace);
	return rc < 0 ? err_wrap(err, "node %s", node) : rc;
}

/* Returns 0, UNREADABLE, or -1. */
static int check_dpu_node(struct controller *c, const char *node, struct deadline d,
                          struct err *err)
{
	struct json *object AUTO(json_free) = NULL;
	char ref[OBJECT_REF_MAX];
	int rc;

	rc = get_optional(c, &c->dpu_nodes, &dpu_node_kind, c->namespace, node, d, &object, err);
	if (rc == KUBE_ABSENT)
		return err_set(
			err, ERR_NOT_FOUND,
			"node not found: there is no %s; a node id is the name of a DPUNode in "
			"the driver's namespace",
			object_ref(c, &dpu_node_kind, node, ref));
	if (rc == UNREADABLE)
		return check_core_node(c, node, d, err);
	return rc < 0 ? err_wrap(err, "node %s", node) : 0;
}

int node_check(struct controller *c, const char *node, struct deadline d, struct err *err)
{
	int rc;

	if (!dns1123_subdomain(node))
		return err_set(err, ERR_NOT_FOUND,
		               "node not found: \"%s\" is not a valid name of a Kubernetes object",
		               node);
	if (attachments_know_node(c, node) ||
	    (c->node_cache && node_cache_exists(c->node_cache, node, monotonic_ns())))
		return 0;
	rc = check_dpu_node(c, node, d, err);
	if (rc < 0)
		return -1;
	/* A node that could not be read is accepted, and is read by the next call. */
	if (rc == 0 && c->node_cache)
		node_cache_put_exists(c->node_cache, node, monotonic_ns());
	return 0;
}

static int add_dpu(void *arg, const struct json *item, struct err *err)
{
	(void)err;
	dpu_count_add(arg, item);
	return 0;
}

/*
 * Lists the DPUs by the label of the node, because the API has no selector for spec.dpuNodeName. A
 * usable DPU in the API server's cache is sufficient. Before the node is refused, the DPUs are read
 * from etcd, including those without the label, which DPF did not create.
 */
static int list_dpus(struct controller *c, struct dpu_count *ret, struct deadline d,
                     struct err *err)
{
	char *labelled AUTO(free) = xasprintf(DPU_LABEL_NODE " in (%s)", ret->node);
	const char *const lists[] = { labelled, "!" DPU_LABEL_NODE };

	if (kube_list_cached(c->kube, &dpu_kind, c->namespace, labelled, add_dpu, ret, d, err))
		return -1;
	if (dpu_count_is_usable(ret))
		return 0;
	*ret = (struct dpu_count) { .node = ret->node };
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		if (kube_list(c->kube, &dpu_kind, c->namespace, lists[i], add_dpu, ret, d, err))
			return -1;
	return 0;
}

static int refuse_without_dpu(struct controller *c, const struct dpu_count *n, struct err *err)
{
	char ref[OBJECT_REF_MAX];

	object_ref(c, &dpu_node_kind, n->node, ref);
	if (n->all == 0)
		return err_set(err, ERR_UNAVAILABLE,
		               "%s: has no DPU (0 DPUs have spec.dpuNodeName %s, expected 1), "
		               "and DPF needs one to detach; create the DPU, or delete the DPUNode",
		               ref, n->node);
	if (n->all > 1 && n->preferred != 1)
		return err_set(
			err, ERR_UNAVAILABLE,
			"%s: DPF can select none of its %zu DPUs (%zu have the annotation " DPU_ANNOTATION_PREFERRED
			", expected 1), and needs one to detach; "
			"annotate exactly one DPU",
			ref, n->all, n->preferred);
	return err_set(err, ERR_UNAVAILABLE,
	               "%s: its DPU is being deleted (metadata.deletionTimestamp is set, expected "
	               "none), and DPF needs one to detach; retry when there is another DPU, or "
	               "delete the DPUNode",
	               ref);
}

int node_check_dpu(struct controller *c, const char *node, struct deadline d, struct err *err)
{
	struct dpu_count n = { .node = node };
	struct optional_request r;
	int rc;

	/* The name of a DPUNode is also a label value, so a longer name cannot exist. */
	if (strlen(node) > LABEL_VALUE_MAX ||
	    (c->node_cache && node_cache_has_dpu(c->node_cache, node, monotonic_ns())) ||
	    !optional_kind_ask(&c->dpus, &r))
		return 0;
	rc = optional_kind_answer(&c->dpus, &dpu_kind, &r, list_dpus(c, &n, d, err), err);
	if (rc < 0) {
		err_wrap(err, "DPUs of node %s", node);
		return open_error(err);
	}
	if (rc == UNREADABLE)
		return 0;
	if (!dpu_count_is_usable(&n)) {
		rc = refuse_without_dpu(c, &n, err);
		event_warn(c->events, &core_node_kind, node, "NoUsableDPU", err->msg);
		return rc;
	}
	if (c->node_cache)
		node_cache_put_dpu(c->node_cache, node, monotonic_ns());
	return 0;
}

int64_t node_limit(struct controller *c, const char *node, bool fresh, struct deadline d)
{
	struct json *object AUTO(json_free) = NULL;
	struct err ignored = ERR_INIT;
	int64_t limit = 0;
	int rc;

	if (!fresh && c->node_cache &&
	    node_cache_get_limit(c->node_cache, node, monotonic_ns(), &limit))
		return limit;
	rc = get_optional(c, &c->csi_nodes, &csi_node_kind, NULL, node, d, &object, &ignored);
	if (rc != 0 && rc != KUBE_ABSENT)
		return 0;
	if (rc == 0)
		limit = csi_node_limit(object, c->driver_name);
	if (c->node_cache)
		node_cache_put_limit(c->node_cache, node, limit, monotonic_ns());
	return limit;
}
