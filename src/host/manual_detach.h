/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A marker that the user has detached a volume with `host detach`, so that `host watch` does not
 * attach it again: <state dir>/held/<volume>. `host resume`, `host attach` and the deletion of the
 * attachment remove it. It has no effect after a reboot.
 */
#pragma once

#include <stdbool.h>

#include "common/err.h"

/* `uid` of the attachment; "": every attachment of the volume. */
int manual_detach_add(const char *state_dir, const char *boot, const char *volume, const char *uid,
                      struct err *err) MUST_CHECK;
/*
 * True: this attachment must not be attached. So it is when the marker cannot be read; `why` then
 * has the error.
 */
bool manual_detach_applies(const char *state_dir, const char *boot, const char *volume,
                           const char *uid, struct err *why);
enum { MANUAL_DETACH_NONE = 1 };
/* 0; MANUAL_DETACH_NONE: there was no marker, of this boot or an earlier one. */
int manual_detach_remove(const char *state_dir, const char *volume, struct err *err) MUST_CHECK;
