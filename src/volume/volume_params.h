/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's own keys of a StorageClass, a volume context or the annotations of a DPUVolume. The
 * controller and the node parse and validate them with the same code.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/kv.h"

enum emulation { EMULATION_NVME, EMULATION_VIRTIOFS };
enum encryption { ENCRYPTION_NONE, ENCRYPTION_LUKS2 };
enum kdf { KDF_ARGON2ID, KDF_PBKDF2 }; /* key derivation of the passphrase */
enum format_policy { FORMAT_BLANK, FORMAT_UNFORMATTED, FORMAT_NEVER };

/* 0: not given. */
struct mkfs_params {
	uint64_t block_size, inode_size, bytes_per_inode, number_of_inodes, ext4_cluster_size;
	bool ext4_bigalloc;
};

/*
 * Settings of the disk's request queue that a StorageClass may choose, in the order in which they
 * are written. The order matters, because the kernel resets nr_requests when the scheduler changes.
 */
enum queue_setting {
	SETTING_IO_SCHEDULER,
	SETTING_NR_REQUESTS,
	SETTING_READ_AHEAD_KB,
	SETTING_RQ_AFFINITY,
	QUEUE_SETTINGS
};

struct volume_params {
	bool function_given; /* functionType or hotplugFunction is present and not empty */
	bool pf;             /* functionType is pf; default: vf, for virtio-fs pf */
	bool hotplug;        /* default: false, for virtio-fs true */
	enum emulation emulation;
	enum format_policy format_policy;
	bool format_policy_given;
	enum encryption encryption;
	enum kdf kdf;
	bool allow_discards;
	struct mkfs_params mkfs;
	char settings[QUEUE_SETTINGS][16]; /* in sysfs format; "": not given */
};

/*
 * Parses the known keys. INVALID_ARGUMENT for a key that resembles a known key (param_meant.h),
 * naming the known key, and for an unknown key with the driver's prefix, listing the known keys.
 * Other keys are skipped. An empty functionType or hotplugFunction counts as absent. Rules for
 * combinations are the Go plugin's. Format keys are refused for virtio-fs. The mkfs keys are
 * checked against `fs_type` (NULL: unknown, or raw block): ext4BigAlloc with xfs is refused. A
 * volume context without formatPolicy and without any key of the driver yields FORMAT_BLANK.
 */
int volume_params_parse(const struct kvs *map, enum emulation default_emulation,
                        const char *fs_type, struct volume_params *ret, struct err *err) MUST_CHECK;
/*
 * Returns only the kind, for checks that precede those of the keys. An invalid value yields
 * `default_emulation`; volume_params_parse() refuses it later.
 */
enum emulation volume_params_emulation(const struct kvs *map, enum emulation default_emulation);
const char *emulation_name(enum emulation e);        /* "nvme", "virtiofs" */
const char *queue_setting_key(enum queue_setting s); /* returns the StorageClass key */
/*
 * Returns true if this key belongs to the driver (functionType, hotplugFunction, or a key with the
 * driver's prefix).
 */
bool volume_param_is_ours(const char *key);
/*
 * Returns true if this key, which has the driver's prefix, may appear in a StorageClass
 * (annotations have the same prefix).
 */
bool volume_param_is_prefixed(const char *key);
