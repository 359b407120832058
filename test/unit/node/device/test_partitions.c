/* SPDX-License-Identifier: Apache-2.0 */
/* The partitions of a disk, from lists in the kernel's format. */
#include "test/lib/suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "common/mem.h"
#include "node/device/partitions.h"
#include "test/lib/tree.h"

#define LIST                                    \
	"major minor  #blocks  name\n"          \
	"\n"                                    \
	" 254        0   33554432 vda\n"        \
	" 254        1   33553408 vda1\n"       \
	" 254       16   33553408 vdaa\n"       \
	" 254       17   33553408 vdaa1\n"      \
	" 259        0  419430400 nvme0n1\n"    \
	" 259        7     102400 nvme0n1p1\n"  \
	" 259       21     102400 nvme0n1p12\n" \
	" 259        2  419430400 nvme0n11\n"   \
	" 259        3  419430400 nvme0n11p1\n" \
	"   7        0     327680 loop0\n"

static const struct {
	const char *what, *list;
	unsigned disk[2];
	const char *names[3]; /* NULL at the end */
} rows[] = {
	{ "a disk whose name ends with a letter", LIST, { 254, 0 }, { "vda1" } },
	{ "a disk whose name ends with a digit", LIST, { 259, 0 }, { "nvme0n1p1", "nvme0n1p12" } },
	{ "a disk whose name begins with another one's", LIST, { 259, 2 }, { "nvme0n11p1" } },
	{ "a disk without partitions", LIST, { 7, 0 }, { NULL } },
	{ "a partition", LIST, { 259, 7 }, { NULL } },
	{ "no disk of this host", LIST, { 8, 0 }, { NULL } },
	{ "no disk", LIST, { 0, 0 }, { NULL } },
	{ "an empty list", "", { 7, 0 }, { NULL } },
	{ "a kernel without a list", NULL, { 7, 0 }, { NULL } },
	{ "lines that end early", "8 0\n8 0 1 sda\n8 1 1 sda1", { 8, 0 }, { "sda1" } },
};

START_TEST(partitions_are_known_by_the_name_of_their_disk)
{
	struct partitions p AUTO(partitions_clear) = PARTITIONS_INIT;
	struct err err = ERR_INIT;
	char *proc AUTO(free) = NULL;
	const dev_t disk = makedev(rows[_i].disk[0], rows[_i].disk[1]);
	struct tree t;
	size_t n = 0;

	tree_unpack(&t, NULL);
	tree_mkdir(&t, "/proc");
	if (rows[_i].list)
		tree_write(&t, "/proc/partitions", rows[_i].list);
	proc = tree_path(&t, "/proc");
	ck_assert_msg(partitions_read(proc, disk, &p, &err) == 0, "%s: %s", rows[_i].what, err.msg);
	for (; rows[_i].names[n]; n++) {
		ck_assert_msg(n < p.n, "%s: %zu", rows[_i].what, p.n);
		ROW_STR_EQ(rows[_i].what, p.v[n].name, rows[_i].names[n]);
		ck_assert(partitions_have(&p, p.v[n].devno));
	}
	ck_assert_msg(p.n == n, "%s: %zu", rows[_i].what, p.n);
	ck_assert(!partitions_have(&p, disk));
	tree_clear(&t);
}
END_TEST

START_TEST(a_list_that_cannot_be_read_is_an_error)
{
	struct partitions p AUTO(partitions_clear) = PARTITIONS_INIT;
	struct err err = ERR_INIT;
	char *proc AUTO(free) = NULL;
	struct tree t;

	tree_unpack(&t, NULL);
	tree_mkdir(&t, "/proc/partitions");
	proc = tree_path(&t, "/proc");
	ck_assert_int_eq(partitions_read(proc, makedev(7, 0), &p, &err), -1);
	ck_assert_msg(err.code == ERR_UNAVAILABLE && strstr(err.msg, "partitions"), "%s", err.msg);
	tree_clear(&t);
}
END_TEST

START_TEST(lists_are_equal_that_have_the_same_devices)
{
	struct partition one = { makedev(259, 7), "nvme0n1p1" };
	struct partition number = { makedev(259, 8), "nvme0n1p1" };
	struct partition name = { makedev(259, 7), "nvme0n1p2" };
	const struct partitions a = { &one, 1 }, none = PARTITIONS_INIT;

	ck_assert(partitions_equal(&a, &a) && partitions_equal(&none, &none));
	ck_assert(!partitions_equal(&a, &none) && !partitions_equal(&none, &a));
	ck_assert(!partitions_equal(&a, &(struct partitions) { &number, 1 }));
	ck_assert(!partitions_equal(&a, &(struct partitions) { &name, 1 }));
}
END_TEST

SUITE("partitions", LOOP(partitions_are_known_by_the_name_of_their_disk, ARRAY_LEN(rows)),
      a_list_that_cannot_be_read_is_an_error, lists_are_equal_that_have_the_same_devices);
