/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /sim/...: the switches of the simulator. They require no token: they exist for tests to cause
 * faults.
 */
#include "test/sim/server/switches.h"

#include <string.h>

#include "common/mem.h"
#include "test/sim/base/counters.h"
#include "test/sim/base/faults.h"
#include "test/sim/base/options.h"
#include "test/sim/dpf/dpf.h"
#include "test/sim/fabric/fabric.h"
#include "test/sim/fabric/hotplug.h"
#include "test/sim/fabric/virtiofs.h"
#include "test/sim/kinds/served.h"
#include "test/sim/store/store.h"

static struct json *body_of(const struct api_call *call, struct reply *ret)
{
	struct json *body AUTO(json_free) = NULL;
	struct err err = ERR_INIT;

	if (json_parse("body", call->body ? call->body : "", call->body_len, &body, &err)) {
		reply_failure(ret, 400, NULL, "%s", err.msg);
		return NULL;
	}
	return TAKE(body);
}

static void reply_faults(const struct api_call *call, struct reply *ret)
{
	struct json *list AUTO(json_free) = faults_json(call->sim->faults);

	reply_json(ret, 200, list);
}

static void get_faults(const struct api_call *call, struct reply *ret)
{
	reply_faults(call, ret);
}

static void post_faults(const struct api_call *call, struct reply *ret)
{
	struct json *spec AUTO(json_free) = body_of(call, ret);
	struct err err = ERR_INIT;

	if (!spec)
		return;
	if (faults_add(call->sim->faults, spec, &err))
		reply_failure(ret, 400, NULL, "%s", err.msg);
	else
		reply_faults(call, ret);
}

static void delete_faults(const struct api_call *call, struct reply *ret)
{
	const char *id = call_query(call, "id");
	struct err err = ERR_INIT;
	uint64_t n = 0;

	if (id && parse_u64("id", id, &n, &err)) {
		reply_failure(ret, 400, NULL, "%s", err.msg);
		return;
	}
	if (!faults_remove(call->sim->faults, (unsigned)n) && id)
		reply_failure(ret, 404, NULL, "no fault has the id %s", id);
	else
		reply_faults(call, ret);
}

static void get_requests(const struct api_call *call, struct reply *ret)
{
	struct json *tree AUTO(json_free) = counters_json(call->sim->counters);

	reply_json(ret, 200, tree);
}

static void delete_requests(const struct api_call *call, struct reply *ret)
{
	counters_reset(call->sim->counters);
	get_requests(call, ret);
}

static void reply_done(struct reply *ret)
{
	struct json *o AUTO(json_free) = json_object();

	reply_json(ret, 200, o);
}

/* {"versions": ["v1alpha1", "v1beta1"]} */
static void post_versions(const struct api_call *call, struct reply *ret)
{
	struct json *spec AUTO(json_free) = body_of(call, ret);
	struct strs versions AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;

	if (!spec)
		return;
	json_foreach (item, json_at(spec, "versions"))
		strs_add(&versions, json_text(item) ? json_text(item) : "");
	if (served_set(&versions, &err))
		reply_failure(ret, 400, NULL, "%s", err.msg);
	else
		reply_done(ret);
}

static void post_expire(const struct api_call *call, struct reply *ret)
{
	store_expire(call->sim->store);
	reply_done(ret);
}

static void post_resize(const struct api_call *call, struct reply *ret)
{
	struct json *spec AUTO(json_free) = body_of(call, ret);
	struct err err = ERR_INIT;
	const char *volume = NULL;
	int64_t bytes = 0;

	if (!spec)
		return;
	if (!call->sim->dpf) {
		reply_failure(ret, 400, NULL, "there are no volumes: snap-sim runs with --no-dpf");
		return;
	}
	if (json_get_str(spec, "volume", &volume, &err) < 0 ||
	    json_get_i64(spec, "bytes", &bytes, &err) < 0)
		reply_failure(ret, 400, NULL, "%s", err.msg);
	else if (!volume || bytes <= 0)
		reply_failure(ret, 400, NULL,
		              "{\"volume\": NAME, \"bytes\": N} is needed, N above 0");
	else if (dpf_resize(call->sim->dpf, volume, (uint64_t)bytes, &err))
		reply_failure(ret, err.code == ERR_NOT_FOUND ? 404 : 400, NULL, "%s", err.msg);
	else
		reply_done(ret);
}

static void reply_devices(struct reply *ret, int rc, const struct err *err)
{
	unsigned code = err->code == ERR_NOT_FOUND ? 404 : err->code == ERR_INVALID ? 400 : 409;

	if (rc)
		reply_failure(ret, code, NULL, "%s", err->msg);
	else
		reply_done(ret);
}

/* The subject of a switch of devices. */
struct device_call {
	const char *volume, *node; /* node NULL: any */
	const char *what;          /* NULL: not given */
	int64_t slot;              /* -1: not given */
};

/* False and an answer: the body does not name it, or there are no devices. */
static bool device_call_read(const struct api_call *call, const struct json *spec,
                             struct device_call *c, struct reply *ret)
{
	struct err err = ERR_INIT;

	*c = (struct device_call) { .slot = -1 };
	if (!spec)
		return false;
	if (!call->sim->fabric)
		reply_failure(ret, 400, NULL, "there are no devices: snap-sim has no fabric");
	else if (json_get_str(spec, "volume", &c->volume, &err) < 0 ||
	         json_get_str(spec, "node", &c->node, &err) < 0 ||
	         json_get_str(spec, "do", &c->what, &err) < 0 ||
	         json_get_i64(spec, "slot", &c->slot, &err) < 0)
		reply_failure(ret, 400, NULL, "%s", err.msg);
	else if (!c->volume)
		reply_failure(ret, 400, NULL, "{\"volume\": NAME} is needed");
	else
		return true;
	return false;
}

static void post_unplug(const struct api_call *call, struct reply *ret)
{
	struct json *spec AUTO(json_free) = body_of(call, ret);
	struct err err = ERR_INIT;
	struct device_call c;

	if (device_call_read(call, spec, &c, ret))
		reply_devices(ret, hotplug_unplug(call->sim->fabric, c.volume, c.node, &err), &err);
}

static void post_plug(const struct api_call *call, struct reply *ret)
{
	struct json *spec AUTO(json_free) = body_of(call, ret);
	struct err err = ERR_INIT;
	struct device_call c;

	if (device_call_read(call, spec, &c, ret))
		reply_devices(ret, hotplug_plug(call->sim->fabric, c.volume, c.node, c.slot, &err),
		              &err);
}

static void post_share(const struct api_call *call, struct reply *ret)
{
	struct json *spec AUTO(json_free) = body_of(call, ret);
	struct err err = ERR_INIT;
	struct device_call c;

	if (device_call_read(call, spec, &c, ret))
		reply_devices(ret,
		              virtiofs_do(call->sim->fabric, c.volume, c.node, c.what ? c.what : "",
		                          &err),
		              &err);
}

/* For each node, the values for the driver's --sysfs-root and --dev-root. */
static struct json *nodes_json(const struct sim *sim)
{
	struct json *list = json_array();

	for (size_t i = 0; i < sim->options->nodes.n; i++) {
		const char *name = sim->options->nodes.v[i];
		struct json *node = json_object();
		char *sys AUTO(free) = xasprintf("%s/%s/sys", fabric_path(sim->fabric), name);
		char *dev AUTO(free) = xasprintf("%s/%s/dev", fabric_path(sim->fabric), name);

		json_set_str(node, "name", name);
		json_set_str(node, "sysfsRoot", sys);
		json_set_str(node, "devRoot", dev);
		json_append(list, node);
	}
	return list;
}

static void get_state(const struct api_call *call, struct reply *ret)
{
	struct json *o AUTO(json_free) = call->sim->dpf ? dpf_state(call->sim->dpf) : json_object();

	if (call->sim->fabric)
		json_set(o, "nodes", nodes_json(call->sim));
	reply_json(ret, 200, o);
}

static const struct {
	const char *method, *path;
	void (*fn)(const struct api_call *call, struct reply *ret);
} paths[] = {
	{ "GET", "/sim/faults", get_faults },           { "POST", "/sim/faults", post_faults },
	{ "DELETE", "/sim/faults", delete_faults },     { "GET", "/sim/requests", get_requests },
	{ "DELETE", "/sim/requests", delete_requests }, { "POST", "/sim/expire", post_expire },
	{ "POST", "/sim/resize", post_resize },         { "GET", "/sim/state", get_state },
	{ "POST", "/sim/unplug", post_unplug },         { "POST", "/sim/plug", post_plug },
	{ "POST", "/sim/share", post_share },           { "POST", "/sim/versions", post_versions },
};

void switches_handle(const struct api_call *call, struct reply *ret)
{
	struct str known AUTO(str_clear) = STR_INIT(1024);

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		if (str_eq(paths[i].path, call->path) && str_eq(paths[i].method, call->method)) {
			paths[i].fn(call, ret);
			return;
		}
		str_addf(&known, "%s%s %s", i ? ", " : "", paths[i].method, paths[i].path);
	}
	reply_failure(ret, 404, NULL, "no such switch; there are %s", known.ptr);
}
