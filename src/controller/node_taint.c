/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the Node, then its CSINode, then writes the Node back without the taint, provided that it
 * has not changed.
 *
 * A CSINode outlives its Node for a moment, and would then report the driver as registered on a
 * node that was just re-created under this name. So a CSINode counts only for the Node that owns
 * it.
 */
#include "controller/node_taint.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/str.h"
#include "dpf/dpu_node.h"

#define TRIES 5 /* kubelet updates the Node's status from time to time */

char *node_taint_key(const char *driver)
{
	return xasprintf("%s/agent-not-ready", driver);
}

bool node_taint_is_on(const struct json *node, const char *key)
{
	json_foreach (taint, json_at(node, "spec.taints"))
		if (str_eq(json_str(taint, "key"), key))
			return true;
	return false;
}

/*
 * Returns the patch that removes the taint. A merge patch replaces a list as a whole, and gets a
 * conflict if the version differs.
 */
static struct json *patch_without_taint(const struct json *node, const char *key)
{
	struct json *patch = json_object(), *others = json_array();
	struct json *metadata = json_sub(patch, "metadata");

	json_foreach (taint, json_at(node, "spec.taints"))
		if (!str_eq(json_str(taint, "key"), key))
			json_append(others, json_copy(taint));
	json_set_str(metadata, "uid", json_str(node, "metadata.uid"));
	json_set_str(metadata, "resourceVersion", json_str(node, "metadata.resourceVersion"));
	json_set(json_sub(patch, "spec"), "taints", others);
	return patch;
}

/* Returns 0 if the driver is registered on the node, TAINT_WAITS if not, or -1. */
static int check_registered(struct kube *k, const char *driver, const struct json *node,
                            struct deadline d, struct err *err)
{
	const char *name = json_str(node, "metadata.name");
	struct json *csi_node AUTO(json_free) = NULL;
	int rc = kube_get(k, &csi_node_kind, NULL, name, d, &csi_node, err);

	if (rc < 0)
		return err_wrap(err, "CSINode %s", name);
	if (rc == KUBE_ABSENT || !csi_node_id(csi_node, driver) ||
	    !csi_node_is_of(csi_node, json_str(node, "metadata.uid")))
		return TAINT_WAITS;
	return 0;
}

static int remove_taint_once(struct kube *k, const char *driver, const char *key, const char *name,
                             struct deadline d, struct err *err)
{
	struct json *node AUTO(json_free) = NULL, *patch AUTO(json_free) = NULL;
	int rc = kube_get(k, &core_node_kind, NULL, name, d, &node, err);

	if (rc < 0)
		return err_wrap(err, "Node %s", name);
	if (rc == KUBE_ABSENT || !node_taint_is_on(node, key))
		return TAINT_NOT_THERE;
	rc = check_registered(k, driver, node, d, err);
	if (rc)
		return rc;
	patch = patch_without_taint(node, key);
	rc = kube_patch(k, &core_node_kind, NULL, name, patch, d, NULL, err);
	if (rc < 0)
		return err_wrap(err, "Node %s", name);
	return rc == KUBE_ABSENT ? TAINT_NOT_THERE : 0;
}

int node_taint_remove(struct kube *k, const char *driver, const char *node, struct deadline d,
                      struct err *err)
{
	char *key AUTO(free) = node_taint_key(driver);
	int rc;

	for (int tries = 1;; tries++) {
		rc = remove_taint_once(k, driver, key, node, d, err);
		if (rc >= 0 || err->code != ERR_ABORTED || tries == TRIES)
			return rc;
		err_clear(err);
	}
}
