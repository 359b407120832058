/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One scan of the API server, as its parts share it: the lists are read into the report's tree,
 * then findings are derived from the tree. The tree has a few facts of each object, not the object.
 *
 * volumes[].api, as far as known (ages are seconds):
 *   volume             {uid, ready, reason, since, conditions, age, deleting, finalizers, phase,
 *                      kind, policy, requested, capacity, oneNode, madeBy: driver, goPlugin or
 *                      others, claim}; absent: there is no DPUVolume
 *   attachments        [{name, uid, node, madeBy, ready, reason, since, conditions, age, deleting,
 *                      finalizers, function, pci, vuid, nsid, uuid, tag}]
 *   otherDriver        name of the driver whose PersistentVolume has it; absent: none of another's
 *   persistentVolume   {name, phase, reclaimPolicy, claim}
 *   volumeAttachments  [{name, node, nodeUnregistered, attached, error, age, deleting}]; node is
 *                      the node's id, or its name where kubelet has no driver there
 *
 * api of the tree: namespace, driver, dpuVolumes, dpuVolumeAttachments, persistentVolumes,
 * volumeAttachments (how many), unread (texts: which right is missing), error.
 */
#pragma once

#include "inspect/api_object.h"
#include "inspect/inspect.h"

struct api_name {
	char *from, *to;
};
/* Names that lead to other names, sorted by the first. */
struct api_names {
	struct api_name *v;
	size_t n, room;
	bool sorted;
};

struct api_scan {
	struct inspect_report *r;
	const struct inspect_options *o;
	struct controller c;
	struct api_eye eye;
	struct deadline d;
	/* What was read to its end. What was not may be there. */
	bool persistent_volumes, volume_attachments, csi_nodes;
	struct api_names pvs;   /* PersistentVolume -> volume id */
	struct api_names nodes; /* Kubernetes' node -> node id, where the driver is registered */
};

/* inspect_api.c. The client; contacts nobody. */
int api_connect(const struct inspect_options *o, struct kube **ret, struct err *err) MUST_CHECK;

/* api_read.c. -1: the driver's own objects cannot be read. What else is missing is in `unread`. */
int api_read(struct api_scan *l, struct err *err) MUST_CHECK;
void api_scan_clear(struct api_scan *l);

/*
 * Findings of one sort: of thousands that have one cause, a person reads the first. True: there is
 * place for one more. The one behind the last says that there are more.
 */
#define API_SORT_MOST 100
struct api_sort {
	struct api_scan *l;
	const char *what; /* "attachments without VolumeAttachment" */
	size_t n;
};
bool api_one_more(struct api_sort *s);

/* api_state.c: what is not ready, or is being deleted for long. */
void api_find_stuck(struct api_scan *l);
/* api_orphans.c: what belongs to nobody. Each is read once more before it is told. */
void api_find_orphans(struct api_scan *l);
/* api_compare.c: where the host and the API server contradict each other. */
void api_find_contradictions(struct api_scan *l);

/* "DPUVolume ns/name" or of another kind; malloc'ed. */
char *api_ref(const struct api_scan *l, const struct kube_kind *kind, const char *name);
