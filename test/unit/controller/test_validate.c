/* SPDX-License-Identifier: Apache-2.0 */
/* ValidateVolumeCapabilities confirms true capabilities, and names differences. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "test/lib/controller_door.h"
#include "test/lib/suite.h"
#include "test/unit/controller/kube_memory.h"

#define V "dpuvolumes"
#define CAPS(mode, type) \
	"\"volume_capabilities\":[{\"access_mode\":{\"mode\":\"" mode "\"},\"" type "\":{}}]"
#define RWO CAPS("SINGLE_NODE_WRITER", "mount")

static struct controller c = { .namespace = FAKE_NS, .driver_name = "csi.snap.nvidia.com" };

static void world(void)
{
	fake_reset();
	fake_put(V,
	         "{\"metadata\":{\"name\":\"ours\",\"annotations\":{\"csi.snap.nvidia.com/name\":"
	         "\"ours\",\"csi.snap.nvidia.com/accessType\":\"mount\","
	         "\"csi.snap.nvidia.com/functionType\":\"pf\",\"csi.snap.nvidia.com/"
	         "hotplugFunction\":"
	         "\"true\",\"csi.snap.nvidia.com/functionInContext\":\"true\","
	         "\"csi.snap.nvidia.com/formatPolicy\":\"never\"}},\"spec\":{"
	         "\"dpuStoragePolicyName\":\"gold\",\"parameters\":{\"pool\":\"p1\"},"
	         "\"accessModes\":[\"ReadWriteOnce\"],\"volumeMode\":\"Block\"},\"status\":{"
	         "\"phase\":"
	         "\"Bound\",\"state\":{\"selectedDPUStorageVendorName\":\"v1\"}}}");
	fake_put(V,
	         "{\"metadata\":{\"name\":\"theirs\"},\"spec\":{\"dpuStoragePolicyName\":\"gold\","
	         "\"parameters\":{\"pool\":\"p1\"},\"accessModes\":[\"ReadWriteOnce\","
	         "\"ReadWriteMany\"],\"volumeMode\":\"Block\"}}");
	fake_put(V,
	         "{\"metadata\":{\"name\":\"share\",\"annotations\":{\"csi.snap.nvidia.com/name\":"
	         "\"share\",\"csi.snap.nvidia.com/accessType\":\"mount\","
	         "\"csi.snap.nvidia.com/functionType\":\"pf\",\"csi.snap.nvidia.com/"
	         "hotplugFunction\":\"true\",\"csi.snap.nvidia.com/emulation\":\"virtiofs\"}},"
	         "\"spec\":{\"dpuStoragePolicyName\":\"gold\",\"accessModes\":[\"ReadWriteMany\"],"
	         "\"volumeMode\":\"Filesystem\"}}");
	fake_put(V, "{\"metadata\":{\"name\":\"theirshare\"},\"spec\":{\"dpuStoragePolicyName\":"
	            "\"gold\",\"accessModes\":[\"ReadWriteOnce\"]}}");
	fake_put(V, "{\"metadata\":{\"name\":\"going\",\"deletionTimestamp\":\"x\"},\"spec\":{"
	            "\"accessModes\":[\"ReadWriteOnce\"],\"volumeMode\":\"Block\"}}");
}

static const struct {
	const char *what, *request;
	enum err_code code;
	const char *text; /* of the error or the message; NULL: confirmed */
} rows[] = {
	{ "no volume", "{" RWO "}", ERR_INVALID, "VolumeId: field is required" },
	{ "no capabilities", "{\"volume_id\":\"ours\"}", ERR_INVALID,
	  "VolumeCapabilities: field is required" },
	{ "no access type",
	  "{\"volume_id\":\"ours\",\"volume_capabilities\":[{\"access_mode\":{\"mode\":1}}]}",
	  ERR_INVALID, "VolumeCapabilities[0].AccessType: field is required" },
	{ "an unknown volume", "{\"volume_id\":\"none\"," RWO "}", ERR_NOT_FOUND,
	  "volume not found: there is no DPUVolume dpf/none" },
	{ "one that cannot be", "{\"volume_id\":\"N one\"," RWO "}", ERR_NOT_FOUND,
	  "volume not found: there is no DPUVolume dpf/N one" },
	{ "a mode that it has", "{\"volume_id\":\"ours\"," RWO "}", ERR_OK, NULL },
	{ "one pod", "{\"volume_id\":\"ours\"," CAPS("SINGLE_NODE_SINGLE_WRITER", "mount") "}",
	  ERR_OK, NULL },
	{ "a mode that it has not",
	  "{\"volume_id\":\"ours\"," CAPS("MULTI_NODE_READER_ONLY", "mount") "}", ERR_OK,
	  "accessModes mismatch: the volume has ReadWriteOnce, which does not allow "
	  "MULTI_NODE_READER_ONLY" },
	{ "the other access type",
	  "{\"volume_id\":\"ours\"," CAPS("SINGLE_NODE_WRITER", "block") "}", ERR_OK,
	  "VolumeCapability.AccessType: volume ours was created for access type mount, not block" },
	{ "either access type, of a volume that does not say",
	  "{\"volume_id\":\"theirs\"," CAPS("MULTI_NODE_MULTI_WRITER", "block") "}", ERR_OK, NULL },
	{ "several nodes writing one filesystem",
	  "{\"volume_id\":\"theirs\"," CAPS("MULTI_NODE_MULTI_WRITER", "mount") "}", ERR_OK,
	  "VolumeCapabilities.AccessMode: MULTI_NODE_MULTI_WRITER needs a raw block volume "
	  "(volumeMode: Block): ext4 is not a cluster filesystem; writing to it while other nodes "
	  "have it mounted would destroy it" },
	{ "the real context",
	  "{\"volume_id\":\"ours\"," RWO ",\"volume_context\":{\"storagePolicyName\":\"gold\","
	  "\"storageVendorName\":\"v1\",\"functionType\":\"pf\",\"hotplugFunction\":\"true\","
	  "\"csi.snap.nvidia.com/formatPolicy\":\"never\","
	  "\"storage.kubernetes.io/csiProvisionerIdentity\":\"7\","
	  "\"csi.storage.k8s.io/pod.name\":\"x\"}}",
	  ERR_OK, NULL },
	{ "part of the real context",
	  "{\"volume_id\":\"ours\"," RWO ",\"volume_context\":{\"functionType\":\"pf\"}}", ERR_OK,
	  NULL },
	{ "another context",
	  "{\"volume_id\":\"ours\"," RWO ",\"volume_context\":{\"functionType\":\"vf\"}}", ERR_OK,
	  "volumeCtx mismatch: functionType is another" },
	{ "a context key that it has not",
	  "{\"volume_id\":\"ours\"," RWO ",\"volume_context\":{\"x\":\"y\"}}", ERR_OK,
	  "volumeCtx mismatch: x is not in the volume's context" },
	{ "function keys of a volume that does not say",
	  "{\"volume_id\":\"theirs\"," RWO ",\"volume_context\":{\"functionType\":\"pf\","
	  "\"hotplugFunction\":\"true\",\"csi.snap.nvidia.com/blockSize\":\"4096\"}}",
	  ERR_OK, NULL },
	{ "the StorageClass",
	  "{\"volume_id\":\"ours\"," RWO ",\"parameters\":{\"policy\":\"gold\",\"pool\":\"p1\","
	  "\"functionType\":\"PF\",\"hotplugFunction\":\"1\","
	  "\"csi.snap.nvidia.com/formatPolicy\":\"never\",\"csi.storage.k8s.io/fstype\":\"ext4\"}}",
	  ERR_OK, NULL },
	{ "another policy",
	  "{\"volume_id\":\"ours\"," RWO ",\"parameters\":{\"policy\":\"silver\","
	  "\"functionType\":\"PF\",\"hotplugFunction\":\"1\"}}",
	  ERR_OK, "parameters mismatch: policy is another" },
	{ "another function",
	  "{\"volume_id\":\"ours\"," RWO ",\"parameters\":{\"policy\":\"gold\"}}", ERR_OK,
	  "parameters mismatch: the volume is for functionType pf, hotplugFunction true" },
	{ "a vendor's key that it has not",
	  "{\"volume_id\":\"theirs\"," RWO ",\"parameters\":{\"x\":\"y\"}}", ERR_OK,
	  "parameters mismatch: x is not set" },
	{ "a key of ours that it has not",
	  "{\"volume_id\":\"ours\"," RWO ",\"parameters\":{\"functionType\":\"pf\","
	  "\"hotplugFunction\":\"true\",\"csi.snap.nvidia.com/blockSize\":\"4096\"}}",
	  ERR_OK, "parameters mismatch: csi.snap.nvidia.com/blockSize is not set" },
	{ "a key of ours, of a volume that does not say",
	  "{\"volume_id\":\"theirs\"," RWO
	  ",\"parameters\":{\"csi.snap.nvidia.com/blockSize\":\"4096\"}}",
	  ERR_OK, NULL },
	{ "another emulation",
	  "{\"volume_id\":\"theirs\"," RWO ",\"parameters\":{\"csi.snap.nvidia.com/emulation\":"
	  "\"virtiofs\",\"functionType\":\"pf\",\"hotplugFunction\":\"true\"}}",
	  ERR_OK, "volumeMode mismatch: the volume is emulated by nvme" },
	{ "a share for many writers",
	  "{\"volume_id\":\"share\"," CAPS("MULTI_NODE_MULTI_WRITER", "mount") "}", ERR_OK, NULL },
	{ "a share for many readers",
	  "{\"volume_id\":\"share\"," CAPS("MULTI_NODE_READER_ONLY", "mount") "}", ERR_OK, NULL },
	{ "a share for one pod",
	  "{\"volume_id\":\"share\"," CAPS("SINGLE_NODE_SINGLE_WRITER", "mount") "}", ERR_OK,
	  NULL },
	{ "a share for one node, of the Go plugin", "{\"volume_id\":\"theirshare\"," RWO "}",
	  ERR_OK, NULL },
	{ "the same for many writers",
	  "{\"volume_id\":\"theirshare\"," CAPS("MULTI_NODE_MULTI_WRITER", "mount") "}", ERR_OK,
	  "accessModes mismatch: the volume has ReadWriteOnce, which does not allow "
	  "MULTI_NODE_MULTI_WRITER" },
	{ "a share as raw block, of the Go plugin",
	  "{\"volume_id\":\"theirshare\"," CAPS("SINGLE_NODE_WRITER", "block") "}", ERR_OK,
	  "VolumeCapabilities.Block is not supported: a virtio-fs volume is a directory that the "
	  "DPU shares, not a disk; write volumeMode: Filesystem into the claim, or "
	  "csi.snap.nvidia.com/emulation: nvme into the StorageClass" },
	{ "the StorageClass of a share",
	  "{\"volume_id\":\"share\"," RWO ",\"parameters\":{\"policy\":\"gold\","
	  "\"csi.snap.nvidia.com/emulation\":\"virtiofs\"}}",
	  ERR_OK, NULL },
	{ "the same with the function that is its default",
	  "{\"volume_id\":\"share\"," RWO ",\"parameters\":{\"functionType\":\"PF\","
	  "\"hotplugFunction\":\"T\",\"csi.snap.nvidia.com/emulation\":\"virtiofs\"}}",
	  ERR_OK, NULL },
	{ "a share's own context",
	  "{\"volume_id\":\"share\"," RWO ",\"volume_context\":{"
	  "\"csi.snap.nvidia.com/emulation\":\"virtiofs\"}}",
	  ERR_OK, NULL },
	{ "a share that is to be NVMe",
	  "{\"volume_id\":\"theirshare\"," RWO ",\"parameters\":{\"csi.snap.nvidia.com/emulation\":"
	  "\"nvme\"}}",
	  ERR_OK, "volumeMode mismatch: the volume is emulated by virtiofs" },
	{ "a share on a VF",
	  "{\"volume_id\":\"theirshare\"," RWO ",\"parameters\":{\"functionType\":\"vf\"}}", ERR_OK,
	  "parameters mismatch: functionType: a virtio-fs volume is on a hot-plugged PF; write "
	  "functionType: pf, or leave it out" },
	{ "bad parameters",
	  "{\"volume_id\":\"ours\"," RWO ",\"parameters\":{\"functionType\":\"sf\"}}", ERR_OK,
	  "parameters mismatch: functionType: unsupported value sf, supported values are: vf, pf" },
	{ "mutable parameters",
	  "{\"volume_id\":\"ours\"," RWO ",\"mutable_parameters\":{\"a\":\"b\"}}", ERR_OK,
	  "mutable parameters are not supported" },
	{ "a volume on its way out", "{\"volume_id\":\"going\"," RWO "}", ERR_OK,
	  "the volume is being deleted" },
};

static void check_confirmed(const char *what, const struct json *q, const struct json *reply)
{
	static const char *const echoed[] = { "volume_capabilities", "volume_context",
		                              "parameters" };
	const struct json *confirmed = json_at(reply, "confirmed");

	ck_assert_msg(confirmed, "%s: %s", what, json_str(reply, "message"));
	for (size_t i = 0; i < ARRAY_LEN(echoed); i++) {
		const struct json *asked = json_at(q, echoed[i]);

		ck_assert_msg(!asked || json_equal(asked, json_at(confirmed, echoed[i])), "%s: %s",
		              what, echoed[i]);
	}
}

START_TEST(what_is_true_is_confirmed_and_what_is_not_is_told)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct json *q AUTO(json_free) = fake_json(rows[i].request),
			       *reply AUTO(json_free) = NULL;
		struct keylock *locks = keylock_new();
		struct err err = ERR_INIT;

		world();
		if (door_call(&c, locks, "ValidateVolumeCapabilities", q, &reply, &err)) {
			ck_assert_msg(err.code == rows[i].code, "%s: %s", rows[i].what, err.msg);
			ROW_STR_EQ(rows[i].what, err.msg, rows[i].text);
		} else if (rows[i].text) {
			ck_assert_msg(!json_at(reply, "confirmed"), "%s: confirmed", rows[i].what);
			ROW_STR_EQ(rows[i].what, json_str(reply, "message"), rows[i].text);
		} else {
			check_confirmed(rows[i].what, q, reply);
		}
		ck_assert_int_eq(fake.creates + fake.deletes + fake.lists, 0);
		keylock_free(locks);
	}
	fake_reset();
}
END_TEST

SUITE("validate", what_is_true_is_confirmed_and_what_is_not_is_told);
