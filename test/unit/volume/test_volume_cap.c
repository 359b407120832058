/* SPDX-License-Identifier: Apache-2.0 */
/* Access modes, filesystems, and the wire form of a capability. */
#include "test/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "volume/volume_cap.h"
#include "volume/volume_cap_csi.h"

START_TEST(every_access_mode_has_its_facts)
{
	static const struct {
		const char *what;
		int mode;
		const char *cr;
		bool reader, multi, pod;
	} rows[] = {
		{ "SINGLE_NODE_WRITER", 1, "ReadWriteOnce", false, false, false },
		{ "SINGLE_NODE_READER_ONLY", 2, "ReadWriteOnce", true, false, false },
		{ "MULTI_NODE_READER_ONLY", 3, "ReadOnlyMany", true, true, false },
		{ "MULTI_NODE_SINGLE_WRITER", 4, "ReadWriteMany", false, true, false },
		{ "MULTI_NODE_MULTI_WRITER", 5, "ReadWriteMany", false, true, false },
		{ "SINGLE_NODE_SINGLE_WRITER", 6, "ReadWriteOnce", false, false, true },
		{ "SINGLE_NODE_MULTI_WRITER", 7, "ReadWriteOnce", false, false, false },
		{ "UNKNOWN", 0, "ReadWriteOnce", false, false, false },
		{ "UNKNOWN", 99, "ReadWriteOnce", false, false, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		enum access_mode m = (enum access_mode)rows[i].mode;

		ck_assert_str_eq(access_mode_name(m), rows[i].what);
		ck_assert_str_eq(access_mode_cr_name(m), rows[i].cr);
		ck_assert_msg(access_mode_is_reader_only(m) == rows[i].reader, "%s", rows[i].what);
		ck_assert_msg(access_mode_is_multi_node(m) == rows[i].multi, "%s", rows[i].what);
		ck_assert_msg(access_mode_is_single_pod(m) == rows[i].pod, "%s", rows[i].what);
	}
}
END_TEST

START_TEST(filesystems_are_named_or_refused)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{ "", "ext4" },   { NULL, "ext4" },     { "ext4", "ext4" }, { "ext3", "ext3" },
		{ "xfs", "xfs" }, { "btrfs", "btrfs" }, { "EXT4", NULL },   { "ntfs", NULL },
		{ "ext2", NULL }, { " xfs", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *got = filesystem_normalise(rows[i].in);

		ck_assert_msg((!got && !rows[i].out) ||
		                      (got && rows[i].out && !strcmp(got, rows[i].out)),
		              "\"%s\" -> %s", rows[i].in ? rows[i].in : "(null)",
		              got ? got : "(refused)");
	}
}
END_TEST

/* A wire message on the stack, described by a row. */
struct wire_row {
	const char *what;
	int mode; /* -1: no access mode */
	/* SHARE, SHARE_BLOCK: a mount and raw block of virtio-fs. */
	enum { NO_TYPE, MOUNT, BLOCK, MOUNT_NULL, BLOCK_NULL, SHARE, SHARE_BLOCK } type;
	const char *fs;
	const char *error; /* NULL: accepted */
};

static const struct wire_row wire_rows[] = {
	{ "mount, default filesystem", 1, MOUNT, "", NULL },
	{ "mount, xfs", 1, MOUNT, "xfs", NULL },
	{ "block", 1, BLOCK, NULL, NULL },
	{ "one pod", 6, MOUNT, "", NULL },
	{ "many readers of one filesystem", 3, MOUNT, "ext4", NULL },
	{ "many writers of a raw block volume", 5, BLOCK, NULL, NULL },
	{ "one writer, many nodes, raw block", 4, BLOCK, NULL, NULL },
	{ "no access mode", -1, MOUNT, "", "F.AccessMode: field is required" },
	{ "access mode UNKNOWN", 0, MOUNT, "", "F.AccessMode: field is required" },
	{ "an access mode of the future", 99, MOUNT, "", "F.AccessMode: unknown access mode 99" },
	{ "no access type", 1, NO_TYPE, NULL, "F.AccessType: field is required" },
	{ "mount without content", 1, MOUNT_NULL, NULL, "F.Mount: field is required" },
	{ "block without content", 1, BLOCK_NULL, NULL, "F.Block: field is required" },
	{ "unknown filesystem", 1, MOUNT, "zfs",
	  "F.Mount.FsType: unsupported filesystem \"zfs\", supported are ext4, ext3, xfs, btrfs" },
	{ "many writers of one filesystem", 5, MOUNT, "ext4",
	  "F.AccessMode: MULTI_NODE_MULTI_WRITER needs a raw block volume (volumeMode: Block): "
	  "ext4 is not a cluster filesystem; writing to it while other nodes have it mounted "
	  "would destroy it" },
	{ "readers of what another node writes", 4, MOUNT, "xfs",
	  "F.AccessMode: MULTI_NODE_SINGLE_WRITER needs a raw block volume (volumeMode: Block): "
	  "xfs is not a cluster filesystem; writing to it while other nodes have it mounted "
	  "would destroy it" },
	{ "a share as a filesystem of a disk", 1, MOUNT, "virtiofs",
	  "F.Mount.FsType: the volume is NVMe, which gets ext4, ext3, xfs or btrfs, not virtiofs; "
	  "write csi.snap.nvidia.com/emulation: virtiofs into the StorageClass for a directory that "
	  "the DPU shares" },
	{ "a share", 1, SHARE, "", NULL },
	{ "a share, named", 1, SHARE, "virtiofs", NULL },
	{ "a share, with the sidecar's default", 1, SHARE, "ext4", NULL },
	{ "a share for a reader", 2, SHARE, "", NULL },
	{ "a share for many readers", 3, SHARE, "", NULL },
	{ "a share, one writer, many nodes", 4, SHARE, "", NULL },
	{ "a share for many writers", 5, SHARE, "ext4", NULL },
	{ "a share for one pod", 6, SHARE, "", NULL },
	{ "a share for the pods of one node", 7, SHARE, "", NULL },
	{ "a share in a mode of the future", 99, SHARE, "",
	  "F.AccessMode: unknown access mode 99" },
	{ "a share as xfs", 1, SHARE, "xfs",
	  "F.Mount.FsType: a virtio-fs volume is a directory that the DPU shares, nothing is "
	  "formatted as \"xfs\"; write csi.storage.k8s.io/fstype: virtiofs into the StorageClass "
	  "(fsType of a PersistentVolume), or leave it out" },
	{ "a share as raw block", 5, SHARE_BLOCK, NULL,
	  "F.Block is not supported: a virtio-fs volume is a directory that the DPU shares, not a "
	  "disk; write volumeMode: Filesystem into the claim, or csi.snap.nvidia.com/emulation: "
	  "nvme into the StorageClass" },
};

START_TEST(the_wire_form_is_checked_at_the_door)
{
	const struct wire_row *r = &wire_rows[_i];
	Csi__V1__VolumeCapability wire = CSI__V1__VOLUME_CAPABILITY__INIT;
	Csi__V1__VolumeCapability__AccessMode mode = CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__INIT;
	Csi__V1__VolumeCapability__MountVolume mount =
		CSI__V1__VOLUME_CAPABILITY__MOUNT_VOLUME__INIT;
	Csi__V1__VolumeCapability__BlockVolume block =
		CSI__V1__VOLUME_CAPABILITY__BLOCK_VOLUME__INIT;
	struct arena arena = ARENA_INIT(0);
	struct volume_cap cap;
	struct err err = ERR_INIT;
	bool share = r->type == SHARE || r->type == SHARE_BLOCK;
	int rc;

	if (r->mode >= 0) {
		mode.mode = (Csi__V1__VolumeCapability__AccessMode__Mode)r->mode;
		wire.access_mode = &mode;
	}
	if (r->type == MOUNT || r->type == MOUNT_NULL || r->type == SHARE) {
		wire.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT;
		mount.fs_type = (char *)r->fs;
		wire.mount = r->type == MOUNT_NULL ? NULL : &mount;
	} else if (r->type != NO_TYPE) {
		wire.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK;
		wire.block = r->type == BLOCK_NULL ? NULL : &block;
	}
	rc = volume_cap_from_csi(&wire, "F", share ? EMULATION_VIRTIOFS : EMULATION_NVME, &arena,
	                         &cap, &err);
	if (r->error) {
		ck_assert_msg(rc == -1 && err.code == (r->type == SHARE_BLOCK ? ERR_UNIMPLEMENTED
		                                                              : ERR_INVALID),
		              "%s", r->what);
		ck_assert_str_eq(err.msg, r->error);
	} else {
		ck_assert_msg(rc == 0, "%s: %s", r->what, err.msg);
		ck_assert_int_eq((int)cap.mode, r->mode);
		ck_assert_int_eq(cap.type, r->type == BLOCK ? ACCESS_BLOCK : ACCESS_MOUNT);
		ck_assert_str_eq(cap.fs_type, r->fs ? r->fs : "");
	}
	arena_clear(&arena);
}
END_TEST

START_TEST(a_missing_capability_is_named)
{
	struct arena arena = ARENA_INIT(0);
	struct volume_cap cap;
	struct err err = ERR_INIT;

	ck_assert_int_eq(volume_cap_from_csi(NULL, "VolumeCapabilities[1]", EMULATION_NVME, &arena,
	                                     &cap, &err),
	                 -1);
	ck_assert_str_eq(err.msg, "VolumeCapabilities[1]: field is required");
	arena_clear(&arena);
}
END_TEST

START_TEST(mount_flags_and_group_come_through)
{
	Csi__V1__VolumeCapability wire = CSI__V1__VOLUME_CAPABILITY__INIT;
	Csi__V1__VolumeCapability__AccessMode mode = CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__INIT;
	Csi__V1__VolumeCapability__MountVolume mount =
		CSI__V1__VOLUME_CAPABILITY__MOUNT_VOLUME__INIT;
	char *flags[] = { (char *)"noatime", (char *)"discard" };
	struct arena arena = ARENA_INIT(0);
	struct volume_cap cap;
	struct err err = ERR_INIT;

	mode.mode = CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__SINGLE_NODE_WRITER;
	wire.access_mode = &mode;
	wire.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT;
	wire.mount = &mount;
	mount.mount_flags = flags;
	mount.n_mount_flags = 2;
	mount.volume_mount_group = (char *)"1000";
	ck_assert_int_eq(volume_cap_from_csi(&wire, "F", EMULATION_NVME, &arena, &cap, &err), 0);
	ck_assert_uint_eq(cap.n_mount_flags, 2);
	ck_assert_str_eq(cap.mount_flags[1], "discard");
	ck_assert_str_eq(cap.mount_group, "1000");
	arena_clear(&arena);
}
END_TEST

SUITE("volume_cap", every_access_mode_has_its_facts, filesystems_are_named_or_refused,
      LOOP(the_wire_form_is_checked_at_the_door, ARRAY_LEN(wire_rows)),
      a_missing_capability_is_named, mount_flags_and_group_come_through);
