/* SPDX-License-Identifier: Apache-2.0 */
/* The tag of a virtio-fs device: valid tags, their location in a function, and reading them. */
#include "test/lib/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "node/device/virtio_tag.h"
#include "test/lib/tree.h"
#include "test/lib/virtio_function.h"

#define TAG36 "abcdefghijklmnopqrstuvwxyz0123456789"
#define PCI "0000:23:00.0"
#define DIR "/sys/bus/pci/devices/" PCI

START_TEST(a_tag_is_a_short_name_without_slashes_and_control_characters)
{
	static const struct {
		const char *tag, *error; /* NULL: accepted */
	} rows[] = {
		{ "t", NULL },
		{ "vol1tag", NULL },
		{ TAG36, NULL },
		{ "a tag, with spaces", NULL },
		{ "\xc3\xa4", NULL },
		{ "..", NULL },
		{ NULL, "the virtio-fs tag is empty" },
		{ "", "the virtio-fs tag is empty" },
		{ TAG36 "7", "\"" TAG36 "7\" has 37 bytes (expected at most 36)" },
		{ "/t", "\"/t\" has a slash" },
		{ "t\n", "\"t\n\" has a control character" },
		{ "\x7f", "\"\x7f\" has a control character" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;
		int rc = device_tag_check(rows[i].tag, &err);

		ck_assert_msg(rc == (rows[i].error ? -1 : 0), "row %zu: %s", i, err.msg);
		if (!rc)
			continue;
		ck_assert_str_eq(err.msg, rows[i].error);
		ck_assert_int_eq(err.code, ERR_INVALID);
	}
}
END_TEST

/* ---- the capabilities ---- */

#define END          \
	{            \
		0, 0 \
	}

/*
 * The bytes of a row in a config space that otherwise has only a header, as pairs of offset and
 * byte.
 */
struct edit {
	unsigned at, byte;
};

/* A capability of virtio: next, size, type, BAR; its length is 0x1000. */
#define CAP(at, next, len, type, bar)                                            \
	{ at, 0x09 }, { (at) + 1, next }, { (at) + 2, len }, { (at) + 3, type }, \
		{ (at) + 4, bar },                                               \
	{                                                                        \
		(at) + 13, 0x10                                                  \
	}
#define LISTED             \
	{                  \
		0x06, 0x10 \
	}

START_TEST(the_capabilities_say_where_the_tag_is_or_are_not_believed)
{
	static const struct {
		const char *what;
		struct edit edits[24];
		size_t n; /* readable bytes; 0: all 256 */
		bool found;
		struct virtio_cap_window cap;
	} rows[] = {
		{ "both",
		  { LISTED,
		    { 0x34, 0x40 },
		    CAP(0x40, 0x60, 16, 4, 4),
		    { 0x49, 0x20 },
		    CAP(0x60, 0, 20, 5, 0) },
		  0,
		  true,
		  { 4, 0x2000, 0x60 } },
		{ "the window first, and low bits that do not count",
		  { LISTED, { 0x34, 0x63 }, CAP(0x60, 0x41, 20, 5, 0), CAP(0x40, 0, 16, 4, 0) },
		  0,
		  true,
		  { 0, 0, 0x60 } },
		{ "a reserved BAR is skipped, as the kernel does",
		  { LISTED,
		    { 0x34, 0x40 },
		    CAP(0x40, 0x50, 16, 4, 6),
		    CAP(0x50, 0x60, 16, 4, 5),
		    CAP(0x60, 0, 20, 5, 0) },
		  0,
		  true,
		  { 5, 0, 0x60 } },
		{ "of two the first counts",
		  { LISTED,
		    { 0x34, 0x40 },
		    CAP(0x40, 0x50, 16, 4, 1),
		    CAP(0x50, 0x60, 16, 4, 2),
		    CAP(0x60, 0, 20, 5, 0) },
		  0,
		  true,
		  { 1, 0, 0x60 } },
		{ "at the end of the space",
		  { LISTED, { 0x34, 0xec }, CAP(0xec, 0x40, 20, 5, 0), CAP(0x40, 0, 16, 4, 1) },
		  0,
		  true,
		  { 1, 0, 0xec } },
		{ "zeroes", { END }, 0, false, { 0 } },
		{ "no list",
		  { { 0x34, 0x40 }, CAP(0x40, 0x60, 16, 4, 4), CAP(0x60, 0, 20, 5, 0) },
		  0,
		  false,
		  { 0 } },
		{ "only 64 bytes, as who is not root reads them",
		  { LISTED, { 0x34, 0x40 }, CAP(0x40, 0x60, 16, 4, 4), CAP(0x60, 0, 20, 5, 0) },
		  64,
		  false,
		  { 0 } },
		{ "no window",
		  { LISTED, { 0x34, 0x40 }, CAP(0x40, 0, 16, 4, 4) },
		  0,
		  false,
		  { 0 } },
		{ "no configuration",
		  { LISTED, { 0x34, 0x60 }, CAP(0x60, 0, 20, 5, 0) },
		  0,
		  false,
		  { 0 } },
		{ "another vendor's capability",
		  { LISTED,
		    { 0x34, 0x40 },
		    CAP(0x40, 0x60, 16, 4, 4),
		    { 0x40, 0x05 },
		    CAP(0x60, 0, 20, 5, 0) },
		  0,
		  false,
		  { 0 } },
		{ "a list that goes in a circle",
		  { LISTED, { 0x34, 0x40 }, CAP(0x40, 0x50, 16, 1, 4), CAP(0x50, 0x40, 16, 2, 4) },
		  0,
		  false,
		  { 0 } },
		{ "a capability of itself",
		  { LISTED, { 0x34, 0x40 }, CAP(0x40, 0x40, 16, 4, 4) },
		  0,
		  false,
		  { 0 } },
		{ "a pointer into the header", { LISTED, { 0x34, 0x10 } }, 0, false, { 0 } },
		{ "a configuration that ends behind the space",
		  { LISTED,
		    { 0x34, 0x60 },
		    CAP(0x60, 0xf4, 20, 5, 0),
		    { 0xf4, 0x09 },
		    { 0xf6, 16 },
		    { 0xf7, 4 } },
		  0,
		  false,
		  { 0 } },
		{ "a window that ends behind the space",
		  { LISTED,
		    { 0x34, 0x40 },
		    CAP(0x40, 0xf0, 16, 4, 4),
		    { 0xf0, 0x09 },
		    { 0xf2, 20 },
		    { 0xf3, 5 } },
		  0,
		  false,
		  { 0 } },
		{ "a configuration that says it is small",
		  { LISTED, { 0x34, 0x40 }, CAP(0x40, 0x60, 8, 4, 4), CAP(0x60, 0, 20, 5, 0) },
		  0,
		  false,
		  { 0 } },
		{ "a window without data",
		  { LISTED, { 0x34, 0x40 }, CAP(0x40, 0x60, 16, 4, 4), CAP(0x60, 0, 16, 5, 0) },
		  0,
		  false,
		  { 0 } },
		{ "too short for a tag",
		  { LISTED,
		    { 0x34, 0x40 },
		    CAP(0x40, 0x60, 16, 4, 4),
		    { 0x4c, 35 },
		    { 0x4d, 0 },
		    CAP(0x60, 0, 20, 5, 0) },
		  0,
		  false,
		  { 0 } },
		{ "at an odd place",
		  { LISTED,
		    { 0x34, 0x40 },
		    CAP(0x40, 0x60, 16, 4, 4),
		    { 0x48, 2 },
		    CAP(0x60, 0, 20, 5, 0) },
		  0,
		  false,
		  { 0 } },
		{ "at the end of all addresses",
		  { LISTED,
		    { 0x34, 0x40 },
		    CAP(0x40, 0x60, 16, 4, 4),
		    { 0x48, 0xfc },
		    { 0x49, 0xff },
		    { 0x4a, 0xff },
		    { 0x4b, 0xff },
		    CAP(0x60, 0, 20, 5, 0) },
		  0,
		  false,
		  { 0 } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t n = rows[i].n ? rows[i].n : PCI_CONFIG_MAX;
		/* so that a read one byte too far is detected */
		uint8_t *config AUTO(free) = xcalloc(1, n);
		struct virtio_cap_window cap = { 0 };

		for (size_t k = 0; k < ARRAY_LEN(rows[i].edits); k++)
			if (rows[i].edits[k].at && rows[i].edits[k].at < n)
				config[rows[i].edits[k].at] = (uint8_t)rows[i].edits[k].byte;
		ck_assert_msg(virtio_find_config(config, n, &cap) == rows[i].found, "%s",
		              rows[i].what);
		ck_assert_msg(cap.bar == rows[i].cap.bar && cap.offset == rows[i].cap.offset &&
		                      cap.window == rows[i].cap.window,
		              "%s: BAR %u, 0x%x, window 0x%x", rows[i].what, cap.bar, cap.offset,
		              cap.window);
	}
}
END_TEST

/* ---- reading ---- */

struct tag_world {
	struct tree tree;
	char *dir;
	char tag[DEVICE_TAG_MAX + 4];
	struct str why;
};

static void tag_world_clear_p(struct tag_world *w)
{
	tree_clear(&w->tree);
	free(w->dir);
	str_clear(&w->why);
}

static void tag_world_init(struct tag_world *w, const char *tag)
{
	*w = (struct tag_world) { .why = STR_INIT(700) };
	tree_unpack(&w->tree, NULL);
	w->dir = tree_path(&w->tree, DIR);
	virtio_function_add(w->tree.sysfs, PCI, "0x1af4\n", tag);
}

static int read_tag(struct tag_world *w)
{
	struct err err = ERR_INIT;

	return virtio_tag_read(w->dir, w->tag, &w->why, &err);
}

START_TEST(the_window_shows_the_tag)
{
	static const char *const tags[] = { "t", "vol1tag", TAG36, "with spaces  " };

	for (size_t i = 0; i < ARRAY_LEN(tags); i++) {
		struct tag_world w AUTO(tag_world_clear);

		tag_world_init(&w, tags[i]);
		ck_assert_msg(read_tag(&w) == 0, "%s: %s", tags[i], w.why.ptr);
		ck_assert_str_eq(w.tag, tags[i]);
	}
}
END_TEST

START_TEST(what_shows_no_tag_proves_nothing)
{
	static const char *const tags[] = { NULL, "a/b", "a\nb",
		                            "\xff\xff\xff\xff\xff\xff\xff\xff" };

	for (size_t i = 0; i < ARRAY_LEN(tags); i++) {
		struct tag_world w AUTO(tag_world_clear);

		tag_world_init(&w, tags[i]);
		ck_assert_int_eq(read_tag(&w), VIRTIO_TAG_UNKNOWN);
		ck_assert_msg(strstr(w.why.ptr, "the function shows no tag ("), "%s", w.why.ptr);
	}
}
END_TEST

START_TEST(what_keeps_the_tag_from_being_read_is_said)
{
	struct tag_world w AUTO(tag_world_clear);

	tag_world_init(&w, "t");
	virtio_function_lock_down(true);
	ck_assert_int_eq(read_tag(&w), VIRTIO_TAG_UNKNOWN);
	ck_assert_msg(strstr(w.why.ptr, "/config: Operation not permitted"), "%s", w.why.ptr);
	virtio_function_lock_down(false);
	str_reset(&w.why);
	tree_write(&w.tree, DIR "/config", "\xf4\x1a");
	ck_assert_int_eq(read_tag(&w), VIRTIO_TAG_UNKNOWN);
	ck_assert_msg(strstr(w.why.ptr, "has no entry for the location of the function's tag"),
	              "%s", w.why.ptr);
	str_reset(&w.why);
	tree_remove(&w.tree, DIR "/config");
	ck_assert_int_eq(read_tag(&w), VIRTIO_TAG_UNKNOWN);
	ck_assert_msg(strstr(w.why.ptr, "/config: No such file or directory"), "%s", w.why.ptr);
}
END_TEST

/* A shortage of descriptors says nothing about the function, and is temporary. */
START_TEST(what_is_short_for_a_moment_is_no_missing_proof)
{
	struct tag_world w AUTO(tag_world_clear);
	struct rlimit all, few;
	struct err err = ERR_INIT;
	int rc;

	tag_world_init(&w, "t");
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &all), 0);
	few = all;
	few.rlim_cur = 3;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	rc = virtio_tag_read(w.dir, w.tag, &w.why, &err);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &all), 0);
	ck_assert_int_eq(rc, -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	ck_assert_msg(strstr(err.msg, "Too many open files"), "%s", err.msg);
}
END_TEST

/* The window has one address, so concurrent readers would read each other's data. */
START_TEST(a_reader_waits_for_another_one)
{
	struct tag_world w AUTO(tag_world_clear);
	char *path AUTO(free) = NULL;
	int other;

	tag_world_init(&w, "t");
	path = xasprintf("%s/config", w.dir);
	other = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(flock(other, LOCK_EX), 0);
	ck_assert_int_eq(read_tag(&w), VIRTIO_TAG_UNKNOWN);
	ck_assert_msg(strstr(w.why.ptr, "Device or resource busy"), "%s", w.why.ptr);
	ck_assert_uint_eq(virtio_function_looks(), 0);
	close(other);
	ck_assert_int_eq(read_tag(&w), 0);
}
END_TEST

SUITE("virtio_tag", a_tag_is_a_short_name_without_slashes_and_control_characters,
      the_capabilities_say_where_the_tag_is_or_are_not_believed, the_window_shows_the_tag,
      what_shows_no_tag_proves_nothing, what_keeps_the_tag_from_being_read_is_said,
      what_is_short_for_a_moment_is_no_missing_proof, a_reader_waits_for_another_one);
