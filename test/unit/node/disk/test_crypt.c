/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encrypted volumes without device-mapper: which code and text each result of the command "luks" has,
 * the input of the command, and the refusals before it runs. The mappings are tested in test/vm.
 */
#include "test/lib/suite.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "luks/luks.h"
#include "node/disk/crypt.h"
#include "node/work/disk_record.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"
#include "test/lib/wait.h"

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"
#define KEY "s3cret-of-the-tenant"

static struct node_world w;
static struct nvme_disk *disk;
static struct passphrases *keys;
static char *program;

/* A command that notes its arguments and its input, prints a line, and ends with this status. */
static void put_program(int status)
{
	program = xasprintf("%s/luks", w.nvme.root);
	run_tool("printf '#!/bin/sh\\necho \"$@\" >>%s/runs\\ncat >%s/input\\necho a reason >&2\\n"
	         "exit %d\\n' >%s && chmod +x %s",
	         w.nvme.root, w.nvme.root, status, program, program);
	w.node.o.luks_program = program;
}

static void begin(int status)
{
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, UUID, 320 * MIB);
	keys = passphrases_new();
	keys->current.n = strlen(KEY);
	memcpy(keys->current.text, KEY, strlen(KEY));
	put_program(status);
}

static void end(void)
{
	keys = passphrases_free(keys);
	free(TAKE(program));
	node_world_clear(&w);
}

static void put_luks(void)
{
	nvme_disk_write(disk, 0, "LUKS\272\276\0\1", 8);
}

static struct stage_request request(void)
{
	struct stage_request r = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);

	r.params.encryption = ENCRYPTION_LUKS2;
	r.keys = keys;
	return r;
}

static void refused(const struct stage_request *r, const char *what, enum err_code code,
                    const char *text)
{
	struct err err = ERR_INIT;

	ck_assert_int_eq(node_stage(&w.node, r, soon(), &err), -1);
	ck_assert_msg(err.code == code && strstr(err.msg, text), "%s: %s: %s", what,
	              err_code_name(err.code), err.msg);
}

static char *noted(const char *name)
{
	char *path AUTO(free) = xasprintf("%s/%s", w.nvme.root, name), *text = NULL;
	struct err err = ERR_INIT;

	if (!path_exists(path))
		return xstrdup("");
	ck_assert_int_eq(file_read(path, 10000, &text, NULL, &err), 0);
	return text;
}

static const struct {
	int status;
	enum err_code code;
	const char *text;
	enum err_kind kind;
} results[] = {
	{ LUKS_FAILED, ERR_INTERNAL, "luks open of ", ERR_KIND_NONE },
	{ LUKS_FAILED, ERR_INTERNAL, "failed (exit status 1): a reason", ERR_KIND_NONE },
	{ LUKS_USAGE, ERR_INTERNAL, "failed (exit status 2)", ERR_KIND_NONE },
	{ LUKS_WRONG_PASSPHRASE, ERR_PRECONDITION,
	  "the passphrase of the secret does not open its LUKS2 container; it is not formatted",
	  ERR_KIND_WRONG_PASSPHRASE },
	{ LUKS_OTHER_VOLUME, ERR_PRECONDITION,
	  "its LUKS2 header is not of this volume (a reason); it is neither opened nor formatted",
	  ERR_KIND_HAS_DATA },
	{ LUKS_OTHER_CIPHER, ERR_PRECONDITION,
	  "its LUKS2 header has another encryption (a reason), with which the storage might read",
	  ERR_KIND_HAS_DATA },
	{ LUKS_NO_HEADER, ERR_PRECONDITION,
	  "its LUKS2 header is damaged, and this node has no record", ERR_KIND_HAS_DATA },
	{ LUKS_NO_KEY, ERR_PRECONDITION, "its LUKS2 header has no passphrase, and this node",
	  ERR_KIND_HAS_DATA },
	{ LUKS_NO_DM_CRYPT, ERR_PRECONDITION, "the kernel of this host has no dm-crypt (a reason)",
	  ERR_KIND_NONE },
	{ LUKS_NO_LIBRARY, ERR_PRECONDITION, "libcryptsetup is needed for an encrypted volume",
	  ERR_KIND_NONE },
	{ LUKS_DONE, ERR_UNAVAILABLE, "its encrypted mapping was opened, but sysfs shows none",
	  ERR_KIND_NONE },
	{ LUKS_NOT_ROTATED, ERR_UNAVAILABLE,
	  "its encrypted mapping was opened, but sysfs shows none", ERR_KIND_NONE },
	{ LUKS_ROTATED, ERR_UNAVAILABLE, "its encrypted mapping was opened, but sysfs shows none",
	  ERR_KIND_NONE },
	{ 77, ERR_INTERNAL, "failed (exit status 77)", ERR_KIND_NONE },
};

START_TEST(each_result_of_the_command_has_its_code_text_and_kind)
{
	char *record AUTO(free) = NULL;
	struct err err = ERR_INIT;
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(results[_i].status);
	put_luks();
	r = request();
	refused(&r, "open", results[_i].code, results[_i].text);
	ck_assert_int_eq(node_stage(&w.node, &r, soon(), &err), -1);
	ck_assert_int_eq(err.kind, results[_i].kind);
	record = disk_record_path(&w.node, VOLUME_ID, DISK_RECORD_LUKS);
	ck_assert(!path_exists(record));
	ck_assert_msg(!strstr(err.msg, KEY), "%s", err.msg);
	end();
}
END_TEST

START_TEST(the_command_gets_the_volume_as_arguments_and_the_passphrases_as_input)
{
	char *runs AUTO(free) = NULL, *input AUTO(free) = NULL;
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(LUKS_WRONG_PASSPHRASE);
	put_luks();
	r = request();
	r.params.allow_discards = true;
	keys->previous.n = 3;
	memcpy(keys->previous.text, "old", 3);
	refused(&r, "open", ERR_PRECONDITION, ", nor does the previous one");
	runs = noted("runs");
	ck_assert_str_eq(runs, "luks open " VOLUME_ID " --allow-discards\n");
	input = noted("input");
	ck_assert_str_eq(input, KEY);
	ck_assert_str_eq(input + strlen(KEY) + 1, "old");
	end();
}
END_TEST

#define CALLS 7

static void *open_in_thread(void *arg)
{
	static const struct volume_params params = { .encryption = ENCRYPTION_LUKS2 };
	struct device dev = { .size = disk->size };
	int fd AUTO(fd) = open("/dev/null", O_RDONLY | O_CLOEXEC);
	const struct crypt_request r = {
		.node = &w.node,
		.volume_id = VOLUME_ID,
		.disk = &dev,
		.fd = fd,
		.params = &params,
		.keys = keys,
	};
	struct err err = ERR_INIT;

	(void)arg;
	IGNORE_RESULT(crypt_resize(&r, soon(), &err));
	return NULL;
}

START_TEST(at_most_four_commands_run_at_once)
{
	char *runs AUTO(free) = NULL;
	pthread_t threads[CALLS];
	bool four = false;

	SKIP_UNLESS_LOOP();
	begin(LUKS_DONE);
	/* Each run notes how many there are, and ends when the test lets it. */
	run_tool("mkdir %s/now && printf '#!/bin/sh\ntouch %s/now/$$\nls %s/now | wc -l >>%s/runs\n"
	         "while ! test -e %s/go; do sleep 0.02; done\nrm %s/now/$$\n' >%s",
	         w.nvme.root, w.nvme.root, w.nvme.root, w.nvme.root, w.nvme.root, w.nvme.root,
	         program);
	for (size_t i = 0; i < CALLS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, open_in_thread, NULL), 0);
	while (!four) {
		char *text AUTO(free) = noted("runs");

		four = strlen(text) == strlen("1\n2\n3\n4\n");
		usleep(1000);
	}
	run_tool("touch %s/go", w.nvme.root);
	for (size_t i = 0; i < CALLS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	runs = noted("runs");
	ck_assert_uint_eq(strlen(runs), 2 * CALLS);
	ck_assert_msg(!strpbrk(runs, "56789"), "%s", runs);
	end();
}
END_TEST

START_TEST(a_blank_disk_is_formatted_under_the_record_of_mkfs)
{
	char *record AUTO(free) = NULL, *runs AUTO(free) = NULL;
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(LUKS_FAILED);
	record = disk_record_path(&w.node, VOLUME_ID, DISK_RECORD_MKFS);
	r = request();
	r.params.kdf = KDF_PBKDF2;
	r.params.mkfs.block_size = 1024;
	refused(&r, "format", ERR_INTERNAL, "luks format of ");
	runs = noted("runs");
	ck_assert_str_eq(runs, "luks format " VOLUME_ID " --kdf=pbkdf2 --sector=512\n");
	/* The disk is still blank, so the record is false. */
	ck_assert(!path_exists(record));
	end();
}
END_TEST

START_TEST(an_interrupted_format_is_repeated_only_with_its_record)
{
	char *runs AUTO(free) = NULL, *record AUTO(free) = NULL;
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(LUKS_NO_KEY);
	record = disk_record_path(&w.node, VOLUME_ID, DISK_RECORD_MKFS);
	r = request();
	/* The format writes a header, and is then interrupted. */
	run_tool(
		"printf '#!/bin/sh\\necho \"$2\" >>%s/runs\\n"
		"printf \"LUKS\\\\272\\\\276\\\\0\\\\1\" | dd of=%s conv=notrunc,fsync 2>/dev/null\\n"
		"exit 7\\n' >%s",
		w.nvme.root, disk->loop, program);
	refused(&r, "interrupted", ERR_PRECONDITION, "has no passphrase");
	ck_assert(path_exists(record));
	refused(&r, "repeated", ERR_PRECONDITION, "has no passphrase");
	runs = noted("runs");
	ck_assert_str_eq(runs, "format\nopen\nformat\n");
	run_tool("rm %s %s/runs", record, w.nvme.root);
	refused(&r, "without record", ERR_PRECONDITION, "no record of an interrupted format");
	free(runs);
	runs = noted("runs");
	ck_assert_str_eq(runs, "open\n");
	end();
}
END_TEST

START_TEST(a_created_container_keeps_its_record_until_it_is_complete)
{
	char *record AUTO(free) = NULL;
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(LUKS_DONE);
	record = disk_record_path(&w.node, VOLUME_ID, DISK_RECORD_MKFS);
	r = request();
	/* The container is created and opened, but has no mapping in sysfs, and then no tool is found. */
	run_tool(
		"printf '#!/bin/sh\\necho \"$2\" >>%s/runs\\n"
		"test $2 = open || printf \"LUKS\\\\272\\\\276\\\\0\\\\1\" | dd of=%s conv=notrunc,fsync 2>/dev/null\\n"
		"exit 0\\n' >%s",
		w.nvme.root, disk->loop, program);
	refused(&r, "no mapping", ERR_UNAVAILABLE, "sysfs shows none");
	ck_assert(path_exists(record));
	free(program);
	put_program(LUKS_NO_LIBRARY);
	refused(&r, "no library", ERR_PRECONDITION, "libcryptsetup is needed");
	ck_assert(path_exists(record));
	end();
}
END_TEST

START_TEST(a_volume_that_is_staged_without_encryption_is_not_taken_for_an_encrypted_one)
{
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(LUKS_DONE);
	r = request();
	r.params.encryption = ENCRYPTION_NONE;
	r.keys = NULL;
	node_world_stage(&w, &r);
	r = request();
	refused(&r, "staged as plain", ERR_EXISTS, "already staged at ");
	end();
}
END_TEST

static bool there(const char *name)
{
	char *path AUTO(free) = xasprintf("%s/%s", w.nvme.root, name);

	return path_exists(path);
}

static int unstage(struct err *err)
{
	err_clear(err);
	return node_unstage(&w.node, VOLUME_ID, w.staging, soon(), err);
}

/*
 * A command that the kernel does not let end has the disk open, and may still write to its header.
 * Here it is a process that the death of its driver does not end.
 */
START_TEST(a_volume_whose_command_outlived_the_driver_is_not_unstaged)
{
	char *record AUTO(free) = NULL;
	struct err err = ERR_INIT;
	struct stage_request r;
	pid_t driver;

	SKIP_UNLESS_LOOP();
	begin(LUKS_DONE);
	put_luks();
	run_tool("printf '#!/bin/sh\ntouch %s/busy\nuntil test -e %s/go; do sleep 0.05; done\n"
	         "rm %s/busy\n' >%s",
	         w.nvme.root, w.nvme.root, w.nvme.root, program);
	record = disk_record_path(&w.node, VOLUME_ID, DISK_RECORD_LUKS);
	r = request();
	driver = fork();
	if (driver == 0)
		_exit(node_stage(&w.node, &r, soon(), &err) ? 1 : 0);
	WAIT_UNTIL(there("busy"));
	ck_assert_int_eq(kill(driver, SIGKILL), 0);
	ck_assert_int_eq(waitpid(driver, NULL, 0), driver);
	node_world_impatient(&w);
	refused(&r, "stage", ERR_ABORTED, "still runs (pid ");
	ck_assert_int_eq(unstage(&err), -1);
	ck_assert_msg(err.code == ERR_ABORTED && strstr(err.msg, "still runs (pid "), "%s: %s",
	              err_code_name(err.code), err.msg);
	node_world_patient(&w);
	ck_assert(path_exists(record));
	run_tool("touch %s/go", w.nvme.root);
	WAIT_UNTIL(!there("busy"));
	/* The lock ends with the process, a moment later. */
	WAIT_UNTIL(unstage(&err) == 0);
	ck_assert(!path_exists(record));
	end();
}
END_TEST

static void with_ext4(void)
{
	run_tool("mkfs.ext4 -q %s", disk->loop);
}

static void with_gpt_too(void)
{
	put_luks();
	run_tool(
		"mkfs.btrfs -q -f %s && printf 'LUKS\\272\\276\\0\\1' | dd of=%s conv=notrunc 2>/dev/null",
		disk->loop, disk->loop);
}

static void with_data(void)
{
	nvme_disk_write(disk, 1000000, "data", 4);
}

START_TEST(a_disk_with_data_is_neither_opened_nor_formatted)
{
	static const struct {
		const char *what;
		void (*put)(void);
		const char *text;
	} rows[] = {
		{ "a filesystem", with_ext4, "contains ext4" },
		{ "a LUKS header and another signature", with_gpt_too, "is to be encrypted" },
		{ "data", with_data, "is not blank" },
	};
	char *runs AUTO(free) = NULL;
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(LUKS_DONE);
	rows[_i].put();
	r = request();
	refused(&r, rows[_i].what, ERR_PRECONDITION, rows[_i].text);
	runs = noted("runs");
	ck_assert_str_eq(runs, "");
	end();
}
END_TEST

START_TEST(what_must_not_be_formatted_is_said_without_a_run)
{
	static const struct {
		const char *what;
		enum access_mode mode;
		enum format_policy policy;
		uint64_t size;
		enum err_code code;
		const char *text;
	} rows[] = {
		{ "a reader", MODE_MULTI_NODE_READER_ONLY, FORMAT_BLANK, 320 * MIB,
		  ERR_PRECONDITION, "read-only volume is never formatted" },
		{ "formatPolicy never", MODE_SINGLE_NODE_WRITER, FORMAT_NEVER, 320 * MIB,
		  ERR_PRECONDITION, "has no filesystem" },
		{ "a disk as large as the header", MODE_SINGLE_NODE_WRITER, FORMAT_BLANK, 16 * MIB,
		  ERR_INVALID, "an encrypted volume needs more than 16.0 MiB" },
		{ "a disk in which no xfs fits", MODE_SINGLE_NODE_WRITER, FORMAT_BLANK, 310 * MIB,
		  ERR_INVALID, "xfs needs at least" },
	};
	char *runs AUTO(free) = NULL;
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(LUKS_DONE);
	nvme_world_resize(disk, rows[_i].size);
	r = request();
	r.cap.mode = rows[_i].mode;
	r.cap.fs_type = _i == 3 ? "xfs" : "ext4";
	r.params.format_policy = rows[_i].policy;
	r.want.capacity = 0;
	refused(&r, rows[_i].what, rows[_i].code, rows[_i].text);
	runs = noted("runs");
	ck_assert_str_eq(runs, "");
	end();
}
END_TEST

/* kubelet stages a volume of ReadWriteOnce and ReadWriteMany with the first of the two. */
START_TEST(of_several_writers_only_the_node_that_the_controller_names_formats)
{
	static const struct {
		enum access_mode mode;
		const char *format_node;
		enum err_code code;
		const char *text, *runs;
	} rows[] = {
		{ MODE_MULTI_NODE_MULTI_WRITER, NULL, ERR_PRECONDITION,
		  "it names none (csi.snap.nvidia.com/formatNode)", "" },
		{ MODE_MULTI_NODE_MULTI_WRITER, "", ERR_PRECONDITION, "it names none", "" },
		{ MODE_MULTI_NODE_MULTI_WRITER, "n2", ERR_UNAVAILABLE,
		  "only n2 creates it, because the volume was attached to it", "" },
		{ MODE_MULTI_NODE_MULTI_WRITER, "n1", ERR_INTERNAL, "luks format of ",
		  "luks format " VOLUME_ID "\n" },
		{ MODE_SINGLE_NODE_WRITER, "n2", ERR_UNAVAILABLE, "only n2 creates it", "" },
		{ MODE_SINGLE_NODE_WRITER, "n1", ERR_INTERNAL, "luks format of ",
		  "luks format " VOLUME_ID "\n" },
	};

	SKIP_UNLESS_LOOP();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *runs AUTO(free) = NULL;
		struct stage_request r;

		begin(LUKS_FAILED);
		r = request();
		r.cap.type = ACCESS_BLOCK;
		r.cap.mode = rows[i].mode;
		r.format_node = rows[i].format_node;
		refused(&r, rows[i].text, rows[i].code, rows[i].text);
		runs = noted("runs");
		ck_assert_str_eq(runs, rows[i].runs);
		end();
	}
}
END_TEST

/* The named node may be creating it at this moment. */
START_TEST(the_container_that_another_node_creates_is_awaited)
{
	static const struct {
		const char *format_node;
		enum err_code code;
		const char *text;
		enum err_kind kind;
	} rows[] = {
		{ "n2", ERR_UNAVAILABLE, "has no complete LUKS2 container yet", ERR_KIND_NONE },
		{ "n1", ERR_PRECONDITION, "header has no passphrase, and this node has no record",
		  ERR_KIND_HAS_DATA },
		{ NULL, ERR_PRECONDITION, "header has no passphrase, and this node has no record",
		  ERR_KIND_HAS_DATA },
	};

	SKIP_UNLESS_LOOP();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;
		struct stage_request r;

		begin(LUKS_NO_KEY);
		put_luks();
		r = request();
		r.cap.type = ACCESS_BLOCK;
		r.cap.mode = MODE_MULTI_NODE_MULTI_WRITER;
		r.format_node = rows[i].format_node;
		refused(&r, rows[i].text, rows[i].code, rows[i].text);
		ck_assert_int_eq(node_stage(&w.node, &r, soon(), &err), -1);
		ck_assert_int_eq(err.kind, rows[i].kind);
		end();
	}
}
END_TEST

START_TEST(the_header_of_several_writers_is_not_changed)
{
	static const struct {
		enum access_mode mode;
		const char *format_node, *runs;
	} rows[] = {
		{ MODE_SINGLE_NODE_WRITER, NULL, "luks open " VOLUME_ID "\n" },
		{ MODE_SINGLE_NODE_WRITER, "n1", "luks open " VOLUME_ID " --shared\n" },
		{ MODE_MULTI_NODE_MULTI_WRITER, NULL, "luks open " VOLUME_ID " --shared\n" },
	};

	SKIP_UNLESS_LOOP();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *runs AUTO(free) = NULL;
		struct stage_request r;

		begin(LUKS_FAILED);
		put_luks();
		r = request();
		r.cap.type = ACCESS_BLOCK;
		r.cap.mode = rows[i].mode;
		r.format_node = rows[i].format_node;
		refused(&r, rows[i].runs, ERR_INTERNAL, "luks open of ");
		runs = noted("runs");
		ck_assert_str_eq(runs, rows[i].runs);
		end();
	}
}
END_TEST

START_TEST(an_encrypted_disk_under_a_plain_class_names_the_key)
{
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(LUKS_DONE);
	put_luks();
	r = request();
	r.params.encryption = ENCRYPTION_NONE;
	r.keys = NULL;
	refused(&r, "plain", ERR_PRECONDITION, "needs csi.snap.nvidia.com/encryption: luks2");
	end();
}
END_TEST

SUITE_TIMEOUT("crypt", 60,
              LOOP(each_result_of_the_command_has_its_code_text_and_kind, ARRAY_LEN(results)),
              the_command_gets_the_volume_as_arguments_and_the_passphrases_as_input,
              at_most_four_commands_run_at_once, a_blank_disk_is_formatted_under_the_record_of_mkfs,
              an_interrupted_format_is_repeated_only_with_its_record,
              a_created_container_keeps_its_record_until_it_is_complete,
              a_volume_that_is_staged_without_encryption_is_not_taken_for_an_encrypted_one,
              a_volume_whose_command_outlived_the_driver_is_not_unstaged,
              LOOP(a_disk_with_data_is_neither_opened_nor_formatted, 3),
              LOOP(what_must_not_be_formatted_is_said_without_a_run, 4),
              of_several_writers_only_the_node_that_the_controller_names_formats,
              the_container_that_another_node_creates_is_awaited,
              the_header_of_several_writers_is_not_changed,
              an_encrypted_disk_under_a_plain_class_names_the_key);
