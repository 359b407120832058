/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that are only possible while a message is still bytes: protobuf-c cuts a string at an
 * embedded NUL ("pvc-1\0x" would arrive as "pvc-1"), does not check UTF-8 and has no limits.
 *
 * Pure functions over generated descriptors; any thread.
 */
#pragma once

#include <stdbool.h>

#include <protobuf-c/protobuf-c.h>

#include "common/err.h"

enum {
	WIRE_HAS_UNKNOWN = 1, /* some of the fields are not in the descriptors: of a newer CSI */
};

/*
 * Checks the bytes of one message of type `d`: 0 or WIRE_HAS_UNKNOWN. INVALID_ARGUMENT names the
 * field by its path ("volume_capabilities[1].mount.fs_type", volume_context["k"]) and shows neither
 * a value nor a key of a secrets map. It is stricter than protobuf in one point: a message field
 * that is not repeated must not be sent twice.
 */
int wire_check(const ProtobufCMessageDescriptor *d, const uint8_t *in, size_t n, struct err *err)
	MUST_CHECK;
/*
 * Is this field a map<string, string>? (protobuf-c makes it a repeated message of key and value.)
 */
bool wire_is_map(const ProtobufCFieldDescriptor *field);
/* Is it a map whose keys and values must not be in logs and errors (csi_secret in CSI)? */
bool wire_is_secret(const ProtobufCFieldDescriptor *field);
/*
 * Removes, in the unpacked message and all below it, each map entry that is followed by one with
 * the same key: protobuf says that the last one counts. The order of the others is kept. Unknown
 * fields are removed, too. What is removed is not freed.
 */
void wire_settle(ProtobufCMessage *message);
