/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's own keys of a StorageClass, a volume context or the annotations of a DPUVolume:
 * parsed and validated by the same code on the controller and, again, on the node.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/kv.h"

enum emulation { EMULATION_NVME, EMULATION_VIRTIOFS };
enum format_policy { FORMAT_BLANK, FORMAT_UNFORMATTED, FORMAT_NEVER };

/* 0 = not given. */
struct mkfs_params {
	uint64_t block_size, inode_size, bytes_per_inode, number_of_inodes, ext4_cluster_size;
	bool ext4_bigalloc;
};

struct volume_params {
	bool function_given; /* functionType or hotplugFunction was there, and not empty */
	bool pf;             /* functionType is pf; default vf, for virtio-fs pf */
	bool hotplug;        /* default false, for virtio-fs true */
	enum emulation emulation;
	enum format_policy format_policy;
	bool format_policy_given;
	struct mkfs_params mkfs;
};

/*
 * Parses the known keys. INVALID_ARGUMENT: a key that resembles a known one (param_meant.h), naming
 * it; an unknown key with our prefix, listing the known ones. Others are skipped. An empty
 * functionType or hotplugFunction counts as absent. Combination rules are the Go plugin's. A key of
 * formatting is refused for virtio-fs. `fs_type` (NULL: unknown, or raw block) is what the mkfs
 * keys are checked against: ext4BigAlloc with xfs is refused. A volume context without formatPolicy
 * and without any key of ours gives FORMAT_BLANK.
 */
int volume_params_parse(const struct kvs *map, enum emulation default_emulation,
                        const char *fs_type, struct volume_params *ret, struct err *err) MUST_CHECK;
/*
 * The kind alone, for what is checked before the keys are. A value that is none gives
 * `default_emulation`: volume_params_parse() refuses it.
 */
enum emulation volume_params_emulation(const struct kvs *map, enum emulation default_emulation);
const char *emulation_name(enum emulation e); /* "nvme", "virtiofs" */
/* Does this key belong to the driver (functionType, hotplugFunction, or a key with our prefix)? */
bool volume_param_is_ours(const char *key);
/* May this key, which has our prefix, stand in a StorageClass (annotations share the prefix)? */
bool volume_param_is_prefixed(const char *key);
