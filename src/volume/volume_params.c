/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's own keys: one table for the numbers of mkfs, a few lines for each of the others.
 * Pure; the same code reads a StorageClass on the controller and a volume context on the node, so
 * what one side lets pass the other understands. What mkfs does with the numbers is the node's.
 */
#include "volume/volume_params.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "common/cleanup.h"
#include "volume/context_keys.h"
#include "volume/param_meant.h"
#include "common/str.h"
#include "volume/volume_cap.h"

enum { EXT3 = 1, EXT4 = 2, XFS = 4, BTRFS = 8, EXT = EXT3 | EXT4, ANY = EXT | XFS | BTRFS };

static unsigned filesystem_bit(const char *fs_type)
{
	static const struct {
		const char *name;
		unsigned bit;
	} bits[] = { { "ext3", EXT3 }, { "ext4", EXT4 }, { "xfs", XFS }, { "btrfs", BTRFS } };
	const char *fs = fs_type ? filesystem_normalise(fs_type) : NULL;

	for (size_t i = 0; fs && i < ARRAY_LEN(bits); i++)
		if (str_eq(fs, bits[i].name))
			return bits[i].bit;
	return ANY;
}

/*
 * Ranges are those that mke2fs and mkfs.xfs take and that a kernel with 4 KiB pages then mounts.
 * A key with two rows has a range per filesystem; with the filesystem unknown the first row holds.
 */
static const struct mkfs_key {
	const char *key;
	size_t offset;
	uint64_t min, max;
	unsigned filesystems;
	bool power_of_two;
} mkfs_keys[] = {
	{ PARAM_BLOCK_SIZE, offsetof(struct mkfs_params, block_size), 1024, 4096, EXT | XFS, true },
	{ PARAM_INODE_SIZE, offsetof(struct mkfs_params, inode_size), 128, 4096, EXT, true },
	{ PARAM_INODE_SIZE, offsetof(struct mkfs_params, inode_size), 256, 2048, XFS, true },
	{ PARAM_BYTES_PER_INODE, offsetof(struct mkfs_params, bytes_per_inode), 1024, 67108864, EXT,
	  false },
	{ PARAM_NUMBER_OF_INODES, offsetof(struct mkfs_params, number_of_inodes), 16, UINT32_MAX,
	  EXT, false },
	{ PARAM_EXT4_CLUSTER_SIZE, offsetof(struct mkfs_params, ext4_cluster_size), 2048, 134217728,
	  EXT4, true },
};

/* Every key with our prefix that may stand in a StorageClass. */
static const char *const prefixed_keys[] = {
	PARAM_EMULATION,       PARAM_FORMAT_POLICY,    PARAM_BLOCK_SIZE,    PARAM_INODE_SIZE,
	PARAM_BYTES_PER_INODE, PARAM_NUMBER_OF_INODES, PARAM_EXT4_BIGALLOC, PARAM_EXT4_CLUSTER_SIZE,
};

static const char *const function_keys[] = { PARAM_FUNCTION_TYPE, PARAM_HOTPLUG_FUNCTION };

static const char *const format_policies[] = {
	[FORMAT_BLANK] = "blank",
	[FORMAT_UNFORMATTED] = "unformatted",
	[FORMAT_NEVER] = "never",
};

const char *emulation_name(enum emulation e)
{
	return e == EMULATION_VIRTIOFS ? "virtiofs" : "nvme";
}

enum emulation volume_params_emulation(const struct kvs *map, enum emulation default_emulation)
{
	const char *text = kvs_get(map, PARAM_EMULATION);

	if (str_eq(text, "nvme"))
		return EMULATION_NVME;
	return str_eq(text, "virtiofs") ? EMULATION_VIRTIOFS : default_emulation;
}

bool volume_param_is_ours(const char *key)
{
	return str_eq(key, PARAM_FUNCTION_TYPE) || str_eq(key, PARAM_HOTPLUG_FUNCTION) ||
	       str_has_prefix(key, DRIVER_PREFIX);
}

bool volume_param_is_prefixed(const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(prefixed_keys); i++)
		if (str_eq(prefixed_keys[i], key))
			return true;
	return false;
}

static void list_keys(const char *const *keys, size_t n, struct str *ret)
{
	for (size_t i = 0; i < n; i++)
		str_addf(ret, "%s%s", ret->len ? ", " : "", keys[i]);
}

static int refuse_unknown(const struct kvs *map, struct err *err)
{
	for (size_t i = 0; i < map->n; i++) {
		struct str known AUTO(str_clear) = STR_INIT(800);
		const char *key = map->v[i].key;

		if (param_refuse_slip(key, function_keys, ARRAY_LEN(function_keys), err) ||
		    param_refuse_slip(key, prefixed_keys, ARRAY_LEN(prefixed_keys), err))
			return -1;
		if (!str_has_prefix(key, DRIVER_PREFIX) || volume_param_is_prefixed(key))
			continue;
		list_keys(function_keys, ARRAY_LEN(function_keys), &known);
		list_keys(prefixed_keys, ARRAY_LEN(prefixed_keys), &known);
		return err_set(err, ERR_INVALID, "%s: no such key; those of this driver are: %s",
		               key, known.ptr);
	}
	return 0;
}

static int parse_key_bool(const char *key, const char *text, bool *ret, struct err *err)
{
	if (!parse_bool(key, text, ret, err))
		return 0;
	err_clear(err);
	return err_set(err, ERR_INVALID,
	               "%s: \"%.40s\" is not a boolean; write \"true\" or \"false\"", key, text);
}

/* The value, NULL when there is none. A chart writes an empty one for what nobody has set. */
static const char *given(const struct kvs *map, const char *key)
{
	const char *value = kvs_get(map, key);

	return str_empty(value) ? NULL : value;
}

/* A virtio-fs device is always a function of its own, which the DPU plugs in. */
static int check_share_function(const struct volume_params *p, struct err *err)
{
	if (!p->pf)
		return err_set(
			err, ERR_INVALID,
			PARAM_FUNCTION_TYPE
			": a virtio-fs volume is on a hot-plugged PF; write " PARAM_FUNCTION_TYPE
			": pf, or leave it out");
	if (!p->hotplug)
		return err_set(
			err, ERR_INVALID,
			PARAM_HOTPLUG_FUNCTION
			": a virtio-fs volume is on a hot-plugged PF; write " PARAM_HOTPLUG_FUNCTION
			": \"true\", or leave it out");
	return 0;
}

/* Behind parse_emulation(): the defaults depend on the kind. */
static int parse_function(const struct kvs *map, struct volume_params *p, struct err *err)
{
	const char *type = given(map, PARAM_FUNCTION_TYPE);
	const char *hotplug = given(map, PARAM_HOTPLUG_FUNCTION);
	bool share = p->emulation == EMULATION_VIRTIOFS;

	p->function_given = type || hotplug;
	if (type && strcasecmp(type, "pf") && strcasecmp(type, "vf"))
		return err_set(err, ERR_INVALID,
		               PARAM_FUNCTION_TYPE
		               ": unsupported value %s, supported values are: vf, pf",
		               type);
	p->pf = type ? !strcasecmp(type, "pf") : share;
	p->hotplug = share;
	if (hotplug && parse_key_bool(PARAM_HOTPLUG_FUNCTION, hotplug, &p->hotplug, err))
		return -1;
	if (share)
		return check_share_function(p, err);
	if (!p->pf && p->hotplug)
		return err_set(err, ERR_INVALID,
		               PARAM_HOTPLUG_FUNCTION ": must be false when functionType is vf");
	if (p->pf && !p->hotplug)
		return err_set(err, ERR_INVALID,
		               PARAM_HOTPLUG_FUNCTION ": must be true when functionType is pf");
	return 0;
}

static int parse_emulation(const struct kvs *map, struct volume_params *p, struct err *err)
{
	const char *text = kvs_get(map, PARAM_EMULATION);

	p->emulation = volume_params_emulation(map, p->emulation);
	if (text && !str_eq(text, emulation_name(p->emulation)))
		return err_set(err, ERR_INVALID,
		               PARAM_EMULATION
		               ": unsupported value %s, supported values are: nvme, virtiofs",
		               text);
	return 0;
}

static int parse_format_policy(const struct kvs *map, struct volume_params *p, struct err *err)
{
	const char *text = kvs_get(map, PARAM_FORMAT_POLICY);

	if (!text)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(format_policies); i++)
		if (str_eq(text, format_policies[i])) {
			p->format_policy = (enum format_policy)i;
			p->format_policy_given = true;
			return 0;
		}
	return err_set(err, ERR_INVALID,
	               PARAM_FORMAT_POLICY
	               ": unsupported value %s, supported values are: blank, unformatted, never",
	               text);
}

static uint64_t *mkfs_value(struct mkfs_params *m, const struct mkfs_key *k)
{
	return (void *)((char *)m + k->offset);
}

/* The row of this key for any of these filesystems, or NULL. */
static const struct mkfs_key *mkfs_row(const char *key, unsigned filesystems)
{
	for (size_t i = 0; i < ARRAY_LEN(mkfs_keys); i++)
		if (str_eq(mkfs_keys[i].key, key) && (mkfs_keys[i].filesystems & filesystems))
			return &mkfs_keys[i];
	return NULL;
}

static int not_for_filesystem(const char *key, const char *fs_type, struct err *err)
{
	return err_set(err, ERR_INVALID, "%s: has no meaning for %s", key,
	               filesystem_normalise(fs_type));
}

static int parse_mkfs_number(const struct kv *kv, unsigned filesystems, const char *fs_type,
                             struct mkfs_params *m, struct err *err)
{
	const struct mkfs_key *row = mkfs_row(kv->key, filesystems);
	uint64_t value;

	if (!row)
		return not_for_filesystem(kv->key, fs_type, err);
	if (parse_u64(kv->key, kv->value, &value, err))
		return -1;
	if (value < row->min || value > row->max || (row->power_of_two && (value & (value - 1))))
		return err_set(err, ERR_INVALID, "%s: %s is not %s from %llu to %llu", kv->key,
		               kv->value, row->power_of_two ? "a power of two" : "a number",
		               (unsigned long long)row->min, (unsigned long long)row->max);
	*mkfs_value(m, row) = value;
	return 0;
}

/* Refuses numbers that contradict each other. */
static int check_mkfs_together(const struct mkfs_params *m, unsigned filesystems, struct err *err)
{
	uint64_t block = m->block_size ? m->block_size : 4096;
	uint64_t inode_max = filesystems == XFS ? block / 2 : block;

	if (m->inode_size > inode_max)
		return err_set(err, ERR_INVALID,
		               PARAM_INODE_SIZE ": %llu is more than %llu, the most for blocks of "
		                                "%llu bytes",
		               (unsigned long long)m->inode_size, (unsigned long long)inode_max,
		               (unsigned long long)block);
	if (m->bytes_per_inode && m->number_of_inodes)
		return err_set(err, ERR_INVALID,
		               PARAM_NUMBER_OF_INODES ": " PARAM_BYTES_PER_INODE
		                                      " is given too, only one of them can hold");
	if (m->ext4_cluster_size && !m->ext4_bigalloc)
		return err_set(err, ERR_INVALID,
		               PARAM_EXT4_CLUSTER_SIZE ": needs " PARAM_EXT4_BIGALLOC ": \"true\"");
	if (m->ext4_cluster_size && m->ext4_cluster_size <= block)
		return err_set(err, ERR_INVALID,
		               PARAM_EXT4_CLUSTER_SIZE ": must be more than the block size, %llu",
		               (unsigned long long)block);
	return 0;
}

static int parse_mkfs(const struct kvs *map, const char *fs_type, struct mkfs_params *m,
                      struct err *err)
{
	unsigned filesystems = filesystem_bit(fs_type);
	const char *bigalloc = kvs_get(map, PARAM_EXT4_BIGALLOC);

	if (bigalloc && !(filesystems & EXT4))
		return not_for_filesystem(PARAM_EXT4_BIGALLOC, fs_type, err);
	if (bigalloc && parse_key_bool(PARAM_EXT4_BIGALLOC, bigalloc, &m->ext4_bigalloc, err))
		return -1;
	for (size_t i = 0; i < map->n; i++)
		if (mkfs_row(map->v[i].key, ANY) &&
		    parse_mkfs_number(&map->v[i], filesystems, fs_type, m, err))
			return -1;
	return check_mkfs_together(m, filesystems, err);
}

/* A shared directory is never formatted by this driver. */
static int check_virtiofs(const struct kvs *map, const struct volume_params *p, struct err *err)
{
	if (p->emulation != EMULATION_VIRTIOFS)
		return 0;
	for (size_t i = 0; i < map->n; i++)
		if (str_has_prefix(map->v[i].key, DRIVER_PREFIX) &&
		    !str_eq(map->v[i].key, PARAM_EMULATION))
			return err_set(
				err, ERR_INVALID,
				"%s: has no meaning with virtiofs, which is never formatted; "
				"leave it out",
				map->v[i].key);
	return 0;
}

int volume_params_parse(const struct kvs *map, enum emulation default_emulation,
                        const char *fs_type, struct volume_params *ret, struct err *err)
{
	struct volume_params p = { .emulation = default_emulation };

	if (refuse_unknown(map, err) || parse_emulation(map, &p, err) ||
	    parse_function(map, &p, err) || check_virtiofs(map, &p, err) ||
	    parse_format_policy(map, &p, err) || parse_mkfs(map, fs_type, &p.mkfs, err))
		return -1;
	*ret = p;
	return 0;
}
