/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and reads the keys of the publish context. Nothing that could name another device is
 * passed on: a key of the vendor never takes the place of one of the driver's.
 */
#include "volume/publish_context.h"

#include <assert.h>
#include <inttypes.h>

#include "common/str.h"
#include "volume/context_keys.h"

/* ---- write ---- */

/* Keys that only the driver writes. */
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

struct kvs publish_context_write(const struct publish_context *c, const struct kvs *vendor,
                                 struct arena *arena)
{
	struct kv *list = arena_alloc(arena, (9 + vendor->n) * sizeof(*list));
	size_t n = 0;

	assert(*c->pci && (c->emulation == EMULATION_VIRTIOFS ? *c->tag != '\0' : c->nsid > 0));
	add(list, &n, PUBLISH_VOLUME_NAME, c->volume, arena);
	add(list, &n, PUBLISH_ATTACHMENT_NAME, c->attachment, arena);
	add_device(list, &n, c, arena);
	add_number(list, &n, PUBLISH_CAPACITY, c->capacity, arena);
	add(list, &n, PUBLISH_ATTACHMENT_UID, c->attachment_uid, arena);
	for (size_t i = 0; i < vendor->n; i++)
		if (!is_reserved(vendor->v[i].key))
			list[n++] = vendor->v[i];
	return (struct kvs) { list, n };
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
			"PublishContext: nvmeNsID and virtioFSTag are both given; a volume is "
			"an NVMe namespace or a virtio-fs share");
	if (c.emulation == EMULATION_VIRTIOFS ? read_virtiofs(map, &c, err)
	                                      : read_nvme(map, &c, err))
		return -1;
	*ret = c;
	return 0;
}
