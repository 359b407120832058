/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every fault of the API server, at every request of create, delete, publish, unpublish and expand,
 * once and for the whole call: is the driver's answer true, and does it leave an object that no
 * caller knows of? The counts are in test/reports/api-faults.md (UPDATE_DOCS=1 writes them).
 *
 * Processes share the work. Each has its own snap-sim, and each operation its own client and index
 * of attachments, which start while the fault is active.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "controller/attachment_index.h"
#include "controller/attachment_lists.h"
#include "controller/controller.h"
#include "controller/node_cache.h"
#include "dpf/dpu_attachment.h"
#include "dpf/dpu_volume.h"
#include "kube/kube_priv.h"
#include "test/lib/controller_door.h"
#include "test/lib/doc_table.h"
#include "test/lib/processes.h"
#include "test/lib/sim_process.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

#define CHILDREN 40
#define V "dpuvolumes"
#define A "dpuvolumeattachments"
#define CAP "{\"access_mode\":{\"mode\":\"SINGLE_NODE_WRITER\"},\"mount\":{\"fs_type\":\"ext4\"}}"

#define GROWN (INT64_C(3) << 30)

/* ---- the table ---- */

enum world {
	FRESH,
	BEGUN,     /* an earlier call has created the object, and had no answer in time */
	ELSEWHERE, /* the volume is attached to another node */
	STUCK,     /* DPF keeps the object */
	FAILING,   /* an Event says that the vendor is full, so the object is removed again */
};

static const struct step {
	const char *method;
	enum world world;
	const char *verb, *resource; /* the request that the fault affects; verb "": each */
} steps[] = {
	{ "CreateVolume", FRESH, "create", V },
	{ "CreateVolume", FRESH, "list", V },
	{ "CreateVolume", FRESH, "watch", V },
	{ "CreateVolume", BEGUN, "create", V },
	{ "CreateVolume", BEGUN, "get", V },
	{ "CreateVolume", FAILING, "get", V },
	{ "CreateVolume", FAILING, "delete", V },
	{ "CreateVolume", FAILING, "list", A },
	{ "CreateVolume", FAILING, "list", "events" },
	{ "CreateVolume", FRESH, "", V },
	{ "CreateVolume", BEGUN, "", V },
	{ "CreateVolume", FAILING, "", V },
	{ "DeleteVolume", FRESH, "", V },
	{ "DeleteVolume", FRESH, "get", V },
	{ "DeleteVolume", FRESH, "delete", V },
	{ "DeleteVolume", FRESH, "list", A },
	{ "DeleteVolume", ELSEWHERE, "", A },
	{ "DeleteVolume", ELSEWHERE, "get", A },
	{ "DeleteVolume", ELSEWHERE, "list", A },
	{ "DeleteVolume", ELSEWHERE, "watch", A },
	{ "DeleteVolume", FRESH, "watch", V },
	{ "DeleteVolume", STUCK, "watch", V },
	{ "ControllerPublishVolume", FRESH, "", A },
	{ "ControllerPublishVolume", BEGUN, "", A },
	{ "ControllerPublishVolume", ELSEWHERE, "", A },
	{ "ControllerPublishVolume", ELSEWHERE, "get", A },
	{ "ControllerPublishVolume", ELSEWHERE, "list", A },
	{ "ControllerPublishVolume", ELSEWHERE, "create", A },
	{ "ControllerPublishVolume", ELSEWHERE, "watch", A },
	{ "ControllerPublishVolume", FRESH, "get", V },
	{ "ControllerPublishVolume", FRESH, "get", "dpunodes" },
	{ "ControllerPublishVolume", FRESH, "list", "dpus" },
	{ "ControllerPublishVolume", FRESH, "list", A },
	{ "ControllerPublishVolume", FRESH, "create", A },
	{ "ControllerPublishVolume", FRESH, "watch", A },
	{ "ControllerPublishVolume", BEGUN, "create", A },
	{ "ControllerPublishVolume", BEGUN, "get", A },
	{ "ControllerUnpublishVolume", FRESH, "", A },
	{ "ControllerUnpublishVolume", FRESH, "get", A },
	{ "ControllerUnpublishVolume", FRESH, "delete", A },
	{ "ControllerUnpublishVolume", FRESH, "list", A },
	{ "ControllerUnpublishVolume", FRESH, "watch", A },
	{ "ControllerUnpublishVolume", STUCK, "watch", A },
	{ "ControllerExpandVolume", FRESH, "", V },
	{ "ControllerExpandVolume", FRESH, "get", V },
	{ "ControllerExpandVolume", FRESH, "patch", V },
	{ "ControllerExpandVolume", FRESH, "watch", V },
};

enum final {
	NEVER,   /* the answer proves nothing, so no code is final */
	TWICE,   /* a single answer may be a mistake */
	AT_ONCE, /* the API server refuses, and nothing was changed */
	/* The same for reads; for a write it proves nothing about the previous attempt. */
	READ_TWICE,
	READ_AT_ONCE
};

#define HTML "\"body\":\"<html>no</html>\""
#define STATUS(code) "\"status\":" #code
#define PAGE(code) STATUS(code) "," HTML

static const struct fault {
	const char *what;
	/* members of snap-sim's faults; then: NULL, or the fault that follows */
	const char *first, *then;
	enum final final;
} faults[] = {
	{ "200 with null", "\"body\":\"null\"", NULL, NEVER },
	{ "200 with an array", "\"body\":\"[]\"", NULL, NEVER },
	{ "200 with an empty object", "\"body\":\"{}\"", NULL, NEVER },
	{ "200 with nothing", "\"body\":\"\"", NULL, NEVER },
	{ "200 with a page", HTML, NULL, NEVER },
	{ "200 with a Status of failure",
	  "\"body\":\"{\\\"kind\\\":\\\"Status\\\",\\\"status\\\":\\\"Failure\\\",\\\"reason\\\":\\\"NotFound\\\"}\"",
	  NULL, NEVER },
	{ "200 with a Status of success, nothing done",
	  "\"body\":\"{\\\"kind\\\":\\\"Status\\\",\\\"status\\\":\\\"Success\\\"}\"", NULL,
	  NEVER },
	{ "200 with an empty list",
	  "\"body\":\"{\\\"kind\\\":\\\"List\\\",\\\"metadata\\\":{},\\\"items\\\":null}\"", NULL,
	  NEVER },
	{ "200 with a page, and done", HTML ",\"applied\":true", NULL, NEVER },
	{ "another name", "\"wrong\":\"metadata.name\"", NULL, NEVER },
	{ "another namespace", "\"wrong\":\"metadata.namespace\"", NULL, NEVER },
	{ "another uid", "\"wrong\":\"metadata.uid\"", NULL, NEVER },
	{ "another kind", "\"wrong\":\"kind\"", NULL, NEVER },
	{ "302 with a page", PAGE(302), NULL, NEVER },
	{ "400", STATUS(400), NULL, AT_ONCE },
	{ "400 with a page", PAGE(400), NULL, NEVER },
	{ "401", STATUS(401), NULL, TWICE },
	{ "401 with a page", PAGE(401), NULL, NEVER },
	{ "403", STATUS(403), NULL, TWICE },
	{ "403 with a page", PAGE(403), NULL, NEVER },
	{ "403 with a page, and done", PAGE(403) ",\"applied\":true", NULL, NEVER },
	{ "404 about nothing", STATUS(404), NULL, NEVER },
	{ "404 with a page", PAGE(404), NULL, NEVER },
	{ "404 about another object",
	  STATUS(404) ",\"body\":\"{\\\"kind\\\":\\\"Status\\\",\\\"reason\\\":\\\"NotFound\\\",\\\"details\\\":{"
	              "\\\"name\\\":\\\"another\\\",\\\"kind\\\":\\\"dpuvolumes\\\"}}\"",
	  NULL, NEVER },
	{ "the kind is not served", "\"unserved\":true", NULL, TWICE },
	{ "405", STATUS(405), NULL, AT_ONCE },
	{ "409, a conflict", STATUS(409), NULL, NEVER },
	{ "409 with a page", PAGE(409), NULL, NEVER },
	{ "410", STATUS(410), NULL, NEVER },
	{ "413", STATUS(413), NULL, AT_ONCE },
	{ "415", STATUS(415), NULL, AT_ONCE },
	{ "422", STATUS(422), NULL, AT_ONCE },
	{ "429", STATUS(429), NULL, NEVER },
	{ "500", STATUS(500), NULL, NEVER },
	{ "500, and done", STATUS(500) ",\"applied\":true", NULL, NEVER },
	{ "502 with a page, and done", PAGE(502) ",\"applied\":true", NULL, NEVER },
	{ "503", STATUS(503), NULL, NEVER },
	{ "503, and done", STATUS(503) ",\"applied\":true", NULL, NEVER },
	{ "504, and done", STATUS(504) ",\"applied\":true", NULL, NEVER },
	{ "no answer", "\"hang\":true", NULL, NEVER },
	{ "no answer, and done", "\"hang\":true,\"applied\":true", NULL, NEVER },
	{ "cut in the answer", "\"cut\":true", NULL, NEVER },
	{ "closed without an answer", "\"closed\":true", NULL, NEVER },
	{ "closed without an answer, and done", "\"closed\":true,\"applied\":true", NULL, NEVER },
	{ "done and 500, then 403", STATUS(500) ",\"applied\":true", STATUS(403), READ_TWICE },
	{ "done and 503, then 422", STATUS(503) ",\"applied\":true", STATUS(422), READ_AT_ONCE },
	{ "cut in the answer, then 403", "\"cut\":true", STATUS(403), READ_TWICE },
	{ "cut in the answer, then not served", "\"cut\":true", "\"unserved\":true", READ_TWICE },
	{ "done and closed, then 403", "\"closed\":true,\"applied\":true", STATUS(403),
	  READ_TWICE },
	{ "done and closed, then 422", "\"closed\":true,\"applied\":true", STATUS(422),
	  READ_AT_ONCE },
	{ "403, then a page", STATUS(403), PAGE(403), NEVER },
	{ "409 AlreadyExists, then 404 with a page", STATUS(409) ",\"reason\":\"AlreadyExists\"",
	  PAGE(404), NEVER },
	{ "an event late by 300 ms", "\"event\":\"late\",\"ms\":300", NULL, NEVER },
	{ "an event never", "\"event\":\"dropped\"", NULL, NEVER },
	{ "an event twice", "\"event\":\"twice\"", NULL, NEVER },
	{ "an event, then the state before it", "\"event\":\"backwards\"", NULL, NEVER },
	{ "events of an earlier object of the name", "\"event\":\"foreign\"", NULL, NEVER },
	{ "an ERROR event", "\"event\":\"error\"", NULL, NEVER },
	{ "garbage instead of an event", "\"event\":\"garbage\"", NULL, NEVER },
	{ "the watch dropped", "\"dropWatch\":true", NULL, NEVER },
	{ "the watch expired", "\"expireWatch\":true", NULL, NEVER },
};

/* One operation, identified by its number. */
#define OPERATIONS (ARRAY_LEN(steps) * ARRAY_LEN(faults) * 2)

static const struct step *step_of(size_t i)
{
	return &steps[i / 2 % ARRAY_LEN(steps)];
}
static const struct fault *fault_of(size_t i)
{
	return &faults[i / 2 / ARRAY_LEN(steps)];
}
static bool is_once(size_t i)
{
	return i % 2 == 0;
}

static bool is_of_streams(const struct fault *f)
{
	return strstr(f->first, "\"event\"") || strstr(f->first, "Watch\"");
}

/*
 * A fault of a stream affects only watches. A stuck object is examined while the fault is active.
 */
static bool is_sensible(size_t i)
{
	if (is_of_streams(fault_of(i)))
		return str_eq(step_of(i)->verb, "watch");
	return step_of(i)->world != STUCK;
}

struct result {
	bool ran, lost, leaked, wrong;
	char text[300];
};
static struct result *results; /* of all operations, shared by the processes */

/* ---- calls ---- */

static struct keylock *locks;

/* Short pauses, since the test is about answers and not about times. */
static const struct kube_tuning tuning = {
	.mistake_ms = 20, .watch_backoff_ms = 20, .watch_backoff_most_ms = 100, .resync_ms = 100
};

static struct kube *client(const struct kube_tuning *t)
{
	char *config AUTO(free) = xasprintf("%s/kubeconfig", sim.dir);
	struct kube_options o = { .kubeconfig = config, .user_agent = "snap-csi/test" };
	struct kube *k = NULL;
	struct err err = ERR_INIT;

	ck_assert_msg(kube_new_tuned(&o, t, &k, &err) == 0, "%s", err.msg);
	return k;
}

static struct controller controller_of(struct kube *k, int ms)
{
	return (struct controller) { .kube = k,
		                     .namespace = SIM_NS,
		                     .driver_name = "csi.snap.nvidia.com",
		                     .wait_timeout_ms = ms };
}

/* As main.c creates it: its index is filled while the fault is active. */
static struct controller driver_new(void)
{
	struct controller c = controller_of(client(&tuning), 800);

	c.attachments = attachment_index_new(c.kube, c.namespace, c.driver_name);
	c.node_cache = node_cache_new();
	c.lists = attachment_lists_new();
	return c;
}

static void driver_free(struct controller *c)
{
	kube_free(c->kube);
	attachment_index_free(c->attachments);
	node_cache_free(c->node_cache);
	attachment_lists_free(c->lists);
}

static char *request_of(const char *method, const char *name)
{
	if (str_eq(method, "CreateVolume"))
		return xasprintf(
			"{\"name\":\"%s\",\"capacity_range\":{\"required_bytes\":1073741824},"
			"\"volume_capabilities\":[" CAP "],\"parameters\":{\"policy\":"
			"\"example-policy\"}}",
			name);
	if (str_eq(method, "DeleteVolume"))
		return xasprintf("{\"volume_id\":\"%s\"}", name);
	if (str_eq(method, "ControllerExpandVolume"))
		return xasprintf(
			"{\"volume_id\":\"%s\",\"capacity_range\":{\"required_bytes\":%" PRId64
			"}}",
			name, GROWN);
	if (str_eq(method, "ControllerPublishVolume"))
		return xasprintf(
			"{\"volume_id\":\"%s\",\"node_id\":\"n1\",\"volume_capability\":" CAP "}",
			name);
	return xasprintf("{\"volume_id\":\"%s\",\"node_id\":\"n1\"}", name);
}

static int call(struct controller *c, const char *method, const char *name, struct json **ret,
                struct err *err)
{
	char *text AUTO(free) = request_of(method, name);
	struct json *request AUTO(json_free) = NULL;

	ck_assert_int_eq(json_parse("request", text, strlen(text), &request, err), 0);
	return door_call(c, locks, method, request, ret, err);
}

static void must(struct controller *c, const char *method, const char *name)
{
	struct err err = ERR_INIT;

	ck_assert_msg(call(c, method, name, NULL, &err) == 0, "%s %s: %s", method, name, err.msg);
}

static struct json *look(struct controller *clean, const struct kube_kind *kind, const char *name)
{
	struct json *object = NULL;
	struct err err = ERR_INIT;
	int rc = kube_get(clean->kube, kind, SIM_NS, name, wait_limit(), &object, &err);

	ck_assert_msg(rc >= 0, "%s", err.msg);
	return object;
}

/* ---- one operation ---- */

static bool is_about_attachments(const char *method)
{
	return strstr(method, "ublish");
}

#define ATTACHMENTS "/apis/storage.dpu.nvidia.com/v1alpha1/namespaces/" SIM_NS "/" A

/* Without labels, like the Go plugin. */
static void attach_to_n2(const char *volume)
{
	char *body AUTO(free) = xasprintf(
		"{\"apiVersion\":\"storage.dpu.nvidia.com/v1alpha1\",\"kind\":\"DPUVolumeAttachment\","
		"\"metadata\":{\"name\":\"n2-%s\"},\"spec\":{\"dpuNodeName\":\"n2\",\"dpuVolumeName\":\"%s\","
		"\"functionType\":\"vf\",\"hotplugFunction\":false}}",
		volume, volume);

	free(sim_http("POST", ATTACHMENTS, body));
}

static void detach_from_n2(struct controller *clean, const char *volume)
{
	char *name AUTO(free) = xasprintf("n2-%s", volume);
	char *path AUTO(free) = xasprintf(ATTACHMENTS "/%s", name);

	free(sim_http("DELETE", path, ""));
	for (bool there = true; there;) {
		struct json *object AUTO(json_free) = look(clean, &dpu_attachment_kind, name);

		there = object;
	}
}

/*
 * A call of another driver, whose client has no time to learn the result of its requests. It has at
 * least the time to create the object.
 */
static void begin(struct controller *clean, const char *method, const char *name)
{
	bool about_attachments = is_about_attachments(method);
	char *attachment AUTO(free) = xasprintf("n1-%s", name);
	struct controller hurried = controller_of(client(&tuning), 20);

	sim_fault(about_attachments ? "{\"dpf\":\"attachment-never-ready\"}"
	                            : "{\"dpf\":\"volume-never-bound\"}");
	for (bool made = false; !made; hurried.wait_timeout_ms *= 2) {
		struct json *object AUTO(json_free) = NULL;
		struct err ignored = ERR_INIT;

		ck_assert_int_eq(call(&hurried, method, name, NULL, &ignored), -1);
		object = look(clean, about_attachments ? &dpu_attachment_kind : &dpu_volume_kind,
		              about_attachments ? attachment : name);
		made = object;
	}
	kube_free(hurried.kube);
	/* One of several attempts may have sent a POST that has not been executed yet. */
	if (hurried.wait_timeout_ms > 40)
		sim_drain();
	sim_heal();
}

/* Creates the objects that the call needs. */
static void prepare(struct controller *clean, const struct step *s, const char *name)
{
	if (!str_eq(s->method, "CreateVolume"))
		must(clean, "CreateVolume", name);
	if (str_eq(s->method, "ControllerUnpublishVolume"))
		must(clean, "ControllerPublishVolume", name);
	if (s->world == FAILING)
		sim_fault("{\"dpf\":\"volume-failure\"}");
	if (s->world == ELSEWHERE)
		attach_to_n2(name);
	if (s->world == STUCK)
		sim_fault(
			"[{\"dpf\":\"volume-finalizer-stuck\"},{\"dpf\":\"attachment-finalizer-stuck\"}]");
	if (s->world == BEGUN)
		begin(clean, s->method, name);
}

static void switch_on(size_t i)
{
	const struct step *s = step_of(i);
	const struct fault *f = fault_of(i);
	const char *times = is_once(i) ? ",\"times\":1" : "";
	bool stream = is_of_streams(f);
	char *where AUTO(free) =
		stream ? xasprintf("\"resource\":\"%s\"", s->resource)
		       : xasprintf("\"verb\":\"%s\",\"resource\":\"%s\"", s->verb, s->resource);
	char *text AUTO(free) =
		xasprintf("{%s,%s%s}", where, f->first, f->then ? ",\"times\":1" : times);
	char *then AUTO(free) =
		f->then ? xasprintf("[%s,{%s,%s%s}]", text, where, f->then, times) : NULL;

	sim_fault(then ? then : text);
}

static bool has_size(const struct json *volume, bool asked)
{
	struct dpu_volume v;
	struct err err = ERR_INIT;

	return volume && !dpu_volume_decode(volume, &v, &err) &&
	       (asked ? v.requested : v.capacity) == GROWN;
}

/* Does the reply match the existing objects? */
static bool is_true(const char *method, const char *name, const struct json *reply,
                    const struct json *volume, const struct json *attachment)
{
	const struct json *context = json_at(reply, "publish_context");

	if (str_eq(method, "CreateVolume"))
		return volume && str_eq(json_str(reply, "volume.volume_id"), name) &&
		       str_eq(json_str(volume, "status.phase"), "Bound");
	if (str_eq(method, "DeleteVolume"))
		return !volume;
	if (str_eq(method, "ControllerExpandVolume"))
		return has_size(volume, false);
	if (str_eq(method, "ControllerUnpublishVolume"))
		return !attachment;
	return volume && attachment &&
	       str_eq(json_text(json_member(context, "nv-pciDeviceAddress")),
	              json_str(attachment, "status.dpu.pciAddress"));
}

/*
 * The volume is in use on another node. Its deletion must not begin, and no other node may receive
 * it. (The remains of a Publish without an answer are removed by its retries.)
 */
static bool is_harmed(const char *method, const struct json *volume, bool ok)
{
	if (str_eq(method, "DeleteVolume"))
		return !volume || json_at(volume, "metadata.deletionTimestamp");
	return ok;
}

static bool is_change(const struct step *s)
{
	return str_eq(s->verb, "create") || str_eq(s->verb, "patch") || str_eq(s->verb, "delete");
}

static bool may_be_final(size_t i, enum err_code code)
{
	const struct fault *f = fault_of(i);

	if (step_of(i)->world == FAILING && code == ERR_EXHAUSTED)
		return true;
	if (step_of(i)->world == ELSEWHERE && code == ERR_PRECONDITION)
		return true;
	if (code == ERR_NOT_FOUND || code == ERR_EXISTS || code == ERR_RANGE)
		return false;
	if (is_change(step_of(i)) && (f->final == READ_TWICE || f->final == READ_AT_ONCE))
		return false;
	if (f->final == AT_ONCE || f->final == READ_AT_ONCE)
		return true;
	return f->final != NEVER && !is_once(i);
}

/* The sidecar's retries, once the API server works again. */
static bool succeeds_in_the_end(struct controller *clean, const char *method, const char *name,
                                struct err *err)
{
	struct deadline limit = wait_limit();

	do {
		err_clear(err);
		if (call(clean, method, name, NULL, err) == 0)
			return true;
		/* DPF has not noticed yet that it works again. */
		if (!code_is_open(err->code) && err->code != ERR_EXHAUSTED)
			return false;
	} while (wait_a_moment(limit));
	return false;
}

static void judge(struct controller *clean, size_t i, const char *name, const struct json *reply,
                  const struct err *err, const char *other_uid)
{
	const struct step *s = step_of(i);
	struct result *r = &results[i];
	char *attachment_name AUTO(free) = xasprintf("n1-%s", name);
	struct json *volume AUTO(json_free) = look(clean, &dpu_volume_kind, name);
	struct json *attachment AUTO(json_free) =
		look(clean, &dpu_attachment_kind, attachment_name);
	struct json *other AUTO(json_free) = look(clean, &dpu_attachment_kind, "n2-other");
	const struct json *object = is_about_attachments(s->method) ? attachment : volume;
	bool ok = err->code == ERR_OK, final = !ok && !code_is_open(err->code);
	struct err second = ERR_INIT;

	sim_heal();
	if (s->world == ELSEWHERE)
		detach_from_n2(clean, name);
	r->lost = (ok && !is_true(s->method, name, reply, volume, attachment)) ||
	          !str_eq(json_str(other, "metadata.uid"), other_uid) ||
	          (is_about_attachments(s->method) && !volume) ||
	          (s->world == ELSEWHERE && is_harmed(s->method, volume, ok));
	if (str_eq(s->method, "CreateVolume") ||
	    (str_eq(s->method, "ControllerPublishVolume") && s->world != BEGUN))
		r->leaked = final && object;
	else if (str_eq(s->method, "ControllerExpandVolume"))
		r->wrong = final && has_size(volume, true);
	else
		r->wrong = final && json_at(object, "metadata.deletionTimestamp");
	r->wrong |= final && !may_be_final(i, err->code);
	r->wrong |= !succeeds_in_the_end(clean, s->method, name, &second);
	snprintf(r->text, sizeof(r->text), "%s %.150s%s%.100s", err_code_name(err->code), err->msg,
	         *second.msg ? ", then " : "", second.msg);
}

static void clean_up(struct controller *clean, const char *name)
{
	must(clean, "ControllerUnpublishVolume", name);
	must(clean, "DeleteVolume", name);
}

static void operation(struct controller *clean, size_t i, const char *other_uid)
{
	const struct step *s = step_of(i);
	char *name AUTO(free) = xasprintf("v%zu", i);
	struct controller c;
	struct json *reply AUTO(json_free) = NULL;
	struct err err = ERR_INIT;

	prepare(clean, s, name);
	switch_on(i);
	c = driver_new();
	IGNORE_RESULT(call(&c, s->method, name, &reply, &err));
	if (s->world != STUCK)
		sim_heal();
	driver_free(&c);
	/* A request without an answer may still be executed. */
	if (code_is_open(err.code))
		sim_drain();
	judge(clean, i, name, reply, &err, other_uid);
	clean_up(clean, name);
	results[i].ran = true;
}

/*
 * Objects created after their operation was judged, for example by a POST that was executed late.
 */
static int look_at_left(void *arg, const struct json *item, struct err *err)
{
	const char *name = json_str(item, "metadata.name");
	const char *digits = name ? strpbrk(name, "v") : NULL;
	size_t i = digits ? strtoul(digits + 1, NULL, 10) : OPERATIONS;

	(void)arg, (void)err;
	if (name && !strstr(name, "other") && i < OPERATIONS)
		results[i].leaked = true;
	return 0;
}

/* The work of process number _i. */
START_TEST(a_share_of_the_operations)
{
	struct controller clean;
	struct json *other;
	static const char *const options[] = { "--growing-volumes", NULL };
	struct err err = ERR_INIT;

	sim_start(options);
	locks = keylock_new();
	clean = controller_of(client(&tuning), WAIT_LIMIT_MS);
	must(&clean, "CreateVolume", "other");
	attach_to_n2("other");
	other = look(&clean, &dpu_attachment_kind, "n2-other");
	for (size_t i = (size_t)_i; i < OPERATIONS; i += CHILDREN)
		if (is_sensible(i))
			operation(&clean, i, json_str(other, "metadata.uid"));
	ck_assert_int_eq(kube_list(clean.kube, &dpu_volume_kind, SIM_NS, NULL, look_at_left, NULL,
	                           wait_limit(), &err),
	                 0);
	ck_assert_int_eq(kube_list(clean.kube, &dpu_attachment_kind, SIM_NS, NULL, look_at_left,
	                           NULL, wait_limit(), &err),
	                 0);
	kube_free(clean.kube);
	keylock_free(locks);
	json_free(other);
	sim_stop();
}
END_TEST

/* ---- the table ---- */

static const char *const worlds[] = {
	[FRESH] = "fresh", [BEGUN] = "begun",     [ELSEWHERE] = "attached elsewhere",
	[STUCK] = "stuck", [FAILING] = "failing",
};

static unsigned print_wrong(size_t i)
{
	const struct result *r = &results[i];

	if (r->ran && !r->lost && !r->leaked && !r->wrong)
		return 0;
	fprintf(stderr, "%zu: %s, %s: %s %s of %s, %s:%s%s%s%s %s\n", i, fault_of(i)->what,
	        is_once(i) ? "once" : "always", *step_of(i)->verb ? step_of(i)->verb : "all of",
	        step_of(i)->resource, step_of(i)->method, worlds[step_of(i)->world],
	        r->ran ? "" : " did not end", r->lost ? " lost" : "", r->leaked ? " leaked" : "",
	        r->wrong ? " wrong code" : "", r->text);
	return 1;
}

static char *table_text(void)
{
	struct str out = STR_INIT(1 << 20);

	str_add(&out, "| the API server's answer | operations | lost | leaked | wrong code |\n"
	              "| --- | --- | --- | --- | --- |\n");
	for (size_t f = 0; f < ARRAY_LEN(faults); f++) {
		unsigned ran = 0, lost = 0, leaked = 0, wrong = 0;

		for (size_t i = 0; i < OPERATIONS; i++) {
			if (fault_of(i) != &faults[f])
				continue;
			ran += results[i].ran;
			lost += results[i].lost;
			leaked += results[i].leaked;
			wrong += results[i].wrong;
		}
		str_addf(&out, "| %s | %u | %u | %u | %u |\n", faults[f].what, ran, lost, leaked,
		         wrong);
	}
	return str_take(&out);
}

START_TEST(whatever_the_api_server_answers_nothing_is_lost_leaked_or_said_wrongly)
{
	char *table AUTO(free) = NULL;
	unsigned wrong = 0, failed;

	results = mmap(NULL, OPERATIONS * sizeof(*results), PROT_READ | PROT_WRITE,
	               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(results != MAP_FAILED);
	failed = processes_run(a_share_of_the_operations, CHILDREN);
	ck_assert_msg(failed == 0, "%u processes have failed", failed);
	for (size_t i = 0; i < OPERATIONS; i++)
		wrong += is_sensible(i) ? print_wrong(i) : 0;
	ck_assert_msg(wrong == 0, "%u operations", wrong);
	table = table_text();
	doc_table_check("test/reports/api-faults.md", "api-faults", table);
}
END_TEST

SUITE_TIMEOUT("api faults", 900,
              whatever_the_api_server_answers_nothing_is_lost_leaked_or_said_wrongly);
