/* SPDX-License-Identifier: Apache-2.0 */
/* The block device of a volume, over recorded trees; and every reason to refuse. */
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/metric.h"
#include "node/device/device_kind.h"
#include "test/lib/kernel.h"
#include "test/lib/suite.h"

#define U1 "11111111-aaaa-4bbb-8ccc-000000000001"
#define U2 "22222222-aaaa-4bbb-8ccc-000000000002"
#define U3 "33333333-aaaa-4bbb-8ccc-000000000003"
#define U5 "55555555-aaaa-4bbb-8ccc-000000000005"
#define U6 "66666666-aaaa-4bbb-8ccc-000000000006"
#define MIB (UINT64_C(1) << 20)

static char *vendor_list[] = { (char *)"15b3", (char *)"1b36", NULL };
static const struct strs vendors = { vendor_list, 2 };

struct find_world {
	struct tree tree;
	struct kernel kernel; /* detects writes, which a search must not do */
	struct device_world world;
	struct device dev;
	struct str why;
	struct err err;
};

static void find_world_clear_p(struct find_world *f)
{
	kernel_clear(&f->kernel);
	tree_clear(&f->tree);
	str_clear(&f->why);
}

static void find_world_init(struct find_world *f, const char *state)
{
	*f = (struct find_world) { .why = STR_INIT(700) };
	tree_unpack(&f->tree, state);
	kernel_init(&f->kernel, &f->tree);
	f->world = (struct device_world) { .sysfs = f->tree.sysfs,
		                           .dev = f->tree.dev,
		                           .vendors = &vendors,
		                           .snap_device_id =
		                                   state && state[1] == '9' ? "6001" : "0010",
		                           .writer = &f->kernel.writer };
}

static int find(struct find_world *f, const char *pci, uint32_t nsid, const char *uuid,
                uint64_t capacity)
{
	struct device_want want = {
		.volume_id = "vol", .pci = pci, .nsid = nsid, .uuid = uuid, .capacity = capacity
	};
	int rc;

	err_clear(&f->err);
	rc = device_find(&f->world, &want, &f->dev, &f->why, &f->err);
	ck_assert_uint_eq(f->kernel.writes.n, 0);
	return rc;
}

/* ---- the kind of function ---- */

static const struct {
	const char *pci;
	enum device_function wanted;
	int rc;
	const char *says;
} function_rows[] = {
	{ "0000:01:00.1", DEVICE_FUNCTION_ANY, 0, "" },
	{ "0000:01:00.1", DEVICE_FUNCTION_VF, 0, "" },
	{ "0000:01:00.1", DEVICE_FUNCTION_PF, -1,
	  "volume vol: PCI function 0000:01:00.1 is a VF of 0000:01:00.0, but the volume's "
	  "functionType is pf; left alone" },
	{ "0000:01:00.0", DEVICE_FUNCTION_ANY, -1,
	  "volume vol: PCI function 0000:01:00.0 is a static PF of the DPU, with up to 4 VFs, and "
	  "not hot-plugged; left alone" },
	{ "0000:01:00.0", DEVICE_FUNCTION_PF, -1,
	  "volume vol: PCI function 0000:01:00.0 is a static PF of the DPU, with up to 4 VFs, and "
	  "not hot-plugged; left alone" },
	{ "0000:01:00.0", DEVICE_FUNCTION_VF, -1,
	  "volume vol: PCI function 0000:01:00.0 is not a VF, but the volume's functionType is "
	  "vf; left alone" },
};

START_TEST(a_pf_is_not_taken_for_a_vf_nor_a_vf_for_a_pf)
{
	struct find_world f AUTO(find_world_clear);

	find_world_init(&f, "s3-multipath-attached");
	for (size_t i = 0; i < ARRAY_LEN(function_rows); i++) {
		const struct device_want want = { .volume_id = "vol",
			                          .pci = function_rows[i].pci,
			                          .nsid = 1,
			                          .function = function_rows[i].wanted };
		int got;

		err_clear(&f.err);
		got = device_find(&f.world, &want, &f.dev, &f.why, &f.err);
		ck_assert_msg(got == function_rows[i].rc, "%zu: %d %s %s", i, got, f.why.ptr,
		              f.err.msg);
		ck_assert_str_eq(f.err.msg, function_rows[i].says);
	}
}
END_TEST

/* ---- recorded trees ---- */

struct found {
	const char *state, *pci;
	uint32_t nsid;
	const char *uuid;
	const char *name; /* NULL: not present yet */
	unsigned minor;
	uint64_t mib;
	const char *why; /* if it is absent */
};

static const struct found table[] = {
	/* Hidden paths lead to the head in the subsystem. */
	{ "s3-multipath-attached", "0000:01:00.1", 1, U1, "nvme0n1", 1, 512, NULL },
	{ "s3-multipath-attached", "0000:01:00.1", 3, U3, "nvme0n3", 5, 1536, NULL },
	{ "s3-multipath-attached", "0000:01:00.2", 2, U2, "nvme0n2", 3, 1024, NULL },
	{ "s3-multipath-attached", "0000:01:00.2", 1, U1, NULL, 0, 0,
	  "PCI function 0000:01:00.2 has no namespace 1; it has: 2" },
	{ "s3-multipath-attached", "0000:01:00.3", 1, U1, NULL, 0, 0,
	  "the function has no namespace" },
	{ "s3-multipath-attached", "0000:01:00.4", 1, U1, NULL, 0, 0,
	  "PCI function 0000:01:00.4 has no driver; nvme is expected" },
	{ "s3-multipath-attached", "0000:01:00.5", 1, U1, NULL, 0, 0,
	  "no PCI function 0000:01:00.5 in " },
	/* The Y of nvmeXnY is not the namespace id; two PFs have equal ids. */
	{ "s5-two-pfs-multipath", "0000:01:00.1", 2, U2, "nvme0n1", 1, 1024, NULL },
	{ "s5-two-pfs-multipath", "0000:01:00.3", 1, U1, "nvme0n2", 3, 512, NULL },
	{ "s5-two-pfs-multipath", "0000:02:00.1", 1, U5, "nvme1n1", 5, 256, NULL },
	{ "s5-two-pfs-multipath", "0000:02:00.2", 2, U6, "nvme1n2", 7, 256, NULL },
	{ "s5-two-pfs-multipath", "0000:02:00.1", 2, "", NULL, 0, 0, "it has: 1" },
	/* Without multipath the disk stands below the controller. */
	{ "s6-two-pfs-no-multipath", "0000:01:00.1", 2, U2, "nvme5n1", 0, 1024, NULL },
	{ "s6-two-pfs-no-multipath", "0000:01:00.3", 1, U1, "nvme4n2", 1, 512, NULL },
	{ "s6-two-pfs-no-multipath", "0000:02:00.1", 1, U5, "nvme2n1", 2, 256, NULL },
	{ "s6-two-pfs-no-multipath", "0000:02:00.2", 2, U6, "nvme3n2", 3, 256, NULL },
	/* More functions than one PCI device number can have. */
	{ "s7-20-vfs", "0000:01:00.1", 1, "00000001-aaaa-4bbb-8ccc-000000000001", "nvme0n1", 1, 320,
	  NULL },
	{ "s7-20-vfs", "0000:01:01.0", 8, "00000008-aaaa-4bbb-8ccc-000000000008", "nvme0n8", 15,
	  320, NULL },
	{ "s7-20-vfs", "0000:01:02.4", 20, "00000014-aaaa-4bbb-8ccc-000000000014", "nvme0n20", 39,
	  320, NULL },
	/* Patched vendor, VPD without VU. */
	{ "s9-bf3-vpd-15b3", "0000:01:00.1", 1, U1, "nvme0n1", 1, 512, NULL },
	{ "s9-bf3-vpd-15b3", "01:00.1", 3, U3, "nvme0n3", 5, 1536, NULL },
	/* Intermediate states. */
	{ "s1-pf-only", "0000:01:00.1", 1, U1, NULL, 0, 0, "no PCI function 0000:01:00.1" },
	{ "s2-vfs-unbound", "0000:01:00.1", 1, U1, NULL, 0, 0, "has no driver" },
	{ "s3a-vfs-bound-no-ns", "0000:01:00.1", 1, U1, NULL, 0, 0,
	  "the function has no namespace" },
	{ "s10-k612-vfs-gone-while-mounted", "0000:01:00.1", 1, U1, NULL, 0, 0,
	  "no PCI function 0000:01:00.1" },
};

START_TEST(every_recorded_namespace_is_found_and_nothing_else)
{
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		const struct found *want = &table[i];
		struct find_world f AUTO(find_world_clear);
		char *what AUTO(free) = xasprintf("%s %s/%u", want->state, want->pci, want->nsid);
		int rc;

		find_world_init(&f, want->state);
		rc = find(&f, want->pci, want->nsid, want->uuid, want->mib * MIB);
		ck_assert_msg(rc == (want->name ? 0 : DEVICE_ABSENT), "%s: %d %s %s", what, rc,
		              f.why.ptr, f.err.msg);
		if (rc == DEVICE_ABSENT) {
			ck_assert_msg(strstr(f.why.ptr, want->why), "%s: %s", what, f.why.ptr);
			continue;
		}
		ROW_STR_EQ(what, f.dev.name, want->name);
		ROW_STR_EQ(what, f.dev.uuid, want->uuid);
		ck_assert_msg(f.dev.devno == makedev(259, want->minor), "%s: %u:%u", what,
		              major(f.dev.devno), minor(f.dev.devno));
		ck_assert_msg(f.dev.size == want->mib * MIB, "%s: %ju", what,
		              (uintmax_t)f.dev.size);
		ck_assert_uint_eq(f.dev.nsid, want->nsid);
		ck_assert(!f.dev.read_only);
		ck_assert_uint_ne(f.dev.diskseq, 0);
		ck_assert(str_has_prefix(f.dev.path, f.tree.dev) &&
		          str_has_suffix(f.dev.path, want->name));
		ck_assert(str_has_suffix(f.dev.pci, want->pci));
	}
}
END_TEST

START_TEST(asynchronous_probing_changes_no_answer)
{
	/* s8 is s5 on a kernel that numbers controllers in arbitrary order. */
	struct find_world a AUTO(find_world_clear), b AUTO(find_world_clear);

	find_world_init(&a, "s5-two-pfs-multipath");
	find_world_init(&b, "s8-k612-two-pfs-multipath");
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		if (!str_eq(table[i].state, "s5-two-pfs-multipath") || !table[i].name)
			continue;
		ck_assert_int_eq(find(&a, table[i].pci, table[i].nsid, table[i].uuid, 0), 0);
		ck_assert_msg(find(&b, table[i].pci, table[i].nsid, table[i].uuid, 0) == 0, "%s %s",
		              b.why.ptr, b.err.msg);
		ck_assert_str_eq(a.dev.uuid, b.dev.uuid);
	}
}
END_TEST

/* ---- refusals ---- */

#define S3_VF "/sys/devices/pci0000:00/0000:00:04.0/0000:01:00.1"
#define S3_PATH S3_VF "/nvme/nvme1/nvme0c1n1"
#define S3_HEAD "/sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1"

struct edit {
	const char *path, *text; /* text NULL: removed */
};

static void apply_edits(const struct tree *t, const struct edit *edits, size_t n)
{
	for (size_t i = 0; i < n && edits[i].path; i++)
		if (edits[i].text)
			tree_write(t, edits[i].path, edits[i].text);
		else
			tree_remove(t, edits[i].path);
}

#define REFUSED(text) .rc = -1, .says = (text)
#define MISSING(text) .rc = DEVICE_ABSENT, .says = (text)

START_TEST(contradictions_are_refused_and_missing_facts_are_not_contradictions)
{
	static const struct {
		const char *what;
		struct edit edits[6];
		const char *pci;  /* NULL: the function with namespaces 1 and 3 */
		uint32_t nsid;    /* 0: 1 */
		const char *uuid; /* NULL: that of namespace 1 */
		uint64_t capacity;
		int rc;
		const char *says;
	} rows[] = {
		{ .what = "all agrees", .capacity = 512 * MIB },
		{ .what = "upper case UUID", .uuid = "11111111-AAAA-4BBB-8CCC-000000000001" },
		{ .what = "UUID without dashes", .uuid = "11111111aaaa4bbb8ccc000000000001" },
		{ .what = "no UUID published", .uuid = "" },
		{ .what = "UUID of zeros published",
		  .uuid = "00000000-0000-0000-0000-000000000000" },
		{ .what = "another UUID",
		  .uuid = U2,
		  REFUSED("volume vol: device nvme0n1 (PCI function 0000:01:00.1, namespace 1) has UUID " U1
		          " (expected " U2) },
		{ .what = "a UUID that is longer", .uuid = U1 "0", REFUSED("has UUID") },
		{ .what = "a UUID that is shorter", .uuid = "11111111", REFUSED("has UUID") },
		{ .what = "the UUID under another namespace id",
		  .nsid = 2,
		  REFUSED("namespace 1 (nvme0n1) of PCI function 0000:01:00.1 has UUID " U1
		          ", but the attachment has this UUID for namespace 2") },
		{ .what = "bogus identifiers: no uuid attribute",
		  .edits = { { S3_HEAD "/uuid", NULL },
		             { S3_HEAD "/wwid", "nvme.1b36-4d54-51454d55-00000001\n" },
		             { S3_PATH "/uuid", NULL },
		             { S3_PATH "/wwid", "nvme.1b36-4d54-51454d55-00000001\n" } },
		  .uuid = U2 },
		{ .what = "the uuid attribute shows the NGUID",
		  .edits = { { S3_HEAD "/uuid", U2 "\n" },
		             { S3_HEAD "/wwid", "eui.22222222aaaa4bbb8ccc000000000002\n" },
		             { S3_PATH "/uuid", U2 "\n" },
		             { S3_PATH "/wwid", "eui.22222222aaaa4bbb8ccc000000000002\n" } } },
		{ .what = "a kernel without wwid",
		  .edits = { { S3_HEAD "/wwid", NULL }, { S3_PATH "/wwid", NULL } },
		  .uuid = U2,
		  REFUSED("has UUID " U1) },
		{ .what = "smaller than the volume",
		  .capacity = 512 * MIB + 1,
		  REFUSED("device nvme0n1 has 512.0 MiB (536870912 bytes), but the volume has") },
		{ .what = "larger than the volume", .capacity = MIB },
		{ .what = "size 0",
		  .edits = { { S3_HEAD "/size", "0\n" } },
		  MISSING("has size 0 (this kernel may not support the LBA format of its namespace") },
		{ .what = "no size",
		  .edits = { { S3_HEAD "/size", NULL } },
		  MISSING("has size 0") },
		{ .what = "a size that is no number",
		  .edits = { { S3_HEAD "/size", "many\n" } },
		  REFUSED("size") },
		{ .what = "an impossible size",
		  .edits = { { S3_HEAD "/size", "18446744073709551615\n" } },
		  REFUSED("impossible") },
		{ .what = "no head yet",
		  .edits = { { S3_HEAD, NULL } },
		  MISSING("disk nvme0n1 of namespace 1 is not in") },
		{ .what = "no device number yet",
		  .edits = { { S3_HEAD "/dev", NULL } },
		  MISSING("disk nvme0n1") },
		{ .what = "a device number that is none",
		  .edits = { { S3_HEAD "/dev", "259\n" } },
		  REFUSED("/dev is \"259\"") },
		{ .what = "the head is hidden",
		  .edits = { { S3_HEAD "/hidden", "1\n" } },
		  MISSING("disk nvme0n1") },
		{ .what = "a key/value namespace, whose head is hidden",
		  .edits = { { S3_HEAD "/hidden", "1\n" } },
		  .uuid = "0123456789abcdef0123456789abcdef",
		  REFUSED("namespace 1 of PCI function 0000:01:00.1 is a key/value namespace "
		          "(NGUID 0123456789abcdef0123456789abcdef): Linux provides no block "
		          "device for it, only the character device ng0n1") },
		{ .what = "a key/value namespace of size 0",
		  .edits = { { S3_HEAD "/size", "0\n" } },
		  .uuid = "0123456789ABCDEF0123456789ABCDEF",
		  REFUSED("is a key/value namespace") },
		{ .what = "no head yet, and a UUID without dashes",
		  .edits = { { S3_HEAD, NULL } },
		  .uuid = "11111111aaaa4bbb8ccc000000000001",
		  MISSING("disk nvme0n1 of namespace 1 is not in") },
		{ .what = "no namespace yet, and an NGUID",
		  .nsid = 9,
		  .uuid = "0123456789abcdef0123456789abcdef",
		  MISSING("an NGUID instead of a UUID, as key/value namespaces do") },
		{ .what = "path and head differ in nsid",
		  .edits = { { S3_HEAD "/nsid", "7\n" } },
		  REFUSED("has nsid 1, but its disk nvme0n1 has nsid 7") },
		{ .what = "path and head differ in UUID",
		  .edits = { { S3_HEAD "/uuid", U2 "\n" }, { S3_HEAD "/wwid", "uuid." U2 "\n" } },
		  REFUSED("but its disk nvme0n1 has UUID " U2) },
		{ .what = "the same nsid twice",
		  .edits = { { S3_VF "/nvme/nvme1/nvme0c1n3/nsid", "1\n" } },
		  REFUSED("shows namespace 1 twice") },
		{ .what = "a controller that resets",
		  .edits = { { S3_VF "/nvme/nvme1/state", "resetting\n" } },
		  MISSING("controller nvme1 is in state \"resetting\"") },
		{ .what = "a controller that dies",
		  .edits = { { S3_VF "/nvme/nvme1/state", "deleting (no IO)\n" } },
		  MISSING("deleting (no IO)") },
		{ .what = "a controller that says nothing",
		  .edits = { { S3_VF "/nvme/nvme1/state", NULL } } },
		{ .what = "bound, but no controller yet",
		  .edits = { { S3_VF "/nvme", NULL } },
		  MISSING("no NVMe controller in") },
		{ .what = "another class",
		  .edits = { { S3_VF "/class", "0x010601\n" } },
		  REFUSED("class 0x010601") },
		{ .what = "another vendor",
		  .edits = { { S3_VF "/vendor", "0x8086\n" } },
		  REFUSED("vendor 8086") },
		{ .what = "no address", .pci = "", REFUSED("the PCI address is empty") },
		{ .what = "the host bridge", .pci = "00:00.0", REFUSED("host bridge") },
		{ .what = "a bridge", .pci = "0000:00:04.0", REFUSED("class 0x060400") },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct find_world f AUTO(find_world_clear);
		int rc;

		find_world_init(&f, "s3-multipath-attached");
		apply_edits(&f.tree, rows[i].edits, ARRAY_LEN(rows[i].edits));
		memset(&f.dev, 0x55, sizeof(f.dev));
		rc = find(&f, rows[i].pci ? rows[i].pci : "0000:01:00.1",
		          rows[i].nsid ? rows[i].nsid : 1, rows[i].uuid ? rows[i].uuid : U1,
		          rows[i].capacity);
		ck_assert_msg(rc == rows[i].rc, "%s: %d %s %s", rows[i].what, rc, f.why.ptr,
		              f.err.msg);
		if (rc)
			ck_assert_msg(strstr(rc < 0 ? f.err.msg : f.why.ptr, rows[i].says),
			              "%s: %s %s", rows[i].what, f.err.msg, f.why.ptr);
		if (rc)
			ck_assert_msg(f.dev.name[0] == 0x55, "%s: ret was written", rows[i].what);
	}
	ck_assert_int_eq(metric_value(METRIC_REFUSALS, LABELS("wrong uuid")), 4);
	ck_assert_int_gt(metric_value(METRIC_REFUSALS, LABELS("wrong size")), 0);
}
END_TEST

/* Like find(), for a key/value namespace as its character device. */
static int find_character(struct find_world *f, uint32_t nsid, const char *uuid)
{
	struct device_want want = { .volume_id = "vol",
		                    .pci = "0000:01:00.1",
		                    .nsid = nsid,
		                    .uuid = uuid,
		                    .character = true };
	int rc;

	err_clear(&f->err);
	rc = device_find(&f->world, &want, &f->dev, &f->why, &f->err);
	ck_assert_uint_eq(f->kernel.writes.n, 0);
	return rc;
}

#define NGUID "0123456789abcdef0123456789abcdef"
#define SHOWN "01234567-89ab-cdef-0123-456789abcdef\n"
#define S3_NG "/sys/devices/virtual/nvme-subsystem/nvme-subsys0/ng0n1"

START_TEST(a_key_value_namespace_is_its_character_device_when_its_nguid_proves_it)
{
	static const struct edit key_value[] = {
		{ S3_HEAD "/hidden", "1\n" },
		{ S3_HEAD "/size", "0\n" },
		{ S3_HEAD "/dev", NULL },
		{ S3_HEAD "/nguid", SHOWN },
		{ S3_HEAD "/uuid", SHOWN },
		{ S3_HEAD "/wwid", "eui." NGUID "\n" },
		{ S3_PATH "/nguid", SHOWN },
		{ S3_PATH "/uuid", SHOWN },
		{ S3_PATH "/wwid", "eui." NGUID "\n" },
	};
	static const struct {
		const char *what;
		struct edit edits[6];
		uint32_t nsid;    /* 0: 1 */
		const char *uuid; /* NULL: its NGUID */
		int rc;
		const char *says;
	} rows[] = {
		{ .what = "all agrees" },
		{ .what = "upper case", .uuid = "0123456789ABCDEF0123456789ABCDEF" },
		{ .what = "the UUID of 32 digits, beside another NGUID",
		  .edits = { { S3_HEAD "/nguid", U2 "\n" }, { S3_PATH "/nguid", U2 "\n" } } },
		{ .what = "a disk that is not hidden, of size 0",
		  .edits = { { S3_HEAD "/hidden", "0\n" } } },
		{ .what = "another NGUID",
		  .uuid = "1123456789abcdef0123456789abcdef",
		  REFUSED("volume vol: device ng0n1 (PCI function 0000:01:00.1, namespace 1) has "
		          "UUID 01234567-89ab-cdef-0123-456789abcdef (expected 1123456789abcdef") },
		{ .what = "no identifier",
		  .edits = { { S3_HEAD "/nguid", NULL },
		             { S3_HEAD "/uuid", NULL },
		             { S3_PATH "/nguid", NULL },
		             { S3_PATH "/uuid", NULL } },
		  REFUSED("has no NGUID (expected " NGUID "), and nothing else identifies it") },
		{ .what = "an NGUID of zeros",
		  .edits = { { S3_HEAD "/nguid", "00000000-0000-0000-0000-000000000000\n" },
		             { S3_HEAD "/uuid", NULL },
		             { S3_PATH "/nguid", NULL },
		             { S3_PATH "/uuid", NULL } },
		  REFUSED("has no NGUID") },
		{ .what = "path and disk differ",
		  .edits = { { S3_PATH "/nguid", U2 "\n" }, { S3_PATH "/uuid", U2 "\n" } },
		  REFUSED("has NGUID " U2 ", but its disk nvme0n1 has 01234567") },
		{ .what = "another namespace id",
		  .nsid = 9,
		  MISSING("PCI function 0000:01:00.1 has no namespace 9") },
		{ .what = "a disk with another namespace id",
		  .edits = { { S3_HEAD "/nsid", "2\n" } },
		  MISSING("character device ng0n1 of namespace 1 is not in") },
		{ .what = "no character device yet",
		  .edits = { { "/sys/class/nvme-generic/ng0n1", NULL } },
		  MISSING("character device ng0n1 of namespace 1 is not in") },
		{ .what = "the character device of another subsystem",
		  .edits = { { "/sys/class/nvme-generic/ng0n1", NULL },
		             { "/sys/class/nvme-generic/ng0n1/dev", "244:0\n" } },
		  MISSING("character device ng0n1 of namespace 1 is not in") },
		{ .what = "a number that is none",
		  .edits = { { S3_NG "/dev", "244\n" } },
		  REFUSED("/dev is \"244\"") },
		{ .what = "a controller that resets",
		  .edits = { { S3_VF "/nvme/nvme1/state", "resetting\n" } },
		  MISSING("controller nvme1 is in state \"resetting\"") },
		{ .what = "a UUID with dashes, which no key/value namespace has",
		  .uuid = U1,
		  MISSING("disk nvme0n1") },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct find_world f AUTO(find_world_clear);
		char name[64];
		int rc;

		find_world_init(&f, "s3-multipath-attached");
		apply_edits(&f.tree, key_value, ARRAY_LEN(key_value));
		device_show_key_value(&f.world, "nvme0n1", name);
		ck_assert_str_eq(name, "ng0n1");
		device_show_key_value(&f.world, "nvme0n2", name);
		ck_assert_str_eq(name, "nvme0n2");
		apply_edits(&f.tree, rows[i].edits, ARRAY_LEN(rows[i].edits));
		rc = find_character(&f, rows[i].nsid ? rows[i].nsid : 1,
		                    rows[i].uuid ? rows[i].uuid : NGUID);
		ck_assert_msg(rc == rows[i].rc, "%s: %d %s %s", rows[i].what, rc, f.why.ptr,
		              f.err.msg);
		if (rc) {
			ck_assert_msg(strstr(rc < 0 ? f.err.msg : f.why.ptr, rows[i].says),
			              "%s: %s %s", rows[i].what, f.err.msg, f.why.ptr);
			continue;
		}
		ck_assert(f.dev.character && !f.dev.size && f.dev.nsid == 1);
		ck_assert_str_eq(f.dev.name, "ng0n1");
		ck_assert_msg(str_has_suffix(f.dev.path, "/dev/ng0n1"), "%s", f.dev.path);
		ck_assert_uint_eq(f.dev.devno, makedev(244, 0));
		ck_assert_str_eq(f.dev.pci, "0000:01:00.1");
		/* A stage needs a disk. */
		ck_assert_int_eq(find(&f, "0000:01:00.1", 1, NGUID, 0), -1);
		ck_assert_int_eq(f.err.code, ERR_PRECONDITION);
		ck_assert_ptr_nonnull(
			strstr(f.err.msg, "which host attach --device makes available"));
	}
}
END_TEST

START_TEST(a_bad_address_is_invalid_and_a_wrong_device_a_failed_precondition)
{
	struct find_world f AUTO(find_world_clear);

	find_world_init(&f, "s3-multipath-attached");
	ck_assert_int_eq(find(&f, "01:00", 1, "", 0), -1);
	ck_assert_int_eq(f.err.code, ERR_INVALID);
	ck_assert(str_has_prefix(f.err.msg, "volume vol: "));
	ck_assert_int_eq(find(&f, "0000:01:00.1", 0, "", 0), -1);
	ck_assert_int_eq(f.err.code, ERR_INVALID);
	ck_assert_int_eq(find(&f, "0000:01:00.1", 1, U2, 0), -1);
	ck_assert_int_eq(f.err.code, ERR_PRECONDITION);
}
END_TEST

START_TEST(a_function_of_another_driver_is_refused_and_a_parked_one_awaited)
{
	struct find_world f AUTO(find_world_clear);

	find_world_init(&f, "s2-vfs-unbound");
	tree_link(&f.tree, S3_VF "/driver", "../../../../bus/pci/drivers/vfio-pci");
	ck_assert_int_eq(find(&f, "0000:01:00.1", 1, U1, 0), -1);
	ck_assert_int_eq(f.err.code, ERR_PRECONDITION);
	ck_assert_ptr_nonnull(strstr(f.err.msg, "held by driver vfio-pci"));
	tree_link(&f.tree, S3_VF "/driver", "../../../../bus/pci/drivers/pci-stub");
	ck_assert_int_eq(find(&f, "0000:01:00.1", 1, U1, 0), DEVICE_ABSENT);
	ck_assert_ptr_nonnull(strstr(f.why.ptr, "held by driver pci-stub; nvme is expected"));
}
END_TEST

START_TEST(the_disk_number_may_be_missing_but_not_nonsense)
{
	struct find_world f AUTO(find_world_clear);

	find_world_init(&f, "s3-multipath-attached");
	tree_remove(&f.tree, S3_HEAD "/diskseq");
	ck_assert_int_eq(find(&f, "0000:01:00.1", 1, U1, 0), 0);
	ck_assert_uint_eq(f.dev.diskseq, 0);
	tree_write(&f.tree, S3_HEAD "/diskseq", "x\n");
	ck_assert_int_eq(find(&f, "0000:01:00.1", 1, U1, 0), -1);
	ck_assert_ptr_nonnull(strstr(f.err.msg, "diskseq"));
}
END_TEST

/* ---- check ---- */

START_TEST(a_device_is_checked_against_what_is_wanted)
{
	static const struct {
		const char *what;
		struct device_want want;
		const char *says; /* NULL: accepted */
	} rows[] = {
		{ "nothing is known", { .volume_id = "vol" }, NULL },
		{ "all agrees",
		  { .volume_id = "vol", .nsid = 3, .uuid = U3, .capacity = MIB },
		  NULL },
		{ "nsid",
		  { .volume_id = "vol", .nsid = 4, .uuid = U3, .capacity = MIB },
		  "volume vol: device nvme0n3 has namespace id 3 (expected 4" },
		{ "uuid",
		  { .volume_id = "vol", .nsid = 3, .uuid = U1, .capacity = MIB },
		  "has UUID " U3 " (expected " U1 },
		{ "size",
		  { .volume_id = "vol", .nsid = 3, .uuid = U3, .capacity = MIB + 1 },
		  "device nvme0n3 has 1.0 MiB" },
		{ "no volume id",
		  { .volume_id = "", .nsid = 4, .uuid = "", .capacity = 0 },
		  "device nvme0n3 has namespace id 3" },
	};
	struct device dev = { .name = "nvme0n3", .nsid = 3, .uuid = U3, .size = MIB };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;
		int rc = device_check(&dev, &rows[i].want, &err);

		ck_assert_msg(rc == (rows[i].says ? -1 : 0), "%s: %d", rows[i].what, rc);
		if (rc)
			ck_assert_msg(strstr(err.msg, rows[i].says) && err.code == ERR_PRECONDITION,
			              "%s: %s", rows[i].what, err.msg);
	}
	*dev.uuid = '\0';
	ck_assert_int_eq(device_check(&dev, &rows[3].want, &(struct err)ERR_INIT), 0);
}
END_TEST

/* ---- by number ---- */

START_TEST(a_device_is_found_by_its_number)
{
	static const struct {
		const char *what, *state;
		unsigned minor;
		const char *name, *pci;
		uint32_t nsid;
	} rows[] = {
		{ "a multipath head", "s3-multipath-attached", 5, "nvme0n3", "0000:01:00.1", 3 },
		{ "a head of the second subsystem", "s5-two-pfs-multipath", 7, "nvme1n2",
		  "0000:02:00.2", 2 },
		{ "without multipath", "s6-two-pfs-no-multipath", 0, "nvme5n1", "0000:01:00.1", 2 },
		{ "a two-digit path", "s7-20-vfs", 39, "nvme0n20", "0000:01:02.4", 20 },
		{ "nvme0n1, not nvme0n10", "s7-20-vfs", 1, "nvme0n1", "0000:01:00.1", 1 },
		{ "a mount whose device vanished", "s10-k612-vfs-gone-while-mounted", 1, NULL, NULL,
		  0 },
		{ "another number", "s3-multipath-attached", 77, NULL, NULL, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct find_world f AUTO(find_world_clear);
		int rc;

		find_world_init(&f, rows[i].state);
		rc = device_by_number(&f.world, makedev(259, rows[i].minor), &f.dev, &f.err);
		ck_assert_msg(rc == (rows[i].name ? 0 : DEVICE_ABSENT), "%s: %d %s", rows[i].what,
		              rc, f.err.msg);
		if (rc)
			continue;
		ROW_STR_EQ(rows[i].what, f.dev.name, rows[i].name);
		ROW_STR_EQ(rows[i].what, f.dev.pci, rows[i].pci);
		ck_assert_uint_eq(f.dev.nsid, rows[i].nsid);
	}
}
END_TEST

START_TEST(a_number_that_moved_to_another_disk_is_no_device)
{
	struct find_world f AUTO(find_world_clear);

	find_world_init(&f, "s3-multipath-attached");
	tree_write(&f.tree, S3_HEAD "/dev", "259:9\n");
	ck_assert_int_eq(device_by_number(&f.world, makedev(259, 1), &f.dev, &f.err),
	                 DEVICE_ABSENT);
}
END_TEST

START_TEST(a_disk_with_two_functions_names_neither)
{
	struct find_world f AUTO(find_world_clear);

	find_world_init(&f, "s3-multipath-attached");
	tree_link(&f.tree, "/sys/class/block/nvme0c2n1",
	          "../../devices/pci0000:00/0000:00:04.0/0000:01:00.2/nvme/nvme2");
	ck_assert_int_eq(device_by_number(&f.world, makedev(259, 1), &f.dev, &f.err), 0);
	ck_assert_str_eq(f.dev.pci, "");
}
END_TEST

START_TEST(any_block_device_has_a_number)
{
	struct find_world f AUTO(find_world_clear);

	find_world_init(&f, NULL);
	tree_write(&f.tree, "/sys/devices/virtual/block/sd/dev", "7:3\n");
	tree_write(&f.tree, "/sys/devices/virtual/block/sd/size", "8\n");
	tree_link(&f.tree, "/sys/class/block/sd", "../../devices/virtual/block/sd");
	tree_link(&f.tree, "/sys/dev/block/7:3", "../../devices/virtual/block/sd");
	ck_assert_int_eq(device_by_number(&f.world, makedev(7, 3), &f.dev, &f.err), 0);
	ck_assert_str_eq(f.dev.name, "sd");
	ck_assert_uint_eq(f.dev.size, 4096);
	ck_assert_uint_eq(f.dev.nsid, 0);
	ck_assert_str_eq(f.dev.pci, "");
}
END_TEST

/* ---- functions ---- */

START_TEST(functions_of_snap_pfs_are_counted)
{
	static const struct {
		const char *what, *state, *device_id;
		unsigned want;
		const char *where;
	} rows[] = {
		{ "no VFs yet", "s1-pf-only", "0010", 0, "0000:01:00.0 with 0 VFs" },
		{ "unbound ones count", "s2-vfs-unbound", "0010", 4, "0000:01:00.0 with 4 VFs" },
		{ "two PFs", "s5-two-pfs-multipath", "0010", 5,
		  "0000:01:00.0 with 3 VFs, 0000:02:00.0 with 2 VFs" },
		{ "20", "s7-20-vfs", "0010", 20, "with 20 VFs" },
		{ "another device id", "s7-20-vfs", "6001", 0, "NVMe PFs 15b3|1b36:6001 in " },
		{ "vendor 15b3", "s9-bf3-vpd-15b3", "6001", 4, "with 4 VFs" },
		{ "no PCI", NULL, "6001", 0, "/sys/bus/pci/devices: none" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct find_world f AUTO(find_world_clear);
		unsigned n = 77;

		find_world_init(&f, rows[i].state);
		f.world.snap_device_id = rows[i].device_id;
		ck_assert_int_eq(device_count_functions(&f.world, &n, &f.why, &f.err), 0);
		ck_assert_msg(n == rows[i].want, "%s: %u", rows[i].what, n);
		ck_assert_msg(strstr(f.why.ptr, rows[i].where), "%s: %s", rows[i].what, f.why.ptr);
		ck_assert_int_eq(device_count_functions(&f.world, &n, NULL, &f.err), 0);
	}
}
END_TEST

START_TEST(release_clears_our_override_and_touches_nothing_else)
{
	static const struct {
		const char *what, *pci, *writes;
		int want;
	} rows[] = {
		{ "ours", "0000:01:00.1", "driver_override ", 0 },
		{ "one without override", "0000:01:00.2", "", 0 },
		{ "one that has gone", "0000:01:00.7", "", 0 },
		{ "a bridge", "0000:00:04.0", "", -1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct find_world f AUTO(find_world_clear);
		char *writes AUTO(free) = NULL;
		int rc;

		find_world_init(&f, "s3-multipath-attached");
		tree_write(&f.tree, "/sys/bus/pci/devices/0000:00:04.0/driver_override", "nvme\n");
		snprintf(f.dev.pci, sizeof(f.dev.pci), "%s", rows[i].pci);
		f.dev.kind = &device_kind_nvme;
		rc = device_release(&f.world, &f.dev, &f.err);
		ck_assert_msg(rc == rows[i].want, "%s: %d %s", rows[i].what, rc, f.err.msg);
		writes = kernel_writes(&f.kernel);
		ROW_STR_EQ(rows[i].what, writes, rows[i].writes);
	}
}
END_TEST

SUITE_TIMEOUT("device", 120, a_pf_is_not_taken_for_a_vf_nor_a_vf_for_a_pf,
              every_recorded_namespace_is_found_and_nothing_else,
              asynchronous_probing_changes_no_answer,
              contradictions_are_refused_and_missing_facts_are_not_contradictions,
              a_key_value_namespace_is_its_character_device_when_its_nguid_proves_it,
              a_bad_address_is_invalid_and_a_wrong_device_a_failed_precondition,
              a_function_of_another_driver_is_refused_and_a_parked_one_awaited,
              the_disk_number_may_be_missing_but_not_nonsense,
              a_device_is_checked_against_what_is_wanted, a_device_is_found_by_its_number,
              a_number_that_moved_to_another_disk_is_no_device,
              a_disk_with_two_functions_names_neither, any_block_device_has_a_number,
              functions_of_snap_pfs_are_counted,
              release_clears_our_override_and_touches_nothing_else);
