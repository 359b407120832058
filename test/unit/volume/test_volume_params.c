/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's own StorageClass keys: values, defaults, combinations, messages. */
#include "test/lib/suite.h"

#include <stdlib.h>

#include "common/cleanup.h"
#include "volume/context_keys.h"
#include "volume/volume_params.h"

#define P(key) DRIVER_PREFIX key
#define VENDORS ", or put a vendor's parameter of that name into the DPUStoragePolicy"

/* k1=v1 and so on; fs NULL: not known. error NULL: accepted. */
static const struct {
	const char *what;
	enum emulation emulation;
	const char *fs;
	struct kv v[4];
	const char *error;
} rows[] = {
	{ "nothing", EMULATION_NVME, NULL, { { 0 } }, NULL },
	{ "vf, in capitals", EMULATION_NVME, NULL, { { "functionType", "VF" } }, NULL },
	{ "Go's false", EMULATION_NVME, NULL, { { "hotplugFunction", "F" } }, NULL },
	{ "hot-plugged pf",
	  EMULATION_NVME,
	  NULL,
	  { { "functionType", "Pf" }, { "hotplugFunction", "1" } },
	  NULL },
	{ "another function type",
	  EMULATION_NVME,
	  NULL,
	  { { "functionType", "sf" } },
	  "functionType: unsupported value sf, supported values are: vf, pf" },
	{ "hotplug that is no boolean",
	  EMULATION_NVME,
	  NULL,
	  { { "hotplugFunction", "yes" } },
	  "hotplugFunction: \"yes\" is not a boolean; write \"true\" or \"false\"" },
	{ "bigalloc that is no boolean",
	  EMULATION_NVME,
	  "ext4",
	  { { P("ext4BigAlloc"), "no" } },
	  P("ext4BigAlloc") ": \"no\" is not a boolean; write \"true\" or \"false\"" },
	{ "a chart's empty values",
	  EMULATION_NVME,
	  NULL,
	  { { "functionType", "" }, { "hotplugFunction", "" } },
	  NULL },
	{ "an empty function type beside hotplug",
	  EMULATION_NVME,
	  NULL,
	  { { "functionType", "" }, { "hotplugFunction", "true" } },
	  "hotplugFunction: must be false when functionType is vf" },
	{ "hot-plugged vf",
	  EMULATION_NVME,
	  NULL,
	  { { "hotplugFunction", "true" } },
	  "hotplugFunction: must be false when functionType is vf" },
	{ "static pf",
	  EMULATION_NVME,
	  NULL,
	  { { "functionType", "pf" } },
	  "hotplugFunction: must be true when functionType is pf (DPF supports static PFs on hosts outside the cluster only: snap-csi-plugin host)" },
	{ "virtio-fs by default", EMULATION_VIRTIOFS, NULL, { { 0 } }, NULL },
	{ "virtio-fs by default, with a chart's empty values",
	  EMULATION_VIRTIOFS,
	  NULL,
	  { { "functionType", "" }, { "hotplugFunction", "" } },
	  NULL },
	{ "virtio-fs on a vf",
	  EMULATION_VIRTIOFS,
	  NULL,
	  { { "functionType", "vf" } },
	  "functionType: a virtio-fs volume is on a hot-plugged PF; write functionType: pf, or "
	  "leave it out" },
	{ "virtio-fs on a vf, in full",
	  EMULATION_NVME,
	  NULL,
	  { { P("emulation"), "virtiofs" },
	    { "functionType", "VF" },
	    { "hotplugFunction", "false" } },
	  "functionType: a virtio-fs volume is on a hot-plugged PF; write functionType: pf, or "
	  "leave it out" },
	{ "virtio-fs on a static pf",
	  EMULATION_VIRTIOFS,
	  NULL,
	  { { "functionType", "pf" }, { "hotplugFunction", "false" } },
	  "hotplugFunction: a virtio-fs volume is on a hot-plugged PF; write hotplugFunction: "
	  "\"true\", or leave it out" },
	{ "virtio-fs that is not hot-plugged",
	  EMULATION_VIRTIOFS,
	  NULL,
	  { { "hotplugFunction", "0" } },
	  "hotplugFunction: a virtio-fs volume is on a hot-plugged PF; write hotplugFunction: "
	  "\"true\", or leave it out" },
	{ "virtio-fs on a function that is none",
	  EMULATION_VIRTIOFS,
	  NULL,
	  { { "functionType", "sf" } },
	  "functionType: unsupported value sf, supported values are: vf, pf" },
	{ "virtio-fs, hot-plugged by no boolean",
	  EMULATION_VIRTIOFS,
	  NULL,
	  { { "hotplugFunction", "yes" } },
	  "hotplugFunction: \"yes\" is not a boolean; write \"true\" or \"false\"" },
	{ "virtio-fs on a pf",
	  EMULATION_VIRTIOFS,
	  NULL,
	  { { "functionType", "pf" }, { "hotplugFunction", "true" } },
	  NULL },
	{ "nvme asked for by key", EMULATION_VIRTIOFS, NULL, { { P("emulation"), "nvme" } }, NULL },
	{ "virtio-fs asked for by key",
	  EMULATION_NVME,
	  NULL,
	  { { P("emulation"), "virtiofs" } },
	  NULL },
	{ "nvme asked for by key, on a pf that nobody plugs in",
	  EMULATION_VIRTIOFS,
	  NULL,
	  { { P("emulation"), "nvme" }, { "functionType", "pf" } },
	  "hotplugFunction: must be true when functionType is pf (DPF supports static PFs on hosts outside the cluster only: snap-csi-plugin host)" },
	{ "an emulation that is none",
	  EMULATION_NVME,
	  NULL,
	  { { P("emulation"), "NVMe" } },
	  P("emulation") ": unsupported value NVMe, supported values are: nvme, virtiofs" },
	{ "virtio-fs is not formatted",
	  EMULATION_VIRTIOFS,
	  NULL,
	  { { "functionType", "pf" },
	    { "hotplugFunction", "true" },
	    { P("formatPolicy"), "never" } },
	  P("formatPolicy") ": has no meaning with virtiofs, which is never formatted and has no disk; leave it out" },
	{ "virtio-fs has no blocks",
	  EMULATION_NVME,
	  "ext4",
	  { { P("emulation"), "virtiofs" }, { P("blockSize"), "3" } },
	  P("blockSize") ": has no meaning with virtiofs, which is never formatted and has no disk; leave it out" },
	{ "format policy", EMULATION_NVME, NULL, { { P("formatPolicy"), "unformatted" } }, NULL },
	{ "a format policy that is none",
	  EMULATION_NVME,
	  NULL,
	  { { P("formatPolicy"), "force" } },
	  P("formatPolicy") ": unsupported value force, supported values are: blank, unformatted, "
	                    "never" },
	{ "a typo in a key of ours",
	  EMULATION_NVME,
	  NULL,
	  { { P("formatpolicy"), "never" } },
	  P("formatpolicy") ": no such key; write " P("formatPolicy") },
	{ "a key of ours without its prefix",
	  EMULATION_NVME,
	  NULL,
	  { { "formatPolicy", "never" } },
	  "formatPolicy: no such key; write " P("formatPolicy") VENDORS },
	{ "a key of ours with half its prefix",
	  EMULATION_NVME,
	  NULL,
	  { { "csi.snap.nvidia/formatPolicy", "never" } },
	  "csi.snap.nvidia/formatPolicy: no such key; write " P("formatPolicy") VENDORS },
	{ "functionType in another case",
	  EMULATION_NVME,
	  NULL,
	  { { "functiontype", "pf" } },
	  "functiontype: no such key; write functionType" VENDORS },
	{ "functionType with our prefix, which an annotation has",
	  EMULATION_NVME,
	  NULL,
	  { { P("functionType"), "pf" } },
	  P("functionType") ": no such key; write functionType" },
	{ "a key that ours do not resemble",
	  EMULATION_NVME,
	  NULL,
	  { { P("mkfsOptions"), "-F" } },
	  P("mkfsOptions") ": no such key; those of this driver are: functionType, "
	                   "hotplugFunction, " P("emulation") ", " P("formatPolicy") ", " P("blockSize") ", " P("inodeSize") ", " P("bytesPerInode") ", " P("numberOfInodes") ", " P("ext4BigAlloc") ", " P(
				   "ext4ClusterSize") ", " P("ioScheduler") ", " P("nrRequests") ", " P("readAheadKb") ", " P("rqAffinity") ", " P("encryption") ", " P("encryptionKdf") ", " P("allowDiscards") },
	{ "others' keys pass", EMULATION_NVME, NULL, { { "policy", "gold" }, { "x", "y" } }, NULL },
	{ "encryption with its keys",
	  EMULATION_NVME,
	  NULL,
	  { { P("encryption"), "luks2" },
	    { P("encryptionKdf"), "pbkdf2" },
	    { P("allowDiscards"), "true" } },
	  NULL },
	{ "empty values of encryption are absent",
	  EMULATION_NVME,
	  NULL,
	  { { P("encryption"), "" }, { P("encryptionKdf"), "" }, { P("allowDiscards"), "" } },
	  NULL },
	{ "another encryption",
	  EMULATION_NVME,
	  NULL,
	  { { P("encryption"), "luks1" } },
	  P("encryption") ": unsupported value luks1, supported values are: luks2" },
	{ "another derivation",
	  EMULATION_NVME,
	  NULL,
	  { { P("encryption"), "luks2" }, { P("encryptionKdf"), "scrypt" } },
	  P("encryptionKdf") ": unsupported value scrypt, supported values are: argon2id, pbkdf2" },
	{ "a derivation without encryption",
	  EMULATION_NVME,
	  NULL,
	  { { P("encryptionKdf"), "pbkdf2" } },
	  P("encryptionKdf") ": needs " P("encryption") ": luks2" },
	{ "discards without encryption",
	  EMULATION_NVME,
	  NULL,
	  { { P("allowDiscards"), "false" } },
	  P("allowDiscards") ": needs " P("encryption") ": luks2" },
	{ "discards that are not a boolean",
	  EMULATION_NVME,
	  NULL,
	  { { P("encryption"), "luks2" }, { P("allowDiscards"), "yes" } },
	  P("allowDiscards") ": \"yes\" is not a boolean; write \"true\" or \"false\"" },
	{ "virtio-fs is not encrypted",
	  EMULATION_VIRTIOFS,
	  NULL,
	  { { P("encryption"), "luks2" } },
	  P("encryption") ": has no meaning with virtiofs, which is never formatted and has no "
	                  "disk; leave it out" },
	{ "settings of the queue",
	  EMULATION_NVME,
	  NULL,
	  { { P("ioScheduler"), "kyber" },
	    { P("nrRequests"), "4" },
	    { P("readAheadKb"), "131072" } },
	  NULL },
	{ "an unknown scheduler",
	  EMULATION_NVME,
	  NULL,
	  { { P("ioScheduler"), "deadline" } },
	  P("ioScheduler") ": unsupported value deadline, supported values are: none, mq-deadline, "
	                   "kyber, bfq" },
	{ "an empty scheduler",
	  EMULATION_NVME,
	  NULL,
	  { { P("ioScheduler"), "" } },
	  P("ioScheduler") ": unsupported value , supported values are: none, mq-deadline, kyber, "
	                   "bfq" },
	{ "two schedulers",
	  EMULATION_NVME,
	  NULL,
	  { { P("ioScheduler"), "kyber, bfq" } },
	  P("ioScheduler") ": unsupported value kyber, bfq, supported values are: none, "
	                   "mq-deadline, kyber, bfq" },
	{ "fewer requests than the kernel takes",
	  EMULATION_NVME,
	  NULL,
	  { { P("nrRequests"), "3" } },
	  P("nrRequests") ": 3 is not a number from 4 to 4096" },
	{ "a read-ahead of half a page",
	  EMULATION_NVME,
	  NULL,
	  { { P("readAheadKb"), "130" } },
	  P("readAheadKb") ": 130 is not a multiple of 4 from 0 to 131072" },
	{ "btrfs has a read-ahead of its own",
	  EMULATION_NVME,
	  "btrfs",
	  { { P("readAheadKb"), "4096" } },
	  P("readAheadKb") ": has no meaning for btrfs" },
	{ "btrfs with the other settings",
	  EMULATION_NVME,
	  "btrfs",
	  { { P("ioScheduler"), "none" }, { P("nrRequests"), "64" }, { P("rqAffinity"), "1" } },
	  NULL },
	{ "an affinity above the kernel's",
	  EMULATION_NVME,
	  NULL,
	  { { P("rqAffinity"), "3" } },
	  P("rqAffinity") ": 3 is not a number from 0 to 2" },
	{ "an affinity that is no number",
	  EMULATION_NVME,
	  NULL,
	  { { P("rqAffinity"), "2\n" } },
	  P("rqAffinity") ": \"2\n\" is not a whole number" },
	{ "virtio-fs has no queue",
	  EMULATION_VIRTIOFS,
	  NULL,
	  { { P("readAheadKb"), "0" } },
	  P("readAheadKb") ": has no meaning with virtiofs, which is never formatted and has no "
	                   "disk; leave it out" },
	{ "block and inode size of ext4",
	  EMULATION_NVME,
	  "ext4",
	  { { P("blockSize"), "4096" }, { P("inodeSize"), "512" } },
	  NULL },
	{ "block size of xfs", EMULATION_NVME, "xfs", { { P("blockSize"), "1024" } }, NULL },
	{ "block size above the page",
	  EMULATION_NVME,
	  "ext4",
	  { { P("blockSize"), "8192" } },
	  P("blockSize") ": 8192 is not a power of two from 1024 to 4096" },
	{ "block size that is no power of two",
	  EMULATION_NVME,
	  "ext4",
	  { { P("blockSize"), "3000" } },
	  P("blockSize") ": 3000 is not a power of two from 1024 to 4096" },
	{ "btrfs takes no block size",
	  EMULATION_NVME,
	  "btrfs",
	  { { P("blockSize"), "4096" } },
	  P("blockSize") ": has no meaning for btrfs" },
	{ "xfs has its own inode sizes",
	  EMULATION_NVME,
	  "xfs",
	  { { P("inodeSize"), "128" } },
	  P("inodeSize") ": 128 is not a power of two from 256 to 2048" },
	{ "an inode as big as half a block of xfs",
	  EMULATION_NVME,
	  "xfs",
	  { { P("blockSize"), "1024" }, { P("inodeSize"), "1024" } },
	  P("inodeSize") ": 1024 is more than 512, the most for blocks of 1024 bytes" },
	{ "an inode bigger than its block",
	  EMULATION_NVME,
	  "ext4",
	  { { P("blockSize"), "1024" }, { P("inodeSize"), "2048" } },
	  P("inodeSize") ": 2048 is more than 1024, the most for blocks of 1024 bytes" },
	{ "xfs counts no inodes",
	  EMULATION_NVME,
	  "xfs",
	  { { P("numberOfInodes"), "1000" } },
	  P("numberOfInodes") ": has no meaning for xfs" },
	{ "two ways to count inodes",
	  EMULATION_NVME,
	  "ext4",
	  { { P("numberOfInodes"), "1000" }, { P("bytesPerInode"), "16384" } },
	  P("numberOfInodes") ": " P("bytesPerInode") " is also set, but they exclude each other" },
	{ "bigalloc with clusters",
	  EMULATION_NVME,
	  "ext4",
	  { { P("ext4BigAlloc"), "true" }, { P("ext4ClusterSize"), "65536" } },
	  NULL },
	{ "bigalloc of ext3",
	  EMULATION_NVME,
	  "ext3",
	  { { P("ext4BigAlloc"), "true" } },
	  P("ext4BigAlloc") ": has no meaning for ext3" },
	{ "bigalloc of xfs",
	  EMULATION_NVME,
	  "xfs",
	  { { P("ext4BigAlloc"), "true" } },
	  P("ext4BigAlloc") ": has no meaning for xfs" },
	{ "clusters without bigalloc",
	  EMULATION_NVME,
	  "ext4",
	  { { P("ext4ClusterSize"), "65536" } },
	  P("ext4ClusterSize") ": needs " P("ext4BigAlloc") ": \"true\"" },
	{ "a cluster for which mke2fs makes no journal",
	  EMULATION_NVME,
	  "ext4",
	  { { P("ext4BigAlloc"), "1" }, { P("ext4ClusterSize"), "268435456" } },
	  P("ext4ClusterSize") ": 268435456 is not a power of two from 2048 to 134217728" },
	{ "a cluster no bigger than a block",
	  EMULATION_NVME,
	  "",
	  { { P("ext4BigAlloc"), "1" }, { P("ext4ClusterSize"), "4096" } },
	  P("ext4ClusterSize") ": must be more than the block size, 4096" },
	{ "with the filesystem unknown any key of any of them may be there",
	  EMULATION_NVME,
	  NULL,
	  { { P("ext4BigAlloc"), "1" }, { P("inodeSize"), "256" }, { P("blockSize"), "4096" } },
	  NULL },
};

static size_t count(const struct kv *v)
{
	size_t n = 0;

	while (n < 4 && v[n].key)
		n++;
	return n;
}

START_TEST(keys_are_taken_or_refused_with_a_reason)
{
	struct kvs map = { rows[_i].v, count(rows[_i].v) };
	struct volume_params p;
	struct err err = ERR_INIT;
	int rc = volume_params_parse(&map, rows[_i].emulation, rows[_i].fs, &p, &err);

	if (!rows[_i].error) {
		ck_assert_msg(rc == 0, "%s: %s", rows[_i].what, err.msg);
		return;
	}
	ck_assert_msg(rc == -1, "%s: was taken", rows[_i].what);
	ck_assert_int_eq(err.code, ERR_INVALID);
	ck_assert_str_eq(err.msg, rows[_i].error);
}
END_TEST

START_TEST(an_empty_map_means_the_defaults)
{
	struct kvs map = { NULL, 0 };
	struct volume_params p;
	struct err err = ERR_INIT;

	ck_assert_int_eq(volume_params_parse(&map, EMULATION_NVME, "ext4", &p, &err), 0);
	ck_assert(!p.function_given && !p.pf && !p.hotplug && !p.format_policy_given);
	ck_assert_int_eq(p.emulation, EMULATION_NVME);
	ck_assert_int_eq(p.format_policy, FORMAT_BLANK);
	ck_assert_uint_eq(p.mkfs.block_size, 0);
}
END_TEST

/* Every spelling that Go's ParseBool and the Go plugin accept. */
START_TEST(a_virtiofs_volume_is_on_a_hot_plugged_pf_however_it_is_written)
{
	static const struct {
		const char *type, *hotplug;
		bool given;
	} spellings[] = {
		{ NULL, NULL, false },  { "", "", false },      { "pf", NULL, true },
		{ "PF", "", true },     { "", "1", true },      { NULL, "t", true },
		{ "Pf", "T", true },    { "pF", "TRUE", true }, { "pf", "true", true },
		{ "PF", "True", true },
	};

	for (size_t i = 0; i < ARRAY_LEN(spellings); i++) {
		struct kv v[3] = { { P("emulation"), "virtiofs" } };
		struct kvs map = { v, 1 };
		struct volume_params p;
		struct err err = ERR_INIT;

		if (spellings[i].type)
			v[map.n++] = (struct kv) { "functionType", spellings[i].type };
		if (spellings[i].hotplug)
			v[map.n++] = (struct kv) { "hotplugFunction", spellings[i].hotplug };
		ck_assert_msg(!volume_params_parse(&map, EMULATION_NVME, "", &p, &err), "%zu: %s",
		              i, err.msg);
		ck_assert_msg(p.pf && p.hotplug, "%zu", i);
		ck_assert_msg(p.function_given == spellings[i].given, "%zu", i);
		ck_assert_int_eq(p.emulation, EMULATION_VIRTIOFS);
	}
}
END_TEST

START_TEST(the_kind_is_known_before_the_keys_are_checked)
{
	static const struct {
		const char *value;
		enum emulation by_default, is;
	} kinds[] = {
		{ NULL, EMULATION_NVME, EMULATION_NVME },
		{ NULL, EMULATION_VIRTIOFS, EMULATION_VIRTIOFS },
		{ "nvme", EMULATION_VIRTIOFS, EMULATION_NVME },
		{ "virtiofs", EMULATION_NVME, EMULATION_VIRTIOFS },
		{ "VirtioFS", EMULATION_NVME, EMULATION_NVME },
		{ "", EMULATION_VIRTIOFS, EMULATION_VIRTIOFS },
	};

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct kv v = { P("emulation"), kinds[i].value };
		struct kvs map = { &v, kinds[i].value ? 1 : 0 };

		ck_assert_int_eq(volume_params_emulation(&map, kinds[i].by_default), kinds[i].is);
	}
}
END_TEST

START_TEST(empty_function_keys_are_not_given)
{
	static const struct kv v[] = { { "functionType", "" }, { "hotplugFunction", "" } };
	struct kvs map = { v, ARRAY_LEN(v) };
	struct volume_params p;
	struct err err = ERR_INIT;

	ck_assert_int_eq(volume_params_parse(&map, EMULATION_NVME, "ext4", &p, &err), 0);
	ck_assert(!p.function_given && !p.pf && !p.hotplug);
}
END_TEST

START_TEST(values_arrive_in_their_fields)
{
	static const struct kv v[] = {
		{ "functionType", "PF" },       { "hotplugFunction", "TRUE" },
		{ P("formatPolicy"), "never" }, { P("blockSize"), "1024" },
		{ P("inodeSize"), "256" },      { P("bytesPerInode"), "8192" },
		{ P("ext4BigAlloc"), "T" },     { P("ext4ClusterSize"), "16384" },
		{ P("ioScheduler"), "none" },   { P("nrRequests"), "0256" },
		{ P("rqAffinity"), "0" },
	};
	struct kvs map = { v, ARRAY_LEN(v) };
	struct volume_params p;
	struct err err = ERR_INIT;

	ck_assert_int_eq(volume_params_parse(&map, EMULATION_NVME, "ext4", &p, &err), 0);
	ck_assert(p.function_given && p.pf && p.hotplug && p.format_policy_given);
	ck_assert_int_eq(p.format_policy, FORMAT_NEVER);
	ck_assert_uint_eq(p.mkfs.block_size, 1024);
	ck_assert_uint_eq(p.mkfs.inode_size, 256);
	ck_assert_uint_eq(p.mkfs.bytes_per_inode, 8192);
	ck_assert_uint_eq(p.mkfs.number_of_inodes, 0);
	ck_assert_uint_eq(p.mkfs.ext4_cluster_size, 16384);
	ck_assert(p.mkfs.ext4_bigalloc);
	ck_assert_str_eq(p.settings[SETTING_IO_SCHEDULER], "none");
	ck_assert_str_eq(p.settings[SETTING_NR_REQUESTS], "256");
	ck_assert_str_eq(p.settings[SETTING_READ_AHEAD_KB], "");
	ck_assert_str_eq(p.settings[SETTING_RQ_AFFINITY], "0");
}
END_TEST

START_TEST(ours_are_the_prefix_and_the_two_function_keys)
{
	ck_assert(volume_param_is_ours("functionType"));
	ck_assert(volume_param_is_ours("hotplugFunction"));
	ck_assert(volume_param_is_ours(PARAM_FORMAT_POLICY));
	ck_assert(!volume_param_is_ours("policy"));
	ck_assert(!volume_param_is_ours("csi.storage.k8s.io/pvc/name"));
}
END_TEST

SUITE("volume_params", LOOP(keys_are_taken_or_refused_with_a_reason, ARRAY_LEN(rows)),
      a_virtiofs_volume_is_on_a_hot_plugged_pf_however_it_is_written,
      the_kind_is_known_before_the_keys_are_checked, an_empty_map_means_the_defaults,
      empty_function_keys_are_not_given, values_arrive_in_their_fields,
      ours_are_the_prefix_and_the_two_function_keys);
