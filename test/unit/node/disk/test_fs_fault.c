/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults that keep a filesystem from being read or written, on real filesystems, because the
 * kernel's behaviour decides.
 */
#include "test/lib/suite.h"

#include <string.h>
#include <sys/stat.h>

#include "node/disk/fs_fault.h"
#include "test/lib/fs_state.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"
#include "test/lib/wait.h"

static struct node_world w;
static struct nvme_disk *disk;

static const struct {
	const char *fs_type;
	enum fs_state state;
	enum fs_fault read, write, commit;
} rows[] = {
	{ "ext4", FS_STATE_FINE, FS_FINE, FS_FINE, FS_FINE },
	{ "ext3", FS_STATE_FINE, FS_FINE, FS_FINE, FS_FINE },
	{ "xfs", FS_STATE_FINE, FS_FINE, FS_FINE, FS_FINE },
	{ "btrfs", FS_STATE_FINE, FS_FINE, FS_FINE, FS_FINE },
	{ "ext4", FS_STATE_FROZEN, FS_FINE, FS_FROZEN, FS_FROZEN },
	{ "xfs", FS_STATE_FROZEN, FS_FINE, FS_FROZEN, FS_FROZEN },
	{ "btrfs", FS_STATE_FROZEN, FS_FINE, FS_FROZEN, FS_FROZEN },
	{ "ext4", FS_STATE_TURNED_READ_ONLY, FS_FINE, FS_READ_ONLY, FS_READ_ONLY },
	{ "xfs", FS_STATE_TURNED_READ_ONLY, FS_FINE, FS_READ_ONLY, FS_READ_ONLY },
	{ "btrfs", FS_STATE_TURNED_READ_ONLY, FS_FINE, FS_READ_ONLY, FS_READ_ONLY },
	{ "ext4", FS_STATE_ERROR, FS_FINE, FS_READ_ONLY, FS_READ_ONLY },
	{ "ext4", FS_STATE_SHUT_DOWN, FS_SHUT_DOWN, FS_SHUT_DOWN, FS_SHUT_DOWN },
	{ "xfs", FS_STATE_SHUT_DOWN, FS_DEAD, FS_DEAD, FS_DEAD },
};

static enum fs_fault ask_once(const struct mount_table *t, enum guard_ask how)
{
	struct mountpoint p AUTO(mountpoint_clear) = MOUNTPOINT_INIT;
	struct err err = ERR_INIT;
	int rc;

	ck_assert_int_eq(mountpoint_read(t, w.staging, &p, &err), 0);
	rc = fs_fault_probe(&w.node, t, &p, how, &err);
	ck_assert_msg(rc >= 0, "%s", err.msg);
	ck_assert_int_eq(rc > 0, err.code != ERR_OK);
	ck_assert(rc != FS_FROZEN ||
	          (err.code == ERR_UNAVAILABLE && strstr(err.msg, "fsfreeze -u ")));
	return (enum fs_fault)rc;
}

/*
 * On a loaded machine a read may take longer than the time limit for a frozen filesystem's write.
 */
static enum fs_fault ask(const struct mount_table *t, enum guard_ask how)
{
	enum fs_fault fault;

	WAIT_UNTIL((fault = ask_once(t, how)) != FS_HANGS);
	return fault;
}

static void expect(int row, enum fs_fault got, enum fs_fault want, const char *how)
{
	ck_assert_msg(got == want, "%s %s, %s: got fault %d, want %d", rows[row].fs_type,
	              fs_state_names[rows[row].state], how, got, want);
}

/*
 * With the words of mountinfo, and without them, as on kernels that show none: then the words of
 * the superblock's options are removed.
 */
START_TEST(a_fault_is_found_whatever_mountinfo_shows)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct stage_request r;
	struct err err = ERR_INIT;
	bool by_answer = rows[_i].state == FS_STATE_ERROR || rows[_i].state == FS_STATE_SHUT_DOWN;

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, "", 320 * MIB);
	r = stage_request(&w, disk, rows[_i].fs_type, MODE_SINGLE_NODE_WRITER);
	node_world_stage(&w, &r);
	fs_state_set(rows[_i].state, rows[_i].fs_type, disk->loop, w.staging);
	ck_assert_int_eq(mount_table_read("/proc", &t, &err), 0);
	expect(_i, ask(&t, GUARD_READ), rows[_i].read, "read");
	/* Only the frozen filesystem must not be waited for. */
	if (rows[_i].state == FS_STATE_FROZEN)
		w.node.o.tuning.guard_ms = 1000;
	expect(_i, ask(&t, GUARD_WRITE), rows[_i].write, "write");
	expect(_i, ask(&t, GUARD_COMMIT), rows[_i].commit, "commit");
	w.node.o.tuning.guard_ms = w.tuning.guard_ms;
	expect(_i, ask(&t, GUARD_READ), rows[_i].read, "read again");
	for (size_t i = 0; by_answer && i < t.n; i++)
		if (strcmp(t.v[i].target, w.staging) == 0)
			t.v[i].fs_options = "rw";
	if (by_answer && rows[_i].commit == FS_SHUT_DOWN)
		expect(_i, ask(&t, GUARD_COMMIT), FS_DEAD, "commit, by the answer alone");
	else if (by_answer)
		expect(_i, ask(&t, GUARD_COMMIT), rows[_i].commit, "commit, by the answer alone");
	if (rows[_i].state == FS_STATE_FROZEN) {
		ck_assert_int_eq(guard_ask(w.node.guard, GUARD_THAW, disk->devno, w.staging, &err),
		                 0);
		expect(_i, ask(&t, GUARD_COMMIT), FS_FINE, "commit after the thaw");
	}
	node_world_clear(&w);
}
END_TEST

START_TEST(a_look_changes_nothing_that_can_be_seen)
{
	static const char *const types[] = { "ext4", "xfs", "btrfs" };
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct stat before, after;
	struct stage_request r;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, "", 320 * MIB);
	r = stage_request(&w, disk, types[_i], MODE_SINGLE_NODE_WRITER);
	node_world_stage(&w, &r);
	ck_assert_int_eq(mount_table_read("/proc", &t, &err), 0);
	ck_assert_int_eq(stat(w.staging, &before), 0);
	for (int ask_as = GUARD_READ; ask_as <= GUARD_COMMIT; ask_as++)
		ck_assert_int_eq(ask(&t, (enum guard_ask)ask_as), FS_FINE);
	ck_assert_int_eq(stat(w.staging, &after), 0);
	ck_assert_int_eq(memcmp(&before.st_mtim, &after.st_mtim, sizeof(before.st_mtim)), 0);
	ck_assert_int_eq(memcmp(&before.st_ctim, &after.st_ctim, sizeof(before.st_ctim)), 0);
	node_world_clear(&w);
}
END_TEST

SUITE_TIMEOUT("fs_fault", 60, LOOP(a_fault_is_found_whatever_mountinfo_shows, ARRAY_LEN(rows)),
              LOOP(a_look_changes_nothing_that_can_be_seen, 3));
