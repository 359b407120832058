/* SPDX-License-Identifier: Apache-2.0 */
/* PCI addresses, the usable functions, and the domain of a function. */
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "node/device/pci.h"
#include "test/lib/suite.h"
#include "test/lib/tree.h"

#define PF "/sys/devices/pci0000:00/0000:00:04.0/0000:01:00.0"
#define VF "/sys/devices/pci0000:00/0000:00:04.0/0000:01:00.1"

static char *vendor_list[] = { (char *)"15b3", (char *)"1b36", NULL };
static const struct strs vendors = { vendor_list, 2 };

static struct device_world world_of(const struct tree *t)
{
	return (struct device_world) { .sysfs = t->sysfs, .dev = t->dev };
}

/* NVMe functions of both vendors, VFs of PFs with this device id. */
static struct pci_match match_of(const char *device_id)
{
	return (struct pci_match) { .class_code = 0x0108,
		                    .vendors = &vendors,
		                    .pf_device_id = device_id };
}

/* ---- addresses ---- */

START_TEST(addresses_are_parsed_and_padded)
{
	static const struct {
		const char *what, *text, *want; /* want NULL: refused */
	} rows[] = {
		{ "as sysfs writes it", "0000:26:0c.1", "0000:26:0c.1" },
		{ "without domain", "26:0c.1", "0000:26:0c.1" },
		{ "an empty domain", ":3b:00.5", "0000:3b:00.5" },
		{ "a short domain", "1:3b:00.5", "0001:3b:00.5" },
		{ "a domain above ffff", "10000:e1:00.0", "10000:e1:00.0" },
		{ "upper case", "000A:3B:1F.7", "000a:3b:1f.7" },
		{ "short numbers", "0:1:2.3", "0000:01:02.3" },
		{ "function 0 of a real device", "0000:00:01.0", "0000:00:01.0" },
		{ "the highest", "1ffff:ff:1f.7", "1ffff:ff:1f.7" },
		{ "the host bridge", "00:00.0", NULL },
		{ "the host bridge of a domain", "0004:00:00.0", NULL },
		{ "nothing", "", NULL },
		{ "a device number above 1f", "0000:26:20.0", NULL },
		{ "a function above 7", "0000:26:0c.8", NULL },
		{ "two function digits", "0000:26:0c.01", NULL },
		{ "three bus digits", "0000:126:0c.0", NULL },
		{ "a domain above 1ffff", "20000:26:0c.0", NULL },
		{ "six domain digits", "000000:26:0c.0", NULL },
		{ "no function", "0000:26:0c", NULL },
		{ "no hex", "0000:2g:0c.1", NULL },
		{ "blank before", " 0000:26:0c.1", NULL },
		{ "newline behind", "0000:26:0c.1\n", NULL },
		{ "a sign", "0000:+6:0c.1", NULL },
		{ "0x", "0x0:26:0c.1", NULL },
		{ "four parts", "0:0000:26:0c.1", NULL },
		{ "a path", "../../0000:26:0c.1", NULL },
		{ "only colons", "::", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pci_address a;
		struct err err = ERR_INIT;
		char text[PCI_NAME_MAX];
		int rc = pci_parse(rows[i].text, &a, &err);

		ck_assert_msg(rc == (rows[i].want ? 0 : -1), "%s: %d", rows[i].what, rc);
		if (rc) {
			ck_assert_int_eq(err.code, ERR_INVALID);
			continue;
		}
		pci_format(&a, text);
		ROW_STR_EQ(rows[i].what, text, rows[i].want);
	}
}
END_TEST

START_TEST(a_domain_that_was_not_given_is_not_known)
{
	static const char *const without[] = { "26:0c.1", ":26:0c.1" };
	struct pci_address a;
	struct err err = ERR_INIT;

	for (size_t i = 0; i < ARRAY_LEN(without); i++) {
		ck_assert_int_eq(pci_parse(without[i], &a, &err), 0);
		ck_assert(!a.has_domain);
	}
	ck_assert_int_eq(pci_parse("0:26:0c.1", &a, &err), 0);
	ck_assert(a.has_domain);
	ck_assert_int_eq(pci_parse(NULL, &a, &err), -1);
}
END_TEST

/* ---- usable ---- */

START_TEST(only_nvme_functions_of_accepted_vendors_and_snap_parents_are_usable)
{
	static const struct {
		const char *what;
		const char *edit, *text; /* the edit of the tree; NULL: none */
		const char *device_id, *pci;
		int want;
		const char *says;
	} rows[] = {
		{ "a VF", NULL, NULL, "6001", "0000:01:00.1", 0, NULL },
		{ "a PF", NULL, NULL, "6001", "0000:01:00.0", 0, NULL },
		{ "a PF by class and vendor alone", NULL, NULL, "1234", "0000:01:00.0", 0, NULL },
		{ "none", NULL, NULL, "6001", "0000:77:00.0", PCI_ABSENT, NULL },
		{ "a bridge", NULL, NULL, "6001", "0000:00:04.0", -1, "class 0x060400" },
		{ "another class", VF "/class", "0x020000\n", "6001", "0000:01:00.1", -1,
		  "0000:01:00.1 has class 0x020000, not 0x0108xx" },
		{ "another NVM interface", VF "/class", "0x010803\n", "6001", "0000:01:00.1", 0,
		  NULL },
		{ "another vendor", VF "/vendor", "0x8086\n", "6001", "0000:01:00.1", -1,
		  "vendor 8086 (accepted: 15b3, 1b36)" },
		{ "a VF of no SNAP PF", NULL, NULL, "6002", "0000:01:00.1", -1,
		  "is a VF of 0000:01:00.0, which has device id 6001, not the SNAP controller's "
		  "6002" },
		{ "a PF of another vendor", PF "/vendor", "0x8086\n", "6001", "0000:01:00.1", -1,
		  "parent of PCI function 0000:01:00.1" },
		{ "a PF of another class", PF "/class", "0x020000\n", "6001", "0000:01:00.1", -1,
		  "0000:01:00.0 has class 0x020000" },
		{ "a class that is none", VF "/class", "express\n", "6001", "0000:01:00.1", -1,
		  "not a hexadecimal number" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct pci_match m = match_of(rows[i].device_id);
		struct tree t AUTO(tree_clear) = { 0 };
		struct device_world w;
		struct err err = ERR_INIT;
		int rc;

		tree_unpack(&t, "s9-bf3-vpd-15b3");
		w = world_of(&t);
		if (rows[i].edit)
			tree_write(&t, rows[i].edit, rows[i].text);
		rc = pci_usable(&w, rows[i].pci, &m, &err);
		ck_assert_msg(rc == rows[i].want, "%s: %d %s", rows[i].what, rc, err.msg);
		if (rc < 0) {
			ck_assert_int_eq(err.code, ERR_PRECONDITION);
			ck_assert_msg(strstr(err.msg, rows[i].says), "%s: %s", rows[i].what,
			              err.msg);
		}
	}
}
END_TEST

START_TEST(a_vendor_id_is_compared_whole)
{
	const struct pci_match m = match_of("6001");
	struct tree t AUTO(tree_clear) = { 0 };
	struct device_world w;
	struct err err = ERR_INIT;

	tree_unpack(&t, "s9-bf3-vpd-15b3");
	w = world_of(&t);
	tree_write(&t, VF "/vendor", "0x5b3\n");
	ck_assert_int_eq(pci_usable(&w, "0000:01:00.1", &m, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.msg, "vendor 05b3"));
}
END_TEST

/* ---- the domain ---- */

#define VUID_0 "MT2328XZ17DFNVMES0D0F2"
#define VUID_1 "MT2328XZ99AANVMES0D0F2"

static void write_vuid(const struct tree *t, const char *dir, const char *vuid)
{
	char path[300], bytes[64];
	size_t n = strlen(vuid);

	memcpy(bytes, "\x90", 1);
	bytes[1] = (char)(n + 3);
	bytes[2] = 0;
	memcpy(bytes + 3, "VU", 2);
	bytes[5] = (char)n;
	memcpy(bytes + 6, vuid, n);
	memcpy(bytes + 6 + n, "\x78", 1);
	snprintf(path, sizeof(path), "%s/vpd", dir);
	tree_write_bytes(t, path, bytes, n + 7);
}

/* A PF and its VF, with class, ids and (vuid not NULL) the PF's VPD. */
static void add_functions(const struct tree *t, const char *domain, const char *vuid)
{
	char dir[200], path[300], target[300];

	for (int fn = 0; fn < 2; fn++) {
		snprintf(dir, sizeof(dir), "/sys/devices/pci%s:26/%s:26:0c.%d", domain, domain, fn);
		snprintf(path, sizeof(path), "%s/class", dir);
		tree_write(t, path, "0x010802\n");
		snprintf(path, sizeof(path), "%s/vendor", dir);
		tree_write(t, path, "0x15b3\n");
		snprintf(path, sizeof(path), "%s/device", dir);
		tree_write(t, path, "0x6001\n");
		if (fn == 0 && vuid)
			write_vuid(t, dir, vuid);
		if (fn == 1) {
			snprintf(path, sizeof(path), "%s/physfn", dir);
			snprintf(target, sizeof(target), "../%s:26:0c.0", domain);
			tree_link(t, path, target);
		}
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s:26:0c.%d", domain, fn);
		snprintf(target, sizeof(target), "../../..%s", dir + 4);
		tree_link(t, path, target);
	}
}

struct domain {
	const char *domain, *vuid;
};

START_TEST(the_domain_is_found_by_vuid_or_must_be_unique)
{
	static const struct {
		const char *what;
		struct domain domains[2];
		const char *address, *vuid;
		int want;
		const char *says; /* the function found, or part of the text */
	} rows[] = {
		{ "only one domain", { { "0000", NULL } }, "26:0c.1", "", 0, "0000:26:0c.1" },
		{ "only another domain", { { "0004", NULL } }, "26:0c.1", "", 0, "0004:26:0c.1" },
		{ "given domain",
		  { { "0000", NULL }, { "0001", NULL } },
		  "1:26:0c.1",
		  "",
		  0,
		  "0001:26:0c.1" },
		{ "given domain is not there",
		  { { "0004", NULL } },
		  "0000:26:0c.1",
		  "",
		  PCI_ABSENT,
		  "in another domain: 0004:26:0c.1" },
		{ "two domains, none given",
		  { { "0000", NULL }, { "0001", NULL } },
		  "26:0c.1",
		  "",
		  -1,
		  "0000:26:0c.1, 0001:26:0c.1; refusing to choose" },
		{ "VUID in domain 0001",
		  { { "0000", VUID_0 }, { "0001", VUID_1 } },
		  "26:0c.1",
		  VUID_1,
		  0,
		  "0001:26:0c.1" },
		{ "VUID in domain 0000",
		  { { "0000", VUID_0 }, { "0001", VUID_1 } },
		  "26:0c.1",
		  VUID_0,
		  0,
		  "0000:26:0c.1" },
		{ "the published domain is wrong",
		  { { "0000", VUID_0 }, { "0004", VUID_1 } },
		  "0000:26:0c.1",
		  VUID_1,
		  0,
		  "0004:26:0c.1" },
		{ "VUID of a PF",
		  { { "0000", VUID_0 }, { "0001", VUID_1 } },
		  "26:0c.0",
		  VUID_1,
		  0,
		  "0001:26:0c.0" },
		{ "the same VUID twice",
		  { { "0000", VUID_0 }, { "0001", VUID_0 } },
		  "26:0c.1",
		  VUID_0,
		  -1,
		  "refusing to choose" },
		{ "no such VUID (yet)",
		  { { "0000", VUID_0 } },
		  "26:0c.1",
		  VUID_1,
		  PCI_ABSENT,
		  "0000:26:0c.1 has VUID " VUID_0 },
		{ "no VPD proves nothing",
		  { { "0000", NULL } },
		  "26:0c.1",
		  VUID_1,
		  PCI_ABSENT,
		  "the VUID of 0000:26:0c.1 is unknown: it has no VPD" },
		{ "no VPD beside the right one",
		  { { "0000", NULL }, { "0001", VUID_1 } },
		  "26:0c.1",
		  VUID_1,
		  0,
		  "0001:26:0c.1" },
		{ "a VUID that begins the same",
		  { { "0000", VUID_0 } },
		  "26:0c.1",
		  "MT2328XZ17DF",
		  PCI_ABSENT,
		  "has VUID" },
		{ "no function at all",
		  { { "0000", VUID_0 } },
		  "27:0c.1",
		  VUID_0,
		  PCI_ABSENT,
		  "no PCI function 27:0c.1 of any domain with VUID " VUID_0 },
	};

	const struct pci_match m = match_of("6001");

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct tree t AUTO(tree_clear) = { 0 };
		struct str why AUTO(str_clear) = STR_INIT(700);
		struct device_world w;
		struct pci_address a;
		struct err err = ERR_INIT;
		char pci[PCI_NAME_MAX] = "";
		int rc;

		tree_unpack(&t, NULL);
		w = world_of(&t);
		for (size_t k = 0; k < 2 && rows[i].domains[k].domain; k++)
			add_functions(&t, rows[i].domains[k].domain, rows[i].domains[k].vuid);
		ck_assert_int_eq(pci_parse(rows[i].address, &a, &err), 0);
		rc = pci_resolve(&w, &a, rows[i].vuid, &m, pci, &why, &err);
		ck_assert_msg(rc == rows[i].want, "%s: %d %s %s", rows[i].what, rc, why.ptr,
		              err.msg);
		ck_assert_msg(strstr(rc == 0            ? pci
		                     : rc == PCI_ABSENT ? why.ptr
		                                        : err.msg,
		                     rows[i].says),
		              "%s: \"%s\" \"%s\" \"%s\"", rows[i].what, pci, why.ptr, err.msg);
		if (rc < 0)
			ck_assert_int_eq(err.code, ERR_PRECONDITION);
	}
}
END_TEST

START_TEST(a_function_that_may_not_be_touched_is_never_a_candidate)
{
	const struct pci_match m = match_of("6001");
	struct tree t AUTO(tree_clear) = { 0 };
	struct str why AUTO(str_clear) = STR_INIT(700);
	struct pci_address a;
	struct device_world w;
	struct err err = ERR_INIT;
	char pci[PCI_NAME_MAX];

	tree_unpack(&t, NULL);
	w = world_of(&t);
	add_functions(&t, "0000", VUID_0);
	tree_write(&t, "/sys/devices/pci0000:26/0000:26:0c.1/class", "0x020000\n");
	ck_assert_int_eq(pci_parse("26:0c.1", &a, &err), 0);
	/* It has the VUID, but is not an NVMe function. */
	ck_assert_int_eq(pci_resolve(&w, &a, VUID_0, &m, pci, &why, &err), PCI_ABSENT);
	ck_assert_ptr_nonnull(strstr(why.ptr, "class 0x020000"));
	/* Without a VUID it is the only one there: refused. */
	ck_assert_int_eq(pci_resolve(&w, &a, "", &m, pci, &why, &err), -1);
	ck_assert_int_eq(err.code, ERR_PRECONDITION);
	/* A usable function of another domain is not confused with it. */
	add_functions(&t, "0001", VUID_1);
	ck_assert_int_eq(pci_resolve(&w, &a, "", &m, pci, &why, &(struct err)ERR_INIT), 0);
	ck_assert_str_eq(pci, "0001:26:0c.1");
}
END_TEST

START_TEST(a_tree_without_pci_has_no_function)
{
	const struct pci_match m = match_of("6001");
	struct tree t AUTO(tree_clear) = { 0 };
	struct str why AUTO(str_clear) = STR_INIT(700);
	struct pci_address a;
	struct device_world w;
	struct err err = ERR_INIT;
	char pci[PCI_NAME_MAX];

	tree_unpack(&t, NULL);
	w = world_of(&t);
	ck_assert_int_eq(pci_parse("26:0c.1", &a, &err), 0);
	ck_assert_int_eq(pci_resolve(&w, &a, "", &m, pci, &why, &err), PCI_ABSENT);
	ck_assert_ptr_nonnull(strstr(why.ptr, t.sysfs));
}
END_TEST

SUITE_TIMEOUT("pci", 120, addresses_are_parsed_and_padded, a_domain_that_was_not_given_is_not_known,
              only_nvme_functions_of_accepted_vendors_and_snap_parents_are_usable,
              a_vendor_id_is_compared_whole, the_domain_is_found_by_vuid_or_must_be_unique,
              a_function_that_may_not_be_touched_is_never_a_candidate,
              a_tree_without_pci_has_no_function);
