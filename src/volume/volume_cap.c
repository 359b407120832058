/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of the properties of access modes and filesystems and, for each kind of volume, the rule
 * for permitted uses. For NVMe, that rule prevents several nodes from writing to one filesystem.
 * Pure functions, any thread. The use for which a volume was created (its recorded access type) is not
 * checked here.
 */
#include "volume/volume_cap.h"

#include "common/cleanup.h"
#include "common/str.h"
#include "volume/context_keys.h"

struct mode_facts {
	const char *name;
	const char *cr_name; /* access mode in the DPUVolume CRD, which has only these three */
	bool reader_only, multi_node;
};

/* The CRD has no mode for a single pod; the driver enforces that mode itself. */
static const struct mode_facts modes[] = {
	[MODE_SINGLE_NODE_WRITER] = { "SINGLE_NODE_WRITER", "ReadWriteOnce", false, false },
	[MODE_SINGLE_NODE_READER_ONLY] = { "SINGLE_NODE_READER_ONLY", "ReadWriteOnce", true,
	                                   false },
	[MODE_MULTI_NODE_READER_ONLY] = { "MULTI_NODE_READER_ONLY", "ReadOnlyMany", true, true },
	[MODE_MULTI_NODE_SINGLE_WRITER] = { "MULTI_NODE_SINGLE_WRITER", "ReadWriteMany", false,
	                                    true },
	[MODE_MULTI_NODE_MULTI_WRITER] = { "MULTI_NODE_MULTI_WRITER", "ReadWriteMany", false,
	                                   true },
	[MODE_SINGLE_NODE_SINGLE_WRITER] = { "SINGLE_NODE_SINGLE_WRITER", "ReadWriteOnce", false,
	                                     false },
	[MODE_SINGLE_NODE_MULTI_WRITER] = { "SINGLE_NODE_MULTI_WRITER", "ReadWriteOnce", false,
	                                    false },
};

/* Returns NULL for a number that CSI 1.13 does not define. */
static const struct mode_facts *facts(enum access_mode mode)
{
	if ((size_t)mode >= ARRAY_LEN(modes) || !modes[mode].name)
		return NULL;
	return &modes[mode];
}

bool access_mode_is_reader_only(enum access_mode mode)
{
	const struct mode_facts *f = facts(mode);

	return f && f->reader_only;
}

bool access_mode_is_multi_node(enum access_mode mode)
{
	const struct mode_facts *f = facts(mode);

	return f && f->multi_node;
}

bool access_mode_is_single_pod(enum access_mode mode)
{
	return mode == MODE_SINGLE_NODE_SINGLE_WRITER;
}

const char *access_mode_name(enum access_mode mode)
{
	const struct mode_facts *f = facts(mode);

	return f ? f->name : "UNKNOWN";
}

const char *access_mode_cr_name(enum access_mode mode)
{
	const struct mode_facts *f = facts(mode);

	return f ? f->cr_name : "ReadWriteOnce";
}

const char *access_type_name(enum access_type type)
{
	return type == ACCESS_BLOCK ? "block" : "mount";
}

const char *filesystem_normalise(const char *fs_type)
{
	static const char *const known[] = { "ext4", "ext3", "xfs", "btrfs" };

	if (str_empty(fs_type))
		return known[0];
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (str_eq(fs_type, known[i]))
			return known[i];
	return NULL;
}

/*
 * Refuses MULTI_NODE_SINGLE_WRITER for filesystems as well: if one node writes a filesystem,
 * another node cannot safely read it, because readers keep stale metadata.
 */
static int check_disk(const struct volume_cap *cap, const char *field, struct err *err)
{
	const char *fs;

	if (cap->type == ACCESS_BLOCK)
		return 0;
	fs = filesystem_normalise(cap->fs_type);
	if (str_eq(cap->fs_type, "virtiofs"))
		return err_set(err, ERR_INVALID,
		               "%s.Mount.FsType: the volume is NVMe, which gets ext4, ext3, xfs or "
		               "btrfs, not virtiofs; write " PARAM_EMULATION
		               ": virtiofs into the StorageClass for a directory that the DPU "
		               "shares",
		               field);
	if (!fs)
		return err_set(err, ERR_INVALID,
		               "%s.Mount.FsType: unsupported filesystem \"%s\", supported are "
		               "ext4, ext3, xfs, btrfs",
		               field, cap->fs_type);
	if (access_mode_is_multi_node(cap->mode) && !access_mode_is_reader_only(cap->mode))
		return err_set(err, ERR_INVALID,
		               "%s.AccessMode: %s needs a raw block volume (volumeMode: Block): "
		               "%s is not a cluster filesystem; writing to it while other nodes "
		               "have it mounted would destroy it",
		               field, access_mode_name(cap->mode), fs);
	return 0;
}

/*
 * Accepts ext4, because external-provisioner writes ext4 for a StorageClass without a filesystem if
 * its --default-fstype is ext4, which a StorageClass for shares cannot avoid.
 */
static int check_share(const struct volume_cap *cap, const char *field, struct err *err)
{
	if (cap->type == ACCESS_BLOCK)
		return err_set(err, ERR_UNIMPLEMENTED,
		               "%s.Block is not supported: a virtio-fs volume is a directory that "
		               "the DPU shares, not a disk; write volumeMode: Filesystem into the "
		               "claim, or " PARAM_EMULATION ": nvme into the StorageClass",
		               field);
	if (str_empty(cap->fs_type) || str_eq(cap->fs_type, "virtiofs") ||
	    str_eq(cap->fs_type, filesystem_normalise("")))
		return 0;
	return err_set(err, ERR_INVALID,
	               "%s.Mount.FsType: a virtio-fs volume is a directory that the DPU shares, "
	               "nothing is formatted as \"%s\"; write " PARAM_FSTYPE ": virtiofs into the "
	               "StorageClass (fsType of a PersistentVolume), or leave it out",
	               field, cap->fs_type);
}

int volume_cap_check(const struct volume_cap *cap, enum emulation emulation, const char *field,
                     struct err *err)
{
	if (!facts(cap->mode))
		return err_set(err, ERR_INVALID, "%s.AccessMode: unknown access mode %d", field,
		               (int)cap->mode);
	return emulation == EMULATION_VIRTIOFS ? check_share(cap, field, err)
	                                       : check_disk(cap, field, err);
}
