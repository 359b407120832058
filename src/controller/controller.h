/* SPDX-License-Identifier: Apache-2.0 */
/* The controller service: its settings, and the state that its operations share. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "common/deadline.h"
#include "kube/kube.h"
#include "volume/volume_params.h"

#define CONTROLLER_WAIT_TIMEOUT_MS 110000

struct attachment_index;
struct attachment_lists;
struct event_recorder;
struct node_cache;

/*
 * A kind that is read only while the API server permits it. After a refusal it is not read until
 * again_at.
 */
struct optional_kind {
	_Atomic int64_t again_at; /* monotonic ns; 0: not refused */
	_Atomic int64_t pause;    /* the pause that ends at again_at; ns */
};

/* Filled by main.c and constant afterwards, except for the atomic members. Any thread. */
struct controller {
	struct kube *kube;
	const char *namespace; /* of DPF's objects */
	const char *driver_name;
	enum emulation emulation; /* for a StorageClass without the parameter functionType */
	const char *topology_key; /* of nodes that can use volumes; NULL: without --topology */
	struct attachment_index *attachments; /* NULL: lists are used instead */
	struct attachment_lists *lists;       /* NULL: each call reads its own lists */
	struct node_cache *node_cache;        /* NULL: every call reads its node */
	struct event_recorder *events;        /* NULL: no Events */
	int wait_timeout_ms; /* longest wait for an object's state; 0: CONTROLLER_WAIT_TIMEOUT_MS */
	struct optional_kind dpu_nodes, dpus, nodes, csi_nodes;
	atomic_bool node_check_warned;
	_Atomic int expands; /* whether volumes can grow; expandable.c */
};

/*
 * Returns the deadline of an operation: the caller's deadline minus a reserve for an answer that
 * explains the timeout, but not later than the wait timeout from now.
 */
struct deadline controller_deadline(const struct controller *c, struct deadline d);

/* Writes "DPUVolume nvidia-storage/pvc-1" to buf, for messages; returns buf. */
#define OBJECT_REF_MAX 400
const char *object_ref(const struct controller *c, const struct kube_kind *kind, const char *name,
                       char buf[OBJECT_REF_MAX]);

/*
 * Returns true if the code tells the sidecars that the operation may have been executed, so that
 * they retry or undo it. All other codes are final: the operation must leave no objects. One
 * exception: when ControllerPublishVolume returns RESOURCE_EXHAUSTED, the pending attachment is
 * kept and waits for a free function, because only CreateVolume's sidecar treats this code as
 * final.
 */
bool code_is_open(enum err_code code);
/* Changes a final code to UNAVAILABLE. Returns -1. */
int open_error(struct err *err);
/*
 * Returns true if the message of a failure reports that capacity, a quota or functions are
 * exhausted.
 */
bool speaks_of_exhaustion(const char *text);
