/* SPDX-License-Identifier: Apache-2.0 */
/* Selectors for many calls: how many names fit, and their form in the URL. */
#include "controller/attachment_selector.h"

#include <ctype.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "test/lib/suite.h"

/*
 * The length in a URL: every character except letters, digits, "-", "_" and "." takes three bytes
 * there.
 */
static size_t bytes_in_address(const char *text)
{
	size_t n = 0;

	for (const char *p = text; *p; p++)
		n += isalnum((unsigned char)*p) || strchr("-_.", *p) ? 1 : 3;
	return n;
}

START_TEST(a_selector_fits_into_a_line_of_a_proxy)
{
	static const struct {
		const char *what, *first, *last;
		enum attachment_listed which;
		unsigned least, most;
	} rows[] = {
		{ "of full length", "abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz-abcd",
		  ")", ATTACHMENTS_OF_VOLUME, 90, 90 },
		{ "of a provisioner", "pvc-01234567-89ab-cdef-0123-456789a", ")",
		  ATTACHMENTS_OF_VOLUME, 130, 140 },
		{ "short", "", "),csi.snap.nvidia.com/volume", ATTACHMENTS_ON_NODE, 750, 750 },
		{ "no DNS names", "A", "),csi.snap.nvidia.com/volume", ATTACHMENTS_ON_NODE, 160,
		  170 },
		{ "not in it", "", "!csi.snap.nvidia.com/volume", ATTACHMENTS_UNLABELLED, 5000,
		  5000 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct attachment_selector s AUTO(attachment_selector_clear) =
			attachment_selector_new(rows[i].which);
		unsigned n = 0;
		const char *text;

		for (bool room = true; room && n < 5000; n += room) {
			char *name AUTO(free) = xasprintf("%s%05u", rows[i].first, n);

			room = attachment_selector_add(&s, name);
		}
		text = attachment_selector_end(&s);
		ck_assert_msg(n >= rows[i].least && n <= rows[i].most, "%s: %u", rows[i].what, n);
		ck_assert_msg(bytes_in_address(text) < 6200, "%s: %zu bytes", rows[i].what,
		              bytes_in_address(text));
		ck_assert_msg(str_has_suffix(text, rows[i].last), "%s: %s", rows[i].what, text);
	}
}
END_TEST

SUITE("attachment_selector", a_selector_fits_into_a_line_of_a_proxy);
