/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures in the area of files, one row for each place after the first blocks of the device that
 * libblkid probes. If a filesystem extends to that place, the signature is a file's content; if it
 * is behind the end of the filesystem, it is a second thing on the device.
 */
#include "test/lib/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "node/mount/fsprobe.h"
#include "test/lib/doc_table.h"
#include "test/lib/node_world.h"

#define SIZE (320 * MIB)
/* a filesystem this much smaller than the device leaves space behind it */
#define SHORTER (4 * MIB)
#define SECTOR 512ULL
#define KIB 1024ULL

struct piece {
	unsigned at; /* from the row's place */
	const char *bytes;
	size_t n;
};

#define BYTES(at_, text)                                            \
	{                                                           \
		.at = (at_), .bytes = (text), .n = sizeof(text) - 1 \
	}

static const struct row {
	const char *name, *where;
	uint64_t from_end, from_start; /* one of them is set */
	struct piece pieces[4];
	bool newer_differ; /* later versions of libblkid require more than this */
} rows[] = {
	{ "linux_raid_member", "md 0.90: 64 KiB from the end", .from_end = 64 * KIB,
	  .pieces = { BYTES(0, "\xfc\x4e\x2b\xa9\0\0\0\0\x5a\0\0\0") } },
	{ "linux_raid_member", "md 1.0: 8 KiB from the end", .from_end = 8 * KIB,
	  .pieces = { BYTES(0, "\xfc\x4e\x2b\xa9\1\0\0\0"),
	              /* its own place: sector 655344 */
	              BYTES(144, "\xf0\xff\x09\0\0\0\0\0") } },
	{ "ddf_raid_member", "last sector", .from_end = SECTOR,
	  .pieces = { BYTES(0, "\xde\x11\xde\x11") }, .newer_differ = true },
	{ "ddf_raid_member", "257 sectors from the end", .from_end = 257 * SECTOR,
	  .pieces = { BYTES(0, "\xde\x11\xde\x11") }, .newer_differ = true },
	{ "isw_raid_member", "last sector but one", .from_end = 2 * SECTOR,
	  .pieces = { BYTES(0, "Intel Raid ISM Cfg Sig. 1.0.00") } },
	{ "lsi_mega_raid_member", "last sector", .from_end = SECTOR,
	  .pieces = { BYTES(0, "$XIDE$") } },
	{ "via_raid_member", "last sector", .from_end = SECTOR,
	  .pieces = { BYTES(0, "\x55\xaa\0"), BYTES(50, "\xff") } },
	{ "silicon_medley_raid_member", "last sector", .from_end = SECTOR,
	  .pieces = { BYTES(0x60, "\0\0\0\x2f"), BYTES(0x13e, "\0\xd1") } },
	{ "nvidia_raid_member", "last sector but one", .from_end = 2 * SECTOR,
	  .pieces = { BYTES(0, "NVIDIA  \x1e\0\0\0") } },
	{ "promise_fasttrack_raid_member", "13 places, the nearest 16 sectors from the end",
	  .from_end = 16 * SECTOR, .pieces = { BYTES(0, "Promise Technology, Inc.") } },
	{ "promise_fasttrack_raid_member", "the farthest of them, 3087 sectors from the end",
	  .from_end = 3087 * SECTOR, .pieces = { BYTES(0, "Promise Technology, Inc.") } },
	{ "hpt45x_raid_member", "11 sectors from the end", .from_end = 11 * SECTOR,
	  .pieces = { BYTES(0, "\xf3\x16\x78\x5a") } },
	{ "adaptec_raid_member", "last sector", .from_end = SECTOR,
	  .pieces = { BYTES(0, "\x37\xfc\x4d\x1e"), BYTES(256, "DPTM") } },
	{ "jmicron_raid_member", "last sector", .from_end = SECTOR, .pieces = { BYTES(0, "JM") },
	  .newer_differ = true },
	{ "drbd", "8: 4 KiB from the end", .from_end = 4 * KIB,
	  .pieces = { BYTES(60, "\x83\x74\x02\x6b") } },
	{ "drbd", "9: 4 KiB from the end", .from_end = 4 * KIB,
	  .pieces = { BYTES(60, "\x83\x74\x02\x6d") } },
	{ "zfs_member", "third label, 512 KiB from the end", .from_end = 512 * KIB,
	  .pieces = { BYTES(128 * KIB, "\x0c\xb1\xba\0\0\0\0\0"),
	              BYTES(129 * KIB, "\x0c\xb1\xba\0\0\0\0\0"),
	              BYTES(130 * KIB, "\x0c\xb1\xba\0\0\0\0\0"),
	              BYTES(131 * KIB, "\x0c\xb1\xba\0\0\0\0\0") },
	  .newer_differ = true },
	{ "zfs_member", "fourth label, 256 KiB from the end", .from_end = 256 * KIB,
	  .pieces = { BYTES(128 * KIB, "\x0c\xb1\xba\0\0\0\0\0"),
	              BYTES(129 * KIB, "\x0c\xb1\xba\0\0\0\0\0"),
	              BYTES(130 * KIB, "\x0c\xb1\xba\0\0\0\0\0"),
	              BYTES(131 * KIB, "\x0c\xb1\xba\0\0\0\0\0") },
	  .newer_differ = true },
	{ "nilfs2", "second superblock, 4 KiB from the end", .from_end = 4 * KIB,
	  .pieces = { BYTES(6, "\x34\x34\xc8\0"), BYTES(32, "\0\0\0\x14\0\0\0\0") } },
	{ "crypto_LUKS", "LUKS2: second header, up to 4 MiB from the start", .from_start = 2 * MIB,
	  .pieces = { BYTES(0, "SKUL\xba\xbe\0\2"), BYTES(256, "\0\0\0\0\0\x20\0\0") } },
	{ "VMFS_volume_member", "1 MiB from the start", .from_start = 1 * MIB,
	  .pieces = { BYTES(0, "\x0d\xd0\x01\xc0") } },
};

static const struct {
	const char *type, *whole, *shorter;
} filesystems[] = {
	{ "ext4", "mkfs.ext4 -q $f", "mkfs.ext4 -q $f 316M" },
	{ "ext3", "mkfs.ext3 -q $f", "mkfs.ext3 -q $f 316M" },
	{ "xfs", "mkfs.xfs -q $f", "mkfs.xfs -q -d size=316m $f" },
	{ "btrfs", "mkfs.btrfs -q $f", "mkfs.btrfs -q -b 316M $f" },
};

/* A sparse image after `script` ($f is its name), open; the file itself is removed. */
static int image(const char *script)
{
	char name[] = "/var/tmp/fsprobe-XXXXXX";
	int fd = mkstemp(name);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, SIZE), 0);
	run_tool("f=%s; { %s; } 2>&1", name, script);
	unlink(name);
	return fd;
}

static uint64_t place_of(const struct row *r)
{
	return r->from_end ? SIZE - r->from_end : r->from_start;
}

static struct fsprobe probe(int fd)
{
	struct err err = ERR_INIT;
	struct fsprobe p;

	ck_assert_msg(fsprobe_fd(fd, "img", &p, &err) == 0, "%s", err.msg);
	return p;
}

/* The findings while the row's bytes are in place. */
static struct fsprobe probe_with(int fd, const struct row *r)
{
	char was[ARRAY_LEN(r->pieces)][64];
	struct fsprobe p;

	for (size_t i = 0; i < ARRAY_LEN(r->pieces) && r->pieces[i].bytes; i++) {
		const struct piece *b = &r->pieces[i];
		off_t at = (off_t)(place_of(r) + b->at);

		ck_assert_int_eq(pread(fd, was[i], b->n, at), (ssize_t)b->n);
		ck_assert_int_eq(pwrite(fd, b->bytes, b->n, at), (ssize_t)b->n);
	}
	p = probe(fd);
	for (size_t i = 0; i < ARRAY_LEN(r->pieces) && r->pieces[i].bytes; i++)
		ck_assert_int_eq(
			pwrite(fd, was[i], r->pieces[i].n, (off_t)(place_of(r) + r->pieces[i].at)),
			(ssize_t)r->pieces[i].n);
	return p;
}

START_TEST(a_signature_where_files_lie_is_a_files_content)
{
	int fd AUTO(fd) = image(filesystems[_i].whole);
	const char *type = filesystems[_i].type;
	struct fsprobe plain = probe(fd);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fsprobe p = probe_with(fd, &rows[i]);

		ck_assert_msg(p.kind == FSPROBE_FILESYSTEM && str_eq(p.type, type) &&
		                      str_eq(p.uuid, plain.uuid) && p.size == plain.size,
		              "%s on %s, %s: %s", rows[i].name, type, rows[i].where, p.found);
		ck_assert_msg(rows[i].newer_differ || strstr(p.found, ", in a file)"), "%s: %s",
		              rows[i].name, p.found);
	}
}
END_TEST

START_TEST(a_signature_behind_the_filesystem_is_a_second_thing)
{
	int fd AUTO(fd) = image(filesystems[_i].shorter);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fsprobe p = probe_with(fd, &rows[i]);

		if (rows[i].from_start || (rows[i].newer_differ && !strstr(p.found, " and ")))
			continue;
		ck_assert_msg(p.kind == FSPROBE_FOREIGN && strstr(p.found, rows[i].name),
		              "%s on %s, %s: %s", rows[i].name, filesystems[_i].type, rows[i].where,
		              p.found);
	}
}
END_TEST

START_TEST(beside_a_superblock_that_is_not_sound_it_is_a_second_thing)
{
	/* A byte of the label: only the checksum is wrong. */
	static const struct {
		const char *script;
		off_t byte;
	} broken[] = {
		{ "mkfs.ext4 -q -O metadata_csum $f", 1024 + 0x80 },
		{ "mkfs.xfs -q $f", 108 + 8 },
		{ "mkfs.btrfs -q $f", 65536 + 0x12b + 9 },
	};
	int fd AUTO(fd) = image(broken[_i].script);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (!rows[i].newer_differ)
			ck_assert_int_eq(probe_with(fd, &rows[i]).kind, FSPROBE_FILESYSTEM);
	ck_assert_int_eq(pwrite(fd, "x", 1, broken[_i].byte), 1);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (!rows[i].newer_differ)
			ck_assert_int_eq(probe_with(fd, &rows[i]).kind, FSPROBE_FOREIGN);
}
END_TEST

START_TEST(one_in_a_file_does_not_hide_one_behind_the_filesystem)
{
	/*
	 * libblkid probes md 0.90 first; the filesystem ends between its place and that of md 1.0.
	 */
	int fd AUTO(fd) = image("mkfs.ext4 -q -b4096 $f 327664k");
	const struct row *inner = &rows[0], *outer = &rows[1];

	ck_assert_int_eq(probe_with(fd, inner).kind, FSPROBE_FILESYSTEM);
	ck_assert_int_eq(probe_with(fd, outer).kind, FSPROBE_FOREIGN);
	for (size_t i = 0; outer->pieces[i].bytes; i++)
		ck_assert_int_eq(pwrite(fd, outer->pieces[i].bytes, outer->pieces[i].n,
		                        (off_t)(place_of(outer) + outer->pieces[i].at)),
		                 (ssize_t)outer->pieces[i].n);
	ck_assert_int_eq(probe_with(fd, inner).kind, FSPROBE_FOREIGN);
}
END_TEST

/*
 * mdadm and bcache do not overwrite the first sector, and so leave the superblock of an older xfs.
 */
START_TEST(a_member_that_begins_behind_the_superblock_is_a_second_thing)
{
	static const struct row members[] = {
		{ "linux_raid_member", "md 1.2: 4 KiB from the start", .from_start = 4 * KIB,
		  .pieces = { BYTES(0, "\xfc\x4e\x2b\xa9\1\0\0\0"),
		              BYTES(144, "\x08\0\0\0\0\0\0\0") } },
		{ "bcache", "4 KiB from the start", .from_start = 4 * KIB,
		  .pieces = { BYTES(8, "\x08\0\0\0\0\0\0\0"),
		              BYTES(24, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f"
		                        "\x48\xba\x6d\x81") },
		  .newer_differ = true },
	};
	static const char *const scripts[] = { "mkfs.xfs -q $f", "mkfs.xfs -q -m crc=0 $f" };
	int fd AUTO(fd) = image(scripts[_i]);

	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		struct fsprobe p = probe_with(fd, &members[i]);

		if (members[i].newer_differ && !strstr(p.found, " and "))
			continue;
		ck_assert_msg(p.kind == FSPROBE_FOREIGN && strstr(p.found, members[i].name),
		              "%s: %s", members[i].where, p.found);
	}
}
END_TEST

START_TEST(a_filesystem_larger_than_its_device_holds_nothing)
{
	/* As after the device was shrunk: the end of its files is unknown. */
	int fd AUTO(fd) = image("truncate -s 400M $f; mkfs.ext4 -q $f; truncate -s 320M $f");

	ck_assert_int_eq(probe_with(fd, &rows[5]).kind, FSPROBE_FOREIGN);
}
END_TEST

/* The second copy of a GPT counts only with the protective MBR in the first sector. */
START_TEST(a_second_gpt_alone_is_not_seen_and_its_first_sector_is_no_file)
{
	static const char table[] = "echo 'label: gpt\n,' >$f.l; truncate -s 320M $f.t; sfdisk -q "
				    "--no-tell-kernel $f.t <$f.l; ";
	static const char clean[] = "; rm $f.t $f.l";
	static const struct {
		const char *copy;
		enum fsprobe_kind kind;
	} cases[] = {
		{ "dd if=$f.t of=$f bs=512 skip=655327 seek=655327 conv=notrunc",
		  FSPROBE_FILESYSTEM },
		{ "dd if=$f.t of=$f bs=512 skip=655327 seek=655327 conv=notrunc; "
		  "dd if=$f.t of=$f bs=512 count=1 conv=notrunc",
		  FSPROBE_FOREIGN },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *script AUTO(free) =
			xasprintf("mkfs.ext4 -q $f; %s%s%s", table, cases[i].copy, clean);
		int fd AUTO(fd) = image(script);
		struct fsprobe p = probe(fd);

		ck_assert_msg(p.kind == cases[i].kind, "%zu: %s", i, p.found);
	}
}
END_TEST

START_TEST(the_document_has_this_table)
{
	struct str table AUTO(str_clear) = STR_INIT(1 << 16);
	int fd AUTO(fd) = image("true");

	str_add(&table, "| signature | where libblkid looks |\n| --- | --- |\n");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fsprobe p = probe_with(fd, &rows[i]);

		/* libblkid recognises the bytes of the row. */
		ck_assert_msg(rows[i].newer_differ || strstr(p.found, rows[i].name), "%s, %s: %s",
		              rows[i].name, rows[i].where, p.found);
		if (i && str_eq(rows[i].name, rows[i - 1].name))
			str_addf(&table, "; %s", rows[i].where);
		else
			str_addf(&table, "%s| `%s` | %s", i ? " |\n" : "", rows[i].name,
			         rows[i].where);
	}
	str_add(&table, " |\n");
	doc_table_check("docs/reference/signatures.md", "places", table.ptr);
}
END_TEST

SUITE_TIMEOUT("tail", 120,
              LOOP(a_signature_where_files_lie_is_a_files_content, ARRAY_LEN(filesystems)),
              LOOP(a_signature_behind_the_filesystem_is_a_second_thing, ARRAY_LEN(filesystems)),
              LOOP(beside_a_superblock_that_is_not_sound_it_is_a_second_thing, 3),
              one_in_a_file_does_not_hide_one_behind_the_filesystem,
              LOOP(a_member_that_begins_behind_the_superblock_is_a_second_thing, 2),
              a_filesystem_larger_than_its_device_holds_nothing,
              a_second_gpt_alone_is_not_seen_and_its_first_sector_is_no_file,
              the_document_has_this_table);
