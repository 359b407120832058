/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RPC handlers that report volumes and change nothing. They convert messages to plain structs
 * and back. None of them takes a volume's lock.
 */
#include "controller/list_csi.h"

#include "csi/csi.pb-c.h"

#include "common/limits.h"
#include "controller/volume_health.h"
#include "controller/volume_list.h"
#include "rpc/csi_wire.h"
#include "volume/topology.h"

/* after a page that was too large, the number of volumes is divided by this */
#define SMALLER 4

void csi_set_volume_topology(const struct controller *c, struct rpc_call *call,
                             Csi__V1__Volume *volume)
{
	if (!c->topology_key)
		return;
	volume->accessible_topology =
		arena_alloc(&call->arena, sizeof(*volume->accessible_topology));
	volume->accessible_topology[volume->n_accessible_topology++] =
		csi_topology(call, c->topology_key, TOPOLOGY_VALUE);
}

static Csi__V1__Volume *csi_listed_volume(const struct controller *c, struct rpc_call *call,
                                          const struct listed_volume *v)
{
	Csi__V1__Volume *r = RPC_NEW(call, csi__v1__volume);

	r->volume_id = (char *)v->id;
	r->capacity_bytes = v->capacity;
	csi_set_map(call, &r->base, "volume_context", &v->context);
	csi_set_volume_topology(c, call, r);
	return r;
}

static Csi__V1__ListVolumesResponse__Entry *csi_list_entry(const struct controller *c,
                                                           struct rpc_call *call,
                                                           const struct listed_volume *v)
{
	Csi__V1__ListVolumesResponse__Entry *r =
		RPC_NEW(call, csi__v1__list_volumes_response__entry);

	r->volume = csi_listed_volume(c, call, v);
	r->status = RPC_NEW(call, csi__v1__list_volumes_response__volume_status);
	r->status->published_node_ids = (char **)v->nodes;
	r->status->n_published_node_ids = v->n_nodes;
	return r;
}

static int fill_page(void *self, struct rpc_call *call, size_t most, const char *token,
                     Csi__V1__ListVolumesResponse *reply, struct err *err)
{
	struct volume_page page;

	if (volume_list(self, most, token, call->deadline, &call->arena, &page, err))
		return -1;
	reply->entries = arena_alloc(&call->arena, (page.n + 1) * sizeof(*reply->entries));
	reply->n_entries = 0;
	for (size_t i = 0; i < page.n; i++)
		reply->entries[reply->n_entries++] = csi_list_entry(self, call, &page.v[i]);
	reply->next_token = (char *)page.next;
	return 0;
}

/*
 * If a page is too large, because its volumes have long contexts or many nodes, a page with fewer
 * volumes is requested.
 */
int csi_list_volumes(void *self, struct rpc_call *call, const void *req, ProtobufCMessage **resp,
                     struct err *err)
{
	const Csi__V1__ListVolumesRequest *q = req;
	Csi__V1__ListVolumesResponse *reply = CSI_REPLY(call, resp, csi__v1__list_volumes_response);
	size_t most = (size_t)q->max_entries;

	if (q->max_entries < 0)
		return err_set(err, ERR_INVALID, "MaxEntries: %d is negative", q->max_entries);
	do {
		if (fill_page(self, call, most, q->starting_token, reply, err))
			return -1;
		most = reply->n_entries > SMALLER ? reply->n_entries / SMALLER : 1;
	} while (reply->n_entries > 1 &&
	         protobuf_c_message_get_packed_size(&reply->base) > LIMIT_RPC_REPLY);
	return 0;
}

int csi_get_volume(void *self, struct rpc_call *call, const void *req, ProtobufCMessage **resp,
                   struct err *err)
{
	const Csi__V1__ControllerGetVolumeRequest *q = req;
	Csi__V1__ControllerGetVolumeResponse *reply =
		CSI_REPLY(call, resp, csi__v1__controller_get_volume_response);
	struct listed_volume v;

	if (csi_require(q->volume_id, "VolumeId", err) ||
	    volume_get(self, q->volume_id, call->deadline, &call->arena, &v, err))
		return -1;
	reply->volume = csi_listed_volume(self, call, &v);
	reply->status = RPC_NEW(call, csi__v1__controller_get_volume_response__volume_status);
	reply->status->published_node_ids = (char **)v.nodes;
	reply->status->n_published_node_ids = v.n_nodes;
	return 0;
}

/* Secrets are not read. */
int csi_get_volume_health(void *self, struct rpc_call *call, const void *req,
                          ProtobufCMessage **resp, struct err *err)
{
	const Csi__V1__ControllerGetVolumeHealthRequest *q = req;
	Csi__V1__ControllerGetVolumeHealthResponse *reply =
		CSI_REPLY(call, resp, csi__v1__controller_get_volume_health_response);
	Csi__V1__VolumeHealth *r = RPC_NEW(call, csi__v1__volume_health);
	struct volume_health h;

	if (csi_require(q->volume_id, "VolumeId", err) ||
	    volume_health(self, q->volume_id, call->deadline, &call->arena, &h, err))
		return -1;
	reply->volume_health = r;
	r->volume_id = q->volume_id;
	r->health_statuses = arena_alloc(&call->arena, (h.n + 1) * sizeof(*r->health_statuses));
	for (size_t i = 0; i < h.n; i++) {
		Csi__V1__VolumeHealth__VolumeHealthEntry *e =
			RPC_NEW(call, csi__v1__volume_health__volume_health_entry);

		e->status = (Csi__V1__VolumeHealthErrorType)h.v[i].status;
		e->reason = (char *)h.v[i].reason;
		e->message = csi_health_message(call, h.v[i].message);
		r->health_statuses[r->n_health_statuses++] = e;
	}
	return 0;
}
