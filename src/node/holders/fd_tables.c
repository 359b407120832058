/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sorted array with a binary search, so that n processes need n * log n comparisons. kcmp(2)
 * compares the tables that both tasks have at that moment. An entry whose task has ended is
 * removed. An entry whose task now has a different table (exec, unshare) may be at the wrong index;
 * a search may then miss a table, which is read again. In each of these cases every unread table is
 * read.
 */
#include "node/holders/fd_tables.h"

#include <linux/kcmp.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"

#define STATUS_MAX (64 * 1024)
enum { SAME = 0, LESS = 1, GREATER = 2 }; /* results of kcmp(2) */

static int compare(pid_t a, pid_t b)
{
	return (int)syscall(SYS_kcmp, a, b, KCMP_FILES, 0, 0);
}

/*
 * Returns true if the process IDs in this procfs are those of this process's PID namespace. NSpid
 * lists the IDs of this process from the procfs's PID namespace down to the innermost one, so there
 * is only one if both namespaces are the same.
 */
static bool has_our_ids(const char *proc_root)
{
	char *path AUTO(free) = xasprintf("%s/self/status", proc_root), *text AUTO(free) = NULL;
	char *line AUTO(free) = xasprintf("\nNSpid:\t%d\n", (int)getpid());
	struct err ignored = ERR_INIT;

	return file_read(path, STATUS_MAX, &text, NULL, &ignored) == 0 && strstr(text, line);
}

void fd_tables_begin(struct fd_tables *t, int proc, const char *proc_root)
{
	struct statfs fs;

	*t = (struct fd_tables) { .v = NULL };
	t->comparable = fstatfs(proc, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC &&
	                has_our_ids(proc_root) && compare(getpid(), getpid()) == SAME;
}

bool fd_tables_same(const struct fd_tables *t, pid_t a, pid_t b)
{
	return t->comparable && compare(a, b) == SAME;
}

static void drop(struct fd_tables *t, size_t i)
{
	t->n--;
	memmove(t->v + i, t->v + i + 1, (t->n - i) * sizeof(*t->v));
}

/*
 * Searches for the task's table. Returns 0 if there is an entry, at index *ret_at; 1 if there is no
 * entry, and a new one belongs at index *ret_at; -1 if the tables cannot be compared.
 */
static int search(struct fd_tables *t, pid_t task, size_t *ret_at)
{
	size_t from = 0, to = t->n;

	if (!t->comparable)
		return -1;
	while (from < to) {
		size_t middle = from + (to - from) / 2;
		pid_t other = t->v[middle].task;

		switch (compare(task, other)) {
		case SAME:
			*ret_at = middle;
			return 0;
		case LESS:
			to = middle;
			break;
		case GREATER:
			from = middle + 1;
			break;
		default:
			if (compare(other, other) == SAME)
				return -1; /* the table of `task` itself cannot be compared */
			drop(t, middle);
			to--;
		}
	}
	*ret_at = from;
	return 1;
}

struct fd_table *fd_tables_find(struct fd_tables *t, pid_t task)
{
	size_t at = 0;

	return search(t, task, &at) == 0 ? &t->v[at] : NULL;
}

void fd_tables_put(struct fd_tables *t, struct fd_table entry)
{
	size_t at = 0;
	int rc = search(t, entry.task, &at);

	if (rc < 0)
		return;
	if (rc == 0) {
		t->v[at] = entry;
		return;
	}
	if (t->n == t->room) {
		t->room = t->room ? t->room * 2 : 256;
		t->v = xrealloc(t->v, t->room * sizeof(*t->v));
	}
	memmove(t->v + at + 1, t->v + at, (t->n - at) * sizeof(*t->v));
	t->v[at] = entry;
	t->n++;
}

void fd_tables_clear(struct fd_tables *t)
{
	free(t->v);
	*t = (struct fd_tables) { .v = NULL };
}
