/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that are only possible on the bytes of a message, because protobuf-c cuts a string at an
 * embedded NUL ("pvc-1\0x" would arrive as "pvc-1"), does not check UTF-8 and has no limits. Ids,
 * paths and flags are written to line-based records, URLs and mount tables, so no string may have a
 * control character. Maps are exempt, because the code that reads a map checks the values that it
 * uses.
 *
 * Pure functions over generated descriptors; any thread.
 */
#pragma once

#include <stdbool.h>

#include <protobuf-c/protobuf-c.h>

#include "common/err.h"

enum {
	/* some fields are not in the descriptors; they are from a newer CSI version */
	WIRE_HAS_UNKNOWN = 1,
};

/*
 * Checks the bytes of one message of type `d`. Returns 0, WIRE_HAS_UNKNOWN, or -1. INVALID_ARGUMENT
 * names the field by its path ("volume_capabilities[1].mount.fs_type", volume_context["k"]) and
 * contains neither a value nor a key of a secrets map. The check is stricter than protobuf in one
 * point: a message field that is not repeated must not be sent twice.
 */
int wire_check(const ProtobufCMessageDescriptor *d, const uint8_t *in, size_t n, struct err *err)
	MUST_CHECK;
/*
 * Returns true if this field is a map<string, string>. (protobuf-c represents it as a repeated
 * message of key and value.)
 */
bool wire_is_map(const ProtobufCFieldDescriptor *field);
/*
 * Returns true for a map whose keys and values must not be in logs and errors (csi_secret in CSI).
 */
bool wire_is_secret(const ProtobufCFieldDescriptor *field);
/*
 * Removes, in the unpacked message and all nested ones, each map entry that a later entry with the
 * same key overrides (in protobuf the last one counts). The order of the remaining entries is kept.
 * Unknown fields are also removed. Removed entries are not freed.
 */
void wire_settle(ProtobufCMessage *message);
/* Overwrites the values of the secrets in the unpacked message with zeros; all are then "". */
void wire_forget_secrets(const ProtobufCMessage *message);
