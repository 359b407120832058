/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the host scan. Each reads one source and adds facts and findings to the report. None
 * accesses mounted filesystems. Private to this module; one thread at a time.
 */
#pragma once

#include "inspect/inspect.h"
#include "node/target/kubelet.h"
#include "node/mount/mountinfo.h"
#include "node/service.h"
#include "node/target/mountpoint.h"

/* A scan of the host. *step names its current part, for the finding when the scan hangs. */
struct node_scan {
	struct inspect_report *report;
	const struct inspect_options *options;
	struct node *node;
	struct mount_table *table;
	struct deadline deadline;
	const char *_Atomic *step;
};

/* Reads mounts and their devices. */
void node_scan_mounts(const struct node_scan *l);
/* Finds missing mounts that kubelet expects, and contradictions among the existing mounts. */
void node_scan_compare(const struct node_scan *l);
/* Reads records of unfinished tools and unstages. */
void node_scan_records(const struct node_scan *l);
/*
 * Finds open mappings of encrypted volumes that are not staged. Call it after node_scan_records(),
 * whose volumes it looks up.
 */
void node_scan_mappings(const struct node_scan *l);
/* Reads functions, modules, directories and the registration. */
void node_scan_host(const struct node_scan *l);
/* Adds the processes that have the volume's device open to the `holders` of the volume. */
void node_scan_holders(const struct node_scan *l, const char *volume_id);

/* Returns "volume pvc-1", the object of a finding; malloc'ed. */
char *node_scan_object(const char *volume_id);
/* Like json_set_str(), but for text from outside the driver. */
void node_scan_text(struct json *object, const char *name, const char *text);
