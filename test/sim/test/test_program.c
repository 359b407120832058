/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program: its command line, its files, its end, and the start after it was killed. SNAP_SIM is
 * its path.
 */
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/deadline.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "dpf/dpu_node.h"
#include "kube/kube.h"
#include "test/lib/skip.h"
#include "test/lib/suite.h"
#include "test/sim/fabric/loopdev.h"
#include "test/lib/wait.h"

#define PATIENCE_MS 100000

extern char **environ;
static char base[] = "/var/tmp/snap-sim-program-XXXXXX";

static char *in(const char *name)
{
	return xasprintf("%s/%s", base, name);
}

static const char *program(void)
{
	const char *path = getenv("SNAP_SIM");

	return path ? path : "build/debug/snap-sim";
}

/* Starts it and waits for the port file, which is written once it serves. */
static pid_t start(const char *const *more)
{
	struct strs argv AUTO(strs_clear) = STRS_INIT;
	char *port AUTO(free) = in("port");
	char *kubeconfig AUTO(free) = in("kubeconfig");
	pid_t pid = 0;

	unlink(port);
	strs_add(&argv, program());
	strs_addf(&argv, "--port-file=%s", port);
	strs_addf(&argv, "--write-kubeconfig=%s", kubeconfig);
	for (; *more; more++)
		strs_add(&argv, *more);
	ck_assert_int_eq(posix_spawn(&pid, program(), NULL, NULL, argv.v, environ), 0);
	WAIT_UNTIL(path_exists(port));
	return pid;
}

static int end(pid_t pid, int signal_number)
{
	int status = 0;

	ck_assert_int_eq(kill(pid, signal_number), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status;
}

START_TEST(help_and_mistakes_are_for_people)
{
	static const struct {
		const char *argument;
		int exit;
		const char *text;
	} rows[] = {
		{ "--help", 0, "--write-kubeconfig FILE" },
		{ "--version", 0, "snap-sim " },
		{ "--nonsense", 1, "snap-sim: unknown option --nonsense; --help lists them" },
		{ "--listen=nowhere:1", 1, "is no IPv4 address" },
		{ "--seed-file=/nonexistent", 1, "--seed-file: open /nonexistent" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct str output AUTO(str_clear) = STR_INIT(65536);
		struct strs argv AUTO(strs_clear) = STRS_INIT;
		struct err err = ERR_INIT;
		int rc;

		strs_add(&argv, program());
		strs_add(&argv, "--no-fabric");
		strs_add(&argv, rows[i].argument);
		rc = spawn_run(&argv, deadline_in_ms(PATIENCE_MS), &output, &err);
		ck_assert_msg(rc == rows[i].exit, "%s: %d %s", rows[i].argument, rc, output.ptr);
		ck_assert_msg(strstr(output.ptr, rows[i].text), "%s: %s", rows[i].argument,
		              output.ptr);
	}
}
END_TEST

START_TEST(it_writes_its_files_and_ends_on_sigterm)
{
	static const char *const options[] = { "--no-fabric", "--token=marker", "--namespace=ns",
		                               NULL };
	pid_t pid = start(options);
	char *kubeconfig AUTO(free) = in("kubeconfig");
	char *text AUTO(free) = NULL;
	struct err err = ERR_INIT;
	struct stat st;

	ck_assert_int_eq(stat(kubeconfig, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0600);
	ck_assert_int_eq(file_read(kubeconfig, 65536, &text, NULL, &err), 0);
	ck_assert_ptr_nonnull(strstr(text, "token: \"marker\""));
	ck_assert_ptr_nonnull(strstr(text, "namespace: ns\n"));
	ck_assert_ptr_nonnull(strstr(text, "server: http://127.0.0.1:"));
	ck_assert_int_eq(end(pid, SIGTERM), 0);
}
END_TEST

/* Is the phase of the DPU "Ready"? */
static bool is_ready(struct kube *kube, const char *dpu)
{
	struct json *object AUTO(json_free) = NULL;
	struct err ignored = ERR_INIT;

	return kube_get(kube, &dpu_kind, "ns", dpu, wait_limit(), &object, &ignored) == 0 &&
	       str_eq(json_str(object, "status.phase"), "Ready");
}

/* A driver cannot list a DPU that exists only in snap-sim's store. */
START_TEST(dpus_of_another_api_server_are_followed_and_none_is_made)
{
	static const char dpu[] = "{\"apiVersion\":\"provisioning.dpu.nvidia.com/v1alpha1\","
				  "\"kind\":\"DPU\",\"metadata\":{\"name\":\"mine\","
				  "\"namespace\":\"ns\"},\"spec\":{\"dpuNodeName\":\"n1\"}}";
	char *seed AUTO(free) = in("seed.json"), *kubeconfig AUTO(free) = in("kubeconfig");
	char *seed_option AUTO(free) = xasprintf("--seed-file=%s", seed);
	char *option AUTO(free) = xasprintf("--kubeconfig=%s", kubeconfig);
	const char *const server[] = { "--no-fabric", "--no-dpf", "--namespace=ns", seed_option,
		                       NULL };
	const char *const dpf[] = { program(),   "--no-fabric", "--namespace=ns",
		                    "--node=n1", option,        NULL };
	const struct kube_options options = { .kubeconfig = kubeconfig, .user_agent = "test" };
	struct json *made AUTO(json_free) = NULL;
	struct kube *kube = NULL;
	struct err err = ERR_INIT;
	pid_t pid, follower = 0;

	ck_assert_int_eq(file_replace(seed, dpu, strlen(dpu), 0600, &err), 0);
	pid = start(server);
	ck_assert_msg(!kube_new(&options, &kube, &err), "%s", err.msg);
	ck_assert_int_eq(posix_spawn(&follower, program(), NULL, NULL,
	                             (char *const *)(uintptr_t)dpf, environ),
	                 0);
	WAIT_UNTIL(is_ready(kube, "mine"));
	ck_assert(is_ready(kube, "mine"));
	ck_assert_int_eq(
		kube_get(kube, &dpu_kind, "ns", "n1-0000-26-00", wait_limit(), &made, &err),
		KUBE_ABSENT);
	kube_free(kube);
	ck_assert_int_eq(end(follower, SIGTERM), 0);
	ck_assert_int_eq(end(pid, SIGTERM), 0);
	unlink(seed);
}
END_TEST

START_TEST(seed_files_make_objects)
{
	char *file AUTO(free) = in("seed.json");
	char *option AUTO(free) = xasprintf("--seed-file=%s", file);
	static const struct {
		const char *text;
		int exit;
		const char *says;
	} rows[] = {
		{ "{\"apiVersion\":\"v1\",\"kind\":\"Lamp\",\"metadata\":{\"name\":\"p\"}}", 1,
		  "no such kind: apiVersion v1, kind Lamp" },
		{ "[{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"A\"}}]", 1,
		  "Node A: " },
		{ "{", 1, "seed.json" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct str output AUTO(str_clear) = STR_INIT(65536);
		struct err err = ERR_INIT;
		struct strs argv AUTO(strs_clear) = STRS_INIT;

		ck_assert_int_eq(file_replace(file, rows[i].text, strlen(rows[i].text), 0600, &err),
		                 0);
		strs_add(&argv, program());
		strs_add(&argv, "--no-fabric");
		strs_add(&argv, option);
		ck_assert_int_eq(spawn_run(&argv, deadline_in_ms(PATIENCE_MS), &output, &err),
		                 rows[i].exit);
		ck_assert_msg(strstr(output.ptr, rows[i].says), "%s", output.ptr);
	}
	unlink(file);
}
END_TEST

/* The process that serves the one share of node one, 0 for none. */
static pid_t daemon_of(const char *state)
{
	char *dir AUTO(free) = xasprintf("%s/one/daemons", state);
	struct strs names AUTO(strs_clear) = STRS_INIT;
	char *file AUTO(free) = NULL;
	char *text AUTO(free) = NULL;
	struct err err = ERR_INIT;
	uint64_t pid = 0;

	if (!path_exists(dir) || dir_list(dir, &names, &err) || !names.n)
		return 0;
	file = xasprintf("%s/%s", dir, names.v[0]);
	if (file_read_line(file, 64, &text, &err) || parse_u64("pid", text, &pid, &err))
		return 0;
	return (pid_t)pid;
}

/* A zombie: its parent has not waited for it yet. */
static bool daemon_is_dead(pid_t pid)
{
	char *path AUTO(free) = xasprintf("/proc/%d/cmdline", (int)pid);
	char *text AUTO(free) = NULL;
	struct err err = ERR_INIT;
	size_t n = 0;

	return file_read(path, 4096, &text, &n, &err) != 0 || n == 0;
}

START_TEST(the_next_start_cleans_up_after_a_kill)
{
	char *state AUTO(free) = in("state");
	char *state_option AUTO(free) = xasprintf("--state=%s", state);
	char *seed AUTO(free) = in("seed.json");
	char *seed_option AUTO(free) = xasprintf("--seed-file=%s", seed);
	char *image AUTO(free) = xasprintf("%s/images/nvidia-storage.v", state);
	static const char objects[] =
		"[{\"apiVersion\":\"storage.dpu.nvidia.com/v1alpha1\",\"kind\":\"DPUVolume\","
		"\"metadata\":{\"name\":\"v\"},"
		"\"spec\":{\"dpuStoragePolicyName\":\"example-policy\","
		"\"accessModes\":[\"ReadWriteOnce\"],\"volumeMode\":\"Block\","
		"\"resources\":{\"requests\":{\"storage\":\"16Mi\"}}}},"
		"{\"apiVersion\":\"storage.dpu.nvidia.com/v1alpha1\","
		"\"kind\":\"DPUVolumeAttachment\","
		"\"metadata\":{\"name\":\"a\"},"
		"\"spec\":{\"dpuNodeName\":\"one\",\"dpuVolumeName\":\"v\","
		"\"functionType\":\"vf\",\"hotplugFunction\":false}},"
		"{\"apiVersion\":\"storage.dpu.nvidia.com/v1alpha1\",\"kind\":\"DPUVolume\","
		"\"metadata\":{\"name\":\"s\"},"
		"\"spec\":{\"dpuStoragePolicyName\":\"example-policy\","
		"\"accessModes\":[\"ReadWriteMany\"],\"volumeMode\":\"Filesystem\","
		"\"resources\":{\"requests\":{\"storage\":\"16Mi\"}}}},"
		"{\"apiVersion\":\"storage.dpu.nvidia.com/v1alpha1\","
		"\"kind\":\"DPUVolumeAttachment\","
		"\"metadata\":{\"name\":\"b\"},"
		"\"spec\":{\"dpuNodeName\":\"one\",\"dpuVolumeName\":\"s\","
		"\"functionType\":\"pf\",\"hotplugFunction\":true}}]";
	const char *const first[] = { "--node=one", "--hotplug-slots=1", "--seed",
		                      seed_option,  state_option,        NULL };
	const char *const second[] = { "--node=one", state_option, NULL };
	struct timespec moment = { .tv_nsec = 1000000 };
	struct err err = ERR_INIT;
	pid_t pid, daemon;

	SKIP_UNLESS_LOOP();
	SKIP_UNLESS_FUSE();
	ck_assert_int_eq(file_replace(seed, objects, strlen(objects), 0600, &err), 0);
	pid = start(first);
	daemon = daemon_of(state);
	for (int i = 0; i < PATIENCE_MS && (!loopdev_is_over(image) || !daemon); i++) {
		nanosleep(&moment, NULL);
		daemon = daemon_of(state);
	}
	ck_assert(loopdev_is_over(image) && daemon);
	ck_assert_int_eq(end(pid, SIGKILL), SIGKILL);
	ck_assert(loopdev_is_over(image) && kill(daemon, 0) == 0);
	pid = start(second);
	ck_assert(!path_exists(image));
	ck_assert(kill(daemon, 0) == -1 || daemon_is_dead(daemon));
	ck_assert_int_eq(end(pid, SIGINT), 0);
	ck_assert(!path_exists(state));
	unlink(seed);
}
END_TEST

static int make_base(int argc, char **argv)
{
	(void)argc, (void)argv;
	return mkdtemp(base) ? 0 : -1;
}

static void remove_base(void)
{
	static const char *const made[] = { "port", "kubeconfig", "seed.json" };

	for (size_t i = 0; i < ARRAY_LEN(made); i++) {
		char *path AUTO(free) = in(made[i]);

		unlink(path);
	}
	rmdir(base);
}

SUITE_AROUND("sim program", 60, make_base, remove_base, help_and_mistakes_are_for_people,
             it_writes_its_files_and_ends_on_sigterm,
             dpus_of_another_api_server_are_followed_and_none_is_made, seed_files_make_objects,
             the_next_start_cleans_up_after_a_kill);
