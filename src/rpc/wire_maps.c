/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cleans up maps after unpacking. protobuf-c keeps every entry that was sent, but in protobuf the
 * last entry of a key counts. A handler must not see two entries of one key, because it could check
 * the first and use the second. Unknown fields are removed in the same way. Works in place on the
 * unpacked message; removed entries stay in the arena, unreachable, so their values are overwritten.
 */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "rpc/wire_check.h"

/* The common start of every generated map entry. */
struct entry {
	ProtobufCMessage base;
	char *key;
	char *value;
};

/* An entry and its position among those that were sent. */
struct ranked {
	struct entry *entry;
	size_t rank;
};

static int by_key_then_rank(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	int c = strcmp(x->entry->key, y->entry->key);

	return c ? c : (x->rank > y->rank) - (x->rank < y->rank);
}

static void forget_value(struct entry *e)
{
	explicit_bzero(e->value, strlen(e->value));
}

static void wire_maps_settle(struct entry **entries, size_t *n)
{
	struct ranked *sorted;
	size_t kept = 0;

	if (*n < 2)
		return;
	sorted = xcalloc(*n, sizeof(*sorted));
	for (size_t i = 0; i < *n; i++)
		sorted[i] = (struct ranked) { entries[i], i };
	qsort(sorted, *n, sizeof(*sorted), by_key_then_rank);
	for (size_t i = 0; i + 1 < *n; i++)
		if (strcmp(sorted[i].entry->key, sorted[i + 1].entry->key) == 0) {
			forget_value(sorted[i].entry);
			entries[sorted[i].rank] = NULL;
		}
	free(sorted);
	for (size_t i = 0; i < *n; i++)
		if (entries[i])
			entries[kept++] = entries[i];
	*n = kept;
}

static void settle_field(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	char *base = (char *)message;
	void *member = base + field->offset;
	size_t *n = (void *)(base + field->quantifier_offset);
	const uint32_t *oneof_case = (const void *)(base + field->quantifier_offset);
	ProtobufCMessage **one = member;

	if (wire_is_map(field)) {
		wire_maps_settle(*(struct entry ***)member, n);
	} else if (field->label == PROTOBUF_C_LABEL_REPEATED) {
		for (size_t i = 0; i < *n; i++)
			wire_settle((*(ProtobufCMessage ***)member)[i]);
	} else if (!(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) || *oneof_case == field->id) {
		if (*one)
			wire_settle(*one);
	}
}

void wire_settle(ProtobufCMessage *message)
{
	message->n_unknown_fields = 0;
	message->unknown_fields = NULL;
	for (unsigned i = 0; i < message->descriptor->n_fields; i++)
		if (message->descriptor->fields[i].type == PROTOBUF_C_TYPE_MESSAGE)
			settle_field(message, &message->descriptor->fields[i]);
}

/* All secrets of CSI are maps of a request, not of its nested messages. */
void wire_forget_secrets(const ProtobufCMessage *message)
{
	const char *base = (const char *)message;

	for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &message->descriptor->fields[i];
		struct entry *const *entries;
		size_t n;

		if (!wire_is_secret(f) || !wire_is_map(f))
			continue;
		entries = *(struct entry *const *const *)(base + f->offset);
		n = *(const size_t *)(base + f->quantifier_offset);
		for (size_t k = 0; k < n; k++)
			forget_value(entries[k]);
	}
}
