/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the parts, sends requests and waits for objects. */
#include "test/sim/test/harness.h"

#include <check.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "common/deadline.h"
#include "common/file.h"
#include "common/mem.h"
#include "test/sim/api/watch.h"
#include "test/sim/dpf/conditions.h"
#include "test/sim/fabric/state_dir.h"
#include "test/sim/life.h"
#include "test/sim/server/route.h"

#define PATIENCE_MS 100000

bool world_start(struct sim_world *w, const char *const *args)
{
	struct strs argv AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;
	enum options_end end;

	*w = (struct sim_world) { 0 };
	strs_add(&argv, "snap-sim");
	for (; *args; args++)
		strs_add(&argv, *args);
	ck_assert_msg(options_parse((int)argv.n, argv.v, &w->options, &end, &err) == 0, "%s",
	              err.msg);
	ck_assert_msg(sim_start(&w->options, &w->sim, &err) == 0, "%s", err.msg);
	return true;
}

void world_end(struct sim_world *w)
{
	if (!w->sim.options)
		return;
	sim_end(&w->sim);
	options_clear(&w->options);
}

void answer_clear(struct api_answer *a)
{
	json_free(a->json);
	free(a->text);
	watch_free(a->reply.stream);
	*a = (struct api_answer) { 0 };
}

static void split_query(const char *path, char **bare, struct strs *query)
{
	const char *at = strchr(path, '?');

	*bare = at ? xstrndup(path, (size_t)(at - path)) : xstrdup(path);
	while (at && *at) {
		size_t n = strcspn(++at, "&");
		char *pair AUTO(free) = xstrndup(at, n);

		strs_add(query, pair);
		at += n;
	}
}

struct api_answer world_call(struct sim_world *w, const char *method, const char *path,
                             const char *body)
{
	struct strs query AUTO(strs_clear) = STRS_INIT;
	char *bare AUTO(free) = NULL;
	struct api_answer a = { 0 };
	struct err err = ERR_INIT;
	struct api_call call = { .sim = &w->sim,
		                 .method = method,
		                 .content_type = str_eq(method, "PATCH")
		                                         ? "application/merge-patch+json"
		                                         : "application/json",
		                 .query = &query,
		                 .body = body,
		                 .body_len = body ? strlen(body) : 0,
		                 .client_fd = -1 };

	split_query(path, &bare, &query);
	call.path = bare;
	route_request(&call, &a.reply);
	a.code = a.reply.code;
	a.text = TAKE(a.reply.body);
	if (a.text && json_parse("answer", a.text, strlen(a.text), &a.json, &err))
		a.json = NULL;
	return a;
}

void world_ok(struct sim_world *w, const char *method, const char *path, const char *body,
              unsigned code)
{
	struct api_answer a AUTO(answer_clear) = world_call(w, method, path, body);

	ck_assert_msg(a.code == code, "%s %s: %u instead of %u: %s", method, path, a.code, code,
	              a.text ? a.text : "");
}

char *volume_json_text(const char *name, const char *policy)
{
	return xasprintf(
		"{\"apiVersion\":\"storage.dpu.nvidia.com/v1alpha1\",\"kind\":\"DPUVolume\","
		"\"metadata\":{\"name\":\"%s\"},\"spec\":{\"dpuStoragePolicyName\":\"%s\","
		"\"accessModes\":[\"ReadWriteOnce\"],\"volumeMode\":\"Block\","
		"\"resources\":{\"requests\":{\"storage\":\"64Mi\"}}}}",
		name, policy);
}

char *attachment_json_text(const char *name, const char *node, const char *volume,
                           const char *function, bool hotplug)
{
	return xasprintf("{\"apiVersion\":\"storage.dpu.nvidia.com/v1alpha1\","
	                 "\"kind\":\"DPUVolumeAttachment\",\"metadata\":{\"name\":\"%s\"},"
	                 "\"spec\":{\"dpuNodeName\":\"%s\",\"dpuVolumeName\":\"%s\","
	                 "\"functionType\":\"%s\",\"hotplugFunction\":%s}}",
	                 name, node, volume, function, hotplug ? "true" : "false");
}

void world_make_volume(struct sim_world *w, const char *name)
{
	char *body AUTO(free) = volume_json_text(name, "example-policy");

	world_ok(w, "POST", VOLUMES, body, 201);
}

void world_make_attachment(struct sim_world *w, const char *name, const char *node,
                           const char *volume)
{
	char *body AUTO(free) = attachment_json_text(name, node, volume, "vf", false);

	world_ok(w, "POST", ATTACHMENTS, body, 201);
}

static struct object_version *get_object(struct sim_world *w, const char *object)
{
	const char *slash = strchr(object, '/');
	char *plural AUTO(free) = xstrndup(object, (size_t)(slash - object));
	const struct api_resource *res = resource_by_plural(plural);

	ck_assert_ptr_nonnull(res);
	return store_get(w->sim.store, res, res->namespaced ? NS : "", slash + 1);
}

/* Calls ok(arg, object or NULL) after every change until it is true. */
static struct json *await(struct sim_world *w, const char *object,
                          bool (*ok)(const void *arg, const struct json *o), const void *arg)
{
	struct deadline end = deadline_in_ms(PATIENCE_MS);
	struct watcher *watcher AUTO(watcher_close) = NULL;
	struct json *o = NULL;

	ck_assert_int_eq(store_watch(w->sim.store, NULL, store_rv(w->sim.store), &watcher), 0);
	for (;;) {
		struct object_version *v AUTO(version_unref) = get_object(w, object);
		struct pollfd fd = { .fd = watcher_fd(watcher), .events = POLLIN };
		struct event e = { 0 };

		json_free(o);
		o = v ? version_parse(v) : NULL;
		if (ok(arg, o))
			return o;
		ck_assert_msg(!deadline_passed(end), "%s is still: %s", object,
		              v ? v->text : "(gone)");
		poll(&fd, 1, deadline_left_ms(end));
		while (watcher_next(watcher, &e) == NEWS_EVENT)
			event_clear(&e);
	}
}

struct expectation {
	const char *path, *value;
	const char *reason, *message; /* of a condition */
};

static bool has_value(const void *arg, const struct json *o)
{
	const struct expectation *x = arg;

	return x->value ? str_eq(json_str(o, x->path), x->value) : !o;
}

struct json *world_until(struct sim_world *w, const char *object, const char *path,
                         const char *value)
{
	struct expectation x = { .path = path, .value = value };

	return await(w, object, has_value, &x);
}

void world_wait(struct sim_world *w, const char *object, const char *path, const char *value)
{
	json_free(world_until(w, object, path, value));
}

static bool has_condition(const void *arg, const struct json *o)
{
	const struct expectation *x = arg;

	json_foreach (c, json_at(o, "status.conditions")) {
		if (str_eq(json_str(c, "type"), x->path) &&
		    str_eq(json_str(c, "reason"), x->reason) &&
		    strstr(json_str(c, "message"), x->message))
			return true;
	}
	return false;
}

void world_wait_condition(struct sim_world *w, const char *object, const char *type,
                          const char *reason, const char *message_part)
{
	struct expectation x = { .path = type, .reason = reason, .message = message_part };

	json_free(await(w, object, has_condition, &x));
}

struct json *world_bound(struct sim_world *w, const char *volume)
{
	char *object AUTO(free) = xasprintf("dpuvolumes/%s", volume);

	return world_until(w, object, "status.phase", "Bound");
}

/* DPF writes the condition before the status that it is about. */
static bool is_attached(const void *arg, const struct json *o)
{
	struct err err = ERR_INIT;
	bool attached = false;

	(void)arg;
	return o && conditions_true(o, "DPUAttached") && !json_at(o, "status.message") &&
	       json_get_bool(o, "status.dpuAttached", &attached, &err) == 0 && attached;
}

struct json *world_attached(struct sim_world *w, const char *attachment)
{
	char *object AUTO(free) = xasprintf("dpuvolumeattachments/%s", attachment);

	return await(w, object, is_attached, NULL);
}

void world_fault(struct sim_world *w, const char *spec)
{
	world_ok(w, "POST", "/sim/faults", spec, 200);
}

void world_heal(struct sim_world *w)
{
	world_ok(w, "DELETE", "/sim/faults", NULL, 200);
}

/* ---- the state directory ---- */

bool loop_is_below(unsigned number, const char *dir)
{
	char *path AUTO(free) = xasprintf("/sys/dev/block/7:%u/loop/backing_file", number);
	char *text AUTO(free) = NULL;
	struct err err = ERR_INIT;

	return file_read_line(path, 4096, &text, &err) == 0 && str_has_prefix(text, dir);
}

void state_remove(const char *base, const char *state)
{
	struct state_dir leftovers;
	struct err err = ERR_INIT;

	if (geteuid() == 0 && state_dir_open(state, &leftovers, &err) == 0)
		state_dir_close(&leftovers);
	rmdir(state);
	rmdir(base);
}
