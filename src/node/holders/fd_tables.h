/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file descriptor tables that a walk over processes has found, so that a table shared by many
 * processes or threads (CLONE_FILES) is read once. kcmp(2) shows whether two tasks share a table,
 * and orders the tables; an entry is a task that had the table. Where kcmp(2) does not work, the
 * list stays empty, and each process's table is read. One walk, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/cleanup.h"

enum fd_table_state {
	FD_TABLE_READ,    /* to its end, and it does not hold what the walk looks for */
	FD_TABLE_HOLDS,   /* it holds what the walk looks for */
	FD_TABLE_PUT_OFF, /* it is larger than the tables of this round */
};

struct fd_table {
	pid_t task;
	enum fd_table_state state;
	unsigned round; /* of FD_TABLE_PUT_OFF */
};

struct fd_tables {
	bool comparable;
	struct fd_table *v; /* in the kernel's order */
	size_t n, room;
};

/*
 * `proc` is open on `proc_root`. Its process ids mean something to kcmp(2) only if it is the procfs
 * of this process's own PID namespace.
 */
void fd_tables_begin(struct fd_tables *t, int proc, const char *proc_root);
/*
 * The entry of the table that this task has now, or NULL. Valid until the next call. An entry whose
 * task has ended, or has another table now, matches no task: its table is read again.
 */
struct fd_table *fd_tables_find(struct fd_tables *t, pid_t task);
/* Adds or replaces the entry of the task's table; does nothing if it cannot be compared. */
void fd_tables_put(struct fd_tables *t, struct fd_table entry);
/* Do both tasks have the same table? False, too, if that is not known. */
bool fd_tables_same(const struct fd_tables *t, pid_t a, pid_t b);
void fd_tables_clear(struct fd_tables *t);
DEFINE_AUTO_VALUE(struct fd_tables, fd_tables_clear);
