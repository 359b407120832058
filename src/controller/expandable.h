/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does this cluster let a volume grow? The CRD's schema says so, which is read until an answer has
 * come, and then never again: a driver that is to notice another CRD is started anew. Any thread.
 */
#pragma once

#include "controller/controller.h"

/*
 * 0: yes. EXPANDABLE_NOT: spec.resources of a DPUVolume cannot change. -1: the schema could not be
 * read; the next question reads it again. Waits EXPANDABLE_MS at most.
 */
#define EXPANDABLE_MS 5000
enum { EXPANDABLE_NOT = 1 };
int controller_expandable(struct controller *c, struct deadline d, struct err *err) MUST_CHECK;
/*
 * The same for who asks for capabilities: false also while it is not known, and the log says why.
 */
bool controller_expands(struct controller *c, struct deadline d);
