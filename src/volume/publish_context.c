/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and reads the keys of the publish context. A key of the vendor never replaces one of the
 * driver's keys, so that no value that could name another device is passed on.
 */
#include "volume/publish_context.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "common/limits.h"
#include "common/str.h"
#include "volume/context_keys.h"

/* ---- write ---- */

/* Returns true for keys that only the driver writes. */
static bool is_reserved(const char *key)
{
	static const char *const reserved[] = {
		PUBLISH_VOLUME_NAME,  PUBLISH_ATTACHMENT_NAME, PUBLISH_PCI_ADDRESS,
		PUBLISH_NVME_NSID,    PUBLISH_NVME_UUID,       PUBLISH_FUNC_VUID,
		PUBLISH_VIRTIOFS_TAG,
	};

	for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
		if (str_eq(reserved[i], key))
			return true;
	return str_has_prefix(key, DRIVER_PREFIX);
}

static void add(struct kv *list, size_t *n, const char *key, const char *value, struct arena *arena)
{
	if (!str_empty(value))
		list[(*n)++] = (struct kv) { key, arena_strdup(arena, value) };
}

static void add_number(struct kv *list, size_t *n, const char *key, uint64_t value,
                       struct arena *arena)
{
	if (value)
		list[(*n)++] = (struct kv) { key, arena_printf(arena, "%" PRIu64, value) };
}

static void add_device(struct kv *list, size_t *n, const struct publish_context *c,
                       struct arena *arena)
{
	add(list, n, PUBLISH_PCI_ADDRESS, c->pci, arena);
	if (c->emulation == EMULATION_VIRTIOFS) {
		add(list, n, PUBLISH_VIRTIOFS_TAG, c->tag, arena);
	} else {
		add_number(list, n, PUBLISH_NVME_NSID, c->nsid, arena);
		add(list, n, PUBLISH_NVME_UUID, c->uuid, arena);
	}
	add(list, n, PUBLISH_FUNC_VUID, c->vuid, arena);
}

static size_t entry_bytes(const struct kv *entry)
{
	return strlen(entry->key) + strlen(entry->value);
}

/* Returns the longest entry at or after `from`, or n. */
static size_t longest_entry(const struct kv *list, size_t from, size_t n)
{
	size_t longest = from < n ? from : n;

	for (size_t i = longest + 1; i < n; i++)
		if (entry_bytes(&list[i]) > entry_bytes(&list[longest]))
			longest = i;
	return longest;
}

/* Omits keys of the vendor, which begin at index `own`, longest first. */
static int limit_context(struct kv *list, size_t own, size_t *n, const char **ret_cut,
                         struct err *err)
{
	size_t bytes = 0, at;

	for (size_t i = 0; i < *n; i++)
		bytes += entry_bytes(&list[i]);
	while (bytes > LIMIT_FIELD_MAP) {
		at = longest_entry(list, own, *n);
		if (at == *n)
			break;
		bytes -= entry_bytes(&list[at]);
		if (!*ret_cut)
			*ret_cut = list[at].key;
		--*n;
		memmove(&list[at], &list[at + 1], (*n - at) * sizeof(*list));
	}
	if (bytes <= LIMIT_FIELD_MAP)
		return 0;
	at = longest_entry(list, 0, *n);
	return err_set(err, ERR_UNAVAILABLE,
	               "the publish context has %zu bytes, and the node accepts %d; the longest "
	               "entry is %s with %zu bytes",
	               bytes, LIMIT_FIELD_MAP, list[at].key, entry_bytes(&list[at]));
}

int publish_context_write(const struct publish_context *c, const struct kvs *vendor,
                          struct arena *arena, struct kvs *ret, const char **ret_cut,
                          struct err *err)
{
	struct kv *list = arena_alloc(arena, (11 + vendor->n) * sizeof(*list));
	size_t n = 0, own;

	assert(*c->pci && (c->emulation == EMULATION_VIRTIOFS ? *c->tag != '\0' : c->nsid > 0));
	add(list, &n, PUBLISH_VOLUME_NAME, c->volume, arena);
	add(list, &n, PUBLISH_ATTACHMENT_NAME, c->attachment, arena);
	add_device(list, &n, c, arena);
	add_number(list, &n, PUBLISH_CAPACITY, c->capacity, arena);
	add(list, &n, PUBLISH_ATTACHMENT_UID, c->attachment_uid, arena);
	add(list, &n, PUBLISH_ATTACHMENT_CREATED, c->attachment_created, arena);
	add(list, &n, PUBLISH_FORMAT_NODE, c->format_node, arena);
	own = n;
	for (size_t i = 0; i < vendor->n; i++)
		if (!is_reserved(vendor->v[i].key))
			list[n++] = vendor->v[i];
	*ret_cut = NULL;
	if (limit_context(list, own, &n, ret_cut, err))
		return -1;
	*ret = (struct kvs) { list, n };
	return 0;
}

/* ---- read ---- */

bool publish_context_given(const struct kvs *map)
{
	return !str_empty(kvs_get(map, PUBLISH_PCI_ADDRESS));
}

enum emulation publish_context_emulation(const struct kvs *map, enum emulation otherwise)
{
	bool nsid = !str_empty(kvs_get(map, PUBLISH_NVME_NSID));
	bool tag = !str_empty(kvs_get(map, PUBLISH_VIRTIOFS_TAG));

	if (nsid == tag)
		return otherwise;
	return tag ? EMULATION_VIRTIOFS : EMULATION_NVME;
}

static int read_nvme(const struct kvs *map, struct publish_context *c, struct err *err)
{
	const char *nsid = kvs_get(map, PUBLISH_NVME_NSID);
	const char *capacity = kvs_get(map, PUBLISH_CAPACITY);
	struct err ignored = ERR_INIT;

	if (str_empty(nsid))
		return err_set(err, ERR_INVALID, "PublishContext.nvmeNsID: field is required");
	if (parse_u64("", nsid, &c->nsid, &ignored) || c->nsid == 0 || c->nsid > UINT32_MAX)
		return err_set(err, ERR_INVALID,
		               "PublishContext.nvmeNsID contains invalid NVME NS ID");
	c->uuid = kvs_get_or(map, PUBLISH_NVME_UUID, "");
	if (str_empty(capacity))
		return 0;
	return parse_u64("PublishContext." PUBLISH_CAPACITY, capacity, &c->capacity, err);
}

static int read_virtiofs(const struct kvs *map, struct publish_context *c, struct err *err)
{
	c->tag = kvs_get_or(map, PUBLISH_VIRTIOFS_TAG, "");
	return *c->tag ? 0
	               : err_set(err, ERR_INVALID, "PublishContext.virtioFSTag: field is required");
}

int publish_context_read(const struct kvs *map, enum emulation expected,
                         struct publish_context *ret, struct err *err)
{
	struct publish_context c = {
		.volume = kvs_get_or(map, PUBLISH_VOLUME_NAME, ""),
		.attachment = kvs_get_or(map, PUBLISH_ATTACHMENT_NAME, ""),
		.attachment_uid = kvs_get_or(map, PUBLISH_ATTACHMENT_UID, ""),
		.attachment_created = kvs_get_or(map, PUBLISH_ATTACHMENT_CREATED, ""),
		.format_node = kvs_get_or(map, PUBLISH_FORMAT_NODE, ""),
		.pci = kvs_get_or(map, PUBLISH_PCI_ADDRESS, ""),
		.vuid = kvs_get_or(map, PUBLISH_FUNC_VUID, ""),
		.emulation = publish_context_emulation(map, expected),
		.uuid = "",
		.tag = "",
	};

	if (str_empty(c.pci))
		return err_set(err, ERR_INVALID,
		               "PublishContext.pciDeviceAddress: field is required");
	if (!str_empty(kvs_get(map, PUBLISH_NVME_NSID)) &&
	    !str_empty(kvs_get(map, PUBLISH_VIRTIOFS_TAG)))
		return err_set(
			err, ERR_INVALID,
			"PublishContext: nvmeNsID and virtioFSTag are both set; a volume is an "
			"NVMe namespace or a virtio-fs share");
	if (c.emulation == EMULATION_VIRTIOFS ? read_virtiofs(map, &c, err)
	                                      : read_nvme(map, &c, err))
		return -1;
	*ret = c;
	return 0;
}
