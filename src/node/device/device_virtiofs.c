/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtio-fs functions: PCI function -> virtio device -> tag.
 *
 * The kernel's virtio-pci creates one virtio device (virtio3) for a function, and its driver
 * virtiofs binds that device unless another device has the same tag. So a device that is bound to
 * virtiofs and whose tag is proven is the one that mount(2) finds by this tag. Mounts nothing, and
 * writes only to the window of virtio_tag.c and the bind file of virtiofs; any thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/metric.h"
#include "node/device/device_hold.h"
#include "node/device/device_kind.h"
#include "node/device/pci_driver.h"
#include "node/device/sysfs.h"
#include "node/device/virtio_tag.h"
#include "node/device/virtiofs_users.h"

enum {
	VIRTIO_ID_FS = 0x1a,
	/* The device's status, Virtio 1.2 section 2.1. */
	DRIVER_OK = 0x04,
	NEEDS_RESET = 0x40,
	FAILED = 0x80,
};

#define DRIVER "virtiofs"
#define PCI_DRIVER "virtio-pci"

/* ---- the virtio device ---- */

static bool is_virtio(const char *name)
{
	const char *digits = name + strlen("virtio");

	return str_has_prefix(name, "virtio") && *digits &&
	       strspn(digits, "0123456789") == strlen(digits) && strlen(digits) < 10;
}

/* Lists the names of the virtio devices below the function. */
static int list_virtio(const struct device_world *w, const char *pci, struct strs *ret,
                       struct err *err)
{
	char *function AUTO(free) = pci_dir(w, pci);
	struct strs names AUTO(strs_clear) = STRS_INIT;

	if (sysfs_list(function, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.n; i++)
		if (is_virtio(names.v[i]))
			strs_add(ret, names.v[i]);
	return 0;
}

/* Finds the function's only virtio device. Returns 0, DEVICE_ABSENT or -1. */
static int find_virtio(const struct device_world *w, const char *pci, char **ret, struct str *why,
                       struct err *err)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;
	char *dir AUTO(free) = NULL;
	uint32_t id;
	int rc;

	if (list_virtio(w, pci, &names, err))
		return -1;
	if (names.n == 0) {
		str_addf(why, "PCI function %s has no virtio device yet", pci);
		return DEVICE_ABSENT;
	}
	if (names.n > 1)
		return err_set(err, ERR_PRECONDITION,
		               "PCI function %s has several virtio devices (%s, %s); refusing to "
		               "choose",
		               pci, names.v[0], names.v[1]);
	dir = xasprintf("%s/bus/pci/devices/%s/%s", w->sysfs, pci, names.v[0]);
	rc = sysfs_attr_hex(dir, "device", &id, err);
	if (rc > 0)
		str_addf(why, "%s is changing", names.v[0]);
	if (rc)
		return rc;
	if (id != VIRTIO_ID_FS)
		return err_set(err, ERR_PRECONDITION,
		               "%s of PCI function %s is a virtio device of type %" PRIu32
		               ", not %d (virtio-fs); left alone",
		               names.v[0], pci, id, VIRTIO_ID_FS);
	*ret = xstrdup(names.v[0]);
	return 0;
}

static char *virtio_dir(const struct device_world *w, const char *pci, const char *name)
{
	return xasprintf("%s/bus/pci/devices/%s/%s", w->sysfs, pci, name);
}

/*
 * Checks that the device is bound to the driver virtiofs. Returns DEVICE_ABSENT if it is not bound
 * to any driver yet, or -1 if it is bound to another driver.
 */
static int check_driver(const struct device_world *w, const char *pci, const char *name,
                        struct str *why, struct err *err)
{
	char *dir AUTO(free) = virtio_dir(w, pci, name);
	char *module AUTO(free) = xasprintf("%s/bus/virtio/drivers/" DRIVER, w->sysfs);
	char *driver AUTO(free) = NULL;
	int rc = sysfs_link(dir, "driver", &driver, err);

	if (rc > 0)
		str_addf(why, "%s of PCI function %s has no driver; " DRIVER " is expected%s", name,
		         pci,
		         path_exists(module) ? ""
		                             : " (the driver is not loaded: modprobe " DRIVER
		                               " loads it)");
	if (rc || str_eq(driver, DRIVER))
		return rc;
	return err_set(err, ERR_PRECONDITION,
	               "%s of PCI function %s is held by driver %s, not " DRIVER "; left alone",
	               name, pci, driver);
}

/*
 * Checks that the device works; otherwise requests hang or fail. Returns 0, DEVICE_NOT_LIVE or -1.
 */
static int check_status(const struct device_world *w, const char *pci, const char *name,
                        struct str *why, struct err *err)
{
	char *dir AUTO(free) = virtio_dir(w, pci, name);
	uint32_t status;
	int rc = sysfs_attr_hex(dir, "status", &status, err);

	if (rc < 0)
		return -1;
	if (rc)
		str_addf(why, "%s of PCI function %s is being removed", name, pci);
	else if (status & (NEEDS_RESET | FAILED) || !(status & DRIVER_OK))
		str_addf(why, "%s of PCI function %s has status 0x%02" PRIx32 "%s", name, pci,
		         status,
		         status & (NEEDS_RESET | FAILED) ? " (it has failed)"
		                                         : " (it is being set up)");
	else
		return 0;
	return DEVICE_NOT_LIVE;
}

/* ---- tags in sysfs ---- */

/* The tags in sysfs, which kernels show since 6.9. */
struct shown {
	bool any;    /* this kernel shows tags */
	char *own;   /* tag of the function's device, or NULL */
	char *other; /* another device with the wanted tag, "virtio5 of 0000:24:00.0", or NULL */
};

static void shown_clear_p(struct shown *s)
{
	free(s->own);
	free(s->other);
}

/*
 * Returns the whole tag, including trailing whitespace. Returns NULL if there is no tag (any more).
 */
static char *shown_tag(const char *dir, struct err *err)
{
	char *tag = NULL;
	size_t n;

	if (sysfs_bytes(dir, "tag", &tag, &n, err))
		return NULL;
	if (n && tag[n - 1] == '\n')
		tag[n - 1] = '\0';
	return tag;
}

/*
 * Returns the device, "virtio5", and its parent directory, which has the name of its PCI function.
 */
static char *device_of(const char *dir, char **ret_parent)
{
	char *link AUTO(free) = xasprintf("%s/device", dir);
	char *path AUTO(free) = realpath(link, NULL);
	char *slash = path ? strrchr(path, '/') : NULL;
	char *name;

	if (!slash)
		return NULL;
	name = xstrdup(slash + 1);
	*slash = '\0';
	slash = strrchr(path, '/');
	*ret_parent = xstrdup(slash ? slash + 1 : path);
	return name;
}

/* Reads one tag. `own`: name of the function's virtio device; NULL: it does not exist yet. */
static int read_shown_tag(const char *dir, const char *pci, const char *own, const char *wanted,
                          struct shown *ret, struct err *err)
{
	struct err failed = ERR_INIT;
	char *tag AUTO(free) = shown_tag(dir, &failed);
	char *parent AUTO(free) = NULL;
	char *device AUTO(free) = NULL;

	if (failed.code) {
		*err = failed;
		return -1;
	}
	device = tag ? device_of(dir, &parent) : NULL;
	if (!device)
		return 0; /* the device is being removed */
	if (str_eq(parent, pci)) {
		if (str_eq(device, own) && !ret->own)
			ret->own = TAKE(tag);
	} else if (str_eq(tag, wanted) && !ret->other) {
		ret->other = xasprintf("%s of %s", device, parent);
	}
	return 0;
}

/* Reads all tags. If `wanted` is NULL, ignores other devices. */
static int read_shown(const struct device_world *w, const char *pci, const char *own,
                      const char *wanted, struct shown *ret, struct err *err)
{
	char *top AUTO(free) = xasprintf("%s/fs/virtiofs", w->sysfs);
	struct strs names AUTO(strs_clear) = STRS_INIT;
	int rc = sysfs_list(top, &names, err);

	if (rc < 0)
		return -1;
	ret->any = rc == 0;
	for (size_t i = 0; i < names.n; i++) {
		char *dir AUTO(free) = xasprintf("%s/%s", top, names.v[i]);

		if (read_shown_tag(dir, pci, own, wanted, ret, err))
			return -1;
	}
	return 0;
}

static int refuse_tag_elsewhere(const struct shown *s, const char *pci, const char *tag,
                                struct err *err)
{
	metric_add(METRIC_REFUSALS, 1, LABELS("wrong tag"));
	err_set(err, ERR_PRECONDITION,
	        "the tag \"%s\" is that of %s, not of PCI function %s: mounting it would show "
	        "another share; check whether a function of a detached volume is still plugged",
	        tag, s->other, pci);
	return err_set_kind(err, ERR_KIND_WRONG_DEVICE);
}

static int refuse_other_tag(const char *pci, const char *has, const char *wanted, struct err *err)
{
	metric_add(METRIC_REFUSALS, 1, LABELS("wrong tag"));
	err_set(err, ERR_PRECONDITION,
	        "PCI function %s has the tag \"%s\" (expected \"%s\", from the attachment): not "
	        "this volume's share",
	        pci, has, wanted);
	return err_set_kind(err, ERR_KIND_WRONG_DEVICE);
}

/*
 * Checks whether another function's device has the tag. While it does, the volume's device cannot
 * be mounted.
 */
static int check_elsewhere(const struct device_world *w, const char *pci, const char *tag,
                           struct err *err)
{
	struct shown shown AUTO(shown_clear) = { .any = false };

	if (read_shown(w, pci, NULL, tag, &shown, err))
		return -1;
	return shown.other ? refuse_tag_elsewhere(&shown, pci, tag, err) : 0;
}

/* ---- before the function is bound ---- */

static int check_unbound(const struct device_world *w, const char *pci,
                         const struct device_want *want, struct err *err)
{
	struct str why AUTO(str_clear) = STR_INIT(300);
	char *dir AUTO(free) = pci_dir(w, pci);
	char tag[DEVICE_TAG_MAX + 4];
	int rc;

	if (check_elsewhere(w, pci, want->tag, err))
		return -1;
	/* A function that does not return its tag yet is accepted. */
	rc = virtio_tag_read(dir, tag, &why, err);
	if (rc == 0 && !str_eq(tag, want->tag))
		return refuse_other_tag(pci, tag, want->tag, err);
	return rc < 0 ? -1 : 0;
}

/*
 * Returns true if a probe of the virtio device has failed. The device keeps that flag during later
 * probes.
 */
static bool has_failed(const struct device_world *w, const char *pci, const char *name)
{
	char *dir AUTO(free) = virtio_dir(w, pci, name);
	struct err ignored = ERR_INIT;
	uint32_t status;

	return sysfs_attr_hex(dir, "status", &status, &ignored) == 0 && (status & FAILED);
}

/*
 * Unbinds the function, which is safe because a device without a driver cannot be in use.
 * device_wait() binds it again.
 */
static void let_go(const struct device_world *w, const char *pci, const char *name, struct str *why)
{
	struct pci_change bound = { .pci = "" };
	struct err failed = ERR_INIT;

	str_addf(why,
	         "driver " DRIVER " refused %s (another device may have its tag; see dmesg and "
	         "%s/bus/virtio/drivers/" DRIVER ")",
	         name, w->sysfs);
	snprintf(bound.pci, sizeof(bound.pci), "%s", pci);
	snprintf(bound.driver, sizeof(bound.driver), "%s", device_kind_virtiofs.driver);
	if (pci_give_back(w, &bound, true, &failed))
		str_addf(why, "; %s", failed.msg);
}

/*
 * Binds a virtio device that the kernel has not bound, or unbinds its function if an earlier
 * binding failed. The kernel binds a virtio device only once, when it appears: it does not retry if
 * another device still had the tag, and does not bind the device at all if drivers_autoprobe is
 * off.
 */
static void complete(const struct device_world *w, const char *pci, struct str *why)
{
	char *path AUTO(free) = xasprintf("%s/bus/virtio/drivers/" DRIVER "/bind", w->sysfs);
	struct str ignored AUTO(str_clear) = STR_INIT(300);
	char *name AUTO(free) = NULL;
	struct err failed = ERR_INIT;
	int e;

	if (!path_exists(path) || find_virtio(w, pci, &name, &ignored, &failed) ||
	    check_driver(w, pci, name, &ignored, &failed) != DEVICE_ABSENT)
		return;
	if (has_failed(w, pci, name)) {
		let_go(w, pci, name, why);
		return;
	}
	e = sysfs_write(w->writer, path, name);
	if (e)
		str_addf(why, "bind of %s for driver " DRIVER ": %s (see dmesg)", name,
		         strerrordesc_np(e));
}

/* ---- the device ---- */

static int check_want(const struct device_want *want, struct err *err)
{
	return device_tag_check(want->tag, err);
}

/*
 * Checks that the device has the wanted tag. Returns 0 if it has, or if that cannot be determined.
 * Returns DEVICE_ABSENT or -1 otherwise.
 */
static int prove_tag(const struct device_world *w, const char *pci, const struct device_want *want,
                     struct device *d, struct str *why, struct err *err)
{
	struct shown shown AUTO(shown_clear) = { .any = false };
	struct str unread AUTO(str_clear) = STR_INIT(300);
	char *dir AUTO(free) = pci_dir(w, pci);
	char tag[DEVICE_TAG_MAX + 4];
	int rc;

	if (read_shown(w, pci, d->name, want->tag, &shown, err))
		return -1;
	if (shown.other)
		return refuse_tag_elsewhere(&shown, pci, want->tag, err);
	if (shown.own && !str_eq(shown.own, want->tag))
		return refuse_other_tag(pci, shown.own, want->tag, err);
	if (shown.any && !shown.own) {
		str_addf(why, "%s/fs/virtiofs does not show the tag of %s yet", w->sysfs, d->name);
		return DEVICE_ABSENT;
	}
	d->tag_proven = shown.own != NULL;
	rc = d->tag_proven ? VIRTIO_TAG_UNKNOWN : virtio_tag_read(dir, tag, &unread, err);
	if (rc)
		return rc < 0 ? -1 : 0;
	if (!str_eq(tag, want->tag))
		return refuse_other_tag(pci, tag, want->tag, err);
	d->tag_proven = true;
	return 0;
}

/* Checks whether another device is bound to the driver virtiofs; *ret_alone is false then. */
static int check_alone(const struct device_world *w, const char *own, bool *ret_alone,
                       struct err *err)
{
	char *dir AUTO(free) = xasprintf("%s/bus/virtio/drivers/" DRIVER, w->sysfs);
	struct strs names AUTO(strs_clear) = STRS_INIT;

	if (sysfs_list(dir, &names, err) < 0)
		return -1;
	*ret_alone = true;
	for (size_t i = 0; i < names.n; i++)
		if (is_virtio(names.v[i]) && !str_eq(names.v[i], own))
			*ret_alone = false;
	return 0;
}

static int virtiofs_find(const struct device_world *w, const char *pci,
                         const struct device_want *want, struct device *ret, struct str *why,
                         struct err *err)
{
	struct device d = { .kind = NULL };
	char *name AUTO(free) = NULL;
	int rc = find_virtio(w, pci, &name, why, err);

	if (!rc)
		rc = check_driver(w, pci, name, why, err);
	if (rc == DEVICE_ABSENT && name && check_elsewhere(w, pci, want->tag, err))
		return -1;
	if (!rc)
		rc = check_status(w, pci, name, why, err);
	if (rc)
		return rc;
	snprintf(d.name, sizeof(d.name), "%s", name);
	snprintf(d.pci, sizeof(d.pci), "%s", pci);
	snprintf(d.tag, sizeof(d.tag), "%s", want->tag);
	rc = prove_tag(w, pci, want, &d, why, err);
	if (!rc)
		rc = check_alone(w, name, &d.alone, err);
	if (!rc)
		*ret = d;
	return rc;
}

static int virtiofs_live(const struct device_world *w, const char *pci, struct str *why,
                         struct err *err)
{
	char *name AUTO(free) = NULL;
	int rc = find_virtio(w, pci, &name, why, err);

	if (!rc)
		rc = check_driver(w, pci, name, why, err);
	if (!rc)
		rc = check_status(w, pci, name, why, err);
	return rc == DEVICE_ABSENT ? DEVICE_NOT_LIVE : rc;
}

/* ---- release ---- */

/* Returns the device's tag, or "" if it is unknown. */
static int known_tag(const struct device_world *w, const char *pci, const char *name,
                     char ret[DEVICE_TAG_MAX + 4], struct err *err)
{
	struct shown shown AUTO(shown_clear) = { .any = false };
	struct str why AUTO(str_clear) = STR_INIT(300);
	char *dir AUTO(free) = pci_dir(w, pci);
	int rc;

	if (read_shown(w, pci, name, NULL, &shown, err))
		return -1;
	if (shown.own) {
		snprintf(ret, DEVICE_TAG_MAX + 4, "%s", shown.own);
		return 0;
	}
	rc = virtio_tag_read(dir, ret, &why, err);
	if (rc > 0)
		*ret = '\0';
	return rc < 0 ? -1 : 0;
}

/*
 * Checks that the share is not mounted, because an unbind would make a mounted share dead, and its
 * unwritten data would be lost. Another program could still mount the tag right after this check,
 * but only this driver knows the tags of the functions that it binds, and it never runs two calls
 * of a volume concurrently.
 */
static int virtiofs_hold(const struct device_kind *kind, const struct device_world *w,
                         const char *pci, const struct device *only, struct device_hold *ret,
                         struct err *err)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;

	(void)kind;
	(void)ret;
	if (list_virtio(w, pci, &names, err))
		return -1;
	for (size_t i = 0; i < names.n; i++) {
		char *dir AUTO(free) = virtio_dir(w, pci, names.v[i]);
		char *driver AUTO(free) = NULL;
		char tag[DEVICE_TAG_MAX + 4];
		int rc = sysfs_link(dir, "driver", &driver, err);

		if (only && !str_eq(names.v[i], only->name))
			return err_set(err, ERR_PRECONDITION, "%s is also below it", names.v[i]);
		/* A device without a driver cannot be mounted. */
		if (rc > 0)
			continue;
		if (rc || known_tag(w, pci, names.v[i], tag, err) || virtiofs_unused(w, tag, err))
			return -1;
	}
	return 0;
}

static struct pci_match virtiofs_functions(const struct device_world *w)
{
	/* The IDs of the virtio standard, which QEMU uses, and the DPU's own vendor. */
	return (struct pci_match) {
		.class_code = 0x0180,
		.vendors = w->vendors,
		.other_vendor = "1af4",
		.device_id = "105a",
		.pf_device_id = "105a",
	};
}

/* ---- a removal that hangs ---- */

/*
 * Returns true while the kernel removes the function: it has unbound the function from its driver,
 * and waits for requests in flight before it removes the function's virtio device.
 */
static bool is_being_removed(const struct device_world *w, const char *pci)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;
	char *dir AUTO(free) = pci_dir(w, pci), *driver AUTO(free) = NULL;
	struct err ignored = ERR_INIT;
	uint32_t class_bits;

	return !sysfs_attr_hex(dir, "class", &class_bits, &ignored) &&
	       class_bits >> 8 == virtiofs_functions(w).class_code &&
	       pci_driver(w, pci, &driver, &ignored) == PCI_ABSENT &&
	       !list_virtio(w, pci, &names, &ignored) && names.n;
}

static int check_removals(const struct device_world *w, struct err *err)
{
	char *dir AUTO(free) = xasprintf("%s/bus/pci/devices", w->sysfs);
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err ignored = ERR_INIT;

	if (sysfs_list(dir, &names, &ignored))
		return 0;
	for (size_t i = 0; i < names.n; i++)
		if (is_being_removed(w, names.v[i]))
			return err_set(err, ERR_UNAVAILABLE,
			               "PCI function %s is being removed, but its virtio device "
			               "still exists; if this persists, a request is waiting for "
			               "a server that no longer exists: see dmesg of the node; a "
			               "reboot ends it",
			               names.v[i]);
	return 0;
}

int device_shares_answer(const struct device_world *w, struct err *err)
{
	if (!pci_driver_answers(w, PCI_DRIVER, err) && !check_removals(w, err))
		return 0;
	return err_wrap(err, "no share of this host can be mounted");
}

/* The kernel sends uevents of the subsystem "virtiofs" when a tag appears or disappears. */
static const char *const subsystems[] = { "virtio", "virtiofs", NULL };

const struct device_kind device_kind_virtiofs = {
	.name = "virtio-fs",
	.emulation = EMULATION_VIRTIOFS,
	.driver = PCI_DRIVER,
	.subsystems = subsystems,
	.functions = virtiofs_functions,
	.check_want = check_want,
	.check_unbound = check_unbound,
	.find = virtiofs_find,
	.complete = complete,
	.live = virtiofs_live,
	.hold = virtiofs_hold,
};
