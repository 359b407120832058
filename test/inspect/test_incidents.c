/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API server's side of `inspect` against snap-sim: each incident is prepared with objects and
 * faults, and the report names it, its age and the next step. The test controls the report's clock,
 * so that objects age at once.
 */
#include <ctype.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "dpf/core_event.h"
#include "dpf/dpu_attachment.h"
#include "dpf/dpu_node.h"
#include "dpf/dpu_volume.h"
#include "inspect/inspect.h"
#include "test/lib/doc_table.h"
#include "test/lib/fake_http.h"
#include "test/lib/sim_process.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

#define DRIVER "csi.snap.nvidia.com"
#define STORAGE "/apis/storage.dpu.nvidia.com/v1alpha1/namespaces/" SIM_NS
#define PVC "pvc-11111111-2222-4333-8444-555555555555"
#define PVC_2 "pvc-22222222-2222-4333-8444-555555555555"

static time_t later;      /* seconds by which the API server's clock is ahead, for a report */
static time_t host_later; /* the same for this host's clock */
static int causes_ms;
static char kubeconfig[128];
static struct inspect_report report;

/* Replaces the C library's function: the host's clock. */
time_t time(time_t *ret)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec += host_later;
	if (ret)
		*ret = now.tv_sec;
	return now.tv_sec;
}

/* body: the object without its kind. */
static void post(const char *path, const char *version, const char *kind, const char *body)
{
	char *whole AUTO(free) =
		xasprintf("{\"apiVersion\":\"%s\",\"kind\":\"%s\",%s", version, kind, body + 1);

	free(sim_http("POST", path, whole));
}

static void post_volume(const char *body)
{
	post(STORAGE "/dpuvolumes", "storage.dpu.nvidia.com/v1alpha1", "DPUVolume", body);
}

/* Registers the driver with kubelet on this node. */
static void register_node(const char *node)
{
	char *body AUTO(free) = xasprintf("{\"metadata\":{\"name\":"
	                                  "\"%s\"},\"spec\":{\"drivers\":[{\"name\":\"" DRIVER
	                                  "\",\"nodeID\":\"%s\"}]}}",
	                                  node, node);

	post("/apis/storage.k8s.io/v1/csinodes", "storage.k8s.io/v1", "CSINode", body);
}

static void start(void)
{
	sim_start(NULL);
	snprintf(kubeconfig, sizeof(kubeconfig), "%s/kubeconfig", sim.dir);
	register_node("n1");
	register_node("n2");
	later = 0;
	causes_ms = 20000; /* for a busy machine */
}

static void stop(void)
{
	inspect_report_clear(&report);
	sim_stop();
}

static void make_volume(const char *name)
{
	char *body AUTO(free) = xasprintf(
		"{\"metadata\":{\"name\":\"%s\",\"labels\":{\"app.kubernetes.io/managed-by\":\"" DRIVER
		"\"},\"annotations\":{\"csi.snap.nvidia.com/name\":\"%s\"}},\"spec\":{"
		"\"dpuStoragePolicyName\":\"example-policy\",\"accessModes\":[\"ReadWriteOnce\"],"
		"\"resources\":{\"requests\":{\"storage\":\"1Gi\"}},\"volumeMode\":\"Block\"}}",
		name, name);

	post_volume(body);
}

static void attach(const char *volume, const char *node)
{
	char *body AUTO(free) = xasprintf(
		"{\"metadata\":{\"name\":\"%s-%s\"},\"spec\":{\"dpuNodeName\":\"%s\","
		"\"dpuVolumeName\":\"%s\",\"functionType\":\"vf\",\"hotplugFunction\":false}}",
		node, volume, node, volume);

	post(STORAGE "/dpuvolumeattachments", "storage.dpu.nvidia.com/v1alpha1",
	     "DPUVolumeAttachment", body);
}

static void make_pv(const char *name, const char *volume)
{
	char *body AUTO(free) =
		xasprintf("{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"csi\":{\"driver\":\"" DRIVER
	                  "\",\"volumeHandle\":\"%s\"}},\"status\":{\"phase\":\"Bound\"}}",
	                  name, volume);

	post("/api/v1/persistentvolumes", "v1", "PersistentVolume", body);
}

/* Kubernetes wants the volume on the node, and considers it attached. */
static void want(const char *pv, const char *node, const char *status)
{
	char *body AUTO(free) = xasprintf(
		"{\"metadata\":{\"name\":\"csi-%s-%s\"},\"spec\":{\"attacher\":\"" DRIVER
		"\",\"nodeName\":\"%s\",\"source\":{\"persistentVolumeName\":\"%s\"}},\"status\":%s}",
		pv, node, node, pv, status);

	post("/apis/storage.k8s.io/v1/volumeattachments", "storage.k8s.io/v1", "VolumeAttachment",
	     body);
}

static bool has(const struct kube_kind *kind, const char *name, const char *path, const char *is)
{
	struct json *object AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	bool yes = true;

	ck_assert_msg(kube_get(sim.kube, kind, SIM_NS, name, wait_limit(), &object, &err) >= 0,
	              "%s", err.msg);
	return object && (!path || json_str(object, path)
	                          ? str_eq(json_str(object, path), is)
	                          : (!json_get_bool(object, path, &yes, &err) && yes && !is));
}

static void wait_for(const struct kube_kind *kind, const char *name, const char *path,
                     const char *is)
{
	WAIT_UNTIL(has(kind, name, path, is));
	ck_assert_msg(has(kind, name, path, is), "%s: %s", name, path);
}

static void wait_bound(const char *name)
{
	wait_for(&dpu_volume_kind, name, "status.phase", "Bound");
}

static void wait_attached(const char *name)
{
	wait_for(&dpu_attachment_kind, name, "status.dpuAttached", NULL);
}

/* A volume with all its objects. */
static void make_whole(const char *volume, const char *node)
{
	char *attachment AUTO(free) = xasprintf("%s-%s", node, volume);

	make_volume(volume);
	wait_bound(volume);
	make_pv(volume, volume);
	attach(volume, node);
	wait_attached(attachment);
	want(volume, node, "{\"attached\":true}");
}

/* ago: seconds before `now`. */
static void post_event(const char *name, const char *kind, const char *about, const char *uid,
                       const char *type, const char *message, time_t now, int ago)
{
	struct json *event AUTO(json_free) = NULL, *made AUTO(json_free) = NULL;
	time_t at = now - ago;
	char *body AUTO(free) = NULL;
	struct err err = ERR_INIT;
	char text[32];
	struct tm tm;

	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&at, &tm));
	body = xasprintf("{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"metadata\":{\"name\":"
	                 "\"%s\",\"namespace\":\"" SIM_NS
	                 "\",\"annotations\":{\"note\":\"PLANTED-6\"}},\"involvedObject\":{"
	                 "\"kind\":\"%s\",\"namespace\":\"" SIM_NS
	                 "\",\"name\":\"%s\",\"uid\":\"%s\"},\"type\":\"%s\",\"reason\":\"Posted\","
	                 "\"message\":\"%s\",\"lastTimestamp\":\"%s\"}",
	                 name, kind, about, uid, type, message, text);
	ck_assert_int_eq(json_parse("event", body, strlen(body), &event, &err), 0);
	ck_assert_msg(
		!kube_create(sim.kube, &core_event_kind, SIM_NS, event, wait_limit(), &made, &err),
		"%s", err.msg);
}

static void look_as(const struct inspect_options *o)
{
	struct err err = ERR_INIT;

	inspect_report_clear(&report);
	inspect_report_init(&report);
	ck_assert_msg(!inspect_api_facts(&report, o, wait_limit(), &err), "%s", err.msg);
}

static void look(const char *volume)
{
	const struct inspect_options o = {
		.flags = { .controller = true,
		           .kubeconfig = kubeconfig,
		           .namespace_ = SIM_NS,
		           .name = DRIVER },
		.volume_id = volume,
		.causes_ms = causes_ms,
		.clock_ahead = later,
	};

	look_as(&o);
}

/* The first finding about the object that contains `part`. */
static const struct json *finding(const char *object, const char *part)
{
	json_foreach (f, json_member(report.tree, "findings"))
		if (strstr(json_str(f, "object"), object) && strstr(json_str(f, "what"), part))
			return f;
	return NULL;
}

static void expect(const char *object, const char *what, const char *next)
{
	const struct json *f = finding(object, what);
	char *all AUTO(free) = json_print_pretty(report.tree);

	ck_assert_msg(f != NULL, "no finding about %s that says \"%s\" in %.3000s", object, what,
	              all);
	ck_assert_msg(strstr(json_str(f, "next"), next) != NULL, "no \"%s\" in %.3000s", next, all);
}

/* ---- the table of test/reports/inspect.md ---- */

static struct str table = STR_INIT(64 * 1024);

/* "50 s", "6 min 40 s": durations vary between runs. */
static size_t length_of_age(const char *text)
{
	static const char *const units[] = { " d", " h", " min", " s" };
	size_t n = strspn(text, "0123456789"), all = 0;

	while (n > 0) {
		size_t found = 0;

		for (size_t i = 0; i < ARRAY_LEN(units) && !found; i++)
			if (str_has_prefix(text + all + n, units[i]) &&
			    !islower((unsigned char)text[all + n + strlen(units[i])]))
				found = n + strlen(units[i]);
		if (!found)
			return all;
		all += found;
		n = text[all] == ' ' ? strspn(text + all + 1, "0123456789") + 1 : 0;
		if (n == 1)
			return all;
	}
	return all;
}

static void add_cell(const char *text)
{
	while (*text) {
		size_t n = length_of_age(text);

		if (n)
			str_add(&table, "...");
		else if (*text == '|')
			str_add(&table, "\\|");
		else
			str_addn(&table, text, 1);
		text += n ? n : 1;
	}
	str_add(&table, " |");
}

/* Adds the finding about this object as the next row of the table. */
static void row(const char *incident, const char *object, const char *part)
{
	const struct json *f = finding(object, part);

	if (!table.len)
		str_add(&table, "| incident | `inspect` says | next step |\n| --- | --- | --- |\n");
	ck_assert_msg(f != NULL, "no finding about %s: %s", object, part);
	str_addf(&table, "| %s | %s: ", incident, json_str(f, "object"));
	add_cell(json_str(f, "what"));
	str_add(&table, " ");
	add_cell(json_str(f, "next"));
	str_add(&table, "\n");
}

static void expect_findings(unsigned n)
{
	char *all AUTO(free) = json_print_pretty(report.tree);

	ck_assert_msg(report.n_findings == n, "%u findings, not %u: %.3000s", report.n_findings, n,
	              all);
}

START_TEST(a_cluster_in_order_has_no_findings)
{
	start();
	make_whole("v1", "n1");
	later = 3600;
	look(NULL);
	expect_findings(0);
	ck_assert_str_eq(json_str(report.tree, "volumes.0.api.attachments.0.node"), "n1");
	look("v1");
	expect_findings(0);
	ck_assert_ptr_nonnull(json_at(report.tree, "volumes.0.api.volume.conditions.0"));
	ck_assert_ptr_null(json_at(report.tree, "api.unread"));
	stop();
}
END_TEST

START_TEST(an_attachment_that_does_not_get_ready_says_what_is_missing_and_since_when)
{
	start();
	sim_fault("{\"dpf\":\"attachment-never-ready\",\"text\":\"no NVMe controller\"}");
	make_volume("v1");
	wait_bound("v1");
	make_pv("v1", "v1");
	attach("v1", "n1");
	wait_for(&dpu_attachment_kind, "n1-v1", "status.message",
	         "DPUAttach not ready: no NVMe controller");
	look(NULL);
	expect_findings(0); /* it has just begun */
	later = 50;
	look("v1");
	expect("DPUVolumeAttachment dpf/n1-v1", "no NVMe controller", "kubectl -n dpf describe");
	expect("n1-v1", "; for 5", "");
	row("an attachment does not become ready", "n1-v1", "");
	expect_findings(1);
	stop();
}
END_TEST

START_TEST(a_volume_that_is_never_bound_says_why)
{
	start();
	sim_fault("{\"dpf\":\"volume-never-bound\"}");
	make_volume("v1");
	later = 400;
	usleep(200000);
	look(NULL);
	expect("DPUVolume dpf/v1", "is not bound", "kubectl -n dpf describe dpuvolumes v1");
	row("a volume is never bound", "v1", "");
	expect_findings(1);
	stop();
}
END_TEST

START_TEST(an_attachment_that_nobody_wants_is_an_orphan_when_it_is_old)
{
	start();
	make_volume("v1");
	wait_bound("v1");
	make_pv("v1", "v1");
	attach("v1", "n1");
	wait_attached("n1-v1");
	later = 200;
	look(NULL);
	expect_findings(0);
	later = 400;
	look(NULL);
	expect("DPUVolumeAttachment dpf/n1-v1", "orphan: no VolumeAttachment exists for volume v1",
	       "Only if it is neither staged nor published there");
	row("an attachment without a VolumeAttachment", "n1-v1", "");
	expect_findings(1);
	stop();
}
END_TEST

START_TEST(a_volume_without_a_persistent_volume_is_an_orphan_when_it_is_the_drivers)
{
	start();
	make_volume("v1");
	wait_bound("v1");
	/* By hand, and by the Go plugin. */
	post_volume(
		"{\"metadata\":{\"name\":\"by-hand\"},\"spec\":{\"dpuStoragePolicyName\":"
		"\"example-policy\",\"accessModes\":[\"ReadWriteOnce\"],\"resources\":{\"requests\":{"
		"\"storage\":\"1Gi\"}},\"volumeMode\":\"Block\"}}");
	post_volume(
		"{\"metadata\":{\"name\":\"" PVC "\"},\"spec\":{\"dpuStoragePolicyName\":"
		"\"example-policy\",\"accessModes\":[\"ReadWriteOnce\"],\"resources\":{\"requests\":{"
		"\"storage\":\"1Gi\"}},\"volumeMode\":\"Block\"}}");
	wait_bound(PVC);
	wait_bound("by-hand");
	later = 400;
	look(NULL);
	expect("DPUVolume dpf/v1", "orphan: no PersistentVolume refers to it", "Retain");
	row("a volume without a PersistentVolume", "v1", "");
	expect("DPUVolume dpf/" PVC, "orphan: no PersistentVolume", "delete dpuvolumes " PVC);
	expect_findings(2);
	stop();
}
END_TEST

/* Two drivers with different names may share a namespace. */
START_TEST(what_another_driver_has_made_or_uses_is_no_orphan)
{
	static const char spec[] =
		"\"spec\":{\"dpuStoragePolicyName\":\"example-policy\","
		"\"accessModes\":[\"ReadWriteOnce\"],\"resources\":{\"requests\":{"
		"\"storage\":\"1Gi\"}},\"volumeMode\":\"Block\"}}";
	char *marked AUTO(free) = xasprintf(
		"{\"metadata\":{\"name\":\"" PVC "\",\"labels\":{\"app.kubernetes.io/managed-by\":"
		"\"other.example\"},\"annotations\":{\"csi.snap.nvidia.com/name\":\"" PVC "\"}},%s",
		spec);
	char *unmarked AUTO(free) = xasprintf("{\"metadata\":{\"name\":\"" PVC_2 "\"},%s", spec);

	start();
	make_whole("v1", "n1");
	post_volume(marked);
	post_volume(unmarked);
	wait_bound(PVC);
	wait_bound(PVC_2);
	post("/api/v1/persistentvolumes", "v1", "PersistentVolume",
	     "{\"metadata\":{\"name\":\"pv2\"},\"spec\":{\"csi\":{\"driver\":\"other.example\","
	     "\"volumeHandle\":\"" PVC_2 "\"}},\"status\":{\"phase\":\"Bound\"}}");
	post(STORAGE "/dpuvolumeattachments", "storage.dpu.nvidia.com/v1alpha1",
	     "DPUVolumeAttachment",
	     "{\"metadata\":{\"name\":\"n1-" PVC "\",\"labels\":{\"app.kubernetes.io/managed-by\":"
	     "\"other.example\"}},\"spec\":{\"dpuNodeName\":\"n1\",\"dpuVolumeName\":\"" PVC
	     "\",\"functionType\":\"vf\",\"hotplugFunction\":false}}");
	attach(PVC_2, "n1");
	wait_attached("n1-" PVC);
	wait_attached("n1-" PVC_2);
	later = 400;
	look(NULL);
	expect_findings(0);
	stop();
}
END_TEST

START_TEST(of_many_orphans_no_more_are_read_again_than_are_told)
{
	char *requests AUTO(free) = NULL;
	struct json *tree AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	int64_t gets = 0;

	start();
	for (int i = 0; i < 150; i++) {
		char *name AUTO(free) = xasprintf("v%d", i);

		make_volume(name);
		make_pv(name, name);
		attach(name, "n9");
	}
	wait_bound("v149");
	later = 400;
	free(sim_requests());
	look(NULL);
	expect("attachments to nodes that do not exist", "there are more than 100", "");
	expect("attachments without VolumeAttachment", "there are more than 100", "");
	requests = sim_requests();
	ck_assert_int_eq(json_parse("requests", requests, strlen(requests), &tree, &err), 0);
	ck_assert_int_eq(json_get_i64(tree, "get.dpunodes", &gets, &err), 0);
	ck_assert_int_eq(gets, 2); /* of its state, and before it is reported as deleted */
	ck_assert_int_eq(json_get_i64(tree, "get.dpuvolumeattachments", &gets, &err), 0);
	ck_assert_int_eq(gets, 202);
	stop();
}
END_TEST

START_TEST(a_volume_that_kubernetes_takes_for_attached_and_dpf_does_not_have_attached)
{
	start();
	make_whole("v1", "n1");
	free(sim_http("DELETE", STORAGE "/dpuvolumeattachments/n1-v1", ""));
	for (int i = 0; i < 500 && has(&dpu_attachment_kind, "n1-v1", "metadata.name", "n1-v1");
	     i++)
		usleep(10000);
	look(NULL);
	expect("VolumeAttachment csi-v1-n1", "there is no DPUVolumeAttachment", "end them");
	row("another client has deleted the attachment of a volume in use", "csi-v1-n1", "");
	expect_findings(1);
	stop();
}
END_TEST

START_TEST(an_attachment_to_a_node_that_does_not_exist)
{
	start();
	make_volume("v1");
	wait_bound("v1");
	make_pv("v1", "v1");
	attach("v1", "n9");
	later = 400;
	look(NULL);
	expect("n9-v1", "volume v1 is attached to node n9, which does not exist", "out-of-service");
	row("a node with an attachment was removed", "n9-v1", "does not exist");
	stop();
}
END_TEST

START_TEST(a_volume_for_one_node_that_is_attached_to_two)
{
	start();
	make_whole("v1", "n1");
	attach("v1", "n2");
	wait_attached("n2-v1");
	want("v1", "n2", "{\"attached\":false,\"attachError\":{\"message\":\"attached to n1\"}}");
	later = 100;
	look(NULL);
	expect("DPUVolume dpf/v1", "allows one node, but is attached to several: n1 (n1-v1), n2",
	       "before anything is detached");
	expect("VolumeAttachment csi-v1-n2", "attaching of volume v1 on node n2 fails", "inspect");
	row("a volume for one node is attached to several", "DPUVolume dpf/v1", "");
	row("repeated attach failures", "csi-v1-n2", "");
	expect_findings(2);
	stop();
}
END_TEST

START_TEST(a_deletion_that_a_finalizer_keeps_names_it)
{
	start();
	sim_fault("{\"dpf\":\"volume-finalizer-stuck\"}");
	make_volume("v1");
	wait_bound("v1");
	free(sim_http("DELETE", STORAGE "/dpuvolumes/v1", ""));
	later = 720;
	look(NULL);
	expect("DPUVolume dpf/v1", "has been terminating for 12 min",
	       "by hand: DPF then deletes the volume's storage, even while it is attached");
	expect("DPUVolume dpf/v1", "finalizers: ", "");
	row("a finalizer blocks a deletion", "DPUVolume dpf/v1", "");
	expect_findings(1);
	stop();
}
END_TEST

START_TEST(a_stuck_attachment_warns_of_its_function_and_not_of_the_storage)
{
	start();
	sim_fault("{\"dpf\":\"attachment-finalizer-stuck\"}");
	make_whole("v1", "n1");
	free(sim_http("DELETE", STORAGE "/dpuvolumeattachments/n1-v1", ""));
	later = 720;
	look(NULL);
	expect("DPUVolumeAttachment dpf/n1-v1", "has been terminating for 12 min",
	       "by hand: the DPU may keep the function");
	stop();
}
END_TEST

START_TEST(an_api_server_that_refuses_is_a_finding_and_the_rest_is_said_to_be_unread)
{
	start();
	make_volume("v1");
	sim_fault("{\"verb\":\"list\",\"resource\":\"dpuvolumes\",\"status\":403,\"reason\":"
	          "\"Forbidden\",\"message\":\"dpuvolumes is forbidden\"}");
	look(NULL);
	expect("API server", "dpuvolumes", "rbac.yaml");
	row("the API server refuses (403)", "API server", "");
	ck_assert_ptr_nonnull(json_str(report.tree, "api.error"));
	sim_heal();
	sim_fault("{\"verb\":\"list\",\"resource\":\"volumeattachments\",\"status\":403,\"reason\":"
	          "\"Forbidden\",\"message\":\"volumeattachments is forbidden\"}");
	look(NULL);
	expect_findings(0);
	ck_assert_ptr_nonnull(strstr(json_str(report.tree, "api.unread.0"), "volumeattachments"));
	stop();
}
END_TEST

START_TEST(an_api_server_that_is_away_is_a_finding)
{
	const struct inspect_options o = {
		.flags = { .controller = true,
		           .kubeconfig = kubeconfig,
		           .namespace_ = SIM_NS,
		           .name = DRIVER },
	};
	struct err err = ERR_INIT;

	start();
	ck_assert_int_eq(kill(sim.pid, SIGSTOP), 0);
	inspect_report_clear(&report);
	inspect_report_init(&report);
	ck_assert_int_eq(inspect_api_facts(&report, &o, deadline_in_ms(300), &err), 0);
	ck_assert_int_eq(kill(sim.pid, SIGCONT), 0);
	expect("API server", "list dpuvolumes", "kubectl get --raw /readyz");
	ck_assert_ptr_nonnull(json_str(report.tree, "api.error"));
	expect_findings(1);
	stop();
}
END_TEST

START_TEST(where_kubernetes_does_not_attach_nothing_is_an_orphan)
{
	start();
	free(sim_http("DELETE", "/apis/storage.k8s.io/v1/csinodes/n1", ""));
	free(sim_http("DELETE", "/apis/storage.k8s.io/v1/csinodes/n2", ""));
	make_volume("v1");
	wait_bound("v1");
	attach("v1", "n1");
	wait_attached("n1-v1");
	later = 4000;
	look(NULL);
	expect_findings(0);
	ck_assert_ptr_nonnull(strstr(json_str(report.tree, "api.unread.0"), "not Kubernetes"));
	stop();
}
END_TEST

/* Its PersistentVolume was deleted by force, with its finalizers; the volume may be in use. */
START_TEST(a_volume_attachment_without_its_persistent_volume_keeps_its_node_from_advice)
{
	start();
	make_volume("v1");
	make_volume("v2");
	wait_bound("v1");
	wait_bound("v2");
	make_pv("pv-2", "v2");
	attach("v1", "n1");
	attach("v2", "n2");
	wait_attached("n1-v1");
	wait_attached("n2-v2");
	want("pv-1", "n1", "{\"attached\":true}");
	look(NULL);
	ck_assert_ptr_null(finding("VolumeAttachment csi-pv-1-n1", ""));
	later = 4000;
	look(NULL);
	expect("VolumeAttachment csi-pv-1-n1", "its PersistentVolume pv-1 does not exist",
	       "delete no DPUVolumeAttachment of node n1");
	row("a VolumeAttachment without its PersistentVolume", "VolumeAttachment csi-pv-1-n1",
	    "does not exist");
	ck_assert_ptr_null(finding("n1-v1", "no VolumeAttachment exists for"));
	ck_assert_ptr_nonnull(finding("n2-v2", "no VolumeAttachment exists for"));
	look("v2");
	ck_assert_ptr_null(finding("VolumeAttachment csi-pv-1-n1", ""));
	stop();
}
END_TEST

START_TEST(two_persistent_volumes_of_one_volume_are_told)
{
	start();
	make_whole("v1", "n1");
	make_pv("pv-copy", "v1");
	look(NULL);
	expect("volume v1", "several PersistentVolumes have it as volumeHandle: ", "Retain");
	ck_assert_ptr_nonnull(strstr(json_str(finding("volume v1", "several"), "what"), "pv-copy"));
	row("two PersistentVolumes have one volumeHandle", "volume v1", "several");
	stop();
}
END_TEST

/* The timestamps are the API server's; this host's clock is ten hours behind. */
START_TEST(ages_are_measured_by_the_api_servers_clock)
{
	static const char list[] =
		"{\"kind\":\"DPUVolumeList\",\"apiVersion\":\"storage.dpu.nvidia.com/v1alpha1\","
		"\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[{\"metadata\":{\"name\":"
		"\"v1\",\"uid\":\"u\",\"creationTimestamp\":\"2030-01-02T02:04:05Z\"},\"spec\":{},"
		"\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\","
		"\"lastTransitionTime\":\"0001-01-01T00:00:00Z\"}]}}]}";
	struct fake_http *server = fake_http_start();
	char *config AUTO(free) = xasprintf(
		"{\"current-context\":\"x\",\"contexts\":[{\"name\":\"x\",\"context\":{\"cluster\":"
		"\"x\",\"user\":\"x\"}}],\"clusters\":[{\"name\":\"x\",\"cluster\":{\"server\":"
		"\"%s\"}}],\"users\":[{\"name\":\"x\",\"user\":{}}]}",
		fake_http_url(server));
	struct err err = ERR_INIT;
	int64_t age = 0;

	host_later = -36000;
	snprintf(kubeconfig, sizeof(kubeconfig), "/tmp/test_incidents.%d", (int)getpid());
	ck_assert_int_eq(file_replace(kubeconfig, config, strlen(config), 0600, &err), 0);
	fake_http_on(server,
	             (struct fake_reply) { .on = "GET " STORAGE "/dpuvolumes",
	                                   .headers = "Date: Wed, 02 Jan 2030 03:04:05 GMT\r\n",
	                                   .body = list });
	fake_http_on(server, (struct fake_reply) { .on = "GET *", .status = 403, .body = "{}" });
	look(NULL);
	ck_assert_int_eq(json_get_i64(report.tree, "volumes.0.api.volume.age", &age, &err), 0);
	ck_assert_int_ge(age, 3600);
	ck_assert_int_lt(age, 7200);
	ck_assert_ptr_null(json_at(report.tree, "volumes.0.api.volume.since"));
	host_later = 0;
	fake_http_stop(server);
	ck_assert_int_eq(unlink(kubeconfig), 0);
	inspect_report_clear(&report);
}
END_TEST

START_TEST(a_clock_that_is_behind_the_objects_is_a_finding)
{
	start();
	make_volume("v1");
	WAIT_UNTIL(has(&dpu_volume_kind, "v1", "status.phase", "Bound"));
	later = -280;
	look(NULL);
	expect_findings(0);
	later = -3000;
	look(NULL);
	expect("API server", "the clocks differ", "date -u");
	expect_findings(1);
	later = 0;
	stop();
}
END_TEST

START_TEST(a_node_without_rights_says_where_to_ask)
{
	const struct inspect_options o = { .flags = { .node = true } };

	look_as(&o);
	expect_findings(0);
	ck_assert_ptr_nonnull(strstr(json_str(report.tree, "api.error"), "controller's pod"));
	inspect_report_clear(&report);
}
END_TEST

/* ---- from the name that a person has to the volume ---- */

static void post_claim(const char *name, const char *uid, const char *pv)
{
	char *body AUTO(free) = xasprintf("{\"metadata\":{\"name\":\"%s\",\"namespace\":\"" SIM_NS
	                                  "\",\"uid\":\"%s\"},\"spec\":{\"volumeName\":\"%s\"}}",
	                                  name, uid, pv);

	post("/api/v1/namespaces/" SIM_NS "/persistentvolumeclaims", "v1", "PersistentVolumeClaim",
	     body);
}

static void post_pv_of_claim(const char *name, const char *driver, const char *volume,
                             const char *claim)
{
	char *body AUTO(free) = xasprintf(
		"{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"claimRef\":{\"namespace\":\"" SIM_NS
		"\",\"name\":\"%s\"},\"csi\":{\"driver\":\"%s\",\"volumeHandle\":\"%s\"}}}",
		name, claim, driver, volume);

	post("/api/v1/persistentvolumes", "v1", "PersistentVolume", body);
}

static void post_pod(const char *name, const char *volumes)
{
	char *body AUTO(free) = xasprintf("{\"metadata\":{\"name\":\"%s\",\"namespace\":\"" SIM_NS
	                                  "\"},\"spec\":{\"volumes\":[%s]}}",
	                                  name, volumes);

	post("/api/v1/namespaces/" SIM_NS "/pods", "v1", "Pod", body);
}

/* Runs the whole command, with all findings. */
static void ask_for(enum inspect_subject subject, const char *name)
{
	struct inspect_options o = {
		.flags = { .controller = true,
		           .kubeconfig = kubeconfig,
		           .namespace_ = SIM_NS,
		           .plugin_dir = sim.dir,
		           .name = DRIVER },
		.subject = subject,
		.name = name,
		.volume_id = subject == INSPECT_VOLUME ? name : NULL,
		.clock_ahead = later,
	};
	struct err err = ERR_INIT;

	inspect_report_clear(&report);
	inspect_report_init(&report);
	ck_assert_msg(!inspect_scan(&report, &o, &err), "%s", err.msg);
	strs_clear(&o.volumes);
}

static void expect_volumes(const char *want)
{
	struct strs ids AUTO(strs_clear) = STRS_INIT;
	char *list AUTO(free) = NULL;

	json_foreach (v, json_member(report.tree, "volumes"))
		strs_add(&ids, json_str(v, "id"));
	strs_sort(&ids);
	list = strs_join(&ids, " ");
	ck_assert_str_eq(list, want);
}

/*
 * Users call "inspect volume" with the name that they have: a claim's, a PersistentVolume's, a
 * typo.
 */
START_TEST(a_volume_that_nobody_knows_is_a_finding_with_what_to_type)
{
	static const struct {
		const char *id, *next;
	} rows[] = {
		{ "v2", "inspect claim NAMESPACE/NAME" },
		{ "data-0", "it is another name of: inspect claim " SIM_NS "/data-0" },
		{ SIM_NS "/data-0", "it is another name of: inspect claim " SIM_NS "/data-0" },
		{ "other/data-0", "inspect claim other/data-0, or inspect pod other/data-0" },
		{ "pv-1", "it is another name of: inspect volume v1" },
		{ "V1\nx", "inspect claim NAMESPACE/NAME" },
	};

	start();
	make_volume("v1");
	wait_bound("v1");
	post_pv_of_claim("pv-1", DRIVER, "v1", "data-0");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		ask_for(INSPECT_VOLUME, rows[i].id);
		expect_findings(1);
		expect("volume ", "is unknown: it has no DPUVolume", rows[i].next);
	}
	ask_for(INSPECT_VOLUME, "v2");
	row("a volume that does not exist", "volume ", "is unknown");
	ask_for(INSPECT_VOLUME, "v1");
	expect_findings(0);
	stop();
}
END_TEST

START_TEST(a_claim_leads_to_its_volume_or_says_why_not)
{
	start();
	make_volume("v1");
	make_volume("v2");
	wait_bound("v1");
	wait_bound("v2");
	post_pv_of_claim("pv-1", DRIVER, "v1", "data-0");
	post_pv_of_claim("pv-2", "another.driver", "v2", "foreign");
	/* An earlier claim of the same name: its volume was kept. */
	post_pv_of_claim("pv-0", DRIVER, "v0", "data-0");
	post_claim("data-0", "u-1", "pv-1");
	post_claim("foreign", "u-2", "pv-2");
	post_claim("new", "u-3", "");
	ask_for(INSPECT_CLAIM, SIM_NS "/data-0");
	expect_volumes("v1");
	expect_findings(0);
	ask_for(INSPECT_CLAIM, SIM_NS "/none");
	expect_volumes("");
	expect("claim " SIM_NS "/none", "does not exist", "kubectl get pvc -A");
	row("a claim that does not exist", "claim ", "does not exist");
	ask_for(INSPECT_CLAIM, SIM_NS "/foreign");
	expect("claim ", "its PersistentVolume pv-2 is not of driver", "kubectl get pv pv-2");
	ask_for(INSPECT_CLAIM, SIM_NS "/new");
	expect("claim ", "has no PersistentVolume yet; its volume will be pvc-",
	       "describe pvc new");
	stop();
}
END_TEST

START_TEST(a_pod_leads_to_the_volumes_of_its_claims)
{
	start();
	make_volume("v1");
	make_volume("v2");
	make_volume("v3");
	post_pv_of_claim("pv-1", DRIVER, "v1", "data-0");
	post_pv_of_claim("pv-2", DRIVER, "v2", "db-0-scratch");
	post_pv_of_claim("pv-3", DRIVER, "v3", "others");
	post_claim("data-0", "u-1", "pv-1");
	post_claim("db-0-scratch", "u-2", "pv-2");
	post_claim("others", "u-3", "pv-3");
	post_pod("db-0",
	         "{\"name\":\"a\",\"persistentVolumeClaim\":{\"claimName\":\"data-0\"}},"
	         "{\"name\":\"scratch\",\"ephemeral\":{}},{\"name\":\"c\",\"configMap\":{}}");
	post_pod("web-0", "{\"name\":\"c\",\"configMap\":{}}");
	ask_for(INSPECT_POD, SIM_NS "/db-0");
	expect_volumes("v1 v2");
	ask_for(INSPECT_POD, SIM_NS "/web-0");
	expect("pod " SIM_NS "/web-0", "has no volume of driver", "other drivers");
	expect_volumes("");
	ask_for(INSPECT_POD, SIM_NS "/db-1");
	expect("pod " SIM_NS "/db-1", "does not exist", "kubectl get pods -A");
	sim_fault("{\"verb\":\"get\",\"resource\":\"pods\",\"status\":403,\"reason\":\"Forbidden\","
	          "\"message\":\"pods is forbidden\"}");
	ask_for(INSPECT_POD, SIM_NS "/db-0");
	expect("pod " SIM_NS "/db-0", "all are shown: ", "inspect volume ID");
	expect_volumes("v1 v2 v3");
	stop();
}
END_TEST

START_TEST(a_node_leads_to_the_volumes_that_it_has_or_is_to_get)
{
	start();
	make_volume("v1");
	make_volume("v2");
	make_volume("v3");
	make_pv("pv-2", "v2");
	attach("v1", "n1");
	attach("v3", "n2");
	want("pv-2", "n1", "{\"attached\":false}");
	wait_attached("n1-v1");
	ask_for(INSPECT_NODE, "n1");
	expect_volumes("v1 v2");
	ask_for(INSPECT_NODE, "n9");
	expect_volumes("");
	expect("node n9", "kubelet has no driver", "kubectl get csinodes");
	stop();
}
END_TEST

START_TEST(a_host_without_access_says_who_knows_claims)
{
	struct inspect_options o = { .flags = { .node_id = "n1", .name = DRIVER },
		                     .subject = INSPECT_CLAIM,
		                     .name = "team-a/data-0" };

	inspect_report_clear(&report);
	inspect_report_init(&report);
	inspect_resolve(&report, &o, wait_limit());
	expect("claim team-a/data-0", "no access to the API server", "controller's pod");
	o.subject = INSPECT_NODE;
	o.name = "n1";
	inspect_resolve(&report, &o, wait_limit());
	expect_findings(1);
	ck_assert(o.node_only);
	o.name = "n2";
	inspect_resolve(&report, &o, wait_limit());
	expect("node n2", "unknown on this host (node n1)", "controller's pod");
	inspect_report_clear(&report);
}
END_TEST

/* Text of a user or a vendor at places that a support case would include. */
static void plant_secrets(void)
{
	char *config AUTO(free) = NULL, *with_token AUTO(free) = NULL, *cut;
	struct err err = ERR_INIT;

	post(STORAGE "/dpuvolumes", "storage.dpu.nvidia.com/v1alpha1", "DPUVolume",
	     "{\"metadata\":{\"name\":\"v2\",\"annotations\":{"
	     "\"kubectl.kubernetes.io/last-applied-configuration\":\"PLANTED-1\"},\"labels\":{"
	     "\"team\":\"PLANTED-2\"}},\"spec\":{\"dpuStoragePolicyName\":\"example-policy\","
	     "\"parameters\":{\"pool\":\"PLANTED-3\"},\"accessModes\":[\"ReadWriteOnce\"],"
	     "\"resources\":{\"requests\":{\"storage\":\"1Gi\"}},\"volumeMode\":\"Block\"}}");
	post("/api/v1/persistentvolumes", "v1", "PersistentVolume",
	     "{\"metadata\":{\"name\":\"v2\"},\"spec\":{\"csi\":{\"driver\":\"" DRIVER
	     "\",\"volumeHandle\":\"v2\",\"volumeAttributes\":{\"chap\":\"PLANTED-4\"},"
	     "\"nodeStageSecretRef\":{\"name\":\"the-name\",\"namespace\":\"n\"}}}}");
	/* The credentials that the report itself uses. */
	ck_assert_int_eq(file_read(kubeconfig, 65536, &config, NULL, &err), 0);
	cut = strstr(config, "user: {}");
	ck_assert_ptr_nonnull(cut);
	*cut = '\0';
	with_token = xasprintf("%suser: {token: PLANTED-5}%s", config, cut + strlen("user: {}"));
	ck_assert_int_eq(file_replace(kubeconfig, with_token, strlen(with_token), 0600, &err), 0);
}

static char *output_of(const char *command)
{
	struct str all AUTO(str_clear) = STR_INIT(16 << 20);
	FILE *pipe = popen(command, "r");
	char buf[4096];
	size_t n;

	ck_assert_ptr_nonnull(pipe);
	while ((n = fread(buf, 1, sizeof(buf), pipe)) > 0)
		str_addn(&all, buf, n);
	ck_assert_int_eq(pclose(pipe), 0);
	return str_take(&all);
}

START_TEST(a_bundle_has_what_a_support_case_needs_and_no_secret)
{
	static const char *const needed[] = { "findings",
		                              "snap-csi-plugin 1.",
		                              "--kubeconfig=",
		                              "\"kind\":\"DPUVolumeAttachment\"",
		                              "\"kind\":\"DPUVolume\"",
		                              "the-name",
		                              "\"pool\":\"(removed)\"",
		                              "csi-v1-n1",
		                              "\"kind\":\"Event\"",
		                              "about the volume",
		                              "snap_csi_planned 1" };
	struct fake_http *driver = fake_http_start();
	const char *address = fake_http_url(driver) + strlen("http://");
	char path[160];
	const struct inspect_options o = {
		.flags = { .controller = true,
		           .kubeconfig = kubeconfig,
		           .namespace_ = SIM_NS,
		           .name = DRIVER,
		           .http_endpoint = address,
		           .proc_root = "/proc" },
		.bundle = path,
	};
	char *untar AUTO(free) = NULL, *all AUTO(free) = NULL;
	struct err err = ERR_INIT;
	struct stat st;

	start();
	make_whole("v1", "n1");
	plant_secrets();
	wait_bound("v2");
	post_event("e", "DPUVolume", "v2", "u", "Normal", "about the volume", time(NULL), 1);
	fake_http_on(driver, (struct fake_reply) { .on = "GET /metrics",
	                                           .body = "snap_csi_planned 1\n",
	                                           .close = true });
	snprintf(path, sizeof(path), "%s/bundle.tar", sim.dir);
	look_as(&o);
	ck_assert_msg(!inspect_bundle(&report, &o, wait_limit(), &err), "%s", err.msg);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	untar = xasprintf("tar -xOf %s", path);
	all = output_of(untar);
	ck_assert_msg(strstr(all, "PLANTED") == NULL, "a secret: %s", strstr(all, "PLANTED"));
	for (size_t i = 0; i < ARRAY_LEN(needed); i++)
		ck_assert_msg(strstr(all, needed[i]) != NULL, "no %s in %.3000s", needed[i], all);
	/* Never over a file. */
	ck_assert_int_eq(inspect_bundle(&report, &o, wait_limit(), &err), -1);
	ck_assert_msg(strstr(err.msg, "File exists") != NULL, "%s", err.msg);
	ck_assert_int_eq(stat(path, &st), 0);
	unlink(path);
	fake_http_stop(driver);
	stop();
}
END_TEST

START_TEST(a_bundle_of_one_volume_has_its_objects_and_no_others)
{
	static const char *const needed[] = {
		"\"kind\":\"DPUVolume\"",        "\"kind\":\"DPUVolumeAttachment\"",
		"\"kind\":\"PersistentVolume\"", "\"name\":\"csi-by-hand-n1\"",
		"\"message\":\"one\"",           "\"message\":\"two\""
	};
	char path[160];
	const struct inspect_options o = {
		.flags = { .controller = true,
		           .kubeconfig = kubeconfig,
		           .namespace_ = SIM_NS,
		           .name = DRIVER },
		.bundle = path,
		.volume_id = "v1",
	};
	char *untar AUTO(free) = NULL, *all AUTO(free) = NULL;
	struct err err = ERR_INIT;

	start();
	make_whole("v10", "n1");
	make_volume("v1");
	wait_bound("v1");
	make_pv("by-hand", "v1");
	attach("v1", "n1");
	wait_attached("n1-v1");
	want("by-hand", "n1", "{\"attached\":true}");
	post_event("e1", "DPUVolume", "v1", "u", "Warning", "one", time(NULL), 1);
	post_event("e2", "DPUVolumeAttachment", "n1-v1", "u", "Normal", "two", time(NULL), 1);
	post_event("e3", "DPUVolume", "v10", "u", "Normal", "three", time(NULL), 1);
	post_event("e4", "Pod", "v1", "u", "Normal", "four of v10", time(NULL), 1);
	snprintf(path, sizeof(path), "%s/one.tar", sim.dir);
	look_as(&o);
	ck_assert_msg(!inspect_bundle(&report, &o, wait_limit(), &err), "%s", err.msg);
	untar = xasprintf("tar -xOf %s --wildcards '*.jsonl'", path);
	all = output_of(untar);
	for (size_t i = 0; i < ARRAY_LEN(needed); i++)
		ck_assert_msg(strstr(all, needed[i]) != NULL, "no %s in %.3000s", needed[i], all);
	ck_assert_msg(strstr(all, "v10") == NULL, "v10 in %.3000s", all);
	unlink(path);
	stop();
}
END_TEST

/* Another program may answer at the driver's address. */
START_TEST(metrics_without_end_do_not_keep_a_bundle)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	char path[] = "/tmp/test_incidents.XXXXXX", address[32];
	const struct inspect_options o = { .flags = { .http_endpoint = address }, .bundle = path };
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t n = sizeof(to);
	struct err err = ERR_INIT;
	pid_t pid;

	ck_assert_int_eq(bind(s, (struct sockaddr *)&to, n) || listen(s, 1), 0);
	ck_assert_int_eq(getsockname(s, (struct sockaddr *)&to, &n), 0);
	snprintf(address, sizeof(address), "127.0.0.1:%d", ntohs(to.sin_port));
	pid = fork();
	if (pid == 0) {
		static const char lines[65536] = { '#' };
		int fd = accept(s, NULL, NULL);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (send(fd, lines, sizeof(lines), MSG_NOSIGNAL) > 0)
			;
		_exit(0);
	}
	close(mkstemp(path));
	unlink(path);
	inspect_report_init(&report);
	ck_assert_msg(!inspect_bundle(&report, &o, wait_limit(), &err), "%s", err.msg);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	inspect_report_clear(&report);
	unlink(path);
	close(s);
}
END_TEST

/* ---- Events, DPUNodes, DPUs, DPU clusters ---- */

#define PROVISIONING "/apis/provisioning.dpu.nvidia.com/v1alpha1/namespaces/" SIM_NS
#define FULL "rpc error: code = ResourceExhausted desc = no space left on lvstore"

static char *uid_of(const struct kube_kind *kind, const char *name)
{
	struct json *object AUTO(json_free) = NULL;
	struct err err = ERR_INIT;

	ck_assert_msg(!kube_get(sim.kube, kind, SIM_NS, name, wait_limit(), &object, &err), "%s",
	              err.msg);
	return xstrdup(json_str(object, "metadata.uid"));
}

static void patch(const char *path, const char *body)
{
	char *answer AUTO(free) = sim_http("PATCH", path, body);

	ck_assert_msg(!strstr(answer, "\"Failure\""), "%s", answer);
}

static bool look_has(const char *volume, const char *object, const char *part)
{
	look(volume);
	return finding(object, part) != NULL;
}

START_TEST(a_full_vendor_is_a_finding_with_its_words_and_where_to_look)
{
	start();
	sim_fault("{\"dpf\":\"volume-failure\"}");
	make_volume("v1");
	/*
	 * The Event may arrive between the list of volumes and that of Events, so wait for it
	 * first.
	 */
	WAIT_UNTIL(look_has(NULL, "DPUVolume dpf/v1", FULL));
	/* At once: a refused volume is not in progress. */
	look(NULL);
	expect("DPUVolume dpf/v1", "is not bound", "the vendor's storage or a quota is full");
	expect("DPUVolume dpf/v1", "Event ProvisioningFailed", "in DPU cluster dpf/");
	row("the vendor's storage is full", "DPUVolume dpf/v1", "");
	expect_findings(1);
	ck_assert_ptr_nonnull(
		strstr(json_str(report.tree, "volumes.0.api.volume.warning.message"), FULL));
	/* CreateVolume removes it before it answers, and the next attempt creates another one. */
	sim_heal();
	free(sim_http("DELETE", STORAGE "/dpuvolumes/v1", ""));
	WAIT_UNTIL(!has(&dpu_volume_kind, "v1", "metadata.name", "v1"));
	look(NULL);
	expect("DPUVolume dpf/v1", FULL, "the vendor's storage or a quota is full");
	row("the same between two attempts of CreateVolume", "DPUVolume dpf/v1", "");
	look("v1");
	expect("DPUVolume dpf/v1", "an earlier object of this name", "retried");
	expect_findings(1);
	look("v2");
	expect_findings(0);
	/* csi-provisioner would have retried by that time. */
	later = 700;
	look("v1");
	expect_findings(0);
	later = 0;
	make_volume("v1");
	wait_bound("v1");
	look("v1");
	expect_findings(0);
	stop();
}
END_TEST

START_TEST(of_many_events_the_newest_warning_about_this_very_object_counts)
{
	char *uid AUTO(free) = NULL, *attachment AUTO(free) = NULL;
	time_t now = time(NULL);

	start();
	sim_fault("{\"dpf\":\"volume-never-bound\",\"name\":\"v1\"}");
	sim_fault("{\"dpf\":\"attachment-never-ready\",\"name\":\"v2\"}");
	make_volume("v1");
	make_volume("v2");
	wait_bound("v2");
	attach("v2", "n1");
	uid = uid_of(&dpu_volume_kind, "v1");
	attachment = uid_of(&dpu_attachment_kind, "n1-v2");
	for (int i = 0; i < 2000; i++) {
		char name[32], text[32];

		snprintf(name, sizeof(name), "e%d", i);
		snprintf(text, sizeof(text), "attempt %d", i);
		post_event(name, "DPUVolume", "v1", uid, i == 700 ? "Normal" : "Warning", text, now,
		           i == 1234 ? 20 : 30 + i % 7);
	}
	post_event("n", "DPUVolume", "v1", uid, "Normal", "goes on", now, 1);
	post_event("o", "DPUVolume", "v1", "11111111-0000-4000-8000-000000000000", "Warning",
	           "of an earlier object", now, 2);
	post_event("a", "DPUVolumeAttachment", "n1-v2", attachment, "Warning", "no function", now,
	           3);
	post_event("b", "DPUVolumeAttachment", "n1-v2", uid, "Warning", "of another", now, 2);
	look(NULL);
	expect("DPUVolume dpf/v1", "Event Posted: attempt 1234, ", "describe dpuvolumes v1");
	expect("DPUVolumeAttachment dpf/n1-v2", "Event Posted: no function, ",
	       "describe dpuvolumeattachments n1-v2");
	look("v2");
	expect("DPUVolumeAttachment dpf/n1-v2", "Event Posted: no function", "");
	expect_findings(1);
	/* A full DPU is not the vendor's fault. */
	post_event("c", "DPUVolumeAttachment", "n1-v2", attachment, "Warning", "no free function",
	           now, 0);
	look("v2");
	expect("DPUVolumeAttachment dpf/n1-v2", "no free function",
	       "describe dpuvolumeattachments n1-v2");
	stop();
}
END_TEST

START_TEST(a_warning_counts_when_it_is_newer_than_the_last_success)
{
	char *uid AUTO(free) = NULL;

	start();
	make_whole("v1", "n1");
	uid = uid_of(&dpu_volume_kind, "v1");
	post_event("old", "DPUVolume", "v1", uid, "Warning", FULL, time(NULL), 100);
	look("v1");
	expect_findings(0);
	ck_assert_str_eq(json_str(report.tree, "volumes.0.api.volume.warning.message"), FULL);
	post_event("new", "DPUVolume", "v1", uid, "Warning", "resize refused", time(NULL), -50);
	later = 100;
	look("v1");
	expect("DPUVolume dpf/v1", "is ready, but has a newer Warning: Event Posted: resize",
	       "all its Events: kubectl -n dpf describe dpuvolumes v1");
	row("a Warning about a volume that is ready", "DPUVolume dpf/v1", "");
	expect_findings(1);
	stop();
}
END_TEST

START_TEST(texts_of_an_event_may_be_anything_and_are_cut)
{
	char *uid AUTO(free) = NULL, *shown AUTO(free) = NULL, *text AUTO(free) = NULL;
	size_t n = 0;
	FILE *out;
	struct str message AUTO(str_clear) = STR_INIT(1 << 20);

	start();
	sim_fault("{\"dpf\":\"volume-never-bound\"}");
	make_volume("v1");
	uid = uid_of(&dpu_volume_kind, "v1");
	str_add(&message, "no\\u0000 \\u0007\\u202e\\u001b[2Jjoy \xff\xfe\\n");
	while (message.len < 100000)
		str_add(&message, "pool ");
	str_add(&message, FULL);
	post_event("e", "DPUVolume", "v1", uid, "Warning", message.ptr, time(NULL), 0);
	post("/api/v1/namespaces/" SIM_NS "/events", "v1", "Event",
	     "{\"metadata\":{\"name\":\"odd\",\"namespace\":\"" SIM_NS "\"},\"involvedObject\":{"
	     "\"kind\":\"DPUVolume\",\"name\":\"../v1\",\"uid\":7},\"type\":\"Warning\","
	     "\"reason\":[],\"message\":\"" FULL "\"}");
	look(NULL);
	expect("DPUVolume dpf/v1", "pool pool", "the vendor's storage or a quota is full");
	expect_findings(1);
	shown = json_print_shown(report.tree);
	ck_assert_uint_lt(strlen(shown), 8000);
	ck_assert_ptr_null(strpbrk(shown, "\a\033"));
	out = open_memstream(&text, &n);
	inspect_print(&report, out);
	fclose(out);
	ck_assert_ptr_null(strpbrk(text, "\a\033"));
	stop();
}
END_TEST

START_TEST(events_that_may_not_be_read_are_said_to_be_unread)
{
	start();
	sim_fault("{\"verb\":\"list\",\"resource\":\"events\",\"status\":403,\"reason\":"
	          "\"Forbidden\",\"message\":\"events is forbidden\"}");
	sim_fault("{\"dpf\":\"volume-failure\"}");
	make_volume("v1");
	later = 50;
	look(NULL);
	expect("DPUVolume dpf/v1", "is not bound", "kubectl -n dpf describe dpuvolumes v1");
	expect_findings(1);
	ck_assert_msg(strstr(json_str(report.tree, "api.unread.0"), "not allowed to list events"),
	              "%s", json_str(report.tree, "api.unread.0"));
	stop();
}
END_TEST

/* A namespace may have so many Events that the API server reads for a minute. */
START_TEST(causes_that_do_not_come_cost_the_rest_nothing)
{
	start();
	causes_ms = 200;
	sim_fault("{\"verb\":\"list\",\"resource\":\"events\",\"hang\":true}");
	sim_fault("{\"verb\":\"get\",\"resource\":\"dpunodes\",\"hang\":true}");
	sim_fault("{\"verb\":\"list\",\"resource\":\"dpus\",\"hang\":true}");
	make_volume("v1");
	wait_bound("v1");
	make_pv("v1", "v1");
	attach("v1", "n1");
	wait_attached("n1-v1");
	later = 400;
	look("v1");
	expect("DPUVolumeAttachment dpf/n1-v1", "orphan: no VolumeAttachment exists for volume v1",
	       "");
	expect_findings(1);
	ck_assert_uint_eq(json_count(json_at(report.tree, "api.unread")), 3);
	stop();
}
END_TEST

START_TEST(a_dpu_that_is_not_ready_is_a_finding_with_its_text)
{
	start();
	make_whole("v1", "n1");
	sim_fault("{\"dpf\":\"dpu-not-ready\",\"name\":\"n1\",\"text\":\"it is flashed\"}");
	later = 50;
	WAIT_UNTIL(look_has("v1", "n1-v1", "DPU n1-0000-26-00 is not ready"));
	expect("DPU dpf/n1-0000-26-00", "Ready=False for ", "describe dpus n1-0000-26-00");
	expect("DPU dpf/n1-0000-26-00", "it is flashed", "");
	row("the DPU of a node is not Ready", "DPU dpf/n1-0000-26-00", "");
	expect("DPUVolumeAttachment dpf/n1-v1", "DPU n1-0000-26-00 is not ready", "");
	ck_assert_ptr_null(finding("n2", ""));
	stop();
}
END_TEST

START_TEST(a_node_that_reboots_or_is_updated_is_a_finding)
{
	start();
	make_whole("v1", "n1");
	patch(PROVISIONING "/dpunodes/n1/status",
	      "{\"status\":{\"rebootInProgress\":true,\"conditions\":["
	      "{\"type\":\"Ready\",\"status\":\"False\",\"reason\":\"Busy\",\"message\":\"reboot is "
	      "in progress\"},{\"type\":\"DPUNodeRebootInProgress\",\"status\":\"True\","
	      "\"reason\":\"WaitingForManualPowerCycleOrReboot\",\"message\":\"\"},"
	      "{\"type\":\"DPUUpdateInProgress\",\"status\":\"False\",\"message\":\"none\"}]}}");
	look(NULL);
	expect("DPUNode dpf/n1", "rebootInProgress=true, Ready=False (Busy: reboot is in progress)",
	       "kubectl -n dpf describe dpunodes n1");
	expect("DPUNode dpf/n1", "DPUNodeRebootInProgress=True (WaitingForManual", "manual reboot");
	row("DPF requests a reboot of the host", "DPUNode dpf/n1", "");
	expect_findings(1);
	ck_assert_ptr_null(strstr(json_str(report.tree, "findings.0.what"), "DPUUpdate"));
	patch(PROVISIONING "/dpunodes/n1/status",
	      "{\"status\":{\"rebootInProgress\":false,\"conditions\":["
	      "{\"type\":\"DPUUpdateInProgress\",\"status\":\"True\"}]}}");
	look("v1");
	expect("DPUNode dpf/n1", "is not in service: DPUUpdateInProgress=True", "");
	expect_findings(1);
	/* Values of other types. */
	patch(PROVISIONING "/dpunodes/n1/status",
	      "{\"status\":{\"rebootInProgress\":\"yes\",\"conditions\":[7,"
	      "{\"type\":\"DPUUpdateInProgress\",\"status\":true}]}}");
	look("v1");
	expect_findings(0);
	stop();
}
END_TEST

START_TEST(a_node_without_one_dpu_that_dpf_can_use_is_a_finding)
{
	static const char second[] = "{\"metadata\":{\"name\":\"second\",\"namespace\":\"" SIM_NS
				     "\"},\"spec\":{\"dpuNodeName\":\"n1\"}}";

	start();
	later = -240; /* nothing is old: attachments to such a node are not ready either */
	make_whole("v1", "n1");
	post(PROVISIONING "/dpus", "provisioning.dpu.nvidia.com/v1alpha1", "DPU", second);
	wait_for(&dpu_kind, "second", "status.phase", "Ready");
	look(NULL);
	expect("DPUNode dpf/n1", "none of its 2 DPUs (0 have the annotation", "annotate dpus");
	row("a node has several DPUs, and none is preferred", "DPUNode dpf/n1", "");
	expect_findings(1);
	patch(PROVISIONING "/dpus/second",
	      "{\"metadata\":{\"annotations\":{\"storage.nvidia.com/preferred-dpu\":\"\"}}}");
	look(NULL);
	expect_findings(0);
	patch(PROVISIONING "/dpus/second/status",
	      "{\"status\":{\"outdated\":{\"timeStamp\":\"2026-01-01T00:00:00Z\",\"reason\":"
	      "\"OutdatedBFB\",\"message\":\"DPU template has changed (BFB: a -> b)\"}}}");
	look(NULL);
	expect("DPU dpf/second", "OutdatedBFB: DPU template has changed", "drain node n1");
	row("a DPU is outdated", "DPU dpf/second", "");
	expect_findings(1);
	free(sim_http("DELETE", PROVISIONING "/dpus/second", ""));
	free(sim_http("DELETE", PROVISIONING "/dpus/n1-0000-26-00", ""));
	WAIT_UNTIL(look_has("v1", "DPUNode dpf/n1", "has no DPU"));
	expect("DPUNode dpf/n1", "0 DPUs have spec.dpuNodeName n1, expected 1",
	       "delete the DPUNode");
	row("a node has no DPU", "DPUNode dpf/n1", "");
	/* A node without attachments yet, as with a driver that refuses to attach. */
	make_volume("v2");
	wait_bound("v2");
	make_pv("v2", "v2");
	want("v2", "n1", "{\"attached\":false}");
	look("v2");
	expect("DPUNode dpf/n1", "has no DPU", "");
	/* A host without DPUNode needs no DPU. */
	free(sim_http("DELETE", PROVISIONING "/dpunodes/n1", ""));
	look("v2");
	expect_findings(0);
	stop();
}
END_TEST

START_TEST(dpus_and_dpunodes_that_cannot_be_read_are_said_to_be_unread)
{
	static const char *const answers[] = {
		"\"status\":403,\"reason\":\"Forbidden\",\"message\":\"forbidden\"",
		"\"unserved\":true",
		"\"status\":500,\"reason\":\"InternalError\",\"message\":\"etcd\"",
	};

	start();
	make_whole("v1", "n1");
	later = 3600;
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		static const char *const reads[] = {
			"{\"verb\":\"list\",\"resource\":\"dpus\",%s}",
			"{\"verb\":\"get\",\"resource\":\"dpunodes\",%s}",
		};

		for (size_t j = 0; j < ARRAY_LEN(reads); j++) {
			struct str fault AUTO(str_clear) = STR_INIT(1000);
			const char *cut = strstr(reads[j], "%s");

			str_addn(&fault, reads[j], (size_t)(cut - reads[j]));
			str_addf(&fault, "%s}", answers[i]);
			sim_fault(fault.ptr);
		}
		look("v1");
		expect_findings(0);
		ck_assert_uint_eq(json_count(json_at(report.tree, "api.unread")), 2);
		ck_assert_ptr_nonnull(strstr(json_str(report.tree, "api.unread.0"), "dpunodes"));
		ck_assert_ptr_nonnull(strstr(json_str(report.tree, "api.unread.1"), "dpus"));
		sim_heal();
	}
	stop();
}
END_TEST

START_TEST(of_many_nodes_those_where_something_waits_are_read_first)
{
	char *requests AUTO(free) = NULL;
	struct json *tree AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	int64_t gets = 0;

	start();
	make_volume("v1");
	make_pv("v1", "v1");
	for (int i = 0; i < 110; i++) {
		char *node AUTO(free) = xasprintf("m%d", i);

		want("v1", node, "{\"attached\":true}");
	}
	want("v1", "n2", "{\"attached\":false}");
	patch(PROVISIONING "/dpunodes/n2/status", "{\"status\":{\"rebootInProgress\":true}}");
	free(sim_requests());
	look("v1");
	expect("DPUNode dpf/n2", "rebootInProgress=true", "");
	ck_assert_ptr_nonnull(
		strstr(json_str(report.tree, "api.unread.0"), "at most 100 are read"));
	requests = sim_requests();
	ck_assert_int_eq(json_parse("requests", requests, strlen(requests), &tree, &err), 0);
	ck_assert_int_eq(json_get_i64(tree, "get.dpunodes", &gets, &err), 0);
	ck_assert_int_eq(gets, 100);
	stop();
}
END_TEST

START_TEST(where_to_look_in_the_dpu_cluster_is_a_command_unless_a_name_is_none)
{
	start();
	make_volume("v1");
	wait_bound("v1");
	look(NULL);
	ck_assert_ptr_null(json_at(report.tree, "volumes.0.api.volume.place"));
	look("v1");
	ck_assert_str_eq(json_str(report.tree, "volumes.0.api.volume.place.claim"), "dpf/v1-pvc");
	ck_assert_ptr_nonnull(strstr(json_str(report.tree, "volumes.0.api.volume.place.command"),
	                             ".kubeconfig -n dpf describe pvc v1-pvc"));
	ck_assert_ptr_nonnull(json_str(report.tree, "volumes.0.api.volume.place.volume"));
	patch(STORAGE "/dpuvolumes/v1/status",
	      "{\"status\":{\"state\":{\"dpuCluster\":{\"name\":\"c; reboot\"}}}}");
	look("v1");
	ck_assert_ptr_nonnull(
		strstr(json_str(report.tree, "volumes.0.api.volume.place.dpuCluster"), "reboot"));
	ck_assert_ptr_null(json_at(report.tree, "volumes.0.api.volume.place.command"));
	stop();
}
END_TEST

START_TEST(the_table_of_the_page_is_what_was_seen)
{
	if (getenv("CK_RUN_CASE"))
		return;
	doc_table_check("test/reports/inspect.md", "incidents", table.ptr);
	str_clear(&table);
}
END_TEST

SUITE("incidents", a_cluster_in_order_has_no_findings,
      an_attachment_that_does_not_get_ready_says_what_is_missing_and_since_when,
      a_volume_that_is_never_bound_says_why,
      an_attachment_that_nobody_wants_is_an_orphan_when_it_is_old,
      a_volume_without_a_persistent_volume_is_an_orphan_when_it_is_the_drivers,
      what_another_driver_has_made_or_uses_is_no_orphan,
      of_many_orphans_no_more_are_read_again_than_are_told,
      a_volume_that_kubernetes_takes_for_attached_and_dpf_does_not_have_attached,
      an_attachment_to_a_node_that_does_not_exist, a_volume_for_one_node_that_is_attached_to_two,
      a_deletion_that_a_finalizer_keeps_names_it,
      a_stuck_attachment_warns_of_its_function_and_not_of_the_storage,
      an_api_server_that_refuses_is_a_finding_and_the_rest_is_said_to_be_unread,
      an_api_server_that_is_away_is_a_finding,
      where_kubernetes_does_not_attach_nothing_is_an_orphan,
      a_volume_attachment_without_its_persistent_volume_keeps_its_node_from_advice,
      two_persistent_volumes_of_one_volume_are_told, ages_are_measured_by_the_api_servers_clock,
      a_clock_that_is_behind_the_objects_is_a_finding, a_node_without_rights_says_where_to_ask,
      a_volume_that_nobody_knows_is_a_finding_with_what_to_type,
      a_claim_leads_to_its_volume_or_says_why_not, a_pod_leads_to_the_volumes_of_its_claims,
      a_node_leads_to_the_volumes_that_it_has_or_is_to_get,
      a_host_without_access_says_who_knows_claims,
      a_bundle_has_what_a_support_case_needs_and_no_secret,
      a_bundle_of_one_volume_has_its_objects_and_no_others,
      metrics_without_end_do_not_keep_a_bundle,
      a_full_vendor_is_a_finding_with_its_words_and_where_to_look,
      of_many_events_the_newest_warning_about_this_very_object_counts,
      a_warning_counts_when_it_is_newer_than_the_last_success,
      texts_of_an_event_may_be_anything_and_are_cut,
      events_that_may_not_be_read_are_said_to_be_unread,
      causes_that_do_not_come_cost_the_rest_nothing,
      a_dpu_that_is_not_ready_is_a_finding_with_its_text,
      a_node_that_reboots_or_is_updated_is_a_finding,
      a_node_without_one_dpu_that_dpf_can_use_is_a_finding,
      dpus_and_dpunodes_that_cannot_be_read_are_said_to_be_unread,
      of_many_nodes_those_where_something_waits_are_read_first,
      where_to_look_in_the_dpu_cluster_is_a_command_unless_a_name_is_none,
      the_table_of_the_page_is_what_was_seen);
