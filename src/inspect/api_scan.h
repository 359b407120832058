/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One scan of the API server, shared by its parts: the lists are read into the report's tree, then
 * findings are derived from the tree. The tree has a few facts of each object, not the whole
 * object.
 *
 * volumes[].api, as far as known (ages are seconds):
 *   volume             {uid, ready, reason, since, conditions, age, deleting, finalizers, phase,
 *                      kind, policy, requested, capacity, oneNode, madeBy: driver, goPlugin or
 *                      others, claim, warning, place: {dpuCluster, claim, volume, command}}; absent:
 *                      the DPUVolume does not exist
 *   attachments        [{name, uid, node, madeBy, ready, reason, since, conditions, age, deleting,
 *                      finalizers, function, hotplug, pci, vuid, nsid, uuid, tag, warning}]
 *   earlierWarning     a warning about an earlier DPUVolume of the name, which reports exhaustion
 *   otherDriver        name of the driver whose PersistentVolume has it; absent: no other driver's
 *   persistentVolume   {name, phase, reclaimPolicy, claim}
 *   otherPersistentVolumes  [the same]: further PersistentVolumes with this volumeHandle
 *   volumeAttachments  [{name, node, nodeUnregistered, attached, error, age, deleting}]; node is
 *                      the node's id, or its name if kubelet has no driver there
 *
 * warning: the newest Event of type Warning, {reason, message, at, age, exhausted}.
 *
 * api of the tree: namespace, driver, dpuVolumes, dpuVolumeAttachments, persistentVolumes,
 * volumeAttachments (their numbers), unread (texts: the missing permission), error, and
 *   lostVolumeAttachments  [as volumeAttachments, and persistentVolume]: the PersistentVolume that it
 *                      names does not exist
 *   nodes              [{name, missing, dpuNode: {age, deleting, finalizers, busy: [condition]}, dpus:
 *                      [{name, phase, ready, reason, since, age, deleting, finalizers, outdated,
 *                      preferred}]}] of the attachments and VolumeAttachments; missing: no DPUNode
 */
#pragma once

#include "inspect/api_object.h"
#include "inspect/inspect.h"

struct api_name {
	char *from, *to;
};
/* A map from names to other names, sorted by `from`. */
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
	int64_t ahead; /* how far the newest creationTimestamp is ahead, see struct api_eye */
	struct deadline d;
	/* of inspect_options: how long the search for causes may delay the report, in ms */
	int causes_ms;
	/* Lists that were read completely; if not, further objects of the kind may exist. */
	bool persistent_volumes, volume_attachments;
	struct api_names pvs; /* PersistentVolume -> volume id */
	/* Kubernetes' node -> node id, if the driver is registered there */
	struct api_names nodes;
	struct api_names attached; /* uid of a DPUVolumeAttachment -> volume id */
	/* node -> a VolumeAttachment to it whose PersistentVolume does not exist */
	struct api_names lost;
	bool lost_anywhere; /* one of `lost` is on a node whose id is not known */
};

/*
 * Reads the clock of the API server, which wrote the timestamps, to measure ages by it; this host's
 * clock if its answers have no Date. Call it first for each object.
 */
void api_read_clock(struct api_scan *l);

/* In inspect_api.c. Creates the client; sends no request. */
int api_connect(const struct inspect_options *o, struct kube **ret, struct err *err) MUST_CHECK;

/*
 * In api_read.c. Returns -1 if the driver's own objects cannot be read. `unread` in the tree names
 * other objects that could not be read.
 */
int api_read(struct api_scan *l, struct err *err) MUST_CHECK;
void api_scan_clear(struct api_scan *l);
const char *api_names_find(struct api_names *names, const char *from); /* NULL: none */
/*
 * Calls `read` for the objects that a field selector names (NULL: all), which are optional for the
 * report. Returns false if they could not be read; `unread` then has a line that begins with
 * `what_for`.
 */
bool api_read_optional(struct api_scan *l, const struct kube_kind *kind, const char *ns,
                       const char *fields, const char *what_for,
                       int (*read)(void *arg, const struct json *item, struct err *err), void *arg);
void api_unread(struct api_scan *l, const char *what_for, const char *why);

/* In api_events.c. Adds the newest Warnings about the objects of api_read() to the tree. */
void api_read_events(struct api_scan *l);
/* In api_nodes.c. Reads the DPUNodes and DPUs of the attachments, and adds findings about them. */
void api_check_nodes(struct api_scan *l);

/*
 * Limits the number of findings of one sort, because the first ones suffice when thousands have one
 * cause. api_one_more() returns true if one more may be added. When the limit is reached, it adds a
 * finding that there are more.
 */
#define API_SORT_MOST 100
struct api_sort {
	struct api_scan *l;
	const char *what; /* "attachments without VolumeAttachment" */
	size_t n;
};
bool api_one_more(struct api_sort *s);

/* In api_state.c. Finds objects that are not ready, or have been terminating for a long time. */
void api_find_stuck(struct api_scan *l);
/*
 * In api_orphans.c. Finds objects without an owner. Each object is re-read before it is reported.
 */
void api_find_orphans(struct api_scan *l);
/* In api_compare.c. Finds contradictions between the host and the API server. */
void api_find_contradictions(struct api_scan *l);

/* Returns "DPUVolume ns/name", or the same for another kind; malloc'ed. */
char *api_ref(const struct api_scan *l, const struct kube_kind *kind, const char *name);
