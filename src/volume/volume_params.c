/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the driver's own keys: one table for the numbers of mkfs, and a few lines for each other
 * key. Pure. The same code reads a StorageClass on the controller and a volume context on the node,
 * so both sides accept the same values. The node passes the numbers to mkfs.
 */
#include "volume/volume_params.h"

#include <stddef.h>
#include <stdio.h>
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
 * The ranges are those that mke2fs and mkfs.xfs accept and that a kernel with 4 KiB pages can
 * mount. A key with two rows has a range for each filesystem; if the filesystem is unknown, the
 * first row applies.
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

/*
 * A setting is one of these words, or a multiple of `step` between these numbers. The kernel raises
 * nr_requests if it is below 4, and ignores the part of a read-ahead that is smaller than a page.
 */
static const struct setting_key {
	const char *key;
	const char *words; /* separated by ", "; NULL: a number */
	uint64_t min, max, step;
} setting_keys[QUEUE_SETTINGS] = {
	[SETTING_IO_SCHEDULER] = { PARAM_IO_SCHEDULER, "none, mq-deadline, kyber, bfq", 0, 0, 0 },
	[SETTING_NR_REQUESTS] = { PARAM_NR_REQUESTS, NULL, 4, 4096, 1 },
	[SETTING_READ_AHEAD_KB] = { PARAM_READ_AHEAD_KB, NULL, 0, 131072, 4 },
	[SETTING_RQ_AFFINITY] = { PARAM_RQ_AFFINITY, NULL, 0, 2, 1 },
};

/* All keys with the driver's prefix that may appear in a StorageClass. */
static const char *const prefixed_keys[] = {
	PARAM_EMULATION,     PARAM_FORMAT_POLICY,     PARAM_BLOCK_SIZE,
	PARAM_INODE_SIZE,    PARAM_BYTES_PER_INODE,   PARAM_NUMBER_OF_INODES,
	PARAM_EXT4_BIGALLOC, PARAM_EXT4_CLUSTER_SIZE, PARAM_IO_SCHEDULER,
	PARAM_NR_REQUESTS,   PARAM_READ_AHEAD_KB,     PARAM_RQ_AFFINITY,
	PARAM_ENCRYPTION,    PARAM_ENCRYPTION_KDF,    PARAM_ALLOW_DISCARDS,
};

static const char *const function_keys[] = { PARAM_FUNCTION_TYPE, PARAM_HOTPLUG_FUNCTION };

static const char *const format_policies[] = {
	[FORMAT_BLANK] = "blank",
	[FORMAT_UNFORMATTED] = "unformatted",
	[FORMAT_NEVER] = "never",
};

static const char *const encryptions[] = { [ENCRYPTION_LUKS2] = "luks2" };
static const char *const kdfs[] = { [KDF_ARGON2ID] = "argon2id", [KDF_PBKDF2] = "pbkdf2" };

const char *emulation_name(enum emulation e)
{
	return e == EMULATION_VIRTIOFS ? "virtiofs" : "nvme";
}

const char *queue_setting_key(enum queue_setting s)
{
	return setting_keys[s].key;
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
		struct str known AUTO(str_clear) = STR_INIT(1000);
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

/*
 * Returns the value, NULL if absent. Charts write an empty value for an unset one, so an empty
 * value counts as absent.
 */
static const char *given(const struct kvs *map, const char *key)
{
	const char *value = kvs_get(map, key);

	return str_empty(value) ? NULL : value;
}

/*
 * Checks the function of a virtio-fs device, which always has its own function that the DPU plugs
 * in.
 */
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

/* Call it after parse_emulation(), because the defaults depend on the kind. */
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
		               PARAM_HOTPLUG_FUNCTION
		               ": must be true when functionType is pf (DPF "
		               "supports static PFs on hosts outside the cluster only: "
		               "snap-csi-plugin host)");
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

/* Sets *ret to the index of the key's value in `words`; a missing key leaves it unchanged. */
static int parse_word(const struct kvs *map, const char *key, const char *const *words, size_t n,
                      unsigned *ret, struct err *err)
{
	struct str known AUTO(str_clear) = STR_INIT(100);
	const char *text = given(map, key);

	for (size_t i = 0; text && i < n; i++) {
		if (!words[i])
			continue;
		if (str_eq(text, words[i])) {
			*ret = (unsigned)i;
			return 0;
		}
		str_addf(&known, "%s%s", known.len ? ", " : "", words[i]);
	}
	if (!text)
		return 0;
	return err_set(err, ERR_INVALID, "%s: unsupported value %.40s, supported values are: %s",
	               key, text, known.ptr);
}

static int parse_encryption(const struct kvs *map, struct volume_params *p, struct err *err)
{
	static const char *const needs[] = { PARAM_ENCRYPTION_KDF, PARAM_ALLOW_DISCARDS };
	unsigned encryption = ENCRYPTION_NONE, kdf = KDF_ARGON2ID;
	const char *discards = given(map, PARAM_ALLOW_DISCARDS);

	if (parse_word(map, PARAM_ENCRYPTION, encryptions, ARRAY_LEN(encryptions), &encryption,
	               err) ||
	    parse_word(map, PARAM_ENCRYPTION_KDF, kdfs, ARRAY_LEN(kdfs), &kdf, err) ||
	    (discards && parse_key_bool(PARAM_ALLOW_DISCARDS, discards, &p->allow_discards, err)))
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(needs) && encryption == ENCRYPTION_NONE; i++)
		if (given(map, needs[i]))
			return err_set(err, ERR_INVALID, "%s: needs " PARAM_ENCRYPTION ": luks2",
			               needs[i]);
	p->encryption = (enum encryption)encryption;
	p->kdf = (enum kdf)kdf;
	return 0;
}

static uint64_t *mkfs_value(struct mkfs_params *m, const struct mkfs_key *k)
{
	return (void *)((char *)m + k->offset);
}

/* Returns the row of this key for any of these filesystems, or NULL. */
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
		                                      " is also set, but they exclude each other");
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

static bool setting_has_word(const char *words, const char *word)
{
	const size_t n = strlen(word);

	for (const char *at = words; at; at = strchr(at, ' ')) {
		at += *at == ' ';
		if (n && strcspn(at, ",") == n && memcmp(at, word, n) == 0)
			return true;
	}
	return false;
}

static int parse_setting(const struct setting_key *k, const char *text, char ret[16],
                         struct err *err)
{
	char step[48] = "number";
	uint64_t value;

	if (k->words) {
		if (!setting_has_word(k->words, text))
			return err_set(err, ERR_INVALID,
			               "%s: unsupported value %.40s, supported values are: %s",
			               k->key, text, k->words);
		snprintf(ret, 16, "%s", text);
		return 0;
	}
	if (parse_u64(k->key, text, &value, err))
		return -1;
	if (k->step > 1)
		snprintf(step, sizeof(step), "multiple of %llu", (unsigned long long)k->step);
	if (value < k->min || value > k->max || value % k->step)
		return err_set(err, ERR_INVALID, "%s: %s is not a %s from %llu to %llu", k->key,
		               text, step, (unsigned long long)k->min, (unsigned long long)k->max);
	snprintf(ret, 16, "%llu", (unsigned long long)value);
	return 0;
}

static int parse_settings(const struct kvs *map, const char *fs_type, struct volume_params *p,
                          struct err *err)
{
	/* btrfs uses its own read-ahead, which is at least 4 MiB. */
	if (kvs_get(map, PARAM_READ_AHEAD_KB) && filesystem_bit(fs_type) == BTRFS)
		return not_for_filesystem(PARAM_READ_AHEAD_KB, fs_type, err);
	for (size_t i = 0; i < QUEUE_SETTINGS; i++) {
		const char *text = kvs_get(map, setting_keys[i].key);

		if (text && parse_setting(&setting_keys[i], text, p->settings[i], err))
			return -1;
	}
	return 0;
}

/*
 * Refuses keys for a share, because this driver never formats a shared directory, and a share has
 * no request queue.
 */
static int check_virtiofs(const struct kvs *map, const struct volume_params *p, struct err *err)
{
	if (p->emulation != EMULATION_VIRTIOFS)
		return 0;
	for (size_t i = 0; i < map->n; i++)
		if (str_has_prefix(map->v[i].key, DRIVER_PREFIX) &&
		    !str_eq(map->v[i].key, PARAM_EMULATION))
			return err_set(
				err, ERR_INVALID,
				"%s: has no meaning with virtiofs, which is never formatted and "
				"has no disk; leave it out",
				map->v[i].key);
	return 0;
}

int volume_params_parse(const struct kvs *map, enum emulation default_emulation,
                        const char *fs_type, struct volume_params *ret, struct err *err)
{
	struct volume_params p = { .emulation = default_emulation };

	if (refuse_unknown(map, err) || parse_emulation(map, &p, err) ||
	    parse_function(map, &p, err) || check_virtiofs(map, &p, err) ||
	    parse_format_policy(map, &p, err) || parse_mkfs(map, fs_type, &p.mkfs, err) ||
	    parse_settings(map, fs_type, &p, err) || parse_encryption(map, &p, err))
		return -1;
	*ret = p;
	return 0;
}
