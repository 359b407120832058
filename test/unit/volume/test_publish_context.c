/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of the publish context. What the node refuses is in node/test_context.c. */
#include "volume/publish_context.h"

#include "test/lib/suite.h"
#include "volume/context_keys.h"

START_TEST(what_is_written_is_read)
{
	static const struct publish_context rows[] = {
		{ "v", "a", "u", "0000:26:0c.1", "vuid", EMULATION_NVME, 4294967295, "uuid", "",
		  7 },
		{ "v", "a", "", "26:0c.1", "", EMULATION_NVME, 1, "", "", 0 },
		{ "v", "a", "u", "26:0c.1", "vuid", EMULATION_VIRTIOFS, 0, "", "tag", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct publish_context *c = &rows[i];
		const struct kvs none = { NULL, 0 };
		struct arena arena = ARENA_INIT(0);
		struct publish_context r;
		struct err err = ERR_INIT;
		struct kvs map = publish_context_write(c, &none, &arena);
		/* Both kinds as the flag: the context decides. */
		enum emulation flag = i % 2 ? EMULATION_NVME : EMULATION_VIRTIOFS;

		ck_assert(publish_context_given(&map));
		ck_assert_int_eq(publish_context_emulation(&map, flag), c->emulation);
		ck_assert_msg(!publish_context_read(&map, flag, &r, &err), "%s", err.msg);
		ck_assert_str_eq(r.volume, c->volume);
		ck_assert_str_eq(r.attachment, c->attachment);
		ck_assert_str_eq(r.attachment_uid, c->attachment_uid);
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
		{ PUBLISH_ATTACHMENT_UID, "x" }, { DRIVER_PREFIX "new", "x" },
		{ "vendor/key", "kept" },
	};
	const struct publish_context c = { .volume = "v",
		                           .attachment = "a",
		                           .pci = "26:0c.1",
		                           .emulation = EMULATION_NVME,
		                           .nsid = 1 };
	const struct kvs more = { vendor, ARRAY_LEN(vendor) };
	struct arena arena = ARENA_INIT(0);
	struct kvs map = publish_context_write(&c, &more, &arena);

	ck_assert_uint_eq(map.n, 5);
	ck_assert_str_eq(kvs_get(&map, PUBLISH_NVME_NSID), "1");
	ck_assert_str_eq(kvs_get(&map, "vendor/key"), "kept");
	arena_clear(&arena);
}
END_TEST

SUITE("publish context", what_is_written_is_read, a_vendor_writes_none_of_the_drivers_keys);
