/* SPDX-License-Identifier: Apache-2.0 */
/* Records: other file types at a record's path, which are neither followed nor waited for. */
#include "test/lib/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "node/work/state_file.h"
#include "test/lib/nvme_world.h"
#include "test/lib/skip.h"

#define TEXT "device=1:2\nboot=this-boot\n"

static char root[64];
static struct node n;
static char *path;
static bool renames_plainly_only; /* as NFS does */

/* Replaces the C library's function for the driver. */
int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
	if (renames_plainly_only && flags) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

static void begin(void)
{
	snprintf(root, sizeof(root), "/tmp/record-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	n.o = (struct node_options) { .proc_root = root, .plugin_dir = root };
	path = state_file_path(&n, STATE_DIR_UNSTAGING, "a", "");
}

static void sh(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void sh(const char *fmt, ...)
{
	char *command AUTO(free) = NULL;
	va_list ap;

	va_start(ap, fmt);
	ck_assert_int_ge(vasprintf(&command, fmt, ap), 0);
	va_end(ap);
	ck_assert_msg(system(command) == 0, "%s", command);
}

static void end(void)
{
	sh("rm -rf %s", root);
	free(path);
}

static void put(const char *text)
{
	struct err err = ERR_INIT;

	ck_assert_msg(state_file_put(&n, path, text, &err) == 0, "%s", err.msg);
}

/* The text, or "none", or the error's. */
static char *content(void)
{
	struct err err = ERR_INIT;
	char *text = NULL;
	int rc = state_file_read(path, &text, &err);

	if (rc < 0)
		ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	return rc ? xstrdup(rc == STATE_FILE_NONE ? "none" : err.msg) : text;
}

static void check_content(const char *what, const char *want)
{
	char *is AUTO(free) = content();

	ck_assert_msg(strstr(is, want) != NULL, "%s: \"%s\", not \"%s\"", what, is, want);
}

static size_t spares(void)
{
	char *dir AUTO(free) = xasprintf("%s/spare", root);
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;
	size_t count = 0;

	if (path_exists(dir))
		ck_assert_int_eq(dir_list(dir, &names, &err), 0);
	count = names.n;
	return count;
}

static void make_spares(void)
{
	struct err err = ERR_INIT;

	ck_assert_msg(state_file_make_spares(&n, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(spares(), STATE_FILE_SPARES);
}

START_TEST(a_record_is_whole_and_goes_with_or_without_spare_files)
{
	struct err err = ERR_INIT;

	begin();
	renames_plainly_only = _i == 2;
	if (_i)
		make_spares();
	for (int again = 0; again < 3; again++) {
		check_content("before", "none");
		if (!renames_plainly_only) /* otherwise the replaced file is lost */
			put(TEXT "a longer one\n");
		put(TEXT);
		check_content("written", TEXT);
		ck_assert_int_eq(state_file_give_back(&n, path, &err), 0);
		ck_assert_int_eq(state_file_give_back(&n, path, &err), 0);
	}
	ck_assert_uint_eq(spares(), _i ? STATE_FILE_SPARES : 0);
	end();
}
END_TEST

START_TEST(more_records_than_spare_files_are_made_anew)
{
	struct err err = ERR_INIT;

	begin();
	make_spares();
	for (unsigned i = 0; i < STATE_FILE_SPARES + 4; i++) {
		free(path);
		path = xasprintf("%s/" STATE_DIR_UNSTAGING "/%u", root, i);
		put(TEXT);
		check_content("many", TEXT);
	}
	ck_assert_uint_eq(spares(), 0);
	for (unsigned i = 0; i < STATE_FILE_SPARES + 4; i++) {
		free(path);
		path = xasprintf("%s/" STATE_DIR_UNSTAGING "/%u", root, i);
		ck_assert_int_eq(state_file_give_back(&n, path, &err), 0);
		check_content("gone", "none");
	}
	ck_assert_uint_eq(spares(), STATE_FILE_SPARES);
	end();
}
END_TEST

/* ---- on a full disk ---- */

static void fill(void)
{
	sh("! dd if=/dev/zero of=%s/fill bs=4096 conv=notrunc oflag=append 2>/dev/null", root);
}

static void begin_full(void)
{
	begin();
	private_mounts();
	sh("mount -t tmpfs -o size=256k,mode=0755 full %s", root);
	make_spares();
	fill();
}

static void end_full(void)
{
	sh("umount %s", root);
	end();
}

static int put_numbered(unsigned i, struct err *err)
{
	char *numbered AUTO(free) = xasprintf("%s/" STATE_DIR_UNSTAGING "/%u", root, i);

	return state_file_put(&n, numbered, TEXT, err);
}

/* As many volumes as there are spare files are unstaged, one more is refused, then all end. */
static void use_all_spares(void)
{
	struct err err = ERR_INIT;

	for (unsigned i = 0; i < STATE_FILE_SPARES; i++)
		ck_assert_msg(put_numbered(i, &err) == 0, "record %u: %s", i, err.msg);
	ck_assert_int_eq(put_numbered(STATE_FILE_SPARES, &err), -1);
	ck_assert_int_eq(err.sys, ENOSPC);
	err_clear(&err);
	for (unsigned i = 0; i <= STATE_FILE_SPARES; i++) {
		char *numbered AUTO(free) = xasprintf("%s/" STATE_DIR_UNSTAGING "/%u", root, i);

		ck_assert_int_eq(state_file_give_back(&n, numbered, &err), 0);
	}
	sh("test -z \"$(ls %s/" STATE_DIR_UNSTAGING ")\"", root);
}

START_TEST(one_record_too_many_costs_no_spare_file)
{
	SKIP_UNLESS_ROOT("a tmpfs");
	begin_full();
	for (int again = 0; again < 3; again++) {
		use_all_spares();
		ck_assert_uint_eq(spares(), STATE_FILE_SPARES);
		fill();
	}
	end_full();
}
END_TEST

START_TEST(a_start_repairs_what_is_no_spare_file)
{
	static const char *const damages[] = {
		": > 0; truncate -s 4096 7",
		"rm 0 15",
		"rm 3; ln -s ../fill 3",
		"rm 3; ln 4 3",
		"rm 0; mkfifo 0",
	};

	SKIP_UNLESS_ROOT("a tmpfs");
	begin_full();
	for (size_t i = 0; i < ARRAY_LEN(damages); i++) {
		sh("rm %s/fill && cd %s/spare && truncate -s 0 7 && %s", root, root, damages[i]);
		make_spares();
		fill();
		use_all_spares();
	}
	end_full();
}
END_TEST

/* An obstacle at the path of one spare file does not affect the others. */
START_TEST(a_spare_file_that_cannot_be_made_is_told_and_the_others_are_there)
{
	struct err err = ERR_INIT;

	begin();
	sh("mkdir -p %s/spare/0/x", root);
	ck_assert_int_eq(state_file_make_spares(&n, &err), -1);
	ck_assert_msg(strstr(err.msg, "spare/0") != NULL, "%s", err.msg);
	ck_assert_uint_eq(spares(), STATE_FILE_SPARES);
	end();
}
END_TEST

/* A record with two names is not overwritten through one of them. */
START_TEST(a_spare_file_that_is_a_record_too_is_left_alone)
{
	begin();
	make_spares();
	put(TEXT);
	sh("cd %s/spare && rm -f * && ln %s 0", root, path);
	sh("cp %s %s/was", path, root);
	free(path);
	path = state_file_path(&n, STATE_DIR_UNSTAGING, "b", "");
	put("another\n");
	sh("cd %s && cmp was $(ls -d " STATE_DIR_UNSTAGING "/* | grep -v %s)", root,
	   strrchr(path, '/') + 1);
	end();
}
END_TEST

static bool is_of_that_boot(void *arg, const char *name, const char *text)
{
	(void)arg;
	(void)name;
	return state_file_has_line(text, "boot", "that-boot");
}

static const struct {
	const char *what, *command, *reads;
	bool cannot_be_written;
} places[] = {
	{ "a link to a record", "printf 'boot=that-boot\\n' > other; ln -s $PWD/other $0",
	  "is a symbolic link", false },
	{ "a link to nowhere", "ln -s /nowhere/at/all $0", "is a symbolic link", false },
	{ "a link to itself", "ln -s $0 $0", "is a symbolic link", false },
	{ "a directory", "mkdir $0", "is not a file", true },
	{ "a directory with something in it", "mkdir $0; touch $0/x", "is not a file", true },
	{ "a pipe", "mkfifo $0", "is not a file", false },
	{ "a huge file", "truncate -s 1T $0", "is longer than any record", false },
	{ "an empty file", "touch $0", "", false },
	{ "bytes without meaning", "printf '\\001\\000\\377boot=that-boot\\n' > $0", "\001",
	  false },
	{ "a record of a version to come", "printf 'v=2\\n" TEXT "more=1\\n' > $0", "more=1",
	  false },
};

/* None blocks, none is written through, and each one that is not a record is named. */
START_TEST(what_stands_in_a_records_place_is_neither_followed_nor_waited_for)
{
	struct str did AUTO(str_clear) = STR_INIT(200);
	struct err err = ERR_INIT;
	char *command AUTO(free) = NULL;

	begin();
	put(TEXT);
	command = xasprintf("cd %s/" STATE_DIR_UNSTAGING " && rm * && sh -ec \"$PLACE\" %s", root,
	                    strrchr(path, '/') + 1);
	ck_assert_int_eq(setenv("PLACE", places[_i].command, 1), 0);
	sh("%s", command);
	check_content(places[_i].what, places[_i].reads);
	ck_assert_msg(state_file_tidy(&n, STATE_DIR_UNSTAGING, is_of_that_boot, NULL, &did, &err) ==
	                      0,
	              "%s: %s", places[_i].what, err.msg);
	ck_assert_msg(path_exists(path), "%s was removed", places[_i].what);
	ck_assert_msg((state_file_put(&n, path, TEXT, &err) != 0) == places[_i].cannot_be_written,
	              "%s: %s", places[_i].what, err.msg);
	if (places[_i].cannot_be_written)
		ck_assert_msg(strstr(err.msg, path), "%s: %s", places[_i].what, err.msg);
	else
		check_content(places[_i].what, TEXT);
	sh("! grep -qs device %s/" STATE_DIR_UNSTAGING "/other", root);
	end();
}
END_TEST

/* The same at the path beside it, which is written first, and for spare files. */
START_TEST(what_stands_where_a_record_is_made_is_not_written_through)
{
	struct err err = ERR_INIT;
	char *command AUTO(free) = NULL;

	begin();
	make_spares();
	command = xasprintf("mkdir %s/w && cd %s/w && for at in ../" STATE_DIR_UNSTAGING
	                    "/%s.tmp ../spare/0; do rm -rf $at other; sh -ec \"$PLACE\" $at; done",
	                    root, root, strrchr(path, '/') + 1);
	ck_assert_int_eq(setenv("PLACE", places[_i].command, 1), 0);
	sh("%s", command);
	if (state_file_put(&n, path, TEXT, &err))
		ck_assert_msg(places[_i].cannot_be_written && strstr(err.msg, path), "%s: %s",
		              places[_i].what, err.msg);
	else
		check_content(places[_i].what, TEXT);
	sh("! grep -qs device %s/w/other", root);
	end();
}
END_TEST

START_TEST(what_is_outdated_or_half_written_goes_and_the_rest_stays)
{
	struct str did AUTO(str_clear) = STR_INIT(200);
	struct err err = ERR_INIT;

	begin();
	ck_assert_int_eq(
		state_file_tidy(&n, STATE_DIR_UNSTAGING, is_of_that_boot, NULL, &did, &err), 0);
	put(TEXT);
	sh("cd %s/" STATE_DIR_UNSTAGING " && echo boot=that-boot > old && mkdir x.tmp && "
	   "echo boot=this > half.tmp && echo boot=that-boot-2 > z",
	   root);
	/* One that cannot be removed is reported, and the others are processed. */
	ck_assert_int_eq(
		state_file_tidy(&n, STATE_DIR_UNSTAGING, is_of_that_boot, NULL, &did, &err), -1);
	ck_assert_msg(err.code == ERR_UNAVAILABLE && strstr(err.msg, "x.tmp"), "%s", err.msg);
	ck_assert_str_eq(did.ptr, "unstaging record half.tmp, unstaging record old");
	sh("cd %s/" STATE_DIR_UNSTAGING " && test \"$(ls | wc -l)\" = 3", root);
	end();
}
END_TEST

START_TEST(a_spare_file_comes_back_from_a_driver_that_was_killed_while_it_wrote)
{
	struct str did AUTO(str_clear) = STR_INIT(200);
	struct err err = ERR_INIT;

	begin();
	make_spares();
	put(TEXT);
	sh("cd %s && mv spare/5 " STATE_DIR_UNSTAGING "/half.tmp && mv spare/6 " STATE_DIR_UNSTAGING
	   "/old && printf 'boot=that-boot\\n' > " STATE_DIR_UNSTAGING "/old",
	   root);
	ck_assert_int_eq(
		state_file_tidy(&n, STATE_DIR_UNSTAGING, is_of_that_boot, NULL, &did, &err), 0);
	ck_assert_str_eq(did.ptr, "unstaging record half.tmp, unstaging record old");
	ck_assert_uint_eq(spares(), STATE_FILE_SPARES - 1);
	end();
}
END_TEST

/* A record decides whether a disk is formatted again. */
START_TEST(records_and_their_folders_are_for_root_alone)
{
	static const char *const folders[] = { STATE_DIR_JOBS, STATE_DIR_UNSTAGING, "spare" };
	char *other AUTO(free) = NULL;
	struct err err = ERR_INIT;
	mode_t before;
	struct stat st;

	begin();
	before = umask(0);
	other = state_file_path(&n, STATE_DIR_JOBS, "b", "");
	ck_assert_int_eq(state_file_make_spares(&n, &err), 0);
	ck_assert_int_eq(state_file_put(&n, path, TEXT, &err), 0);
	ck_assert_int_eq(state_file_write_synced(other, TEXT, &err), 0);
	umask(before);
	for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
		char *dir AUTO(free) = state_file_folder(&n, folders[i]);

		ck_assert_int_eq(stat(dir, &st), 0);
		ck_assert_msg((st.st_mode & 07777) == 0700, "%s: %o", dir, st.st_mode);
	}
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	ck_assert_int_eq(stat(other, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	end();
}
END_TEST

START_TEST(a_line_is_a_whole_line)
{
	static const struct {
		const char *text;
		bool has;
	} rows[] = {
		{ "boot=a\n", true },    { "x=1\nboot=a\n", true },
		{ "boot=a", false },     { "boot=ab\n", false },
		{ "reboot=a\n", false }, { "reboot=a\nboot=a\n", true },
		{ "boot=a-2\n", false }, { "", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		ck_assert_msg(state_file_has_line(rows[i].text, "boot", "a") == rows[i].has, "%s",
		              rows[i].text);
}
END_TEST

START_TEST(a_value_is_that_of_its_whole_key)
{
	static const struct {
		const char *text, *key, *value; /* NULL: absent */
	} rows[] = {
		{ "volume=pvc-1\nuuid=\n", "volume", "pvc-1" },
		{ "volume=pvc-1\nuuid=\n", "uuid", "" },
		{ "volume=a=b\n", "volume", "a=b" },
		{ "other-volume=x\nvolume=y\n", "volume", "y" },
		{ "volumes=x\n", "volume", NULL },
		{ "volume=cut", "volume", "cut" },
		{ "", "volume", NULL },
		{ "\n\n", "volume", NULL },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *value AUTO(free) = state_file_value(rows[i].text, rows[i].key);

		ck_assert_msg(rows[i].value ? str_eq(value, rows[i].value) : !value, "row %zu: %s",
		              i, value ? value : "(none)");
	}
}
END_TEST

SUITE("state_file", LOOP(a_record_is_whole_and_goes_with_or_without_spare_files, 3),
      one_record_too_many_costs_no_spare_file, a_start_repairs_what_is_no_spare_file,
      a_spare_file_that_cannot_be_made_is_told_and_the_others_are_there,
      a_spare_file_that_is_a_record_too_is_left_alone,
      a_spare_file_comes_back_from_a_driver_that_was_killed_while_it_wrote,
      more_records_than_spare_files_are_made_anew,
      LOOP(what_stands_in_a_records_place_is_neither_followed_nor_waited_for, ARRAY_LEN(places)),
      LOOP(what_stands_where_a_record_is_made_is_not_written_through, ARRAY_LEN(places)),
      what_is_outdated_or_half_written_goes_and_the_rest_stays,
      records_and_their_folders_are_for_root_alone, a_line_is_a_whole_line,
      a_value_is_that_of_its_whole_key);
