/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the mount option that a filesystem rejects, because mount(2) returns only EINVAL. */
#pragma once

#include <stdbool.h>

#include "common/str.h"

/*
 * Returns true if the running kernel's filesystem rejects this option ("name" or "name=value", not
 * one of mount(2)'s own flags); `why` (may be NULL) has the kernel's message, if any. Returns false
 * if the kernel accepts the option, or cannot check it (before Linux 5.2, or if the filesystem
 * parses its options only when it is mounted). Mounts nothing and reads no device; any thread.
 */
bool mount_option_is_refused(const char *fs_type, const char *option, struct str *why);
