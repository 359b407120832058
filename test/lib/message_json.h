/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON <-> any protobuf-c message, by its descriptor, similar to proto3's JSON mapping: members
 * have the names of the .proto, maps are objects, enums are names, wrappers are plain values.
 * Reading accepts typed input leniently: text for a number or a boolean, a single value for a list
 * of one.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "common/err.h"
#include "common/json.h"
#include "common/mem.h"

/*
 * Creates a message of descriptor `d` from a JSON object, all in the arena's memory. An unknown
 * member is an error that lists the known ones.
 */
int message_from_json(const ProtobufCMessageDescriptor *d, const struct json *j,
                      struct arena *arena, ProtobufCMessage **ret, struct err *err) MUST_CHECK;
/* The fields that are set, as an object; a new root. */
struct json *message_to_json(const ProtobufCMessage *m);
