/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts of one object. Whether it is ready is decided by the controller's own rule (readiness.h).
 * Keeps nothing and asks nobody.
 */
#include "inspect/api_object.h"

#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "controller/readiness.h"
#include "controller/names.h"
#include "controller/volume_provenance.h"
#include "dpf/conditions.h"
#include "inspect/inspect.h"
#include "volume/context_keys.h"

/* Seconds since an RFC 3339 time, 0 for one that is still to come; -1: it is none. */
static int64_t api_age(const char *text, time_t now)
{
	struct tm tm = { .tm_sec = 0 };
	time_t at;

	if (!text || !strptime(text, "%Y-%m-%dT%H:%M:%S", &tm))
		return -1;
	at = timegm(&tm);
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

	set_age(facts, "age", json_str(object, "metadata.creationTimestamp"), e->now);
	if (!json_at(object, "metadata.deletionTimestamp"))
		return;
	set_age(facts, "deleting", json_str(object, "metadata.deletionTimestamp"), e->now);
	if (json_count(finalizers))
		json_set(facts, "finalizers", json_copy(finalizers));
}

/* "Ready=False since 50 s (Pending: the text)" */
static void object_add_condition(struct json *list, const struct condition *c, time_t now)
{
	struct str text AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	int64_t age = api_age(c->since, now);
	char buf[64];

	str_addf(&text, "%s=%s", c->type, *c->status ? c->status : "Unknown");
	if (age >= 0)
		str_addf(&text, " since %s", inspect_age(age, buf));
	if (*c->reason || *c->message) {
		str_addf(&text, " (%s%s", c->reason, *c->reason && *c->message ? ": " : "");
		str_add_shown(&text, c->message);
		str_add(&text, ")");
	}
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

/* rc: of readiness.h. `since`: for how long the first unmet condition has been so. */
static void add_verdict(struct json *facts, const struct api_eye *e, const struct json *object,
                        int rc, const char *why, const struct err *err)
{
	struct condition unmet;

	json_set_bool(facts, "ready", rc == 0);
	if (rc)
		json_set_str(facts, "reason", rc < 0 ? err->msg : why);
	if (rc && condition_unmet(object, &unmet))
		set_age(facts, "since", unmet.since, e->now);
	if (rc || e->all)
		add_conditions(facts, e, object);
}

/* external-provisioner's names, and what it tells the Go plugin, which marks nothing else. */
static bool is_provisioned(const struct dpu_volume *v)
{
	json_foreach (member, v->parameters)
		if (str_has_prefix(json_name(member), PARAM_SIDECAR_PREFIX))
			return true;
	return str_has_prefix(v->name, "pvc-") && strlen(v->name) == sizeof("pvc-") - 1 + 36;
}

/* Another driver of ours, under another name, or another tool. */
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
	return facts;
}

static void object_add_device(struct json *facts, const struct dpu_attachment *a)
{
	object_set_text(facts, "function", a->function_type);
	object_set_text(facts, "pci", a->pci_address);
	object_set_text(facts, "vuid", a->func_vuid);
	if (a->nvme_nsid > 0)
		json_set_int(facts, "nsid", a->nvme_nsid);
	object_set_text(facts, "uuid", a->nvme_uuid);
	object_set_text(facts, "tag", a->virtiofs_tag);
}

/* Ours carry a label; the Go plugin's have names of this form, which a person hardly writes. */
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
