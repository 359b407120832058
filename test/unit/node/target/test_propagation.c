/* SPDX-License-Identifier: Apache-2.0 */
/* Mount propagation: when it matters, the refusals, and their texts. */
#include "test/lib/suite.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/target/propagation.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"
#include "test/lib/tree.h"

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"
#define K "/nonexistent/kubelet"
#define ROOT_LINE "30 1 0:28 / / rw,relatime - overlay overlay rw\n"
#define MOUNT(id, target, fields) \
	id " 30 259:2 " target " " target " rw,relatime " fields "- ext4 /dev/sda2 rw\n"
#define PODS(fields) MOUNT("40", K "/pods", fields)
#define STAGING(fields) MOUNT("41", K "/plugins/kubernetes.io/csi", fields)

static char *proc;

static void begin(struct tree *t)
{
	tree_unpack(t, NULL);
	proc = tree_path(t, "/proc");
}

static void end(struct tree *t)
{
	free(proc);
	tree_clear(t);
}

START_TEST(it_matters_in_a_mount_namespace_of_our_own)
{
	static const struct {
		const char *what;
		const char *self, *ours, *first; /* NULL: cannot be read */
		bool matters;
	} rows[] = {
		{ "a process on the host", "812", "mnt:[1]", "mnt:[1]", false },
		{ "process 1 of a container", "1", "mnt:[1]", "mnt:[1]", true },
		{ "a container with hostPID", "812", "mnt:[2]", "mnt:[1]", true },
		{ "process 1 may not be inspected", "812", "mnt:[2]", NULL, false },
		{ "nor may we", "812", NULL, "mnt:[1]", false },
		{ "process 1, and nothing can be read", "1", NULL, NULL, true },
		{ "no procfs at all", NULL, NULL, NULL, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct tree t;
		char *dir = rows[i].self ? xasprintf("/proc/%s/ns/mnt", rows[i].self) : NULL;

		begin(&t);
		if (rows[i].first)
			tree_link(&t, "/proc/1/ns/mnt", rows[i].first);
		if (rows[i].ours && dir)
			tree_link(&t, dir, rows[i].ours);
		if (rows[i].self)
			tree_link(&t, "/proc/self", rows[i].self);
		ck_assert_msg(propagation_matters(proc) == rows[i].matters, "%s", rows[i].what);
		free(dir);
		end(&t);
	}
}
END_TEST

/* The state of the first process of a container without hostPID. */
static int as_container(const char *root)
{
	char dir[128];
	pid_t pid;
	int status = 0;

	snprintf(dir, sizeof(dir), "%s/proc", root);
	if (unshare(CLONE_NEWPID | CLONE_NEWNS) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return 2;
	pid = fork();
	if (pid == 0)
		_exit(mount("proc", dir, "proc", 0, NULL) ? 2 : propagation_matters(dir));
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

START_TEST(the_first_process_of_a_container_knows_it)
{
	struct tree t;
	int status = 0;
	pid_t pid;

	SKIP_UNLESS_ROOT("namespaces");
	begin(&t);
	tree_mkdir(&t, "/proc");
	pid = fork();
	if (pid == 0)
		_exit(as_container(t.root));
	waitpid(pid, &status, 0);
	ck_assert(WIFEXITED(status));
	if (WEXITSTATUS(status) == 2)
		printf("SKIP: %s: no namespaces to be had\n", __func__);
	else
		ck_assert_int_eq(WEXITSTATUS(status), 1);
	end(&t);
}
END_TEST

static const struct {
	const char *what, *mountinfo;
	const char *path;
	const char *error; /* NULL: accepted */
} paths[] = {
	{ "Bidirectional", ROOT_LINE PODS("shared:7 ") STAGING("shared:7 "),
	  K "/pods/u/volumes/kubernetes.io~csi/pv/mount", NULL },
	{ "Bidirectional, staging", ROOT_LINE PODS("") STAGING("shared:7 "),
	  K "/plugins/kubernetes.io/csi/csi.snap.nvidia.com/abc/globalmount", NULL },
	{ "the whole of kubelet's directory", ROOT_LINE MOUNT("40", K, "shared:7 master:1 "),
	  K "/pods/u/volumes/kubernetes.io~csi/pv/mount", NULL },
	{ "no mountPropagation", ROOT_LINE PODS("") STAGING("shared:7 "),
	  K "/pods/u/volumes/kubernetes.io~csi/pv/mount",
	  K
	  "/pods is not a shared mount (it has mountPropagation: None): no pod would see mounts at " K
	  "/pods/u/volumes/kubernetes.io~csi/pv/mount. The container's volumeMount "
	  "with mountPath: " K "/pods needs mountPropagation: Bidirectional" },
	{ "HostToContainer", ROOT_LINE PODS("shared:7 ") STAGING("master:7 "),
	  K "/plugins/kubernetes.io/csi/csi.snap.nvidia.com/abc/globalmount",
	  K "/plugins/kubernetes.io/csi is not a shared mount (it has mountPropagation: "
	    "HostToContainer, which propagates nothing to the host): no pod would see mounts at " K
	    "/plugins/kubernetes.io/csi/csi.snap.nvidia.com/abc/globalmount. The container's "
	    "volumeMount with mountPath: " K
	    "/plugins/kubernetes.io/csi needs mountPropagation: Bidirectional" },
	{ "kubelet lives elsewhere than the manifest says",
	  ROOT_LINE PODS("shared:7 ") STAGING("shared:7 "),
	  "/nonexistent/microk8s/pods/u/volumes/kubernetes.io~csi/pv/mount",
	  "/nonexistent/microk8s/pods is not a mount of this container: no pod would see mounts at "
	  "/nonexistent/microk8s/pods/u/volumes/kubernetes.io~csi/pv/mount. The container "
	  "needs a volumeMount with mountPath: /nonexistent/microk8s/pods and "
	  "mountPropagation: Bidirectional, of a hostPath volume of the same path" },
	{ "a path that is none of kubelet's", ROOT_LINE PODS("shared:7 "), "/nonexistent/a/b",
	  "/nonexistent/a is not a mount of this container: no pod would see mounts at /nonexistent/a/b. "
	  "The container needs a volumeMount with mountPath: "
	  "/nonexistent/a and mountPropagation: Bidirectional, of a hostPath volume of the same "
	  "path" },
	{ "nothing is known to be mounted", PODS("shared:7 "), "/nonexistent/a/b",
	  "/nonexistent/a is not a mount of this container: no pod would see mounts at /nonexistent/a/b. "
	  "The container needs a volumeMount with mountPath: "
	  "/nonexistent/a and mountPropagation: Bidirectional, of a hostPath volume of the same "
	  "path" },
};

START_TEST(what_no_pod_would_see_is_refused_with_the_missing_line)
{
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct tree t;
		struct err err = ERR_INIT;
		struct node_options o;
		int rc;

		begin(&t);
		tree_write(&t, "/proc/self/mountinfo", paths[i].mountinfo);
		o = (struct node_options) { .proc_root = proc, .own_mounts = true };
		rc = propagation_check(&o, NULL, paths[i].path, &err);
		ck_assert_msg(rc == (paths[i].error ? -1 : 0), "%s: %s", paths[i].what, err.msg);
		if (rc) {
			ck_assert_int_eq(err.code, ERR_PRECONDITION);
			ROW_STR_EQ(paths[i].what, err.msg, paths[i].error);
		}
		err_clear(&err);
		o.own_mounts = false;
		ck_assert_int_eq(propagation_check(&o, NULL, paths[i].path, &err), 0);
		end(&t);
	}
}
END_TEST

START_TEST(at_start_each_of_kubelets_directories_is_looked_at)
{
	static const struct {
		const char *what, *mountinfo;
		size_t n;
		const char *first;
	} rows[] = {
		{ "both as they should be", ROOT_LINE PODS("shared:7 ") STAGING("shared:7 "), 0,
		  NULL },
		{ "the directory of pods is private", ROOT_LINE PODS("") STAGING("shared:7 "), 1,
		  K "/pods is not a shared mount" },
		{ "only pods is there", ROOT_LINE PODS("shared:7 "), 1,
		  K "/plugins/kubernetes.io/csi is not a mount of this container" },
		{ "none is there", ROOT_LINE, 2, K "/pods is not a mount of this container" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct strs errors AUTO(strs_clear) = STRS_INIT;
		struct strs warnings AUTO(strs_clear) = STRS_INIT;
		struct tree t;
		struct err err = ERR_INIT;
		struct node_options o;

		begin(&t);
		tree_write(&t, "/proc/self/mountinfo", rows[i].mountinfo);
		o = (struct node_options) { .proc_root = proc,
			                    .kubelet_dir = K,
			                    .own_mounts = true };
		ck_assert_int_eq(propagation_scan(&o, &errors, &warnings, &err), 0);
		ck_assert_msg(errors.n == rows[i].n, "%s: %zu", rows[i].what, errors.n);
		ck_assert_uint_eq(warnings.n, 0);
		if (errors.n)
			ck_assert_msg(str_has_prefix(errors.v[0], rows[i].first), "%s",
			              errors.v[0]);
		end(&t);
	}
}
END_TEST

START_TEST(on_the_host_a_private_mount_is_only_mentioned)
{
	static const struct {
		const char *what, *first, *fields, *text; /* NULL: no message */
	} rows[] = {
		{ "shared", "mnt:[1]", "shared:1 ", NULL },
		{ "private", "mnt:[1]", "", "since it runs beside kubelet" },
		{ "private, and no telling where this is", NULL, "", "it runs in a container" },
		{ "shared, and no telling", NULL, "shared:1 ", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct strs errors AUTO(strs_clear) = STRS_INIT;
		struct strs warnings AUTO(strs_clear) = STRS_INIT;
		struct tree t;
		struct err err = ERR_INIT;
		char *mountinfo AUTO(free) =
			xasprintf("30 1 8:1 / / rw %s- ext4 /dev/sda1 rw\n", rows[i].fields);
		char *dir AUTO(free) = NULL;
		struct node_options o;

		begin(&t);
		tree_mkdir(&t, "/kubelet/pods"); /* and no directory of staged volumes yet */
		tree_write(&t, "/proc/self/mountinfo", mountinfo);
		if (rows[i].first)
			tree_link(&t, "/proc/1/ns/mnt", rows[i].first);
		dir = tree_path(&t, "/kubelet");
		o = (struct node_options) { .proc_root = proc, .kubelet_dir = dir };
		ck_assert_int_eq(propagation_scan(&o, &errors, &warnings, &err), 0);
		ck_assert_uint_eq(errors.n, 0);
		ck_assert_msg(warnings.n == (rows[i].text ? 1 : 0), "%s", rows[i].what);
		if (rows[i].text)
			ck_assert_msg(strstr(warnings.v[0], rows[i].text) != NULL, "%s",
			              warnings.v[0]);
		end(&t);
	}
}
END_TEST

START_TEST(a_table_that_cannot_be_read_is_an_error)
{
	struct strs errors AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;
	const struct node_options o = { .proc_root = "/nonexistent",
		                        .kubelet_dir = K,
		                        .own_mounts = true };

	ck_assert_int_eq(propagation_scan(&o, &errors, &errors, &err), -1);
	err_clear(&err);
	ck_assert_int_eq(propagation_check(&o, NULL, K "/pods/x", &err), -1);
}
END_TEST

/* The calls themselves, on real mounts: private ones first, then the same ones shared. */
START_TEST(stage_and_publish_refuse_before_they_touch_anything)
{
	struct node_world w;
	char *before AUTO(free) = NULL, *after AUTO(free) = NULL;
	struct err err = ERR_INIT;
	struct nvme_disk *disk;
	struct stage_request s;
	struct publish_request p;

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	w.node.o.own_mounts = true;
	disk = nvme_world_add(&w.nvme, 1, UUID, 64 * MIB);
	s = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);
	p = publish_request(&w, w.target, "ext4", MODE_SINGLE_NODE_WRITER);
	before = kubelet_tree(&w);

	ck_assert_int_eq(node_stage(&w.node, &s, soon(), &err), -1);
	ck_assert_msg(err.code == ERR_PRECONDITION &&
	                      strstr(err.msg, "mountPropagation: Bidirectional") != NULL,
	              "%s", err.msg);
	err_clear(&err);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 0);

	run_tool("mkdir -p %s/kubelet/pods && mount --bind %s/kubelet %s/kubelet && mount "
	         "--make-shared %s/kubelet && mount --bind %s/kubelet/pods %s/kubelet/pods && "
	         "mount --make-private %s/kubelet/pods",
	         w.nvme.root, w.nvme.root, w.nvme.root, w.nvme.root, w.nvme.root, w.nvme.root,
	         w.nvme.root);
	node_world_stage(&w, &s);
	ck_assert_int_eq(node_publish(&w.node, &p, soon(), &err), -1);
	ck_assert_msg(err.code == ERR_PRECONDITION &&
	                      strstr(err.msg, "/kubelet/pods is not a shared "
	                                      "mount") != NULL,
	              "%s", err.msg);
	err_clear(&err);
	ck_assert_uint_eq(mounts_below(w.target), 0);

	run_tool("mount --make-shared %s/kubelet/pods", w.nvme.root);
	node_world_publish(&w, &p);
	/* Unpublish and unstage work whatever the propagation. */
	run_tool("mount --make-private %s/kubelet/pods", w.nvme.root);
	ck_assert_msg(node_unpublish(&w.node, VOLUME_ID, w.target, &err) == 0, "%s", err.msg);
	ck_assert_msg(node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err) == 0, "%s",
	              err.msg);
	run_tool("umount %s/kubelet/pods %s/kubelet && rmdir %s/kubelet/pods/p1 "
	         "%s/kubelet/pods",
	         w.nvme.root, w.nvme.root, w.nvme.root, w.nvme.root);
	after = kubelet_tree(&w);
	ck_assert_str_eq(after, before);
	node_world_clear(&w);
}
END_TEST

SUITE_TIMEOUT("propagation", 60, it_matters_in_a_mount_namespace_of_our_own,
              the_first_process_of_a_container_knows_it,
              what_no_pod_would_see_is_refused_with_the_missing_line,
              at_start_each_of_kubelets_directories_is_looked_at,
              on_the_host_a_private_mount_is_only_mentioned,
              a_table_that_cannot_be_read_is_an_error,
              stage_and_publish_refuse_before_they_touch_anything);
