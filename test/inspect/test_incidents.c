/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API server's side of `inspect` against snap-sim: each incident is prepared with objects and
 * faults, and the report says what, since when and what to do. The clock of the report is the
 * test's, so that objects grow old at once.
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
#include "dpf/dpu_attachment.h"
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

static time_t later; /* seconds that the report's clock is ahead */
static char kubeconfig[128];
static struct inspect_report report;

/* In place of the C library's: the report's clock. */
time_t time(time_t *ret)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec += later;
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

/* kubelet has the driver on this node. */
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

/* Kubernetes wants the volume on the node, and believes it attached. */
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

/* A volume with all that it should have. */
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
	};

	look_as(&o);
}

/* The first about the object that says the part. */
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

/* ---- the table of docs/inspect.md ---- */

static struct str table = STR_INIT(64 * 1024);

/* "50 s", "6 min 40 s": how long it took is never the same. */
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

/* What the report says of this object now is the table's next row. */
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
	expect("n1-v1", "; since 5", "");
	row("an attachment does not get ready", "n1-v1", "");
	expect_findings(1);
	stop();
}
END_TEST

START_TEST(a_volume_that_is_never_bound_says_why)
{
	start();
	sim_fault("{\"dpf\":\"volume-never-bound\",\"text\":\"vendor asleep\"}");
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
	expect("DPUVolumeAttachment dpf/n1-v1", "orphan: no VolumeAttachment wants volume v1",
	       "Only when it is neither staged nor published there");
	row("an attachment is left that nobody wants", "n1-v1", "");
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
	expect("DPUVolume dpf/v1", "orphan: no PersistentVolume has it", "Retain");
	row("a volume is left without its PersistentVolume", "v1", "");
	expect("DPUVolume dpf/" PVC, "orphan: no PersistentVolume", "delete dpuvolumes " PVC);
	expect_findings(2);
	stop();
}
END_TEST

/* Two drivers, of two names, may share a namespace. */
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
	ck_assert_int_eq(gets, 1);
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
	row("somebody has deleted the attachment of a volume in use", "csi-v1-n1", "");
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
	row("a node with an attachment has been removed", "n9-v1", "does not exist");
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
	expect("DPUVolume dpf/v1", "is for one node and attached elsewhere, too: n1 (n1-v1), n2",
	       "before anything is detached");
	expect("VolumeAttachment csi-v1-n2", "attaching of volume v1 on node n2 fails", "inspect");
	row("a volume for one node is attached elsewhere, too", "DPUVolume dpf/v1", "");
	row("attaching fails again and again", "csi-v1-n2", "");
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
	expect("DPUVolume dpf/v1", "is being deleted since 12 min", "by hand leaves");
	expect("DPUVolume dpf/v1", "finalizers: ", "");
	row("a deletion is stuck by a finalizer", "DPUVolume dpf/v1", "");
	expect_findings(1);
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

START_TEST(a_node_without_rights_says_where_to_ask)
{
	const struct inspect_options o = { .flags = { .node = true } };

	look_as(&o);
	expect_findings(0);
	ck_assert_ptr_nonnull(strstr(json_str(report.tree, "api.error"), "controller's pod"));
	inspect_report_clear(&report);
}
END_TEST

/* What a person or a vendor may have written where a support case would carry it away. */
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
	static const char *const needed[] = { "\"kind\":\"DPUVolume\"",
		                              "\"kind\":\"DPUVolumeAttachment\"",
		                              "\"kind\":\"PersistentVolume\"",
		                              "\"name\":\"csi-by-hand-n1\"" };
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

/* Who answers at the driver's address may be another program. */
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

START_TEST(the_table_of_the_page_is_what_was_seen)
{
	if (getenv("CK_RUN_CASE"))
		return;
	doc_table_check("docs/inspect.md", "incidents", table.ptr);
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
      an_api_server_that_refuses_is_a_finding_and_the_rest_is_said_to_be_unread,
      an_api_server_that_is_away_is_a_finding,
      where_kubernetes_does_not_attach_nothing_is_an_orphan,
      a_node_without_rights_says_where_to_ask, a_bundle_has_what_a_support_case_needs_and_no_secret,
      a_bundle_of_one_volume_has_its_objects_and_no_others,
      metrics_without_end_do_not_keep_a_bundle, the_table_of_the_page_is_what_was_seen);
