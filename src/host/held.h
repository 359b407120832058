/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was detached by hand, and that `host watch` is not to attach again: <state
 * dir>/held/<volume>. It ends with `host resume`, with an attach by hand, with the end of the
 * attachment, and means nothing after a reboot.
 */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "host/args.h"

/* `uid` of the attachment; "": whichever there is. */
int held_put(const char *state_dir, const char *boot, const char *volume, const char *uid,
             struct err *err) MUST_CHECK;
/* Is this attachment of the volume held? What cannot be read counts as held: the text says why. */
bool held_is(const char *state_dir, const char *boot, const char *volume, const char *uid,
             struct err *why);
enum { HELD_NOT = 1 };
/* 0, or HELD_NOT: it was not held, by whatever boot. */
int held_end(const char *state_dir, const char *volume, struct err *err) MUST_CHECK;

/* host resume: says in `said` what is so now. */
int host_resume(const struct host_args *a, struct str *said, struct err *err) MUST_CHECK;
