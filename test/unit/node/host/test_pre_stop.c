/* SPDX-License-Identifier: Apache-2.0 */
/* The mounts that the end of the driver waits for: those that kubelet is about to unmount. */
#include "node/host/pre_stop.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "test/lib/suite.h"
#include "test/lib/tree.h"
#include "test/lib/wait.h"

#define DRIVER "csi.snap.nvidia.com"
#define CSI "/kubelet/plugins/kubernetes.io/csi/"
#define POD_A "0b0f1a7e-1111-4222-8333-00000000000a"
#define POD_A_SYSTEMD "0b0f1a7e_1111_4222_8333_00000000000a"
#define POD_B "0b0f1a7e-1111-4222-8333-00000000000b"
#define TARGET(pod, pv) "/kubelet/pods/" pod "/volumes/kubernetes.io~csi/" pv "/mount"
#define STAGED(hash) CSI DRIVER "/" hash "/globalmount"
#define BLOCK_STAGED CSI "volumeDevices/staging/pv-2/pv-2"
#define BLOCK_TARGET CSI "volumeDevices/publish/pv-2/" POD_B

static struct tree tree;
static char proc[80], kubelet[80];

static struct pre_stop_options options(void)
{
	return (struct pre_stop_options) { proc, kubelet, DRIVER };
}

static void data(const char *dir, const char *pv, const char *driver)
{
	char *path AUTO(free) = xasprintf("%s/vol_data.json", dir);
	char *text AUTO(free) = xasprintf("{\"volumeHandle\":\"%s\",\"specVolID\":\"%s\","
	                                  "\"driverName\":\"%s\"}",
	                                  pv, pv, driver);

	tree_write(&tree, path, text);
}

/* Mounts: paths below the tree, terminated by NULL. */
static void mounts(const char *const *paths)
{
	struct str text AUTO(str_clear) = STR_INIT(10000);

	str_add(&text, "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
	for (int i = 0; paths[i]; i++)
		str_addf(&text, "%d 1 259:%d / %s%s rw shared:1 - ext4 /dev/nvme0n%d rw\n", 10 + i,
		         i, tree.root, paths[i], i);
	tree_write(&tree, "/proc/self/mountinfo", text.ptr);
}

static void process(const char *pid, const char *cgroup)
{
	char *path AUTO(free) = xasprintf("/proc/%s/cgroup", pid);

	tree_write(&tree, path, cgroup);
}

static void begin(void)
{
	tree_unpack(&tree, NULL);
	snprintf(proc, sizeof(proc), "%s/proc", tree.root);
	snprintf(kubelet, sizeof(kubelet), "%s/kubelet", tree.root);
	tree_link(&tree, "/proc/self/exe", "/snap-csi-plugin");
	tree_link(&tree, "/proc/1/exe", "/usr/lib/systemd/systemd");
	process("1", "0::/init.scope\n");
	process("77", "0::/system.slice/other.service\n");
	data("/kubelet/pods/" POD_A "/volumes/kubernetes.io~csi/pv-1", "pv-1", DRIVER);
	data("/kubelet/pods/" POD_B "/volumes/kubernetes.io~csi/pv-1", "pv-1", DRIVER);
	data("/kubelet/pods/" POD_A "/volumes/kubernetes.io~csi/pv-9", "pv-9", "other.example.com");
	data(CSI DRIVER "/77", "pv-1", DRIVER);
	data(CSI "volumeDevices/pv-2/data", "pv-2", DRIVER);
}

static void end(void)
{
	tree_clear(&tree);
}

#define LIVES_A "12:pids:/a\n0::/kubepods/burstable/pod" POD_A "/c1\n"

static const struct {
	const char *what;
	const char *mounts[6];
	const char *cgroups[3];
	const char *waits_for; /* paths, separated by a blank */
} rows[] = {
	{ "nothing is mounted", { NULL }, { NULL }, "" },
	{ "a pod lives", { STAGED("77"), TARGET(POD_A, "pv-1") }, { LIVES_A }, "" },
	{ "a pod lives, by systemd's names",
	  { STAGED("77"), TARGET(POD_A, "pv-1") },
	  { "0::/../../kubepods-pod" POD_A_SYSTEMD ".slice/cri-containerd-1.scope\n" },
	  "" },
	{ "a pod has ended",
	  { STAGED("77"), TARGET(POD_A, "pv-1") },
	  { NULL },
	  STAGED("77") " " TARGET(POD_A, "pv-1") " " },
	{ "of a pod a process is left that has ended",
	  { TARGET(POD_A, "pv-1") },
	  { "0::/kubepods/pod" POD_A "/c1 (deleted)\n" },
	  TARGET(POD_A, "pv-1") " " },
	{ "it is unpublished, and still staged", { STAGED("77") }, { LIVES_A }, STAGED("77") " " },
	{ "one of two pods of a volume has ended",
	  { STAGED("77"), TARGET(POD_A, "pv-1"), TARGET(POD_B, "pv-1") },
	  { LIVES_A },
	  TARGET(POD_B, "pv-1") " " },
	{ "raw block of a pod that has ended, beside one that lives",
	  { BLOCK_STAGED, BLOCK_TARGET, STAGED("77"), TARGET(POD_A, "pv-1") },
	  { LIVES_A },
	  BLOCK_STAGED " " BLOCK_TARGET " " },
	{ "another driver's", { TARGET(POD_A, "pv-9") }, { NULL }, "" },
	{ "nobody knows whose", { TARGET(POD_B, "pv-8"), STAGED("78") }, { NULL }, "" },
	{ "no volume of CSI",
	  { "/kubelet/pods/" POD_A "/volumes/kubernetes.io~projected/token" },
	  { NULL },
	  "" },
};

static char *going(void)
{
	struct pre_stop_options o = options();
	struct strs left AUTO(strs_clear) = STRS_INIT;
	struct str text AUTO(str_clear) = STR_INIT(10000);
	struct err err = ERR_INIT;

	ck_assert_msg(pre_stop_scan(&o, &left, &err) == 0, "%s", err.msg);
	for (size_t i = 0; i < left.n; i++)
		str_addf(&text, "%s ", left.v[i] + strlen(tree.root));
	return str_take(&text);
}

START_TEST(what_ended_pods_have_left_is_waited_for_and_nothing_else)
{
	char *is AUTO(free) = NULL;

	begin();
	mounts(rows[_i].mounts);
	for (int i = 0; rows[_i].cgroups[i]; i++)
		process("4242", rows[_i].cgroups[i]);
	is = going();
	ck_assert_msg(str_eq(is, rows[_i].waits_for), "%s: %s", rows[_i].what, is);
	end();
}
END_TEST

/* Then kubelet's files have timestamps in the future. */
START_TEST(a_clock_that_was_set_back_ends_no_wait)
{
	static const char *const files[] = { CSI DRIVER "/77/vol_data.json",
		                             CSI "volumeDevices/pv-2/data/vol_data.json",
		                             "/kubelet/pods/" POD_A
		                             "/volumes/kubernetes.io~csi/pv-1/vol_data.json" };
	char *is AUTO(free) = NULL;

	begin();
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		char *path AUTO(free) = xasprintf("%s%s", tree.root, files[i]);
		const struct timespec later = { .tv_sec = time(NULL) + 86400 };

		ck_assert_int_eq(
			utimensat(AT_FDCWD, path, (const struct timespec[]) { later, later }, 0),
			0);
	}
	mounts((const char *const[]) { STAGED("77"), BLOCK_STAGED, TARGET(POD_A, "pv-1"), NULL });
	is = going();
	ck_assert_str_eq(is, STAGED("77") " " BLOCK_STAGED " " TARGET(POD_A, "pv-1") " ");
	end();
}
END_TEST

/* Without hostPID every pod would seem to have ended. */
START_TEST(who_sees_no_pods_waits_for_nothing)
{
	struct pre_stop_options o;
	struct strs left AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;

	begin();
	o = options();
	mounts((const char *const[]) { TARGET(POD_A, "pv-1"), NULL });
	tree_link(&tree, "/proc/1/exe", "/snap-csi-plugin");
	ck_assert_int_eq(pre_stop_wait(&o, deadline_never(), &left, &err), PRE_STOP_BLIND);
	end();
}
END_TEST

static void *unmount(void *arg)
{
	(void)arg;
	mounts((const char *const[]) { STAGED("77"), NULL });
	usleep(300000);
	mounts((const char *const[]) { NULL });
	return NULL;
}

START_TEST(it_waits_until_all_is_taken_down_or_the_time_is_over)
{
	struct pre_stop_options o;
	struct strs left AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;
	pthread_t thread;

	begin();
	o = options();
	mounts((const char *const[]) { STAGED("77"), TARGET(POD_A, "pv-1"), NULL });
	ck_assert_int_eq(pre_stop_wait(&o, deadline_in_ms(10), &left, &err), PRE_STOP_LEFT);
	ck_assert_uint_eq(left.n, 2);
	ck_assert_int_eq(pthread_create(&thread, NULL, unmount, NULL), 0);
	ck_assert_msg(pre_stop_wait(&o, wait_limit(), &left, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(left.n, 0);
	pthread_join(thread, NULL);
	end();
}
END_TEST

SUITE("pre_stop", LOOP(what_ended_pods_have_left_is_waited_for_and_nothing_else, ARRAY_LEN(rows)),
      a_clock_that_was_set_back_ends_no_wait, who_sees_no_pods_waits_for_nothing,
      it_waits_until_all_is_taken_down_or_the_time_is_over);
