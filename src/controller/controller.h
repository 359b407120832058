/* SPDX-License-Identifier: Apache-2.0 */
/* The controller service: its settings, and what all of its operations share. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "common/deadline.h"
#include "kube/kube.h"
#include "volume/volume_params.h"

#define CONTROLLER_WAIT_TIMEOUT_MS 110000

struct attachment_index;
struct attachment_lists;
struct node_cache;

/* A kind that is read if the API server allows it; after a refusal not again before again_at. */
struct optional_kind {
	_Atomic int64_t again_at; /* monotonic ns; 0: it was not refused */
	_Atomic int64_t pause;    /* the last one before again_at; ns */
};

/* Filled by main.c and constant afterwards, except for the atomics. Any thread. */
struct controller {
	struct kube *kube;
	const char *namespace; /* of DPF's objects */
	const char *driver_name;
	enum emulation emulation; /* of a StorageClass without that key */
	const char *topology_key; /* of nodes that can have volumes; NULL: without --topology */
	struct attachment_index *attachments; /* NULL: lists are used instead */
	struct attachment_lists *lists;       /* NULL: each call lists for itself */
	struct node_cache *node_cache;        /* NULL: every call reads its node */
	int wait_timeout_ms; /* longest wait for an object's state; 0: CONTROLLER_WAIT_TIMEOUT_MS */
	struct optional_kind dpu_nodes, nodes, csi_nodes;
	atomic_bool node_check_warned;
	_Atomic int expands; /* whether volumes can grow; expandable.c */
};

/*
 * The deadline of an operation: the caller's, less a reserve for answering why the time was not
 * enough, and at most the wait timeout from now.
 */
struct deadline controller_deadline(const struct controller *c, struct deadline d);

/* "DPUVolume nvidia-storage/pvc-1" into buf, for texts; returns buf. */
#define OBJECT_REF_MAX 400
const char *object_ref(const struct controller *c, const struct kube_kind *kind, const char *name,
                       char buf[OBJECT_REF_MAX]);

/*
 * Does the code say to the sidecars that the operation may have happened, so that they retry or
 * undo it? All other codes are final: nothing may be left behind. There is one exception, since
 * only CreateVolume's sidecar takes RESOURCE_EXHAUSTED as final: ControllerPublishVolume says it of
 * an attachment that is there and waits for a free function.
 */
bool code_is_open(enum err_code code);
/* Does the text of a failure say that capacity, a quota or functions are used up? */
bool speaks_of_exhaustion(const char *text);
