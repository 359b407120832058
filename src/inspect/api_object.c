/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts of one object. The controller's own rule decides whether the object is ready (readiness.h).
 * Stateless; sends no requests.
 */
#include "inspect/api_object.h"

#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "controller/readiness.h"
#include "controller/names.h"
#include "controller/volume_provenance.h"
#include "dpf/conditions.h"
#include "dpf/dpu_node.h"
#include "inspect/inspect.h"
#include "volume/context_keys.h"

#define TIME_TEXT_MAX 40 /* maximum length of an RFC 3339 time */

/*
 * Returns the seconds since an RFC 3339 time; 0 for a future time, -1 if the text is not an RFC
 * 3339 time.
 */
static int64_t api_age(const char *text, time_t now)
{
	time_t at;

	/* Go's zero time, 0001-01-01T00:00:00Z, is before 1970 and means "not set". */
	if (!text || !rfc3339_read(text, &at) || at <= 0)
		return -1;
	return at > now ? 0 : now - at;
}

int64_t api_seconds(const struct json *facts, const char *name)
{
	struct err ignored = ERR_INIT;
	int64_t ret;

	return json_get_i64(facts, name, &ret, &ignored) ? -1 : ret;
}

bool api_is(const struct json *facts, const char *name)
{
	struct err ignored = ERR_INIT;
	bool ret;

	return json_get_bool(facts, name, &ret, &ignored) == 0 && ret;
}

const char *api_text(const struct json *facts, const char *name)
{
	const char *s = json_str(facts, name);

	return s ? s : "";
}

static void object_set_text(struct json *facts, const char *name, const char *text)
{
	if (!str_empty(text))
		json_set_str(facts, name, text);
}

static void set_age(struct json *facts, const char *name, const char *since, time_t now)
{
	int64_t age = api_age(since, now);

	if (age >= 0)
		json_set_int(facts, name, age);
}

static void add_ages(struct json *facts, const struct api_eye *e, const struct json *object)
{
	const struct json *finalizers = json_at(object, "metadata.finalizers");
	const char *created = json_str(object, "metadata.creationTimestamp");
	time_t at;

	set_age(facts, "age", created, e->now);
	/*
	 * Uses this timestamp because the API server has written it; conditions use the clocks of
	 * other processes.
	 */
	if (e->ahead && created && rfc3339_read(created, &at) && at - e->now > *e->ahead)
		*e->ahead = at - e->now;
	if (!json_at(object, "metadata.deletionTimestamp"))
		return;
	set_age(facts, "deleting", json_str(object, "metadata.deletionTimestamp"), e->now);
	if (json_count(finalizers))
		json_set(facts, "finalizers", json_copy(finalizers));
}

/* Appends "Ready=False for 50 s (Pending: the text)". */
static void object_describe(struct str *out, const struct condition *c, time_t now)
{
	int64_t age = api_age(c->since, now);
	char buf[64];

	str_addf(out, "%s=%s", c->type, *c->status ? c->status : "Unknown");
	if (age >= 0)
		str_addf(out, " for %s", inspect_age(age, buf));
	if (*c->reason || *c->message) {
		str_addf(out, " (%s%s", c->reason, *c->reason && *c->message ? ": " : "");
		str_add_shown(out, c->message);
		str_add(out, ")");
	}
}

static void object_add_condition(struct json *list, const struct condition *c, time_t now)
{
	struct str text AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);

	object_describe(&text, c, now);
	json_append(list, json_string(text.ptr));
}

static void add_conditions(struct json *facts, const struct api_eye *e, const struct json *object)
{
	struct json *list = json_array();

	json_foreach (item, json_at(object, "status.conditions")) {
		struct condition c = condition_decode(item);

		object_add_condition(list, &c, e->now);
	}
	json_set(facts, "conditions", list);
}

/* Returns the condition Ready; if it is missing, all members are "". */
static struct condition object_ready(const struct json *object)
{
	struct condition c = condition_decode(NULL);

	json_foreach (item, json_at(object, "status.conditions"))
		if (str_eq(json_str(item, "type"), CONDITION_READY))
			c = condition_decode(item);
	return c;
}

/*
 * `rc` is the result of a function of readiness.h. `since`: the age of the first unmet condition's
 * state, or of Ready=True.
 */
static void add_verdict(struct json *facts, const struct api_eye *e, const struct json *object,
                        int rc, const char *why, const struct err *err)
{
	struct condition c = object_ready(object);

	json_set_bool(facts, "ready", rc == 0);
	if (rc)
		json_set_str(facts, "reason", rc < 0 ? err->msg : why);
	if (!rc || condition_unmet(object, &c))
		set_age(facts, "since", c.since, e->now);
	if (rc || e->all)
		add_conditions(facts, e, object);
}

/*
 * Returns true if the volume has external-provisioner's keys, which are the only mark of the Go
 * plugin's volumes.
 */
static bool is_provisioned(const struct dpu_volume *v)
{
	json_foreach (member, v->parameters)
		if (str_has_prefix(json_name(member), PARAM_SIDECAR_PREFIX))
			return true;
	return str_has_prefix(v->name, "pvc-") && strlen(v->name) == sizeof("pvc-") - 1 + 36;
}

/*
 * Returns true if the object was created by another instance of this driver, under another name, or
 * by another tool.
 */
static bool is_marked_by_others(const struct controller *c, const struct json *labels)
{
	const char *manager = json_text(json_member(labels, LABEL_MANAGED_BY));

	return manager && !str_eq(manager, c->driver_name);
}

static const char *object_maker(const struct controller *c, const struct dpu_volume *v)
{
	const char *name = provenance_get(v, ANNOTATION_NAME);

	if (name && provenance_owner(c, v, name) == PROVENANCE_OWN)
		return "driver";
	return is_provisioned(v) && !is_marked_by_others(c, v->labels) ? "goPlugin" : "others";
}

static void add_claim(struct json *facts, const struct dpu_volume *v)
{
	const char *ns = provenance_get(v, ANNOTATION_PVC_NAMESPACE);
	const char *name = provenance_get(v, ANNOTATION_PVC_NAME);
	char *claim AUTO(free) = NULL;

	if (!ns || !name)
		return;
	claim = xasprintf("%s/%s", ns, name);
	json_set_str(facts, "claim", claim);
}

static void object_add_volume(struct json *facts, const struct controller *c,
                              const struct dpu_volume *v)
{
	object_set_text(facts, "phase", v->phase);
	json_set_str(facts, "kind", v->block ? "disk" : "share");
	object_set_text(facts, "policy", v->policy);
	json_set_int(facts, "requested", v->requested);
	if (v->capacity)
		json_set_int(facts, "capacity", v->capacity);
	if (v->access_modes == DPU_READ_WRITE_ONCE)
		json_set_bool(facts, "oneNode", true);
	json_set_str(facts, "madeBy", object_maker(c, v));
	add_claim(facts, v);
}

/* ---- the storage of a volume ---- */

static void object_add_reference(struct json *facts, const char *member, const struct json *of)
{
	const char *ns = json_str(of, "namespace"), *name = json_str(of, "name");
	char *text AUTO(free) = NULL;

	if (!name)
		return;
	text = xasprintf("%.*s%s%.*s", OBJECT_NAME_MAX, ns ? ns : "", ns ? "/" : "",
	                 OBJECT_NAME_MAX, name);
	json_set_str(facts, member, text);
}

/*
 * Adds a command. The user may copy it into a shell, and the API does not restrict these strings,
 * so they are checked.
 */
static void object_add_command(struct json *place, const struct json *state)
{
	const char *cluster = json_str(state, "dpuCluster.name");
	const char *ns = json_str(state, "persistentVolumeClaimRef.namespace");
	const char *claim = json_str(state, "persistentVolumeClaimRef.name");
	char *command AUTO(free) = NULL;

	if (!cluster || !dns1123_subdomain(cluster))
		return;
	if (!claim)
		command = xasprintf("kubectl --kubeconfig %s.kubeconfig get pvc -A", cluster);
	else if (ns && dns1123_subdomain(ns) && dns1123_subdomain(claim))
		command = xasprintf("kubectl --kubeconfig %s.kubeconfig -n %s describe pvc %s",
		                    cluster, ns, claim);
	object_set_text(place, "command", command);
}

static void object_add_place(struct json *facts, const struct json *object)
{
	const struct json *state = json_at(object, "status.state");
	struct json *place = json_object();
	const char *volume = json_str(state, "volumeInfo.volumeName");
	char *name AUTO(free) = xasprintf("%.*s", OBJECT_NAME_MAX, volume ? volume : "");

	object_add_reference(place, "dpuCluster", json_at(state, "dpuCluster"));
	object_add_reference(place, "claim", json_at(state, "persistentVolumeClaimRef"));
	object_set_text(place, "volume", name);
	object_add_command(place, state);
	if (json_count(place))
		json_set(facts, "place", place);
	else
		json_free(place);
}

struct json *api_volume_facts(const struct api_eye *e, const struct json *object)
{
	struct str why AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	struct json *facts = json_object();
	struct err err = ERR_INIT;
	struct dpu_volume v = { .name = NULL };
	int rc = volume_readiness(object, &v, &why, &err);

	object_set_text(facts, "uid", json_str(object, "metadata.uid"));
	add_ages(facts, e, object);
	add_verdict(facts, e, object, rc, why.ptr, &err);
	if (v.name)
		object_add_volume(facts, e->c, &v);
	if (rc || e->all)
		object_add_place(facts, object);
	return facts;
}

static void object_add_device(struct json *facts, const struct dpu_attachment *a)
{
	object_set_text(facts, "function", a->function_type);
	if (a->hotplug)
		json_set_bool(facts, "hotplug", true);
	object_set_text(facts, "pci", a->pci_address);
	object_set_text(facts, "vuid", a->func_vuid);
	if (a->nvme_nsid > 0)
		json_set_int(facts, "nsid", a->nvme_nsid);
	object_set_text(facts, "uuid", a->nvme_uuid);
	object_set_text(facts, "tag", a->virtiofs_tag);
}

/*
 * Returns true for attachments of a driver. Those of this driver carry a label; attachments of the
 * Go plugin have names of this form, which users are unlikely to choose.
 */
static bool object_is_drivers(const struct controller *c, const struct json *object,
                              const struct dpu_attachment_key *key)
{
	const struct json *labels = json_at(object, "metadata.labels");
	char name[OBJECT_NAME_MAX + 1];

	if (str_eq(json_text(json_member(labels, LABEL_MANAGED_BY)), c->driver_name))
		return true;
	if (is_marked_by_others(c, labels))
		return false;
	return attachment_object_name(key->node, key->volume, name) && str_eq(name, key->name);
}

struct json *api_attachment_facts(const struct api_eye *e, const struct json *object,
                                  enum emulation kind)
{
	struct str why AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	struct dpu_attachment_key key = dpu_attachment_key(object);
	struct dpu_attachment a = { .key.name = NULL };
	struct json *facts = json_object();
	struct err err = ERR_INIT;
	int rc = attachment_readiness(object, kind, &a, &why, &err);

	json_set_str(facts, "name", key.name);
	json_set_str(facts, "uid", key.uid);
	json_set_str(facts, "node", key.node);
	json_set_str(facts, "madeBy", object_is_drivers(e->c, object, &key) ? "driver" : "others");
	add_ages(facts, e, object);
	add_verdict(facts, e, object, rc, why.ptr, &err);
	if (a.key.name)
		object_add_device(facts, &a);
	return facts;
}

/* ---- hosts ---- */

/*
 * Returns true for a condition that explains why DPF does not serve the host's volumes: Ready is
 * False, or one of the listed conditions is True.
 */
static bool keeps_node_busy(const struct condition *c)
{
	if (str_eq(c->type, CONDITION_READY))
		return str_eq(c->status, "False");
	return str_eq(c->status, "True") && (str_eq(c->type, "DPUNodeRebootInProgress") ||
	                                     str_eq(c->type, "DPUUpdateInProgress"));
}

struct json *api_dpu_node_facts(const struct api_eye *e, const struct json *object)
{
	struct json *facts = json_object(), *busy = json_array();

	add_ages(facts, e, object);
	if (api_is(json_at(object, "status"), "rebootInProgress"))
		json_append(busy, json_string("rebootInProgress=true"));
	json_foreach (item, json_at(object, "status.conditions")) {
		struct condition c = condition_decode(item);

		if (keeps_node_busy(&c))
			object_add_condition(busy, &c, e->now);
	}
	json_set(facts, "busy", busy);
	return facts;
}

static void object_add_outdated(struct json *facts, const struct json *outdated)
{
	struct str text AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	const char *reason = json_str(outdated, "reason"), *message = json_str(outdated, "message");

	if (!outdated)
		return;
	message_add_line(&text, reason ? reason : "");
	str_add(&text, ": ");
	message_add_line(&text, message ? message : "");
	json_set_str(facts, "outdated", text.ptr);
}

struct json *api_dpu_facts(const struct api_eye *e, const struct json *object)
{
	struct str why AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	struct condition c = object_ready(object);
	struct json *facts = json_object();
	bool ready = condition_holds(object, CONDITION_READY);

	json_set_str(facts, "name", json_str(object, "metadata.name"));
	object_set_text(facts, "phase", json_str(object, "status.phase"));
	json_set_bool(facts, "ready", ready);
	if (*c.message)
		object_describe(&why, &c, e->now);
	else
		conditions_describe(object, &why);
	if (!ready)
		json_set_str(facts, "reason", why.ptr);
	set_age(facts, "since", c.since, e->now);
	add_ages(facts, e, object);
	object_add_outdated(facts, json_at(object, "status.outdated"));
	if (json_member(json_at(object, "metadata.annotations"), DPU_ANNOTATION_PREFERRED))
		json_set_bool(facts, "preferred", true);
	return facts;
}

/* ---- objects about other objects ---- */

struct json *api_warning_facts(const struct api_eye *e, const struct core_event *event)
{
	struct str reason AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	struct str message AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	char *at AUTO(free) = xasprintf("%.*s", TIME_TEXT_MAX, event->at);
	struct json *facts = json_object();

	message_add_line(&reason, event->reason);
	message_add_line(&message, event->message);
	json_set_str(facts, "reason", reason.ptr);
	json_set_str(facts, "message", message.ptr);
	json_set_str(facts, "at", at);
	set_age(facts, "age", at, e->now);
	if (speaks_of_exhaustion(event->message))
		json_set_bool(facts, "exhausted", true);
	return facts;
}

struct json *api_persistent_volume_facts(const struct persistent_volume *pv)
{
	struct json *facts = json_object();

	json_set_str(facts, "name", pv->name);
	object_set_text(facts, "phase", pv->phase);
	object_set_text(facts, "reclaimPolicy", pv->reclaim_policy);
	if (*pv->claim_name) {
		char *claim AUTO(free) = xasprintf("%s/%s", pv->claim_namespace, pv->claim_name);

		json_set_str(facts, "claim", claim);
	}
	return facts;
}

struct json *api_volume_attachment_facts(const struct api_eye *e, const struct json *object,
                                         const struct volume_attachment *a, const char *node)
{
	struct json *facts = json_object();

	json_set_str(facts, "name", a->name);
	json_set_str(facts, "node", node ? node : a->node);
	if (!node)
		json_set_bool(facts, "nodeUnregistered", true);
	json_set_bool(facts, "attached", a->attached);
	object_set_text(facts, "error", a->error);
	add_ages(facts, e, object);
	return facts;
}
