/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds staged and published volumes on this host in mountinfo: each mount under kubelet's
 * directories that shows a disk or a share is added to the volume that kubelet records for it.
 * Derives findings from single mounts; node_compare.c compares several.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "common/mem.h"
#include "inspect/node_scan.h"
#include "node/device/pci.h"
#include "node/target/paths.h"

enum tag_seen { TAG_UNKNOWN, TAG_GONE, TAG_THERE };

/* A mount that may belong to a volume. */
struct sight {
	const struct mount *m;
	struct mountpoint mountpoint;
	struct kubelet_volume_dir kubelet;
	struct device dev;
	bool has_dev;
	enum tag_seen tag; /* tag of a share */
	char pci[PCI_NAME_MAX];
};

char *node_scan_object(const char *volume_id)
{
	return xasprintf("volume %s", volume_id);
}

void node_scan_text(struct json *object, const char *name, const char *text)
{
	struct str s AUTO(str_clear) = STR_INIT(8000);

	if (str_empty(text))
		return;
	str_add_shown(&s, text);
	json_set_str(object, name, s.ptr);
}

static const char *node_scan_number(dev_t number, char buf[32])
{
	snprintf(buf, 32, "%u:%u", major(number), minor(number));
	return buf;
}

static void node_scan_device(struct json *object, const struct device *dev)
{
	char number[32];

	node_scan_text(object, "name", *dev->path ? dev->path : dev->name);
	if (dev->devno)
		json_set_str(object, "number", node_scan_number(dev->devno, number));
	node_scan_text(object, "pci", dev->pci);
	if (dev->nsid)
		json_set_int(object, "nsid", dev->nsid);
	node_scan_text(object, "uuid", dev->uuid);
	if (dev->size)
		json_set_int(object, "size", (int64_t)device_capacity(dev));
	if (dev->diskseq)
		json_set_int(object, "diskseq", (int64_t)dev->diskseq);
	node_scan_text(object, "tag", dev->tag);
	if (*dev->mapping)
		json_set_str(object, "encryption", "luks2");
	node_scan_text(object, "mapping", dev->mapping);
}

static const char *mounts_kind(const struct mountpoint *p)
{
	switch (p->kind) {
	case MOUNTPOINT_FILESYSTEM:
		return "disk";
	case MOUNTPOINT_BLOCK:
		return "block";
	case MOUNTPOINT_SHARE:
		return "share";
	case MOUNTPOINT_NONE:
	case MOUNTPOINT_OTHER:
		break;
	}
	return NULL;
}

/* ---- shares ---- */

/* Writes the PCI function in a link .../0000:28:00.0/virtio3; "" if there is no such function. */
static void mounts_function_above(const char *link, char ret[PCI_NAME_MAX])
{
	char *path AUTO(free) = realpath(link, NULL);
	struct err no_address = ERR_INIT;
	struct pci_address a;
	char *end = path ? strrchr(path, '/') : NULL;

	*ret = '\0';
	if (!end)
		return;
	*end = '\0';
	end = strrchr(path, '/');
	if (end && pci_parse(end + 1, &a, &no_address) == 0)
		pci_format(&a, ret);
}

/* Determines whether the kernel has a device with this tag. It shows tags since Linux 6.9. */
static enum tag_seen mounts_probe_tag(const struct node_scan *l, const struct mount *m,
                                      char ret_pci[PCI_NAME_MAX])
{
	char *top AUTO(free) = xasprintf("%s/fs/virtiofs", l->node->o.world.sysfs);
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err ignored = ERR_INIT;

	*ret_pci = '\0';
	if (!str_eq(m->fs_type, "virtiofs") || sysfs_list(top, &names, &ignored))
		return TAG_UNKNOWN;
	for (size_t i = 0; i < names.n; i++) {
		char *dir AUTO(free) = xasprintf("%s/%s", top, names.v[i]);
		char *link AUTO(free) = xasprintf("%s/device", dir);
		char *tag AUTO(free) = NULL;

		if (sysfs_attr(dir, "tag", &tag, &ignored) == 0 && str_eq(tag, m->source)) {
			mounts_function_above(link, ret_pci);
			return TAG_THERE;
		}
	}
	return TAG_GONE;
}

/* ---- findings of one mount ---- */

static const char again[] =
	"end the pods that use it; kubelet unmounts it and the next pod gets its new device. If "
	"the device should exist, check the DPUVolumeAttachment and the DPU";

static void find_gone(const struct node_scan *l, const struct sight *s, const char *object)
{
	if (s->mountpoint.kind == MOUNTPOINT_SHARE)
		inspect_finding(l->report, object, again,
		                "%s shows the share \"%s\", whose device no longer exists on "
		                "this host: it was unplugged while in use",
		                s->m->target, s->m->source);
	else
		inspect_finding(l->report, object, again,
		                "%s shows device %u:%u, which no longer exists on this host: it "
		                "was detached while in use",
		                s->m->target, major(s->mountpoint.shown),
		                minor(s->mountpoint.shown));
}

static void find_not_live(const struct node_scan *l, const struct sight *s, const char *object)
{
	struct str why AUTO(str_clear) = STR_INIT(300);
	struct err ignored = ERR_INIT;

	if (device_controllers_live(&l->node->o.world, &s->dev, &why, &ignored) == DEVICE_NOT_LIVE)
		inspect_finding(
			l->report, object,
			"reads and writes wait until it works again: check this function on the "
			"DPU, and the kernel log (dmesg) of this host",
			"the controller of %s does not work: %s", s->dev.name, why.ptr);
}

static void mounts_find_read_only(const struct node_scan *l, const struct sight *s,
                                  const char *object)
{
	if (s->mountpoint.kind != MOUNTPOINT_FILESYSTEM)
		return;
	if (mount_has_shut_down(s->m))
		inspect_finding(l->report, object,
		                "read the kernel log (dmesg) of this host for the cause, then "
		                "end the pods that use it, so that it is mounted again",
		                "the %s at %s has shut itself down after an error", s->m->fs_type,
		                s->m->target);
	else if (mount_turned_read_only(s->m))
		inspect_finding(l->report, object,
		                "read the kernel log (dmesg) of this host for the cause, then end "
		                "the pods that use it: the next mount checks the filesystem",
		                "the kernel has made the %s at %s read-only after an error",
		                s->m->fs_type, s->m->target);
}

/* ---- one mount ---- */

static bool mounts_is_gone(const struct sight *s)
{
	return s->mountpoint.kind == MOUNTPOINT_SHARE ? s->tag == TAG_GONE : !s->has_dev;
}

static void mounts_describe(const struct node_scan *l, const struct sight *s, struct json *entry)
{
	char number[32];

	(void)l;
	node_scan_text(entry, "path", s->m->target);
	node_scan_text(entry, "pod", s->kubelet.pod);
	json_set_str(entry, "kind", mounts_kind(&s->mountpoint));
	if (s->mountpoint.kind != MOUNTPOINT_BLOCK)
		node_scan_text(entry, "filesystem", s->m->fs_type);
	if (s->mountpoint.kind == MOUNTPOINT_SHARE)
		node_scan_text(entry, "tag", s->m->source);
	json_set_str(entry, "number", node_scan_number(s->mountpoint.shown, number));
	json_set_bool(entry, "readOnly", s->m->read_only);
	json_set_bool(entry, "gone", mounts_is_gone(s));
	if (s->kubelet.since >= 0)
		json_set_int(entry, "since", s->kubelet.since);
}

/* The first mount that shows a device identifies the volume's device. */
static void mounts_add_device(const struct sight *s, struct json *node)
{
	struct json *device;

	if (json_member(node, "device"))
		return;
	device = json_sub(node, "device");
	if (s->has_dev)
		node_scan_device(device, &s->dev);
	if (s->mountpoint.kind == MOUNTPOINT_SHARE) {
		char number[32];

		node_scan_text(device, "tag", s->m->source);
		node_scan_text(device, "pci", s->pci);
		json_set_str(device, "number", node_scan_number(s->mountpoint.disk, number));
	}
	json_set_bool(device, "gone", mounts_is_gone(s));
}

static void mounts_add_to_volume(const struct node_scan *l, const struct sight *s, const char *id)
{
	struct json *node = json_sub(inspect_volume(l->report, id), "node");
	struct json *entry = json_object();
	char *object AUTO(free) = node_scan_object(id);

	node_scan_text(node, "persistentVolume", s->kubelet.persistent_volume);
	node_scan_text(node, "volumeAttachment", s->kubelet.attachment);
	mounts_describe(l, s, entry);
	mounts_add_device(s, node);
	if (s->kubelet.role == KUBELET_PUBLISHED) {
		json_append(inspect_list(node, "published"), entry);
		return;
	}
	json_append(inspect_list(node, s->kubelet.role == KUBELET_STAGED ? "staged" : "mounted"),
	            entry);
	if (mounts_is_gone(s)) {
		find_gone(l, s, object);
	} else if (s->has_dev) {
		find_not_live(l, s, object);
		mounts_find_read_only(l, s, object);
	}
}

/* Returns the volume whose device has this number; NULL if it is not known yet. */
static const char *id_by_number(const struct node_scan *l, dev_t number)
{
	char wanted[32];

	node_scan_number(number, wanted);
	json_foreach (v, json_at(l->report->tree, "volumes"))
		if (str_eq(json_str(v, "node.device.number"), wanted))
			return json_str(v, "id");
	return NULL;
}

/* Adds a mount without a record of kubelet to the volume whose device the mount shows. */
static void mounts_add_unnamed(const struct node_scan *l, const struct sight *s)
{
	const char *id = id_by_number(l, s->mountpoint.disk);
	struct json *entry;

	if (id) {
		char *copy AUTO(free) = xstrdup(id);

		mounts_add_to_volume(l, s, copy);
		return;
	}
	if (!s->has_dev && s->mountpoint.kind != MOUNTPOINT_SHARE)
		return; /* no sign that the mount belongs to the driver */
	entry = json_object();
	mounts_describe(l, s, entry);
	if (s->has_dev)
		node_scan_device(json_sub(entry, "device"), &s->dev);
	json_append(inspect_list(json_sub(l->report->tree, "node"), "unnamedMounts"), entry);
}

/*
 * Reports a mount that mountpoint_read() has refused because another mount covers it. Returns
 * false, so that the caller can return it.
 */
static bool find_hidden(const struct node_scan *l, const struct sight *s, const char *why)
{
	char *object AUTO(free) =
		s->kubelet.volume_id ? node_scan_object(s->kubelet.volume_id) : NULL;

	if (*why && object && !s->kubelet.foreign)
		inspect_finding(l->report, object,
		                "remove the mount that covers it; the driver then finds it again",
		                "%s", why);
	return false;
}

/*
 * Returns true if mountpoint_read() may access the mount point. At a directory of a filesystem that
 * is mounted elsewhere (a subPath), it would access that filesystem, which may hang. A bind-mounted
 * device node is never on a volume's filesystem.
 */
static bool is_safe(const struct mount *m, const struct kubelet_volume_dir *k)
{
	if (k->block || str_eq(m->fs_type, "devtmpfs"))
		return true;
	return str_eq(m->root, "/") && mountpoint_may_be_volume(m);
}

/* Returns true if the mount belongs to the driver, or could. */
static bool mounts_probe(const struct node_scan *l, const struct mount *m, struct sight *ret)
{
	struct err ignored = ERR_INIT;

	*ret = (struct sight) { .m = m, .mountpoint = MOUNTPOINT_INIT };
	if (!paths_allowed(&l->node->o, m->target))
		return false;
	kubelet_volume_dir_read(l->node->o.kubelet_dir, l->options->flags.name, m->target,
	                        &ret->kubelet);
	if (!is_safe(m, &ret->kubelet))
		return false;
	if (ret->kubelet.foreign ||
	    mountpoint_read(l->table, m->target, &ret->mountpoint, &ignored))
		return find_hidden(l, ret, ignored.code == ERR_PRECONDITION ? ignored.msg : "");
	if (!mounts_kind(&ret->mountpoint) || ret->mountpoint.m != m)
		return false;
	if (ret->mountpoint.kind == MOUNTPOINT_SHARE)
		ret->tag = mounts_probe_tag(l, m, ret->pci);
	ret->has_dev =
		ret->mountpoint.kind != MOUNTPOINT_SHARE &&
		!device_by_number(&l->node->o.world, ret->mountpoint.disk, &ret->dev, &ignored);
	/* Otherwise it is another disk of the host, mounted there by another program. */
	return ret->kubelet.volume_id || !ret->has_dev || ret->dev.kind;
}

/*
 * `named`: scans the mounts for which kubelet has records; other mounts may belong to the same
 * volumes.
 */
static void mounts_scan(const struct node_scan *l, bool named)
{
	for (size_t i = 0; i < l->table->n; i++) {
		struct sight s;

		if (mounts_probe(l, &l->table->v[i], &s) &&
		    (s.kubelet.volume_id != NULL) == named) {
			if (named)
				mounts_add_to_volume(l, &s, s.kubelet.volume_id);
			else
				mounts_add_unnamed(l, &s);
		}
		mountpoint_clear(&s.mountpoint);
		kubelet_volume_dir_clear(&s.kubelet);
	}
}

void node_scan_mounts(const struct node_scan *l)
{
	atomic_store(l->step, "the devices of mounts in sysfs");
	mounts_scan(l, true);
	mounts_scan(l, false);
}
