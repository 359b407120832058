/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds objects that no longer have an owner. The lists were read at different times, so each
 * candidate is re-read. Young objects, which may still be in progress, and objects created by hand
 * are left out. On a node where kubelet does not have the driver, Kubernetes does not control
 * attachments. A step that loses data is recommended only together with the checks that must
 * precede it.
 */
#include "inspect/api_scan.h"

#include <stdlib.h>

#include "common/mem.h"
#include "common/str.h"
#include "controller/names.h"
#include "controller/nodes.h"
#include "dpf/dpu_attachment.h"
#include "dpf/dpu_volume.h"

#define YOUNG_S 300

/*
 * Re-reads the object. Returns 0 if it exists unchanged, KUBE_ABSENT if it was deleted or replaced,
 * -1 if this is not known.
 */
static int read_again(const struct api_scan *l, const struct kube_kind *kind, const char *name,
                      const char *uid)
{
	struct json *object AUTO(json_free) = NULL;
	struct err ignored = ERR_INIT;
	int rc = kube_get(l->c.kube, kind, l->c.namespace, name, l->d, &object, &ignored);

	if (rc || json_at(object, "metadata.deletionTimestamp"))
		return rc ? rc : KUBE_ABSENT;
	return !*uid || str_eq(json_str(object, "metadata.uid"), uid) ? 0 : KUBE_ABSENT;
}

/*
 * Returns true if the limit of findings of this sort is reached. The caller then reads no more
 * objects for it.
 */
static bool orphans_are_full(const struct api_sort *s)
{
	return s->n > API_SORT_MOST;
}

static bool is_grown(const struct json *facts)
{
	return api_seconds(facts, "age") >= YOUNG_S && api_seconds(facts, "deleting") < 0;
}

static bool has_on_node(const struct json *list, const char *node)
{
	json_foreach (a, list)
		if (str_eq(api_text(a, "node"), node))
			return true;
	return false;
}

/*
 * Returns true if a VolumeAttachment names a node whose id is unknown. A node id may differ from
 * the node's name, so this VolumeAttachment may be for any node.
 */
static bool may_be_anywhere(const struct json *wishes)
{
	json_foreach (wish, wishes)
		if (api_is(wish, "nodeUnregistered"))
			return true;
	return false;
}

/* ---- attachments without a VolumeAttachment ---- */

static bool is_staged_here(const struct api_scan *l, const struct json *volume, const char *node)
{
	const struct json *side = json_member(volume, "node");

	return str_eq(json_str(l->r->tree, "node.id"), node) &&
	       (json_count(json_member(side, "staged")) ||
	        json_count(json_member(side, "published")));
}

static void orphans_report_unwanted(struct api_scan *l, const struct json *volume,
                                    const struct json *a)
{
	const char *id = api_text(volume, "id"), *node = api_text(a, "node");
	char *ref AUTO(free) = api_ref(l, &dpu_attachment_kind, api_text(a, "name"));
	char *next AUTO(free) = NULL;
	char buf[64];

	if (is_staged_here(l, volume, node))
		next = xstrdup(
			"the volume is in use on this host: delete nothing, find the pod that "
			"uses it (`inspect volume`)");
	else
		next = xasprintf(
			"in the driver's pod on node %s: snap-csi-plugin inspect volume %s. Only "
			"if it is neither staged nor published there (or the node was shut down "
			"permanently), and kubectl get volumeattachments has no entry for it: "
			"kubectl -n %s delete dpuvolumeattachments %s",
			node, id, l->c.namespace, api_text(a, "name"));
	inspect_finding(
		l->r, ref, next,
		"orphan: no VolumeAttachment exists for volume %s on node %s; it is %s old and "
		"holds a function of the DPU",
		id, node, inspect_age(api_seconds(a, "age"), buf));
}

static void orphans_find_unwanted(struct api_sort *s, const struct json *volume)
{
	struct api_scan *l = s->l;
	const struct json *wanted = json_at(volume, "api.volumeAttachments");

	if (orphans_are_full(s) || may_be_anywhere(wanted) || l->lost_anywhere ||
	    json_at(volume, "api.otherDriver"))
		return;
	json_foreach (a, json_at(volume, "api.attachments")) {
		if (orphans_are_full(s) || !is_grown(a) ||
		    !str_eq(api_text(a, "madeBy"), "driver") ||
		    has_on_node(wanted, api_text(a, "node")) ||
		    api_names_find(&l->lost, api_text(a, "node")))
			continue;
		if (!read_again(l, &dpu_attachment_kind, api_text(a, "name"), api_text(a, "uid")) &&
		    api_one_more(s))
			orphans_report_unwanted(l, volume, a);
	}
}

/* ---- VolumeAttachments without a PersistentVolume ---- */

/*
 * PersistentVolumes are read first, so a PersistentVolume that is younger than its VolumeAttachment
 * is missing from the list.
 */
static void orphans_find_wishes_without_pv(struct api_sort *s)
{
	struct api_scan *l = s->l;

	json_foreach (wish, json_at(l->r->tree, "api.lostVolumeAttachments")) {
		char *ref AUTO(free) = NULL, *next AUTO(free) = NULL;

		if (api_seconds(wish, "age") < YOUNG_S ||
		    !inspect_wants(l->o, api_text(wish, "persistentVolume")) || !api_one_more(s))
			continue;
		ref = xasprintf("VolumeAttachment %s", api_text(wish, "name"));
		next = xasprintf(
			"delete no DPUVolumeAttachment of node %s: its volume may be in use "
			"there. See kubectl describe volumeattachment %s and the log of "
			"external-attacher in the controller's pod",
			api_text(wish, "node"), api_text(wish, "name"));
		inspect_finding(l->r, ref, next,
		                "its PersistentVolume %s does not exist, so its volume on node "
		                "%s cannot be determined",
		                api_text(wish, "persistentVolume"), api_text(wish, "node"));
	}
}

/*
 * Finds several PersistentVolumes with one volume. Each of them attaches and deletes the volume
 * independently.
 */
static void orphans_find_twins(struct api_sort *s, const struct json *volume)
{
	const struct json *api = json_member(volume, "api");
	struct str names AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	char *ref AUTO(free) = NULL;

	if (!json_count(json_member(api, "otherPersistentVolumes")) || !api_one_more(s))
		return;
	str_add(&names, api_text(json_member(api, "persistentVolume"), "name"));
	json_foreach (pv, json_member(api, "otherPersistentVolumes"))
		str_addf(&names, ", %s", api_text(pv, "name"));
	ref = xasprintf("volume %s", api_text(volume, "id"));
	inspect_finding(s->l->r, ref,
	                "keep one: set persistentVolumeReclaimPolicy of the others to Retain "
	                "before they are deleted, or the volume is deleted with its data",
	                "several PersistentVolumes have it as volumeHandle: %s", names.ptr);
}

/* ---- volumes without a PersistentVolume ---- */

static void orphans_report_unclaimed(struct api_scan *l, const char *id, const struct json *facts,
                                     bool attached)
{
	char *ref AUTO(free) = api_ref(l, &dpu_volume_kind, id);
	char *next AUTO(free) = NULL;
	const char *claim = api_text(facts, "claim");
	char buf[64];

	if (attached)
		next = xstrdup("it is attached, so a pod may use it: delete nothing; check its "
		               "attachments and the nodes first");
	else
		next = xasprintf(
			"a PersistentVolume that was deleted with reclaim policy Retain leaves "
			"its data on purpose; create a PersistentVolume with volumeHandle %s to "
			"use the data again. If the owner of the data no longer needs them, this "
			"command deletes them permanently: kubectl -n %s delete dpuvolumes %s",
			id, l->c.namespace, id);
	inspect_finding(l->r, ref, next,
	                "orphan: no PersistentVolume refers to it; it is %s old%s%s",
	                inspect_age(api_seconds(facts, "age"), buf),
	                *claim ? ", and was created for claim " : "", claim);
}

static void orphans_find_unclaimed(struct api_sort *s, const struct json *volume)
{
	const struct json *api = json_member(volume, "api");
	const struct json *facts = json_member(api, "volume");
	const char *id = api_text(volume, "id");

	/*
	 * A volume that is not ready is a separate finding, because its claim may still be waiting
	 * for it.
	 */
	if (orphans_are_full(s) || !facts || json_member(api, "persistentVolume") ||
	    json_member(api, "otherDriver") || !is_grown(facts) || !api_is(facts, "ready") ||
	    str_eq(api_text(facts, "madeBy"), "others"))
		return;
	if (!read_again(s->l, &dpu_volume_kind, id, api_text(facts, "uid")) && api_one_more(s))
		orphans_report_unclaimed(s->l, id, facts,
		                         json_count(json_member(api, "attachments")) > 0);
}

/* ---- objects that Kubernetes has and DPF does not have ---- */

static void orphans_report_missing(struct api_scan *l, const char *id, const struct json *wish)
{
	char *ref AUTO(free) = xasprintf("VolumeAttachment %s", api_text(wish, "name"));
	char *next AUTO(free) = xasprintf(
		"pods with this volume on node %s have lost their device: end them (a Deployment "
		"or StatefulSet creates new ones), then Kubernetes detaches and attaches again; "
		"the API server's audit log shows which user deleted the attachment",
		api_text(wish, "node"));

	inspect_finding(l->r, ref, next,
	                "has volume %s attached to node %s, but there is no DPUVolumeAttachment",
	                id, api_text(wish, "node"));
}

static void orphans_find_missing(struct api_sort *s, const struct json *volume)
{
	const struct json *there = json_at(volume, "api.attachments");
	const char *id = api_text(volume, "id");
	char name[OBJECT_NAME_MAX + 1];

	json_foreach (wish, json_at(volume, "api.volumeAttachments")) {
		const char *node = api_text(wish, "node");

		if (orphans_are_full(s) || !api_is(wish, "attached") ||
		    api_is(wish, "nodeUnregistered") || api_seconds(wish, "deleting") >= 0 ||
		    has_on_node(there, node) || !attachment_object_name(node, id, name))
			continue;
		if (read_again(s->l, &dpu_attachment_kind, name, "") == KUBE_ABSENT &&
		    api_one_more(s))
			orphans_report_missing(s->l, id, wish);
	}
}

static void orphans_find_lost(struct api_sort *s, const struct json *volume)
{
	const struct json *api = json_member(volume, "api");
	const char *id = api_text(volume, "id"), *pv = json_str(api, "persistentVolume.name");
	char *ref AUTO(free) = NULL;

	if (orphans_are_full(s) || !pv || json_member(api, "volume") ||
	    (dns1123_subdomain(id) && read_again(s->l, &dpu_volume_kind, id, "") != KUBE_ABSENT) ||
	    !api_one_more(s))
		return;
	ref = xasprintf("PersistentVolume %s", pv);
	inspect_finding(s->l->r, ref,
	                "check whether the driver's --namespace was changed; if not, its data no "
	                "longer exists: keep the object until the owner of the data is informed",
	                "its volume %s has no DPUVolume in namespace %s", id, s->l->c.namespace);
}

/* ---- nodes ---- */

static bool orphans_registered(const struct api_scan *l, const char *node)
{
	for (size_t i = 0; i < l->nodes.n; i++)
		if (str_eq(l->nodes.v[i].to, node))
			return true;
	return false;
}

/*
 * Uses node_check(), the driver's own rule: a DPUNode exists, or, without permission to read
 * DPUNodes, a Node.
 */
static bool orphan_is_gone(struct api_scan *l, const char *node)
{
	struct err err = ERR_INIT;

	return node_check(&l->c, node, l->d, &err) && err.code == ERR_NOT_FOUND;
}

static void tell_homeless(struct api_scan *l, const char *id, const struct json *a)
{
	char *ref AUTO(free) = api_ref(l, &dpu_attachment_kind, api_text(a, "name"));
	char *next AUTO(free) = xasprintf(
		"if the host was shut down permanently (kubectl -n %s get dpunodes), taint its "
		"Node out-of-service or delete the Node; Kubernetes then detaches the volume. If neither "
		"Node nor VolumeAttachment is left: kubectl -n %s delete dpuvolumeattachments %s",
		l->c.namespace, l->c.namespace, api_text(a, "name"));

	inspect_finding(l->r, ref, next,
	                "orphan: volume %s is attached to node %s, which does not exist", id,
	                api_text(a, "node"));
}

/* The nodes that were checked. */
struct asked {
	struct strs there, gone;
};

static bool is_on_no_node(struct api_scan *l, const char *node, struct asked *asked)
{
	if (orphans_registered(l, node) || strs_has(&asked->there, node))
		return false;
	if (!strs_has(&asked->gone, node)) {
		if (asked->there.n + asked->gone.n >= API_SORT_MOST)
			return false;
		strs_add(orphan_is_gone(l, node) ? &asked->gone : &asked->there, node);
	}
	return strs_has(&asked->gone, node);
}

static void look_for_homeless(struct api_sort *s, const struct json *volume, struct asked *asked)
{
	struct api_scan *l = s->l;

	json_foreach (a, json_at(volume, "api.attachments")) {
		if (orphans_are_full(s) || !is_grown(a) ||
		    !is_on_no_node(l, api_text(a, "node"), asked))
			continue;
		if (!read_again(l, &dpu_attachment_kind, api_text(a, "name"), api_text(a, "uid")) &&
		    api_one_more(s))
			tell_homeless(l, api_text(volume, "id"), a);
	}
}

void api_find_orphans(struct api_scan *l)
{
	struct api_sort lost = { l, "PersistentVolumes without DPUVolume", 0 };
	struct api_sort missing = { l, "VolumeAttachments without DPUVolumeAttachment", 0 };
	struct api_sort homeless = { l, "attachments to nodes that do not exist", 0 };
	struct api_sort unwanted = { l, "attachments without VolumeAttachment", 0 };
	struct api_sort unclaimed = { l, "volumes without PersistentVolume", 0 };
	struct api_sort lost_pvs = { l, "VolumeAttachments without PersistentVolume", 0 };
	struct api_sort twins = { l, "volumes with several PersistentVolumes", 0 };
	struct asked asked = { STRS_INIT, STRS_INIT };
	bool kubernetes = l->nodes.n || l->pvs.n;

	orphans_find_wishes_without_pv(&lost_pvs);
	json_foreach (v, json_member(l->r->tree, "volumes")) {
		orphans_find_twins(&twins, v);
		if (l->persistent_volumes)
			orphans_find_lost(&lost, v);
		if (l->volume_attachments)
			orphans_find_missing(&missing, v);
		look_for_homeless(&homeless, v, &asked);
		if (l->volume_attachments && kubernetes)
			orphans_find_unwanted(&unwanted, v);
		if (l->persistent_volumes && kubernetes)
			orphans_find_unclaimed(&unclaimed, v);
	}
	strs_clear(&asked.there);
	strs_clear(&asked.gone);
	if (!kubernetes && l->persistent_volumes)
		json_append(
			inspect_list(json_sub(l->r->tree, "api"), "unread"),
			json_string("orphans are not searched for: the driver is registered with "
		                    "no kubelet and has no PersistentVolume, so its user is not "
		                    "Kubernetes"));
}
