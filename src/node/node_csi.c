/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RPC service of the node: converts messages to plain structs and back, and has the argument
 * rules of the specification and the method table. Decides nothing about devices or mounts. Errors
 * about fields have the same wording as in the Go plugin.
 */
#include "node/node_csi.h"

#include <string.h>

#include "csi/csi.pb-c.h"

#include "common/secret.h"
#include "rpc/csi_wire.h"
#include "volume/context_keys.h"
#include "volume/publish_context.h"
#include "volume/topology.h"
#include "volume/volume_cap_csi.h"
#include "node/context.h"
#include "node/gate/gatekeeper.h"
#include "node/health.h"
#include "node/host/max_volumes.h"
#include "node/target/paths.h"
#include "node/host/topology.h"
#include "node/stage/expand.h"
#include "node/stage/publish.h"
#include "node/stage/stage.h"
#include "node/stage/stats.h"

/* ---- argument rules ---- */

/* Checks a path that will be mounted or unmounted. */
static int require_path(const struct node *n, const char *path, const char *field, struct err *err)
{
	if (csi_require(path, field, err))
		return -1;
	return paths_check_point(&n->o, path, err) ? err_wrap(err, "%s", field) : 0;
}

/*
 * Checks a path where a volume must already be mounted. NOT_FOUND for a path outside the permitted
 * directories, which has no volume.
 */
static int require_volume_path(const struct node *n, const char *path, struct err *err)
{
	if (csi_require(path, "VolumePath", err))
		return -1;
	if (!paths_check(&n->o, path, err))
		return 0;
	err_wrap(err, "no volume is staged or published at %s", path);
	return err_recode(err, ERR_NOT_FOUND);
}

/* ---- secrets ---- */

/* Copies a passphrase; rpc_dispatch() overwrites that of the message at the end of the call. */
static int take_passphrase(const struct kvs *secrets, const char *key, struct secret *ret,
                           struct err *err)
{
	const char *text = kvs_get(secrets, key);
	size_t n = text ? strlen(text) : 0;
	bool fits = n <= sizeof(ret->text);

	if (fits && n)
		memcpy(ret->text, text, n);
	ret->n = fits ? n : 0;
	if (fits)
		return 0;
	return err_set(err, ERR_INVALID, "Secrets: %s has %zu bytes, at most %d are supported", key,
	               n, SECRET_MAX);
}

/* Returns the passphrases of the request's secret in *ret; leaves NULL if it has no passphrase. */
static int take_passphrases(const struct kvs *secrets, struct passphrases **ret, struct err *err)
{
	struct passphrases *p AUTO(passphrases_free) = NULL;

	if (str_empty(kvs_get(secrets, SECRET_PASSPHRASE)))
		return 0;
	p = passphrases_new();
	if (take_passphrase(secrets, SECRET_PASSPHRASE, &p->current, err) ||
	    take_passphrase(secrets, SECRET_PASSPHRASE_PREVIOUS, &p->previous, err))
		return -1;
	*ret = TAKE(p);
	return 0;
}

static int require_passphrase(const struct passphrases *p, struct err *err)
{
	if (p)
		return 0;
	return err_set(err, ERR_INVALID,
	               "Secrets: the volume is encrypted, but the request has no " SECRET_PASSPHRASE
	               "; next: create a Secret with this key, and name it in the StorageClass "
	               "(csi.storage.k8s.io/node-stage-secret-name and -namespace)");
}

/* ---- stage ---- */

static int stage_volume(void *self, struct rpc_call *call, const void *req, ProtobufCMessage **resp,
                        struct err *err)
{
	const Csi__V1__NodeStageVolumeRequest *q = req;
	struct kvs volume_context = csi_map(call, &q->base, "volume_context");
	struct kvs publish_context = csi_map(call, &q->base, "publish_context");
	struct kvs secrets = csi_map(call, &q->base, "secrets");
	struct passphrases *keys AUTO(passphrases_free) = NULL;
	struct stage_request s = { .volume_id = q->volume_id,
		                   .staging_path = q->staging_target_path };

	CSI_REPLY(call, resp, csi__v1__node_stage_volume_response);
	if (take_passphrases(&secrets, &keys, err))
		return -1;
	if (context_check_id(q->volume_id, err) ||
	    require_path(self, q->staging_target_path, "StagingTargetPath", err) ||
	    volume_cap_from_csi(q->volume_capability, "VolumeCapability",
	                        context_kind(self, &volume_context, &publish_context), &call->arena,
	                        &s.cap, err) ||
	    context_check(self, &volume_context, &publish_context, &s.cap, &s.params, err) ||
	    context_want(&publish_context, &s.params, &s.want, err) ||
	    (s.params.encryption && require_passphrase(keys, err)))
		return -1;
	s.keys = s.params.encryption ? keys : NULL;
	s.attachment = kvs_get(&publish_context, PUBLISH_ATTACHMENT_UID);
	s.attachment_created = kvs_get(&publish_context, PUBLISH_ATTACHMENT_CREATED);
	s.format_node = kvs_get(&publish_context, PUBLISH_FORMAT_NODE);
	return node_stage(self, &s, call->deadline, err);
}

static int unstage_volume(void *self, struct rpc_call *call, const void *req,
                          ProtobufCMessage **resp, struct err *err)
{
	const Csi__V1__NodeUnstageVolumeRequest *q = req;

	CSI_REPLY(call, resp, csi__v1__node_unstage_volume_response);
	if (context_check_id(q->volume_id, err) ||
	    require_path(self, q->staging_target_path, "StagingTargetPath", err))
		return -1;
	return node_unstage(self, q->volume_id, q->staging_target_path, call->deadline, err);
}

/* ---- publish ---- */

static int publish_volume(void *self, struct rpc_call *call, const void *req,
                          ProtobufCMessage **resp, struct err *err)
{
	const Csi__V1__NodePublishVolumeRequest *q = req;
	struct kvs volume_context = csi_map(call, &q->base, "volume_context");
	struct kvs publish_context = csi_map(call, &q->base, "publish_context");
	struct publish_request p = { .volume_id = q->volume_id,
		                     .staging_path = q->staging_target_path,
		                     .target_path = q->target_path,
		                     .read_only = q->readonly };
	struct volume_params params;
	struct device_want want;

	CSI_REPLY(call, resp, csi__v1__node_publish_volume_response);
	if (context_check_id(q->volume_id, err) ||
	    require_path(self, q->target_path, "TargetPath", err) ||
	    volume_cap_from_csi(q->volume_capability, "VolumeCapability",
	                        context_kind(self, &volume_context, &publish_context), &call->arena,
	                        &p.cap, err) ||
	    context_check(self, &volume_context, &publish_context, &p.cap, &params, err))
		return -1;
	if (str_empty(q->staging_target_path))
		return err_set(err, ERR_PRECONDITION,
		               "StagingTargetPath: field is required; volumes are staged before "
		               "they are published");
	if (require_path(self, q->staging_target_path, "StagingTargetPath", err))
		return -1;
	if (publish_context_given(&publish_context)) {
		if (context_want(&publish_context, &params, &want, err))
			return -1;
		p.want = &want;
	}
	return node_publish(self, &p, call->deadline, err);
}

static int unpublish_volume(void *self, struct rpc_call *call, const void *req,
                            ProtobufCMessage **resp, struct err *err)
{
	const Csi__V1__NodeUnpublishVolumeRequest *q = req;

	CSI_REPLY(call, resp, csi__v1__node_unpublish_volume_response);
	if (context_check_id(q->volume_id, err) ||
	    require_path(self, q->target_path, "TargetPath", err))
		return -1;
	return node_unpublish(self, q->volume_id, q->target_path, err);
}

/* ---- stats and expand ---- */

static Csi__V1__VolumeUsage *usage(struct rpc_call *call, Csi__V1__VolumeUsage__Unit unit,
                                   uint64_t total, uint64_t used, uint64_t available)
{
	Csi__V1__VolumeUsage *u = RPC_NEW(call, csi__v1__volume_usage);

	u->unit = unit;
	u->total = (int64_t)total;
	u->used = (int64_t)used;
	u->available = (int64_t)available;
	return u;
}

static int get_volume_stats(void *self, struct rpc_call *call, const void *req,
                            ProtobufCMessage **resp, struct err *err)
{
	const Csi__V1__NodeGetVolumeStatsRequest *q = req;
	Csi__V1__NodeGetVolumeStatsResponse *reply =
		CSI_REPLY(call, resp, csi__v1__node_get_volume_stats_response);
	struct volume_stats s;

	if (context_check_id(q->volume_id, err) || require_volume_path(self, q->volume_path, err) ||
	    node_stats(self, q->volume_id, q->volume_path, &s, err))
		return -1;
	reply->usage = arena_alloc(&call->arena, 2 * sizeof(*reply->usage));
	reply->usage[reply->n_usage++] = usage(call, CSI__V1__VOLUME_USAGE__UNIT__BYTES,
	                                       s.total_bytes, s.used_bytes, s.available_bytes);
	/* btrfs does not count inodes. */
	if (!s.block && s.total_inodes)
		reply->usage[reply->n_usage++] =
			usage(call, CSI__V1__VOLUME_USAGE__UNIT__INODES, s.total_inodes,
		              s.used_inodes, s.free_inodes);
	return 0;
}

static int range_of(const Csi__V1__CapacityRange *wire, struct expand_request *ret, struct err *err)
{
	if (!wire)
		return 0;
	if (wire->required_bytes < 0 || wire->limit_bytes < 0)
		return err_set(err, ERR_INVALID, "CapacityRange: a negative number of bytes");
	if (wire->limit_bytes && wire->required_bytes > wire->limit_bytes)
		return err_set(err, ERR_INVALID, "CapacityRange: more bytes required than allowed");
	ret->required = (uint64_t)wire->required_bytes;
	ret->limit = (uint64_t)wire->limit_bytes;
	return 0;
}

static int expand_volume(void *self, struct rpc_call *call, const void *req,
                         ProtobufCMessage **resp, struct err *err)
{
	const Csi__V1__NodeExpandVolumeRequest *q = req;
	Csi__V1__NodeExpandVolumeResponse *reply =
		CSI_REPLY(call, resp, csi__v1__node_expand_volume_response);
	struct kvs secrets = csi_map(call, &q->base, "secrets");
	struct passphrases *keys AUTO(passphrases_free) = NULL;
	struct expand_request e = { .volume_id = q->volume_id, .path = q->volume_path };
	struct volume_cap cap;
	uint64_t bytes;

	if (take_passphrases(&secrets, &keys, err) || context_check_id(q->volume_id, err) ||
	    csi_require(q->volume_path, "VolumePath", err) ||
	    range_of(q->capacity_range, &e, err) || require_volume_path(self, q->volume_path, err))
		return -1;
	if (q->volume_capability) {
		/*
		 * Only the shape is checked here: the path determines the kind of volume, which
		 * node_expand() compares.
		 */
		if (volume_cap_shape_from_csi(q->volume_capability, "VolumeCapability",
		                              &call->arena, &cap, err))
			return -1;
		e.cap = &cap;
	}
	e.keys = keys;
	if (node_expand(self, &e, call->deadline, &bytes, err))
		return -1;
	reply->capacity_bytes = (int64_t)bytes;
	return 0;
}

/* ---- health ---- */

static Csi__V1__VolumeHealth *volume_health(struct rpc_call *call, const char *volume_id,
                                            const struct health *h)
{
	Csi__V1__VolumeHealth *r = RPC_NEW(call, csi__v1__volume_health);

	r->volume_id = (char *)volume_id;
	r->health_statuses = arena_alloc(&call->arena, h->n * sizeof(*r->health_statuses));
	for (size_t i = 0; i < h->n; i++) {
		Csi__V1__VolumeHealth__VolumeHealthEntry *e =
			RPC_NEW(call, csi__v1__volume_health__volume_health_entry);

		e->status = (Csi__V1__VolumeHealthErrorType)h->v[i].status;
		e->reason = (char *)h->v[i].reason;
		e->message = csi_health_message(call, h->v[i].message);
		r->health_statuses[r->n_health_statuses++] = e;
	}
	return r;
}

static int get_volume_health(void *self, struct rpc_call *call, const void *req,
                             ProtobufCMessage **resp, struct err *err)
{
	const Csi__V1__NodeGetVolumeHealthRequest *q = req;
	Csi__V1__NodeGetVolumeHealthResponse *reply =
		CSI_REPLY(call, resp, csi__v1__node_get_volume_health_response);
	struct health h;

	if (context_check_id(q->volume_id, err) ||
	    node_volume_health(self, q->volume_id, q->volume_publish_path, q->staging_target_path,
	                       &h, err))
		return -1;
	reply->volume_health = volume_health(call, q->volume_id, &h);
	return 0;
}

static int get_storage_health(void *self, struct rpc_call *call, const void *req,
                              ProtobufCMessage **resp, struct err *err)
{
	Csi__V1__NodeGetStorageHealthResponse *reply =
		CSI_REPLY(call, resp, csi__v1__node_get_storage_health_response);
	struct health h;

	(void)req;
	if (node_storage_health(self, &h, err))
		return -1;
	reply->backend_health = arena_alloc(&call->arena, h.n * sizeof(*reply->backend_health));
	for (size_t i = 0; i < h.n; i++) {
		Csi__V1__NodeGetStorageHealthResponse__StorageBackendHealth *b = RPC_NEW(
			call, csi__v1__node_get_storage_health_response__storage_backend_health);

		b->status = (Csi__V1__StorageHealthErrorType)h.v[i].status;
		b->reason = (char *)h.v[i].reason;
		b->message = csi_health_message(call, h.v[i].message);
		reply->backend_health[reply->n_backend_health++] = b;
	}
	return 0;
}

/* ---- node information ---- */

static int get_info(void *self, struct rpc_call *call, const void *req, ProtobufCMessage **resp,
                    struct err *err)
{
	struct node *n = self;
	struct max_volumes max;
	Csi__V1__NodeGetInfoResponse *reply =
		CSI_REPLY(call, resp, csi__v1__node_get_info_response);

	(void)req;
	/*
	 * The node-driver-registrar does not know the gate. After this error kubelet rejects the
	 * registration, and the registrar retries it.
	 */
	if (gatekeeper_check_registration(n->o.gate, err) ||
	    max_volumes_answer(n, call->deadline, &max, err))
		return -1;
	reply->node_id = (char *)n->o.id;
	reply->max_volumes_per_node = max.n;
	if (node_topology_reported(n, &max))
		reply->accessible_topology = csi_topology(call, n->o.topology_key, TOPOLOGY_VALUE);
	return 0;
}

static const Csi__V1__NodeServiceCapability__RPC__Type capabilities[] = {
	CSI__V1__NODE_SERVICE_CAPABILITY__RPC__TYPE__STAGE_UNSTAGE_VOLUME,
	CSI__V1__NODE_SERVICE_CAPABILITY__RPC__TYPE__GET_VOLUME_STATS,
	CSI__V1__NODE_SERVICE_CAPABILITY__RPC__TYPE__EXPAND_VOLUME,
	CSI__V1__NODE_SERVICE_CAPABILITY__RPC__TYPE__SINGLE_NODE_MULTI_WRITER,
	CSI__V1__NODE_SERVICE_CAPABILITY__RPC__TYPE__GET_VOLUME_HEALTH,
	CSI__V1__NODE_SERVICE_CAPABILITY__RPC__TYPE__GET_STORAGE_HEALTH,
};

static int get_capabilities(void *self, struct rpc_call *call, const void *req,
                            ProtobufCMessage **resp, struct err *err)
{
	Csi__V1__NodeGetCapabilitiesResponse *reply =
		CSI_REPLY(call, resp, csi__v1__node_get_capabilities_response);

	(void)self;
	(void)req;
	(void)err;
	reply->capabilities =
		arena_alloc(&call->arena, ARRAY_LEN(capabilities) * sizeof(*reply->capabilities));
	for (size_t i = 0; i < ARRAY_LEN(capabilities); i++) {
		Csi__V1__NodeServiceCapability *c = RPC_NEW(call, csi__v1__node_service_capability);

		c->type_case = CSI__V1__NODE_SERVICE_CAPABILITY__TYPE_RPC;
		c->rpc = RPC_NEW(call, csi__v1__node_service_capability__rpc);
		c->rpc->type = capabilities[i];
		reply->capabilities[reply->n_capabilities++] = c;
	}
	return 0;
}

/* ---- the table ---- */

/*
 * Stats and health take no lock, because they change nothing, and reading a pod's metrics must not
 * make its unmount fail with ABORTED.
 */
static const struct rpc_method node_methods[] = {
	{ .name = "NodeStageVolume", .handler = stage_volume, .key = csi_volume_id },
	{ .name = "NodeUnstageVolume", .handler = unstage_volume, .key = csi_volume_id },
	{ .name = "NodePublishVolume", .handler = publish_volume, .key = csi_volume_id },
	{ .name = "NodeUnpublishVolume", .handler = unpublish_volume, .key = csi_volume_id },
	{ .name = "NodeGetVolumeStats", .handler = get_volume_stats, .reads = true },
	{ .name = "NodeGetVolumeHealth", .handler = get_volume_health },
	{ .name = "NodeGetStorageHealth", .handler = get_storage_health },
	{ .name = "NodeExpandVolume", .handler = expand_volume, .key = csi_volume_id },
	{ .name = "NodeGetCapabilities",
	  .handler = get_capabilities,
	  .on_poller = true,
	  .quiet = true },
	{ .name = "NodeGetInfo", .handler = get_info },
};

struct rpc_service node_service(struct node *n, struct keylock *locks)
{
	return (struct rpc_service) {
		.descriptor = &csi__v1__node__descriptor,
		.methods = node_methods,
		.n_methods = ARRAY_LEN(node_methods),
		.self = n,
		.locks = locks,
	};
}
