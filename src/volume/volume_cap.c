/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What access modes and filesystems mean: tables of facts and the one rule that
 * keeps several nodes from writing one filesystem. Pure functions, any thread. What a
 * volume was created for (its recorded access type) is not known here.
 */
#include "volume/volume_cap.h"

#include "common/cleanup.h"
#include "common/str.h"

struct mode_facts {
	const char *name;
	const char *cr_name; /* accessModes of the DPUVolume CRD, which knows only these three */
	bool reader_only, multi_node;
};

/* The CRD has nothing for "one pod": the driver enforces that itself. */
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

/* NULL for a number that CSI 1.13 does not know. */
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
 * A filesystem that one node writes is not safe to read on another either: readers keep stale
 * metadata, so MULTI_NODE_SINGLE_WRITER is refused as well.
 */
int volume_cap_check(const struct volume_cap *cap, const char *field, struct err *err)
{
	const char *fs;

	if (!facts(cap->mode))
		return err_set(err, ERR_INVALID, "%s.AccessMode: unknown access mode %d", field,
		               (int)cap->mode);
	if (cap->type == ACCESS_BLOCK)
		return 0;
	fs = filesystem_normalise(cap->fs_type);
	if (!fs)
		return err_set(err, ERR_INVALID,
		               "%s.Mount.FsType: unsupported filesystem \"%s\", supported are "
		               "ext4, ext3, xfs, btrfs",
		               field, cap->fs_type);
	if (access_mode_is_multi_node(cap->mode) && !access_mode_is_reader_only(cap->mode))
		return err_set(err, ERR_INVALID,
		               "%s.AccessMode: %s needs a raw block volume (volumeMode: Block): "
		               "%s is no cluster filesystem, writing it while other nodes have it "
		               "mounted would destroy it",
		               field, access_mode_name(cap->mode), fs);
	return 0;
}
