/* SPDX-License-Identifier: Apache-2.0 */
/* DPUVolume, DPUVolumeAttachment and CSINode: decoding, encoding, refusals. */
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "dpf/dpu_attachment.h"
#include "dpf/dpu_node.h"
#include "dpf/dpu_volume.h"
#include "kube/kube_yaml.h"
#include "test/lib/suite.h"

static struct json *parse(const char *text)
{
	struct json *j = NULL;
	struct err err = ERR_INIT;

	ck_assert_msg(json_parse("test", text, strlen(text), &j, &err) == 0, "%s", err.msg);
	return j;
}

START_TEST(a_volume_is_read_field_by_field)
{
	struct json *j AUTO(json_free) = parse(
		"{\"metadata\":{\"name\":\"v\",\"uid\":\"u\",\"labels\":{\"a/b\":\"c\"},"
		"\"annotations\":{\"d.e/f\":\"g\"},\"deletionTimestamp\":\"x\"},\"spec\":{"
		"\"dpuStoragePolicyName\":\"p\",\"parameters\":{\"k\":\"w\"},\"accessModes\":["
		"\"ReadWriteMany\",\"ReadWriteOnce\",\"Future\"],\"resources\":{\"requests\":{"
		"\"storage\":\"1.5Gi\"},\"limits\":{\"storage\":3221225472}},\"volumeMode\":"
		"\"Block\"},"
		"\"status\":{\"phase\":\"Bound\",\"state\":{\"selectedDPUStorageVendorName\":\"x\","
		"\"storageVendorPluginName\":\"y\",\"volumeInfo\":{\"capacity\":{\"storage\":"
		"\"2Gi\"}}}}}");
	struct dpu_volume v;
	struct err err = ERR_INIT;

	ck_assert_int_eq(dpu_volume_decode(j, &v, &err), 0);
	ck_assert_str_eq(v.name, "v");
	ck_assert_str_eq(v.uid, "u");
	ck_assert(v.deleting && v.block && dpu_volume_is_bound(&v));
	ck_assert_str_eq(json_text(json_member(v.labels, "a/b")), "c");
	ck_assert_str_eq(json_text(json_member(v.annotations, "d.e/f")), "g");
	ck_assert_str_eq(json_text(json_member(v.parameters, "k")), "w");
	ck_assert_str_eq(v.policy, "p");
	ck_assert_uint_eq(v.access_modes, DPU_READ_WRITE_MANY | DPU_READ_WRITE_ONCE);
	ck_assert_int_eq(v.requested, 1610612736);
	ck_assert_int_eq(v.limit, 3221225472);
	ck_assert_int_eq(v.capacity, 2147483648);
	ck_assert_str_eq(v.vendor, "x");
	ck_assert_str_eq(v.vendor_plugin, "y");
}
END_TEST

START_TEST(an_empty_volume_is_unknown_in_everything)
{
	struct json *j AUTO(json_free) = parse("{}");
	struct dpu_volume v;
	struct err err = ERR_INIT;

	ck_assert_int_eq(dpu_volume_decode(j, &v, &err), 0);
	ck_assert_str_eq(v.name, "");
	ck_assert(!v.deleting && !v.block && !dpu_volume_is_bound(&v) && !v.labels);
	ck_assert_int_eq(v.capacity, 0);
}
END_TEST

START_TEST(a_volume_of_wrong_types_is_not_acted_upon)
{
	static const struct {
		const char *text, *error;
	} rows[] = {
		{ "{\"status\":{\"phase\":1}}", "status.phase: is not a string" },
		{ "{\"spec\":{\"parameters\":[]}}", "spec.parameters: is not an object" },
		{ "{\"spec\":{\"parameters\":{\"a\":1}}}",
		  "spec.parameters: member a is not a string" },
		{ "{\"spec\":{\"resources\":{\"requests\":{\"storage\":\"many\"}}}}",
		  "spec.resources.requests.storage: \"many\" is not a quantity" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct json *j AUTO(json_free) = parse(rows[i].text);
		struct dpu_volume v;
		struct err err = ERR_INIT;

		ck_assert_int_eq(dpu_volume_decode(j, &v, &err), -1);
		ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
		ROW_STR_EQ(rows[i].text, err.msg, rows[i].error);
	}
}
END_TEST

/* The remaining fields of such an object are still used. */
START_TEST(a_wrong_type_hides_no_other_member)
{
	struct json *j AUTO(json_free) = parse(
		"{\"metadata\":{\"labels\":7,\"annotations\":null,\"name\":\"v\",\"uid\":\"u\","
		"\"deletionTimestamp\":\"x\"},\"spec\":{\"functionType\":[],\"dpuNodeName\":"
		"\"n\",\"dpuVolumeName\":\"w\",\"parameters\":{\"a\":1}},\"status\":\"odd\"}");
	struct dpu_attachment a;
	struct dpu_volume v;
	struct err err = ERR_INIT;

	ck_assert_int_eq(dpu_volume_decode(j, &v, &err), -1);
	ck_assert_str_eq(err.msg, "metadata.labels: is not an object");
	ck_assert_str_eq(v.name, "v");
	ck_assert_str_eq(v.uid, "u");
	ck_assert(v.deleting && !v.labels && !v.parameters);
	err_clear(&err);
	ck_assert_int_eq(dpu_attachment_decode(j, &a, &err), -1);
	ck_assert_str_eq(a.key.name, "v");
	ck_assert_str_eq(a.key.node, "n");
	ck_assert(a.key.deleting && !*a.function_type);
}
END_TEST

START_TEST(a_volume_that_was_written_is_read_the_same)
{
	static const struct kv kv[] = { { "k", "v" } };
	struct dpu_volume_spec spec = {
		.policy = "p",
		.parameters = { kv, 1 },
		.access_modes = DPU_READ_ONLY_MANY | DPU_READ_WRITE_ONCE,
		.requested = 1000000007,
		.limit = 9007199254740993,
		.block = true,
	};
	struct json *j AUTO(json_free) = dpu_volume_encode("v", &spec);
	struct dpu_volume v;
	struct err err = ERR_INIT;
	char buf[64];

	ck_assert_int_eq(dpu_volume_decode(j, &v, &err), 0);
	ck_assert_str_eq(v.policy, "p");
	ck_assert_str_eq(json_text(json_member(v.parameters, "k")), "v");
	ck_assert_str_eq(dpu_access_modes_text(v.access_modes, buf), "ReadWriteOnce, ReadOnlyMany");
	ck_assert_int_eq(v.requested, 1000000007);
	ck_assert_int_eq(v.limit, 9007199254740993);
	ck_assert(v.block);
}
END_TEST

START_TEST(an_attachment_is_read_field_by_field)
{
	struct json *j AUTO(json_free) = parse(
		"{\"metadata\":{\"name\":\"a\",\"uid\":\"u\"},\"spec\":{\"dpuNodeName\":\"n\","
		"\"dpuVolumeName\":\"v\",\"functionType\":\"pf\",\"hotplugFunction\":true},"
		"\"status\":{"
		"\"dpuAttached\":true,\"message\":\"m\",\"attachmentMetadata\":{\"k\":\"w\"},"
		"\"dpu\":{"
		"\"pciAddress\":\"26:0c.1\",\"funcVUID\":\"F\",\"nvmeAttrs\":{\"namespaceID\":7,"
		"\"namespaceUUID\":\"x\"},\"virtioFSAttrs\":{\"filesystemTag\":\"t\"}}}}");
	struct dpu_attachment a;
	struct err err = ERR_INIT;

	ck_assert_int_eq(dpu_attachment_decode(j, &a, &err), 0);
	ck_assert_str_eq(a.key.name, "a");
	ck_assert_str_eq(a.key.node, "n");
	ck_assert_str_eq(a.key.volume, "v");
	ck_assert_str_eq(a.function_type, "pf");
	ck_assert(a.hotplug && a.attached && a.has_dpu && a.has_nvme && a.has_virtiofs);
	ck_assert_str_eq(a.message, "m");
	ck_assert_str_eq(json_text(json_member(a.metadata, "k")), "w");
	ck_assert_str_eq(a.pci_address, "26:0c.1");
	ck_assert_str_eq(a.func_vuid, "F");
	ck_assert_int_eq(a.nvme_nsid, 7);
	ck_assert_str_eq(a.nvme_uuid, "x");
	ck_assert_str_eq(a.virtiofs_tag, "t");
}
END_TEST

START_TEST(the_attachment_limit_is_that_of_the_driver)
{
	struct json *j AUTO(json_free) =
		parse("{\"spec\":{\"drivers\":[{\"name\":\"a\",\"allocatable\":{\"count\":3}},"
	              "{\"name\":\"b\"},{\"name\":\"c\",\"allocatable\":{\"count\":-1}},7]}}");

	ck_assert_int_eq(csi_node_limit(j, "a"), 3);
	ck_assert_int_eq(csi_node_limit(j, "b"), 0);
	ck_assert_int_eq(csi_node_limit(j, "c"), 0);
	ck_assert_int_eq(csi_node_limit(j, "d"), 0);
	ck_assert_int_eq(csi_node_limit(NULL, "a"), 0);
}
END_TEST

/* A value of another type counts as absent. */
START_TEST(a_dpu_counts_for_its_node_whatever_else_is_wrong_with_it)
{
	static const char *const dpus[] = {
		"{\"metadata\":{\"annotations\":7},\"spec\":{\"dpuNodeName\":\"n\"}}",
		"{\"metadata\":{\"annotations\":{\"storage.nvidia.com/preferred-dpu\":\"false\"}},"
		"\"spec\":{\"dpuNodeName\":\"n\"}}",
		"{\"spec\":{\"dpuNodeName\":7}}",
		"{\"spec\":7}",
		"7",
	};
	struct dpu_count n = { .node = "n" };

	ck_assert(!dpu_count_is_usable(&n));
	for (size_t i = 0; i < ARRAY_LEN(dpus); i++) {
		struct json *j AUTO(json_free) = parse(dpus[i]);

		dpu_count_add(&n, j);
		ck_assert(dpu_count_is_usable(&n));
	}
	ck_assert_uint_eq(n.all, 2);
	ck_assert_uint_eq(n.preferred, 1);
	ck_assert_uint_eq(n.going, 0);
}
END_TEST

/* ---- another version of the API ---- */

/* The schema of the first version of a CRD. */
static struct json *schema_of_crd(const char *file)
{
	char *path AUTO(free) = xasprintf("test/kube/crds/%s", file), *text AUTO(free) = NULL;
	struct json *crd AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	size_t n = 0;

	ck_assert_msg(file_read(path, 1 << 20, &text, &n, &err) == 0, "%s", err.msg);
	ck_assert_msg(kube_yaml_parse_object(path, text, n, &crd, &err) == 0, "%s", err.msg);
	json_foreach (version, json_at(crd, "spec.versions"))
		return json_copy(json_at(version, "schema.openAPIV3Schema"));
	return NULL;
}

#define VOLUMES "dpuvolumes.yaml", &dpu_volume_kind
#define ATTACHMENTS "dpuvolumeattachments.yaml", &dpu_attachment_kind

static const struct {
	const char *crd;
	const struct kube_kind *kind;
	const char *in, *removed, *added; /* a field, or a type */
	const char *lacks;                /* "": nothing */
} schemas[] = {
	{ VOLUMES, "properties.spec.properties", "none", NULL, "" },
	{ ATTACHMENTS, "properties.spec.properties", "none", NULL, "" },
	{ VOLUMES, "properties.spec.properties", "accessModes", NULL,
	  "spec.accessModes is missing" },
	{ VOLUMES, "properties.spec.properties.parameters", "type", "string",
	  "spec.parameters has another type" },
	{ VOLUMES, "properties.spec.properties.resources.properties", "limits", NULL,
	  "spec.resources.limits.storage is missing" },
	{ VOLUMES, "properties.status.properties", "conditions", NULL,
	  "status.conditions is missing" },
	{ ATTACHMENTS, "properties.spec.properties", "dpuNodeName", NULL,
	  "spec.dpuNodeName is missing" },
	{ ATTACHMENTS, "properties.status.properties.dpuAttached", "type", "string",
	  "status.dpuAttached has another type" },
	{ ATTACHMENTS, "properties.status.properties.dpu.properties", "pciAddress", NULL,
	  "status.dpu.pciAddress is missing" },
	{ ATTACHMENTS, "properties", "status", NULL, "status.dpuAttached is missing" },
};

START_TEST(a_version_is_used_when_its_schema_has_each_field)
{
	struct json *schema AUTO(json_free) = schema_of_crd(schemas[_i].crd);
	struct str lacks AUTO(str_clear) = STR_INIT(400);
	struct json *in = json_at_mut(schema, schemas[_i].in);
	bool serves;

	ck_assert_ptr_nonnull(in);
	json_remove(in, schemas[_i].removed);
	if (schemas[_i].added)
		json_set_str(in, schemas[_i].removed, schemas[_i].added);
	serves = schemas[_i].kind->serves(schema, &lacks);
	ck_assert_int_eq(serves, !*schemas[_i].lacks);
	ck_assert_msg(strstr(lacks.ptr, schemas[_i].lacks) && (!serves || !lacks.len), "%s",
	              lacks.ptr);
}
END_TEST

SUITE("dpu_kinds", LOOP(a_version_is_used_when_its_schema_has_each_field, ARRAY_LEN(schemas)),
      a_wrong_type_hides_no_other_member, a_volume_is_read_field_by_field,
      an_empty_volume_is_unknown_in_everything, a_volume_of_wrong_types_is_not_acted_upon,
      a_volume_that_was_written_is_read_the_same, an_attachment_is_read_field_by_field,
      the_attachment_limit_is_that_of_the_driver,
      a_dpu_counts_for_its_node_whatever_else_is_wrong_with_it);
