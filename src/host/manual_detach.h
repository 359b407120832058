/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps a marker that the user has detached a volume with `host detach`, so that `host watch` does
 * not attach it again: <state dir>/held/<volume>. `host resume`, `host attach` and the deletion of
 * the attachment remove the marker. It has no effect after a reboot.
 */
#pragma once

#include <stdbool.h>

#include "common/err.h"

/* Creates the marker for the attachment with this UID; "": for every attachment of the volume. */
int manual_detach_add(const char *state_dir, const char *boot, const char *volume, const char *uid,
                      struct err *err) MUST_CHECK;
/*
 * Returns true if this attachment must not be attached. Also returns true if the marker cannot be
 * read; `why` then has the error.
 */
bool manual_detach_applies(const char *state_dir, const char *boot, const char *volume,
                           const char *uid, struct err *why);
enum { MANUAL_DETACH_NONE = 1 };
/*
 * Removes the marker. Returns MANUAL_DETACH_NONE if there was no marker, either from this boot or
 * from an earlier one.
 */
int manual_detach_remove(const char *state_dir, const char *volume, struct err *err) MUST_CHECK;
