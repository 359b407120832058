/* SPDX-License-Identifier: Apache-2.0 */
/* Which mount option does a filesystem refuse? mount(2) answers EINVAL and does not say. */
#pragma once

#include <stdbool.h>

#include "common/str.h"

/*
 * Does the running kernel's filesystem refuse this option ("name" or "name=value", not one of
 * mount(2)'s own flags)? True: `why` (may be NULL) got the kernel's words, if it has any. False: it
 * takes the option, or cannot be asked (before Linux 5.2, or a filesystem that still looks at its
 * options only when it is mounted). Mounts nothing and reads no device; any thread.
 */
bool mount_option_is_refused(const char *fs_type, const char *option, struct str *why);
