/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second kind of device beside NVMe, whose devices are tags below a function, without disk or
 * node. Finding, waiting, listing, counting and releasing go through the kind of the volume or
 * function, never through NVMe.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/device/device_hold.h"
#include "node/device/device_kind.h"
#include "node/device/sysfs.h"
#include "test/lib/kernel.h"
#include "test/lib/suite.h"

#define DEVICES "/sys/bus/pci/devices/"
#define PF "0000:02:00.0"
#define VF "0000:02:00.1"
#define NVME_PF "0000:01:00.0"
#define TAG DEVICES VF "/tag"
#define BOUND "driver_override tagfs; bind " VF

/* ---- NVMe, without the functions that must not be called here ---- */

static struct pci_match other_functions(const struct device_world *w)
{
	return (struct pci_match) { .class_code = 0x0108,
		                    .vendors = w->vendors,
		                    .pf_device_id = w->snap_device_id };
}

/* Reports that there are disks; their names are never requested. */
static int tag_list(const struct device_world *w, const char *pci, struct strs *ret,
                    struct err *err)
{
	(void)w;
	(void)pci;
	(void)err;
	strs_add(ret, "share1");
	return 0;
}

static const char *const no_subsystems[] = { NULL };

static const struct device_kind other = {
	.name = "NVMe",
	.emulation = EMULATION_NVME,
	.driver = "nvme",
	.subsystems = no_subsystems,
	.sriov_advice = "turn NVMe on",
	.functions = other_functions,
	.list = tag_list,
};

/* ---- the second kind ---- */

static struct {
	bool in_use;
	unsigned found, held, held_only, asked_live;
} tags;

static char *vendor_list[] = { (char *)"1af4", NULL };
static const struct strs tag_vendors = { vendor_list, 1 };

static struct pci_match tag_functions(const struct device_world *w)
{
	(void)w;
	return (struct pci_match) { .class_code = 0x0180,
		                    .vendors = &tag_vendors,
		                    .pf_device_id = "105a" };
}

static int tag_check_want(const struct device_want *want, struct err *err)
{
	return want->nsid ? err_set(err, ERR_INVALID, "a tag has no namespace id") : 0;
}

static int tag_find(const struct device_world *w, const char *pci, const struct device_want *want,
                    struct device *ret, struct str *why, struct err *err)
{
	char *dir AUTO(free) = pci_dir(w, pci);
	char *tag AUTO(free) = NULL;
	int rc = sysfs_attr(dir, "tag", &tag, err);

	(void)want;
	tags.found++;
	if (rc) {
		str_addf(why, "%s has no tag", pci);
		return rc;
	}
	*ret = (struct device) { .kind = NULL };
	snprintf(ret->name, sizeof(ret->name), "%s", tag);
	snprintf(ret->pci, sizeof(ret->pci), "%s", pci);
	return 0;
}

static int tag_live(const struct device_world *w, const char *pci, struct str *why, struct err *err)
{
	(void)w;
	(void)err;
	tags.asked_live++;
	str_addf(why, "the tag of %s is silent", pci);
	return DEVICE_NOT_LIVE;
}

static int tag_hold(const struct device_kind *kind, const struct device_world *w, const char *pci,
                    const struct device *only, struct device_hold *ret, struct err *err)
{
	(void)kind;
	(void)w;
	(void)ret;
	ck_assert(!only || str_eq(only->pci, pci));
	tags.held++;
	tags.held_only += only != NULL;
	return tags.in_use ? err_set(err, ERR_PRECONDITION, "its tag is mounted") : 0;
}

static bool tag_is_path_of(const char *entry, const char *disk)
{
	return str_has_prefix(entry, "path-of-") && str_eq(entry + strlen("path-of-"), disk);
}

static const struct device_kind second = {
	.name = "Tag",
	.emulation = EMULATION_VIRTIOFS,
	.driver = "tagfs",
	.subsystems = no_subsystems,
	.sriov_advice = "turn tags on",
	.functions = tag_functions,
	.check_want = tag_check_want,
	.find = tag_find,
	.live = tag_live,
	.list = tag_list,
	.hold = tag_hold,
	.is_path_of = tag_is_path_of,
};

/* ---- a host with a PF of each kind ---- */

static const struct device_kind *const kinds[] = { &other, &second, NULL };

static char *nvme_vendor_list[] = { (char *)"15b3", NULL };
static const struct strs nvme_vendors = { nvme_vendor_list, 1 };

struct kind_world {
	struct tree tree;
	struct kernel kernel;
	struct device_world world;
	struct device_want want; /* the tag below VF */
	struct device dev;
	struct str text;
	struct err err;
};

static void kind_world_clear_p(struct kind_world *h)
{
	kernel_clear(&h->kernel);
	tree_clear(&h->tree);
	str_clear(&h->text);
}

static void add_attr(struct kind_world *h, const char *pci, const char *name, const char *text)
{
	char *path AUTO(free) = xasprintf(DEVICES "%s/%s", pci, name);

	tree_write(&h->tree, path, text);
}

static void add_function(struct kind_world *h, const char *pci, const char *class_code,
                         const char *vendor, const char *device)
{
	add_attr(h, pci, "class", class_code);
	add_attr(h, pci, "vendor", vendor);
	add_attr(h, pci, "device", device);
	add_attr(h, pci, "driver_override", "(null)\n");
}

static void kind_world_init(struct kind_world *h)
{
	memset(&tags, 0, sizeof(tags));
	*h = (struct kind_world) {
		.want = { .volume_id = "vol", .pci = VF, .emulation = EMULATION_VIRTIOFS },
		.text = STR_INIT(700),
	};
	tree_unpack(&h->tree, NULL);
	kernel_init(&h->kernel, &h->tree);
	h->world = (struct device_world) { .sysfs = h->tree.sysfs,
		                           .dev = h->tree.dev,
		                           .vendors = &nvme_vendors,
		                           .snap_device_id = "6001",
		                           .writer = &h->kernel.writer,
		                           .kinds = kinds };
	add_function(h, NVME_PF, "0x010802\n", "0x15b3\n", "0x6001\n");
	add_function(h, PF, "0x018000\n", "0x1af4\n", "0x105a\n");
	add_function(h, VF, "0x018000\n", "0x1af4\n", "0x105a\n");
	tree_link(&h->tree, DEVICES VF "/physfn", "../" PF);
	tree_link(&h->tree, DEVICES PF "/virtfn0", "../" VF);
}

static void bind_to(struct kind_world *h, const char *pci, const char *driver)
{
	char *link AUTO(free) = xasprintf(DEVICES "%s/driver", pci);
	char *target AUTO(free) = xasprintf("../../drivers/%s", driver);

	tree_link(&h->tree, link, target);
}

static void assert_writes(struct kind_world *h, const char *want)
{
	char *got AUTO(free) = kernel_writes(&h->kernel);

	ck_assert_str_eq(got, want);
}

static int wait_ms(struct kind_world *h, int ms)
{
	return device_wait(&h->world, &h->want, deadline_in_ms(ms), &h->dev, &h->err);
}

static void tag_on_bind(struct kernel *k, const char *pci)
{
	ck_assert_str_eq(pci, VF);
	tree_write(k->tree, TAG, "share1\n");
}

/* ---- find ---- */

START_TEST(a_device_is_found_through_the_kind_of_its_volume)
{
	struct kind_world h AUTO(kind_world_clear);

	kind_world_init(&h);
	bind_to(&h, VF, "tagfs");
	ck_assert_int_eq(device_find(&h.world, &h.want, &h.dev, &h.text, &h.err), DEVICE_ABSENT);
	ck_assert_str_eq(h.text.ptr, VF " has no tag");
	tree_write(&h.tree, TAG, "share1\n");
	ck_assert_int_eq(device_find(&h.world, &h.want, &h.dev, &h.text, &h.err), 0);
	ck_assert_str_eq(h.dev.name, "share1");
	ck_assert_ptr_eq(h.dev.kind, &second);
	assert_writes(&h, "");
}
END_TEST

START_TEST(a_function_of_another_kind_or_driver_is_refused)
{
	static const struct {
		const char *pci, *driver, *says;
		int want;
	} rows[] = {
		{ NVME_PF, "nvme", "class 0x010802, not 0x0180xx", -1 },
		{ VF, "nvme", "is held by driver nvme and is not unbound", -1 },
		{ VF, "pci-stub", "driver pci-stub; tagfs is expected", DEVICE_ABSENT },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct kind_world h AUTO(kind_world_clear);
		int rc;

		kind_world_init(&h);
		h.want.pci = rows[i].pci;
		bind_to(&h, rows[i].pci, rows[i].driver);
		rc = device_find(&h.world, &h.want, &h.dev, &h.text, &h.err);
		ck_assert_msg(rc == rows[i].want, "%zu: %d %s", i, rc, h.err.msg);
		ck_assert_msg(strstr(rc < 0 ? h.err.msg : h.text.ptr, rows[i].says), "%zu: %s%s", i,
		              h.err.msg, h.text.ptr);
		ck_assert_uint_eq(tags.found, 0);
	}
}
END_TEST

START_TEST(each_kind_says_what_it_has_to_know)
{
	struct kind_world h AUTO(kind_world_clear);

	kind_world_init(&h);
	h.want.nsid = 1;
	ck_assert_int_eq(device_find(&h.world, &h.want, &h.dev, NULL, &h.err), -1);
	ck_assert_int_eq(h.err.code, ERR_INVALID);
	ck_assert_str_eq(h.err.msg, "volume vol: a tag has no namespace id");
}
END_TEST

START_TEST(a_volume_that_names_no_kind_is_nvme_and_an_unknown_one_is_refused)
{
	static const struct device_kind *const one[] = { &second, NULL };
	const struct device_want nvme = { .volume_id = "vol", .pci = NVME_PF };
	struct kind_world h AUTO(kind_world_clear);

	kind_world_init(&h);
	h.world.kinds = NULL;
	ck_assert_int_eq(device_find(&h.world, &nvme, &h.dev, NULL, &h.err), -1);
	ck_assert_str_eq(h.err.msg, "volume vol: the namespace id is 0");
	err_clear(&h.err);
	h.world.kinds = one;
	ck_assert_int_eq(device_find(&h.world, &nvme, &h.dev, NULL, &h.err), -1);
	ck_assert_int_eq(h.err.code, ERR_UNIMPLEMENTED);
	ck_assert_str_eq(h.err.msg, "volume vol: emulation nvme is not supported");
}
END_TEST

/* ---- wait ---- */

START_TEST(a_wait_binds_the_function_to_the_driver_of_its_kind)
{
	struct kind_world h AUTO(kind_world_clear);

	kind_world_init(&h);
	h.kernel.on_bind = tag_on_bind;
	ck_assert_msg(wait_ms(&h, 20000) == 0, "%s", h.err.msg);
	ck_assert_str_eq(h.dev.name, "share1");
	ck_assert_ptr_eq(h.dev.kind, &second);
	assert_writes(&h, BOUND "; driver_override ");
}
END_TEST

START_TEST(a_wait_that_fails_asks_the_kind_who_uses_the_function)
{
	for (int in_use = 0; in_use < 2; in_use++) {
		struct kind_world h AUTO(kind_world_clear);

		kind_world_init(&h);
		tags.in_use = in_use;
		ck_assert_int_eq(wait_ms(&h, 3000), -1);
		ck_assert_int_eq(h.err.code, ERR_DEADLINE);
		ck_assert_uint_eq(tags.held, 1);
		ck_assert_uint_eq(tags.held_only, 0);
		assert_writes(&h, in_use ? BOUND "; driver_override "
		                         : BOUND "; unbind " VF "; driver_override ");
		ck_assert_msg(!strstr(h.err.msg, "stays bound to driver tagfs because it "
		                                 "may be in use (its tag is mounted)") == !in_use,
		              "%s", h.err.msg);
	}
}
END_TEST

START_TEST(an_abandoned_device_is_given_back_through_its_kind)
{
	for (int in_use = 0; in_use < 2; in_use++) {
		struct kind_world h AUTO(kind_world_clear);

		kind_world_init(&h);
		h.kernel.on_bind = tag_on_bind;
		ck_assert_msg(wait_ms(&h, 20000) == 0, "%s", h.err.msg);
		tags.in_use = in_use;
		ck_assert_int_eq(device_abandon(&h.world, &h.dev, &h.err), in_use ? -1 : 0);
		ck_assert_uint_eq(tags.held_only, 1);
		assert_writes(&h, in_use ? BOUND "; driver_override ; driver_override "
		                         : BOUND "; driver_override ; unbind " VF
		                                 "; driver_override ");
	}
}
END_TEST

START_TEST(disks_are_held_as_their_kind_lists_them)
{
	struct kind_world h AUTO(kind_world_clear);
	struct device_hold held = { .n = 0 };
	const struct device alone = { .kind = &second, .name = "share2", .pci = VF };

	kind_world_init(&h);
	ck_assert_int_eq(device_hold_disks(&second, &h.world, VF, &alone, &held, &h.err), -1);
	ck_assert_str_eq(h.err.msg, "share1 is also below it");
}
END_TEST

/* ---- a device by its number ---- */

static void add_disk(struct kind_world *h, const char *pci, const char *name, const char *dev)
{
	char *dir AUTO(free) = xasprintf(DEVICES "%s/%s", pci, name);
	char *attr AUTO(free) = xasprintf("%s/dev", dir);
	char *target AUTO(free) = xasprintf("../..%s", dir + strlen("/sys"));
	char *class_link AUTO(free) = xasprintf("/sys/class/block/%s", name);
	char *number AUTO(free) = xasprintf("/sys/dev/block/%s", dev);

	tree_write(&h->tree, attr, dev);
	tree_link(&h->tree, class_link, target);
	tree_link(&h->tree, number, target);
}

START_TEST(a_device_by_its_number_is_of_the_kind_of_its_function)
{
	struct kind_world h AUTO(kind_world_clear);

	kind_world_init(&h);
	add_function(&h, "0000:03:00.0", "0x010000\n", "0x1af4\n", "0x1042\n");
	add_disk(&h, VF, "tag0", "250:1");
	add_disk(&h, NVME_PF, "nvme0n1", "250:2");
	add_disk(&h, "0000:03:00.0", "vda", "250:3");
	ck_assert_int_eq(device_by_number(&h.world, makedev(250, 1), &h.dev, &h.err), 0);
	ck_assert_ptr_eq(h.dev.kind, &second);
	ck_assert_int_eq(device_by_number(&h.world, makedev(250, 2), &h.dev, &h.err), 0);
	ck_assert_ptr_eq(h.dev.kind, &other);
	ck_assert_int_eq(device_by_number(&h.world, makedev(250, 3), &h.dev, &h.err), 0);
	ck_assert_ptr_null(h.dev.kind);
	ck_assert_str_eq(h.dev.pci, "0000:03:00.0");
	/* Without a kind its controllers are unknown, and no override is ours. */
	ck_assert_int_eq(device_controllers_live(&h.world, &h.dev, &h.text, &h.err), 0);
	ck_assert_int_eq(device_release(&h.world, &h.dev, &h.err), 0);
	/* With a second path below another function the disk belongs to neither function. */
	add_disk(&h, PF, "path-of-tag0", "250:4");
	ck_assert_int_eq(device_by_number(&h.world, makedev(250, 1), &h.dev, &h.err), 0);
	ck_assert_str_eq(h.dev.pci, "");
	ck_assert_ptr_null(h.dev.kind);
}
END_TEST

START_TEST(its_kind_says_whether_a_device_works)
{
	struct kind_world h AUTO(kind_world_clear);
	const struct device dev = { .kind = &second, .pci = VF };

	kind_world_init(&h);
	ck_assert_int_eq(device_controllers_live(&h.world, &dev, &h.text, &h.err), DEVICE_NOT_LIVE);
	ck_assert_str_eq(h.text.ptr, "the tag of " VF " is silent");
	ck_assert_uint_eq(tags.asked_live, 1);
}
END_TEST

/* ---- release ---- */

START_TEST(release_clears_the_override_for_the_driver_of_the_kind)
{
	struct kind_world h AUTO(kind_world_clear);
	const struct device dev = { .kind = &second, .pci = VF };

	kind_world_init(&h);
	add_attr(&h, VF, "driver_override", "nvme\n");
	ck_assert_int_eq(device_release(&h.world, &dev, &h.err), 0);
	assert_writes(&h, "");
	add_attr(&h, VF, "driver_override", "tagfs\n");
	ck_assert_int_eq(device_release(&h.world, &dev, &h.err), 0);
	assert_writes(&h, "driver_override ");
}
END_TEST

START_TEST(at_start_the_overrides_of_all_kinds_are_cleared)
{
	struct kind_world h AUTO(kind_world_clear);

	kind_world_init(&h);
	add_attr(&h, NVME_PF, "driver_override", "nvme\n");
	add_attr(&h, VF, "driver_override", "tagfs\n");
	add_attr(&h, PF, "driver_override", "nvme\n"); /* not the driver of its kind */
	ck_assert_int_eq(device_recover(&h.world, NVME_PF, &h.err), 0);
	ck_assert_int_eq(device_recover(&h.world, VF, &h.err), 0);
	ck_assert_int_eq(device_recover(&h.world, PF, &h.err), DEVICE_NOT_SET);
	assert_writes(&h, "driver_override ; driver_override ");
}
END_TEST

/* ---- functions ---- */

START_TEST(the_vfs_of_all_kinds_are_counted)
{
	struct kind_world h AUTO(kind_world_clear);
	char *want AUTO(free) = NULL;
	unsigned n;

	kind_world_init(&h);
	tree_link(&h.tree, DEVICES NVME_PF "/virtfn0", "../0000:01:00.1");
	tree_link(&h.tree, DEVICES NVME_PF "/virtfn1", "../0000:01:00.2");
	ck_assert_int_eq(device_count_functions(&h.world, &n, &h.text, &h.err), 0);
	ck_assert_uint_eq(n, 3);
	want = xasprintf("NVMe PFs 15b3:6001 in %s/bus/pci/devices: " NVME_PF " with 2 VFs; "
	                 "Tag PFs 1af4:105a in %s/bus/pci/devices: " PF " with 1 VFs",
	                 h.tree.sysfs, h.tree.sysfs);
	ck_assert_str_eq(h.text.ptr, want);
}
END_TEST

START_TEST(vfs_are_made_by_the_driver_of_the_pfs_kind)
{
	struct kind_world h AUTO(kind_world_clear);

	kind_world_init(&h);
	add_attr(&h, PF, "sriov_totalvfs", "4\n");
	add_attr(&h, PF, "sriov_numvfs", "0\n");
	h.kernel.faults[0] = (struct kernel_fault) { .attribute = "sriov_numvfs", .times = 1 };
	ck_assert_msg(device_create_vfs(&h.world, &h.text, &h.err) == 0, "%s", h.err.msg);
	ck_assert_str_eq(h.text.ptr, "4 VFs on " PF);
	assert_writes(&h, "driver_override tagfs; bind " PF "; driver_override ; "
	                  "sriov_drivers_autoprobe 0; sriov_numvfs 4");
}
END_TEST

START_TEST(the_kind_advises_what_to_do_without_sriov)
{
	struct kind_world h AUTO(kind_world_clear);

	kind_world_init(&h);
	tree_remove(&h.tree, DEVICES NVME_PF);
	ck_assert_int_eq(device_create_vfs(&h.world, &h.text, &h.err), -1);
	ck_assert_int_eq(h.err.code, ERR_PRECONDITION);
	ck_assert_ptr_nonnull(strstr(h.err.msg, "sriov_totalvfs is missing): turn tags on"));
}
END_TEST

SUITE_TIMEOUT("device_kind", 60, a_device_is_found_through_the_kind_of_its_volume,
              a_function_of_another_kind_or_driver_is_refused, each_kind_says_what_it_has_to_know,
              a_volume_that_names_no_kind_is_nvme_and_an_unknown_one_is_refused,
              a_wait_binds_the_function_to_the_driver_of_its_kind,
              a_wait_that_fails_asks_the_kind_who_uses_the_function,
              an_abandoned_device_is_given_back_through_its_kind,
              disks_are_held_as_their_kind_lists_them,
              a_device_by_its_number_is_of_the_kind_of_its_function,
              its_kind_says_whether_a_device_works,
              release_clears_the_override_for_the_driver_of_the_kind,
              at_start_the_overrides_of_all_kinds_are_cleared, the_vfs_of_all_kinds_are_counted,
              vfs_are_made_by_the_driver_of_the_pfs_kind,
              the_kind_advises_what_to_do_without_sriov);
