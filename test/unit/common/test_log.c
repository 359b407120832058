/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines: quoting, JSON, levels, rate. */
#include <string.h>

#include "common/json.h"
#include "common/log.h"
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

START_TEST(what_repeats_is_said_once_in_a_while)
{
	log_redirect(keep, NULL);
	for (int i = 0; i < 100; i++)
		log_limited(LOG_WARNING, 3600, "watch is down");
	ck_assert_int_eq(lines, 1);
}
END_TEST

SUITE("log", no_line_has_what_a_terminal_would_obey, values_are_quoted_when_they_need_it,
      a_json_line_is_json_whatever_the_bytes, numbers_are_numbers_in_json_and_plain_in_text,
      debug_lines_need_verbosity_five, what_repeats_is_said_once_in_a_while);
