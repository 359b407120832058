/* SPDX-License-Identifier: Apache-2.0 */
/* The controller service: what it is given, and what all of its operations share. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "common/deadline.h"
#include "kube/kube.h"
#include "volume/volume_params.h"

#define CONTROLLER_WAIT_TIMEOUT_MS 110000

/* An optional read that the API server refused: asked again only after a while. */
struct optional_kind {
	_Atomic int64_t again_at; /* monotonic ns */
};

/* Filled by main, constant afterwards but for the optional kinds; used by any thread. */
struct controller {
	struct kube *kube;
	const char *namespace; /* of DPF's objects */
	const char *driver_name;
	enum emulation emulation; /* of a StorageClass that does not say */
	int wait_timeout_ms; /* longest wait for an object's state; 0: CONTROLLER_WAIT_TIMEOUT_MS */
	struct optional_kind dpu_nodes, nodes, csi_nodes;
	atomic_bool node_check_warned;
};

/*
 * How long an operation may work: the caller's time less what is needed to say why it was not
 * enough, and no longer than the wait timeout.
 */
struct deadline controller_deadline(const struct controller *c, struct deadline d);

/* "DPUVolume nvidia-storage/pvc-1" into buf, for texts; returns buf. */
#define OBJECT_REF_MAX 400
const char *object_ref(const struct controller *c, const struct kube_kind *kind, const char *name,
                       char buf[OBJECT_REF_MAX]);

/*
 * May the operation have happened in the eyes of the sidecars (they retry or undo it)? Else the
 * code is final and nothing may be left behind. RESOURCE_EXHAUSTED is not here: it is final for
 * CreateVolume only.
 */
bool code_is_open(enum err_code code);
/* Does the text of a failure speak of space, capacity or quota? */
bool speaks_of_exhaustion(const char *text);
