/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log line of a call. It is built by descriptor, so a new method is logged without new code,
 * and a new field is not logged until the list has it. Runs on the thread that ends the call,
 * before the answer is sent, so the line exists when the caller receives the answer.
 */
#include "rpc/rpc_log.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "common/log.h"
#include "common/str.h"
#include "rpc/wire_check.h"

#define FIELDS_VERBOSITY 4
#define QUIET_VERBOSITY 5
#define KEYS_MAX 1000 /* maximum size in bytes of the keys of one map */
#define PAIRS_MAX (RPC_ABOUT_MAX + 8)

/* The logged strings, their names in the log, and the verbosity from which they are logged. */
static const struct {
	const char *field, *as;
	int verbosity;
} allowed[] = {
	{ "volume_id", "volume", 0 },
	{ "name", "name", 0 },
	{ "node_id", "node", 0 },
	{ "staging_target_path", "staging", 0 },
	{ "target_path", "target", 0 },
	{ "volume_path", "path", 0 },
	{ "volume_publish_path", "path", 0 },
	{ "source_volume_id", "source_volume", 0 },
	{ "snapshot_id", "snapshot", 0 },
	{ "fs_type", NULL, FIELDS_VERBOSITY },
};

/* The path of a message inside the request: "volume_capability.access_mode." */
struct prefix {
	const struct prefix *up;
	const char *name;
};

static void add_prefix(struct str *s, const struct prefix *p)
{
	if (!p)
		return;
	add_prefix(s, p->up);
	str_addf(s, "%s.", p->name);
}

static void rpc_log_add_pair(struct rpc_call *call, const struct prefix *prefix,
                             struct log_pair pair)
{
	struct str path AUTO(str_clear) = STR_INIT(200);

	if (call->n_about == RPC_ABOUT_MAX)
		return;
	if (prefix) {
		add_prefix(&path, prefix);
		str_add(&path, pair.key);
		pair.key = arena_strdup(&call->arena, path.ptr);
	}
	call->about[call->n_about++] = pair;
}

static void add(struct rpc_call *call, const struct prefix *prefix, const char *key,
                const char *value)
{
	rpc_log_add_pair(call, prefix, log_text(key, value));
}

static void add_string(struct rpc_call *call, const struct prefix *prefix, const char *name,
                       const char *value)
{
	for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
		if (str_eq(allowed[i].field, name) && log_verbosity() >= allowed[i].verbosity)
			add(call, prefix, allowed[i].as ? allowed[i].as : name, value);
}

static void add_map_keys(struct rpc_call *call, const struct prefix *prefix, const char *name,
                         ProtobufCMessage **entries, size_t n)
{
	struct str keys AUTO(str_clear) = STR_INIT(KEYS_MAX);

	for (size_t i = 0; i < n; i++) {
		const ProtobufCFieldDescriptor *key = &entries[i]->descriptor->fields[0];

		str_addf(&keys, "%s%s", i ? "," : "",
		         *(const char *const *)((const char *)entries[i] + key->offset));
	}
	if (n)
		add(call, prefix, name, arena_strdup(&call->arena, keys.ptr));
}

static void add_message(struct rpc_call *call, const struct prefix *prefix,
                        const ProtobufCMessage *message);

static void add_submessage(struct rpc_call *call, const struct prefix *prefix, const char *name,
                           const ProtobufCMessage *message)
{
	struct prefix below = { prefix, name };
	size_t before = call->n_about;

	add_message(call, &below, message);
	if (call->n_about == before)
		/* an empty message: only its presence is information */
		add(call, prefix, name, "set");
}

static void rpc_log_add_number(struct rpc_call *call, const struct prefix *prefix,
                               const ProtobufCFieldDescriptor *field, const void *member)
{
	int64_t v;

	switch ((int)field->type) {
	case PROTOBUF_C_TYPE_BOOL:
		if (*(const protobuf_c_boolean *)member)
			rpc_log_add_pair(call, prefix, log_number(field->name, "true"));
		return;
	case PROTOBUF_C_TYPE_INT64:
		v = *(const int64_t *)member;
		break;
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_ENUM:
		v = *(const int32_t *)member;
		break;
	default: /* CSI's requests have no other types */
		return;
	}
	if (field->type == PROTOBUF_C_TYPE_ENUM) {
		const ProtobufCEnumValue *name =
			protobuf_c_enum_descriptor_get_value(field->descriptor, (int)v);

		if (name) {
			if (v)
				add(call, prefix, field->name, name->name);
			return;
		}
	}
	if (v)
		rpc_log_add_pair(
			call, prefix,
			log_number(field->name, arena_printf(&call->arena, "%" PRId64, v)));
}

static void add_repeated(struct rpc_call *call, const struct prefix *prefix,
                         const ProtobufCFieldDescriptor *field, const void *member, size_t n)
{
	ProtobufCMessage **messages = *(ProtobufCMessage * *const *)member;

	if (field->type != PROTOBUF_C_TYPE_MESSAGE)
		return;
	if (wire_is_map(field)) {
		add_map_keys(call, prefix, field->name, messages, n);
		return;
	}
	for (size_t i = 0; i < n && call->n_about < RPC_ABOUT_MAX; i++)
		add_submessage(call, prefix, arena_printf(&call->arena, "%s[%zu]", field->name, i),
		               messages[i]);
}

static void rpc_log_add_field(struct rpc_call *call, const struct prefix *prefix,
                              const ProtobufCMessage *message,
                              const ProtobufCFieldDescriptor *field)
{
	const char *base = (const char *)message;
	const void *member = base + field->offset, *quantifier = base + field->quantifier_offset;
	const char *text;

	if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
	    *(const uint32_t *)quantifier != field->id)
		return;
	if (field->type == PROTOBUF_C_TYPE_STRING && field->label != PROTOBUF_C_LABEL_REPEATED) {
		text = *(const char *const *)member;
		if (!str_empty(text))
			add_string(call, prefix, field->name, text);
		return;
	}
	if (log_verbosity() < FIELDS_VERBOSITY || wire_is_secret(field))
		return;
	if (field->label == PROTOBUF_C_LABEL_REPEATED)
		add_repeated(call, prefix, field, member, *(const size_t *)quantifier);
	else if (field->type != PROTOBUF_C_TYPE_MESSAGE)
		rpc_log_add_number(call, prefix, field, member);
	else if (*(const ProtobufCMessage *const *)member)
		add_submessage(call, prefix, field->name, *(const ProtobufCMessage *const *)member);
}

static void add_message(struct rpc_call *call, const struct prefix *prefix,
                        const ProtobufCMessage *message)
{
	for (unsigned i = 0; i < message->descriptor->n_fields; i++)
		rpc_log_add_field(call, prefix, message, &message->descriptor->fields[i]);
}

void rpc_log_request(struct rpc_call *call, const ProtobufCMessage *req)
{
	call->n_about = 0;
	add_message(call, NULL, req);
}

const char *rpc_log_volume(const struct rpc_call *call)
{
	for (size_t i = 0; i < call->n_about; i++)
		if (str_eq(call->about[i].key, "volume") || str_eq(call->about[i].key, "name"))
			return call->about[i].value;
	return NULL;
}

/* ---- the line ---- */

/*
 * Returns ERROR for a fault of the driver, and WARNING if the caller or the operator can remove the
 * cause.
 */
static enum log_level level_of(const struct err *err)
{
	if (!err)
		return LOG_INFO;
	return err->code == ERR_INTERNAL || err->code == ERR_UNKNOWN || err->code == ERR_DATA_LOSS
	               ? LOG_ERROR
	               : LOG_WARNING;
}

void rpc_log_call(struct rpc_call *call, const struct rpc_method *method, const struct err *err)
{
	struct log_pair pairs[PAIRS_MAX];
	char ms[32], id[32], pid[32];
	size_t n = 0;

	assert(call->n_about <= RPC_ABOUT_MAX);
	if (!err && log_verbosity() < (method && method->quiet ? QUIET_VERBOSITY : 2))
		return;
	snprintf(id, sizeof(id), "%" PRIu64, call->id);
	snprintf(pid, sizeof(pid), "%d", call->peer_pid);
	if (!method)
		pairs[n++] = log_text("method", call->method);
	pairs[n++] = log_text("code", err_code_name(err ? err->code : ERR_OK));
	pairs[n++] = log_number("ms", log_ms(call->started, ms));
	for (size_t i = 0; i < call->n_about; i++)
		pairs[n++] = call->about[i];
	if (err)
		pairs[n++] = log_text("error", err->msg);
	if (cancel_is_set(&call->cancel))
		pairs[n++] = log_text("caller", "gone");
	if (call->peer_pid)
		pairs[n++] = log_number("pid", pid);
	pairs[n++] = log_number("call", id);
	log_pairs(level_of(err), method ? method->name : "unknown method", pairs, n);
}

void rpc_log_unread(struct rpc_call *call, const struct rpc_method *method, const struct err *err)
{
	if (log_verbosity() >= FIELDS_VERBOSITY)
		rpc_log_call(call, method, err);
}
