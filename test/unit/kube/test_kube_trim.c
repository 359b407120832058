/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that stays in the process after large answers. */
#include <malloc.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"
#include "test/lib/kube_fake.h"
#include "test/lib/skip.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

#define LEFT_KB (64 * 1024) /* without kube_trim.c and with trees of whole pages: 640 MB */

static size_t resident_kb(void)
{
	struct err err = ERR_INIT;
	char *status AUTO(free) = NULL;
	const char *line;
	ck_assert_int_eq(file_read("/proc/self/status", 1 << 16, &status, NULL, &err), 0);
	line = strstr(status, "VmRSS:");
	ck_assert_ptr_nonnull(line);
	return strtoul(line + 6, NULL, 10);
}

/* 2 MB of small values: as trees 80 MB. */
static char *page(void)
{
	struct str text AUTO(str_clear) = STR_INIT(8 * 1024 * 1024);
	str_add(&text, "{\"kind\":\"DPUVolumeList\",\"items\":[");
	for (unsigned i = 0; i < 500; i++) {
		str_addf(&text, "%s{\"pad\":[0", i ? "," : "");
		for (unsigned n = 1; n < 2000; n++)
			str_add(&text, ",1");
		str_add(&text, "]}");
	}
	str_add(&text, "]}");
	return str_take(&text);
}

static int pass_by(void *arg, const struct json *item, struct err *err)
{
	(void)arg;
	(void)item;
	(void)err;
	return 0;
}

static void *large_caller(void *arg)
{
	for (int i = 0; i < 3; i++) {
		struct err err = ERR_INIT;
		int rc =
			kube_list(arg, &kind_volume, "ns", NULL, pass_by, NULL, wait_limit(), &err);
		ck_assert_msg(rc == 0, "%s", err.msg);
	}
	return NULL;
}

START_TEST(large_answers_to_many_callers_leave_no_memory_behind)
{
	struct kube_fake f;
	pthread_t threads[8];
	size_t before, after = SIZE_MAX;
	char *body AUTO(free) = page();
	SKIP_IF(mallinfo2().uordblks == 0, "a sanitizer's malloc keeps what is freed");
	kube_fake_start(&f, NULL);
	fake_http_on(f.server, (struct fake_reply) { .on = "GET " VOLUMES "*", .body = body });
	before = resident_kb();
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, large_caller, f.kube), 0);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 200 && after >= before + LEFT_KB; i++) {
		usleep(50000);
		after = resident_kb();
	}
	ck_assert_msg(after < before + LEFT_KB, "%zu kB before, %zu kB after", before, after);
	kube_fake_stop(&f);
}
END_TEST

SUITE("kube_trim", large_answers_to_many_callers_leave_no_memory_behind);
