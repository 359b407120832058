/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics about the process, compared with the test's own values. */
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/metric.h"
#include "test/lib/suite.h"
#include "web/process.h"

START_TEST(the_process_is_as_it_is)
{
	int64_t fds, cpu, now = time(NULL), start;
	volatile unsigned busy = 0;

	process_look();
	fds = metric_value(METRIC_PROCESS_FDS, NULL);
	cpu = metric_value(METRIC_PROCESS_CPU, NULL);
	start = metric_value(METRIC_PROCESS_START, NULL) / 1000000000;
	ck_assert_int_ge(metric_value(METRIC_PROCESS_THREADS, NULL),
	                 1); /* a sanitizer has its own */
	ck_assert_int_gt(metric_value(METRIC_PROCESS_RESIDENT, NULL), 100000);
	ck_assert_int_gt(metric_value(METRIC_PROCESS_VIRTUAL, NULL),
	                 metric_value(METRIC_PROCESS_RESIDENT, NULL));
	ck_assert_int_gt(metric_value(METRIC_PROCESS_MAX_FDS, NULL), 0);
	ck_assert(start >= now - 60 && start <= now + 1);
	ck_assert_int_ge(open("/dev/null", O_RDONLY), 0);
	while (busy < 20000000)
		busy++;
	process_look();
	ck_assert_int_eq(metric_value(METRIC_PROCESS_FDS, NULL), fds + 1);
	ck_assert_int_gt(metric_value(METRIC_PROCESS_CPU, NULL), cpu + 1000000);
}
END_TEST

SUITE("process", the_process_is_as_it_is);
