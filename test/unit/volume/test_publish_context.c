/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of the publish context. The node's refusals are in node/test_context.c. */
#include "volume/publish_context.h"

#include <string.h>

#include "common/cleanup.h"
#include "test/lib/suite.h"
#include "volume/context_keys.h"

START_TEST(what_is_written_is_read)
{
	static const struct publish_context rows[] = {
		{ "v", "a", "u", "2026-01-02T03:04:05Z", "n1", "0000:26:0c.1", "vuid",
		  EMULATION_NVME, 4294967295, "uuid", "", 7 },
		{ "v", "a", "", "", "", "26:0c.1", "", EMULATION_NVME, 1, "", "", 0 },
		{ "v", "a", "u", "t", "", "26:0c.1", "vuid", EMULATION_VIRTIOFS, 0, "", "tag", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct publish_context *c = &rows[i];
		const struct kvs none = { NULL, 0 };
		struct arena arena = ARENA_INIT(0);
		struct publish_context r;
		struct err err = ERR_INIT;
		const char *cut;
		struct kvs map;
		/* Both kinds as the flag: the context decides. */
		enum emulation flag = i % 2 ? EMULATION_NVME : EMULATION_VIRTIOFS;

		ck_assert_int_eq(publish_context_write(c, &none, &arena, &map, &cut, &err), 0);
		ck_assert(publish_context_given(&map));
		ck_assert_int_eq(publish_context_emulation(&map, flag), c->emulation);
		ck_assert_msg(!publish_context_read(&map, flag, &r, &err), "%s", err.msg);
		ck_assert_str_eq(r.volume, c->volume);
		ck_assert_str_eq(r.attachment, c->attachment);
		ck_assert_str_eq(r.attachment_uid, c->attachment_uid);
		ck_assert_str_eq(r.attachment_created, c->attachment_created);
		ck_assert_str_eq(r.format_node, c->format_node);
		ck_assert_str_eq(r.pci, c->pci);
		ck_assert_str_eq(r.vuid, c->vuid);
		ck_assert_int_eq(r.emulation, c->emulation);
		ck_assert_uint_eq(r.nsid, c->nsid);
		ck_assert_str_eq(r.uuid, c->uuid);
		ck_assert_str_eq(r.tag, c->tag);
		ck_assert_uint_eq(r.capacity, c->capacity);
		arena_clear(&arena);
	}
}
END_TEST

START_TEST(a_vendor_writes_none_of_the_drivers_keys)
{
	static const struct kv vendor[] = {
		{ PUBLISH_VOLUME_NAME, "x" },    { PUBLISH_ATTACHMENT_NAME, "x" },
		{ PUBLISH_PCI_ADDRESS, "x" },    { PUBLISH_NVME_NSID, "9" },
		{ PUBLISH_NVME_UUID, "x" },      { PUBLISH_FUNC_VUID, "x" },
		{ PUBLISH_VIRTIOFS_TAG, "x" },   { PUBLISH_CAPACITY, "9" },
		{ PUBLISH_ATTACHMENT_UID, "x" }, { PUBLISH_ATTACHMENT_CREATED, "x" },
		{ PUBLISH_FORMAT_NODE, "x" },    { DRIVER_PREFIX "new", "x" },
		{ "vendor/key", "kept" },
	};
	const struct publish_context c = { .volume = "v",
		                           .attachment = "a",
		                           .pci = "26:0c.1",
		                           .emulation = EMULATION_NVME,
		                           .nsid = 1 };
	const struct kvs more = { vendor, ARRAY_LEN(vendor) };
	struct arena arena = ARENA_INIT(0);
	struct err err = ERR_INIT;
	const char *cut;
	struct kvs map;

	ck_assert_int_eq(publish_context_write(&c, &more, &arena, &map, &cut, &err), 0);
	ck_assert_ptr_null(cut);
	ck_assert_uint_eq(map.n, 5);
	ck_assert_str_eq(kvs_get(&map, PUBLISH_NVME_NSID), "1");
	ck_assert_str_eq(kvs_get(&map, "vendor/key"), "kept");
	arena_clear(&arena);
}
END_TEST

static const struct {
	const char *what;
	size_t a, b, c, vuid; /* bytes of the vendor's values and of funcVUID */
	const char *cut;
	size_t n; /* entries; 0: refused */
} lengths[] = {
	{ "all fit", 100, 100, 100, 10, NULL, 8 },
	{ "as long as may be", 4096 - 80 - 1, 1, 1, 0, NULL, 7 },
	{ "one byte more", 4096 - 80, 1, 1, 0, "a", 6 },
	{ "one too long", 1, 5000, 100, 10, "b", 7 },
	{ "several too long", 3000, 5000, 100, 10, "b", 7 },
	{ "three that do not fit together", 1500, 1600, 1700, 10, "c", 7 },
	{ "none fits", 3900, 3950, 3960, 200, "c", 5 },
	{ "the driver's own is too long", 1, 1, 1, 5000, NULL, 0 },
};

static char *text_of(size_t n)
{
	char *text = xcalloc(1, n + 1);

	memset(text, 'x', n);
	return text;
}

START_TEST(a_context_has_at_most_what_a_node_accepts)
{
	char *a AUTO(free) = text_of(lengths[_i].a), *b AUTO(free) = text_of(lengths[_i].b),
		*c3 AUTO(free) = text_of(lengths[_i].c),
		*vuid AUTO(free) = text_of(lengths[_i].vuid);
	const struct kv vendor[] = { { "a", a }, { "b", b }, { "c", c3 } };
	const struct publish_context c = { .volume = "v",
		                           .attachment = "a",
		                           .pci = "26:0c.1",
		                           .vuid = vuid,
		                           .emulation = EMULATION_NVME,
		                           .nsid = 1 };
	const struct kvs more = { vendor, ARRAY_LEN(vendor) };
	struct arena arena = ARENA_INIT(0);
	struct err err = ERR_INIT;
	const char *cut = NULL;
	size_t bytes = 0;
	struct kvs map;
	int rc = publish_context_write(&c, &more, &arena, &map, &cut, &err);

	ck_assert_msg(!rc == (lengths[_i].n > 0), "%s: %s", lengths[_i].what, err.msg);
	if (rc) {
		ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
		ck_assert_msg(strstr(err.msg, PUBLISH_FUNC_VUID " with 5011 bytes"), "%s", err.msg);
		arena_clear(&arena);
		return;
	}
	for (size_t i = 0; i < map.n; i++)
		bytes += strlen(map.v[i].key) + strlen(map.v[i].value);
	ck_assert_msg(bytes <= 4096 && map.n == lengths[_i].n, "%s: %zu bytes, %zu entries",
	              lengths[_i].what, bytes, map.n);
	ck_assert_pstr_eq(cut, lengths[_i].cut);
	ck_assert_str_eq(kvs_get(&map, PUBLISH_NVME_NSID), "1");
	arena_clear(&arena);
}
END_TEST

SUITE("publish context", LOOP(a_context_has_at_most_what_a_node_accepts, ARRAY_LEN(lengths)),
      what_is_written_is_read, a_vendor_writes_none_of_the_drivers_keys);
