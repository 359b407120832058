/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to plain structs and back, and the checks for what is missing in a message, in the Go
 * plugin's order and words. No request leaves here unchecked, no generated type goes further.
 * Secrets are not read.
 */
#include "controller/controller_csi.h"

#include "csi/csi.pb-c.h"

#include "common/cleanup.h"
#include "common/str.h"
#include "volume/volume_cap_csi.h"
#include "controller/names.h"
#include "controller/publish.h"
#include "controller/validate.h"
#include "controller/volume.h"

/* A map field of a message as a list of pairs in the arena. */
#define KVS_FROM(arena_, n_, entries_)                                                          \
	__extension__({                                                                         \
		struct kv *list_ = arena_alloc((arena_), ((n_) + 1) * sizeof(*list_));          \
		for (size_t i_ = 0; i_ < (n_); i_++)                                            \
			list_[i_] = (struct kv) { (entries_)[i_]->key, (entries_)[i_]->value }; \
		(struct kvs) { list_, (n_) };                                                   \
	})

/* And back: type_ is the entry's ("csi__v1__volume__volume_context_entry"). */
#define KVS_TO(call_, map_, n_, entries_, type_)                                                  \
	do {                                                                                      \
		(entries_) = arena_alloc(&(call_)->arena, ((map_)->n + 1) * sizeof(*(entries_))); \
		for ((n_) = 0; (n_) < (map_)->n; (n_)++) {                                        \
			(entries_)[(n_)] = RPC_NEW(call_, type_);                                 \
			(entries_)[(n_)]->key = (char *)(map_)->v[(n_)].key;                      \
			(entries_)[(n_)]->value = (char *)(map_)->v[(n_)].value;                  \
		}                                                                                 \
	} while (0)

static int require(const char *value, const char *field, struct err *err)
{
	if (!str_empty(value))
		return 0;
	return err_set(err, ERR_INVALID, "%s: field is required", field);
}

typedef int cap_reader(const Csi__V1__VolumeCapability *wire, const char *field,
                       struct arena *arena, struct volume_cap *ret, struct err *err);

static int read_caps(Csi__V1__VolumeCapability **wire, size_t n, cap_reader *read,
                     struct arena *arena, struct volume_cap **ret, struct err *err)
{
	struct volume_cap *caps = arena_alloc(arena, (n + 1) * sizeof(*caps));

	if (!n)
		return err_set(err, ERR_INVALID, "VolumeCapabilities: field is required");
	for (size_t i = 0; i < n; i++)
		if (read(wire[i], arena_printf(arena, "VolumeCapabilities[%zu]", i), arena,
		         &caps[i], err))
			return -1;
	*ret = caps;
	return 0;
}

/* ---- CreateVolume, DeleteVolume ---- */

static const char *create_key(struct rpc_call *call, const void *req)
{
	const Csi__V1__CreateVolumeRequest *q = req;
	char name[OBJECT_NAME_MAX + 1];

	if (str_empty(q->name))
		return "";
	volume_object_name(q->name, name);
	return arena_strdup(&call->arena, name);
}

static int read_create(struct rpc_call *call, const Csi__V1__CreateVolumeRequest *q,
                       struct volume_request *r, struct err *err)
{
	struct volume_cap *caps;

	if (require(q->name, "Name", err) ||
	    read_caps(q->volume_capabilities, q->n_volume_capabilities, volume_cap_from_csi,
	              &call->arena, &caps, err))
		return -1;
	if (q->volume_content_source)
		return err_set(err, ERR_INVALID, "volume content source is not supported");
	if (q->n_mutable_parameters)
		return err_set(
			err, ERR_INVALID,
			"MutableParameters: volumes cannot be modified, so none are supported "
			"(VolumeAttributesClass)");
	*r = (struct volume_request) {
		.name = q->name,
		.required = q->capacity_range ? q->capacity_range->required_bytes : 0,
		.limit = q->capacity_range ? q->capacity_range->limit_bytes : 0,
		.caps = caps,
		.n_caps = q->n_volume_capabilities,
		.parameters = KVS_FROM(&call->arena, q->n_parameters, q->parameters),
	};
	return 0;
}

static int create_volume(void *self, struct rpc_call *call, const void *req,
                         ProtobufCMessage **resp, struct err *err)
{
	struct controller *c = self;
	Csi__V1__CreateVolumeResponse *out = RPC_NEW(call, csi__v1__create_volume_response);
	struct volume_request r;
	struct volume v;

	if (read_create(call, req, &r, err) || volume_request_check(c, &r, &call->arena, err) ||
	    volume_create(c, &r, call->deadline, &call->arena, &v, err))
		return -1;
	out->volume = RPC_NEW(call, csi__v1__volume);
	out->volume->volume_id = (char *)v.id;
	out->volume->capacity_bytes = v.capacity;
	KVS_TO(call, &v.context, out->volume->n_volume_context, out->volume->volume_context,
	       csi__v1__volume__volume_context_entry);
	*resp = &out->base;
	return 0;
}

static const char *delete_key(struct rpc_call *call, const void *req)
{
	(void)call;
	return ((const Csi__V1__DeleteVolumeRequest *)req)->volume_id;
}

static int delete_volume(void *self, struct rpc_call *call, const void *req,
                         ProtobufCMessage **resp, struct err *err)
{
	const Csi__V1__DeleteVolumeRequest *q = req;
	Csi__V1__DeleteVolumeResponse *out = RPC_NEW(call, csi__v1__delete_volume_response);

	if (require(q->volume_id, "VolumeID", err) ||
	    volume_delete(self, q->volume_id, call->deadline, err))
		return -1;
	*resp = &out->base;
	return 0;
}

/* ---- ControllerPublish, Unpublish ---- */

static const char *publish_key(struct rpc_call *call, const void *req)
{
	(void)call;
	return ((const Csi__V1__ControllerPublishVolumeRequest *)req)->volume_id;
}

/* `readonly` is not looked at: PUBLISH_READONLY is not advertised, the node enforces it. */
static int publish(void *self, struct rpc_call *call, const void *req, ProtobufCMessage **resp,
                   struct err *err)
{
	const Csi__V1__ControllerPublishVolumeRequest *q = req;
	Csi__V1__ControllerPublishVolumeResponse *out =
		RPC_NEW(call, csi__v1__controller_publish_volume_response);
	struct publish_request r = { .volume = q->volume_id, .node = q->node_id };
	struct kvs context;

	if (require(q->volume_id, "VolumeId", err) || require(q->node_id, "NodeId", err) ||
	    volume_cap_from_csi(q->volume_capability, "VolumeCapability", &call->arena, &r.cap,
	                        err))
		return -1;
	r.volume_context = KVS_FROM(&call->arena, q->n_volume_context, q->volume_context);
	if (publish_volume(self, &r, call->deadline, &call->arena, &context, err))
		return -1;
	KVS_TO(call, &context, out->n_publish_context, out->publish_context,
	       csi__v1__controller_publish_volume_response__publish_context_entry);
	*resp = &out->base;
	return 0;
}

static const char *unpublish_key(struct rpc_call *call, const void *req)
{
	(void)call;
	return ((const Csi__V1__ControllerUnpublishVolumeRequest *)req)->volume_id;
}

static int unpublish(void *self, struct rpc_call *call, const void *req, ProtobufCMessage **resp,
                     struct err *err)
{
	const Csi__V1__ControllerUnpublishVolumeRequest *q = req;
	Csi__V1__ControllerUnpublishVolumeResponse *out =
		RPC_NEW(call, csi__v1__controller_unpublish_volume_response);

	if (require(q->volume_id, "VolumeId", err) ||
	    unpublish_volume(self, q->volume_id, q->node_id, call->deadline, err))
		return -1;
	*resp = &out->base;
	return 0;
}

/* ---- Validate, capabilities ---- */

static void confirm(struct rpc_call *call, const Csi__V1__ValidateVolumeCapabilitiesRequest *q,
                    const struct validate_request *r,
                    Csi__V1__ValidateVolumeCapabilitiesResponse *out)
{
	Csi__V1__ValidateVolumeCapabilitiesResponse__Confirmed *ok =
		RPC_NEW(call, csi__v1__validate_volume_capabilities_response__confirmed);

	ok->n_volume_capabilities = q->n_volume_capabilities;
	ok->volume_capabilities = q->volume_capabilities;
	KVS_TO(call, &r->volume_context, ok->n_volume_context, ok->volume_context,
	       csi__v1__validate_volume_capabilities_response__confirmed__volume_context_entry);
	KVS_TO(call, &r->parameters, ok->n_parameters, ok->parameters,
	       csi__v1__validate_volume_capabilities_response__confirmed__parameters_entry);
	out->confirmed = ok;
}

static int validate(void *self, struct rpc_call *call, const void *req, ProtobufCMessage **resp,
                    struct err *err)
{
	const Csi__V1__ValidateVolumeCapabilitiesRequest *q = req;
	Csi__V1__ValidateVolumeCapabilitiesResponse *out =
		RPC_NEW(call, csi__v1__validate_volume_capabilities_response);
	struct validate_request r = { .volume = q->volume_id };
	struct volume_cap *caps;
	const char *why = NULL;
	int rc;

	if (require(q->volume_id, "VolumeId", err) ||
	    read_caps(q->volume_capabilities, q->n_volume_capabilities, volume_cap_shape_from_csi,
	              &call->arena, &caps, err))
		return -1;
	r.caps = caps;
	r.n_caps = q->n_volume_capabilities;
	r.volume_context = KVS_FROM(&call->arena, q->n_volume_context, q->volume_context);
	r.parameters = KVS_FROM(&call->arena, q->n_parameters, q->parameters);
	r.n_mutable_parameters = q->n_mutable_parameters;
	rc = validate_volume(self, &r, call->deadline, &call->arena, &why, err);
	if (rc < 0)
		return -1;
	if (rc == 0)
		confirm(call, q, &r, out);
	else
		out->message = (char *)why;
	*resp = &out->base;
	return 0;
}

static int get_capabilities(void *self, struct rpc_call *call, const void *req,
                            ProtobufCMessage **resp, struct err *err)
{
	static const Csi__V1__ControllerServiceCapability__RPC__Type types[] = {
		CSI__V1__CONTROLLER_SERVICE_CAPABILITY__RPC__TYPE__CREATE_DELETE_VOLUME,
		CSI__V1__CONTROLLER_SERVICE_CAPABILITY__RPC__TYPE__PUBLISH_UNPUBLISH_VOLUME,
		/* The node keeps a single writer single (publish.c there). */
		CSI__V1__CONTROLLER_SERVICE_CAPABILITY__RPC__TYPE__SINGLE_NODE_MULTI_WRITER,
	};
	Csi__V1__ControllerGetCapabilitiesResponse *out =
		RPC_NEW(call, csi__v1__controller_get_capabilities_response);

	(void)self;
	(void)req;
	(void)err;
	out->capabilities =
		arena_alloc(&call->arena, ARRAY_LEN(types) * sizeof(*out->capabilities));
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		Csi__V1__ControllerServiceCapability *cap =
			RPC_NEW(call, csi__v1__controller_service_capability);

		cap->type_case = CSI__V1__CONTROLLER_SERVICE_CAPABILITY__TYPE_RPC;
		cap->rpc = RPC_NEW(call, csi__v1__controller_service_capability__rpc);
		cap->rpc->type = types[i];
		out->capabilities[out->n_capabilities++] = cap;
	}
	*resp = &out->base;
	return 0;
}

/* ---- the table ---- */

static const struct rpc_method controller_methods[] = {
	{ "CreateVolume", create_volume, .key = create_key },
	{ "DeleteVolume", delete_volume, .key = delete_key },
	{ "ControllerPublishVolume", publish, .key = publish_key },
	{ "ControllerUnpublishVolume", unpublish, .key = unpublish_key },
	{ "ValidateVolumeCapabilities", validate, .key = NULL },
	{ "ControllerGetCapabilities", get_capabilities, .on_poller = true, .quiet = true },
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
