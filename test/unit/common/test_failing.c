/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes on which calls fail: from the first failure to the first success, and their last errors. */
#include "common/failing.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

#define S INT64_C(1000000000)

static char dir[64];
static char path[100];

static void begin_dir(void)
{
	snprintf(dir, sizeof(dir), "/tmp/test_failing.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/%s", dir, FAILING_FILE);
}

static void end_dir(void)
{
	char *command AUTO(free) = xasprintf("rm -rf '%s'", dir);

	failing_stop(wait_limit());
	ck_assert_int_eq(system(command), 0);
}

static void note_error(const char *volume, enum err_code code, const char *text, int64_t now)
{
	struct err err = ERR_INIT;

	err_set(&err, code, "%s", text);
	failing_note(volume, "NodeStageVolume", &err, now);
}

static void fail_at(const char *volume, int64_t now)
{
	note_error(volume, ERR_UNAVAILABLE, "no device", now);
}

static void succeed_at(const char *volume, int64_t now)
{
	failing_note(volume, "NodeStageVolume", NULL, now);
}

static unsigned count(int64_t now, int64_t oldest)
{
	int64_t got;
	unsigned n = failing_count(now, &got);

	ck_assert_int_eq(got, oldest);
	return n;
}

START_TEST(a_volume_fails_from_its_first_failure_to_its_first_success)
{
	succeed_at("pvc-1", S);
	ck_assert_uint_eq(count(S, 0), 0);
	fail_at("pvc-1", 10 * S);
	fail_at("pvc-2", 20 * S);
	fail_at("pvc-1", 400 * S);
	ck_assert_uint_eq(count(410 * S, 400 * S), 2);
	succeed_at("pvc-3", 410 * S);
	succeed_at("pvc-1", 410 * S);
	ck_assert_uint_eq(count(410 * S, 390 * S), 1);
	succeed_at("pvc-2", 410 * S);
	ck_assert_uint_eq(count(410 * S, 0), 0);
}
END_TEST

START_TEST(whom_nobody_calls_for_is_forgotten_and_begins_anew)
{
	int64_t later = FAILING_FORGOTTEN_NS + 11 * S;
	struct failing_error e;

	fail_at("pvc-1", 10 * S);
	ck_assert_uint_eq(count(later, 0), 0);
	ck_assert(failing_find("pvc-1", &e));
	fail_at("pvc-1", later);
	ck_assert_uint_eq(count(later + S, S), 1);
	ck_assert(failing_find("pvc-1", &e));
	ck_assert_uint_eq(e.count, 1);
}
END_TEST

START_TEST(the_last_error_has_call_code_text_times_and_number)
{
	struct failing_error e;

	ck_assert(!failing_find("pvc-1", &e));
	note_error("pvc-1", ERR_UNAVAILABLE, "no device", 10 * S);
	note_error("pvc-1", ERR_PRECONDITION, "/dev/nvme0n1: has another UUID", 20 * S);
	ck_assert(failing_find("pvc-1", &e));
	ck_assert_str_eq(e.volume, "pvc-1");
	ck_assert_str_eq(e.call, "NodeStageVolume");
	ck_assert_int_eq(e.err.code, ERR_PRECONDITION);
	ck_assert_str_eq(e.err.msg, "/dev/nvme0n1: has another UUID");
	ck_assert_int_eq(e.first, 10 * S);
	ck_assert_int_eq(e.last, 20 * S);
	ck_assert_uint_eq(e.count, 2);
	succeed_at("pvc-1", 30 * S);
	ck_assert(!failing_find("pvc-1", &e));
}
END_TEST

/* The cause is the previous error: a call for the same volume is still running, or its mkfs is. */
START_TEST(a_pending_operation_replaces_no_other_error)
{
	struct failing_error e;

	note_error("pvc-1", ERR_ABORTED, "NodeStageVolume is running", 10 * S);
	ck_assert(failing_find("pvc-1", &e));
	ck_assert_int_eq(e.err.code, ERR_ABORTED);
	note_error("pvc-1", ERR_DEADLINE, "the device did not appear", 20 * S);
	note_error("pvc-1", ERR_ABORTED, "NodeStageVolume is running", 30 * S);
	ck_assert(failing_find("pvc-1", &e));
	ck_assert_str_eq(e.err.msg, "the device did not appear");
	ck_assert_int_eq(e.last, 30 * S);
	ck_assert_uint_eq(e.count, 3);
}
END_TEST

START_TEST(a_call_that_reads_counts_only_while_the_volume_is_unavailable)
{
	struct failing_error e;
	struct err err = ERR_INIT;

	err_set(&err, ERR_NOT_FOUND, "nothing is mounted");
	failing_note_read("pvc-1", "NodeGetVolumeStats", &err, S);
	ck_assert(!failing_find("pvc-1", &e));
	err_clear(&err);
	err_set(&err, ERR_UNAVAILABLE, "the device hangs");
	failing_note_read("pvc-1", "NodeGetVolumeStats", &err, 2 * S);
	ck_assert(failing_find("pvc-1", &e));
	ck_assert_str_eq(e.call, "NodeGetVolumeStats");
	failing_note_read("pvc-1", "NodeGetVolumeStats", NULL, 3 * S);
	ck_assert(!failing_find("pvc-1", &e));
	/* The error of a call that changes something stays. */
	fail_at("pvc-1", 4 * S);
	failing_note_read("pvc-1", "NodeGetVolumeStats", &err, 5 * S);
	failing_note_read("pvc-1", "NodeGetVolumeStats", NULL, 6 * S);
	ck_assert(failing_find("pvc-1", &e));
	ck_assert_str_eq(e.err.msg, "no device");
	ck_assert_uint_eq(e.count, 1);
	/* A good call that has the lock ends both. */
	succeed_at("pvc-1", 7 * S);
	failing_note_read("pvc-1", "NodeGetVolumeStats", &err, 8 * S);
	succeed_at("pvc-1", 9 * S);
	ck_assert(!failing_find("pvc-1", &e));
}
END_TEST

START_TEST(of_more_than_there_is_room_for_the_oldest_is_forgotten)
{
	struct failing_error e;
	char name[16];

	fail_at("first", S);
	fail_at("second", 2 * S);
	for (int i = 2; i < FAILING_MAX; i++) {
		snprintf(name, sizeof(name), "pvc-%d", i);
		fail_at(name, 3 * S);
	}
	fail_at("first", 4 * S);
	ck_assert_uint_eq(count(4 * S, 3 * S), FAILING_MAX);
	fail_at("one-more", 5 * S);
	ck_assert_uint_eq(count(5 * S, 4 * S), FAILING_MAX);
	ck_assert(failing_find("first", &e));
	ck_assert(!failing_find("second", &e));
	ck_assert(failing_find("one-more", &e));
}
END_TEST

/* ---- the file ---- */

struct seen {
	unsigned n;
	struct failing_error last;
};

static void see(void *arg, const struct failing_error *e)
{
	struct seen *s = arg;

	s->n++;
	s->last = *e;
}

/* UINT_MAX: it cannot be read. */
static unsigned read_file(struct seen *s)
{
	struct err ignored = ERR_INIT;

	s->n = 0;
	return failing_read(path, see, s, &ignored) ? UINT_MAX : s->n;
}

static void start_with(int news_ms, int repeat_ms)
{
	const struct failing_options o = { path, news_ms, repeat_ms };
	struct err err = ERR_INIT;

	ck_assert_msg(failing_start(&o, &err) == 0, "%s", err.msg);
}

static void start(void)
{
	start_with(1, 1);
}

START_TEST(the_next_start_knows_the_errors_of_the_file)
{
	int64_t now = monotonic_ns();
	struct failing_error e;
	struct seen s = { 0 };
	struct stat st;

	begin_dir();
	start();
	note_error("pvc-1", ERR_PRECONDITION, "a \"text\"\n\xff\x1b", now - 60 * S);
	note_error("pvc-1", ERR_PRECONDITION, "a \"text\"\n\xff\x1b", now - 30 * S);
	fail_at("pvc-2", now);
	WAIT_UNTIL(read_file(&s) == 2);
	ck_assert_str_eq(s.last.volume, "pvc-2");
	ck_assert_int_ge(s.last.last, time(NULL) - 60);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	failing_stop(wait_limit());
	succeed_at("pvc-1", now);
	succeed_at("pvc-2", now);
	start();
	ck_assert(failing_find("pvc-1", &e));
	ck_assert_int_eq(e.err.code, ERR_PRECONDITION);
	ck_assert_ptr_nonnull(strstr(e.err.msg, "a \"text\""));
	ck_assert_uint_eq(e.count, 2);
	ck_assert_int_le(e.last, monotonic_ns() - 29 * S);
	ck_assert_int_ge(e.last - e.first, 29 * S);
	ck_assert_int_le(e.last - e.first, 31 * S);
	succeed_at("pvc-1", now);
	succeed_at("pvc-2", now);
	WAIT_UNTIL(read_file(&s) == 0);
	end_dir();
}
END_TEST

/* Drivers of other versions: an older one writes no kind, a newer one may have more of them. */
START_TEST(the_file_has_the_kind_and_an_unknown_kind_is_none)
{
	static const struct {
		const char *member;
		enum err_kind kind;
	} rows[] = {
		{ "", ERR_KIND_NONE },
		{ ",\"kind\":2", ERR_KIND_HAS_DATA },
		{ ",\"kind\":0", ERR_KIND_NONE },
		{ ",\"kind\":-1", ERR_KIND_NONE },
		{ ",\"kind\":4", ERR_KIND_WRONG_PASSPHRASE },
		{ ",\"kind\":5", ERR_KIND_NONE },
		{ ",\"kind\":\"held\"", ERR_KIND_NONE },
	};
	struct err err = ERR_INIT;
	struct seen s = { 0 };

	begin_dir();
	start();
	err_set(&err, ERR_PRECONDITION, "has another UUID");
	err_set_kind(&err, ERR_KIND_WRONG_DEVICE);
	failing_note("pvc-1", "NodeStageVolume", &err, monotonic_ns());
	WAIT_UNTIL(read_file(&s) == 1);
	ck_assert_int_eq(s.last.err.kind, ERR_KIND_WRONG_DEVICE);
	failing_stop(wait_limit());
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *text AUTO(free) = xasprintf(
			"{\"errors\":[{\"volume\":\"v\",\"call\":\"c\",\"code\":9%s,\"text\":"
			"\"t\",\"first\":1,\"last\":2,\"count\":1}]}",
			rows[i].member);

		err_clear(&err);
		ck_assert_int_eq(file_replace(path, text, strlen(text), 0600, &err), 0);
		ck_assert_uint_eq(read_file(&s), 1);
		ck_assert_msg(s.last.err.kind == rows[i].kind, "%s", rows[i].member);
	}
	end_dir();
}
END_TEST

START_TEST(the_stop_writes_the_last_change)
{
	struct seen s = { 0 };

	begin_dir();
	start();
	for (int i = 0; i < 50; i++)
		fail_at("pvc-1", (i + 1) * S);
	failing_stop(wait_limit());
	ck_assert_uint_eq(read_file(&s), 1);
	ck_assert_uint_eq(s.last.count, 50);
	fail_at("pvc-2", S);
	ck_assert_uint_eq(read_file(&s), 1);
	end_dir();
}
END_TEST

/* Ample for a write that does not wait; a slow one lets the test pass. */
#define WRITE_MS 500

START_TEST(repeated_errors_wait_and_a_new_error_does_not)
{
	struct seen s = { 0 };

	begin_dir();
	start_with(1, 3600000);
	fail_at("pvc-1", S);
	WAIT_UNTIL(read_file(&s) == 1);
	fail_at("pvc-1", 2 * S);
	note_error("pvc-1", ERR_ABORTED, "NodeStageVolume is running", 3 * S);
	usleep(WRITE_MS * 1000);
	ck_assert_uint_eq(read_file(&s), 1);
	ck_assert_uint_eq(s.last.count, 1);
	note_error("pvc-1", ERR_UNAVAILABLE, "another text", 4 * S);
	WAIT_UNTIL(read_file(&s) == 1 && s.last.count == 4);
	fail_at("pvc-2", 5 * S);
	WAIT_UNTIL(read_file(&s) == 2);
	succeed_at("pvc-1", 6 * S);
	WAIT_UNTIL(read_file(&s) == 1);
	fail_at("pvc-2", 7 * S);
	failing_stop(wait_limit());
	ck_assert_uint_eq(read_file(&s), 1);
	ck_assert_uint_eq(s.last.count, 2);
	end_dir();
}
END_TEST

START_TEST(a_large_table_is_written_less_often_and_at_the_stop)
{
	char name[16], text[1024];
	struct seen s = { 0 };
	struct stat st;

	begin_dir();
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (int i = 0; i < FAILING_MAX; i++) {
		snprintf(name, sizeof(name), "pvc-%d", i);
		note_error(name, ERR_UNAVAILABLE, text, (i + 1) * S);
	}
	start();
	fail_at("first", 2000 * S);
	WAIT_UNTIL(read_file(&s) == FAILING_MAX);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_gt(st.st_size, 2L * WRITE_MS * 256);
	fail_at("second", 2001 * S);
	usleep(WRITE_MS * 1000);
	ck_assert_uint_eq(read_file(&s), FAILING_MAX);
	ck_assert_str_eq(s.last.volume, "first");
	failing_stop(wait_limit());
	ck_assert_uint_eq(read_file(&s), FAILING_MAX);
	ck_assert_str_eq(s.last.volume, "second");
	end_dir();
}
END_TEST

static _Atomic bool logged; /* that the file is not written */

static void note_line(void *arg, const char *line)
{
	(void)arg;
	if (strstr(line, "the last errors of volumes cannot be written"))
		logged = true;
}

/* A full folder and a read-only one fail in the same call; root writes into any folder. */
START_TEST(a_folder_that_takes_no_file_stops_no_call)
{
	struct failing_error e;

	begin_dir();
	snprintf(path, sizeof(path), "%s/missing/%s", dir, FAILING_FILE);
	log_redirect(note_line, NULL);
	start();
	fail_at("pvc-1", monotonic_ns());
	WAIT_UNTIL(logged);
	ck_assert(failing_find("pvc-1", &e));
	succeed_at("pvc-1", monotonic_ns());
	ck_assert(!failing_find("pvc-1", &e));
	failing_stop(wait_limit());
	log_redirect(NULL, NULL);
	end_dir();
}
END_TEST

static const struct {
	const char *text;
	bool is_read;
	unsigned n;
} files[] = {
	{ "", false, 0 },
	{ "{\"errors\":[{\"volume\":\"pvc", false, 0 },
	{ "[]", false, 0 },
	{ "{\"errors\":{}}", false, 0 },
	{ "{\"errors\":[]}", true, 0 },
	{ "{\"errors\":[1,null,{},{\"volume\":7}]}", true, 0 },
	{ "{\"errors\":[{\"volume\":\"v\",\"call\":\"c\",\"code\":0,\"text\":\"t\",\"first\":1,"
	  "\"last\":2,\"count\":1}]}",
	  true, 0 },
	{ "{\"errors\":[{\"volume\":\"v\",\"call\":\"c\",\"code\":9,\"text\":\"t\",\"first\":1,"
	  "\"last\":2,\"count\":0}]}",
	  true, 0 },
	{ "{\"errors\":[{\"volume\":\"v\",\"call\":\"c\",\"code\":9,\"text\":\"t\",\"first\":1,"
	  "\"last\":9007199254740991,\"count\":1}]}",
	  true, 1 },
	{ "{\"errors\":[{\"volume\":\"v\",\"call\":\"c\",\"code\":9,\"text\":\"t\",\"first\":"
	  "-9007199254740991,\"last\":2,\"count\":1}]}",
	  true, 0 },
	{ "{\"errors\":[{\"volume\":\"v\",\"call\":\"c\",\"code\":9,\"text\":\"t\",\"first\":-1,"
	  "\"last\":-1,\"count\":1}]}",
	  true, 0 },
};

/*
 * After a power cut or another program's write: other members are skipped, and the driver starts.
 */
START_TEST(a_file_of_other_bytes_does_no_harm)
{
	const struct failing_options o = { .path = path };
	struct err err = ERR_INIT;
	struct seen s = { 0 };
	struct failing_error e;

	begin_dir();
	ck_assert_int_eq(file_replace(path, files[_i].text, strlen(files[_i].text), 0600, &err), 0);
	ck_assert_msg((failing_read(path, see, &s, &err) == 0) == files[_i].is_read, "%s",
	              files[_i].text);
	err_clear(&err);
	ck_assert_msg((failing_start(&o, &err) == 0) == files[_i].is_read, "%s", files[_i].text);
	ck_assert_uint_eq(s.n, files[_i].n);
	if (failing_find("v", &e))
		ck_assert_int_le(e.last, monotonic_ns());
	fail_at("pvc-9", monotonic_ns());
	WAIT_UNTIL(read_file(&s) == files[_i].n + 1);
	end_dir();
}
END_TEST

SUITE("failing", a_volume_fails_from_its_first_failure_to_its_first_success,
      whom_nobody_calls_for_is_forgotten_and_begins_anew,
      the_last_error_has_call_code_text_times_and_number,
      a_pending_operation_replaces_no_other_error,
      a_call_that_reads_counts_only_while_the_volume_is_unavailable,
      of_more_than_there_is_room_for_the_oldest_is_forgotten,
      the_next_start_knows_the_errors_of_the_file,
      the_file_has_the_kind_and_an_unknown_kind_is_none, the_stop_writes_the_last_change,
      repeated_errors_wait_and_a_new_error_does_not,
      a_large_table_is_written_less_often_and_at_the_stop,
      a_folder_that_takes_no_file_stops_no_call,
      LOOP(a_file_of_other_bytes_does_no_harm, ARRAY_LEN(files)));
