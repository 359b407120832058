/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a node's facts, each from one source. They add to the tree and to the findings, and
 * touch nothing that is mounted. Private to this room; one thread at a time.
 */
#pragma once

#include "inspect/inspect.h"
#include "node/target/kubelet.h"
#include "node/mount/mountinfo.h"
#include "node/service.h"
#include "node/target/mountpoint.h"

/* A scan of the host. `step` names its current part, for the finding when the scan hangs. */
struct node_scan {
	struct inspect_report *report;
	const struct inspect_options *options;
	struct node *node;
	struct mount_table *table;
	struct deadline deadline;
	const char *_Atomic *step;
};

/* What is mounted, and where; the devices of it. */
void node_scan_mounts(const struct node_scan *l);
/* What kubelet wants and is not mounted, and what contradicts in what is. */
void node_scan_compare(const struct node_scan *l);
/* Records of tools and of unstages that have begun. */
void node_scan_records(const struct node_scan *l);
/* Functions, modules, directories, registration. */
void node_scan_host(const struct node_scan *l);
/* The processes that have the device of the volume open, into its `holders`. */
void node_scan_holders(const struct node_scan *l, const char *volume_id);

/* "volume pvc-1", as findings name it; malloc'ed. */
char *node_scan_object(const char *volume_id);
/* json_set_str() of a text from outside. */
void node_scan_text(struct json *object, const char *name, const char *text);
