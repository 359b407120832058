/* SPDX-License-Identifier: Apache-2.0 */
/* Converts messages of the control interface to plain values and back. Decides nothing. */
#include "node/gate/control_csi.h"

#include "csi/sriovdp_control.pb-c.h"

#include "rpc/rpc_stream.h"

#define STATE(name_) SRIOVDP__CONTROL__V1__DEVICE_PLUGIN_STATUS__STATE__##name_

void control_notify(void *stream, const struct gate_status *status)
{
	static const Sriovdp__Control__V1__DevicePluginStatus__State states[GATE_STATES] = {
		[GATE_CLOSED] = STATE(UNKNOWN),   [GATE_PREPARING] = STATE(INITIALIZING),
		[GATE_OPEN] = STATE(SERVING),     [GATE_FAILED] = STATE(ERROR),
		[GATE_STOPPED] = STATE(STOPPING),
	};
	Sriovdp__Control__V1__DevicePluginStatus m =
		SRIOVDP__CONTROL__V1__DEVICE_PLUGIN_STATUS__INIT;

	m.state = states[status->state];
	m.resource_pool_count = (int32_t)status->pools;
	m.device_count = (int32_t)status->devices;
	m.serving_generation = status->generation;
	m.error_message = (char *)status->text;
	rpc_stream_send(stream, &m.base);
}

void control_end(void *stream, const struct err *err)
{
	rpc_stream_end(stream, err);
}

static int enable_devices(void *self, struct rpc_stream *stream, const void *req, struct err *err)
{
	const Sriovdp__Control__V1__EnableDevicesRequest *q = req;

	return gatekeeper_enable(self, stream, q->node_name, q->node_state_generation, err);
}

static void left(void *self, struct rpc_stream *stream)
{
	gatekeeper_left(self, stream);
}

static const struct rpc_method methods[] = {
	{ .name = "EnableDevices", .opened = enable_devices, .closed = left },
};

struct rpc_service control_service(struct gatekeeper *g)
{
	return (struct rpc_service) {
		.descriptor = &sriovdp__control__v1__control_service__descriptor,
		.methods = methods,
		.n_methods = ARRAY_LEN(methods),
		.self = g,
	};
}
