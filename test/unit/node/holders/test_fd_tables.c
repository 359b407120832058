/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptor tables of real processes, some of which share them. */
#include "test/lib/suite.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "node/holders/fd_tables.h"

#define TASKS 40
#define STACK 65536

static struct fd_tables t;

static void begin(void)
{
	int proc AUTO(fd) = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	fd_tables_begin(&t, proc, "/proc");
}

static int wait_for_the_end(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return 0;
}

/* A process with this one's table, or with a copy of it. */
static pid_t start(bool shared)
{
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	ck_assert(stack != MAP_FAILED);
	pid = clone(wait_for_the_end, stack + STACK, (shared ? CLONE_FILES : 0) | SIGCHLD, NULL);
	ck_assert_int_gt(pid, 0);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void put(pid_t task, enum fd_table_state state)
{
	fd_tables_put(&t, (struct fd_table) { .task = task, .state = state });
}

#define SKIP_UNLESS_COMPARABLE()   \
	do {                       \
		begin();           \
		if (!t.comparable) \
			return;    \
	} while (0)

START_TEST(a_shared_table_is_one_entry_and_a_copy_is_another)
{
	pid_t shared[TASKS], copies[TASKS];

	SKIP_UNLESS_COMPARABLE();
	put(getpid(), FD_TABLE_READ);
	for (size_t i = 0; i < TASKS; i++) {
		shared[i] = start(true);
		copies[i] = start(false);
		ck_assert_int_eq(fd_tables_find(&t, shared[i])->task, getpid());
		ck_assert_ptr_null(fd_tables_find(&t, copies[i]));
		put(copies[i], i % 2 ? FD_TABLE_HOLDS : FD_TABLE_READ);
	}
	ck_assert_uint_eq(t.n, TASKS + 1);
	for (size_t i = 0; i < TASKS; i++) {
		const struct fd_table *found = fd_tables_find(&t, copies[i]);

		ck_assert(found && found->task == copies[i]);
		ck_assert_int_eq(found->state, i % 2 ? FD_TABLE_HOLDS : FD_TABLE_READ);
		ck_assert(fd_tables_same(&t, shared[i], getpid()));
		ck_assert(!fd_tables_same(&t, copies[i], getpid()));
	}
	put(shared[0], FD_TABLE_HOLDS);
	ck_assert_uint_eq(t.n, TASKS + 1);
	ck_assert_int_eq(fd_tables_find(&t, getpid())->task, shared[0]);
	for (size_t i = 0; i < TASKS; i++) {
		end(shared[i]);
		end(copies[i]);
	}
	fd_tables_clear(&t);
}
END_TEST

/* Its number proves nothing: a table counts as read only while a task that had it still has it. */
START_TEST(the_entry_of_a_task_that_has_ended_stands_for_no_table)
{
	pid_t pids[TASKS];

	SKIP_UNLESS_COMPARABLE();
	for (size_t i = 0; i < TASKS; i++) {
		pids[i] = start(false);
		put(pids[i], FD_TABLE_READ);
	}
	for (size_t i = 0; i < TASKS; i += 2)
		end(pids[i]);
	ck_assert_ptr_null(fd_tables_find(&t, getpid()));
	for (size_t i = 0; i < TASKS; i++)
		ck_assert((fd_tables_find(&t, pids[i]) != NULL) == (i % 2 == 1));
	for (size_t i = 1; i < TASKS; i += 2)
		end(pids[i]);
	put(pids[1], FD_TABLE_READ); /* it cannot be compared with itself */
	ck_assert_ptr_null(fd_tables_find(&t, pids[1]));
	ck_assert_ptr_null(fd_tables_find(&t, getpid()));
	fd_tables_clear(&t);
}
END_TEST

/* Numbers in a recorded /proc, or in that of another PID namespace, are not those of kcmp(2). */
START_TEST(without_a_procfs_of_ours_nothing_is_compared)
{
	int proc AUTO(fd) = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	fd_tables_begin(&t, proc, "/proc");
	ck_assert(!t.comparable);
	put(getpid(), FD_TABLE_READ);
	ck_assert_uint_eq(t.n, 0);
	ck_assert_ptr_null(fd_tables_find(&t, getpid()));
	ck_assert(!fd_tables_same(&t, getpid(), getpid()));
	fd_tables_clear(&t);
}
END_TEST

SUITE("fd_tables", a_shared_table_is_one_entry_and_a_copy_is_another,
      the_entry_of_a_task_that_has_ended_stands_for_no_table,
      without_a_procfs_of_ours_nothing_is_compared);
