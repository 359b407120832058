/* SPDX-License-Identifier: Apache-2.0 */
/* A call of the controller without a socket; see controller_door.h. Owns nothing. */
#include "test/lib/controller_door.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "csi/csi.pb-c.h"

#include "rpc/rpc.h"
#include "controller/controller_csi.h"
#include "test/lib/message_json.h"
#include "test/lib/wait.h"

int door_call(struct controller *c, struct keylock *locks, const char *method,
              const struct json *request, struct json **ret, struct err *err)
{
	struct rpc_service service = controller_service(c, locks);
	const struct rpc_service *found = NULL;
	const struct rpc_method *m;
	const ProtobufCMethodDescriptor *d;
	ProtobufCMessage *message = NULL, *reply;
	struct rpc_call call;
	uint8_t *in, *out = NULL;
	size_t n_in, n_out = 0;
	char path[100];
	int rc;

	snprintf(path, sizeof(path), "/csi.v1.Controller/%s", method);
	m = rpc_find(&service, 1, path, strlen(path), &found);
	ck_assert_msg(m && found, "%s: no such method", method);
	d = protobuf_c_service_descriptor_get_method_by_name(service.descriptor, method);
	rpc_call_init(&call, m->name);
	call.deadline = deadline_clamp(call.deadline, WAIT_LIMIT_MS);
	rc = message_from_json(d->input, request, &call.arena, &message, err);
	ck_assert_msg(rc == 0, "%s", err->msg);
	n_in = protobuf_c_message_get_packed_size(message);
	in = malloc(n_in + 1);
	protobuf_c_message_pack(message, in);
	rc = rpc_dispatch(found, m, &call, in, n_in, &out, &n_out, err);
	if (rc == 0 && ret) {
		reply = protobuf_c_message_unpack(d->output, NULL, n_out, out);
		ck_assert_ptr_nonnull(reply);
		*ret = message_to_json(reply);
		protobuf_c_message_free_unpacked(reply, NULL);
	}
	free(in);
	free(out);
	rpc_call_clear(&call);
	return rc;
}
