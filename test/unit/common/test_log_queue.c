/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines and a stderr that accepts none: a full pipe, a closed one, a full disk. Each test is a
 * separate process, whose stderr is a pipe. A caller that waits for stderr never returns here, and
 * Check ends the test.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/log_queue.h"
#include "common/mem.h"
#include "common/metric.h"
#include "common/str.h"
#include "test/lib/suite.h"

#define LINES 4000 /* of 100 bytes: more than the pipe and the queue hold */
#define LINE \
	"%06d xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"

static FILE *out; /* the other end of stderr */

static char *notice(uint64_t lines)
{
	return xasprintf("%llu dropped\n", (unsigned long long)lines);
}

static void write_text(const char *text)
{
	log_queue_write(text, strlen(text));
}

static void write_lines(int from, int to)
{
	for (int i = from; i < to; i++) {
		char line[128];

		snprintf(line, sizeof(line), LINE, i);
		write_text(line);
	}
}

static void stderr_is_a_pipe(void)
{
	int ends[2];

	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
	close(ends[1]);
	out = fdopen(ends[0], "r");
	ck_assert_ptr_nonnull(out);
}

static void start(void)
{
	struct err err = ERR_INIT;

	ck_assert_msg(!log_queue_start(notice, &err), "%s", err.msg);
}

/* Fills it completely; blocking again afterwards, like a container's stderr. */
static void fill_pipe(void)
{
	int flags = fcntl(STDERR_FILENO, F_GETFL);
	char page[4096];

	memset(page, '.', sizeof(page));
	ck_assert_int_eq(fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK), 0);
	while (write(STDERR_FILENO, page, sizeof(page)) > 0)
		;
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_int_eq(fcntl(STDERR_FILENO, F_SETFL, flags), 0);
}

/* The next line of stderr; the bytes that filled the pipe are skipped. */
static const char *next_line(char line[256])
{
	size_t n = 0;
	int c;

	while ((c = getc(out)) != EOF && c != '\n') {
		if (c != '.')
			line[n++] = (char)c;
		ck_assert_uint_lt(n, 256);
	}
	ck_assert_int_eq(c, '\n');
	line[n] = '\0';
	return line;
}

static void expect_line(const char *expected)
{
	char line[256];

	ck_assert_str_eq(next_line(line), expected);
}

static int64_t dropped(void)
{
	return metric_value(METRIC_LOG_DROPPED, NULL);
}

/* Reads lines that begin with consecutive numbers from `from`. Returns the first other line. */
static int read_numbered(int from, char line[256])
{
	char number[16];

	for (;; from++) {
		next_line(line);
		snprintf(number, sizeof(number), "%06d ", from);
		if (!str_has_prefix(line, number))
			return from;
		ck_assert_uint_eq(strlen(line) + 1, strlen(LINE) + 2);
	}
}

START_TEST(before_the_thread_starts_the_caller_writes)
{
	stderr_is_a_pipe();
	write_text("one\n");
	ck_assert_int_eq(fcntl(fileno(out), F_SETFL, O_NONBLOCK), 0);
	expect_line("one");
}
END_TEST

START_TEST(no_caller_waits_for_a_full_stderr_and_what_is_missing_is_said_once_in_its_place)
{
	char line[256], expected[64];
	int kept;

	stderr_is_a_pipe();
	start();
	fill_pipe();
	write_lines(0, LINES);
	ck_assert_int_gt(dropped(), 0);
	kept = read_numbered(0, line);
	snprintf(expected, sizeof(expected), "%d dropped", LINES - kept);
	ck_assert_str_eq(line, expected);
	ck_assert_int_eq(dropped(), LINES - kept);
	/* The queue was full. */
	ck_assert_uint_gt((size_t)kept * strlen(LINE), LOG_QUEUE_BYTES / 2);
	ck_assert_uint_lt((size_t)kept * strlen(LINE), LOG_QUEUE_BYTES);
	write_text("after\n");
	expect_line("after");
}
END_TEST

/* A slow reader: the queue alternates between full and not full. */
START_TEST(a_slow_reader_reads_few_notices)
{
	char line[256];
	int notices = 0, lines = 0;

	stderr_is_a_pipe();
	start();
	fill_pipe();
	write_lines(0, LINES);
	for (int i = 0; i < LINES; i++) {
		lines += !strstr(next_line(line), "dropped");
		notices += strstr(line, "dropped") != NULL;
		write_lines(LINES + i, LINES + i + 3);
	}
	ck_assert_int_gt(notices, 0);
	ck_assert_int_le(notices, (int)(strlen(LINE) * LINES / (LOG_QUEUE_BYTES / 2)) + 2);
	ck_assert_int_gt(lines, LINES / 2);
}
END_TEST

START_TEST(the_end_of_the_process_does_not_wait_for_a_full_stderr)
{
	stderr_is_a_pipe();
	start();
	fill_pipe();
	write_text("kept\n");
	log_queue_flush();
	expect_line("kept");
}
END_TEST

static void *write_hundred(void *arg)
{
	for (int i = 0; i < 100; i++)
		write_text(arg);
	return NULL;
}

START_TEST(lines_of_many_threads_are_whole)
{
	static char text[8193];
	static char got[sizeof(text) * 2];
	pthread_t threads[8];

	memset(text, 'x', sizeof(text) - 2);
	text[sizeof(text) - 2] = '\n';
	stderr_is_a_pipe();
	start();
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, write_hundred, text), 0);
	for (int n = 0; n < 16; n++) {
		ck_assert_uint_eq(fread(got, 1, strlen(text), out), strlen(text));
		ck_assert_mem_eq(got, text, strlen(text));
	}
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		pthread_join(threads[i], NULL);
}
END_TEST

/* A process that shares stderr has made it non-blocking. */
START_TEST(a_stderr_that_does_not_block_loses_nothing)
{
	char line[256];

	stderr_is_a_pipe();
	start();
	fill_pipe();
	ck_assert_int_eq(fcntl(STDERR_FILENO, F_SETFL, O_WRONLY | O_NONBLOCK), 0);
	write_lines(0, 1000);
	write_text("last\n");
	ck_assert_int_eq(read_numbered(0, line), 1000);
	ck_assert_str_eq(line, "last");
	ck_assert_int_eq(dropped(), 0);
}
END_TEST

static void closed_reader(void)
{
	stderr_is_a_pipe();
	fclose(out);
}
static void stderr_is(const char *path, int flags)
{
	int fd = open(path, flags);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_ge(dup2(fd, STDERR_FILENO), 0);
	close(fd);
}
static void not_for_writing(void)
{
	stderr_is("/dev/null", O_RDONLY);
}
static void full_disk(void)
{
	stderr_is("/dev/full", O_WRONLY);
}
static const struct {
	const char *what;
	void (*make)(void);
} faults[] = {
	{ "a reader that is gone", closed_reader },
	{ "a descriptor that is not for writing", not_for_writing },
	{ "a full disk", full_disk },
};

START_TEST(a_stderr_that_fails_loses_lines_and_says_so_once_it_works)
{
	signal(SIGPIPE, SIG_IGN);
	faults[_i].make();
	start();
	write_lines(0, 3);
	log_queue_flush();
	ck_assert_msg(dropped() == 3, "%s: %lld", faults[_i].what, (long long)dropped());
	stderr_is_a_pipe();
	write_text("after\n");
	expect_line("3 dropped");
	expect_line("after");
	ck_assert_int_eq(dropped(), 3);
}
END_TEST

START_TEST(the_last_words_of_an_abort_are_written)
{
	pid_t child;
	int status;

	stderr_is_a_pipe();
	child = fork();
	ck_assert_int_ge(child, 0);
	if (!child) {
		start();
		write_lines(0, 500);
		write_text("last words\n");
		abort();
	}
	for (char line[256]; !str_eq(next_line(line), "last words");)
		;
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(WIFSIGNALED(status) ? WTERMSIG(status) : 0, SIGABRT);
}
END_TEST

SUITE("log_queue", before_the_thread_starts_the_caller_writes,
      no_caller_waits_for_a_full_stderr_and_what_is_missing_is_said_once_in_its_place,
      a_slow_reader_reads_few_notices, the_end_of_the_process_does_not_wait_for_a_full_stderr,
      lines_of_many_threads_are_whole, a_stderr_that_does_not_block_loses_nothing,
      LOOP(a_stderr_that_fails_loses_lines_and_says_so_once_it_works, ARRAY_LEN(faults)),
      the_last_words_of_an_abort_are_written);
