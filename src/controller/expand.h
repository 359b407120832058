/* SPDX-License-Identifier: Apache-2.0 */
/* ControllerExpandVolume in plain structs. */
#pragma once

#include "volume/volume_cap.h"
#include "controller/controller.h"

struct volume_growth {
	const char *volume;
	int64_t required, limit;      /* bytes; 0: not said */
	const struct volume_cap *cap; /* NULL: not said */
};

struct grown_volume {
	int64_t capacity; /* bytes */
	bool node_grows;  /* a filesystem on it has to follow, by NodeExpandVolume */
};

/*
 * Asks DPF for a volume of at least `required` bytes, and waits until the status says that it is
 * so. Never asks for less than was asked for before. Idempotent; any thread, one per volume (the
 * wire door locks). UNIMPLEMENTED: the cluster's CRD does not let a volume change. A final code
 * says that this call has asked for nothing, and that no PATCH of an earlier one that had no answer
 * may still be carried out (kube_may_change()); only OUT_OF_RANGE is also said of a volume that has
 * become larger than `limit`.
 */
int volume_expand(struct controller *c, const struct volume_growth *r, struct deadline d,
                  struct grown_volume *ret, struct err *err) MUST_CHECK;
