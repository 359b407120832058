/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snap-share and mount.snapsim, which replace virtio-fs devices and mount(2) of their tags: a test
 * of test/lib/share. Runs in a private mount namespace.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "test/lib/share.h"
#include "test/lib/skip.h"
#include "test/lib/suite.h"
#include "test/lib/tree.h"

#define TAG "nvme-01234567tag"
#define TAG_OF_36 "123456789012345678901234567890123456"

struct share_world {
	struct tree tree;
	struct share share, second;
	char *folder, *tags, *at, *mnt;
};

static void serve(struct share_world *w, const char *tag)
{
	free(w->at);
	w->at = xasprintf("%s/%s", w->tags, tag);
	share_start(&w->share, tag, w->folder, w->at);
}

static void world_init(struct share_world *w)
{
	ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
	ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	tree_unpack(&w->tree, NULL);
	w->folder = tree_path(&w->tree, "/folder");
	w->tags = tree_path(&w->tree, "/tags");
	w->mnt = tree_path(&w->tree, "/mnt");
	tree_mkdir(&w->tree, "/folder");
	tree_mkdir(&w->tree, "/tags");
	tree_mkdir(&w->tree, "/mnt");
	mount_helper_tags(w->tags);
}

static void world_clear(struct share_world *w)
{
	umount2(w->mnt, MNT_DETACH);
	share_end(&w->share);
	share_end(&w->second);
	free(w->folder);
	free(w->tags);
	free(w->at);
	free(w->mnt);
	tree_clear(&w->tree);
}
DEFINE_AUTO_VALUE(struct share_world, world_clear);

#define SHARE_WORLD(w) struct share_world w AUTO(world_clear) = { 0 }

/* Runs a shell command; returns its status and output. */
static int shell(struct str *output, const char *fmt, ...) PRINTF_(2, 3);
static int shell(struct str *output, const char *fmt, ...)
{
	struct strs argv AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;
	const char *tags = getenv("SNAP_SIM_TAGS");
	char command[2048];
	int at;
	va_list args;
	int rc;

	at = snprintf(command, sizeof(command), "export SNAP_SIM_TAGS=%s; ", tags ? tags : "");
	va_start(args, fmt);
	vsnprintf(command + at, sizeof(command) - (size_t)at, fmt, args);
	va_end(args);
	strs_add(&argv, "sh");
	strs_add(&argv, "-c");
	strs_add(&argv, command);
	rc = spawn_run(&argv, deadline_in_ms(20000), output, &err);
	ck_assert_msg(rc >= 0, "%s: %s", command, err.msg);
	return rc;
}

#define MUST(...)                                                                \
	do {                                                                     \
		struct str said_ AUTO(str_clear) = STR_INIT(4096);               \
		ck_assert_msg(shell(&said_, __VA_ARGS__) == 0, "%s", said_.ptr); \
	} while (0)

/* Each is a shell command in the mounted folder, $1 is the folder behind it; it must succeed. */
static const char *const commands[] = {
	"echo one >a && cat a && cmp a $1/a && echo two >>a && cmp a $1/a && [ $(wc -l <a) = 2 ]",
	"mkdir d && echo x >d/x && mv d/x y && rmdir d && [ -s $1/y ] && [ ! -e $1/d ]",
	"echo x >x && ln x hard && ln -s x soft && [ x -ef hard ] && [ $(readlink soft) = x ] && "
	"echo y >>hard && [ $(wc -l <x) = 2 ] && rm x && [ $(wc -l <hard) = 2 ]",
	"echo x >x && exec 3<x && rm x && [ \"$(cat <&3)\" = x ]",
	"echo x >x && exec 3<x && mv x y && [ \"$(cat <&3)\" = x ] && [ $(stat -c %i y) = $(stat -c %i $1/y) ]",
	"echo x >x && chown 1000:1001 x && chmod 4750 x && [ $(stat -c %u:%g:%a $1/x) = 1000:1001:4750 ]",
	"chmod 777 . && cp /bin/true t && ./t && chown 1000:1000 t && chmod 6755 t && setpriv --reuid=1000 --regid=1001 "
	"--clear-groups sh -c 'echo x >>t' && [ $(stat -c %a $1/t) = 755 ]",
	"touch -d 2001-02-03T04:05:06Z x && [ $(stat -c %Y $1/x) = 981173106 ]",
	"truncate -s 1M x && [ $(stat -c %s $1/x) = 1048576 ] && fallocate -l 2M x && [ $(stat -c %s x) = 2097152 ]",
	"mkfifo f && mknod n c 1 3 && echo x >n && [ -p $1/f ] && [ -c $1/n ]",
	"for i in $(seq 1000); do echo $i >$i; done && [ $(ls | wc -l) = 1000 ] && rm -r * && [ -z \"$(ls -A $1)\" ]",
	"dd if=/dev/urandom of=big bs=1M count=8 conv=fsync status=none && cmp big $1/big && dd if=big of=copy bs=3k oflag=append "
	"conv=notrunc status=none && cmp big copy",
	"echo 1 >a && echo 2 >b && mv -n a b && [ $(cat b) = 2 ] && mv -f a b && [ $(cat b) = 1 ]",
	"mkdir s && chgrp 1005 s && chmod 2775 s && mkdir s/d && touch s/f && [ $(stat -c %g:%A s/d) = 1005:drwxr-sr-x ] && "
	"[ $(stat -c %g s/f) = 1005 ]",
	"chmod 777 . && setpriv --reuid=1000 --regid=1001 --clear-groups touch mine && [ $(stat -c %u:%g $1/mine) = 1000:1001 ]",
	"echo x >x && chmod 600 x && ! setpriv --reuid=1000 --regid=1001 --clear-groups cat x 2>/dev/null",
	"echo x >x && flock -n x true && sync x && sync -f x && df . >/dev/null",
	"umask 027 && mkdir d && touch f && [ $(stat -c %a $1/d $1/f | tr '\\n' :) = 750:640: ]",
};

START_TEST(what_is_done_in_the_mount_is_done_in_the_folder)
{
	SHARE_WORLD(w);

	SKIP_UNLESS_FUSE();
	world_init(&w);
	serve(&w, TAG);
	MUST("set -- %s && cd %s && %s", w.folder, w.at, commands[_i]);
}
END_TEST

START_TEST(attributes_of_its_own_and_mappings_pass)
{
	SHARE_WORLD(w);
	char *file AUTO(free) = NULL;
	char *behind AUTO(free) = NULL;
	int fd AUTO(fd) = -1, other AUTO(fd) = -1;
	char text[8] = "", *map;
	struct statvfs fs, fs_behind;

	SKIP_UNLESS_FUSE();
	world_init(&w);
	serve(&w, TAG);
	file = xasprintf("%s/x", w.at);
	behind = xasprintf("%s/x", w.folder);
	fd = open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fsetxattr(fd, "user.k", "v", 1, 0), 0);
	ck_assert_int_eq((int)getxattr(behind, "user.k", text, sizeof(text)), 1);
	ck_assert_int_eq((int)listxattr(file, NULL, 0), (int)sizeof("user.k"));
	ck_assert_int_eq(removexattr(file, "user.k"), 0);
	ck_assert_int_eq((int)getxattr(file, "user.k", text, sizeof(text)), -1);
	ck_assert_int_eq(errno, ENODATA);
	ck_assert_int_eq(ftruncate(fd, 4096), 0);
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	memcpy(map, "mapped", 6);
	ck_assert_int_eq(msync(map, 4096, MS_SYNC), 0);
	munmap(map, 4096);
	other = open(behind, O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq((int)read(other, text, 6), 6);
	ck_assert_int_eq(memcmp(text, "mapped", 6), 0);
	ck_assert_int_eq(statvfs(file, &fs) || statvfs(behind, &fs_behind), 0);
	ck_assert_uint_eq(fs.f_blocks, fs_behind.f_blocks);
}
END_TEST

START_TEST(two_daemons_over_one_folder_see_each_others_writes)
{
	SHARE_WORLD(w);
	char *there AUTO(free) = NULL;

	SKIP_UNLESS_FUSE();
	world_init(&w);
	there = xasprintf("%s/other", w.tags);
	serve(&w, TAG);
	share_start(&w.second, TAG_OF_36, w.folder, there);
	MUST("for i in 1 2 3; do echo $i >%s/x; [ $(cat %s/x) = $i ] || exit 1; echo more >>%s/x; "
	     "[ $(wc -l <%s/x) = 2 ] || exit 1; done",
	     w.at, there, there, w.at);
	MUST("rm %s/x && [ ! -e %s/x ]", there, w.at);
	MUST("grep -q ' %s .* fuse.virtiofs " TAG_OF_36 " ' /proc/self/mountinfo", there);
}
END_TEST

START_TEST(it_ends_with_an_unmount_and_leaves_a_dead_one_when_killed)
{
	SHARE_WORLD(w);
	struct stat st;

	SKIP_UNLESS_FUSE();
	world_init(&w);
	serve(&w, TAG);
	MUST("grep -q ' %s .* fuse.virtiofs " TAG " ' /proc/self/mountinfo", w.at);
	kill(w.share.pid, SIGTERM);
	ck_assert_int_eq(waitpid(w.share.pid, NULL, 0), w.share.pid);
	w.share.pid = 0;
	MUST("! grep %s /proc/self/mountinfo", w.at);
	share_end(&w.share);
	serve(&w, TAG);
	share_signal(&w.share, SIGKILL);
	ck_assert_int_eq(stat(w.at, &st), -1);
	ck_assert_int_eq(errno, ENOTCONN);
}
END_TEST

START_TEST(a_daemon_that_cannot_serve_says_why)
{
	static const struct {
		const char *arguments, *words;
	} rows[] = {
		{ "--tag t /nowhere /tmp", "/nowhere: No such file" },
		{ "--tag t /tmp /nowhere", "/nowhere" },
		{ "--tag '' /tmp /tmp", "usage" },
		{ "--tag " TAG_OF_36 "7 /tmp /tmp", "usage" },
		{ "--tag t /tmp", "usage" },
	};
	char exe[4096] = "";

	SKIP_UNLESS_FUSE();
	ck_assert_int_gt((int)readlink("/proc/self/exe", exe, sizeof(exe) - 1), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct str said AUTO(str_clear) = STR_INIT(4096);

		ck_assert_int_ne(shell(&said, "$(dirname %s)/../../../snap-share %s", exe,
		                       rows[i].arguments),
		                 0);
		ck_assert_msg(strstr(said.ptr, rows[i].words) != NULL, "%s: %s", rows[i].arguments,
		              said.ptr);
	}
}
END_TEST

/* ---- the mount helper ---- */

static dev_t device_of(const char *path)
{
	struct stat st;

	ck_assert_int_eq(stat(path, &st), 0);
	return st.st_dev;
}

START_TEST(mounts_of_one_tag_share_its_superblock_and_have_options_of_their_own)
{
	SHARE_WORLD(w);
	char *second AUTO(free) = NULL;

	SKIP_UNLESS_FUSE();
	world_init(&w);
	tree_mkdir(&w.tree, "/second");
	second = tree_path(&w.tree, "/second");
	serve(&w, TAG);
	MUST("mount -t snapsim " TAG " %s", w.mnt);
	MUST("mount -t snapsim -o ro,nosuid,noatime " TAG " %s", second);
	ck_assert_uint_eq(device_of(w.mnt), device_of(second));
	MUST("touch %s/x && ! touch %s/y 2>/dev/null", w.mnt, second);
	MUST("grep -q ' %s ro,nosuid,noatime.* - fuse.virtiofs " TAG " ' /proc/self/mountinfo",
	     second);
	MUST("grep -q ' %s rw,relatime.* - fuse.virtiofs " TAG " ' /proc/self/mountinfo", w.mnt);
	MUST("umount %s", second);
}
END_TEST

static const struct {
	const char *what, *arguments, *words;
} refusals[] = {
	{ "no such tag", "other", "other: No such file or directory" },
	{ "an option that no mount has", "-o quota " TAG, "quota: Invalid argument" },
};

START_TEST(what_cannot_be_mounted_is_refused)
{
	SHARE_WORLD(w);
	struct str said AUTO(str_clear) = STR_INIT(4096);

	SKIP_UNLESS_FUSE();
	world_init(&w);
	tree_mkdir(&w.tree, "/tags/other");
	serve(&w, TAG);
	ck_assert_int_ne(shell(&said, "mount -t snapsim %s %s", refusals[_i].arguments, w.mnt), 0);
	ck_assert_msg(strstr(said.ptr, refusals[_i].words) != NULL, "%s: %s", refusals[_i].what,
	              said.ptr);
	MUST("! grep ' %s ' /proc/self/mountinfo", w.mnt);
}
END_TEST

START_TEST(the_first_mount_waits_for_a_hung_device_and_a_second_one_does_not)
{
	SHARE_WORLD(w);
	struct str said AUTO(str_clear) = STR_INIT(4096);

	SKIP_UNLESS_FUSE();
	world_init(&w);
	serve(&w, TAG);
	share_signal(&w.share, SIGSTOP);
	ck_assert_int_eq(shell(&said, "timeout 1 mount -t snapsim " TAG " %s", w.mnt), 124);
	share_signal(&w.share, SIGCONT);
	MUST("mount -t snapsim " TAG " %s", w.mnt);
	share_signal(&w.share, SIGSTOP);
	MUST("mount -t snapsim " TAG " %s/dev", w.tree.root);
	MUST("umount -l %s/dev", w.tree.root);
}
END_TEST

START_TEST(the_helper_stays_until_the_last_suite_has_ended)
{
	struct tree t AUTO(tree_clear) = { 0 };

	SKIP_UNLESS_ROOT("for /dev/fd of another program");
	tree_unpack(&t, NULL);
	MUST("cd test/lib/share && export SNAP_SIM_SBIN=%s && "
	     "mkfifo $SNAP_SIM_SBIN/a $SNAP_SIM_SBIN/b && "
	     "there() { ls $SNAP_SIM_SBIN/mount.snapsim >/dev/null 2>&1; } && "
	     "wait_for() { for i in $(seq 500); do \"$@\" && return; sleep 0.01; done; return 1; } && "
	     "{ ./mount-helper.sh <$SNAP_SIM_SBIN/a >$SNAP_SIM_SBIN/said & } && exec 7>$SNAP_SIM_SBIN/a && "
	     "wait_for grep -q installed $SNAP_SIM_SBIN/said && there && "
	     "{ ./mount-helper.sh <$SNAP_SIM_SBIN/b 7>&- >$SNAP_SIM_SBIN/said2 & second=$!; } && "
	     "exec 8>$SNAP_SIM_SBIN/b && wait_for grep -q installed $SNAP_SIM_SBIN/said2 && "
	     "exec 8>&- && wait $second && there && exec 7>&- && wait && ! there && "
	     "[ ! -e $SNAP_SIM_SBIN/.mount.snapsim.lock ]",
	     t.root);
}
END_TEST

SUITE_AROUND("share", 60, mount_helper_install, mount_helper_remove,
             LOOP(what_is_done_in_the_mount_is_done_in_the_folder, ARRAY_LEN(commands)),
             attributes_of_its_own_and_mappings_pass,
             two_daemons_over_one_folder_see_each_others_writes,
             it_ends_with_an_unmount_and_leaves_a_dead_one_when_killed,
             a_daemon_that_cannot_serve_says_why,
             mounts_of_one_tag_share_its_superblock_and_have_options_of_their_own,
             LOOP(what_cannot_be_mounted_is_refused, ARRAY_LEN(refusals)),
             the_first_mount_waits_for_a_hung_device_and_a_second_one_does_not,
             the_helper_stays_until_the_last_suite_has_ended);
