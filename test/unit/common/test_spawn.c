/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes: their environment, the returned status, and their end in time. */
#include "test/lib/suite.h"
#include "test/lib/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/limits.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "test/lib/fs_state.h"
#include "test/lib/nvme_world.h"
#include "test/lib/skip.h"

static int sh(const char *script, struct deadline d, struct str *out, struct err *err)
{
	struct strs argv AUTO(strs_clear) = STRS_INIT;

	strs_add(&argv, "sh");
	strs_add(&argv, "-c");
	strs_add(&argv, script);
	return spawn_run(&argv, d, out, err);
}

START_TEST(a_child_answers_with_its_status_and_output)
{
	static const struct {
		const char *what, *script;
		int status;
		const char *output;
	} rows[] = {
		{ "success", "exit 0", 0, "" },
		{ "status", "exit 7", 7, "" },
		{ "status 255", "exit 255", 255, "" },
		{ "both streams", "echo out; echo err >&2", 0, "out\nerr\n" },
		{ "nothing on stdin", "cat; echo end", 0, "end\n" },
		{ "the C locale", "echo $LC_ALL", 0, "C\n" },
		{ "a path of its own", "echo $PATH", 0, "/usr/sbin:/usr/bin:/sbin:/bin\n" },
		{ "nothing else of our environment", "echo ${SNAP_TEST-unset}", 0, "unset\n" },
	};

	setenv("SNAP_TEST", "1", 1);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct str out AUTO(str_clear) = STR_INIT(1000);
		struct err err = ERR_INIT;
		int rc = sh(rows[i].script, wait_limit(), &out, &err);

		ck_assert_msg(rc == rows[i].status, "%s: %d %s", rows[i].what, rc, err.msg);
		ROW_STR_EQ(rows[i].what, out.ptr, rows[i].output);
	}
}
END_TEST

START_TEST(a_child_has_no_descriptor_of_ours_but_the_one_given)
{
	struct str out AUTO(str_clear) = STR_INIT(1000);
	struct strs argv AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;
	int leaky = open("/dev/null", O_RDONLY);
	int given AUTO(fd) = open("/etc/hostname", O_RDONLY | O_CLOEXEC);

	ck_assert_int_ge(dup2(leaky, 90), 0); /* without O_CLOEXEC */
	/* ls itself opens the directory: descriptor 3. */
	ck_assert_int_eq(sh("ls /proc/self/fd | tr '\\n' ' '", wait_limit(), &out, &err), 0);
	ck_assert_str_eq(out.ptr, "0 1 2 3 ");
	str_reset(&out);
	strs_add(&argv, "readlink");
	strs_add(&argv, SPAWN_FD_PATH);
	ck_assert_int_eq(spawn_run_fd(&argv, given, wait_limit(), &out, &err), 0);
	ck_assert_str_eq(spawn_last_line(&out), "/etc/hostname");
	close(leaky);
	close(90);
}
END_TEST

START_TEST(a_low_descriptor_of_ours_is_not_overwritten_on_the_way)
{
	struct str out AUTO(str_clear) = STR_INIT(1000);
	struct strs argv AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;
	int given, rc, status = -1;
	pid_t pid = fork();

	if (pid == 0) { /* descriptor 0 is closed, so the ends of the pipe get low numbers */
		close(0);
		close(3);
		given = open("/etc/hostname", O_RDONLY | O_CLOEXEC);
		strs_add(&argv, "readlink");
		strs_add(&argv, SPAWN_FD_PATH);
		rc = spawn_run_fd(&argv, given, wait_limit(), &out, &err);
		_exit(rc == 0 && strcmp(spawn_last_line(&out), "/etc/hostname") == 0 ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(a_child_reads_the_input_it_is_given)
{
	static const char bytes[] = "one\0two\n";
	const struct spawn_input input = { bytes, sizeof(bytes) - 1 };
	struct str out AUTO(str_clear) = STR_INIT(1000);
	struct strs argv AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;
	int given AUTO(fd) = open("/etc/hostname", O_RDONLY | O_CLOEXEC);

	strs_add(&argv, "sh");
	strs_add(&argv, "-c");
	strs_add(&argv, "tr '\\0' ' '; readlink " SPAWN_FD_PATH);
	ck_assert_int_eq(spawn_run_input(&argv, given, &input, wait_limit(), &out, &err), 0);
	ck_assert_str_eq(out.ptr, "one two\n/etc/hostname\n");
}
END_TEST

START_TEST(a_missing_program_is_named)
{
	struct strs argv AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;

	strs_add(&argv, "mkfs.nonsense");
	ck_assert_int_eq(spawn_run(&argv, deadline_never(), NULL, &err), -1);
	ck_assert_int_eq(err.code, ERR_NOT_FOUND);
	ck_assert_str_eq(
		err.msg,
		"program mkfs.nonsense is not installed (looked in /usr/sbin:/usr/bin:/sbin:/bin)");
}
END_TEST

START_TEST(the_deadline_ends_the_whole_group)
{
	struct str out AUTO(str_clear) = STR_INIT(1000);
	struct err err = ERR_INIT;
	long pid = 0;

	/* On a busy machine the shell prints it only within a longer one of these times. */
	for (int ms = 300; !pid; ms *= 2) {
		err_clear(&err);
		ck_assert_int_eq(sh("sleep 1d & echo $!; sleep 1d", deadline_in_ms(ms), &out, &err),
		                 -1);
		ck_assert_int_eq(err.code, ERR_DEADLINE);
		pid = strtol(out.ptr, NULL, 10);
	}
	ck_assert_int_gt(pid, 1);
	WAIT_UNTIL(kill((pid_t)pid, 0) != 0); /* init reaps it */
}
END_TEST

static void *cancel_later(void *arg)
{
	usleep(200000);
	cancel_set(arg);
	return NULL;
}

START_TEST(the_callers_leaving_ends_it_at_once)
{
	struct cancel cancel = CANCEL_INIT;
	struct deadline d = wait_limit();
	struct err err = ERR_INIT;
	pthread_t thread;

	d.cancel = &cancel;
	pthread_create(&thread, NULL, cancel_later, &cancel);
	ck_assert_int_eq(sh("sleep 1d", d, NULL, &err), -1);
	ck_assert_int_eq(err.code, ERR_CANCELLED);
	pthread_join(thread, NULL);
	err_clear(&err);
	ck_assert_int_eq(sh("true", d, NULL, &err), -1); /* not even started */
	ck_assert_int_eq(err.code, ERR_CANCELLED);
}
END_TEST

START_TEST(a_killed_child_is_an_error)
{
	struct err err = ERR_INIT;

	ck_assert_int_eq(sh("kill -9 $$", wait_limit(), NULL, &err), -1);
	ck_assert_int_eq(err.code, ERR_INTERNAL);
	ck_assert_str_eq(
		err.msg,
		"sh: killed by signal 9 (SIGKILL); if the kernel did that because it ran out of memory (see its log), the driver's pod needs a higher memory limit");
	err_clear(&err);
	ck_assert_int_eq(sh("kill -15 $$", wait_limit(), NULL, &err), -1);
	ck_assert_str_eq(err.msg, "sh: killed by signal 15 (SIGTERM)");
}
END_TEST

/* The driver sets the score a moment after the start, so the child waits for it. */
START_TEST(a_child_goes_before_the_driver_when_memory_is_short)
{
	struct str out AUTO(str_clear) = STR_INIT(1000);
	struct err err = ERR_INIT;
	const char *wait = "while ! grep -qx 1000 /proc/self/oom_score_adj; do sleep 0.01; done; "
			   "echo 1000";

	ck_assert_int_eq(sh(wait, wait_limit(), &out, &err), 0);
	ck_assert_str_eq(out.ptr, "1000\n");
}
END_TEST

START_TEST(signals_are_as_in_a_fresh_process)
{
	struct str out AUTO(str_clear) = STR_INIT(1000);
	struct err err = ERR_INIT;
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	const unsigned long long glibcs_own = 3ULL
	                                      << 31; /* signals 32 and 33, which glibc reserves */
	unsigned long long blocked, ignored;
	sigset_t term;

	sigaction(SIGPIPE, &ignore, NULL);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &term, NULL);
	ck_assert_int_eq(
		sh("sed -nE 's/^Sig(Blk|Ign):\\s*//p' /proc/self/status", wait_limit(), &out, &err),
		0);
	ck_assert_int_eq(sscanf(out.ptr, "%llx\n%llx", &blocked, &ignored), 2);
	ck_assert_uint_eq(blocked, 0);
	ck_assert_uint_eq(ignored & ~glibcs_own, 0);
}
END_TEST

START_TEST(endless_output_is_cut_and_does_not_block)
{
	struct str out AUTO(str_clear) = STR_INIT(LIMIT_SPAWN_OUTPUT);
	struct err err = ERR_INIT;

	ck_assert_int_eq(sh("head -c 3000000 /dev/zero | tr '\\0' x", wait_limit(), &out, &err), 0);
	ck_assert_uint_eq(out.len, LIMIT_SPAWN_OUTPUT);
	ck_assert(out.cut);
}
END_TEST

START_TEST(a_grandchild_that_keeps_the_pipe_is_not_waited_for)
{
	struct str out AUTO(str_clear) = STR_INIT(1000);
	struct err err = ERR_INIT;
	long pid;

	ck_assert_int_eq(sh("sleep 1d & echo done $!", wait_limit(), &out, &err), 0);
	ck_assert_int_eq(sscanf(out.ptr, "done %ld", &pid), 1);
	ck_assert_int_eq(kill((pid_t)pid, SIGKILL), 0); /* it was running all the time */
}
END_TEST

START_TEST(the_last_line_is_found)
{
	static const struct {
		const char *what, *text, *last;
	} rows[] = {
		{ "nothing", "", "" },
		{ "one", "a", "a" },
		{ "newline at the end", "a\nb\n", "b" },
		{ "blank lines at the end", "a\nb \n\n \n", "b" },
		{ "only blank", "\n\n", "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct str out AUTO(str_clear) = STR_INIT(1000);

		str_add(&out, rows[i].text);
		ROW_STR_EQ(rows[i].what, spawn_last_line(&out), rows[i].last);
	}
}
END_TEST

START_TEST(tools_of_a_test_come_first)
{
	char dir[] = "/tmp/spawn-test-XXXXXX";
	struct str out AUTO(str_clear) = STR_INIT(1000);
	struct strs argv AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;
	char *tool AUTO(free) = NULL;
	FILE *f;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	tool = xasprintf("%s/mkfs.ext4", dir);
	f = fopen(tool, "w");
	fputs("#!/bin/sh\necho fake $1\n", f);
	fclose(f);
	chmod(tool, 0755);
	spawn_set_path(dir);
	strs_add(&argv, "mkfs.ext4");
	strs_add(&argv, "x");
	ck_assert_int_eq(spawn_run(&argv, wait_limit(), &out, &err), 0);
	ck_assert_str_eq(out.ptr, "fake x\n");
	spawn_set_path(NULL);
	unlink(tool);
	rmdir(dir);
}
END_TEST

static void *many(void *arg)
{
	struct str *failed = arg;

	for (int i = 0; i < 20; i++) {
		struct str out AUTO(str_clear) = STR_INIT(100);
		struct err err = ERR_INIT;
		int rc = sh("echo hello; exit 3", wait_limit(), &out, &err);

		if (rc != 3 || strcmp(out.ptr, "hello\n") != 0)
			str_addf(failed, "status %d, output '%s', error '%s'\n", rc, out.ptr,
			         err.msg);
	}
	return NULL;
}

START_TEST(children_of_many_threads_do_not_mix)
{
	pthread_t threads[4];
	struct str failed[4];

	for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
		failed[i] = (struct str)STR_INIT(1000);
		pthread_create(&threads[i], NULL, many, &failed[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
		pthread_join(threads[i], NULL);
		ck_assert_str_eq(failed[i].ptr, "");
		str_clear(&failed[i]);
	}
}
END_TEST

/* A write to a frozen filesystem waits in the kernel, and SIGKILL does not end it. */
START_TEST(a_child_that_outlives_its_end_is_named_and_reaped_later)
{
	struct nvme_world world;
	struct nvme_disk *disk;
	char *dir AUTO(free) = NULL, *script AUTO(free) = NULL;
	struct err err = ERR_INIT;
	const char *at = NULL;
	pid_t pid;

	SKIP_UNLESS_LOOP();
	private_mounts();
	nvme_world_init(&world);
	disk = nvme_world_add(&world, 1, "", 64ULL << 20);
	dir = xasprintf("%s/mnt", world.root);
	run_tool("mkfs.ext4 -q %s && mkdir %s && mount %s %s", disk->loop, dir, disk->loop, dir);
	fs_state_set(FS_STATE_FROZEN, "ext4", disk->loop, dir);
	script = xasprintf("exec touch %s/f", dir);
	/* On a loaded machine the deadline may pass before the child writes. */
	for (int ms = 100; !at && ms < WAIT_LIMIT_MS; ms *= 2) {
		err_clear(&err);
		ck_assert_int_eq(sh(script, deadline_in_ms(ms), NULL, &err), -1);
		ck_assert_int_eq(err.code, ERR_DEADLINE);
		at = strstr(err.msg, "its process ");
	}
	ck_assert_msg(at != NULL, "%s", err.msg);
	pid = (pid_t)strtol(at + strlen("its process "), NULL, 10);
	ck_assert_int_eq(kill(pid, 0), 0);
	fs_state_thaw(dir, NULL, 0);
	while (kill(pid, 0) == 0)
		usleep(1000);
	run_tool("umount %s", dir);
	nvme_world_clear(&world);
}
END_TEST

SUITE_TIMEOUT("spawn", 60, a_child_that_outlives_its_end_is_named_and_reaped_later,
              a_child_answers_with_its_status_and_output,
              a_child_has_no_descriptor_of_ours_but_the_one_given,
              a_low_descriptor_of_ours_is_not_overwritten_on_the_way,
              a_child_reads_the_input_it_is_given, a_missing_program_is_named,
              the_deadline_ends_the_whole_group, the_callers_leaving_ends_it_at_once,
              a_killed_child_is_an_error, a_child_goes_before_the_driver_when_memory_is_short,
              signals_are_as_in_a_fresh_process, endless_output_is_cut_and_does_not_block,
              a_grandchild_that_keeps_the_pipe_is_not_waited_for, the_last_line_is_found,
              tools_of_a_test_come_first, children_of_many_threads_do_not_mix);
