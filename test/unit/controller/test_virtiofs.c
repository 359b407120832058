/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtio-fs through the controller's RPC handlers: volumes, attachments and publish contexts, mixed
 * with NVMe volumes, for volumes of every origin. The refusals of CreateVolume are in
 * test_create_errors.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/str.h"
#include "controller/attachment_index.h"
#include "test/lib/controller_door.h"
#include "test/lib/suite.h"
#include "test/unit/controller/kube_memory.h"

#define V "dpuvolumes"
#define A "dpuvolumeattachments"
#define OURS(key) "\"csi.snap.nvidia.com/" key "\":"
#define SHARE OURS("emulation") "\"virtiofs\""
#define BOUND                                                                                  \
	"{\"status\":{\"phase\":\"Bound\",\"state\":{\"selectedDPUStorageVendorName\":\"v1\"," \
	"\"volumeInfo\":{\"capacity\":{\"storage\":\"1Gi\"}}}}}"
#define CAP(mode) "{\"access_mode\":{\"mode\":\"" mode "\"},\"mount\":{\"fs_type\":\"ext4\"}}"
#define DPU(attrs) \
	"{\"status\":{\"dpuAttached\":true,\"dpu\":{\"pciAddress\":\"0000:26:00.0\"" attrs "}}}"
#define TAG ",\"virtioFSAttrs\":{\"filesystemTag\":\"tag-1\"}"
#define NSID ",\"nvmeAttrs\":{\"namespaceID\":1,\"namespaceUUID\":\"u\"}"

static struct controller c;
static struct keylock *locks;

static void setup(enum emulation by_default)
{
	fake_reset();
	c = (struct controller) {
		.namespace = FAKE_NS,
		.driver_name = "csi.snap.nvidia.com",
		.emulation = by_default,
	};
	locks = keylock_new();
	fake_put("dpunodes", "{\"metadata\":{\"name\":\"n1\"}}");
	fake_put("dpunodes", "{\"metadata\":{\"name\":\"n2\"}}");
	fake_put("dpunodes", "{\"metadata\":{\"name\":\"n3\"}}");
}

static void teardown(void)
{
	ck_assert_int_eq(fake.waits_open, 0);
	locks = keylock_free(locks);
	c.attachments = attachment_index_free(c.attachments);
	fake_reset();
}

static int create(const char *patch, struct json **reply, struct err *err)
{
	struct json *q AUTO(json_free) = fake_json(
		"{\"name\":\"pvc-1\",\"capacity_range\":{\"required_bytes\":1073741824},"
		"\"volume_capabilities\":[" CAP("SINGLE_NODE_WRITER") "],\"parameters\":{"
								      "\"policy\":\"gold\"}}");
	struct json *p AUTO(json_free) = fake_json(patch);

	json_merge_patch(q, p);
	return door_call(&c, locks, "CreateVolume", q, reply, err);
}

static int attach(const char *node, const char *mode, const char *patch, struct json **reply,
                  struct err *err)
{
	char *text AUTO(free) =
		xasprintf("{\"volume_id\":\"pvc-1\",\"node_id\":\"%s\",\"volume_capability\":{"
	                  "\"access_mode\":{\"mode\":\"%s\"},\"mount\":{\"fs_type\":\"ext4\"}}}",
	                  node, mode);
	struct json *q AUTO(json_free) = fake_json(text);
	struct json *p AUTO(json_free) = fake_json(patch);

	json_merge_patch(q, p);
	return door_call(&c, locks, "ControllerPublishVolume", q, reply, err);
}

static int detach(const char *node, struct err *err)
{
	char *text AUTO(free) = xasprintf("{\"volume_id\":\"pvc-1\",\"node_id\":\"%s\"}", node);
	struct json *q AUTO(json_free) = fake_json(text);

	return door_call(&c, locks, "ControllerUnpublishVolume", q, NULL, err);
}

static void same(const char *what, const struct json *got, const char *want)
{
	struct json *j AUTO(json_free) = fake_json(want);
	char *text AUTO(free) = got ? json_print(got) : NULL;

	ck_assert_msg(got && json_equal(got, j), "%s: got %s, want %s", what,
	              text ? text : "nothing", want);
}

/* A share of that name, by this driver, with those access modes. */
static void share(const char *modes)
{
	char *text AUTO(free) = xasprintf(
		"{\"metadata\":{\"name\":\"pvc-1\",\"labels\":{"
		"\"app.kubernetes.io/managed-by\":\"csi.snap.nvidia.com\"},"
		"\"annotations\":{" OURS("name") "\"pvc-1\"," OURS(
			"accessType") "\"mount\"}},"
				      "\"spec\":{\"dpuStoragePolicyName\":\"gold\",\"accessModes\":[%s],"
				      "\"volumeMode\":\"Filesystem\"}}",
		modes);

	fake_put(V, text);
	fake_change_text(V, "pvc-1", BOUND);
	fake.on_create = fake_json(DPU(TAG));
}

/* ---- create ---- */

#define SPEC(modes, size)                                                              \
	"{\"dpuStoragePolicyName\":\"gold\",\"parameters\":{},\"accessModes\":[" modes \
	"],\"resources\":{\"requests\":{\"storage\":\"" size "\"}},\"volumeMode\":\"Filesystem\"}"
#define CONTEXT "\"storagePolicyName\":\"gold\",\"storageVendorName\":\"v1\""

static const struct {
	const char *what;
	enum emulation by_default;
	const char *patch, *spec, *context;
} made[] = {
	{ "by the key", EMULATION_NVME, "{\"parameters\":{" SHARE "}}",
	  SPEC("\"ReadWriteOnce\"", "1Gi"), "{" CONTEXT "," SHARE "}" },
	/* Its StorageClasses have no key for the kind. */
	{ "by the flag of a site of the Go plugin", EMULATION_VIRTIOFS,
	  "{\"parameters\":{\"functionType\":\"PF\",\"hotplugFunction\":\"True\"}}",
	  SPEC("\"ReadWriteOnce\"", "1Gi"),
	  "{" CONTEXT ",\"functionType\":\"pf\",\"hotplugFunction\":\"true\"}" },
	{ "by the flag alone", EMULATION_VIRTIOFS, "{}", SPEC("\"ReadWriteOnce\"", "1Gi"),
	  "{" CONTEXT "}" },
	{ "for many writers", EMULATION_NVME,
	  "{\"parameters\":{" SHARE
	  "},\"volume_capabilities\":[" CAP("MULTI_NODE_MULTI_WRITER") "]}",
	  SPEC("\"ReadWriteMany\"", "1Gi"), NULL },
	{ "for one writer among many nodes", EMULATION_NVME,
	  "{\"parameters\":{" SHARE
	  "},\"volume_capabilities\":[" CAP("MULTI_NODE_SINGLE_WRITER") "]}",
	  SPEC("\"ReadWriteMany\"", "1Gi"), NULL },
	{ "for readers", EMULATION_NVME,
	  "{\"parameters\":{" SHARE
	  "},\"volume_capabilities\":[" CAP("MULTI_NODE_READER_ONLY") "]}",
	  SPEC("\"ReadOnlyMany\"", "1Gi"), NULL },
	{ "for a reader", EMULATION_NVME,
	  "{\"parameters\":{" SHARE
	  "},\"volume_capabilities\":[" CAP("SINGLE_NODE_READER_ONLY") "]}",
	  SPEC("\"ReadWriteOnce\"", "1Gi"), NULL },
	{ "for one pod", EMULATION_NVME,
	  "{\"parameters\":{" SHARE
	  "},\"volume_capabilities\":[" CAP("SINGLE_NODE_SINGLE_WRITER") "]}",
	  SPEC("\"ReadWriteOnce\"", "1Gi"), NULL },
	{ "for everything at once", EMULATION_NVME,
	  "{\"parameters\":{" SHARE
	  "},\"volume_capabilities\":[" CAP("SINGLE_NODE_MULTI_WRITER") "," CAP(
		  "MULTI_NODE_READER_ONLY") "," CAP("MULTI_NODE_MULTI_WRITER") "]}",
	  SPEC("\"ReadWriteOnce\",\"ReadOnlyMany\",\"ReadWriteMany\"", "1Gi"), NULL },
	/* No filesystem needs space of its own. */
	{ "of a few bytes", EMULATION_NVME,
	  "{\"parameters\":{" SHARE "},\"capacity_range\":{\"required_bytes\":4096}}",
	  SPEC("\"ReadWriteOnce\"", "4Ki"), NULL },
	{ "of no size", EMULATION_NVME, "{\"parameters\":{" SHARE "},\"capacity_range\":null}",
	  SPEC("\"ReadWriteOnce\"", "1Gi"), NULL },
};

START_TEST(a_share_is_made_and_made_only_once)
{
	struct json *first AUTO(json_free) = NULL, *again AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	struct fake_object *o;

	setup(made[_i].by_default);
	fake.on_create = fake_json(BOUND);
	ck_assert_msg(!create(made[_i].patch, &first, &err), "%s: %s", made[_i].what, err.msg);
	o = fake_find(V, "pvc-1");
	ck_assert_msg(o, "%s: no object", made[_i].what);
	same(made[_i].what, json_at(o->tree, "spec"), made[_i].spec);
	ck_assert_str_eq(json_text(json_member(json_at(o->tree, "metadata.annotations"),
	                                       "csi.snap.nvidia.com/functionType")),
	                 "pf");
	if (made[_i].context)
		same(made[_i].what, json_at(first, "volume.volume_context"), made[_i].context);
	ck_assert_msg(!create(made[_i].patch, &again, &err), "%s: %s", made[_i].what, err.msg);
	ck_assert(json_equal(first, again));
	ck_assert_int_eq(fake.deletes, 0);
	teardown();
}
END_TEST

/* The flag says virtio-fs; a class, a claim or an older volume says otherwise. */
START_TEST(the_kinds_are_kept_apart)
{
	static const struct {
		const char *what;
		enum emulation by_default;
		const char *first, *second;
		enum err_code code; /* of the second */
		const char *text;
	} rows[] = {
		{ "NVMe by the key where the flag says virtio-fs", EMULATION_VIRTIOFS,
		  "{\"parameters\":{" OURS("emulation") "\"nvme\"}}", NULL, ERR_OK, NULL },
		{ "a claim for raw block where the flag says virtio-fs", EMULATION_VIRTIOFS, NULL,
		  "{\"volume_capabilities\":[{\"access_mode\":{\"mode\":\"SINGLE_NODE_WRITER\"},"
		  "\"block\":{}}]}",
		  ERR_UNIMPLEMENTED, "VolumeCapabilities[0].Block is not supported" },
		{ "virtio-fs, and then NVMe", EMULATION_NVME, "{\"parameters\":{" SHARE "}}", "{}",
		  ERR_EXISTS, "volumeMode: have Filesystem, requested Block" },
		{ "NVMe, and then virtio-fs", EMULATION_NVME, "{}", "{\"parameters\":{" SHARE "}}",
		  ERR_EXISTS, "volumeMode: have Block, requested Filesystem" },
		{ "more modes than it was created with", EMULATION_VIRTIOFS, "{}",
		  "{\"volume_capabilities\":[" CAP("MULTI_NODE_MULTI_WRITER") "]}", ERR_EXISTS,
		  "accessModes: have ReadWriteOnce, requested ReadWriteMany" },
		{ "more room than it was created with", EMULATION_VIRTIOFS, "{}",
		  "{\"capacity_range\":{\"required_bytes\":2147483648}}", ERR_EXISTS,
		  "its size is 1073741824 (requested: at least 2147483648, limit 0)" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;

		setup(rows[i].by_default);
		fake.on_create = fake_json(BOUND);
		ck_assert_msg(!rows[i].first || !create(rows[i].first, NULL, &err), "%s: %s",
		              rows[i].what, err.msg);
		ck_assert_msg(!rows[i].second || create(rows[i].second, NULL, &err), "%s",
		              rows[i].what);
		ck_assert_msg(err.code == rows[i].code, "%s: %s", rows[i].what, err.msg);
		ck_assert_msg(!rows[i].text || strstr(err.msg, rows[i].text), "%s: %s",
		              rows[i].what, err.msg);
		ck_assert_int_eq(fake.deletes, 0);
		teardown();
	}
}
END_TEST

/* The image was replaced while the claim was pending: the sidecar's retry finds its volume. */
START_TEST(a_share_that_the_go_plugin_began_is_finished)
{
	struct json *reply AUTO(json_free) = NULL;
	struct err err = ERR_INIT;

	setup(EMULATION_VIRTIOFS);
	fake_put(V,
	         "{\"metadata\":{\"name\":\"pvc-1\"},\"spec\":{\"dpuStoragePolicyName\":\"gold\","
	         "\"parameters\":{\"csi.storage.k8s.io/pvc/name\":\"claim\"},\"accessModes\":["
	         "\"ReadWriteMany\"],\"resources\":{\"requests\":{\"storage\":\"1Gi\"}},"
	         "\"volumeMode\":\"Filesystem\"}}");
	fake_then(V, "pvc-1", BOUND);
	ck_assert_msg(
		!create("{\"volume_capabilities\":[" CAP(
				"MULTI_NODE_MULTI_WRITER") "],"
	                                                   "\"parameters\":{\"functionType\":\"pf\",\"hotplugFunction\":\"1\"}}",
	                &reply, &err),
		"%s", err.msg);
	same("context", json_at(reply, "volume.volume_context"),
	     "{" CONTEXT ",\"functionType\":\"pf\",\"hotplugFunction\":\"true\"}");
	ck_assert_int_eq(fake.deletes, 0);
	/* Its attachment, created by the Go plugin, is also accepted. */
	fake_put(A, "{\"metadata\":{\"name\":\"n1-pvc-1\"},\"spec\":{\"dpuVolumeName\":\"pvc-1\","
	            "\"dpuNodeName\":\"n1\",\"functionType\":\"pf\",\"hotplugFunction\":true}}");
	fake_change_text(A, "n1-pvc-1", DPU(TAG));
	ck_assert_msg(!attach("n1", "MULTI_NODE_MULTI_WRITER",
	                      "{\"volume_context\":{\"functionType\":\"pf\",\"hotplugFunction\":"
	                      "\"true\"}}",
	                      NULL, &err),
	              "%s", err.msg);
	ck_assert_uint_eq(fake.n_objects, 5);
	teardown();
}
END_TEST

/* The promise of a final refusal holds for a share, too: no object of ours is left. */
START_TEST(a_share_that_cannot_be_made_leaves_nothing)
{
	struct err err = ERR_INIT;

	setup(EMULATION_VIRTIOFS);
	fake.on_create = fake_json(
		"{\"status\":{\"phase\":\"Pending\",\"conditions\":[{\"type\":\"Scheduled\","
		"\"status\":\"False\",\"reason\":\"Failure\",\"message\":\"no capacity left\"}]}}");
	ck_assert_int_eq(create("{}", NULL, &err), -1);
	ck_assert_msg(err.code == ERR_EXHAUSTED, "%s", err.msg);
	ck_assert(!fake_find(V, "pvc-1"));
	teardown();
}
END_TEST

/* ---- attach ---- */

#define TOLD                                                                     \
	"\"nv-volumeName\":\"pvc-1\",\"nv-volumeAttachmentName\":\"n1-pvc-1\","  \
	"\"nv-pciDeviceAddress\":\"0000:26:00.0\",\"nv-virtioFsTag\":\"tag-1\"," \
	"\"csi.snap.nvidia.com/capacityBytes\":\"1073741824\""

START_TEST(the_node_is_told_the_tag)
{
	static const struct {
		const char *what, *status, *context;
	} rows[] = {
		{ "the least", DPU(TAG), "{" TOLD "}" },
		{ "with the VUID", DPU(TAG ",\"funcVUID\":\"MT2328\""),
		  "{" TOLD ",\"nv-funcVUID\":\"MT2328\"}" },
		{ "what the DPU shows of NVMe is not this volume's", DPU(TAG NSID), "{" TOLD "}" },
		{ "a vendor that names a namespace",
		  "{\"status\":{\"dpuAttached\":true,\"dpu\":{\"pciAddress\":\"0000:26:00.0\"" TAG
		  "},\"attachmentMetadata\":{\"nv-nvmeNsID\":\"1\",\"nv-nvmeUUID\":\"u\","
		  "\"nv-virtioFsTag\":\"x\",\"mine\":\"y\"}}}",
		  "{" TOLD ",\"mine\":\"y\"}" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct json *reply AUTO(json_free) = NULL, *want AUTO(json_free) = NULL;
		struct err err = ERR_INIT;
		char *text AUTO(free) = NULL;

		setup(EMULATION_NVME);
		share("\"ReadWriteMany\"");
		json_free(fake.on_create);
		fake.on_create = fake_json(rows[i].status);
		ck_assert_msg(!attach("n1", "MULTI_NODE_MULTI_WRITER", "{}", &reply, &err),
		              "%s: %s", rows[i].what, err.msg);
		want = fake_json(rows[i].context);
		json_set_str(want, "csi.snap.nvidia.com/attachmentUID",
		             json_str(fake_find(A, "n1-pvc-1")->tree, "metadata.uid"));
		text = json_print(want);
		same(rows[i].what, json_at(reply, "publish_context"), text);
		same(rows[i].what, json_at(fake_find(A, "n1-pvc-1")->tree, "spec"),
		     "{\"dpuNodeName\":\"n1\",\"dpuVolumeName\":\"pvc-1\",\"functionType\":\"pf\","
		     "\"hotplugFunction\":true}");
		teardown();
	}
}
END_TEST

START_TEST(a_status_without_the_device_of_its_kind_is_not_attached)
{
	static const struct {
		const char *what, *mode, *status, *why;
	} rows[] = {
		{ "no address", "Filesystem",
		  "{\"status\":{\"dpuAttached\":true,\"dpu\":{\"virtioFSAttrs\":{\"filesystemTag\":"
		  "\"t\"}}}}",
		  "status.dpu.pciAddress is missing; no conditions yet" },
		{ "nothing of virtio-fs", "Filesystem", DPU(""),
		  "status.dpu.virtioFSAttrs is missing; no conditions yet" },
		{ "no tag", "Filesystem", DPU(",\"virtioFSAttrs\":{}"),
		  "status.dpu.virtioFSAttrs.filesystemTag is missing; no conditions yet" },
		{ "an empty tag", "Filesystem", DPU(",\"virtioFSAttrs\":{\"filesystemTag\":\"\"}"),
		  "status.dpu.virtioFSAttrs.filesystemTag is missing; no conditions yet" },
		{ "a namespace for a share", "Filesystem", DPU(NSID),
		  "status.dpu.virtioFSAttrs is missing (the DPU shows an NVMe namespace, "
		  "status.dpu.nvmeAttrs, but the volume has volumeMode Filesystem); no conditions "
		  "yet" },
		{ "a tag for a disk", "Block", DPU(TAG),
		  "status.dpu.nvmeAttrs is missing (the DPU shows a virtio-fs device, "
		  "status.dpu.virtioFSAttrs, but the volume has volumeMode Block); no conditions "
		  "yet" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *want AUTO(free) = xasprintf(
			"timeout occurred while waiting for volume attachment: DPUVolumeAttachment "
			"dpf/n1-pvc-1 is not attached: %s",
			rows[i].why);
		char *mode AUTO(free) =
			xasprintf("{\"spec\":{\"volumeMode\":\"%s\"}}", rows[i].mode);
		struct err err = ERR_INIT;

		setup(EMULATION_VIRTIOFS);
		share("\"ReadWriteOnce\"");
		fake_change_text(V, "pvc-1", mode);
		json_free(fake.on_create);
		fake.on_create = fake_json(rows[i].status);
		ck_assert_int_eq(attach("n1", "SINGLE_NODE_WRITER", "{}", NULL, &err), -1);
		ck_assert_int_eq(err.code, ERR_DEADLINE);
		ROW_STR_EQ(rows[i].what, err.msg, want);
		/* It shows the right device, and the same call succeeds. */
		err_clear(&err);
		fake_change_text(A, "n1-pvc-1", DPU(TAG NSID));
		ck_assert_msg(!attach("n1", "SINGLE_NODE_WRITER", "{}", NULL, &err), "%s: %s",
		              rows[i].what, err.msg);
		teardown();
	}
}
END_TEST

static const struct refused {
	const char *what, *modes; /* of the volume */
	const char *mode, *patch;
	enum err_code code;
	const char *text;
} refused[] = {
	{ "raw block", "\"ReadWriteMany\"", "SINGLE_NODE_WRITER",
	  "{\"volume_capability\":{\"mount\":null,\"block\":{}}}", ERR_UNIMPLEMENTED,
	  "VolumeCapability.Block is not supported: a virtio-fs volume is a directory that the DPU "
	  "shares, not a disk; write volumeMode: Filesystem into the claim, or "
	  "csi.snap.nvidia.com/emulation: nvme into the StorageClass" },
	{ "a filesystem of a disk", "\"ReadWriteMany\"", "SINGLE_NODE_WRITER",
	  "{\"volume_capability\":{\"mount\":{\"fs_type\":\"btrfs\"}}}", ERR_INVALID,
	  "VolumeCapability.Mount.FsType: a virtio-fs volume is a directory that the DPU shares, "
	  "nothing is formatted as \"btrfs\"; write csi.storage.k8s.io/fstype: virtiofs into the "
	  "StorageClass (fsType of a PersistentVolume), or leave it out" },
	{ "many writers of what one node has", "\"ReadWriteOnce\"", "MULTI_NODE_MULTI_WRITER", "{}",
	  ERR_INVALID,
	  "VolumeCapability.AccessMode: volume pvc-1 has ReadWriteOnce, which does not allow "
	  "MULTI_NODE_MULTI_WRITER" },
	{ "many writers of what many read", "\"ReadOnlyMany\"", "MULTI_NODE_MULTI_WRITER", "{}",
	  ERR_INVALID,
	  "VolumeCapability.AccessMode: volume pvc-1 has ReadOnlyMany, which does not allow "
	  "MULTI_NODE_MULTI_WRITER" },
	{ "a writer of what many read", "\"ReadOnlyMany\"", "SINGLE_NODE_WRITER", "{}", ERR_INVALID,
	  "VolumeCapability.AccessMode: volume pvc-1 has ReadOnlyMany, which does not allow "
	  "SINGLE_NODE_WRITER" },
	{ "a VF", "\"ReadWriteOnce\"", "SINGLE_NODE_WRITER",
	  "{\"volume_context\":{\"functionType\":\"vf\",\"hotplugFunction\":\"false\"}}",
	  ERR_INVALID,
	  "invalid function type config: functionType: a virtio-fs volume is on a hot-plugged PF; "
	  "write functionType: pf, or leave it out" },
	{ "a context of the other kind", "\"ReadWriteOnce\"", "SINGLE_NODE_WRITER",
	  "{\"volume_context\":{\"csi.snap.nvidia.com/emulation\":\"nvme\",\"functionType\":\"vf\"}}",
	  ERR_INVALID,
	  "VolumeContext: csi.snap.nvidia.com/emulation is nvme, but volume pvc-1 has volumeMode "
	  "Filesystem, which is virtiofs; correct the PersistentVolume" },
};

START_TEST(a_share_is_not_attached_as_what_it_is_not)
{
	const struct refused *r = &refused[_i];
	struct err err = ERR_INIT;

	setup(EMULATION_NVME);
	share(r->modes);
	ck_assert_msg(attach("n1", r->mode, r->patch, NULL, &err), "%s", r->what);
	ck_assert_msg(err.code == r->code, "%s: %s", r->what, err.msg);
	ROW_STR_EQ(r->what, err.msg, r->text);
	ck_assert(!fake_find(A, "n1-pvc-1"));
	teardown();
}
END_TEST

/* ---- several nodes ---- */

/* With and without the index of attachments. */
START_TEST(what_many_may_have_is_on_three_nodes_at_once_and_leaves_them_in_any_order)
{
	static const struct {
		const char *what, *modes, *mode, *order[3];
	} rows[] = {
		{ "writers", "\"ReadWriteMany\"", "MULTI_NODE_MULTI_WRITER", { "n1", "n2", "n3" } },
		{ "readers", "\"ReadOnlyMany\"", "MULTI_NODE_READER_ONLY", { "n3", "n1", "n2" } },
		{ "readers of what may be written",
		  "\"ReadWriteMany\"",
		  "MULTI_NODE_READER_ONLY",
		  { "n2", "n3", "n1" } },
		/* external-attacher's mode for ReadWriteOnce together with ReadOnlyMany. */
		{ "a writer and readers",
		  "\"ReadWriteOnce\",\"ReadOnlyMany\"",
		  "MULTI_NODE_SINGLE_WRITER",
		  { "n3", "n2", "n1" } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;

		setup(EMULATION_NVME);
		share(rows[i].modes);
		if (_i)
			c.attachments = attachment_index_new(NULL, FAKE_NS, c.driver_name);
		for (size_t k = 0; k < 2; k++)
			for (size_t n = 0; n < 3; n++)
				ck_assert_msg(
					!attach(rows[i].order[n], rows[i].mode, "{}", NULL, &err),
					"%s: %s", rows[i].what, err.msg);
		for (size_t n = 0; n < 3; n++) {
			char *name AUTO(free) = xasprintf("%s-pvc-1", rows[i].order[(n + 1) % 3]);

			ck_assert(fake_find(A, name));
			ck_assert_int_eq(detach(rows[i].order[(n + 1) % 3], &err), 0);
			ck_assert(!fake_find(A, name));
		}
		teardown();
	}
}
END_TEST

START_TEST(what_one_node_may_have_is_on_one_node)
{
	struct err err = ERR_INIT;

	setup(EMULATION_NVME);
	share("\"ReadWriteOnce\"");
	if (_i)
		c.attachments = attachment_index_new(NULL, FAKE_NS, c.driver_name);
	ck_assert_msg(!attach("n1", "SINGLE_NODE_WRITER", "{}", NULL, &err), "%s", err.msg);
	ck_assert_int_eq(attach("n2", "SINGLE_NODE_SINGLE_WRITER", "{}", NULL, &err), -1);
	ck_assert_msg(err.code == ERR_PRECONDITION, "%s", err.msg);
	ck_assert(!fake_find(A, "n2-pvc-1"));
	err_clear(&err);
	ck_assert_int_eq(detach("n1", &err), 0);
	ck_assert_msg(!attach("n2", "SINGLE_NODE_MULTI_WRITER", "{}", NULL, &err), "%s", err.msg);
	teardown();
}
END_TEST

/* Two drivers: the other's attachment was created just before ours. */
START_TEST(the_later_of_two_drivers_gives_way_only_where_one_node_may_have_it)
{
	static const struct {
		const char *modes, *mode;
		bool both;
	} rows[] = {
		{ "\"ReadWriteMany\"", "MULTI_NODE_MULTI_WRITER", true },
		{ "\"ReadWriteMany\"", "SINGLE_NODE_WRITER", false },
		{ "\"ReadWriteOnce\"", "SINGLE_NODE_WRITER", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;

		setup(EMULATION_NVME);
		share(rows[i].modes);
		c.attachments = attachment_index_new(NULL, FAKE_NS, c.driver_name);
		fake.before_create[0] =
			"{\"metadata\":{\"name\":\"n2-pvc-1\"},\"spec\":{\"dpuVolumeName\":"
			"\"pvc-1\",\"dpuNodeName\":\"n2\",\"functionType\":\"pf\","
			"\"hotplugFunction\":true}}";
		ck_assert_msg(!attach("n1", rows[i].mode, "{}", NULL, &err) == rows[i].both,
		              "%s: %s", rows[i].mode, err.msg);
		ck_assert(!fake_find(A, "n1-pvc-1") == !rows[i].both);
		ck_assert(fake_find(A, "n2-pvc-1"));
		teardown();
	}
}
END_TEST

SUITE("virtiofs", LOOP(a_share_is_made_and_made_only_once, ARRAY_LEN(made)),
      the_kinds_are_kept_apart, a_share_that_the_go_plugin_began_is_finished,
      a_share_that_cannot_be_made_leaves_nothing, the_node_is_told_the_tag,
      a_status_without_the_device_of_its_kind_is_not_attached,
      LOOP(a_share_is_not_attached_as_what_it_is_not, ARRAY_LEN(refused)),
      LOOP(what_many_may_have_is_on_three_nodes_at_once_and_leaves_them_in_any_order, 2),
      LOOP(what_one_node_may_have_is_on_one_node, 2),
      the_later_of_two_drivers_gives_way_only_where_one_node_may_have_it);
