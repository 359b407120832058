/* SPDX-License-Identifier: Apache-2.0 */
/* ControllerExpandVolume in plain structs. */
#pragma once

#include "volume/volume_cap.h"
#include "controller/controller.h"

struct volume_growth {
	const char *volume;
	int64_t required, limit;      /* bytes; 0: not specified */
	const struct volume_cap *cap; /* NULL: not specified */
};

struct grown_volume {
	int64_t capacity; /* bytes */
	bool node_grows;  /* its filesystem also has to grow, by NodeExpandVolume */
};

/*
 * Requests a volume of at least `required` bytes from DPF, and waits until the status confirms it.
 * Never requests less than an earlier call has requested. Idempotent; any thread, one per volume
 * (the RPC handler locks). UNIMPLEMENTED: the cluster's CRD does not allow a volume to change. A
 * final code means that this call has requested nothing, and that no unanswered PATCH of an earlier
 * call can still be executed (kube_may_change()). One exception: OUT_OF_RANGE also reports a volume
 * that has become larger than `limit`.
 */
int volume_expand(struct controller *c, const struct volume_growth *r, struct deadline d,
                  struct grown_volume *ret, struct err *err) MUST_CHECK;
