/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The faults that DPF reports for a volume and its attachments (CSI 1.13, volume health). The node
 * reports the state of the device itself.
 */
#pragma once

#include "common/mem.h"
#include "controller/controller.h"

/* Values as in CSI. */
enum volume_fault_status {
	VOLUME_IS_DEGRADED = 1,
	VOLUME_IS_INACCESSIBLE = 2, /* from every node */
};

struct volume_fault {
	enum volume_fault_status status;
	const char *reason;  /* CamelCase, static; unique within one answer */
	const char *message; /* in the arena */
};

#define VOLUME_FAULTS_MAX 3
struct volume_health {
	struct volume_fault v[VOLUME_FAULTS_MAX];
	size_t n; /* 0: no fault is known */
};

/*
 * Reads the volume and its attachments. An attachment that the DPU has not completed yet, or that
 * is being removed, is not a fault. NOT_FOUND if there is no such volume, or if it is still being
 * created.
 */
int volume_health(const struct controller *c, const char *id, struct deadline d,
                  struct arena *arena, struct volume_health *ret, struct err *err) MUST_CHECK;
