/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RPC service: argument rules in the words of the CSI specification's tables, and one volume's
 * life in bytes.
 */
#include "test/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "csi/csi.pb-c.h"

#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "node/node_csi.h"
#include "test/lib/message_json.h"
#include "node/work/disk_record.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"

static const ProtobufCMethodDescriptor *method_of(const char *name)
{
	for (unsigned i = 0; i < csi__v1__node__descriptor.n_methods; i++)
		if (strcmp(csi__v1__node__descriptor.methods[i].name, name) == 0)
			return &csi__v1__node__descriptor.methods[i];
	ck_abort_msg("no method %s", name);
}

/*
 * One call, from JSON to JSON, through the bytes. Returns the code; *reply (may be NULL) is a new
 * root if it is OK.
 */
static enum err_code call_node(const struct rpc_service *service, const char *name,
                               const char *request, struct json **reply, struct err *err)
{
	char *path AUTO(free) = xasprintf("/csi.v1.Node/%s", name);
	const struct rpc_service *found;
	const struct rpc_method *method = rpc_find(service, 1, path, strlen(path), &found);
	struct arena arena = ARENA_INIT(0);
	ProtobufCMessage *message;
	struct json *j;
	uint8_t *out = NULL, *in;
	size_t n_in, n_out = 0;
	struct rpc_call call;

	ck_assert_msg(method != NULL, "%s", name);
	ck_assert_msg(json_parse("request", request, strlen(request), &j, err) == 0, "%s",
	              err->msg);
	ck_assert_msg(message_from_json(method_of(name)->input, j, &arena, &message, err) == 0,
	              "%s", err->msg);
	json_free(j);
	n_in = protobuf_c_message_get_packed_size(message);
	in = xmalloc(n_in + 1);
	protobuf_c_message_pack(message, in);
	rpc_call_init(&call, path);
	call.deadline = deadline_clamp(call.deadline, 30000);
	if (rpc_dispatch(service, method, &call, in, n_in, &out, &n_out, err) == 0 && reply) {
		ProtobufCMessage *answer =
			protobuf_c_message_unpack(method_of(name)->output, NULL, n_out, out);
		*reply = message_to_json(answer);
		protobuf_c_message_free_unpacked(answer, NULL);
	}
	rpc_call_clear(&call);
	arena_clear(&arena);
	free(in);
	free(out);
	return err->code;
}

#define CAP                                                                                  \
	"\"volume_capability\":{\"mount\":{\"fs_type\":\"ext4\"},\"access_mode\":{\"mode\":" \
	"\"SINGLE_NODE_WRITER\"}}"
#define RWX                                                              \
	"\"volume_capability\":{\"mount\":{},\"access_mode\":{\"mode\":" \
	"\"MULTI_NODE_MULTI_WRITER\"}}"
#define PUB "\"publish_context\":{\"nv-pciDeviceAddress\":\"26:00.7\",\"nv-nvmeNsID\":\"1\"}"

/* 512 bytes */
#define LONG_64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define LONG LONG_64 LONG_64 LONG_64 LONG_64 LONG_64 LONG_64 LONG_64 LONG_64

START_TEST(arguments_are_checked_first)
{
	static const struct {
		const char *method, *request;
		enum err_code code;
		const char *text;
	} rows[] = {
		{ "NodeStageVolume", "{}", ERR_INVALID, "VolumeId: field is required" },
		{ "NodeStageVolume", "{\"volume_id\":\"v\"}", ERR_INVALID,
		  "StagingTargetPath: field is required" },
		{ "NodeStageVolume", "{\"volume_id\":\"v\",\"staging_target_path\":\"/s\"}",
		  ERR_INVALID, "VolumeCapability: field is required" },
		{ "NodeStageVolume", "{\"volume_id\":\"v\",\"staging_target_path\":\"/s\"," CAP "}",
		  ERR_INVALID, "PublishContext.pciDeviceAddress: field is required" },
		{ "NodeStageVolume",
		  "{\"volume_id\":\"v\",\"staging_target_path\":\"/s\"," CAP
		  ",\"publish_context\":{\"nv-pciDeviceAddress\":\"26:00.1\"}}",
		  ERR_INVALID, "PublishContext.nvmeNsID: field is required" },
		{ "NodeStageVolume", "{\"volume_id\":\"a/b\",\"staging_target_path\":\"/s\"}",
		  ERR_INVALID, "has a slash" },
		{ "NodeStageVolume", "{\"volume_id\":\"..\",\"staging_target_path\":\"/s\"}",
		  ERR_INVALID, "is not a valid volume name" },
		{ "NodeStageVolume",
		  "{\"volume_id\":\"v\",\"staging_target_path\":\"/s\"," CAP "," PUB
		  ",\"volume_context\":{\"csi.snap.nvidia.com/formatPolicy\":\"yes\"}}",
		  ERR_INVALID, "VolumeContext: " },
		{ "NodeStageVolume",
		  "{\"volume_id\":\"v\",\"staging_target_path\":\"/s\"," CAP "," PUB
		  ",\"volume_context\":{\"csi.snap.nvidia.com/encryption\":\"luks2\"}}",
		  ERR_INVALID,
		  "Secrets: the volume is encrypted, but the request has no "
		  "encryption-passphrase; next: create a Secret" },
		{ "NodeStageVolume",
		  "{\"volume_id\":\"v\",\"staging_target_path\":\"/s\"," CAP "," PUB
		  ",\"secrets\":{\"encryption-passphrase\":\"" LONG "x\"}}",
		  ERR_INVALID, "Secrets: encryption-passphrase has 513 bytes, at most 512" },
		{ "NodeExpandVolume",
		  "{\"volume_id\":\"v\",\"volume_path\":\"/s\",\"secrets\":{\"encryption-passphrase\":"
		  "\"p\",\"encryption-passphrase-previous\":\"" LONG "y\"}}",
		  ERR_INVALID, "Secrets: encryption-passphrase-previous has 513 bytes" },
		{ "NodeStageVolume",
		  "{\"volume_id\":\"v\",\"staging_target_path\":\"/s\"," CAP "," PUB
		  ",\"volume_context\":{\"csi.snap.nvidia.com/emulation\":\"virtiofs\","
		  "\"functionType\":\"pf\",\"hotplugFunction\":\"true\"}}",
		  ERR_INVALID, "/emulation is virtiofs, but the publish context leads to nvme" },
		{ "NodeStageVolume",
		  "{\"volume_id\":\"v\",\"staging_target_path\":\"/s\"," RWX
		  ",\"publish_context\":{\"nv-pciDeviceAddress\":\"26:00.1\",\"nv-virtioFsTag\":"
		  "\"a/b\"}}",
		  ERR_INVALID, "PublishContext.virtioFSTag: \"a/b\" has a slash" },
		{ "NodeStageVolume",
		  "{\"volume_id\":\"v\",\"staging_target_path\":\"/s\",\"volume_capability\":{"
		  "\"mount\":{\"fs_type\":\"zfs\"},\"access_mode\":{\"mode\":\"SINGLE_NODE_WRITER\"}}," PUB
		  "}",
		  ERR_INVALID, "unsupported filesystem \"zfs\"" },
		{ "NodeStageVolume",
		  "{\"volume_id\":\"v\",\"staging_target_path\":\"/s\"," CAP "," PUB
		  ",\"volume_context\":{\"csi.storage.k8s.io/ephemeral\":\"true\"}}",
		  ERR_INVALID, "inline volumes are not supported" },
		{ "NodeStageVolume",
		  "{\"volume_id\":\"v\",\"staging_target_path\":\"/s\"," RWX "," PUB "}",
		  ERR_INVALID, "is not a cluster filesystem" },
		{ "NodePublishVolume",
		  "{\"volume_id\":\"v\",\"target_path\":\"/no/such/t\",\"staging_target_path\":\"/"
		  "no/such\"," RWX ",\"volume_context\":{\"csi.snap.nvidia.com/emulation\":"
		  "\"virtiofs\"}}",
		  ERR_PRECONDITION, "it is not staged" },
		{ "NodeUnstageVolume", "{}", ERR_INVALID, "VolumeId: field is required" },
		{ "NodeUnstageVolume", "{\"volume_id\":\"v\"}", ERR_INVALID,
		  "StagingTargetPath: field is required" },
		{ "NodeUnstageVolume", "{\"volume_id\":\"v\",\"staging_target_path\":\"/no/such\"}",
		  ERR_OK, "" },
		{ "NodePublishVolume", "{}", ERR_INVALID, "VolumeId: field is required" },
		{ "NodePublishVolume", "{\"volume_id\":\"v\"}", ERR_INVALID,
		  "TargetPath: field is required" },
		{ "NodePublishVolume", "{\"volume_id\":\"v\",\"target_path\":\"/t\"}", ERR_INVALID,
		  "VolumeCapability: field is required" },
		{ "NodePublishVolume", "{\"volume_id\":\"v\",\"target_path\":\"/t\"," CAP "}",
		  ERR_PRECONDITION, "StagingTargetPath: field is required" },
		{ "NodePublishVolume",
		  "{\"volume_id\":\"v\",\"target_path\":\"/t\"," CAP
		  ",\"volume_context\":{\"csi.storage.k8s.io/ephemeral\":\"true\"}}",
		  ERR_INVALID, "inline volumes are not supported" },
		{ "NodePublishVolume",
		  "{\"volume_id\":\"v\",\"target_path\":\"/no/such/t\",\"staging_target_path\":\"/"
		  "no/such\"," CAP "}",
		  ERR_PRECONDITION, "it is not staged" },
		{ "NodeUnpublishVolume", "{}", ERR_INVALID, "VolumeId: field is required" },
		{ "NodeUnpublishVolume", "{\"volume_id\":\"v\"}", ERR_INVALID,
		  "TargetPath: field is required" },
		{ "NodeUnpublishVolume", "{\"volume_id\":\"v\",\"target_path\":\"/no/such/t\"}",
		  ERR_OK, "" },
		{ "NodeGetVolumeStats", "{}", ERR_INVALID, "VolumeId: field is required" },
		{ "NodeGetVolumeStats", "{\"volume_id\":\"v\"}", ERR_INVALID,
		  "VolumePath: field is required" },
		{ "NodeGetVolumeStats", "{\"volume_id\":\"v\",\"volume_path\":\"some/path\"}",
		  ERR_NOT_FOUND, "no volume is staged or published at some/path" },
		{ "NodeExpandVolume", "{}", ERR_INVALID, "VolumeId: field is required" },
		{ "NodeExpandVolume", "{\"volume_id\":\"v\"}", ERR_INVALID,
		  "VolumePath: field is required" },
		{ "NodeExpandVolume", "{\"volume_id\":\"v\",\"volume_path\":\"some/path\"}",
		  ERR_NOT_FOUND, "no volume is staged or published at some/path" },
		{ "NodeExpandVolume",
		  "{\"volume_id\":\"v\",\"volume_path\":\"p\",\"capacity_range\":{\"required_"
		  "bytes\":-1}}",
		  ERR_INVALID, "a negative number of bytes" },
		{ "NodeExpandVolume",
		  "{\"volume_id\":\"v\",\"volume_path\":\"p\",\"capacity_range\":{\"required_"
		  "bytes\":2,"
		  "\"limit_bytes\":1}}",
		  ERR_INVALID, "more bytes required than allowed" },
	};
	struct keylock *locks = keylock_new();
	struct rpc_service service;
	struct node n;

	/* An empty host: nothing can be found. */
	node_init(&n, &(struct node_options) { .id = "n1",
	                                       .kubelet_dir = "/",
	                                       .world = { .sysfs = "/nonexistent",
	                                                  .dev = "/nonexistent",
	                                                  .vendors = &(struct strs)STRS_INIT,
	                                                  .snap_device_id = "6001" },
	                                       .proc_root = "/proc",
	                                       .plugin_dir = "/proc/nonexistent" });
	service = node_service(&n, locks);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;
		enum err_code code =
			call_node(&service, rows[i].method, rows[i].request, NULL, &err);

		ck_assert_msg(code == rows[i].code && strstr(err.msg, rows[i].text),
		              "%s %s: %s: %s", rows[i].method, rows[i].request, err_code_name(code),
		              err.msg);
	}
	node_clear(&n);
	keylock_free(locks);
}
END_TEST

START_TEST(what_the_node_can_do)
{
	struct keylock *locks = keylock_new();
	struct rpc_service service;
	struct node n;
	struct err err = ERR_INIT;
	struct json *reply AUTO(json_free) = NULL;
	char *text AUTO(free) = NULL;

	node_init(&n, &(struct node_options) { .id = "n1" });
	service = node_service(&n, locks);
	ck_assert_int_eq(call_node(&service, "NodeGetCapabilities", "{}", &reply, &err), ERR_OK);
	text = json_print(reply);
	ck_assert_str_eq(text, "{\"capabilities\":[{\"rpc\":{\"type\":\"STAGE_UNSTAGE_VOLUME\"}},"
	                       "{\"rpc\":{\"type\":\"GET_VOLUME_STATS\"}},"
	                       "{\"rpc\":{\"type\":\"EXPAND_VOLUME\"}},"
	                       "{\"rpc\":{\"type\":\"SINGLE_NODE_MULTI_WRITER\"}},"
	                       "{\"rpc\":{\"type\":\"GET_VOLUME_HEALTH\"}},"
	                       "{\"rpc\":{\"type\":\"GET_STORAGE_HEALTH\"}}]}");
	node_clear(&n);
	keylock_free(locks);
}
END_TEST

/* The requests that kubelet sends over a volume's life. */
struct life_requests {
	char *stage, *publish, *path, *unpublish, *unstage;
};

static struct life_requests life_requests(const struct node_world *w, const char *pci)
{
	char *common AUTO(free) = xasprintf(
		"\"volume_id\":\"pvc-1\",\"staging_target_path\":\"%s\"," CAP
		",\"publish_context\":{\"nv-pciDeviceAddress\":\"%s\",\"nv-nvmeNsID\":\"3\","
		"\"nv-nvmeUUID\":\"" UUID "\",\"csi.snap.nvidia.com/capacityBytes\":\"%llu\","
		"\"nv-volumeName\":\"pvc-1\"},\"secrets\":{\"password\":\"marker\"},"
		"\"volume_context\":{\"storagePolicyName\":\"gold\",\"functionType\":\"vf\","
		"\"storage.kubernetes.io/csiProvisionerIdentity\":\"x\","
		"\"csi.snap.nvidia.com/blockSize\":\"4096\"}",
		w->staging, pci, 64 * MIB);

	return (struct life_requests) {
		.stage = xasprintf("{%s}", common),
		.publish = xasprintf("{%s,\"target_path\":\"%s\"}", common, w->target),
		.path = xasprintf("{\"volume_id\":\"pvc-1\",\"volume_path\":\"%s\"}", w->target),
		.unpublish =
			xasprintf("{\"volume_id\":\"pvc-1\",\"target_path\":\"%s\"}", w->target),
		.unstage = xasprintf("{\"volume_id\":\"pvc-1\",\"staging_target_path\":\"%s\"}",
		                     w->staging),
	};
}

static void life_requests_clear(struct life_requests *r)
{
	free(r->stage);
	free(r->publish);
	free(r->path);
	free(r->unpublish);
	free(r->unstage);
}

static void check_replies(const struct json *info, const struct json *stats,
                          const struct json *size)
{
	struct err err = ERR_INIT;
	int64_t n = 0;

	ck_assert_str_eq(json_str(info, "node_id"), "n1");
	ck_assert_int_eq(json_get_i64(info, "max_volumes_per_node", &n, &err), 0);
	ck_assert_int_eq(n, 1);
	ck_assert_uint_eq(json_count(json_at(stats, "usage")), 2);
	ck_assert_str_eq(json_str(stats, "usage.0.unit"), "BYTES");
	ck_assert_str_eq(json_str(stats, "usage.1.unit"), "INODES");
	ck_assert_int_eq(json_get_i64(size, "capacity_bytes", &n, &err), 0);
	ck_assert_int_eq(n, (int64_t)(64 * MIB));
}

static void live(const struct rpc_service *service, const struct life_requests *r)
{
	struct json *info AUTO(json_free) = NULL, *stats AUTO(json_free) = NULL;
	struct json *size AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	const struct {
		const char *method, *request;
		struct json **reply;
	} life[] = {
		{ "NodeGetInfo", "{}", &info },
		{ "NodeStageVolume", r->stage, NULL },
		{ "NodePublishVolume", r->publish, NULL },
		{ "NodeGetVolumeStats", r->path, &stats },
		{ "NodeExpandVolume", r->path, &size },
		{ "NodeUnpublishVolume", r->unpublish, NULL },
		{ "NodeUnstageVolume", r->unstage, NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(life); i++)
		ck_assert_msg(call_node(service, life[i].method, life[i].request, life[i].reply,
		                        &err) == ERR_OK,
		              "%s: %s", life[i].method, err.msg);
	check_replies(info, stats, size);
}

START_TEST(a_volumes_life_in_bytes)
{
	struct keylock *locks = keylock_new();
	struct life_requests requests;
	struct rpc_service service;
	struct node_world w;
	struct nvme_disk *d;

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	d = nvme_world_add(&w.nvme, 3, UUID, 64 * MIB);
	service = node_service(&w.node, locks);
	requests = life_requests(&w, d->pci);
	live(&service, &requests);
	run_tool("dumpe2fs -h %s 2>/dev/null | grep -qE '^Block size: *4096$'", d->loop);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 0);
	life_requests_clear(&requests);
	keylock_free(locks);
	node_world_clear(&w);
}
END_TEST

START_TEST(the_attachment_of_the_publish_context_reaches_the_record)
{
	struct keylock *locks = keylock_new();
	struct rpc_service service;
	struct node_world w;
	struct err err = ERR_INIT;
	char *request AUTO(free) = NULL, *record AUTO(free) = NULL, *tools AUTO(free) = NULL;
	struct nvme_disk *d;

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	d = nvme_world_add(&w.nvme, 3, UUID, 64 * MIB);
	service = node_service(&w.node, locks);
	record = disk_record_path(&w.node, "pvc-1", DISK_RECORD_MKFS);
	tools = xasprintf("%s/tools", w.nvme.root);
	/* The record stays only if mkfs has written. */
	run_tool("mkdir %s && printf '#!/bin/sh\nfor d; do :; done; echo x >$d; exit 1\n' "
	         ">%s/mkfs.ext4 && chmod +x %s/mkfs.ext4",
	         tools, tools, tools);
	spawn_set_path(tools);
	request = xasprintf("{\"volume_id\":\"pvc-1\",\"staging_target_path\":\"%s\"," CAP
	                    ",\"publish_context\":{\"nv-pciDeviceAddress\":\"%s\","
	                    "\"nv-nvmeNsID\":\"3\","
	                    "\"csi.snap.nvidia.com/attachmentUID\":\"uid-7\"}}",
	                    w.staging, d->pci);
	ck_assert_int_eq(call_node(&service, "NodeStageVolume", request, NULL, &err), ERR_INTERNAL);
	spawn_set_path(NULL);
	run_tool("grep -qx attachment=uid-7 %s", record);
	keylock_free(locks);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_volume_that_is_worked_on_is_busy_but_may_be_measured)
{
	struct keylock *locks = keylock_new();
	struct keylock_hold *hold = NULL;
	struct rpc_service service;
	struct node n;
	struct err err = ERR_INIT;

	node_init(&n,
	          &(struct node_options) { .id = "n1", .kubelet_dir = "/", .proc_root = "/proc" });
	service = node_service(&n, locks);
	ck_assert_int_eq(keylock_take(locks, "v", "NodeStageVolume", &hold, &err), 0);
	ck_assert_int_eq(call_node(&service, "NodeUnstageVolume",
	                           "{\"volume_id\":\"v\",\"staging_target_path\":\"/no/such\"}",
	                           NULL, &err),
	                 ERR_ABORTED);
	err_clear(&err);
	ck_assert_int_eq(call_node(&service, "NodeGetVolumeStats",
	                           "{\"volume_id\":\"v\",\"volume_path\":\"some/path\"}", NULL,
	                           &err),
	                 ERR_NOT_FOUND);
	keylock_release(hold);
	node_clear(&n);
	keylock_free(locks);
}
END_TEST

/* ---- permitted paths ---- */

/* %K: kubelet's directory, %R: its parent folder. */
static char *filled(const struct node_world *w, const char *text)
{
	struct str s = STR_INIT(8192);

	for (const char *p = text; *p; p++)
		if (p[0] == '%' && p[1] == 'R')
			str_add(&s, w->nvme.root), p++;
		else if (p[0] == '%' && p[1] == 'K')
			str_addf(&s, "%s/kubelet", w->nvme.root), p++;
		else
			str_addn(&s, p, 1);
	return str_take(&s);
}

static const struct {
	const char *what, *path;
	enum err_code code; /* of unpublish; the other calls return the same if it is a refusal */
	const char *text;
} places[] = {
	{ "a tmpfs of somebody else", "%R/foreign/t", ERR_PRECONDITION,
	  "%R/foreign/t is not below %K (--kubelet-dir)" },
	{ "through ..", "%K/pods/../../foreign/t", ERR_INVALID, "has a component \"..\"" },
	{ "through a link", "%K/pods/away/t", ERR_PRECONDITION,
	  "%K/pods/away/t leads to %R/foreign/t, which is not below %K" },
	{ "through a dangling link", "%K/pods/nowhere/t", ERR_PRECONDITION,
	  "%K/pods/nowhere cannot be resolved" },
	{ "a link itself", "%K/pods/link", ERR_PRECONDITION, "%K/pods/link is a symbolic link" },
	{ "a neighbour with the same beginning", "%R/kubelet-2/t", ERR_PRECONDITION,
	  "is not below %K" },
	{ "kubelet's directory itself", "%K", ERR_PRECONDITION, "is not below %K" },
	{ "a path without a beginning", "foreign/t", ERR_INVALID, "is not absolute" },
	{ "kubelet's", "%K/pods/p/t", ERR_OK, "" },
	{ "through a link that stays inside", "%K/inside/p/t", ERR_OK, "" },
	{ "kubelet's directory by its other name", "%R/other-name/pods/p/t", ERR_OK, "" },
	{ "what another flag allows", "%R/nomad/t", ERR_OK, "" },
};

static char *request_with(const char *request, const char *path)
{
	const char *at = strstr(request, "%s");

	return xasprintf("%.*s%s%s", (int)(at - request), request, path, at + 2);
}

static void begin_places(struct node_world *w, struct strs *others)
{
	const char *r;

	node_world_init(w);
	r = w->nvme.root;
	run_tool(
		"cd %s && mkdir -p kubelet/pods foreign/t kubelet-2/t nomad && "
		"mount -t tmpfs foreign foreign/t && ln -s ../../foreign kubelet/pods/away && "
		"ln -s /no/such kubelet/pods/nowhere && ln -s ../../foreign/t kubelet/pods/link && "
		"ln -s pods kubelet/inside && ln -s kubelet other-name",
		r);
	strs_addf(others, "%s/nomad", r);
	w->node.o.volume_dirs = others;
}

START_TEST(only_paths_below_kubelets_directory_are_touched)
{
	static const char *const refused[][2] = {
		{ "NodeUnpublishVolume", "{\"volume_id\":\"v\",\"target_path\":\"%s\"}" },
		{ "NodeStageVolume",
		  "{\"volume_id\":\"v\",\"staging_target_path\":\"%s\"," CAP "," PUB "}" },
		{ "NodeUnstageVolume", "{\"volume_id\":\"v\",\"staging_target_path\":\"%s\"}" },
		{ "NodePublishVolume", "{\"volume_id\":\"v\",\"target_path\":\"%s\","
		                       "\"staging_target_path\":\"/var\"," CAP "}" },
		{ "NodePublishVolume", "{\"volume_id\":\"v\",\"staging_target_path\":\"%s\","
		                       "\"target_path\":\"/inside/x\"," CAP "}" },
		{ "NodeGetVolumeStats", "{\"volume_id\":\"v\",\"volume_path\":\"%s\"}" },
		{ "NodeExpandVolume", "{\"volume_id\":\"v\",\"volume_path\":\"%s\"}" },
	};
	struct keylock *locks = keylock_new();
	struct strs others AUTO(strs_clear) = STRS_INIT;
	struct rpc_service service;
	struct node_world w;
	char *path AUTO(free) = NULL, *text AUTO(free) = NULL;

	SKIP_UNLESS_ROOT("mounts");
	begin_places(&w, &others);
	strs_add(&others, "/inside");
	service = node_service(&w.node, locks);
	path = filled(&w, places[_i].path);
	text = filled(&w, places[_i].text);
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		bool reads = strstr(refused[i][1], "volume_path") != NULL;
		bool unpublish = str_eq(refused[i][0], "NodeUnpublishVolume");
		char *request AUTO(free) = request_with(refused[i][1], path);
		struct err err = ERR_INIT;
		enum err_code code;

		if (!unpublish && places[_i].code == ERR_OK)
			continue;
		code = call_node(&service, refused[i][0], request, NULL, &err);
		ck_assert_msg(code == (reads ? ERR_NOT_FOUND : places[_i].code), "%s: %s: %s: %s",
		              places[_i].what, refused[i][0], err_code_name(code), err.msg);
		if (!reads ||
		    !strstr(text, "symbolic link")) /* these do not access the mount at the path */
			ck_assert_msg(strstr(err.msg, text) != NULL, "%s: %s: %s", places[_i].what,
			              refused[i][0], err.msg);
	}
	run_tool("mountpoint -q %s/foreign/t && test -L %s/kubelet/pods/link", w.nvme.root,
	         w.nvme.root);
	keylock_free(locks);
	node_world_clear(&w);
}
END_TEST

SUITE("node_csi", LOOP(only_paths_below_kubelets_directory_are_touched, ARRAY_LEN(places)),
      arguments_are_checked_first, what_the_node_can_do, a_volumes_life_in_bytes,
      the_attachment_of_the_publish_context_reaches_the_record,
      a_volume_that_is_worked_on_is_busy_but_may_be_measured);
