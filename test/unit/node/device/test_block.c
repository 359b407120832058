/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of a block device, and UUIDs. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "node/device/block.h"
#include "test/lib/suite.h"
#include "test/lib/tree.h"

#define U1 "11111111-aaaa-4bbb-8ccc-000000000001"
#define DIR "/sys/class/block/nvme0n1"

static struct device_world world_of(const struct tree *t)
{
	return (struct device_world) { .sysfs = t->sysfs, .dev = t->dev };
}

START_TEST(uuids_are_equal_whatever_their_form)
{
	static const struct {
		const char *a, *b;
		bool want;
	} rows[] = {
		{ U1, U1, true },
		{ U1, "11111111AAAA4BBB8CCC000000000001", true },
		{ "-", "", true },
		{ U1, "", false },
		{ "", U1, false },
		{ U1, "11111111-aaaa-4bbb-8ccc-00000000000", false },
		{ U1, "11111111-aaaa-4bbb-8ccc-000000000002", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		ck_assert_msg(uuid_equal(rows[i].a, rows[i].b) == rows[i].want, "%s %s", rows[i].a,
		              rows[i].b);
	ck_assert(uuid_known(U1));
	ck_assert(!uuid_known("00000000-0000-0000-0000-000000000000"));
	ck_assert(!uuid_known(""));
	ck_assert(!uuid_known(NULL));
}
END_TEST

START_TEST(only_a_real_uuid_is_one)
{
	static const struct {
		const char *what, *uuid, *wwid, *want;
	} rows[] = {
		{ "both", U1 "\n", "uuid." U1 "\n", U1 },
		{ "no wwid", U1 "\n", NULL, U1 },
		{ "no uuid", NULL, "uuid." U1 "\n", "" },
		{ "neither", NULL, NULL, "" },
		{ "NGUID in its place", U1 "\n", "eui.11111111aaaa4bbb8ccc000000000001\n", "" },
		{ "quirk", U1 "\n", "nvme.1b36-4d54-51454d55-00000001\n", "" },
		{ "zeros", "00000000-0000-0000-0000-000000000000\n", NULL, "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct tree t AUTO(tree_clear) = { 0 };
		struct err err = ERR_INIT;
		char got[40] = "untouched";

		tree_unpack(&t, NULL);
		if (rows[i].uuid)
			tree_write(&t, "/sys/uuid", rows[i].uuid);
		if (rows[i].wwid)
			tree_write(&t, "/sys/wwid", rows[i].wwid);
		ck_assert_int_eq(block_uuid(t.sysfs, got, &err), 0);
		ROW_STR_EQ(rows[i].what, got, rows[i].want);
	}
}
END_TEST

static void write_disk(const struct tree *t)
{
	tree_write(t, DIR "/dev", "259:7\n");
	tree_write(t, DIR "/size", "2048\n");
	tree_write(t, DIR "/nsid", "3\n");
	tree_write(t, DIR "/ro", "1\n");
	tree_write(t, DIR "/hidden", "0\n");
	tree_write(t, DIR "/diskseq", "12\n");
	tree_write(t, DIR "/uuid", U1 "\n");
}

START_TEST(a_disk_is_read_whole)
{
	struct tree t AUTO(tree_clear) = { 0 };
	struct device_world w;
	struct device d;
	struct err err = ERR_INIT;

	tree_unpack(&t, NULL);
	w = world_of(&t);
	write_disk(&t);
	ck_assert_int_eq(block_read(&w, "nvme0n1", &d, &err), 0);
	ck_assert_str_eq(d.name, "nvme0n1");
	ck_assert_str_eq(d.uuid, U1);
	ck_assert_uint_eq(d.devno, makedev(259, 7));
	ck_assert_uint_eq(d.size, 2048 * 512);
	ck_assert_uint_eq(d.nsid, 3);
	ck_assert_uint_eq(d.diskseq, 12);
	ck_assert(d.read_only);
	ck_assert_str_eq(d.pci, "");
	ck_assert_int_eq(block_read(&w, "nvme0n2", &d, &err), BLOCK_ABSENT);
}
END_TEST

/* Returns one number per open: a FIFO in place of the attribute. */
static void *two_numbers(void *arg)
{
	static const char *const texts[] = { "12\n", "13\n" };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		int fd AUTO(fd) = open(arg, O_WRONLY | O_CLOEXEC);

		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(write(fd, texts[i], 3), 3);
		close(TAKE_FD(fd));
		/*
		 * The first reader must have seen the end of file before the next writer opens the
		 * FIFO.
		 */
		usleep(200000);
	}
	return NULL;
}

START_TEST(a_disk_that_is_replaced_while_it_is_read_is_not_taken)
{
	struct tree t AUTO(tree_clear) = { 0 };
	char *fifo AUTO(free) = NULL;
	struct device_world w;
	struct device d = { .name = "untouched" };
	struct err err = ERR_INIT;
	pthread_t thread;

	tree_unpack(&t, NULL);
	w = world_of(&t);
	write_disk(&t);
	tree_remove(&t, DIR "/diskseq");
	fifo = tree_path(&t, DIR "/diskseq");
	ck_assert_int_eq(mkfifo(fifo, 0600), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, two_numbers, fifo), 0);
	ck_assert_msg(block_read(&w, "nvme0n1", &d, &err) == BLOCK_ABSENT, "%s", err.msg);
	pthread_join(thread, NULL);
	ck_assert_str_eq(d.name, "untouched");
}
END_TEST

SUITE("block", uuids_are_equal_whatever_their_form, only_a_real_uuid_is_one, a_disk_is_read_whole,
      a_disk_that_is_replaced_while_it_is_read_is_not_taken);
