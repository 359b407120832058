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
#include "node/target/place.h"

/* A look at the host. `step` is what it does now: what is said when it is given up. */
struct node_look {
	struct inspect_report *report;
	const struct inspect_options *options;
	struct node *node;
	struct mount_table *table;
	struct deadline deadline;
	const char *_Atomic *step;
};

/* What is mounted, and where; the devices of it. */
void node_look_mounts(const struct node_look *l);
/* What kubelet wants and is not mounted, and what contradicts in what is. */
void node_look_compare(const struct node_look *l);
/* Records of tools and of unstages that have begun. */
void node_look_records(const struct node_look *l);
/* Functions, modules, directories, registration. */
void node_look_host(const struct node_look *l);
/* The processes that have the device of the volume open, into its `holders`. */
void node_look_holders(const struct node_look *l, const char *volume_id);

/* "volume pvc-1", as findings name it; malloc'ed. */
char *node_look_object(const char *volume_id);
/* Members of a device, in `object`. */
void node_look_device(struct json *object, const struct device *dev);
/* json_set_str() of a text from outside. */
void node_look_text(struct json *object, const char *name, const char *text);
/* "259:3"; returns buf. */
const char *node_look_number(dev_t number, char buf[32]);
