/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads /proc/self, which takes about 50 us. Runs on the thread that renders /metrics, and keeps no
 * state between calls.
 */
#include "web/process.h"

#include <dirent.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/metric.h"

#define STAT_MAX 4096
#define STATM_MAX 256
#define NS_PER_S INT64_C(1000000000)
/*
 * Numbers of fields in /proc/self/stat after the name, which may contain spaces: proc_pid_stat(5).
 */
#define FIELD_THREADS 20
#define FIELD_START 22

static int64_t timespec_ns(struct timespec t)
{
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* Returns the field with that number; "" if absent. */
static const char *field_of(const char *stat, int number)
{
	const char *at = strrchr(stat, ')');

	for (int i = 2; at && i < number; i++) {
		at = strchr(at, ' ');
		at += at != NULL;
	}
	return at ? at : "";
}

/* Converts ticks since boot to Unix time; the result is wrong if the clock has been set since. */
static int64_t start_time(const char *stat)
{
	struct timespec now, up;
	int64_t ticks = strtoll(field_of(stat, FIELD_START), NULL, 10);

	clock_gettime(CLOCK_REALTIME, &now);
	clock_gettime(CLOCK_BOOTTIME, &up);
	return timespec_ns(now) - timespec_ns(up) + ticks * (NS_PER_S / sysconf(_SC_CLK_TCK));
}

static void look_at_stat(void)
{
	char *text AUTO(free) = NULL;
	struct err ignored = ERR_INIT;

	if (file_read_line("/proc/self/stat", STAT_MAX, &text, &ignored))
		return;
	metric_set(METRIC_PROCESS_THREADS, strtoll(field_of(text, FIELD_THREADS), NULL, 10), NULL);
	metric_set(METRIC_PROCESS_START, start_time(text), NULL);
}

static void look_at_memory(void)
{
	char *text AUTO(free) = NULL, *rest = NULL;
	struct err ignored = ERR_INIT;
	long page = sysconf(_SC_PAGESIZE);

	if (file_read_line("/proc/self/statm", STATM_MAX, &text, &ignored))
		return;
	metric_set(METRIC_PROCESS_VIRTUAL, strtoll(text, &rest, 10) * page, NULL);
	metric_set(METRIC_PROCESS_RESIDENT, strtoll(rest, NULL, 10) * page, NULL);
}

static void look_at_descriptors(void)
{
	DIR *dir AUTO(closedir) = opendir("/proc/self/fd");
	struct rlimit limit;
	int64_t n = 0;

	if (!getrlimit(RLIMIT_NOFILE, &limit))
		metric_set(METRIC_PROCESS_MAX_FDS, (int64_t)limit.rlim_cur, NULL);
	if (!dir)
		return;
	while (readdir(dir))
		n++;
	/* without ".", ".." and this directory's own descriptor */
	metric_set(METRIC_PROCESS_FDS, n - 3, NULL);
}

void process_look(void)
{
	struct timespec cpu;

	if (!clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu))
		metric_set(METRIC_PROCESS_CPU, timespec_ns(cpu), NULL);
	look_at_stat();
	look_at_memory();
	look_at_descriptors();
}
