/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allows one operation per key (a volume id). A second operation does not wait, but fails at once.
 * The mutex inside guards only the table and is never held during an operation. Any thread.
 */
#pragma once

#include "common/cleanup.h"
#include "common/err.h"

struct keylock;
struct keylock_hold;

struct keylock *keylock_new(void);
struct keylock *keylock_free(struct keylock *k); /* no key may be held; returns NULL */
/*
 * Takes `key` for `what` ("NodeStageVolume"; a string that outlives the hold), or fails at once
 * with ERR_ABORTED "volume <key>: NodeStageVolume has been running for 3.2 s; ...".
 */
int keylock_take(struct keylock *k, const char *key, const char *what, struct keylock_hold **ret,
                 struct err *err) MUST_CHECK;
void keylock_release(struct keylock_hold *h);
DEFINE_AUTO(struct keylock_hold *, keylock_release);
