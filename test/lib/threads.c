/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the tasks that procfs shows of this process. */
#include "test/lib/threads.h"

#include <check.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/err.h"
#include "common/file.h"
#include "common/str.h"

unsigned threads_running(void)
{
	struct strs tasks AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;

	ck_assert_msg(dir_list("/proc/self/task", &tasks, &err) == 0, "%s", err.msg);
	return (unsigned)tasks.n;
}

void threads_await(unsigned n)
{
	for (int i = 0; threads_running() > n && i < 4000; i++)
		usleep(5000);
	ck_assert_uint_le(threads_running(), n);
}
