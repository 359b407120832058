/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects a lock of a file (flock(2)) without taking one, for readers that must not disturb the
 * owner of a lock. Any thread, no state.
 *
 * Source: fs/locks.c, lock_get_status().
 */
#pragma once

#include <stdbool.h>

/*
 * Returns true if <proc_root>/locks shows a lock of this file, or cannot be read. It shows only locks of processes of
 * this PID namespace, and not a lock whose owner has left it to a child process.
 */
bool flock_is_held(const char *proc_root, const char *path);
