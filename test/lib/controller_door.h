/* SPDX-License-Identifier: Apache-2.0 */
/* Calls the controller's methods as gRPC would: JSON to bytes, rpc_dispatch(), bytes to JSON. */
#pragma once

#include "common/json.h"
#include "common/keylock.h"
#include "controller/controller.h"

/*
 * Calls a method of the Controller service ("CreateVolume") with a deadline of a minute. On
 * success returns 0 and sets *ret (may be NULL) to the reply, which the caller frees; on failure
 * returns -1 and sets err. An unknown method and a request that does not fit it fail the test.
 */
int door_call(struct controller *c, struct keylock *locks, const char *method,
              const struct json *request, struct json **ret, struct err *err);
