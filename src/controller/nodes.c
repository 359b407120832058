/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node check and its fallbacks. Nodes that were found are cached for a while (node_cache.h), so
 * that attaching reads a node once and not each time. The Go plugin reads no nodes, so under
 * its ClusterRole some of these reads are forbidden. A kind that was refused is not read again for
 * a minute, so that not every publish pays for requests that fail. kube_get() believes a refusal
 * only when it is the API server's own and comes twice.
 */
#include "controller/nodes.h"

#include "common/cleanup.h"
#include "controller/attachments.h"
#include "controller/node_cache.h"
#include "dpf/dpu_node.h"
#include "common/log.h"
#include "common/str.h"

#define REFUSED_FOR_NS (INT64_C(60) * 1000000000) /* at first, then twice as long each time */
#define REFUSED_MOST_NS (INT64_C(600) * 1000000000)

/* Besides KUBE_ABSENT: the API server refuses to give such objects, or does not have the kind. */
enum { UNREADABLE = 2 };

/*
 * Not to be read before a pause is over, which is longer each time: rights that are missing for
 * long cost a second and a line of the log, in which they are asked. again_at: as this caller left
 * it when it asked. Many may have asked at once; the first refusal counts for all of them.
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

/* kube_get(), but a refusal is UNREADABLE, at once for a minute or more after it. */
static int get_optional(struct controller *c, struct optional_kind *optional,
                        const struct kube_kind *kind, const char *ns, const char *name,
                        struct deadline d, struct json **ret, struct err *err)
{
	int64_t now = monotonic_ns(), again_at = atomic_load(&optional->again_at);
	int64_t mine = again_at ? now + REFUSED_FOR_NS : 0;
	int rc;

	/* When the minute is over, one caller asks, and the others go on as before. */
	if (again_at && (now < again_at ||
	                 !atomic_compare_exchange_strong(&optional->again_at, &again_at, mine)))
		return UNREADABLE;
	rc = kube_get(c->kube, kind, ns, name, d, ret, err);
	if (rc < 0 && (err->code == ERR_PERMISSION || err->code == ERR_PRECONDITION)) {
		if (!again_at)
			log_msg(LOG_INFO, "%s objects are not read: %s", kind->kind, err->msg);
		err_clear(err);
		rest_optional_kind(optional, mine);
		return UNREADABLE;
	}
	if (rc >= 0)
		atomic_store(&optional->pause, 0);
	/* Whatever else went wrong says nothing about it: the next caller asks again. */
	atomic_store(&optional->again_at, rc >= 0 ? 0 : again_at);
	return rc;
}

/* 0, UNREADABLE, or -1. */
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

/* 0, UNREADABLE, or -1. */
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
		               "node not found: \"%s\" is no name of a Kubernetes object", node);
	if (attachments_know_node(c, node) ||
	    (c->node_cache && node_cache_exists(c->node_cache, node, monotonic_ns())))
		return 0;
	rc = check_dpu_node(c, node, d, err);
	if (rc < 0)
		return -1;
	/* A node that could not be read passes, and is read again by the next call. */
	if (rc == 0 && c->node_cache)
		node_cache_put_exists(c->node_cache, node, monotonic_ns());
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
