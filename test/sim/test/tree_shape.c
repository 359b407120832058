/* SPDX-License-Identifier: Apache-2.0 */
/* nftw() passes nothing to its callback, so the result is static: one thread only. */
#include "test/sim/test/tree_shape.h"

#include <check.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct strs shape;
static size_t shape_root;

static bool all_digits(const char *s, size_t n)
{
	return n && strspn(s, "0123456789") >= n;
}

/*
 * Appends `prefix` and the parts c and n after it without their numbers. False: the text does not
 * start with them.
 */
static bool numbered(const char *s, size_t n, const char *prefix, struct str *ret)
{
	size_t k = strlen(prefix);

	if (n <= k || strncmp(s, prefix, k) || !all_digits(s + k, 1))
		return false;
	str_add(ret, prefix);
	for (size_t i = k; i < n; i++)
		if (!all_digits(s + i, 1))
			str_addn(ret, s + i, 1);
		else if (i == k || !all_digits(s + i - 1, 1))
			str_add(ret, "#");
	return true;
}

/* Appends a component of a path without addresses and numbers. */
static void add_component(const char *s, size_t n, struct str *ret)
{
	if (n == 12 && s[4] == ':' && s[7] == ':' && s[10] == '.')
		str_add(ret, "BDF");
	else if (memchr(s, ':', n) && all_digits(s, strcspn(s, ":")))
		str_add(ret, "M:m");
	else if (!numbered(s, n, "nvme-subsys", ret) && !numbered(s, n, "nvme", ret) &&
	         !numbered(s, n, "ng", ret) && !numbered(s, n, "virtfn", ret))
		str_addn(ret, s, n);
}

static void add_shape(const char *path, struct str *ret)
{
	while (*path) {
		size_t n = strcspn(path, "/");

		add_component(path, n, ret);
		path += n;
		if (*path == '/')
			str_addn(ret, path++, 1);
	}
}

static int collect(const char *path, const struct stat *st, int type, struct FTW *place)
{
	struct str line AUTO(str_clear) = STR_INIT(4096);
	char target[1024];
	ssize_t n;

	(void)place;
	if (type == FTW_D || type == FTW_DP || S_ISFIFO(st->st_mode))
		return 0;
	add_shape(path + shape_root, &line);
	if (S_ISLNK(st->st_mode)) {
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		str_add(&line, " -> ");
		add_shape(target, &line);
	}
	if (!strs_has(&shape, line.ptr))
		strs_add(&shape, line.ptr);
	return 0;
}

struct strs tree_shape(const char *sysfs)
{
	struct strs ret;

	shape = (struct strs)STRS_INIT;
	shape_root = strlen(sysfs);
	ck_assert_int_eq(nftw(sysfs, collect, 32, FTW_PHYS), 0);
	ret = shape;
	shape = (struct strs)STRS_INIT;
	return ret;
}
