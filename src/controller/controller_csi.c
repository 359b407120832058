/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RPC handlers of the controller: the conversion of messages to plain structs and back, the
 * checks for missing fields in the Go plugin's order and words, and the method table. Every request
 * is checked here, and lower layers use no generated types. Secrets are not read.
 */
#include "controller/controller_csi.h"

#include "csi/csi.pb-c.h"

#include "common/cleanup.h"
#include "common/str.h"
#include "rpc/csi_wire.h"
#include "volume/topology.h"
#include "volume/volume_cap_csi.h"
#include "controller/expand.h"
#include "controller/expandable.h"
#include "controller/list_csi.h"
#include "controller/names.h"
#include "controller/publish.h"
#include "controller/validate.h"
#include "controller/volume.h"

/* Kinds of operations. Requests that wait for the request limit take turns by kind. */
enum { WORK_OTHER, WORK_CREATE, WORK_DELETE, WORK_PUBLISH, WORK_UNPUBLISH };

/*
 * `kind` is the function type whose rules apply; NULL: only missing or malformed fields are errors.
 */
static int caps_from_csi(Csi__V1__VolumeCapability **wire, size_t n, const enum emulation *kind,
                         struct arena *arena, struct volume_cap **ret, struct err *err)
{
	struct volume_cap *caps = arena_alloc(arena, (n + 1) * sizeof(*caps));

	if (!n)
		return err_set(err, ERR_INVALID, "VolumeCapabilities: field is required");
	for (size_t i = 0; i < n; i++) {
		const char *field = arena_printf(arena, "VolumeCapabilities[%zu]", i);

		if (volume_cap_shape_from_csi(wire[i], field, arena, &caps[i], err) ||
		    (kind && volume_cap_check(&caps[i], *kind, field, err)))
			return -1;
	}
	*ret = caps;
	return 0;
}

/* ---- CreateVolume, DeleteVolume ---- */

/* Without --topology the requirement is ignored: the driver has not promised to meet it. */
static int check_topology(const struct controller *c, struct rpc_call *call,
                          const Csi__V1__TopologyRequirement *wanted, struct err *err)
{
	struct kvs *places;

	if (!c->topology_key || !wanted)
		return 0;
	places = arena_alloc(&call->arena, (wanted->n_requisite + 1) * sizeof(*places));
	for (size_t i = 0; i < wanted->n_requisite; i++)
		places[i] = csi_map(call, &wanted->requisite[i]->base, "segments");
	return topology_check(c->topology_key, places, wanted->n_requisite, err);
}

static const char *create_key(struct rpc_call *call, const void *req)
{
	const Csi__V1__CreateVolumeRequest *q = req;
	char name[OBJECT_NAME_MAX + 1];

	if (str_empty(q->name))
		return "";
	volume_object_name(q->name, name);
	return arena_strdup(&call->arena, name);
}

static int read_create(const struct controller *c, struct rpc_call *call,
                       const Csi__V1__CreateVolumeRequest *q, struct volume_request *r,
                       struct err *err)
{
	struct kvs parameters = csi_map(call, &q->base, "parameters");
	enum emulation kind = volume_params_emulation(&parameters, c->emulation);
	struct volume_cap *caps;

	if (csi_require(q->name, "Name", err) ||
	    caps_from_csi(q->volume_capabilities, q->n_volume_capabilities, &kind, &call->arena,
	                  &caps, err))
		return -1;
	if (q->volume_content_source)
		return err_set(
			err, ERR_INVALID,
			"VolumeContentSource: the claim has a dataSource, but this driver neither "
			"restores snapshots nor clones volumes; leave dataSource out of the claim");
	if (q->n_mutable_parameters)
		return err_set(
			err, ERR_INVALID,
			"MutableParameters: volumes cannot be modified, so none are supported "
			"(VolumeAttributesClass)");
	if (check_topology(c, call, q->accessibility_requirements, err))
		return -1;
	*r = (struct volume_request) {
		.name = q->name,
		.required = q->capacity_range ? q->capacity_range->required_bytes : 0,
		.limit = q->capacity_range ? q->capacity_range->limit_bytes : 0,
		.caps = caps,
		.n_caps = q->n_volume_capabilities,
		.parameters = parameters,
	};
	return 0;
}

static int create_volume(void *self, struct rpc_call *call, const void *req,
                         ProtobufCMessage **resp, struct err *err)
{
	struct controller *c = self;
	Csi__V1__CreateVolumeResponse *reply =
		CSI_REPLY(call, resp, csi__v1__create_volume_response);
	struct volume_request r;
	struct created_volume v;

	kube_begin(WORK_CREATE);
	if (read_create(c, call, req, &r, err) || volume_request_check(c, &r, &call->arena, err) ||
	    volume_create(c, &r, call->deadline, &call->arena, &v, err))
		return -1;
	reply->volume = RPC_NEW(call, csi__v1__volume);
	reply->volume->volume_id = (char *)v.id;
	reply->volume->capacity_bytes = v.capacity;
	csi_set_map(call, &reply->volume->base, "volume_context", &v.context);
	csi_set_volume_topology(c, call, reply->volume);
	return 0;
}

static int delete_volume(void *self, struct rpc_call *call, const void *req,
                         ProtobufCMessage **resp, struct err *err)
{
	const Csi__V1__DeleteVolumeRequest *q = req;

	CSI_REPLY(call, resp, csi__v1__delete_volume_response);
	if (csi_require(q->volume_id, "VolumeID", err))
		return -1;
	kube_begin(WORK_DELETE);
	return volume_delete(self, q->volume_id, call->deadline, err);
}

/* ---- ControllerPublish, Unpublish ---- */

/*
 * Reads the capability. The volume's kind is known only after the volume was read, so
 * volume_attach() applies the rules of the kind. A capability that no kind accepts is refused here,
 * with the error for NVMe.
 */
static int read_attach_cap(const Csi__V1__VolumeCapability *wire, struct arena *arena,
                           struct volume_cap *ret, struct err *err)
{
	struct err of_share = ERR_INIT;

	if (volume_cap_shape_from_csi(wire, "VolumeCapability", arena, ret, err))
		return -1;
	if (!volume_cap_check(ret, EMULATION_VIRTIOFS, "VolumeCapability", &of_share))
		return 0;
	return volume_cap_check(ret, EMULATION_NVME, "VolumeCapability", err);
}

/* `readonly` is ignored: PUBLISH_READONLY is not advertised, and the node mounts read-only. */
static int controller_publish_volume(void *self, struct rpc_call *call, const void *req,
                                     ProtobufCMessage **resp, struct err *err)
{
	const Csi__V1__ControllerPublishVolumeRequest *q = req;
	Csi__V1__ControllerPublishVolumeResponse *reply =
		CSI_REPLY(call, resp, csi__v1__controller_publish_volume_response);
	struct attach_request r = { .volume = q->volume_id, .node = q->node_id };
	struct kvs context;

	if (csi_require(q->volume_id, "VolumeId", err) || csi_require(q->node_id, "NodeId", err) ||
	    read_attach_cap(q->volume_capability, &call->arena, &r.cap, err))
		return -1;
	r.volume_context = csi_map(call, &q->base, "volume_context");
	kube_begin(WORK_PUBLISH);
	if (volume_attach(self, &r, call->deadline, &call->arena, &context, err))
		return -1;
	csi_set_map(call, &reply->base, "publish_context", &context);
	return 0;
}

static int controller_unpublish_volume(void *self, struct rpc_call *call, const void *req,
                                       ProtobufCMessage **resp, struct err *err)
{
	const Csi__V1__ControllerUnpublishVolumeRequest *q = req;

	CSI_REPLY(call, resp, csi__v1__controller_unpublish_volume_response);
	if (csi_require(q->volume_id, "VolumeId", err))
		return -1;
	kube_begin(WORK_UNPUBLISH);
	return volume_detach(self, q->volume_id, q->node_id, call->deadline, err);
}

/* ---- Validate, capabilities ---- */

static void confirm_caps(struct rpc_call *call, const Csi__V1__ValidateVolumeCapabilitiesRequest *q,
                         const struct validate_request *r,
                         Csi__V1__ValidateVolumeCapabilitiesResponse *reply)
{
	Csi__V1__ValidateVolumeCapabilitiesResponse__Confirmed *ok =
		RPC_NEW(call, csi__v1__validate_volume_capabilities_response__confirmed);

	ok->n_volume_capabilities = q->n_volume_capabilities;
	ok->volume_capabilities = q->volume_capabilities;
	csi_set_map(call, &ok->base, "volume_context", &r->volume_context);
	csi_set_map(call, &ok->base, "parameters", &r->parameters);
	reply->confirmed = ok;
}

static int validate_volume(void *self, struct rpc_call *call, const void *req,
                           ProtobufCMessage **resp, struct err *err)
{
	const Csi__V1__ValidateVolumeCapabilitiesRequest *q = req;
	Csi__V1__ValidateVolumeCapabilitiesResponse *reply =
		CSI_REPLY(call, resp, csi__v1__validate_volume_capabilities_response);
	struct validate_request r = { .volume = q->volume_id };
	struct volume_cap *caps;
	const char *why = NULL;
	int rc;

	if (csi_require(q->volume_id, "VolumeId", err) ||
	    caps_from_csi(q->volume_capabilities, q->n_volume_capabilities, NULL, &call->arena,
	                  &caps, err))
		return -1;
	r.caps = caps;
	r.n_caps = q->n_volume_capabilities;
	r.volume_context = csi_map(call, &q->base, "volume_context");
	r.parameters = csi_map(call, &q->base, "parameters");
	r.n_mutable_parameters = q->n_mutable_parameters;
	kube_begin(WORK_OTHER);
	rc = volume_validate(self, &r, call->deadline, &call->arena, &why, err);
	if (rc < 0)
		return -1;
	if (rc == VALIDATE_DIFFERS)
		reply->message = csi_shown(call, why);
	else
		confirm_caps(call, q, &r, reply);
	return 0;
}

static int controller_expand_volume(void *self, struct rpc_call *call, const void *req,
                                    ProtobufCMessage **resp, struct err *err)
{
	const Csi__V1__ControllerExpandVolumeRequest *q = req;
	Csi__V1__ControllerExpandVolumeResponse *reply =
		CSI_REPLY(call, resp, csi__v1__controller_expand_volume_response);
	struct volume_growth r = { .volume = q->volume_id };
	struct grown_volume grown;
	struct volume_cap cap;

	if (csi_require(q->volume_id, "VolumeId", err))
		return -1;
	if (!q->capacity_range)
		return err_set(err, ERR_INVALID, "CapacityRange: field is required");
	r.required = q->capacity_range->required_bytes;
	r.limit = q->capacity_range->limit_bytes;
	if (q->volume_capability) {
		if (volume_cap_shape_from_csi(q->volume_capability, "VolumeCapability",
		                              &call->arena, &cap, err))
			return -1;
		r.cap = &cap;
	}
	kube_begin(0);
	if (volume_expand(self, &r, call->deadline, &grown, err))
		return -1;
	reply->capacity_bytes = grown.capacity;
	reply->node_expansion_required = grown.node_grows;
	return 0;
}

static const Csi__V1__ControllerServiceCapability__RPC__Type capabilities[] = {
	CSI__V1__CONTROLLER_SERVICE_CAPABILITY__RPC__TYPE__CREATE_DELETE_VOLUME,
	CSI__V1__CONTROLLER_SERVICE_CAPABILITY__RPC__TYPE__PUBLISH_UNPUBLISH_VOLUME,
	/* The node enforces SINGLE_NODE_SINGLE_WRITER (node/stage/publish.c). */
	CSI__V1__CONTROLLER_SERVICE_CAPABILITY__RPC__TYPE__SINGLE_NODE_MULTI_WRITER,
	CSI__V1__CONTROLLER_SERVICE_CAPABILITY__RPC__TYPE__LIST_VOLUMES,
	CSI__V1__CONTROLLER_SERVICE_CAPABILITY__RPC__TYPE__LIST_VOLUMES_PUBLISHED_NODES,
	CSI__V1__CONTROLLER_SERVICE_CAPABILITY__RPC__TYPE__GET_VOLUME,
	CSI__V1__CONTROLLER_SERVICE_CAPABILITY__RPC__TYPE__GET_VOLUME_HEALTH,
};

static void add_capability(struct rpc_call *call, Csi__V1__ControllerGetCapabilitiesResponse *reply,
                           Csi__V1__ControllerServiceCapability__RPC__Type type)
{
	Csi__V1__ControllerServiceCapability *cap =
		RPC_NEW(call, csi__v1__controller_service_capability);

	cap->type_case = CSI__V1__CONTROLLER_SERVICE_CAPABILITY__TYPE_RPC;
	cap->rpc = RPC_NEW(call, csi__v1__controller_service_capability__rpc);
	cap->rpc->type = type;
	reply->capabilities[reply->n_capabilities++] = cap;
}

static int get_controller_capabilities(void *self, struct rpc_call *call, const void *req,
                                       ProtobufCMessage **resp, struct err *err)
{
	Csi__V1__ControllerGetCapabilitiesResponse *reply =
		CSI_REPLY(call, resp, csi__v1__controller_get_capabilities_response);

	(void)req;
	(void)err;
	reply->capabilities = arena_alloc(&call->arena, (ARRAY_LEN(capabilities) + 1) *
	                                                        sizeof(*reply->capabilities));
	for (size_t i = 0; i < ARRAY_LEN(capabilities); i++)
		add_capability(call, reply, capabilities[i]);
	if (controller_expands(self, call->deadline))
		add_capability(call, reply,
		               CSI__V1__CONTROLLER_SERVICE_CAPABILITY__RPC__TYPE__EXPAND_VOLUME);
	return 0;
}

/* ---- the table ---- */

/*
 * Calls that change nothing take no lock. ControllerGetCapabilities may send a request to the API
 * server, so it does not run on the poller.
 */
static const struct rpc_method controller_methods[] = {
	{ .name = "CreateVolume", .handler = create_volume, .key = create_key },
	{ .name = "DeleteVolume", .handler = delete_volume, .key = csi_volume_id },
	{ .name = "ControllerPublishVolume",
	  .handler = controller_publish_volume,
	  .key = csi_volume_id },
	{ .name = "ControllerUnpublishVolume",
	  .handler = controller_unpublish_volume,
	  .key = csi_volume_id },
	{ .name = "ValidateVolumeCapabilities", .handler = validate_volume },
	{ .name = "ControllerExpandVolume",
	  .handler = controller_expand_volume,
	  .key = csi_volume_id },
	{ .name = "ListVolumes", .handler = csi_list_volumes, .quiet = true },
	{ .name = "ControllerGetVolume", .handler = csi_get_volume },
	{ .name = "ControllerGetVolumeHealth", .handler = csi_get_volume_health },
	{ .name = "ControllerGetCapabilities",
	  .handler = get_controller_capabilities,
	  .quiet = true },
};

struct rpc_service controller_service(struct controller *controller, struct keylock *locks)
{
	return (struct rpc_service) {
		.descriptor = &csi__v1__controller__descriptor,
		.methods = controller_methods,
		.n_methods = ARRAY_LEN(controller_methods),
		.self = controller,
		.locks = locks,
	};
}
