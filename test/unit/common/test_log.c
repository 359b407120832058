/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines: quoting, JSON, levels, rate. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "test/lib/suite.h"

static char last_line[9000];
static int lines;

static void keep(void *arg, const char *line)
{
	(void)arg;
	lines++;
	snprintf(last_line, sizeof(last_line), "%s", line);
}

START_TEST(values_are_quoted_when_they_need_it)
{
	log_setup(2, false);
	log_redirect(keep, NULL);
	log_event(LOG_INFO, "call", "volume", "pvc-1", "error", "a \"b\"\nc", "absent", NULL,
	          "empty", "", NULL);
	ck_assert_ptr_nonnull(
		strstr(last_line, " call volume=pvc-1 error=\"a \\\"b\\\"\\nc\" empty=\"\""));
	ck_assert_int_eq(last_line[0], 'I');
}
END_TEST

START_TEST(no_line_has_what_a_terminal_would_obey)
{
	static const char *const rows[] = {
		"\x1b]0;x", "\a", "\x7f", "\t", "\xc2\x9b[2J", "\xe2\x80\xae", "\xff", "a\xc2",
	};

	log_redirect(keep, NULL);
	for (size_t i = 0; i < 2 * ARRAY_LEN(rows); i++) {
		const char *odd = rows[i / 2];

		log_setup(2, i % 2);
		log_event(LOG_INFO, odd, "value", odd, NULL);
		ck_assert_msg(is_shown_as_it_is(last_line), "row %zu: %s", i / 2, last_line);
		ck_assert_msg(i % 2 || strstr(last_line, "value=\""), "%s", last_line);
	}
}
END_TEST

START_TEST(a_json_line_is_json_whatever_the_bytes)
{
	struct json *j AUTO(json_free) = NULL;
	struct err err = ERR_INIT;

	log_setup(2, true);
	log_redirect(keep, NULL);
	log_event(LOG_ERROR, "bad\x01", "k", "\xff\"\\\t", NULL);
	ck_assert_msg(json_parse("line", last_line, strlen(last_line), &j, &err) == 0, "%s",
	              err.msg);
	ck_assert_str_eq(json_str(j, "level"), "error");
	ck_assert_str_eq(json_str(j, "k"), "\\xff\"\\\t");
}
END_TEST

/* The driver's output for a message and a value of these lengths; the caller frees it. */
static char *written(bool as_json, size_t n_msg, size_t n_value, char fill)
{
	char *msg AUTO(free) = xcalloc(1, n_msg + 1), *value AUTO(free) = xcalloc(1, n_value + 1);
	char *got = xcalloc(1, 20000);
	int before AUTO(fd) = dup(STDERR_FILENO);
	int pair[2];

	memset(msg, fill, n_msg);
	memset(value, fill, n_value);
	ck_assert_int_eq(pipe(pair), 0);
	ck_assert_int_ge(dup2(pair[1], STDERR_FILENO), 0);
	log_redirect(NULL, NULL);
	log_setup(2, as_json);
	log_event(LOG_INFO, msg, "first", "1", "long", value, "last", "2", NULL);
	ck_assert_int_ge(dup2(before, STDERR_FILENO), 0);
	close(pair[1]);
	ck_assert_int_ge(read(pair[0], got, 19999), 0);
	close(pair[0]);
	return got;
}

/* A reader must not see two lines as one. */
START_TEST(a_line_that_is_too_long_still_ends)
{
	for (int as_json = 0; as_json < 2; as_json++)
		for (size_t n = 8000; n < 8300; n++) {
			char *of_value AUTO(free) = written(as_json, 10, n, 'x');
			char *of_msg AUTO(free) = written(as_json, n, 10, 'x');

			ck_assert_msg(str_has_suffix(of_value, "\n"), "value of %zu", n);
			ck_assert_msg(str_has_suffix(of_msg, "\n"), "message of %zu", n);
			ck_assert_uint_le(strlen(of_value), 8193);
			ck_assert_uint_le(strlen(of_msg), 8193);
		}
}
END_TEST

/* Is it JSON, and does it contain the long value? */
static bool json_has_value(const char *line)
{
	struct json *j AUTO(json_free) = NULL;
	struct err err = ERR_INIT;

	ck_assert_msg(json_parse("line", line, strlen(line), &j, &err) == 0, "%s: %s", err.msg,
	              line);
	ck_assert_str_eq(json_str(j, "level"), "info");
	return json_str(j, "long") != NULL;
}

START_TEST(a_json_line_that_is_too_long_is_json_without_what_does_not_fit)
{
	static const struct {
		char fill;
		size_t width;
	} rows[] = { { 'x', 1 }, { '"', 2 }, { '\x01', 6 }, { '\xff', 5 } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (size_t shown = 7600; shown < 8400; shown += 7) {
			size_t n = shown / rows[i].width;
			char *of_value AUTO(free) = written(true, 10, n, rows[i].fill);
			char *of_msg AUTO(free) = written(true, n, 10, rows[i].fill);
			bool has = json_has_value(of_value);

			ck_assert_msg(has || shown > 7900, "%zu of %s", n, of_value);
			ck_assert_msg(!has || shown < 8192, "%zu of %s", n, of_value);
			IGNORE_RESULT(json_has_value(of_msg));
		}
}
END_TEST

START_TEST(numbers_are_numbers_in_json_and_plain_in_text)
{
	const struct log_pair pairs[] = {
		log_text("volume", "17"),
		log_number("ms", "2.5"),
		log_number("absent", NULL),
	};
	struct json *j AUTO(json_free) = NULL;
	struct err err = ERR_INIT;

	log_redirect(keep, NULL);
	log_setup(2, false);
	log_pairs(LOG_INFO, "formatted", pairs, ARRAY_LEN(pairs));
	ck_assert_ptr_nonnull(strstr(last_line, " formatted volume=17 ms=2.5"));
	log_setup(2, true);
	log_pairs(LOG_INFO, "formatted", pairs, ARRAY_LEN(pairs));
	ck_assert_msg(json_parse("line", last_line, strlen(last_line), &j, &err) == 0, "%s",
	              err.msg);
	ck_assert_ptr_nonnull(strstr(last_line, ",\"volume\":\"17\",\"ms\":2.5}"));
}
END_TEST

START_TEST(debug_lines_need_verbosity_five)
{
	log_redirect(keep, NULL);
	log_setup(4, false);
	log_msg(LOG_DEBUG, "unseen");
	ck_assert_int_eq(lines, 0);
	log_setup(5, false);
	log_msg(LOG_DEBUG, "seen %d", 1);
	ck_assert_int_eq(lines, 1);
}
END_TEST

START_TEST(the_verbosity_can_be_raised_and_goes_back_to_what_was_asked_for)
{
	static const int steps[] = { 2, 4, 5, 5 };

	log_setup(0, false);
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		ck_assert_int_eq(log_more(), steps[i]);
		ck_assert_int_eq(log_verbosity(), steps[i]);
	}
	ck_assert_int_eq(log_set(7), 5);
	ck_assert_int_eq(log_verbosity(), 7);
	ck_assert_int_eq(log_verbosity_set(), 0);
	ck_assert_int_eq(log_as_set(), 0);
	log_setup(9, false);
	ck_assert_int_eq(log_more(), 9);
}
END_TEST

START_TEST(a_line_that_is_too_long_keeps_its_call)
{
	static char text[20000];

	memset(text, 'x', sizeof(text) - 1);
	for (int as_json = 0; as_json < 2; as_json++) {
		log_setup(2, as_json);
		log_redirect(keep, NULL);
		log_call(UINT64_MAX);
		log_event(LOG_INFO, text, "key", "value", NULL);
		log_call(0);
		ck_assert_ptr_nonnull(strstr(last_line, as_json ? ",\"call\":18446744073709551615}"
		                                                : " call=18446744073709551615"));
	}
}
END_TEST

START_TEST(what_repeats_is_said_once_in_a_while)
{
	log_redirect(keep, NULL);
	for (int i = 0; i < 100; i++)
		log_limited(LOG_WARNING, 3600, "watch is down");
	ck_assert_int_eq(lines, 1);
}
END_TEST

/* The driver's output after it could not write two lines. */
START_TEST(a_line_says_how_many_were_dropped)
{
	static const char *const expected[] = {
		" log lines were dropped: stderr was not read lines=2\n",
		"\"msg\":\"log lines were dropped: stderr was not read\",\"lines\":2}\n",
	};
	struct err err = ERR_INIT;
	char got[1000] = "";
	int full AUTO(fd) = open("/dev/full", O_WRONLY | O_CLOEXEC);
	int ends[2];

	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_int_ge(dup2(full, STDERR_FILENO), 0);
	log_redirect(NULL, NULL);
	log_setup(2, _i);
	ck_assert_msg(!log_start(&err), "%s", err.msg);
	log_msg(LOG_INFO, "one");
	log_msg(LOG_INFO, "two");
	log_flush();
	ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
	log_msg(LOG_INFO, "three");
	log_flush();
	ck_assert_int_gt(read(ends[0], got, sizeof(got) - 1), 0);
	ck_assert_msg(strstr(got, expected[_i]), "%s", got);
	ck_assert_ptr_nonnull(strstr(got, "three"));
}
END_TEST

SUITE("log", LOOP(a_line_says_how_many_were_dropped, 2), no_line_has_what_a_terminal_would_obey,
      values_are_quoted_when_they_need_it, a_json_line_is_json_whatever_the_bytes,
      a_line_that_is_too_long_still_ends,
      a_json_line_that_is_too_long_is_json_without_what_does_not_fit,
      numbers_are_numbers_in_json_and_plain_in_text, debug_lines_need_verbosity_five,
      the_verbosity_can_be_raised_and_goes_back_to_what_was_asked_for,
      a_line_that_is_too_long_keeps_its_call, what_repeats_is_said_once_in_a_while);
