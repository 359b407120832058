/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVMe functions: PCI function -> controller -> namespace -> disk.
 *
 * A controller's directory has its namespaces as disks (nvme5n1) or, with native multipath, as
 * hidden paths (nvme0c1n1) whose disk is the subsystem's head (nvme0n1). The numbers in these names
 * are neither the controller's ID nor the namespace ID; only the nsid attribute has the namespace
 * ID. Writes nothing, any thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"
#include "node/device/block.h"
#include "node/device/device_hold.h"
#include "node/device/device_kind.h"
#include "node/device/sysfs.h"

/* One namespace, from a controller's directory. */
struct nvme_namespace {
	char *dir;     /* directory of the disk or hidden path below the controller */
	char disk[64]; /* name of the disk that is used */
	uint32_t nsid;
};

struct nvme_namespaces {
	struct nvme_namespace *v;
	size_t n;
};

static void nvme_namespaces_clear_p(struct nvme_namespaces *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].dir);
	free(l->v);
}

/* ---- names ---- */

/* Skips `letters` and the digits after them. Returns NULL if the text does not begin with both. */
static const char *skip_number(const char *p, const char *letters)
{
	size_t n;

	if (!p || !str_has_prefix(p, letters))
		return NULL;
	p += strlen(letters);
	n = strspn(p, "0123456789");
	return n > 0 && n < 10 ? p + n : NULL;
}

/*
 * Returns the disk of a namespace: nvme0n1 for nvme0n1 and for nvme0c1n1. Returns false if the name
 * is not that of a namespace.
 */
static bool disk_name(const char *name, char ret[64])
{
	const char *instance = skip_number(name, "nvme");
	const char *path = skip_number(instance, "c");
	const char *rest = path ? path : instance;
	const char *end = skip_number(rest, "n");

	if (!end || *end)
		return false;
	snprintf(ret, 64, "%.*s%s", (int)(instance - name), name, rest);
	return true;
}

/* Returns true for a path and its disk, such as "nvme0c1n3" and "nvme0n3". */
static bool is_path_of(const char *entry, const char *disk)
{
	char head[64];

	return !str_eq(entry, disk) && disk_name(entry, head) && str_eq(head, disk);
}

/* ---- the namespaces of a function ---- */

static void add_namespace(struct nvme_namespaces *l, const char *dir, const char *disk,
                          uint32_t nsid)
{
	struct nvme_namespace *n;

	l->v = xrealloc(l->v, (l->n + 1) * sizeof(*l->v));
	n = &l->v[l->n++];
	n->dir = xstrdup(dir);
	n->nsid = nsid;
	snprintf(n->disk, sizeof(n->disk), "%s", disk);
}

static int list_of_controller(const char *controller, struct nvme_namespaces *ret, struct err *err)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;

	if (sysfs_list(controller, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.n; i++) {
		char *dir AUTO(free) = xasprintf("%s/%s", controller, names.v[i]);
		char disk[64];
		uint64_t nsid;
		int rc;

		if (!disk_name(names.v[i], disk))
			continue;
		rc = sysfs_attr_u64(dir, "nsid", &nsid, err);
		if (rc < 0)
			return -1;
		if (rc == 0 && nsid > 0 && nsid <= UINT32_MAX)
			add_namespace(ret, dir, disk, (uint32_t)nsid);
	}
	return 0;
}

/*
 * Checks that the controller is live, because reads would hang while it resets or fails. Returns 0,
 * DEVICE_NOT_LIVE with `why`, or -1.
 */
static int check_state(const char *controller, struct str *why, struct err *err)
{
	char *state AUTO(free) = NULL;

	if (sysfs_attr(controller, "state", &state, err) < 0)
		return -1;
	if (!state || str_eq(state, "live"))
		return 0;
	str_addf(why, "NVMe controller %s is in state \"%.40s\" (expected \"live\")",
	         strrchr(controller, '/') + 1, state);
	return DEVICE_NOT_LIVE;
}

/*
 * Lists all namespaces below the function. If `why` is not NULL, also returns DEVICE_NOT_LIVE if
 * the function has no controller, or one that is not live.
 */
static int list_namespaces(const struct device_world *w, const char *pci,
                           struct nvme_namespaces *ret, struct str *why, struct err *err)
{
	char *function AUTO(free) = pci_dir(w, pci);
	char *nvme AUTO(free) = xasprintf("%s/nvme", function);
	struct strs controllers AUTO(strs_clear) = STRS_INIT;

	if (sysfs_list(nvme, &controllers, err) < 0)
		return -1;
	if (controllers.n == 0 && why) {
		str_addf(why, "no NVMe controller in %s", nvme);
		return DEVICE_NOT_LIVE;
	}
	for (size_t i = 0; i < controllers.n; i++) {
		char *dir AUTO(free) = xasprintf("%s/%s", nvme, controllers.v[i]);
		int rc = why ? check_state(dir, why, err) : 0;

		if (rc || list_of_controller(dir, ret, err))
			return rc ? rc : -1;
	}
	return 0;
}

static int list_disks(const struct device_world *w, const char *pci, struct strs *ret,
                      struct err *err)
{
	struct nvme_namespaces l AUTO(nvme_namespaces_clear) = { NULL, 0 };

	if (list_namespaces(w, pci, &l, NULL, err))
		return -1;
	for (size_t i = 0; i < l.n; i++)
		strs_add(ret, l.v[i].disk);
	return 0;
}

/* ---- the wanted namespace ---- */

static int check_want(const struct device_want *want, struct err *err)
{
	return want->nsid ? 0 : err_set(err, ERR_INVALID, "the namespace id is 0");
}

/*
 * Reports that no namespace has the wanted ID. A namespace with the wanted UUID and a different ID
 * is a contradiction.
 */
static int report_absent_namespace(const struct nvme_namespaces *l, const char *pci,
                                   const struct device_want *want, struct str *why, struct err *err)
{
	str_addf(why, "PCI function %s has no namespace %u", pci, want->nsid);
	for (size_t i = 0; i < l->n; i++) {
		char uuid[40];

		if (block_uuid(l->v[i].dir, uuid, err))
			return -1;
		if (uuid_known(want->uuid) && uuid_equal(uuid, want->uuid)) {
			err_set(err, ERR_PRECONDITION,
			        "namespace %u (%s) of PCI function %s has UUID %s, but the "
			        "attachment has this UUID for namespace %u",
			        l->v[i].nsid, l->v[i].disk, pci, uuid, want->nsid);
			return err_set_kind(err, ERR_KIND_WRONG_DEVICE);
		}
		str_addf(why, "%s%u", i ? ", " : "; it has: ", l->v[i].nsid);
	}
	if (l->n == 0)
		str_add(why, "; the function has no namespace");
	return DEVICE_ABSENT;
}

static int nvme_pick(const struct nvme_namespaces *l, const char *pci,
                     const struct device_want *want, const struct nvme_namespace **ret,
                     struct str *why, struct err *err)
{
	const struct nvme_namespace *found = NULL;

	for (size_t i = 0; i < l->n; i++) {
		if (l->v[i].nsid != want->nsid)
			continue;
		if (found)
			return err_set(err, ERR_PRECONDITION,
			               "PCI function %s shows namespace %u twice: %s and %s; "
			               "refusing to choose",
			               pci, want->nsid, found->dir, l->v[i].dir);
		found = &l->v[i];
	}
	if (!found)
		return report_absent_namespace(l, pci, want, why, err);
	*ret = found;
	return 0;
}

/*
 * Checks that the disk and the controller's own entry agree. With multipath, these are two sysfs
 * objects.
 */
static int check_head(const struct nvme_namespace *n, const struct device *d, struct err *err)
{
	char uuid[40];

	if (d->nsid != n->nsid)
		return err_set(err, ERR_PRECONDITION, "%s has nsid %u, but its disk %s has nsid %u",
		               n->dir, n->nsid, d->name, d->nsid);
	if (block_uuid(n->dir, uuid, err))
		return -1;
	if (*uuid && *d->uuid && !uuid_equal(uuid, d->uuid))
		return err_set(err, ERR_PRECONDITION, "%s has UUID %s, but its disk %s has UUID %s",
		               n->dir, uuid, d->name, d->uuid);
	return 0;
}

/*
 * Checks a contradiction again. Returns -1 if the contradiction remains, or DEVICE_ABSENT if
 * another namespace has taken over the name of the entry in the meantime.
 */
static int recheck_namespace(const struct nvme_namespace *n, struct str *why,
                             struct err *contradiction)
{
	struct err ignored = ERR_INIT;
	uint64_t nsid;

	if (sysfs_attr_u64(n->dir, "nsid", &nsid, &ignored) == 0 && nsid == n->nsid)
		return -1;
	err_clear(contradiction);
	str_addf(why, "%s is changing", n->dir);
	return DEVICE_ABSENT;
}

/* ---- key/value namespaces ---- */

bool device_wants_key_value(const struct device_want *want)
{
	return want->uuid && strlen(want->uuid) == 32 &&
	       strspn(want->uuid, "0123456789abcdefABCDEF") == 32;
}

/*
 * Returns true for the disk of a key/value namespace: the kernel hides it, or gives it the size 0.
 * Such a disk never becomes a block device, so waiting is useless.
 */
static bool is_key_value(const struct device_world *w, const char *disk)
{
	char *dir AUTO(free) = xasprintf("%s/class/block/%s", w->sysfs, disk);
	struct err ignored = ERR_INIT;
	uint64_t hidden = 0, size = 0;

	if (sysfs_attr_u64(dir, "size", &size, &ignored) ||
	    sysfs_attr_u64(dir, "hidden", &hidden, &ignored) < 0)
		return false;
	return !size || hidden;
}

static int refuse_key_value(const struct nvme_namespace *n, const char *pci,
                            const struct device_want *want, struct err *err)
{
	return err_set(err, ERR_PRECONDITION,
	               "namespace %u of PCI function %s is a key/value namespace (NGUID %s): "
	               "Linux provides no block device for it, only the character device ng%s, "
	               "which host attach --device makes available; a volume of a pod and a mount "
	               "need a block device: use a policy whose vendor provides disks",
	               n->nsid, pci, want->uuid, n->disk + strlen("nvme"));
}

/*
 * Reads the NGUID or UUID of a disk or path: the one that equals `wanted`, otherwise any that the
 * kernel shows, or "".
 */
static int read_identifier(const char *dir, const char *wanted, char ret[40], struct err *err)
{
	static const char *const names[] = { "nguid", "uuid" };

	*ret = '\0';
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char *text AUTO(free) = NULL;

		if (sysfs_attr(dir, names[i], &text, err) < 0)
			return -1;
		if (uuid_known(text) && (!*ret || uuid_equal(text, wanted)))
			snprintf(ret, 40, "%.39s", text);
	}
	return 0;
}

/* Returns true if both entries of sysfs are in one directory, as disk and character device are. */
static bool are_siblings(const char *a, const char *b)
{
	char *x AUTO(free) = realpath(a, NULL), *y AUTO(free) = realpath(b, NULL);

	return x && y && strrchr(x, '/') - x == strrchr(y, '/') - y &&
	       strncmp(x, y, (size_t)(strrchr(x, '/') - x)) == 0;
}

/*
 * Finds the character device of a key/value namespace. Its own directory has only the number; the
 * identifiers are those of the hidden disk and its path.
 */
static int find_character(const struct device_world *w, const struct nvme_namespace *n,
                          const char *pci, const struct device_want *want, struct device *ret,
                          struct str *why, struct err *err)
{
	struct device d = { .nsid = n->nsid, .character = true };
	char *disk AUTO(free) = xasprintf("%s/class/block/%s", w->sysfs, n->disk);
	char *dir AUTO(free) = NULL;
	char path_has[40];
	uint64_t nsid;
	int rc;

	snprintf(d.name, sizeof(d.name), "ng%s", n->disk + strlen("nvme"));
	snprintf(d.pci, sizeof(d.pci), "%s", pci);
	dir = xasprintf("%s/class/nvme-generic/%s", w->sysfs, d.name);
	rc = block_read_devno(dir, &d.devno, err);
	if (!rc)
		rc = sysfs_attr_u64(disk, "nsid", &nsid, err);
	if (rc || nsid != n->nsid || !are_siblings(dir, disk)) {
		if (rc >= 0)
			str_addf(why,
			         "character device %s of namespace %u is not in "
			         "%s/class/nvme-generic",
			         d.name, n->nsid, w->sysfs);
		return rc < 0 ? -1 : DEVICE_ABSENT;
	}
	if (read_identifier(disk, want->uuid, d.uuid, err) ||
	    read_identifier(n->dir, want->uuid, path_has, err))
		return -1;
	if (*path_has && *d.uuid && !uuid_equal(path_has, d.uuid))
		return err_set(err, ERR_PRECONDITION, "%s has NGUID %s, but its disk %s has %s",
		               n->dir, path_has, n->disk, d.uuid);
	if ((size_t)snprintf(d.path, sizeof(d.path), "%s/%s", w->dev, d.name) >= sizeof(d.path))
		return err_set(err, ERR_PRECONDITION, "the path of device %s is too long", d.name);
	*ret = d;
	return 0;
}

void device_show_key_value(const struct device_world *w, const char *disk, char ret[64])
{
	char name[64];

	snprintf(ret, 64, "%s", disk);
	if (!disk_name(disk, name) || !is_key_value(w, disk))
		return;
	snprintf(name, sizeof(name), "ng%.60s", disk + strlen("nvme"));
	{
		char *dir AUTO(free) = xasprintf("%s/class/nvme-generic/%s", w->sysfs, name);

		if (path_exists(dir))
			snprintf(ret, 64, "%s", name);
	}
}

/* ---- find ---- */

static int nvme_find(const struct device_world *w, const char *pci, const struct device_want *want,
                     struct device *ret, struct str *why, struct err *err)
{
	struct nvme_namespaces l AUTO(nvme_namespaces_clear) = { NULL, 0 };
	const struct nvme_namespace *n = NULL;
	struct device d;
	int rc = list_namespaces(w, pci, &l, why, err);

	if (rc == DEVICE_NOT_LIVE)
		return DEVICE_ABSENT;
	if (!rc)
		rc = nvme_pick(&l, pci, want, &n, why, err);
	if (rc == DEVICE_ABSENT && device_wants_key_value(want))
		str_add(why, "; the attachment has an NGUID instead of a UUID, as key/value "
		             "namespaces do; older kernels do not show those");
	if (rc)
		return rc;
	if (device_wants_key_value(want) && is_key_value(w, n->disk))
		return want->character ? find_character(w, n, pci, want, ret, why, err)
		                       : refuse_key_value(n, pci, want, err);
	rc = block_read(w, n->disk, &d, err);
	if (rc == BLOCK_ABSENT)
		str_addf(why, "disk %s of namespace %u is not in %s/class/block", n->disk,
		         want->nsid, w->sysfs);
	if (rc)
		return rc;
	if (check_head(n, &d, err))
		return recheck_namespace(n, why, err);
	if (d.size == 0) {
		str_addf(why,
		         "disk %s has size 0 (this kernel may not support the LBA format of its "
		         "namespace; see nvme id-ns)",
		         d.name);
		return DEVICE_ABSENT;
	}
	snprintf(d.pci, sizeof(d.pci), "%s", pci);
	*ret = d;
	return 0;
}

static int nvme_live(const struct device_world *w, const char *pci, struct str *why,
                     struct err *err)
{
	struct nvme_namespaces ignored AUTO(nvme_namespaces_clear) = { NULL, 0 };

	return list_namespaces(w, pci, &ignored, why, err);
}

static struct pci_match nvme_functions(const struct device_world *w)
{
	return (struct pci_match) {
		.class_code = 0x0108,
		.vendors = w->vendors,
		.pf_device_id = w->snap_device_id,
	};
}

static const char *const subsystems[] = { "nvme", "nvme-subsystem", NULL };

const struct device_kind device_kind_nvme = {
	.name = "NVMe",
	.emulation = EMULATION_NVME,
	.driver = "nvme",
	.subsystems = subsystems,
	.sriov_advice = "enable it in the host's firmware and configure VFs on the DPU's "
			"function (NVME_EMULATION_NUM_VF), or start with "
			"--node-nvme-create-vfs=false if all volumes are hot-plugged",
	.functions = nvme_functions,
	.check_want = check_want,
	.find = nvme_find,
	.live = nvme_live,
	.list = list_disks,
	.hold = device_hold_disks,
	.is_path_of = is_path_of,
};
