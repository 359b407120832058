/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates the first objects through api_create(), so that they are validated and completed like any
 * other. They are not counted as requests.
 */
#include "test/sim/api/seed.h"

#include <string.h>

#include "common/file.h"
#include "common/json.h"
#include "common/mem.h"
#include "test/sim/api/api_write.h"
#include "test/sim/base/counters.h"
#include "test/sim/base/options.h"
#include "test/sim/kinds/object.h"

#define SEED_FILE_MAX (64 * 1024 * 1024)

static const struct api_resource *resource_of(const struct json *o)
{
	for (size_t i = 0; i < RES_COUNT; i++) {
		char *api_version AUTO(free) = resource_api_version(&resources[i]);

		if (str_eq(json_str(o, "apiVersion"), api_version) &&
		    str_eq(json_str(o, "kind"), resources[i].kind))
			return &resources[i];
	}
	return NULL;
}

static int create(struct sim *sim, const struct json *o, struct err *err)
{
	const struct api_resource *res = resource_of(o);
	const char *ns = *object_namespace(o) ? object_namespace(o) : sim->options->namespace;
	struct api_call call = {
		.sim = sim, .method = "POST", .content_type = "application/json", .client_fd = -1
	};
	struct target target = { .res = res };
	char *body AUTO(free) = json_print(o);
	struct reply reply = { 0 };
	int rc = 0;

	if (!res)
		return err_set(err, ERR_INVALID, "no such kind: apiVersion %s, kind %s",
		               json_str(o, "apiVersion") ? json_str(o, "apiVersion") : "(none)",
		               json_str(o, "kind") ? json_str(o, "kind") : "(none)");
	if (res->namespaced)
		target.ns = xstrdup(ns);
	call.body = body;
	call.body_len = strlen(body);
	api_create(&call, &target, &reply);
	if (reply.code != 201)
		rc = err_set(err, ERR_INVALID, "%s %s: %s", res->kind, object_name(o),
		             reply.body ? reply.body : "");
	free(target.ns);
	reply_clear(&reply);
	return rc;
}

/* Creates an object of this name; spec is JSON text, NULL: none. */
static int create_named(struct sim *sim, enum resource_id id, const char *name, const char *spec,
                        struct err *err)
{
	struct json *o AUTO(json_free) = json_object();
	char *api_version AUTO(free) = resource_api_version(&resources[id]);
	struct json *spec_tree = NULL;

	json_set_str(o, "apiVersion", api_version);
	json_set_str(o, "kind", resources[id].kind);
	json_set_str(json_sub(o, "metadata"), "name", name);
	if (spec) {
		if (json_parse(name, spec, strlen(spec), &spec_tree, err))
			return -1;
		json_set(o, "spec", spec_tree);
	}
	return create(sim, o, err);
}

static int seed_namespaces(struct sim *sim, struct err *err)
{
	const char *const names[] = { "default", "kube-system", sim->options->namespace };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		bool twice = i == 2 && (str_eq(names[2], names[0]) || str_eq(names[2], names[1]));

		if (!twice && create_named(sim, RES_NAMESPACES, names[i], "{}", err))
			return -1;
	}
	return 0;
}

/*
 * As DPF's controller of DPUSets creates it: with the label, and all fields that the CRD requires.
 */
static int seed_dpu(struct sim *sim, const char *node, struct err *err)
{
	char *text AUTO(free) = xasprintf(
		"{\"apiVersion\":\"provisioning.dpu.nvidia.com/v1alpha1\",\"kind\":\"DPU\","
		"\"metadata\":{\"name\":\"%s-0000-26-00\",\"labels\":{"
		"\"provisioning.dpu.nvidia.com/dpunode-name\":\"%s\"}},\"spec\":{"
		"\"dpuNodeName\":\"%s\",\"dpuDeviceName\":\"0000-26-00\",\"serialNumber\":"
		"\"MT2328\",\"bfb\":\"bf-bundle\",\"dpuFlavor\":\"flavor\",\"nodeEffect\":{"
		"\"noEffect\":true},\"cluster\":{\"name\":\"" DPU_CLUSTER
		"\",\"namespace\":\"%s\"}}}",
		node, node, node, sim->options->namespace);
	struct json *o AUTO(json_free) = NULL;

	if (json_parse(node, text, strlen(text), &o, err))
		return -1;
	return create(sim, o, err);
}

static int seed_node(struct sim *sim, const char *node, struct err *err)
{
	if (create_named(sim, RES_NODES, node, "{}", err))
		return -1;
	/* Another API server (--kubeconfig) has its own DPUNodes and DPUs. */
	if (sim->options->api)
		return 0;
	if (create_named(sim, RES_DPUNODES, node, "{}", err))
		return -1;
	return seed_dpu(sim, node, err);
}

static int seed_policy(struct sim *sim, struct err *err)
{
	if (create_named(
		    sim, RES_VENDORS, "example-vendor",
		    "{\"storageClassName\":\"example-storage-class\",\"pluginName\":\"nvidia-fs\"}",
		    err))
		return -1;
	return create_named(sim, RES_POLICIES, "example-policy",
	                    "{\"dpuStorageVendors\":[\"example-vendor\"],"
	                    "\"selectionAlgorithm\":\"NumberVolumes\",\"parameters\":{}}",
	                    err);
}

static int seed_file(struct sim *sim, const char *path, struct err *err)
{
	char *text AUTO(free) = NULL;
	struct json *tree AUTO(json_free) = NULL;
	const struct json *list;
	size_t n = 0;

	if (file_read(path, SEED_FILE_MAX, &text, &n, err) || json_parse(path, text, n, &tree, err))
		return -1;
	list = json_is_array(tree) ? tree : json_at(tree, "items");
	if (!list)
		return create(sim, tree, err) ? err_wrap(err, "%s", path) : 0;
	json_foreach (item, list) {
		if (create(sim, item, err))
			return err_wrap(err, "%s", path);
	}
	return 0;
}

int seed_all(struct sim *sim, struct err *err)
{
	const struct sim_options *o = sim->options;

	if (seed_namespaces(sim, err) ||
	    create_named(sim, RES_DPUCLUSTERS, DPU_CLUSTER, "{\"type\":\"static\"}", err))
		return err_wrap(err, "seed");
	for (size_t i = 0; i < o->nodes.n; i++)
		if (seed_node(sim, o->nodes.v[i], err))
			return err_wrap(err, "--node %s", o->nodes.v[i]);
	if (o->seed && seed_policy(sim, err))
		return err_wrap(err, "--seed");
	for (size_t i = 0; i < o->seed_files.n; i++)
		if (seed_file(sim, o->seed_files.v[i], err))
			return err_wrap(err, "--seed-file");
	return 0;
}
