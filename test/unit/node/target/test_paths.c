/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A realpath(3) that fails for a reason other than the path. test_node_csi.c has the rows with
 * paths.
 */
#include "test/lib/suite.h"

#include <dlfcn.h>
#include <errno.h>

#include "node/node.h"
#include "node/target/paths.h"

static struct {
	int sys;
	unsigned times;
} fault;

/* Replaces the C library's function for the driver. */
char *realpath(const char *path, char *resolved)
{
	char *(*real)(const char *, char *);

	if (fault.times) {
		fault.times--;
		errno = fault.sys;
		return NULL;
	}
	*(void **)&real = dlsym(RTLD_NEXT, "realpath");
	return real(path, resolved);
}

START_TEST(a_shortage_while_a_path_is_resolved_blames_no_link)
{
	static const struct {
		int sys;
		unsigned times;
		const char *text; /* NULL: the path is allowed */
	} rows[] = {
		{ ENOMEM, 99, "Cannot allocate memory" },
		{ ENOMEM, 1, "temporarily" },
		{ EMFILE, 99, "Too many open files" },
		{ EIO, 99, "Input/output error" },
		{ 0, 0, NULL },
	};
	const struct node_options o = { .kubelet_dir = "/tmp" };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;

		fault.sys = rows[i].sys;
		fault.times = rows[i].times;
		ck_assert_int_eq(paths_check(&o, "/tmp/mount", &err), rows[i].text ? -1 : 0);
		ck_assert_msg(!rows[i].text || (err.code == ERR_UNAVAILABLE &&
		                                strstr(err.msg, rows[i].text)),
		              "%zu: %s: %s", i, err_code_name(err.code), err.msg);
	}
}
END_TEST

SUITE("paths", a_shortage_while_a_path_is_resolved_blames_no_link);
