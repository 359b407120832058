/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds contradictions on this host: between the staged and the published mounts of a volume,
 * between volumes, and between kubelet and the mounts. Uses the tree that node_mounts.c fills.
 */
#include <stdlib.h>

#include "inspect/node_scan.h"

/* A volume that is being staged or published is reported only after this time, in seconds. */
#define MOMENT_S 120

static const struct json *first_staged(const struct json *node)
{
	return json_at(node, "staged.0");
}

/* Finds a target that shows a device other than the staged one. */
static void node_compare_targets(const struct node_scan *l, const char *object,
                                 const struct json *node)
{
	const char *staged = json_str(first_staged(node), "number");

	json_foreach (target, json_member(node, "published")) {
		const char *number = json_str(target, "number");

		if (staged && !str_eq(staged, number))
			inspect_finding(l->report, object,
			                "end this pod: its target is unmounted, and a new pod "
			                "gets the staged device",
			                "%s, the target of pod %s, shows device %s, but device "
			                "%s is staged",
			                json_str(target, "path"),
			                json_str(target, "pod") ? json_str(target, "pod")
			                                        : "(unknown)",
			                number, staged);
	}
}

static void find_unstaged(const struct node_scan *l, const char *object, const struct json *node)
{
	const struct json *target = json_at(node, "published.0");

	if (!target || first_staged(node) || json_member(node, "mounted"))
		return;
	inspect_finding(l->report, object,
	                "end the pods that use it, so that kubelet unpublishes and stages it "
	                "again; the staging path may have been unmounted by hand",
	                "it is mounted at %s, but nothing is staged", json_str(target, "path"));
}

/* Finds two volumes with one device, one of which writes to the other's data. */
static void compare_shared_device(const struct node_scan *l, const char *object,
                                  const struct json *v)
{
	const char *number = json_str(v, "node.device.number");

	if (!number)
		return;
	for (const struct json *other = json_next(v); other; other = json_next(other))
		if (str_eq(json_str(other, "node.device.number"), number))
			inspect_finding(
				l->report, object,
				"end the pods of both volumes before they write more, and compare "
				"UUIDs and PCI addresses of their DPUVolumeAttachments with this host",
				"it has the same device %s as volume %s", number,
				json_str(other, "id"));
}

static void compare_two_stagings(const struct node_scan *l, const char *object,
                                 const struct json *node)
{
	const char *first = NULL;

	json_foreach (staged, json_member(node, "staged")) {
		const char *number = json_str(staged, "number");

		if (first && !str_eq(first, number))
			inspect_finding(l->report, object,
			                "unmount the one that is not the device of the volume's "
			                "DPUVolumeAttachment, after its pods have ended",
			                "it is staged twice, on device %s and on device %s", first,
			                number);
		first = first ? first : number;
	}
}

/* ---- mounts that kubelet expects ---- */

static bool has_path(const struct json *list, const char *path)
{
	json_foreach (entry, list)
		if (str_eq(json_str(entry, "path"), path))
			return true;
	return false;
}

static void compare_unmounted(const struct node_scan *l, const char *path)
{
	struct kubelet_volume_dir p AUTO(kubelet_volume_dir_clear) = { .since = -1 };
	char *object AUTO(free) = NULL;
	struct json *node;
	char age[64];

	kubelet_volume_dir_read(l->node->o.kubelet_dir, l->options->flags.name, path, &p);
	if (!p.volume_id)
		return;
	object = node_scan_object(p.volume_id);
	node = json_sub(inspect_volume(l->report, p.volume_id), "node");
	if (has_path(json_member(node, p.role == KUBELET_STAGED ? "staged" : "published"), path))
		return;
	node_scan_text(node, "persistentVolume", p.persistent_volume);
	node_scan_text(node, "volumeAttachment", p.attachment);
	if (p.role == KUBELET_STAGED)
		json_set_bool(node, "notStaged", true);
	if (p.since >= MOMENT_S)
		inspect_finding(
			l->report, object,
			p.role == KUBELET_STAGED
				? "check the events of its pod (kubectl describe pod), and for "
				  "NodeStageVolume in this driver's log"
				: "check the events of the pod (kubectl describe pod), and for "
				  "NodePublishVolume in this driver's log",
			"kubelet has expected it %s%s for %s, but nothing is mounted at %s",
			p.role == KUBELET_STAGED ? "staged" : "in pod ",
			p.role == KUBELET_STAGED ? "" : p.pod, inspect_age(p.since, age), path);
}

void node_scan_compare(const struct node_scan *l)
{
	struct strs wanted AUTO(strs_clear) = STRS_INIT;

	json_foreach (v, json_at(l->report->tree, "volumes")) {
		char *object AUTO(free) = node_scan_object(json_str(v, "id"));
		const struct json *node = json_member(v, "node");

		node_compare_targets(l, object, node);
		find_unstaged(l, object, node);
		compare_two_stagings(l, object, node);
		compare_shared_device(l, object, v);
	}
	atomic_store(l->step, "the directories of kubelet");
	kubelet_wanted(l->node->o.kubelet_dir, l->options->flags.name, &wanted);
	for (size_t i = 0; i < wanted.n; i++)
		compare_unmounted(l, wanted.v[i]);
}
