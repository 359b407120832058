/* SPDX-License-Identifier: Apache-2.0 */
/* Two drivers that attach one volume to two nodes at the same time. */
#pragma once

#include "controller/await.h"
#include "controller/publish.h"

/*
 * For a volume that allows one node at a time, behind our POST and before it is handed out: is
 * there an older attachment to another node? Both drivers see all attachments in the same order,
 * so one of them stays. `object` is ours; made: this very call has made it, so nobody uses it.
 *
 * 0: no. FAILED_PRECONDITION naming the other: yes; what this call has made is gone again, what was
 * there before is left. Other codes: that could not be learnt, or ours is still there.
 */
int attach_conflict_check(const struct controller *c, const struct attach_request *r,
                          const struct json *object, bool made, struct await *a, struct err *err)
	MUST_CHECK;
