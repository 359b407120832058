/* SPDX-License-Identifier: Apache-2.0 */
/* Assertions that fail outside of the test's own thread: test/lib. */
#include "test/lib/suite.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/lib/processes.h"

#define MANY 20

/* The destination of stderr during the test. */
static FILE *said;
static int stderr_was;

static void listen_to_stderr(void)
{
	said = tmpfile();
	ck_assert_ptr_nonnull(said);
	stderr_was = dup(2);
	ck_assert_int_eq(dup2(fileno(said), 2), 2);
}

static void what_was_said(char *ret, size_t size)
{
	size_t n;

	ck_assert_int_eq(dup2(stderr_was, 2), 2);
	close(stderr_was);
	rewind(said);
	n = fread(ret, 1, size - 1, said);
	ret[n] = 0;
	fclose(said);
}

START_TEST(some_fail)
{
	/* The others write into Check's file at the same time. */
	for (int i = 0; i < 2000; i++)
		ck_assert_msg(i != 1000 || (_i != 3 && _i != 7), "number %d broke", _i);
}
END_TEST

START_TEST(processes_that_fail_are_counted_and_say_why)
{
	char text[4096];
	unsigned failed;

	listen_to_stderr();
	failed = processes_run(some_fail, MANY);
	what_was_said(text, sizeof(text));
	ck_assert_uint_eq(failed, 2);
	ck_assert_msg(strstr(text, "process 3: ") && strstr(text, "number 3 broke") &&
	                      strstr(text, "process 7: ") && strstr(text, "number 7 broke"),
	              "%s", text);
	ck_assert_msg(!strstr(text, "process 4"), "%s", text);
}
END_TEST

static void *break_if(void *arg)
{
	ck_assert_msg(!arg, "the thread broke");
	return NULL;
}

START_TEST(an_assertion_that_holds_may_stand_in_a_thread)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, break_if, NULL), 0);
	pthread_join(thread, NULL);
}
END_TEST

START_TEST(an_assertion_that_fails_in_a_thread_aborts_with_its_text)
{
	static const struct rlimit no_core = { 0, 0 };
	char text[4096];
	pthread_t thread;
	int status = 0;
	pid_t pid;

	listen_to_stderr();
	pid = fork();
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGABRT, SIG_DFL);
		if (pthread_create(&thread, NULL, break_if, text) == 0)
			pthread_join(thread, NULL);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	what_was_said(text, sizeof(text));
	ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %d", status);
	ck_assert_msg(strstr(text, "test_failing.c:") && strstr(text, "the thread broke"), "%s",
	              text);
}
END_TEST

SUITE("failing", processes_that_fail_are_counted_and_say_why,
      an_assertion_that_holds_may_stand_in_a_thread,
      an_assertion_that_fails_in_a_thread_aborts_with_its_text);
