/* SPDX-License-Identifier: Apache-2.0 */
/* The device that a publish context names. */
#include "test/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "volume/context_keys.h"
#include "node/context.h"

#define TAG36 "abcdefghijklmnopqrstuvwxyz0123456789"

START_TEST(the_publish_context_says_which_device)
{
	static const struct {
		const char *what;
		struct kv v[6];
		size_t n;
		const char *error;       /* NULL: accepted */
		struct device_want want; /* of a refused context: the emulation of the flag */
	} rows[] = {
		{ "what the Go plugin publishes",
		  { { PUBLISH_VOLUME_NAME, "pvc-1" },
		    { PUBLISH_ATTACHMENT_NAME, "n1-pvc-1" },
		    { PUBLISH_PCI_ADDRESS, "26:0c.1" },
		    { PUBLISH_NVME_NSID, "1" } },
		  4,
		  NULL,
		  { .pci = "26:0c.1", .vuid = "", .nsid = 1, .uuid = "" } },
		{ "all",
		  { { PUBLISH_PCI_ADDRESS, "0000:26:0c.1" },
		    { PUBLISH_NVME_NSID, "4294967295" },
		    { PUBLISH_NVME_UUID, "u" },
		    { PUBLISH_FUNC_VUID, "v" },
		    { PUBLISH_CAPACITY, "1073741824" } },
		  5,
		  NULL,
		  { .pci = "0000:26:0c.1",
		    .vuid = "v",
		    .nsid = 4294967295,
		    .uuid = "u",
		    .capacity = 1073741824 } },
		{ "no address",
		  { { PUBLISH_NVME_NSID, "1" } },
		  1,
		  "PublishContext.pciDeviceAddress: field is required",
		  { 0 } },
		{ "empty address",
		  { { PUBLISH_PCI_ADDRESS, "" }, { PUBLISH_NVME_NSID, "1" } },
		  2,
		  "PublishContext.pciDeviceAddress: field is required",
		  { 0 } },
		{ "no nsid",
		  { { PUBLISH_PCI_ADDRESS, "26:0c.1" } },
		  1,
		  "PublishContext.nvmeNsID: field is required",
		  { 0 } },
		{ "nsid 0",
		  { { PUBLISH_PCI_ADDRESS, "a" }, { PUBLISH_NVME_NSID, "0" } },
		  2,
		  "PublishContext.nvmeNsID contains invalid NVME NS ID",
		  { 0 } },
		{ "nsid too large",
		  { { PUBLISH_PCI_ADDRESS, "a" }, { PUBLISH_NVME_NSID, "4294967296" } },
		  2,
		  "PublishContext.nvmeNsID contains invalid NVME NS ID",
		  { 0 } },
		{ "a tag, as the Go plugin publishes it",
		  { { PUBLISH_PCI_ADDRESS, "26:0c.1" }, { PUBLISH_VIRTIOFS_TAG, "vol1tag" } },
		  2,
		  NULL,
		  { .pci = "26:0c.1",
		    .vuid = "",
		    .uuid = "",
		    .tag = "vol1tag",
		    .function = DEVICE_FUNCTION_PF,
		    .emulation = EMULATION_VIRTIOFS } },
		{ "a tag and an empty nsid, a capacity that is no size of the device",
		  { { PUBLISH_PCI_ADDRESS, "a" },
		    { PUBLISH_VIRTIOFS_TAG, TAG36 },
		    { PUBLISH_NVME_NSID, "" },
		    { PUBLISH_CAPACITY, "1073741824" } },
		  4,
		  NULL,
		  { .pci = "a",
		    .vuid = "",
		    .uuid = "",
		    .tag = TAG36,
		    .function = DEVICE_FUNCTION_PF,
		    .emulation = EMULATION_VIRTIOFS } },
		{ "no tag",
		  { { PUBLISH_PCI_ADDRESS, "a" }, { PUBLISH_VIRTIOFS_TAG, "" } },
		  2,
		  "PublishContext.virtioFSTag: field is required",
		  { .emulation = EMULATION_VIRTIOFS } },
		{ "both",
		  { { PUBLISH_PCI_ADDRESS, "a" },
		    { PUBLISH_VIRTIOFS_TAG, "t" },
		    { PUBLISH_NVME_NSID, "1" } },
		  3,
		  "PublishContext: nvmeNsID and virtioFSTag are both set; a volume is an "
		  "NVMe namespace or a virtio-fs share",
		  { 0 } },
		{ "a tag that is too long",
		  { { PUBLISH_PCI_ADDRESS, "a" }, { PUBLISH_VIRTIOFS_TAG, TAG36 "7" } },
		  2,
		  "PublishContext.virtioFSTag: \"" TAG36 "7\" has 37 bytes (expected at most 36)",
		  { 0 } },
		{ "a path as a tag",
		  { { PUBLISH_PCI_ADDRESS, "a" }, { PUBLISH_VIRTIOFS_TAG, "../t" } },
		  2,
		  "PublishContext.virtioFSTag: \"../t\" has a slash",
		  { 0 } },
		{ "a line end in a tag",
		  { { PUBLISH_PCI_ADDRESS, "a" }, { PUBLISH_VIRTIOFS_TAG, "t\n" } },
		  2,
		  "PublishContext.virtioFSTag: \"t\n\" has a control character",
		  { 0 } },
		{ "nsid no number",
		  { { PUBLISH_PCI_ADDRESS, "a" }, { PUBLISH_NVME_NSID, "1x" } },
		  2,
		  "PublishContext.nvmeNsID contains invalid NVME NS ID",
		  { 0 } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct kvs map = { rows[i].v, rows[i].n };
		struct device_want want;
		struct err err = ERR_INIT;
		const struct volume_params params = { .emulation = rows[i].want.emulation };
		int rc = context_want(&map, &params, &want, &err);

		ck_assert_msg(rc == (rows[i].error ? -1 : 0), "%s: %s", rows[i].what, err.msg);
		if (rc) {
			ck_assert_int_eq(err.code, ERR_INVALID);
			ROW_STR_EQ(rows[i].what, err.msg, rows[i].error);
			continue;
		}
		ROW_STR_EQ(rows[i].what, want.pci, rows[i].want.pci);
		ROW_STR_EQ(rows[i].what, want.vuid, rows[i].want.vuid);
		ROW_STR_EQ(rows[i].what, want.uuid, rows[i].want.uuid);
		ck_assert_msg(want.emulation == rows[i].want.emulation, "%s", rows[i].what);
		ck_assert_msg(want.function == rows[i].want.function, "%s", rows[i].what);
		ck_assert_pstr_eq(want.tag, rows[i].want.tag);
		ck_assert_uint_eq(want.nsid, rows[i].want.nsid);
		ck_assert_uint_eq(want.capacity, rows[i].want.capacity);
	}
}
END_TEST

START_TEST(a_bad_capacity_is_named)
{
	static const struct kv v[] = { { PUBLISH_PCI_ADDRESS, "a" },
		                       { PUBLISH_NVME_NSID, "1" },
		                       { PUBLISH_CAPACITY, "1Gi" } };
	struct kvs map = { v, 3 };
	const struct volume_params params = { .emulation = EMULATION_NVME };
	struct device_want want;
	struct err err = ERR_INIT;

	ck_assert_int_eq(context_want(&map, &params, &want, &err), -1);
	ck_assert_int_eq(err.code, ERR_INVALID);
	ck_assert_msg(strstr(err.msg, "PublishContext." PUBLISH_CAPACITY) != NULL, "%s", err.msg);
}
END_TEST

SUITE("context", the_publish_context_says_which_device, a_bad_capacity_is_named);
