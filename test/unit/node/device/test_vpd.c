/* SPDX-License-Identifier: Apache-2.0 */
/* Vital product data: the fields that are read, and the robustness against damaged bytes. */
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/device/vpd.h"
#include "test/lib/suite.h"
#include "test/lib/tree.h"

#define BYTES(s) (s), sizeof(s) - 1

struct vpd_row {
	const char *what;
	const char *bytes;
	size_t n;
	const char *want; /* value of VU; NULL: absent */
};

static const struct vpd_row rows[] = {
	{ "no bytes", BYTES(""), NULL },
	{ "a field in VPD-R", BYTES("\x90\x07\x00VU\x04MT23"), "MT23" },
	{ "a field in VPD-W", BYTES("\x91\x07\x00VU\x04MT23"), "MT23" },
	{ "behind the id string",
	  BYTES("\x82\x03\x00"
	        "abc"
	        "\x90\x07\x00VU\x04MT23"),
	  "MT23" },
	{ "behind another field", BYTES("\x90\x0c\x00PN\x02xyVU\x04MT23"), "MT23" },
	{ "in the second resource", BYTES("\x90\x05\x00PN\x02xy\x91\x05\x00VU\x02ok"), "ok" },
	{ "behind a small resource", BYTES("\x22qq\x90\x05\x00VU\x02ok"), "ok" },
	{ "the first of two counts",
	  BYTES("\x90\x0a\x00VU\x02"
	        "abVU\x02"
	        "cd"),
	  "ab" },
	{ "NULs are trimmed",
	  BYTES("\x90\x07\x00VU\x04"
	        "ab\0\0"),
	  "ab" },
	{ "white space is trimmed", BYTES("\x90\x08\x00VU\x05 \tab "), "ab" },
	{ "an empty field", BYTES("\x90\x03\x00VU\x00"), "" },
	{ "a field of blanks", BYTES("\x90\x05\x00VU\x02  "), "" },
	{ "the last byte of the resource", BYTES("\x90\x04\x00VU\x01x"), "x" },
	{ "behind the end tag", BYTES("\x78\x90\x05\x00VU\x02ok"), NULL },
	{ "end tag after the field", BYTES("\x90\x05\x00VU\x02ok\x78"), "ok" },
	{ "an end tag with a length", BYTES("\x79\x00\x90\x05\x00VU\x02ok"), NULL },
	{ "another keyword", BYTES("\x90\x05\x00VX\x02ok"), NULL },
	{ "lower case is another keyword", BYTES("\x90\x05\x00vu\x02ok"), NULL },
	{ "a resource longer than the bytes", BYTES("\x90\xff\x7fVU\x02ok"), NULL },
	{ "a resource header cut off", BYTES("\x90\x05"), NULL },
	{ "only a tag", BYTES("\x90"), NULL },
	{ "an id string longer than the bytes",
	  BYTES("\x82\xff\xff"
	        "abc"),
	  NULL },
	{ "a small resource longer than the bytes", BYTES("\x27q"), NULL },
	{ "a field longer than its resource", BYTES("\x90\x05\x00VU\x09ok"), NULL },
	{ "a field header cut off", BYTES("\x90\x02\x00VU"), NULL },
	{ "damage behind the field", BYTES("\x90\x08\x00VU\x02okXX\xff"), "ok" },
	{ "damage before the field", BYTES("\x90\x0a\x00PN\xf0xyVU\x02ok"), NULL },
	{ "damage ends the search", BYTES("\x90\x03\x00PN\xf0\x91\x05\x00VU\x02ok"), NULL },
	{ "a NUL inside the value",
	  BYTES("\x90\x06\x00VU\x03"
	        "a\0b"),
	  NULL },
	{ "a value that is not ASCII", BYTES("\x90\x05\x00VU\x02\xc3\xa9"), NULL },
	{ "an unknown large resource is skipped", BYTES("\xa0\x02\x00zz\x90\x05\x00VU\x02ok"),
	  "ok" },
};

START_TEST(rows_of_bytes_give_their_field)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct vpd_row *r = &rows[i];
		char got[VPD_VALUE_MAX] = "untouched";
		/* On the heap, so that a read past the end is detected. */
		char *bytes AUTO(free) = xmalloc(r->n ? r->n : 1);
		bool found;

		memcpy(bytes, r->bytes, r->n);
		found = vpd_field(bytes, r->n, "VU", got);
		ck_assert_msg(found == (r->want != NULL), "%s: found %d (%s)", r->what, found, got);
		ROW_STR_EQ(r->what, got, r->want ? r->want : "untouched");
	}
}
END_TEST

START_TEST(the_longest_field_fits)
{
	char bytes[3 + 3 + 255] = "\x90\x02\x01VU\xff", got[VPD_VALUE_MAX];

	memset(bytes + 6, 'a', 255);
	ck_assert(vpd_field(bytes, sizeof(bytes), "VU", got));
	ck_assert_uint_eq(strlen(got), 255);
}
END_TEST

START_TEST(every_cut_of_a_good_vpd_is_harmless)
{
	static const char good[] = "\x82\x03\x00"
				   "abc"
				   "\x90\x0c\x00PN\x02xyVU\x04MT23\x78";

	for (size_t n = 0; n < sizeof(good) - 1; n++) {
		char *bytes AUTO(free) = xmalloc(n ? n : 1);
		char got[VPD_VALUE_MAX];

		memcpy(bytes, good, n);
		/* The resource is complete with 6 + 3 + 12 bytes. */
		ck_assert_int_eq(vpd_field(bytes, n, "VU", got), n >= 21);
	}
}
END_TEST

START_TEST(a_recorded_vpd_has_its_fields)
{
	struct tree t AUTO(tree_clear) = { 0 };
	char *path AUTO(free) = NULL;
	char bytes[4096], got[VPD_VALUE_MAX];
	size_t n;
	FILE *f;

	tree_unpack(&t, "s9-bf3-vpd-15b3");
	path = tree_path(&t, "/sys/devices/pci0000:00/0000:00:04.0/0000:01:00.0/vpd");
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	n = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	ck_assert(vpd_field(bytes, n, "PN", got));
	ck_assert_str_eq(got, "900-9D3B6-00CV-A");
	ck_assert(vpd_field(bytes, n, "SN", got));
	ck_assert_str_eq(got, "MT2334XZ0L7F");
	ck_assert(!vpd_field(bytes, n, "VU", got));
}
END_TEST

SUITE("vpd", rows_of_bytes_give_their_field, the_longest_field_fits,
      every_cut_of_a_good_vpd_is_harmless, a_recorded_vpd_has_its_fields);
