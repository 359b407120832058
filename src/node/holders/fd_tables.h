/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file descriptor tables that a scan of processes has found, so that a table shared by many
 * processes or threads (CLONE_FILES) is read only once. kcmp(2) shows whether two tasks share a
 * table, and defines an order of the tables. An entry names a task that had the table. Where
 * kcmp(2) does not work, the list stays empty, and each process's table is read. Used by one scan
 * on one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/cleanup.h"

enum fd_table_state {
	FD_TABLE_READ,    /* read completely; no descriptor matches */
	FD_TABLE_HOLDS,   /* a descriptor matches */
	FD_TABLE_PUT_OFF, /* deferred, because it is larger than the tables of this round */
};

struct fd_table {
	pid_t task;
	enum fd_table_state state;
	unsigned round; /* the round in which it was deferred */
};

struct fd_tables {
	bool comparable;
	struct fd_table *v; /* in the kernel's order */
	size_t n, room;
};

/*
 * Initializes the list. `proc` is open on `proc_root`. Process IDs from there are valid for kcmp(2)
 * only if it is the procfs of this process's own PID namespace.
 */
void fd_tables_begin(struct fd_tables *t, int proc, const char *proc_root);
/*
 * Returns the entry of this task's current table, or NULL. Valid until the next call. An entry
 * whose task has ended, or now has a different table, does not match any task, so its table is read
 * again.
 */
struct fd_table *fd_tables_find(struct fd_tables *t, pid_t task);
/* Adds or replaces the entry of the task's table. Does nothing if tables cannot be compared. */
void fd_tables_put(struct fd_tables *t, struct fd_table entry);
/* Returns true if both tasks have the same table, false if they do not or it is unknown. */
bool fd_tables_same(const struct fd_tables *t, pid_t a, pid_t b);
void fd_tables_clear(struct fd_tables *t);
DEFINE_AUTO_VALUE(struct fd_tables, fd_tables_clear);
