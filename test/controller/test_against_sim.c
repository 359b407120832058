/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller with its real Kubernetes client against snap-sim: the life of a volume, the cost
 * of each operation, its answer and remains when the API server or DPF misbehaves, many operations
 * at once, and cancellation.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/str.h"
#include "dpf/dpu_attachment.h"
#include "dpf/dpu_node.h"
#include "dpf/dpu_volume.h"
#include "controller/attachment_index.h"
#include "controller/attachment_lists.h"
#include "controller/node_cache.h"
#include "controller/ready.h"
#include "controller/volume.h"
#include "kube/kube_priv.h"
#include "test/lib/controller_door.h"
#include "test/lib/sim_process.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

static struct controller c;
static struct keylock *locks;

/* NULL: the defaults. Set by a test; the next start resets it. */
static const struct kube_tuning *tuning;

static void tune(void)
{
	char *config AUTO(free) = xasprintf("%s/kubeconfig", sim.dir);
	struct kube_options o = { .kubeconfig = config, .user_agent = "snap-csi/test" };
	struct err err = ERR_INIT;

	sim.kube = kube_free(sim.kube);
	ck_assert_msg(kube_new_tuned(&o, tuning, &sim.kube, &err) == 0, "%s", err.msg);
	tuning = NULL;
}

static void start_with(const char *const *options)
{
	sim_start(options);
	if (tuning)
		tune();
	c = (struct controller) {
		.kube = sim.kube,
		.namespace = SIM_NS,
		.driver_name = "csi.snap.nvidia.com",
		.wait_timeout_ms = 10000,
	};
	c.attachments = attachment_index_new(c.kube, c.namespace, c.driver_name);
	c.node_cache = node_cache_new();
	c.lists = attachment_lists_new();
	locks = keylock_new();
}

static void start(void)
{
	start_with(NULL);
}

static void stop(void)
{
	locks = keylock_free(locks);
	sim_stop();
	c.attachments = attachment_index_free(c.attachments);
	c.node_cache = node_cache_free(c.node_cache);
	c.lists = attachment_lists_free(c.lists);
}

static struct json *parse(const char *text)
{
	struct json *j = NULL;
	struct err err = ERR_INIT;

	ck_assert_msg(json_parse("test", text, strlen(text), &j, &err) == 0, "%s: %s", text,
	              err.msg);
	return j;
}

static int call(const char *method, const char *request, struct json **ret, struct err *err)
{
	struct json *q AUTO(json_free) = parse(request);

	return door_call(&c, locks, method, q, ret, err);
}

static void succeeds(const char *method, const char *request)
{
	struct err err = ERR_INIT;

	ck_assert_msg(call(method, request, NULL, &err) == 0, "%s %s: %s %s", method, request,
	              err_code_name(err.code), err.msg);
}

#define CAP "{\"access_mode\":{\"mode\":\"SINGLE_NODE_WRITER\"},\"mount\":{\"fs_type\":\"ext4\"}}"
#define CREATE(name)                                                                \
	"{\"name\":\"" name "\",\"capacity_range\":{\"required_bytes\":1073741824," \
	"\"limit_bytes\":2147483648},\"volume_capabilities\":[" CAP                 \
	"],\"parameters\":{\"policy\":\"example-policy\"}}"
#define PUBLISH(name, node) \
	"{\"volume_id\":\"" name "\",\"node_id\":\"" node "\",\"volume_capability\":" CAP "}"
#define UNPUBLISH(name, node) "{\"volume_id\":\"" name "\",\"node_id\":\"" node "\"}"
#define DELETE(name) "{\"volume_id\":\"" name "\"}"

static bool exists(const struct kube_kind *kind, const char *name, bool *going)
{
	struct json *object AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	int rc = kube_get(sim.kube, kind, SIM_NS, name, wait_limit(), &object, &err);

	ck_assert_msg(rc >= 0, "%s", err.msg);
	*going = object && json_at(object, "metadata.deletionTimestamp");
	return rc == 0;
}

static bool dpu_has_failed_condition(void)
{
	struct json *object AUTO(json_free) = NULL;
	char *text AUTO(free) = NULL;
	struct err err = ERR_INIT;

	ck_assert_msg(kube_get(sim.kube, &dpu_kind, SIM_NS, "n1-0000-26-00", wait_limit(), &object,
	                       &err) == 0,
	              "%s", err.msg);
	text = json_print(object);
	return strstr(text, "\"status\":\"False\"") != NULL;
}

/*
 * Sets the fault. DPF writes the condition of a DPU later, and an attachment that DPF processes
 * before that is attached.
 */
static void fault_in_effect(const char *fault)
{
	sim_fault(fault);
	if (strstr(fault, "dpu-not-ready"))
		WAIT_UNTIL(dpu_has_failed_condition());
}

static void costs(const char *what, const char *want)
{
	char *text AUTO(free) = sim_requests();
	struct json *got AUTO(json_free) = parse(text), *expected AUTO(json_free) = parse(want);

	ck_assert_msg(json_equal(got, expected), "%s costs %s, not %s", what, text, want);
}

/* ---- the life of a volume ---- */

START_TEST(a_volume_lives_from_create_to_delete)
{
	struct json *reply AUTO(json_free) = NULL, *told AUTO(json_free) = NULL;
	const struct json *context;
	struct err err = ERR_INIT;
	bool going;

	start();
	/* The first call of each kind starts its watch. */
	succeeds("CreateVolume", CREATE("first"));
	succeeds("ControllerPublishVolume", PUBLISH("first", "n2"));
	sim_settle();

	ck_assert_msg(call("CreateVolume", CREATE("pvc-1"), &reply, &err) == 0, "%s", err.msg);
	costs("CreateVolume", "{\"create\":{\"dpuvolumes\":1}}");
	ck_assert_str_eq(json_str(reply, "volume.volume_id"), "pvc-1");
	succeeds("CreateVolume", CREATE("pvc-1"));
	costs("a retry", "{\"create\":{\"dpuvolumes\":1},\"get\":{\"dpuvolumes\":1}}");

	ck_assert_msg(call("ControllerPublishVolume", PUBLISH("pvc-1", "n1"), &told, &err) == 0,
	              "%s", err.msg);
	costs("the first Publish to a node", "{\"get\":{\"dpuvolumes\":1,\"dpunodes\":1},"
	                                     "\"list\":{\"dpus\":1},"
	                                     "\"create\":{\"dpuvolumeattachments\":1}}");
	context = json_at(told, "publish_context");
	ck_assert_str_eq(json_text(json_member(context, "nv-volumeName")), "pvc-1");
	ck_assert_str_eq(json_text(json_member(context, "nv-volumeAttachmentName")), "n1-pvc-1");
	ck_assert_ptr_nonnull(json_member(context, "nv-pciDeviceAddress"));
	ck_assert_ptr_nonnull(json_member(context, "nv-nvmeNsID"));
	ck_assert_str_eq(json_text(json_member(context, "csi.snap.nvidia.com/capacityBytes")),
	                 "1073741824");

	succeeds("ValidateVolumeCapabilities",
	         "{\"volume_id\":\"pvc-1\",\"volume_capabilities\":[" CAP "]}");
	ck_assert_int_eq(call("ControllerPublishVolume", PUBLISH("pvc-1", "n2"), NULL, &err), -1);
	ck_assert_int_eq(err.code, ERR_PRECONDITION);
	err_clear(&err);
	ck_assert_int_eq(call("DeleteVolume", DELETE("pvc-1"), NULL, &err), -1);
	ck_assert_int_eq(err.code, ERR_PRECONDITION);
	free(sim_requests());

	succeeds("ControllerUnpublishVolume", UNPUBLISH("pvc-1", "n1"));
	costs("Unpublish", "{\"delete\":{\"dpuvolumeattachments\":1}}");
	ck_assert(!exists(&dpu_attachment_kind, "n1-pvc-1", &going));
	succeeds("ControllerUnpublishVolume", UNPUBLISH("pvc-1", "n1"));
	free(sim_requests());
	succeeds("ControllerPublishVolume", PUBLISH("pvc-1", "n1"));
	costs("Publish", "{\"get\":{\"dpuvolumes\":1},\"create\":{\"dpuvolumeattachments\":1}}");
	succeeds("ControllerUnpublishVolume", UNPUBLISH("pvc-1", "n1"));
	free(sim_requests());
	succeeds("DeleteVolume", DELETE("pvc-1"));
	costs("DeleteVolume", "{\"get\":{\"dpuvolumes\":1},\"delete\":{\"dpuvolumes\":1}}");
	ck_assert(!exists(&dpu_volume_kind, "pvc-1", &going));
	succeeds("DeleteVolume", DELETE("pvc-1"));
	stop();
}
END_TEST

/* ---- versions of the API ---- */

static void serve_versions(const char *list)
{
	char *body AUTO(free) = xasprintf("{\"versions\":[%s]}", list);

	free(sim_http("POST", "/sim/versions", body));
}

START_TEST(a_volume_lives_on_when_dpf_serves_another_version)
{
	struct json *reply AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	bool going;

	start();
	succeeds("CreateVolume", CREATE("pvc-1"));
	succeeds("ControllerPublishVolume", PUBLISH("pvc-1", "n1"));
	serve_versions("\"v1beta1\"");
	succeeds("ControllerUnpublishVolume", UNPUBLISH("pvc-1", "n1"));
	succeeds("ControllerPublishVolume", PUBLISH("pvc-1", "n2"));
	serve_versions("\"v1beta1\",\"v1alpha1\"");
	succeeds("CreateVolume", CREATE("pvc-2"));
	serve_versions("\"v1alpha1\"");
	succeeds("ControllerUnpublishVolume", UNPUBLISH("pvc-1", "n2"));
	succeeds("DeleteVolume", DELETE("pvc-1"));
	ck_assert(!exists(&dpu_volume_kind, "pvc-1", &going));
	ck_assert_msg(call("ListVolumes", "{}", &reply, &err) == 0, "%s", err.msg);
	stop();
}
END_TEST

START_TEST(a_dpf_with_both_versions_is_used_in_the_known_one)
{
	static const char *const both[] = { "--storage-version", "v1beta1", "--storage-version",
		                            "v1alpha1", NULL };

	start_with(both);
	succeeds("CreateVolume", CREATE("pvc-1"));
	succeeds("ControllerPublishVolume", PUBLISH("pvc-1", "n1"));
	serve_versions("\"v1alpha1\"");
	succeeds("ControllerUnpublishVolume", UNPUBLISH("pvc-1", "n1"));
	stop();
}
END_TEST

START_TEST(a_version_without_a_field_is_refused_and_changes_nothing)
{
	static const char *const other[] = { "--storage-version", "v2-accessModes", NULL };
	struct err err = ERR_INIT, ready = ERR_INIT;
	bool going;

	start_with(other);
	ck_assert_int_eq(call("CreateVolume", CREATE("pvc-1"), NULL, &err), -1);
	/* Not final: it cannot be read either whether an earlier POST has created the volume. */
	ck_assert_msg(err.code == ERR_UNAVAILABLE &&
	                      strstr(err.msg, "v2: spec.accessModes is missing; expected v1alpha1"),
	              "%s", err.msg);
	ck_assert_int_eq(controller_check_api(&c, wait_limit(), &ready), -1);
	ck_assert_msg(strstr(ready.msg, "v2: spec.accessModes is missing"), "%s", ready.msg);
	serve_versions("\"v1alpha1\"");
	ck_assert(!exists(&dpu_volume_kind, "pvc-1", &going));
	ck_assert_int_eq(controller_check_api(&c, wait_limit(), &ready), 0);
	stop();
}
END_TEST

START_TEST(unpublish_from_all_nodes_leaves_none)
{
	static const char block[] = "{\"volume_id\":\"pvc-1\",\"node_id\":\"%s\",\"volume_"
				    "capability\":{\"access_mode\":{"
				    "\"mode\":\"MULTI_NODE_MULTI_WRITER\"},\"block\":{}}}";
	static const char *const nodes[] = { "n1", "n2" };
	bool going;

	start();
	succeeds("CreateVolume",
	         "{\"name\":\"pvc-1\",\"volume_capabilities\":[{\"access_mode\":{\"mode\":"
	         "\"MULTI_NODE_MULTI_WRITER\"},\"block\":{}}],\"parameters\":{\"policy\":"
	         "\"example-policy\"}}");
	for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
		char *request AUTO(free) = xasprintf(block, nodes[i]);

		succeeds("ControllerPublishVolume", request);
	}
	free(sim_requests());
	succeeds("ControllerUnpublishVolume", UNPUBLISH("pvc-1", ""));
	costs("Unpublish from all nodes", "{\"get\":{\"dpuvolumeattachments\":2},\"delete\":{"
	                                  "\"dpuvolumeattachments\":2}}");
	ck_assert(!exists(&dpu_attachment_kind, "n1-pvc-1", &going));
	ck_assert(!exists(&dpu_attachment_kind, "n2-pvc-1", &going));
	stop();
}
END_TEST

/* ---- virtio-fs ---- */

#define SHARED(mode) \
	"{\"access_mode\":{\"mode\":\"" mode "\"},\"mount\":{\"fs_type\":\"virtiofs\"}}"
#define SHARE                                                                                       \
	"{\"name\":\"pvc-1\",\"capacity_range\":{\"required_bytes\":4096},\"volume_capabilities\":" \
	"[" SHARED("MULTI_NODE_MULTI_WRITER") "],\"parameters\":{\"policy\":\"example-policy\","    \
					      "\"csi.snap.nvidia.com/emulation\":\"virtiofs\"}}"
#define ATTACH_SHARE(node)                             \
	"{\"volume_id\":\"pvc-1\",\"node_id\":\"" node \
	"\",\"volume_capability\":" SHARED("MULTI_NODE_MULTI_WRITER") "}"

static void start_with_slots(void)
{
	static const char *const options[] = { "--hotplug-slots=2", NULL };

	start_with(options);
}

/* ---- the scenarios of DPF's examples ---- */

/*
 * The volume of a claim in each scenario for trusted clusters, by the name of the scenario's folder.
 * Those for non-trusted hosts are in test/e2e/host.sh.
 */
static const struct {
	const char *folder;
	enum emulation emulation; /* --emulation-mode of the installation */
	const char *parameters, *capability;
	const char *function, *key; /* of the attachment; of the publish context */
	const char *refused;        /* in the error of CreateVolume, or NULL */
} scenarios[] = {
	{ "nvme-vf-on-static-pf", EMULATION_NVME,
	  "\"functionType\":\"vf\",\"hotplugFunction\":\"false\"", CAP, "vf", "nv-nvmeNsID", NULL },
	{ "nvme-hotplug-pf", EMULATION_NVME, "\"functionType\":\"pf\",\"hotplugFunction\":\"true\"",
	  "{\"access_mode\":{\"mode\":\"SINGLE_NODE_WRITER\"},\"block\":{}}", "pf", "nv-nvmeNsID",
	  NULL },
	{ "virtiofs-hotplug-pf", EMULATION_VIRTIOFS,
	  "\"functionType\":\"pf\",\"hotplugFunction\":\"true\"", SHARED("MULTI_NODE_MULTI_WRITER"),
	  "pf", "nv-virtioFsTag", NULL },
	/* Without --emulation-mode=virtiofs its StorageClass does not name the kind. */
	{ "virtiofs-hotplug-pf", EMULATION_NVME,
	  "\"functionType\":\"pf\",\"hotplugFunction\":\"true\"", SHARED("SINGLE_NODE_WRITER"),
	  NULL, NULL, "csi.snap.nvidia.com/emulation: virtiofs" },
	/* DPF supports it for non-trusted hosts only. */
	{ "nvme-static-pf", EMULATION_NVME, "\"functionType\":\"pf\",\"hotplugFunction\":\"false\"",
	  CAP, NULL, NULL, "DPF supports static PFs on hosts outside the cluster only" },
};

START_TEST(a_scenario_of_a_trusted_cluster_ends_in_a_volume_or_a_refusal)
{
	char *create AUTO(free) = xasprintf(
		"{\"name\":\"s-1\",\"capacity_range\":{\"required_bytes\":1073741824},"
		"\"volume_capabilities\":[%s],\"parameters\":{\"policy\":\"example-policy\",%s}}",
		scenarios[_i].capability, scenarios[_i].parameters);
	struct json *reply AUTO(json_free) = NULL, *told AUTO(json_free) = NULL;
	struct json *attachment AUTO(json_free) = NULL;
	char *publish AUTO(free) = NULL, *context AUTO(free) = NULL;
	struct err err = ERR_INIT;

	start_with_slots();
	c.emulation = scenarios[_i].emulation;
	if (scenarios[_i].refused) {
		ck_assert_int_eq(call("CreateVolume", create, NULL, &err), -1);
		ck_assert_msg(strstr(err.msg, scenarios[_i].refused) != NULL, "%s: %s",
		              scenarios[_i].folder, err.msg);
		stop();
		return;
	}
	ck_assert_msg(call("CreateVolume", create, &reply, &err) == 0, "%s: %s",
	              scenarios[_i].folder, err.msg);
	context = json_print(json_at(reply, "volume.volume_context"));
	publish = xasprintf("{\"volume_id\":\"s-1\",\"node_id\":\"n1\",\"volume_capability\":%s,"
	                    "\"volume_context\":%s}",
	                    scenarios[_i].capability, context);
	ck_assert_msg(call("ControllerPublishVolume", publish, &told, &err) == 0, "%s: %s",
	              scenarios[_i].folder, err.msg);
	ck_assert_ptr_nonnull(json_member(json_at(told, "publish_context"), scenarios[_i].key));
	ck_assert_int_eq(kube_get(sim.kube, &dpu_attachment_kind, SIM_NS, "n1-s-1", wait_limit(),
	                          &attachment, &err),
	                 0);
	ck_assert_str_eq(json_str(attachment, "spec.functionType"), scenarios[_i].function);
	stop();
}
END_TEST

/* ---- virtio-fs on several nodes ---- */

START_TEST(a_share_lives_on_every_node_beside_a_disk)
{
	struct json *told AUTO(json_free) = NULL;
	const struct json *context;
	struct err err = ERR_INIT;
	bool going;

	start_with_slots();
	succeeds("CreateVolume", CREATE("disk"));
	succeeds("ControllerPublishVolume", PUBLISH("disk", "n1"));
	sim_settle();
	succeeds("CreateVolume", SHARE);
	costs("CreateVolume", "{\"create\":{\"dpuvolumes\":1}}");
	succeeds("CreateVolume", SHARE);
	succeeds("ControllerPublishVolume", ATTACH_SHARE("n1"));
	ck_assert_msg(!call("ControllerPublishVolume", ATTACH_SHARE("n2"), &told, &err), "%s",
	              err.msg);
	succeeds("ControllerPublishVolume", ATTACH_SHARE("n1"));
	context = json_at(told, "publish_context");
	ck_assert_ptr_nonnull(json_member(context, "nv-virtioFsTag"));
	ck_assert_ptr_nonnull(json_member(context, "nv-pciDeviceAddress"));
	ck_assert_ptr_null(json_member(context, "nv-nvmeNsID"));
	succeeds("ValidateVolumeCapabilities",
	         "{\"volume_id\":\"pvc-1\",\"volume_capabilities\":[" SHARED(
			 "MULTI_NODE_READER_ONLY") "]}");
	/* In the order of their creation. */
	succeeds("ControllerUnpublishVolume", UNPUBLISH("pvc-1", "n1"));
	ck_assert(exists(&dpu_attachment_kind, "n2-pvc-1", &going));
	ck_assert_int_eq(call("DeleteVolume", DELETE("pvc-1"), NULL, &err), -1);
	ck_assert_msg(err.code == ERR_PRECONDITION, "%s", err.msg);
	succeeds("ControllerPublishVolume", ATTACH_SHARE("n1"));
	free(sim_requests());
	succeeds("ControllerUnpublishVolume", UNPUBLISH("pvc-1", ""));
	costs("Unpublish from all nodes", "{\"get\":{\"dpuvolumeattachments\":2},\"delete\":{"
	                                  "\"dpuvolumeattachments\":2}}");
	succeeds("DeleteVolume", DELETE("pvc-1"));
	ck_assert(!exists(&dpu_volume_kind, "pvc-1", &going));
	ck_assert(exists(&dpu_volume_kind, "disk", &going));
	stop();
}
END_TEST

static const struct tag_row {
	const char *what, *fault;
	enum err_code code;
	const char *text;
	int wait_ms;
} tag_rows[] = {
	{ "no tag", "{\"dpf\":\"missing\",\"value\":\"dpu.virtioFSAttrs.filesystemTag\"}",
	  ERR_DEADLINE, "is not attached: status.dpu.virtioFSAttrs.filesystemTag is missing",
	  1500 },
	{ "nothing of virtio-fs", "{\"dpf\":\"missing\",\"value\":\"dpu.virtioFSAttrs\"}",
	  ERR_DEADLINE, "is not attached: status.dpu.virtioFSAttrs is missing", 1500 },
	{ "a tag that is late",
	  "{\"dpf\":\"late\",\"value\":\"dpu.virtioFSAttrs.filesystemTag\",\"ms\":300}", ERR_OK,
	  NULL, 5000 },
	{ "the address of a booting host first", "{\"dpf\":\"pci-zero-first\",\"ms\":300}", ERR_OK,
	  NULL, 5000 },
	{ "the function is not plugged in",
	  "{\"dpf\":\"attachment-never-ready\",\"text\":\"no port is free\"}", ERR_DEADLINE,
	  "no port is free", 1500 },
};

START_TEST(a_share_is_attached_once_the_dpu_has_told_its_tag)
{
	const struct tag_row *r = &tag_rows[_i];
	struct err err = ERR_INIT;

	start_with_slots();
	succeeds("CreateVolume", SHARE);
	sim_fault(r->fault);
	c.wait_timeout_ms = r->wait_ms;
	IGNORE_RESULT(call("ControllerPublishVolume", ATTACH_SHARE("n1"), NULL, &err));
	ck_assert_msg(err.code == r->code, "%s: %s %s", r->what, err_code_name(err.code), err.msg);
	ck_assert_msg(!r->text || strstr(err.msg, r->text), "%s: %s", r->what, err.msg);
	sim_heal();
	c.wait_timeout_ms = WAIT_LIMIT_MS;
	succeeds("ControllerPublishVolume", ATTACH_SHARE("n1"));
	succeeds("ControllerUnpublishVolume", UNPUBLISH("pvc-1", "n1"));
	stop();
}
END_TEST

/* Like the Go plugin: without labels, on a VF. */
static void attach_as_the_go_plugin(const char *volume, const char *node)
{
	char *name AUTO(free) = xasprintf("%s-%s", node, volume);
	struct json *made AUTO(json_free) = NULL;
	struct json *object AUTO(json_free) =
		dpu_attachment_encode(name, node, volume, false, false);
	struct err err = ERR_INIT;

	ck_assert_msg(kube_create(sim.kube, &dpu_attachment_kind, SIM_NS, object, wait_limit(),
	                          &made, &err) == 0,
	              "%s", err.msg);
}

START_TEST(attachments_without_our_labels_count_like_ours)
{
	struct err err = ERR_INIT;
	bool going;

	start();
	succeeds("CreateVolume", CREATE("pvc-1"));
	attach_as_the_go_plugin("pvc-1", "n2");
	ck_assert_int_eq(call("ControllerPublishVolume", PUBLISH("pvc-1", "n1"), NULL, &err), -1);
	ck_assert_msg(err.code == ERR_PRECONDITION && strstr(err.msg, "n2-pvc-1"), "%s", err.msg);
	err_clear(&err);
	ck_assert_int_eq(call("DeleteVolume", DELETE("pvc-1"), NULL, &err), -1);
	ck_assert_msg(err.code == ERR_PRECONDITION, "%s", err.msg);
	succeeds("ControllerPublishVolume", PUBLISH("pvc-1", "n2"));
	succeeds("ControllerUnpublishVolume", UNPUBLISH("pvc-1", ""));
	ck_assert(!exists(&dpu_attachment_kind, "n2-pvc-1", &going));
	succeeds("ControllerPublishVolume", PUBLISH("pvc-1", "n1"));
	stop();
}
END_TEST

/*
 * The watch delivers nothing, and the driver has not noticed: the index says that the volume is not
 * attached, so the deletion begins. DPF keeps the volume while an attachment names it.
 */
START_TEST(an_attachment_of_others_that_the_watch_keeps_back_keeps_the_volume)
{
	struct err err = ERR_INIT;
	bool going;

	start();
	succeeds("CreateVolume", CREATE("pvc-1"));
	succeeds("ControllerPublishVolume", PUBLISH("pvc-1", "n1"));
	succeeds("ControllerUnpublishVolume", UNPUBLISH("pvc-1", "n1"));
	sim_fault("{\"resource\":\"dpuvolumeattachments\",\"muteWatch\":true}");
	attach_as_the_go_plugin("pvc-1", "n2");
	c.wait_timeout_ms = 1000;
	ck_assert_int_eq(call("DeleteVolume", DELETE("pvc-1"), NULL, &err), -1);
	ck_assert_msg(err.code == ERR_DEADLINE && strstr(err.msg, "volume is attached"), "%s",
	              err.msg);
	err_clear(&err);
	ck_assert(exists(&dpu_volume_kind, "pvc-1", &going));
	ck_assert(exists(&dpu_attachment_kind, "n2-pvc-1", &going) && !going);
	ck_assert_int_eq(kube_delete(sim.kube, &dpu_attachment_kind, SIM_NS, "n2-pvc-1", NULL,
	                             wait_limit(), &err),
	                 0);
	c.wait_timeout_ms = WAIT_LIMIT_MS;
	succeeds("DeleteVolume", DELETE("pvc-1"));
	ck_assert(!exists(&dpu_volume_kind, "pvc-1", &going));
	stop();
}
END_TEST

/* ---- faults ---- */

/* A condition with the reason Failure, which DPF defines, but its storage controllers do not use. */
#define FAILURE(what) "\"dpf\":\"" what "-failure\",\"value\":\"Failure\""
#define VENDOR_FULL "{\"dpf\":\"volume-failure\"}"

enum left { NOTHING, OBJECT, GOING };
#define RC(verb, more) "{\"verb\":\"" verb "\",\"resource\":\"dpuvolumes\"," more "}"

static const struct fault_row {
	const char *what, *method, *fault;
	enum err_code code;
	const char *text; /* part of it */
	enum left left;   /* of the volume, or of the attachment for Publish and Unpublish */
	int wait_ms;
} rows[] = {
	{ "429 twice, then fine", "CreateVolume", RC("create", "\"times\":2,\"status\":429"),
	  ERR_OK, NULL, OBJECT, 5000 },
	{ "500 once, then fine", "CreateVolume", RC("create", "\"times\":1,\"status\":500"), ERR_OK,
	  NULL, OBJECT, 5000 },
	{ "made, but the answer lost", "CreateVolume",
	  RC("create", "\"times\":1,\"status\":500,\"applied\":true"), ERR_OK, NULL, OBJECT, 5000 },
	{ "the connection cut in the answer", "CreateVolume",
	  RC("create", "\"times\":1,\"cut\":true"), ERR_OK, NULL, OBJECT, 5000 },
	{ "the watch dropped", "CreateVolume",
	  "[{\"resource\":\"dpuvolumes\",\"dropWatch\":true,\"times\":1}]", ERR_OK, NULL, OBJECT,
	  5000 },
	{ "the watch expired", "CreateVolume",
	  "[{\"resource\":\"dpuvolumes\",\"expireWatch\":true,\"times\":1}]", ERR_OK, NULL, OBJECT,
	  5000 },
	{ "the watch refused for a moment", "CreateVolume",
	  "[{\"resource\":\"dpuvolumes\",\"dropWatch\":true,\"times\":1},"
	  "{\"verb\":\"watch\",\"resource\":\"dpuvolumes\",\"status\":503,\"times\":2}]",
	  ERR_OK, NULL, OBJECT, 8000 },
	{ "403 for POST", "CreateVolume", RC("create", "\"status\":403"), ERR_PERMISSION, "create",
	  NOTHING, 5000 },
	{ "422 for POST", "CreateVolume", RC("create", "\"status\":422"), ERR_INVALID, "pvc-1",
	  NOTHING, 5000 },
	{ "401 for everything", "CreateVolume", "{\"resource\":\"dpuvolumes\",\"status\":401}",
	  ERR_UNAVAILABLE, "could not determine", NOTHING, 2000 },
	{ "503 for every POST", "CreateVolume", RC("create", "\"status\":503"), ERR_UNAVAILABLE,
	  "injected", NOTHING, 1500 },
	/* 500 ms end the first three attempts, whose result says more than the fourth one's. */
	{ "503 for three POSTs, no answer to the fourth", "CreateVolume",
	  "[" RC("create", "\"status\":503,\"times\":3") "," RC("create", "\"hang\":true") "]",
	  ERR_UNAVAILABLE, "injected", NOTHING, 500 },
	{ "volumes are not served, but their API group is", "CreateVolume",
	  "{\"resource\":\"dpuvolumes\",\"unserved\":true}", ERR_UNAVAILABLE, "could not determine",
	  NOTHING, 5000 },
	{ "no answer to the POST", "CreateVolume", RC("create", "\"hang\":true"), ERR_DEADLINE,
	  "pvc-1", NOTHING, 1500 },
	{ "403 for the watch", "CreateVolume",
	  "[{\"resource\":\"dpuvolumes\",\"dropWatch\":true,\"times\":1},"
	  "{\"verb\":\"watch\",\"resource\":\"dpuvolumes\",\"status\":403},"
	  "{\"dpf\":\"volume-never-bound\"}]",
	  ERR_PERMISSION, "watch", NOTHING, 5000 },
	{ "never bound", "CreateVolume", "{\"dpf\":\"volume-never-bound\"}", ERR_DEADLINE,
	  "is not bound (phase Pending)", OBJECT, 1500 },
	{ "DPF has an error", "CreateVolume", "{\"dpf\":\"volume-error\",\"text\":\"no PVC\"}",
	  ERR_DEADLINE, "DPUVolumeReconciled=False (Error: no PVC)", OBJECT, 1500 },
	{ "a DPU cluster is unreachable", "CreateVolume", "{\"dpf\":\"cluster-unreachable\"}",
	  ERR_DEADLINE, "is not bound (phase Pending)", OBJECT, 1500 },
	{ "vendor full", "CreateVolume", VENDOR_FULL, ERR_EXHAUSTED,
	  "; Event ProvisioningFailed: Event from PVC dpf/pvc-1-pvc in cluster dpf/dpu-cplane-tenant1: "
	  "failed to provision volume with StorageClass \"example-storage-class\": rpc error: "
	  "code = ResourceExhausted desc = no space left on lvstore",
	  NOTHING, 3000 },
	{ "the vendor fails", "CreateVolume",
	  "{\"dpf\":\"volume-failure\",\"text\":\"code = Internal desc = no pool\"}", ERR_DEADLINE,
	  "code = Internal desc = no pool", OBJECT, 3000 },
	{ "vendor full, and Events may not be listed", "CreateVolume",
	  "[" VENDOR_FULL ",{\"verb\":\"list\",\"resource\":\"events\",\"status\":403}]",
	  ERR_DEADLINE, "the driver is not permitted to list events in namespace dpf", OBJECT,
	  1500 },
	{ "vendor full, and the object stays", "CreateVolume",
	  "[" VENDOR_FULL ",{\"dpf\":\"volume-finalizer-stuck\"}]", ERR_ABORTED,
	  "DPUVolume dpf/pvc-1 is being removed because it is not bound", GOING, 3000 },
	{ "the claim exceeds a quota", "CreateVolume", "{\"dpf\":\"volume-error\"}", ERR_EXHAUSTED,
	  "(Error: persistentvolumeclaims is forbidden: exceeded quota)", NOTHING, 3000 },
	{ "the reason Failure", "CreateVolume", "{" FAILURE("volume") "}", ERR_EXHAUSTED,
	  "vendor full", NOTHING, 5000 },
	{ "bigger than the limit", "CreateVolume",
	  "{\"dpf\":\"volume-capacity\",\"value\":\"3Gi\"}", ERR_RANGE, "more than limit_bytes",
	  NOTHING, 5000 },
	{ "smaller than asked", "CreateVolume", "{\"dpf\":\"volume-capacity\",\"value\":\"1Mi\"}",
	  ERR_RANGE, "less than required_bytes", NOTHING, 5000 },

	{ "503 once for DELETE", "DeleteVolume", RC("delete", "\"times\":1,\"status\":503"), ERR_OK,
	  NULL, NOTHING, 5000 },
	{ "deleted, but the answer lost", "DeleteVolume",
	  RC("delete", "\"times\":1,\"status\":500,\"applied\":true"), ERR_OK, NULL, NOTHING,
	  5000 },
	{ "403 for DELETE", "DeleteVolume", RC("delete", "\"status\":403"), ERR_PERMISSION,
	  "delete", OBJECT, 5000 },
	{ "a finalizer that stays", "DeleteVolume", "{\"dpf\":\"volume-finalizer-stuck\"}",
	  ERR_DEADLINE, "still exists", GOING, 1500 },

	{ "attachment never ready", "ControllerPublishVolume",
	  "{\"dpf\":\"attachment-never-ready\",\"text\":\"no NVMe controller\"}", ERR_DEADLINE,
	  "no NVMe controller", OBJECT, 1500 },
	{ "the reason Failure", "ControllerPublishVolume",
	  "{" FAILURE("attachment") ",\"text\":\"SNAP is gone\"}", ERR_UNAVAILABLE, "SNAP is gone",
	  OBJECT, 5000 },
	{ "the DPU is not ready", "ControllerPublishVolume",
	  "{\"dpf\":\"dpu-not-ready\",\"name\":\"^n1$\"}", ERR_DEADLINE,
	  "DPU n1-0000-26-00 is not ready", OBJECT, 1500 },
	{ "the DPU cluster is unreachable", "ControllerPublishVolume",
	  "{\"dpf\":\"cluster-unreachable\"}", ERR_DEADLINE, "is not attached", OBJECT, 1500 },
	{ "attached, but not ready", "ControllerPublishVolume",
	  "{\"dpf\":\"attachment-unready\",\"text\":\"the DPU restarts\"}", ERR_DEADLINE,
	  "is attached, but not ready: DPUVolumeAttachmentReconciled=False (Pending: the DPU restarts)",
	  OBJECT, 1500 },
	{ "ready late", "ControllerPublishVolume", "{\"dpf\":\"attachment-unready\",\"ms\":300}",
	  ERR_OK, NULL, OBJECT, 5000 },
	{ "no condition Ready", "ControllerPublishVolume", "{\"dpf\":\"attachment-without-ready\"}",
	  ERR_OK, NULL, OBJECT, 5000 },
	{ "no status.dpu", "ControllerPublishVolume", "{\"dpf\":\"missing\",\"value\":\"dpu\"}",
	  ERR_DEADLINE, "status.dpu is missing", OBJECT, 1500 },
	{ "no address", "ControllerPublishVolume",
	  "{\"dpf\":\"missing\",\"value\":\"dpu.pciAddress\"}", ERR_DEADLINE,
	  "status.dpu.pciAddress is missing", OBJECT, 1500 },
	{ "no nsid", "ControllerPublishVolume",
	  "{\"dpf\":\"missing\",\"value\":\"dpu.nvmeAttrs.namespaceID\"}", ERR_DEADLINE,
	  "namespaceID is missing", OBJECT, 1500 },
	{ "the address of a booting host first", "ControllerPublishVolume",
	  "{\"dpf\":\"pci-zero-first\",\"ms\":300}", ERR_OK, NULL, OBJECT, 5000 },
	{ "an nsid that is late", "ControllerPublishVolume",
	  "{\"dpf\":\"late\",\"value\":\"dpu.nvmeAttrs.namespaceID\",\"ms\":300}", ERR_OK, NULL,
	  OBJECT, 5000 },
	{ "403 for DPUNode", "ControllerPublishVolume",
	  "{\"verb\":\"get\",\"resource\":\"dpunodes\",\"status\":403}", ERR_OK, NULL, OBJECT,
	  5000 },
	{ "DPUNode is not served", "ControllerPublishVolume",
	  "{\"resource\":\"dpunodes\",\"unserved\":true}", ERR_OK, NULL, OBJECT, 5000 },

	{ "an attachment that stays", "ControllerUnpublishVolume",
	  "{\"dpf\":\"attachment-finalizer-stuck\"}", ERR_DEADLINE, "still exists", GOING, 1500 },
	{ "a DPU cluster that cannot be reached", "ControllerUnpublishVolume",
	  "{\"dpf\":\"cluster-unreachable\"}", ERR_DEADLINE, "still exists", GOING, 1500 },
	{ "a DPU cluster that cannot be reached", "DeleteVolume",
	  "{\"dpf\":\"cluster-unreachable\"}", ERR_DEADLINE, "still exists", GOING, 1500 },
};

static bool is_about_attachments(const struct fault_row *r)
{
	return strstr(r->method, "publish") || strstr(r->method, "Publish");
}

static const char *request_of(const struct fault_row *r)
{
	if (str_eq(r->method, "CreateVolume"))
		return CREATE("pvc-1");
	if (str_eq(r->method, "DeleteVolume"))
		return DELETE("pvc-1");
	if (str_eq(r->method, "ControllerPublishVolume"))
		return PUBLISH("pvc-1", "n1");
	return UNPUBLISH("pvc-1", "n1");
}

/* Creates the objects that the method needs, and starts the watches. */
static void prepare(const struct fault_row *r)
{
	succeeds("CreateVolume", CREATE("other"));
	succeeds("ControllerPublishVolume", PUBLISH("other", "n2"));
	if (!str_eq(r->method, "CreateVolume"))
		succeeds("CreateVolume", CREATE("pvc-1"));
	if (str_eq(r->method, "ControllerUnpublishVolume"))
		succeeds("ControllerPublishVolume", PUBLISH("pvc-1", "n1"));
}

START_TEST(a_fault_has_its_code_its_text_and_leaves_what_it_says)
{
	const struct fault_row *r = &rows[_i];
	struct err err = ERR_INIT;
	bool there, going;

	start();
	prepare(r);
	fault_in_effect(r->fault);
	c.wait_timeout_ms = r->wait_ms;
	IGNORE_RESULT(call(r->method, request_of(r), NULL, &err));
	/* The fault would also hit the request of exists(). */
	if (!strstr(r->fault, "\"dpf\""))
		sim_heal();
	ck_assert_msg(err.code == r->code, "%s: %s %s", r->what, err_code_name(err.code), err.msg);
	ck_assert_msg(!r->text || strstr(err.msg, r->text), "%s: %s", r->what, err.msg);
	there = exists(is_about_attachments(r) ? &dpu_attachment_kind : &dpu_volume_kind,
	               is_about_attachments(r) ? "n1-pvc-1" : "pvc-1", &going);
	ck_assert_msg(there == (r->left != NOTHING) && going == (r->left == GOING),
	              "%s: %s, the object is %s", r->what, err.msg,
	              going   ? "going"
	              : there ? "there"
	                      : "not there");
	/* After the fault is removed, the sidecar's retry succeeds. */
	sim_heal();
	c.wait_timeout_ms = WAIT_LIMIT_MS;
	for (struct deadline d = wait_limit(); err.code != ERR_OK;) {
		bool more = wait_a_moment(d);

		err_clear(&err);
		if (call(r->method, request_of(r), NULL, &err) == 0)
			break;
		ck_assert_msg(more && code_is_open(err.code), "%s, healed: %s", r->what, err.msg);
	}
	stop();
}
END_TEST

/* ---- the DPU of a node ---- */

#define PROVISIONING "/apis/provisioning.dpu.nvidia.com/v1alpha1/namespaces/"
#define DPU(node, more)                                                              \
	"{\"apiVersion\":\"provisioning.dpu.nvidia.com/v1alpha1\",\"kind\":\"DPU\"," \
	"\"metadata\":{\"name\":\"second\"" more "},\"spec\":{\"dpuNodeName\":\"" node "\"}}"
#define LABEL ",\"labels\":{\"provisioning.dpu.nvidia.com/dpunode-name\":\"n1\"}"
#define PREFERRED ",\"annotations\":{\"storage.nvidia.com/preferred-dpu\":\"\"}"

static const struct {
	const char *what;
	enum { STAYS, GOES, IS_GOING } first; /* the state of n1's DPU */
	const char *second, *ns;              /* another DPU */
	const char *fault;
	enum err_code code;
	const char *text;
	int lists; /* of DPUs */
} by_dpu[] = {
	{ "none", GOES, NULL, NULL, NULL, ERR_UNAVAILABLE,
	  "DPUNode dpf/n1: has no DPU (0 DPUs have spec.dpuNodeName n1, expected 1)", 3 },
	{ "that of another node", GOES, DPU("n2", ""), "dpf", NULL, ERR_UNAVAILABLE,
	  "has no DPU (0 DPUs", 3 },
	{ "one in another namespace", GOES, DPU("n1", LABEL), "default", NULL, ERR_UNAVAILABLE,
	  "has no DPU (0 DPUs", 3 },
	{ "one without a label", GOES, DPU("n1", ""), "dpf", NULL, ERR_OK, NULL, 3 },
	{ "two", STAYS, DPU("n1", LABEL), "dpf", NULL, ERR_UNAVAILABLE,
	  "can select none of its 2 DPUs (0 have", 3 },
	{ "two, one of them preferred", STAYS, DPU("n1", LABEL PREFERRED), "dpf", NULL, ERR_OK,
	  NULL, 1 },
	{ "one that is being deleted", IS_GOING, NULL, NULL, NULL, ERR_UNAVAILABLE,
	  "its DPU is being deleted", 3 },
	{ "one that is not Ready", STAYS, NULL, NULL, "{\"dpf\":\"dpu-not-ready\"}", ERR_DEADLINE,
	  "(Pending: DPU n1-0000-26-00 is not ready)", 1 },
	{ "none, and the right is missing", GOES, NULL, NULL,
	  "{\"verb\":\"list\",\"resource\":\"dpus\",\"status\":403}", ERR_DEADLINE,
	  "(Error: no DPU found for DPUNode n1)", 2 },
	{ "none, and DPUs are not served", GOES, NULL, NULL,
	  "{\"verb\":\"list\",\"resource\":\"dpus\",\"unserved\":true}", ERR_DEADLINE,
	  "(Error: no DPU found for DPUNode n1)", 2 },
	{ "one, and the list is refused", STAYS, NULL, NULL,
	  "{\"verb\":\"list\",\"resource\":\"dpus\",\"status\":400}", ERR_UNAVAILABLE,
	  "DPUs of node n1: list dpus", 1 },
};

static void delete_first_dpu(void)
{
	free(sim_http("DELETE", PROVISIONING SIM_NS "/dpus/n1-0000-26-00", ""));
}

static int64_t dpu_lists(void)
{
	char *text AUTO(free) = sim_requests();
	struct json *got AUTO(json_free) = parse(text);
	struct err ignored = ERR_INIT;
	int64_t n = 0;

	IGNORE_RESULT(json_get_i64(got, "list.dpus", &n, &ignored));
	return n;
}

START_TEST(a_node_without_a_usable_dpu_gets_no_attachment)
{
	struct json *finalizer AUTO(json_free) =
		parse("{\"metadata\":{\"finalizers\":[\"example.com/f\"]}}");
	struct err err = ERR_INIT;
	int64_t lists;
	bool going;

	start();
	succeeds("CreateVolume", CREATE("pvc-1"));
	if (by_dpu[_i].first == IS_GOING)
		ck_assert_int_eq(kube_patch(sim.kube, &dpu_kind, SIM_NS, "n1-0000-26-00", finalizer,
		                            wait_limit(), NULL, &err),
		                 0);
	if (by_dpu[_i].first != STAYS)
		delete_first_dpu();
	if (by_dpu[_i].second) {
		char *to AUTO(free) = xasprintf(PROVISIONING "%s/dpus", by_dpu[_i].ns);

		free(sim_http("POST", to, by_dpu[_i].second));
	}
	if (by_dpu[_i].fault)
		fault_in_effect(by_dpu[_i].fault);
	if (by_dpu[_i].code == ERR_DEADLINE)
		c.wait_timeout_ms = 5000;
	free(sim_requests());
	IGNORE_RESULT(call("ControllerPublishVolume", PUBLISH("pvc-1", "n1"), NULL, &err));
	ck_assert_msg(err.code == by_dpu[_i].code, "%s: %s %s", by_dpu[_i].what,
	              err_code_name(err.code), err.msg);
	ck_assert_msg(!by_dpu[_i].text || strstr(err.msg, by_dpu[_i].text), "%s: %s",
	              by_dpu[_i].what, err.msg);
	lists = dpu_lists();
	ck_assert_msg(lists == by_dpu[_i].lists, "%s: %d lists", by_dpu[_i].what, (int)lists);
	ck_assert_msg(exists(&dpu_attachment_kind, "n1-pvc-1", &going) ==
	                      (err.code != ERR_UNAVAILABLE),
	              "%s: attachment", by_dpu[_i].what);
	stop();
}
END_TEST

/* Without the check the volume stays: DPF does not detach. When the DPUNode is deleted, it does. */
START_TEST(what_was_attached_before_its_dpu_went_is_not_refused)
{
	struct err err = ERR_INIT;

	start();
	succeeds("CreateVolume", CREATE("pvc-1"));
	succeeds("CreateVolume", CREATE("pvc-2"));
	succeeds("ControllerPublishVolume", PUBLISH("pvc-1", "n1"));
	delete_first_dpu();
	c.node_cache = node_cache_free(c.node_cache);
	ck_assert_int_eq(call("ControllerPublishVolume", PUBLISH("pvc-2", "n1"), NULL, &err), -1);
	ck_assert_msg(err.code == ERR_UNAVAILABLE, "%s", err.msg);
	err_clear(&err);
	c.wait_timeout_ms = 1000;
	free(sim_requests());
	IGNORE_RESULT(call("ControllerPublishVolume", PUBLISH("pvc-1", "n1"), NULL, &err));
	ck_assert_msg(err.code != ERR_UNAVAILABLE, "%s", err.msg);
	ck_assert_int_eq(dpu_lists(), 0);
	err_clear(&err);
	ck_assert_int_eq(call("ControllerUnpublishVolume", UNPUBLISH("pvc-1", "n1"), NULL, &err),
	                 -1);
	ck_assert_msg(strstr(err.msg, "(Error: no DPU found for DPUNode n1)"), "%s", err.msg);
	free(sim_http("DELETE", PROVISIONING SIM_NS "/dpunodes/n1", ""));
	c.wait_timeout_ms = WAIT_LIMIT_MS;
	succeeds("ControllerUnpublishVolume", UNPUBLISH("pvc-1", "n1"));
	stop();
}
END_TEST

/* ---- the index of attachments ---- */

#define MANY 5000 /* ten pages */

/* A file of attachments as the Go plugin leaves them, for --seed-file. */
static char *seed_of_many(void)
{
	char *path = xstrdup("/tmp/attachments-XXXXXX");
	int fd = mkstemp(path);
	FILE *f = fdopen(fd, "w");

	ck_assert_ptr_nonnull(f);
	fputs("[", f);
	for (int i = 0; i < MANY; i++)
		fprintf(f,
		        "%s{\"apiVersion\":\"storage.dpu.nvidia.com/v1alpha1\",\"kind\":"
		        "\"DPUVolumeAttachment\",\"metadata\":{\"name\":\"w%d-go-%d\"},\"spec\":{"
		        "\"dpuNodeName\":\"w%d\",\"dpuVolumeName\":\"go-%d\",\"functionType\":\"vf\","
		        "\"hotplugFunction\":false}}",
		        i ? "," : "", i % 500, i, i % 500, i);
	fputs("]", f);
	ck_assert_int_eq(fclose(f), 0);
	return path;
}

static const struct {
	const char *what, *option;
	const char *fault; /* while the attachments are read */
} readings[] = {
	{ "in a stream", "--v=0", NULL },
	{ "in pages", "--no-watch-list", NULL },
	{ "in pages, one of which has expired", "--no-watch-list",
	  "{\"verb\":\"list\",\"resource\":\"dpuvolumeattachments\",\"status\":410,\"times\":1}" },
};

START_TEST(a_node_has_its_dpu_in_one_list_among_many)
{
	char *path AUTO(free) = xstrdup("/tmp/dpus-XXXXXX");
	char *option AUTO(free) = NULL;
	int fd = mkstemp(path);
	FILE *f = fdopen(fd, "w");

	ck_assert_ptr_nonnull(f);
	fputs("[", f);
	for (int i = 0; i < MANY; i++)
		fprintf(f,
		        "%s{\"apiVersion\":\"provisioning.dpu.nvidia.com/v1alpha1\",\"kind\":\"DPU\","
		        "\"metadata\":{\"name\":\"w%d\",\"labels\":{"
		        "\"provisioning.dpu.nvidia.com/dpunode-name\":\"w%d\"}},\"spec\":{"
		        "\"dpuNodeName\":\"w%d\"}}",
		        i ? "," : "", i, i, i);
	fputs("]", f);
	ck_assert_int_eq(fclose(f), 0);
	option = xasprintf("--seed-file=%s", path);
	start_with((const char *const[]) { option, "--history=100000", NULL });
	unlink(path);
	c.wait_timeout_ms = 100000;
	succeeds("CreateVolume", CREATE("pvc-1"));
	free(sim_requests());
	succeeds("ControllerPublishVolume", PUBLISH("pvc-1", "n1"));
	ck_assert_int_eq(dpu_lists(), 1);
	delete_first_dpu();
	c.node_cache = node_cache_free(c.node_cache);
	succeeds("CreateVolume", CREATE("pvc-2"));
	free(sim_requests());
	IGNORE_RESULT(call("ControllerPublishVolume", PUBLISH("pvc-2", "n1"), NULL,
	                   &(struct err)ERR_INIT));
	ck_assert_int_eq(dpu_lists(), 3);
	stop();
}
END_TEST

/* The controller is restarted while they exist, as after an upgrade. */
START_TEST(among_many_attachments_of_others_nothing_is_listed)
{
	/* An event that is late on a loaded machine is not replaced by a read. */
	static const struct kube_tuning patient = { .resync_ms = WAIT_LIMIT_MS };
	char *seed = seed_of_many();
	/* The history is long enough for DPF's updates to them. */
	const char *const options[] = { readings[_i].option, "--seed-file", seed,
		                        "--history",         "100000",      NULL };

	tuning = &patient;
	start_with(options);
	unlink(seed);
	free(seed);
	c.wait_timeout_ms = 100000;
	if (readings[_i].fault)
		sim_fault(readings[_i].fault);
	succeeds("CreateVolume", CREATE("pvc-1"));
	/* It waits until all attachments have been read. */
	succeeds("ControllerPublishVolume", PUBLISH("pvc-1", "n1"));
	succeeds("ControllerUnpublishVolume", UNPUBLISH("pvc-1", "n1"));
	ck_assert_uint_eq(attachment_index_count(c.attachments, "w7").all, MANY / 500);
	free(sim_requests());
	succeeds("CreateVolume", CREATE("pvc-2"));
	costs("CreateVolume", "{\"create\":{\"dpuvolumes\":1}}");
	succeeds("ControllerPublishVolume", PUBLISH("pvc-1", "n1"));
	costs("Publish", "{\"get\":{\"dpuvolumes\":1},\"create\":{\"dpuvolumeattachments\":1}}");
	succeeds("ControllerUnpublishVolume", UNPUBLISH("pvc-1", "n1"));
	costs("Unpublish", "{\"delete\":{\"dpuvolumeattachments\":1}}");
	succeeds("DeleteVolume", DELETE("pvc-1"));
	costs("DeleteVolume", "{\"get\":{\"dpuvolumes\":1},\"delete\":{\"dpuvolumes\":1}}");
	stop();
}
END_TEST

#define ATTACHMENTS(more) "{\"resource\":\"dpuvolumeattachments\"," more "}"

static void until_lists_answer(void)
{
	struct err err = ERR_INIT;

	WAIT_UNTIL((err_clear(&err), attachment_index_ready(c.attachments, deadline_in_ms(10),
	                                                    &err) == INDEX_UNUSABLE));
	err_clear(&err);
}

START_TEST(without_a_watch_lists_answer)
{
	static const struct {
		const char *what, *fault;
	} worlds[] = {
		{ "it is refused",
		  "[" ATTACHMENTS("\"dropWatch\":true,\"times\":1") "," ATTACHMENTS(
			  "\"verb\":\"watch\",\"status\":403") "]" },
		{ "it is not opened again for long",
		  "[" ATTACHMENTS("\"dropWatch\":true,\"times\":1") "," ATTACHMENTS(
			  "\"verb\":\"watch\",\"status\":503") "]" },
	};
	struct err err = ERR_INIT;

	for (size_t i = 0; i < ARRAY_LEN(worlds); i++) {
		start();
		succeeds("CreateVolume", CREATE("pvc-1"));
		succeeds("CreateVolume", CREATE("pvc-2"));
		sim_fault(worlds[i].fault);
		/* The controller receives no event for this one. */
		sleep(1);
		attach_as_the_go_plugin("pvc-1", "n2");
		until_lists_answer();
		ck_assert_int_eq(call("DeleteVolume", DELETE("pvc-1"), NULL, &err), -1);
		ck_assert_msg(err.code == ERR_PRECONDITION && strstr(err.msg, "n2-pvc-1"), "%s: %s",
		              worlds[i].what, err.msg);
		err_clear(&err);
		ck_assert_int_eq(
			call("ControllerPublishVolume", PUBLISH("pvc-1", "n1"), NULL, &err), -1);
		ck_assert_msg(err.code == ERR_PRECONDITION, "%s: %s", worlds[i].what, err.msg);
		err_clear(&err);
		succeeds("DeleteVolume", DELETE("pvc-2"));
		stop();
	}
}
END_TEST

#define DELETIONS 32

struct deletion {
	pthread_t thread;
	char name[16];
	int rc;
	struct err err;
};

static void *delete_thread(void *arg)
{
	struct deletion *x = arg;
	char *request AUTO(free) = xasprintf(DELETE("%s"), x->name);

	x->rc = call("DeleteVolume", request, NULL, &x->err);
	return NULL;
}

/* Each would list the attachments of its volume, and all unlabelled ones. */
START_TEST(without_a_watch_many_calls_share_their_lists)
{
	struct deletion all[DELETIONS];
	struct json *requests AUTO(json_free) = NULL;
	char *text AUTO(free) = NULL;
	struct err err = ERR_INIT;
	int64_t lists = 0;

	start();
	c.wait_timeout_ms = 60000;
	for (int i = 0; i < DELETIONS; i++) {
		char *request AUTO(free) = NULL;

		all[i] = (struct deletion) { .err = ERR_INIT };
		snprintf(all[i].name, sizeof(all[i].name), "pvc-%d", i);
		request = xasprintf(CREATE("%s"), all[i].name);
		succeeds("CreateVolume", request);
	}
	attach_as_the_go_plugin("pvc-0", "n2");
	succeeds("ControllerPublishVolume", PUBLISH("pvc-1", "n2"));
	sim_fault("[" ATTACHMENTS("\"dropWatch\":true,\"times\":1") "," ATTACHMENTS(
		"\"verb\":\"watch\",\"status\":403") "," ATTACHMENTS("\"verb\":\"list\","
	                                                             "\"latencyMs\":300") "]");
	until_lists_answer();
	free(sim_requests());
	for (int i = 0; i < DELETIONS; i++)
		ck_assert_int_eq(pthread_create(&all[i].thread, NULL, delete_thread, &all[i]), 0);
	for (int i = 0; i < DELETIONS; i++)
		pthread_join(all[i].thread, NULL);
	for (int i = 0; i < DELETIONS; i++)
		ck_assert_msg(i < 2 ? all[i].err.code == ERR_PRECONDITION : all[i].rc == 0,
		              "%s: %s", all[i].name, all[i].err.msg);
	text = sim_requests();
	requests = parse(text);
	ck_assert_int_eq(json_get_i64(requests, "list.dpuvolumeattachments", &lists, &err), 0);
	ck_assert_msg(lists <= 8, "%s", text);
	stop();
}
END_TEST

/* ---- the index and the truth ---- */

#define SOME_VOLUMES 12
#define SOME_NODES 4
#define STRANGERS 3

struct stranger {
	pthread_t thread;
	unsigned random;
	atomic_bool *stop;
};

static void come_or_go(struct stranger *s)
{
	unsigned volume = (s->random >> 8) % SOME_VOLUMES, node = (s->random >> 16) % SOME_NODES;
	/* Every third has its own name. */
	char *name AUTO(free) = xasprintf(volume % 3 ? "w%u-v%u" : "of-%u-and-%u", node, volume);
	char *v AUTO(free) = xasprintf("v%u", volume), *n AUTO(free) = xasprintf("w%u", node);
	struct json *object AUTO(json_free) = dpu_attachment_encode(name, n, v, false, false);
	struct json *made AUTO(json_free) = NULL;
	struct err ignored = ERR_INIT;

	s->random = s->random * 1103515245 + 12345;
	if (s->random >> 30)
		IGNORE_RESULT(kube_create(sim.kube, &dpu_attachment_kind, SIM_NS, object,
		                          wait_limit(), &made, &ignored));
	else
		IGNORE_RESULT(kube_delete(sim.kube, &dpu_attachment_kind, SIM_NS, name, NULL,
		                          wait_limit(), &ignored));
}

static void *strange(void *arg)
{
	struct stranger *s = arg;

	while (!atomic_load(s->stop))
		come_or_go(s);
	return NULL;
}

struct truth {
	size_t of[SOME_VOLUMES], on[SOME_NODES];
};

static int tell_truth(void *arg, const struct json *item, struct err *err)
{
	struct truth *t = arg;
	struct dpu_attachment_key key = dpu_attachment_key(item);
	uint64_t volume, node;

	if (parse_u64("volume", key.volume + 1, &volume, err) ||
	    parse_u64("node", key.node + 1, &node, err))
		return -1;
	t->of[volume]++;
	t->on[node]++;
	return 0;
}

static bool knows_the_truth(void)
{
	struct truth t = { .of = { 0 } };
	struct err err = ERR_INIT;

	ck_assert_msg(kube_list(sim.kube, &dpu_attachment_kind, SIM_NS, NULL, tell_truth, &t,
	                        wait_limit(), &err) == 0,
	              "%s", err.msg);
	if (attachment_index_ready(c.attachments, wait_limit(), &err))
		return false;
	for (int i = 0; i < SOME_VOLUMES; i++) {
		struct attachment_refs p AUTO(attachment_refs_clear) = { .n = 0 };
		char *volume AUTO(free) = xasprintf("v%d", i);

		attachment_index_find(c.attachments, volume, NULL, ATTACHMENT_ANY_AGE, 0, &p);
		if (p.all != t.of[i])
			return false;
	}
	for (int i = 0; i < SOME_NODES; i++) {
		char *node AUTO(free) = xasprintf("w%d", i);

		if (attachment_index_count(c.attachments, node).all != t.on[i])
			return false;
	}
	return true;
}

static const struct {
	const char *what, *option, *fault;
} disturbances[] = {
	{ "none", "--v=0", NULL },
	{ "the stream breaks", "--v=0", ATTACHMENTS("\"dropWatch\":true,\"times\":1") },
	{ "the place is lost", "--v=0", ATTACHMENTS("\"expireWatch\":true,\"times\":1") },
	{ "the place is lost, and there are only pages", "--no-watch-list",
	  ATTACHMENTS("\"expireWatch\":true,\"times\":1") },
};

/*
 * Whatever happens to the watch while attachments are created and deleted, the index is correct
 * afterwards.
 */
START_TEST(the_index_ends_with_what_a_list_says)
{
	const char *const options[] = { disturbances[_i].option, NULL };
	struct stranger strangers[STRANGERS];
	atomic_bool stopped = false;

	start_with(options);
	for (unsigned i = 0; i < STRANGERS; i++) {
		strangers[i] = (struct stranger) { .random = i * 7919 + 1, .stop = &stopped };
		ck_assert_int_eq(pthread_create(&strangers[i].thread, NULL, strange, &strangers[i]),
		                 0);
	}
	for (int i = 0; i < 8; i++) {
		usleep(300000);
		if (disturbances[_i].fault)
			sim_fault(disturbances[_i].fault);
	}
	atomic_store(&stopped, true);
	for (int i = 0; i < STRANGERS; i++)
		pthread_join(strangers[i].thread, NULL);
	sim_heal();
	WAIT_UNTIL(knows_the_truth());
	stop();
}
END_TEST

/* ---- two drivers ---- */

struct driver {
	struct controller c;
	struct keylock *locks;
	const char *request;
	struct json *reply;
	struct err err;
	int rc;
	pthread_t thread;
};

static struct controller second_controller(void)
{
	char *config AUTO(free) = xasprintf("%s/kubeconfig", sim.dir);
	const struct kube_options o = { .kubeconfig = config, .user_agent = "snap-csi/second" };
	struct controller second = c;
	struct err err = ERR_INIT;

	ck_assert_msg(kube_new(&o, &second.kube, &err) == 0, "%s", err.msg);
	second.attachments = attachment_index_new(second.kube, SIM_NS, second.driver_name);
	second.node_cache = NULL;
	return second;
}

static void *publish_thread(void *arg)
{
	struct driver *d = arg;
	struct json *q AUTO(json_free) = parse(d->request);

	d->rc = door_call(&d->c, d->locks, "ControllerPublishVolume", q, &d->reply, &d->err);
	return NULL;
}

static void start_two(struct driver both[2])
{
	start();
	c.wait_timeout_ms = 60000; /* with a mute watch, a change is seen after about 5 s */
	both[0].c = c;
	both[0].locks = locks;
	both[1].c = second_controller();
	both[1].locks = keylock_new();
}

static void stop_two(struct driver both[2])
{
	for (int i = 0; i < 2; i++)
		json_free(both[i].reply);
	kube_free(both[1].c.kube);
	attachment_index_free(both[1].c.attachments);
	keylock_free(both[1].locks);
	stop();
}

/* Neither has found an attachment, and both create one, since a POST takes 300 ms. */
static void publish_at_once(struct driver both[2], const char *fault)
{
	if (fault)
		sim_fault(fault);
	sim_fault("{\"verb\":\"create\",\"resource\":\"dpuvolumeattachments\","
	          "\"latencyMs\":300}");
	for (int i = 0; i < 2; i++) {
		json_free(TAKE(both[i].reply));
		err_clear(&both[i].err);
		ck_assert_int_eq(pthread_create(&both[i].thread, NULL, publish_thread, &both[i]),
		                 0);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(both[i].thread, NULL);
	sim_heal();
}

static int attachments_left(void)
{
	bool going;

	return exists(&dpu_attachment_kind, "n1-pvc-1", &going) +
	       exists(&dpu_attachment_kind, "n2-pvc-1", &going);
}

static const struct {
	const char *what, *fault;
	int rounds;
	int published; /* at least */
} races[] = {
	{ "the watch works", NULL, 5, 1 },
	/* Lists have no order, so both may withdraw. */
	{ "the watch brings nothing", ATTACHMENTS("\"muteWatch\":true"), 2, 0 },
	{ "all are read anew all the time", ATTACHMENTS("\"expireWatch\":true"), 1, 0 },
	{ "events come twice", ATTACHMENTS("\"event\":\"twice\""), 3, 1 },
};

START_TEST(two_drivers_at_once_leave_one_attachment)
{
	struct driver both[2] = { { .request = PUBLISH("pvc-1", "n1") },
		                  { .request = PUBLISH("pvc-1", "n2") } };
	int published;

	start_two(both);
	succeeds("CreateVolume", CREATE("pvc-1"));
	for (int round = 0; round < races[_i].rounds; round++) {
		published = 0;
		publish_at_once(both, races[_i].fault);
		for (int i = 0; i < 2; i++) {
			published += both[i].rc == 0;
			ck_assert_msg(both[i].rc == 0 || both[i].err.code == ERR_PRECONDITION,
			              "%s: %s", races[_i].what, both[i].err.msg);
			ck_assert_msg(both[i].rc == 0 ||
			                      strstr(both[i].err.msg, "allows one node at a time"),
			              "%s", both[i].err.msg);
		}
		ck_assert_msg(published <= 1 && published >= races[_i].published,
		              "%s: %d published", races[_i].what, published);
		ck_assert_msg(attachments_left() == published, "%s: %d published, %d left",
		              races[_i].what, published, attachments_left());
		succeeds("ControllerUnpublishVolume", UNPUBLISH("pvc-1", "n1"));
		succeeds("ControllerUnpublishVolume", UNPUBLISH("pvc-1", "n2"));
	}
	stop_two(both);
}
END_TEST

#define SHARED "{\"block\":{},\"access_mode\":{\"mode\":\"MULTI_NODE_MULTI_WRITER\"}}"
#define PUBLISH_SHARED(node)                                                     \
	"{\"volume_id\":\"pvc-1\",\"node_id\":\"" node "\",\"volume_context\":{" \
	"\"csi.snap.nvidia.com/encryption\":\"luks2\"},\"volume_capability\":" SHARED "}"

/* Otherwise two nodes could create the container of an encrypted volume, each with its own key. */
START_TEST(of_two_nodes_that_get_an_encrypted_volume_at_once_one_formats)
{
	static const char *const nodes[] = { "n1", "n2" };
	struct driver both[2] = { { .request = PUBLISH_SHARED("n1") },
		                  { .request = PUBLISH_SHARED("n2") } };
	int named;

	start_two(both);
	succeeds("CreateVolume",
	         "{\"name\":\"pvc-1\",\"capacity_range\":{\"required_bytes\":1073741824},"
	         "\"volume_capabilities\":[" SHARED "],\"parameters\":{\"policy\":"
	         "\"example-policy\",\"csi.snap.nvidia.com/encryption\":\"luks2\"}}");
	for (int round = 0; round < (races[_i].rounds + 1) / 2; round++) {
		named = 0;
		publish_at_once(both, races[_i].fault);
		for (int i = 0; i < 2; i++) {
			ck_assert_msg(both[i].rc == 0, "%s: %s", races[_i].what, both[i].err.msg);
			named += str_eq(
				json_text(json_member(json_at(both[i].reply, "publish_context"),
			                              "csi.snap.nvidia.com/formatNode")),
				nodes[i]);
		}
		ck_assert_msg(named <= 1 && named >= races[_i].published, "%s: %d nodes format",
		              races[_i].what, named);
		succeeds("ControllerUnpublishVolume", UNPUBLISH("pvc-1", "n1"));
		succeeds("ControllerUnpublishVolume", UNPUBLISH("pvc-1", "n2"));
	}
	stop_two(both);
}
END_TEST

/* ---- threads ---- */

#define THREADS 8
#define EACH 12

static void *many(void *arg)
{
	int thread = *(int *)arg;

	for (int i = 0; i < EACH; i++) {
		char *create AUTO(free) = NULL, *delete AUTO(free) = NULL;
		struct err err = ERR_INIT;

		create = xasprintf("{\"name\":\"pvc-%d-%d\",\"volume_capabilities\":[" CAP
		                   "],\"parameters\":{\"policy\":\"example-policy\"}}",
		                   thread, i);
		delete = xasprintf("{\"volume_id\":\"pvc-%d-%d\"}", thread, i);
		if (call("CreateVolume", create, NULL, &err) ||
		    call("DeleteVolume", delete, NULL, &err))
			return xasprintf("pvc-%d-%d: %s", thread, i, err.msg);
	}
	return NULL;
}

START_TEST(many_volumes_at_once_do_not_disturb_each_other)
{
	pthread_t threads[THREADS];
	int numbers[THREADS];

	start();
	c.wait_timeout_ms = 60000;
	for (int i = 0; i < THREADS; i++) {
		numbers[i] = i;
		ck_assert_int_eq(pthread_create(&threads[i], NULL, many, &numbers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		void *said = NULL;

		pthread_join(threads[i], &said);
		ck_assert_msg(!said, "%s", (char *)said);
	}
	stop();
}
END_TEST

static void *cancel_soon(void *arg)
{
	usleep(300000);
	cancel_set(arg);
	return NULL;
}

START_TEST(a_caller_that_goes_ends_the_wait)
{
	struct volume_cap cap = { .type = ACCESS_MOUNT,
		                  .mode = MODE_SINGLE_NODE_WRITER,
		                  .fs_type = "ext4" };
	static const struct kv kv[] = { { "policy", "example-policy" } };
	struct volume_request r = {
		.name = "pvc-1", .caps = &cap, .n_caps = 1, .parameters = { kv, 1 }
	};
	struct cancel cancel;
	struct deadline d = deadline_never();
	struct arena arena = ARENA_INIT(0);
	struct err err = ERR_INIT;
	struct created_volume v;
	pthread_t thread;

	start();
	sim_fault("{\"dpf\":\"volume-never-bound\"}");
	cancel_init(&cancel);
	d.cancel = &cancel;
	ck_assert_int_eq(volume_request_check(&c, &r, &arena, &err), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, cancel_soon, &cancel), 0);
	ck_assert_int_eq(volume_create(&c, &r, d, &arena, &v, &err), -1);
	pthread_join(thread, NULL);
	ck_assert_msg(err.code == ERR_CANCELLED, "%s", err.msg);
	ck_assert_msg(strstr(err.msg, "is not bound"), "%s", err.msg);
	arena_clear(&arena);
	cancel_destroy(&cancel);
	stop();
}
END_TEST

/* ---- requests that are executed after their client has stopped waiting ---- */

#define LATE_MS 1500
#define LATE(resource)                                                                  \
	"{\"verb\":\"create\",\"resource\":\"" resource "\",\"times\":1,\"hang\":true," \
	"\"applied\":true,\"lateMs\":1500}"

static const struct {
	const char *what;
	bool attached;       /* the volume's POST was answered, the attachment's was not */
	const char *between; /* the call before the last one; NULL: none */
	const char *fault;   /* during that call and the last one; NULL: none */
	const char *last, *request;
	int wait_ms; /* of the last call; 0: WAIT_LIMIT_MS */
} late[] = {
	{ "unpublish of what is not there yet", true, NULL, NULL, "ControllerUnpublishVolume",
	  UNPUBLISH("pvc-1", "n1") },
	{ "unpublish of what a second request has made", true, "ControllerPublishVolume", NULL,
	  "ControllerUnpublishVolume", UNPUBLISH("pvc-1", "n1") },
	{ "delete of what is not there yet", false, NULL, NULL, "DeleteVolume", DELETE("pvc-1") },
	{ "delete of what a second request has made", false, "CreateVolume", NULL, "DeleteVolume",
	  DELETE("pvc-1") },
	{ "a create that is refused now", false, NULL,
	  "[" RC("create", "\"status\":403") ",{\"dpf\":\"volume-never-bound\"}]", "CreateVolume",
	  CREATE("pvc-1") },
	{ "a create that the vendor refuses now", false, NULL, VENDOR_FULL, "CreateVolume",
	  CREATE("pvc-1"), 1000 },
};

static int count_one(void *arg, const struct json *item, struct err *err)
{
	(void)item, (void)err;
	++*(int *)arg;
	return 0;
}

static int count_all(const struct kube_kind *kind)
{
	struct err err = ERR_INIT;
	int n = 0;

	ck_assert_msg(kube_list(sim.kube, kind, SIM_NS, NULL, count_one, &n, wait_limit(), &err) ==
	                      0,
	              "%s", err.msg);
	return n;
}

/* A result that a sidecar treats as the end: OK, or a final code. */
static int ends(const char *method, const char *request, struct err *err)
{
	struct deadline d = wait_limit();

	for (;;) {
		int rc;

		err_clear(err);
		rc = call(method, request, NULL, err);
		if (rc == 0 || !code_is_open(err->code))
			return rc;
		ck_assert_msg(!deadline_passed(d), "%s: %s", method, err->msg);
		usleep(50000);
	}
}

START_TEST(no_end_is_told_while_a_request_may_still_be_carried_out)
{
	static const struct kube_tuning patient = { .attempt_ms = 1000, .late_ms = LATE_MS };
	struct err err = ERR_INIT;
	int64_t began;

	tuning = &patient;
	start();
	if (late[_i].attached)
		succeeds("CreateVolume", CREATE("pvc-1"));
	sim_fault(late[_i].attached ? LATE("dpuvolumeattachments") : LATE("dpuvolumes"));
	c.wait_timeout_ms = 300;
	began = monotonic_ns();
	ck_assert_int_eq(late[_i].attached ? call("ControllerPublishVolume", PUBLISH("pvc-1", "n1"),
	                                          NULL, &err)
	                                   : call("CreateVolume", CREATE("pvc-1"), NULL, &err),
	                 -1);
	ck_assert_msg(err.code == ERR_DEADLINE, "%s: %s", late[_i].what, err.msg);
	c.wait_timeout_ms = WAIT_LIMIT_MS;
	sim_heal();
	if (late[_i].fault)
		sim_fault(late[_i].fault);
	if (late[_i].between)
		succeeds(late[_i].between,
		         late[_i].attached ? PUBLISH("pvc-1", "n1") : CREATE("pvc-1"));
	if (late[_i].wait_ms)
		c.wait_timeout_ms = late[_i].wait_ms;
	IGNORE_RESULT(ends(late[_i].last, late[_i].request, &err));
	while (monotonic_ns() - began < (LATE_MS + 300) * INT64_C(1000000))
		usleep(50000);
	if (late[_i].attached)
		ck_assert_msg(count_all(&dpu_attachment_kind) == 0, "%s: %s", late[_i].what,
		              err.msg);
	else
		ck_assert_msg(count_all(&dpu_volume_kind) == 0, "%s: %s", late[_i].what, err.msg);
	stop();
}
END_TEST

/* etcd stalls for longer than the API server keeps a request, and then continues. */
START_TEST(no_end_is_told_as_soon_as_a_server_answers_again)
{
	static const struct kube_tuning patient = { .attempt_ms = 500, .late_ms = 1000 };
	struct err err = ERR_INIT;
	int64_t began;

	tuning = &patient;
	start();
	succeeds("CreateVolume", CREATE("pvc-1"));
	sim_fault("[{\"verb\":\"create\",\"resource\":\"dpuvolumeattachments\",\"hang\":true,"
	          "\"applied\":true,\"lateMs\":3300},"
	          "{\"verb\":\"get\",\"resource\":\"dpuvolumeattachments\",\"hang\":true}]");
	c.wait_timeout_ms = 300;
	began = monotonic_ns();
	ck_assert_int_eq(call("ControllerPublishVolume", PUBLISH("pvc-1", "n1"), NULL, &err), -1);
	for (int n = 0; monotonic_ns() - began < 3000 * INT64_C(1000000); n++) {
		err_clear(&err);
		ck_assert_int_eq(
			call("ControllerUnpublishVolume", UNPUBLISH("pvc-1", "n1"), NULL, &err),
			-1);
	}
	sim_heal();
	c.wait_timeout_ms = WAIT_LIMIT_MS;
	ck_assert_int_eq(ends("ControllerUnpublishVolume", UNPUBLISH("pvc-1", "n1"), &err), 0);
	/* It has been executed by this time. */
	while (monotonic_ns() - began < 3800 * INT64_C(1000000))
		usleep(50000);
	ck_assert_int_eq(count_all(&dpu_attachment_kind), 0);
	stop();
}
END_TEST

/* ---- growing ---- */

#define EXPAND(name, bytes) \
	"{\"volume_id\":\"" name "\",\"capacity_range\":{\"required_bytes\":" bytes "}}"

static void start_growing(void)
{
	static const char *const options[] = { "--growing-volumes", "--bind-delay-ms=20", NULL };

	start_with(options);
}

static void can_expand(bool can)
{
	struct json *reply AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	char *text AUTO(free) = NULL;

	ck_assert_int_eq(call("ControllerGetCapabilities", "{}", &reply, &err), 0);
	text = json_print(reply);
	ck_assert_msg(can == !!strstr(text, "EXPAND_VOLUME"), "%s", text);
}

START_TEST(a_volume_grows_where_the_crd_lets_it)
{
	struct json *reply AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	int64_t bytes = 0;

	start_growing();
	succeeds("CreateVolume", CREATE("pvc-1"));
	sim_settle();
	can_expand(true);
	costs("the question", "{\"get\":{\"openapi\":1}}");
	can_expand(true);
	costs("the question, asked again", "{}");
	ck_assert_msg(!call("ControllerExpandVolume", EXPAND("pvc-1", "3221225472"), &reply, &err),
	              "%s", err.msg);
	costs("ControllerExpandVolume",
	      "{\"get\":{\"dpuvolumes\":1},\"patch\":{\"dpuvolumes\":1}}");
	ck_assert_int_eq(json_get_i64(reply, "capacity_bytes", &bytes, &err), 0);
	ck_assert_int_eq(bytes, INT64_C(3221225472));
	succeeds("ControllerExpandVolume", EXPAND("pvc-1", "3221225472"));
	costs("a retry", "{\"get\":{\"dpuvolumes\":1}}");
	succeeds("ControllerPublishVolume", PUBLISH("pvc-1", "n1"));
	succeeds("ControllerExpandVolume", EXPAND("pvc-1", "4294967296"));
	succeeds("ControllerUnpublishVolume", UNPUBLISH("pvc-1", "n1"));
	succeeds("DeleteVolume", DELETE("pvc-1"));
	stop();
}
END_TEST

START_TEST(where_the_crd_forbids_it_growing_is_not_offered)
{
	struct err err = ERR_INIT;

	start();
	succeeds("CreateVolume", CREATE("pvc-1"));
	can_expand(false);
	ck_assert_int_eq(call("ControllerExpandVolume", EXPAND("pvc-1", "3221225472"), NULL, &err),
	                 -1);
	ck_assert_int_eq(err.code, ERR_UNIMPLEMENTED);
	stop();
}
END_TEST

static const struct {
	const char *what, *fault;
} unread[] = {
	{ "403", "\"status\":403" },
	{ "a page", "\"body\":\"<html>no</html>\"" },
	{ "no answer", "\"hang\":true" },
};

START_TEST(a_schema_that_cannot_be_read_is_read_by_the_next_question)
{
	const struct kube_tuning quick = { .mistake_ms = 10, .attempt_ms = 100 };
	char *fault AUTO(free) =
		xasprintf("{\"verb\":\"get\",\"resource\":\"openapi\",%s}", unread[_i].fault);

	tuning = &quick;
	start_growing();
	sim_fault(fault);
	can_expand(false); /* while the fault lasts */
	sim_heal();
	can_expand(true);
	stop();
}
END_TEST

static const struct {
	const char *what, *fault;
	enum err_code code; /* of the first call; ERR_OK: it succeeds despite the fault */
	const char *text;
} growth_faults[] = {
	{ "the PATCH was carried out, its answer is lost",
	  "{\"verb\":\"patch\",\"resource\":\"dpuvolumes\",\"times\":1,\"hang\":true,\"applied\":true}",
	  ERR_OK, NULL },
	{ "it was carried out, a proxy says 502",
	  "{\"verb\":\"patch\",\"resource\":\"dpuvolumes\",\"times\":1,\"status\":502,\"applied\":true}",
	  ERR_OK, NULL },
	{ "the first PATCH is lost",
	  "{\"verb\":\"patch\",\"resource\":\"dpuvolumes\",\"times\":1,\"hang\":true}", ERR_OK,
	  NULL },
	{ "no right", "{\"verb\":\"patch\",\"resource\":\"dpuvolumes\",\"status\":403}",
	  ERR_PERMISSION, "not allowed to patch dpuvolumes" },
	{ "it has no answer at all",
	  "{\"verb\":\"patch\",\"resource\":\"dpuvolumes\",\"hang\":true}", ERR_DEADLINE,
	  "no answer" },
	{ "a page", "{\"verb\":\"patch\",\"resource\":\"dpuvolumes\",\"body\":\"<html>\"}",
	  ERR_UNAVAILABLE, "API server's answer" },
	{ "the storage is full", VENDOR_FULL, ERR_UNAVAILABLE, "no space left on lvstore" },
	{ "the storage takes too long", "{\"dpf\":\"volume-never-bound\",\"text\":\"later\"}",
	  ERR_DEADLINE, "expected 3.0 GiB" },
};

START_TEST(a_volume_that_does_not_grow_says_why_and_grows_later)
{
	const struct kube_tuning quick = { .mistake_ms = 10, .attempt_ms = 3000 };
	const char *what = growth_faults[_i].what;
	struct err err = ERR_INIT;

	tuning = &quick;
	start_growing();
	succeeds("CreateVolume", CREATE("pvc-1"));
	can_expand(true);
	sim_fault(growth_faults[_i].fault);
	c.wait_timeout_ms = 6000;
	IGNORE_RESULT(call("ControllerExpandVolume", EXPAND("pvc-1", "3221225472"), NULL, &err));
	ck_assert_msg(err.code == growth_faults[_i].code, "%s: %s %s", what,
	              err_code_name(err.code), err.msg);
	ck_assert_msg(!growth_faults[_i].text || strstr(err.msg, growth_faults[_i].text), "%s: %s",
	              what, err.msg);
	sim_heal();
	c.wait_timeout_ms = WAIT_LIMIT_MS;
	/* A failure is reported until DPF has retried. */
	for (struct deadline d = wait_limit(); err.code != ERR_OK;) {
		ck_assert_msg(wait_a_moment(d), "%s: %s", what, err.msg);
		err_clear(&err);
		IGNORE_RESULT(
			call("ControllerExpandVolume", EXPAND("pvc-1", "3221225472"), NULL, &err));
	}
	stop();
}
END_TEST

SUITE_TIMEOUT("controller against snap-sim", 120, a_volume_lives_from_create_to_delete,
              a_volume_lives_on_when_dpf_serves_another_version,
              a_dpf_with_both_versions_is_used_in_the_known_one,
              a_version_without_a_field_is_refused_and_changes_nothing,
              unpublish_from_all_nodes_leaves_none,
              LOOP(a_scenario_of_a_trusted_cluster_ends_in_a_volume_or_a_refusal,
                   ARRAY_LEN(scenarios)),
              a_share_lives_on_every_node_beside_a_disk,
              LOOP(a_share_is_attached_once_the_dpu_has_told_its_tag, ARRAY_LEN(tag_rows)),
              attachments_without_our_labels_count_like_ours,
              an_attachment_of_others_that_the_watch_keeps_back_keeps_the_volume,
              LOOP(a_fault_has_its_code_its_text_and_leaves_what_it_says, ARRAY_LEN(rows)),
              LOOP(a_node_without_a_usable_dpu_gets_no_attachment, ARRAY_LEN(by_dpu)),
              what_was_attached_before_its_dpu_went_is_not_refused,
              a_node_has_its_dpu_in_one_list_among_many,
              LOOP(among_many_attachments_of_others_nothing_is_listed, ARRAY_LEN(readings)),
              without_a_watch_lists_answer, without_a_watch_many_calls_share_their_lists,
              LOOP(no_end_is_told_while_a_request_may_still_be_carried_out, ARRAY_LEN(late)),
              no_end_is_told_as_soon_as_a_server_answers_again,
              LOOP(the_index_ends_with_what_a_list_says, ARRAY_LEN(disturbances)),
              LOOP(two_drivers_at_once_leave_one_attachment, ARRAY_LEN(races)),
              LOOP(of_two_nodes_that_get_an_encrypted_volume_at_once_one_formats, ARRAY_LEN(races)),
              many_volumes_at_once_do_not_disturb_each_other, a_caller_that_goes_ends_the_wait,
              a_volume_grows_where_the_crd_lets_it, where_the_crd_forbids_it_growing_is_not_offered,
              LOOP(a_schema_that_cannot_be_read_is_read_by_the_next_question, ARRAY_LEN(unread)),
              LOOP(a_volume_that_does_not_grow_says_why_and_grows_later, ARRAY_LEN(growth_faults)));
