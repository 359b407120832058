/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a record matches the present disk. */
#include "test/lib/suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "node/work/disk_record.h"
#include "node/work/state_file.h"

static char root[64];
static struct node n;

static void boot(const char *id)
{
	struct err err = ERR_INIT;
	char *dir AUTO(free) = xasprintf("%s/sys/kernel/random", root);
	char *path AUTO(free) = xasprintf("%s/boot_id", dir);

	ck_assert_int_eq(dir_make(dir, 0755, &err), 0);
	ck_assert_int_eq(file_replace(path, id, strlen(id), 0644, &err), 0);
}

static void begin(void)
{
	snprintf(root, sizeof(root), "/tmp/record-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	n.o = (struct node_options) { .proc_root = root, .plugin_dir = root };
	boot("boot-1\n");
}

static void end(void)
{
	char *command AUTO(free) = xasprintf("rm -rf %s", root);

	ck_assert_int_eq(system(command), 0);
}

static const struct device disk = { .uuid = "u", .nsid = 1, .size = 4096 };
static const struct device other_uuid = { .uuid = "v", .nsid = 1, .size = 4096 };
static const struct device other_nsid = { .uuid = "u", .nsid = 2, .size = 4096 };
static const struct device other_size = { .uuid = "u", .nsid = 1, .size = 8192 };

static char *text_of(const struct disk_record *r)
{
	struct err err = ERR_INIT;
	char *text = NULL;

	ck_assert_msg(disk_record_text(&n, DISK_RECORD_MKFS, r, &text, &err) == 0, "%s", err.msg);
	return text;
}

START_TEST(a_record_speaks_of_its_own_attachment_only)
{
	static const struct disk_record written = { "a", &disk, "ext4", 7, "uid-1", 0, NULL };
	static const struct {
		const char *what, *boot;
		struct disk_record now;
		bool matches;
	} rows[] = {
		{ "the same", "boot-1\n", { "a", &disk, "ext4", 7, "uid-1", 0, NULL }, true },
		{ "the same, unsaid", "boot-1\n", { "a", &disk, "ext4", 7, NULL, 0, NULL }, true },
		{ "after a reboot", "boot-2\n", { "a", &disk, "ext4", 3, "uid-1", 0, NULL }, true },
		{ "reattached, but with this UID",
		  "boot-1\n",
		  { "a", &disk, "ext4", 8, "uid-1", 0, NULL },
		  true },
		{ "another attachment",
		  "boot-2\n",
		  { "a", &disk, "ext4", 7, "uid-2", 0, NULL },
		  false },
		{ "a part of the UID",
		  "boot-2\n",
		  { "a", &disk, "ext4", 7, "uid-", 0, NULL },
		  false },
		{ "another attachment of this boot",
		  "boot-1\n",
		  { "a", &disk, "ext4", 7, "uid-2", 0, NULL },
		  false },
		{ "a part of the UID in this boot",
		  "boot-1\n",
		  { "a", &disk, "ext4", 7, "uid-", 0, NULL },
		  false },
		{ "unsaid after a reboot",
		  "boot-2\n",
		  { "a", &disk, "ext4", 7, "", 0, NULL },
		  false },
		{ "another disk of this boot",
		  "boot-1\n",
		  { "a", &disk, "ext4", 8, "", 0, NULL },
		  false },
		{ "another volume",
		  "boot-1\n",
		  { "b", &disk, "ext4", 7, "uid-1", 0, NULL },
		  false },
		{ "another filesystem",
		  "boot-1\n",
		  { "a", &disk, "ext3", 7, "uid-1", 0, NULL },
		  false },
		{ "another UUID",
		  "boot-1\n",
		  { "a", &other_uuid, "ext4", 7, "uid-1", 0, NULL },
		  false },
		{ "another namespace",
		  "boot-1\n",
		  { "a", &other_nsid, "ext4", 7, "uid-1", 0, NULL },
		  false },
		{ "another size",
		  "boot-1\n",
		  { "a", &other_size, "ext4", 7, "uid-1", 0, NULL },
		  false },
	};

	begin();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *path AUTO(free) = disk_record_path(&n, "a", DISK_RECORD_MKFS),
			   *text AUTO(free) = NULL;
		struct err err = ERR_INIT;
		int rc;

		boot("boot-1\n");
		text = text_of(&written);
		ck_assert_int_eq(state_file_write_synced(path, text, &err), 0);
		boot(rows[i].boot);
		rc = disk_record_matches(&n, DISK_RECORD_MKFS, &rows[i].now, &err);
		ck_assert_msg(rc == (rows[i].matches ? 0 : DISK_RECORD_ABSENT), "%s: %d",
		              rows[i].what, rc);
		/* A record of mkfs does not apply to e2fsck. */
		ck_assert_int_eq(disk_record_matches(&n, DISK_RECORD_E2FSCK, &rows[i].now, &err),
		                 DISK_RECORD_ABSENT);
		ck_assert_int_eq(state_file_remove_synced(path, &err), 0);
		ck_assert_int_eq(state_file_remove_synced(path, &err), 0);
	}
	end();
}
END_TEST

START_TEST(a_record_without_a_uid_goes_by_the_boot_and_the_disks_number)
{
	static const struct {
		const char *what, *boot, *attachment_then, *attachment_now;
		uint64_t diskseq_then, diskseq_now;
		bool matches;
	} rows[] = {
		{ "written without one", "boot-1\n", "", "uid-1", 7, 7, true },
		{ "without one, after a reboot", "boot-2\n", "", "uid-1", 7, 7, false },
		{ "without one, another disk", "boot-1\n", "", "uid-1", 7, 8, false },
		{ "neither has one", "boot-1\n", NULL, NULL, 7, 7, true },
		{ "numbers that nobody knows", "boot-1\n", "", "", 0, 0, false },
		{ "the same, with a UID now", "boot-1\n", "", "uid-1", 0, 0, false },
		{ "the same, with a UID then", "boot-1\n", "uid-1", "", 0, 0, false },
		{ "the same, with the same UID", "boot-1\n", "uid-1", "uid-1", 0, 0, true },
	};

	begin();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct disk_record then = {
			"a", &disk, "ext4", rows[i].diskseq_then, rows[i].attachment_then, 0, NULL
		};
		struct disk_record now = {
			"a", &disk, "ext4", rows[i].diskseq_now, rows[i].attachment_now, 0, NULL
		};
		char *path AUTO(free) = disk_record_path(&n, "a", DISK_RECORD_MKFS),
			   *text AUTO(free) = NULL;
		struct err err = ERR_INIT;
		int rc;

		boot("boot-1\n");
		text = text_of(&then);
		ck_assert_int_eq(state_file_write_synced(path, text, &err), 0);
		boot(rows[i].boot);
		rc = disk_record_matches(&n, DISK_RECORD_MKFS, &now, &err);
		ck_assert_msg(rc == (rows[i].matches ? 0 : DISK_RECORD_ABSENT), "%s: %d",
		              rows[i].what, rc);
	}
	end();
}
END_TEST

/* A crash may have left any part of the record. */
START_TEST(a_record_that_is_cut_matches_nothing)
{
	static const struct disk_record written = { "a", &disk, "ext4", 7, "uid-1", 0, NULL };
	char *path AUTO(free) = NULL, *text AUTO(free) = NULL;
	struct err err = ERR_INIT;

	begin();
	path = disk_record_path(&n, "a", DISK_RECORD_MKFS);
	text = text_of(&written);
	for (size_t n_bytes = strlen(text); n_bytes-- > 0;) {
		text[n_bytes] = '\0';
		ck_assert_int_eq(state_file_write_synced(path, text, &err), 0);
		ck_assert_msg(disk_record_matches(&n, DISK_RECORD_MKFS, &written, &err) ==
		                      DISK_RECORD_ABSENT,
		              "%s", text);
	}
	end();
}
END_TEST

START_TEST(a_record_is_described_to_people_and_kept_while_it_may_match)
{
	static const struct disk_record rows[] = {
		{ "a", &disk, "ext4", 7, "uid-1", 0, NULL },
		{ "a", &disk, "xfs", 7, "", 0, NULL },
	};

	begin();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *text AUTO(free) = NULL, *mkfs AUTO(free) = NULL, *check AUTO(free) = NULL;
		char *open AUTO(free) = NULL;

		boot("boot-1\n");
		text = text_of(&rows[i]);
		mkfs = disk_record_describe("0123", text);
		check = disk_record_describe("0123.e2fsck", text);
		ck_assert_str_eq(mkfs, i ? "mkfs.xfs of volume a" : "mkfs.ext4 of volume a");
		ck_assert_str_eq(check,
		                 i ? "check of xfs of volume a" : "check of ext4 of volume a");
		open = disk_record_describe("0123.luks", text);
		ck_assert_str_eq(open, i ? "open of xfs of volume a" : "open of ext4 of volume a");
		ck_assert(!disk_record_is_outdated(&n, text));
		boot("boot-2\n");
		ck_assert(disk_record_is_outdated(&n, text) == (i == 1));
	}
	ck_assert_ptr_null(disk_record_describe("0123", ""));
	end();
}
END_TEST

START_TEST(a_disk_that_is_handed_out_ends_what_records_say_of_it)
{
	static const struct device unnamed = { .uuid = "", .nsid = 1, .size = 4096 };
	static const struct disk_record of_a = { "a", &disk, "ext4", 7, "uid-1", 0, NULL };
	static const struct disk_record of_unnamed = { "a", &unnamed, "ext4", 7, "uid-1", 0, NULL };
	static const struct {
		const char *what, *boot;
		const struct disk_record *written;
		const char *volume; /* the volume that gets the disk */
		const struct device *dev;
		uint64_t diskseq;
		bool read_only;
		bool mkfs, e2fsck; /* true: this record is removed */
	} rows[] = {
		{ "to its volume", "boot-1\n", &of_a, "a", &disk, 7, false, true, true },
		{ "for reading", "boot-1\n", &of_a, "a", &disk, 7, true, true, false },
		{ "its volume, another disk", "boot-1\n", &of_a, "a", &other_uuid, 8, false, true,
		  true },
		{ "to another volume", "boot-1\n", &of_a, "b", &disk, 7, false, true, true },
		{ "after a reboot", "boot-2\n", &of_a, "b", &disk, 3, false, true, true },
		{ "grown since", "boot-1\n", &of_a, "b", &other_size, 7, false, true, true },
		{ "another disk", "boot-1\n", &of_a, "b", &other_uuid, 7, false, false, false },
		{ "UUID unknown", "boot-1\n", &of_unnamed, "b", &unnamed, 7, false, true, true },
		{ "UUID unknown, another disk of this boot", "boot-1\n", &of_unnamed, "b", &unnamed,
		  8, false, false, false },
		{ "UUID unknown, after a reboot", "boot-2\n", &of_unnamed, "b", &unnamed, 8, false,
		  true, true },
		{ "UUID unknown, number unknown", "boot-1\n", &of_unnamed, "b", &unnamed, 0, false,
		  true, true },
		{ "UUID known since", "boot-1\n", &of_unnamed, "b", &disk, 7, false, true, true },
		{ "another namespace", "boot-2\n", &of_unnamed, "b", &other_nsid, 7, false, false,
		  false },
	};

	begin();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *mkfs AUTO(free) = disk_record_path(&n, "a", DISK_RECORD_MKFS);
		char *e2fsck AUTO(free) = disk_record_path(&n, "a", DISK_RECORD_E2FSCK);
		char *text AUTO(free) = NULL;
		struct err err = ERR_INIT;

		boot("boot-1\n");
		text = text_of(rows[i].written);
		ck_assert_int_eq(state_file_write_synced(mkfs, text, &err), 0);
		ck_assert_int_eq(state_file_write_synced(e2fsck, text, &err), 0);
		boot(rows[i].boot);
		ck_assert_msg(disk_records_end(&n, rows[i].volume, rows[i].dev, rows[i].diskseq,
		                               rows[i].read_only, &err) == 0,
		              "%s: %s", rows[i].what, err.msg);
		ck_assert_msg(path_exists(mkfs) == !rows[i].mkfs, "%s: mkfs", rows[i].what);
		ck_assert_msg(path_exists(e2fsck) == !rows[i].e2fsck, "%s: e2fsck", rows[i].what);
		ck_assert_int_eq(state_file_remove(mkfs, &err), 0);
		ck_assert_int_eq(state_file_remove(e2fsck, &err), 0);
	}
	end();
}
END_TEST

START_TEST(a_record_that_cannot_be_read_now_keeps_the_disk)
{
	struct err err = ERR_INIT;
	struct rlimit was, few;
	char *path AUTO(free) = NULL, *text AUTO(free) = NULL, *link AUTO(free) = NULL;
	static const struct disk_record of_b = { "b", &disk, "ext4", 7, "uid-1", 0, NULL };
	int rc = -1;

	begin();
	ck_assert_int_eq(disk_records_end(&n, "a", &disk, 7, false, &err), 0); /* no folder */
	path = disk_record_path(&n, "b", DISK_RECORD_MKFS);
	text = text_of(&of_b);
	ck_assert_int_eq(state_file_write_synced(path, text, &err), 0);
	link = xasprintf("%s/" STATE_DIR_JOBS "/link", root); /* not a record, and so ignored */
	ck_assert_int_eq(symlink("/nowhere", link), 0);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
	for (int more = 0; more < 5 && rc; more++) {
		int next = dup(0);

		close(next);
		few = (struct rlimit) { (rlim_t)(next + more), was.rlim_max };
		err_clear(&err);
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
		rc = disk_records_end(&n, "a", &disk, 7, false, &err);
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
		ck_assert_msg(rc == 0 || err.code == ERR_UNAVAILABLE, "%s", err.msg);
		ck_assert_msg(rc != 0 || !path_exists(path), "%d descriptors", more);
	}
	ck_assert_msg(rc == 0, "%s", err.msg);
	end();
}
END_TEST

START_TEST(a_record_that_cannot_be_kept_is_an_error)
{
	static const struct disk_record written = { "a", &disk, "ext4", 7, "uid-1", 0, NULL };
	char *path AUTO(free) = NULL, *dir AUTO(free) = NULL;
	struct err err = ERR_INIT;

	begin();
	path = disk_record_path(&n, "a", DISK_RECORD_MKFS);
	dir = xasprintf("%s/" STATE_DIR_JOBS, root);
	ck_assert_int_eq(file_replace(dir, "", 0, 0644, &err), 0);
	ck_assert_int_eq(state_file_write_synced(path, "x", &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	err_clear(&err);
	ck_assert_int_eq(disk_record_matches(&n, DISK_RECORD_MKFS, &written, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	end();
}
END_TEST

START_TEST(while_the_boot_is_not_known_a_record_is_neither_believed_nor_written_off)
{
	static const struct disk_record written = { "a", &disk, "ext4", 7, "", 0, NULL };
	static const char *const unknown[] = { "", "\n",
		                               "an id that is longer than those of any "
		                               "kernel, and would be cut to another" };
	char *path AUTO(free) = NULL, *text AUTO(free) = NULL, *none AUTO(free) = NULL;
	struct err err = ERR_INIT;

	begin();
	path = disk_record_path(&n, "a", DISK_RECORD_MKFS);
	text = text_of(&written);
	ck_assert_int_eq(state_file_write_synced(path, text, &err), 0);
	for (size_t i = 0; i < ARRAY_LEN(unknown); i++) {
		boot(unknown[i]);
		ck_assert_int_eq(disk_record_matches(&n, DISK_RECORD_MKFS, &written, &err), -1);
		ck_assert_msg(err.code == ERR_UNAVAILABLE && strstr(err.msg, "boot_id"), "%s",
		              err.msg);
		err_clear(&err);
		ck_assert_int_eq(disk_record_text(&n, DISK_RECORD_MKFS, &written, &none, &err), -1);
		ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
		err_clear(&err);
		ck_assert(!disk_record_is_outdated(&n, text));
		ck_assert_int_eq(disk_record_matches(&n, DISK_RECORD_E2FSCK, &written, &err),
		                 DISK_RECORD_ABSENT);
	}
	boot("boot-1\n");
	ck_assert_int_eq(disk_record_matches(&n, DISK_RECORD_MKFS, &written, &err), 0);
	end();
}
END_TEST

/* Each of these would add a line, and turn the record into one of another disk or boot. */
START_TEST(a_text_that_would_add_a_line_makes_no_record)
{
	static const struct device odd_disk = { .uuid = "u\nnsid=9", .nsid = 1, .size = 4096 };
	static const struct disk_record odd[] = {
		{ "a\nuuid=v", &disk, "ext4", 7, "uid-1", 0, NULL },
		{ "a\n", &disk, "ext4", 7, "uid-1", 0, NULL },
		{ "a\r", &disk, "ext4", 7, "uid-1", 0, NULL },
		{ "a", &odd_disk, "ext4", 7, "uid-1", 0, NULL },
		{ "a", &disk, "ext4\nuuid=v", 7, "uid-1", 0, NULL },
		{ "a", &disk, "ext4", 7, "x\nboot=boot-2\ndiskseq=8\nattachment=x", 0, NULL },
		{ "a", &disk, "ext4", 7, "\n", 0, NULL },
	};
	static const enum disk_record_kind kinds[] = { DISK_RECORD_MKFS, DISK_RECORD_E2FSCK,
		                                       DISK_RECORD_UNSTAGE };

	begin();
	for (size_t i = 0; i < ARRAY_LEN(odd); i++)
		for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
			/* The record of an unstage has neither. */
			bool is_whole = kinds[k] == DISK_RECORD_UNSTAGE && i >= 4;
			char *text AUTO(free) = NULL;
			struct err err = ERR_INIT;
			int rc = disk_record_text(&n, kinds[k], &odd[i], &text, &err);

			ck_assert_msg(rc == (is_whole ? 0 : -1), "row %zu, kind %zu: %s", i, k,
			              text);
			ck_assert_msg(is_whole || (err.code == ERR_INVALID &&
			                           strstr(err.msg, "has a control character")),
			              "row %zu, kind %zu: %s", i, k, err.msg);
		}
	end();
}
END_TEST

/* A driver is upgraded, and rolled back, while such files exist. */
START_TEST(the_text_is_that_of_older_versions)
{
	static const char mkfs[] =
		"volume=a\nuuid=u\nnsid=1\nsize=4096\nfilesystem=ext4\ndevice=0:0\n"
		"boot=boot-1\ndiskseq=7\nattachment=uid-1\n";
	static const char without_device[] =
		"volume=a\nuuid=u\nnsid=1\nsize=4096\nfilesystem=ext4\n"
		"boot=boot-1\ndiskseq=7\nattachment=\n";
	static const char unstage[] = "device=0:0 filesystem=0:77\nvolume=a\nuuid=u\nnsid=1\n"
				      "boot=boot-1\ndiskseq=7\n";
	const struct disk_record r = { "a", &disk, "ext4", 7, "uid-1", makedev(0, 77), NULL };
	char *path AUTO(free) = NULL, *text AUTO(free) = NULL, *leaving AUTO(free) = NULL;
	struct err err = ERR_INIT;

	begin();
	path = disk_record_path(&n, "a", DISK_RECORD_MKFS);
	text = text_of(&r);
	ck_assert_str_eq(text, mkfs);
	ck_assert_int_eq(disk_record_text(&n, DISK_RECORD_UNSTAGE, &r, &leaving, &err), 0);
	ck_assert_str_eq(leaving, unstage);
	ck_assert(!disk_record_is_outdated(&n, unstage));
	ck_assert_int_eq(state_file_write_synced(path, without_device, &err), 0);
	ck_assert_int_eq(disk_record_matches(&n, DISK_RECORD_MKFS, &r, &err), 0);
	boot("boot-2\n");
	ck_assert(disk_record_is_outdated(&n, unstage));
	ck_assert_int_eq(disk_record_matches(&n, DISK_RECORD_MKFS, &r, &err), DISK_RECORD_ABSENT);
	end();
}
END_TEST

SUITE("disk_record", a_text_that_would_add_a_line_makes_no_record,
      the_text_is_that_of_older_versions, a_record_speaks_of_its_own_attachment_only,
      a_record_without_a_uid_goes_by_the_boot_and_the_disks_number,
      a_record_that_is_cut_matches_nothing,
      a_record_is_described_to_people_and_kept_while_it_may_match,
      a_disk_that_is_handed_out_ends_what_records_say_of_it,
      a_record_that_cannot_be_read_now_keeps_the_disk, a_record_that_cannot_be_kept_is_an_error,
      while_the_boot_is_not_known_a_record_is_neither_believed_nor_written_off);
