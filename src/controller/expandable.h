/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Determines whether volumes of this cluster can grow. The CRD's schema decides; it is read until
 * the first answer, and never again: restart the driver after a change of the CRD. Any thread.
 */
#pragma once

#include "controller/controller.h"

/*
 * Returns 0 if volumes can grow, EXPANDABLE_NOT if spec.resources of a DPUVolume cannot change, or
 * -1 if the schema could not be read; the next call reads it again. Waits EXPANDABLE_MS at most.
 */
#define EXPANDABLE_MS 5000
enum { EXPANDABLE_NOT = 1 };
int controller_expandable(struct controller *c, struct deadline d, struct err *err) MUST_CHECK;
/*
 * Like controller_expandable(), for the driver's capabilities. Returns false, and logs why, while
 * it is not known whether volumes can grow.
 */
bool controller_expands(struct controller *c, struct deadline d);
