/* SPDX-License-Identifier: Apache-2.0 */
/* Unstages a share. Private to unstage.c; no state. */
#pragma once

#include "common/deadline.h"
#include "node/staged/unstaging.h"

/* u->mountpoint is MOUNTPOINT_SHARE. UNAVAILABLE: its server does not answer. */
int unstage_share(struct unstaging *u, struct deadline d, struct err *err) MUST_CHECK;
