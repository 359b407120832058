/* SPDX-License-Identifier: Apache-2.0 */
/* The controller's methods called as gRPC would: JSON to bytes, rpc_dispatch(), bytes to JSON. */
#pragma once

#include "common/json.h"
#include "common/keylock.h"
#include "controller/controller.h"

/*
 * Calls a method of the Controller service ("CreateVolume") with a deadline of a minute. Returns 0
 * and in *ret (may be NULL) the reply, a new root; or -1. A method or a request that does not exist
 * fails the test.
 */
int door_call(struct controller *c, struct keylock *locks, const char *method,
              const struct json *request, struct json **ret, struct err *err);
