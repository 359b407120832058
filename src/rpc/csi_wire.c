/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accesses the fields of CSI messages by their names in the .proto, through protobuf-c's
 * descriptors. So one function serves every message type, without naming its generated type. A
 * field that the message does not have is a bug in this program, so it is asserted.
 */
#include "rpc/csi_wire.h"

#include <assert.h>
#include <string.h>

#include "common/limits.h"
#include "common/str.h"
#include "rpc/wire_check.h"

void *csi_reply(struct rpc_call *call, ProtobufCMessage **resp,
                const ProtobufCMessageDescriptor *type)
{
	*resp = rpc_new_message(call, type);
	return *resp;
}

int csi_require(const char *value, const char *field, struct err *err)
{
	if (!str_empty(value))
		return 0;
	return err_set(err, ERR_INVALID, "%s: field is required", field);
}

static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessage *message, const char *name)
{
	const ProtobufCFieldDescriptor *field =
		protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);

	assert(field);
	return field;
}

static const ProtobufCFieldDescriptor *map_field_of(const ProtobufCMessage *message,
                                                    const char *name)
{
	const ProtobufCFieldDescriptor *field = field_of(message, name);

	assert(wire_is_map(field));
	return field;
}

static const void *at(const ProtobufCMessage *message, unsigned offset)
{
	return (const char *)message + offset;
}

static void *writable_at(ProtobufCMessage *message, unsigned offset)
{
	return (char *)message + offset;
}

/* The descriptor of a map entry has two fields, in the order of their numbers. */
enum { KEY, VALUE };

static const char *entry_text(const ProtobufCMessage *entry, unsigned which)
{
	return *(char *const *)at(entry, entry->descriptor->fields[which].offset);
}

static void set_entry_text(ProtobufCMessage *entry, unsigned which, const char *text)
{
	*(char **)writable_at(entry, entry->descriptor->fields[which].offset) = (char *)text;
}

struct kvs csi_map(struct rpc_call *call, const ProtobufCMessage *message, const char *field)
{
	const ProtobufCFieldDescriptor *f = map_field_of(message, field);
	const ProtobufCMessage *const *entries =
		*(const ProtobufCMessage *const *const *)at(message, f->offset);
	size_t n = *(const size_t *)at(message, f->quantifier_offset);
	struct kv *list = arena_alloc(&call->arena, (n + 1) * sizeof(*list));

	for (size_t i = 0; i < n; i++)
		list[i] =
			(struct kv) { entry_text(entries[i], KEY), entry_text(entries[i], VALUE) };
	return (struct kvs) { list, n };
}

void csi_set_map(struct rpc_call *call, ProtobufCMessage *message, const char *field,
                 const struct kvs *map)
{
	const ProtobufCFieldDescriptor *f = map_field_of(message, field);
	ProtobufCMessage **entries = arena_alloc(&call->arena, (map->n + 1) * sizeof(*entries));

	for (size_t i = 0; i < map->n; i++) {
		entries[i] = rpc_new_message(call, f->descriptor);
		set_entry_text(entries[i], KEY, map->v[i].key);
		set_entry_text(entries[i], VALUE, map->v[i].value);
	}
	*(ProtobufCMessage ***)writable_at(message, f->offset) = entries;
	*(size_t *)writable_at(message, f->quantifier_offset) = map->n;
}

Csi__V1__Topology *csi_topology(struct rpc_call *call, const char *key, const char *value)
{
	const struct kv segment = { key, value };
	const struct kvs segments = { &segment, 1 };
	Csi__V1__Topology *topology = RPC_NEW(call, csi__v1__topology);

	csi_set_map(call, &topology->base, "segments", &segments);
	return topology;
}

const char *csi_volume_id(struct rpc_call *call, const void *request)
{
	const ProtobufCFieldDescriptor *f = field_of(request, "volume_id");

	(void)call;
	assert(f->type == PROTOBUF_C_TYPE_STRING && f->label != PROTOBUF_C_LABEL_REPEATED);
	return *(char *const *)at(request, f->offset);
}

char *csi_shown(struct rpc_call *call, const char *text)
{
	struct str shown AUTO(str_clear) = STR_INIT(SHOWN_BYTES_MAX * ERR_MSG_MAX);

	str_add_shown(&shown, text);
	return arena_strdup(&call->arena, shown.ptr);
}

char *csi_health_message(struct rpc_call *call, const char *text)
{
	char *shown = csi_shown(call, text);
	size_t n = strlen(shown), at = 0;

	if (n <= LIMIT_HEALTH_MESSAGE)
		return shown;
	/* Do not cut within a character. */
	while (at + utf8_length(shown + at, n - at) <= LIMIT_HEALTH_MESSAGE)
		at += utf8_length(shown + at, n - at);
	shown[at] = '\0';
	return shown;
}
