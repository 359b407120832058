/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has to be looked at while a message is still bytes: protobuf-c cuts a string at an embedded
 * NUL ("pvc-1\0x" would arrive as "pvc-1"), takes any bytes for UTF-8 and knows no limits.
 *
 * Pure functions over generated descriptors; any thread.
 */
#pragma once

#include <stdbool.h>

#include <protobuf-c/protobuf-c.h>

#include "common/err.h"

/*
 * Walks the bytes of one message of type `d`. INVALID_ARGUMENT names the field by its path
 * ("volume_capabilities[1].mount.fs_type", volume_context["k"]) and never shows a value, nor a key
 * of a secrets map. Stricter than protobuf in one point: a message field that is not repeated must
 * not be sent twice.
 */
int wire_check(const ProtobufCMessageDescriptor *d, const uint8_t *in, size_t n, struct err *err)
	MUST_CHECK;
/*
 * Is this field a map<string, string>? (protobuf-c makes it a repeated message of key and value.)
 */
bool wire_is_map(const ProtobufCFieldDescriptor *field);
/* Is it one whose keys and values stay out of logs and errors (csi_secret in the specification)? */
bool wire_is_secret(const ProtobufCFieldDescriptor *field);
/*
 * In the unpacked message and all below it: of map entries with one key the last stays, as protobuf
 * has it. Order is kept otherwise.
 */
void wire_settle_maps(ProtobufCMessage *message);
