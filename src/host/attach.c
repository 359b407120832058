/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host attach: attaches the volume of a file as a mounted directory or a disk, by a stage of the
 * node (request.h). The node's rules compare an existing mount with the request, so a repeated
 * attach changes nothing. The state file stores what the mount does not show: the volume, and the
 * options as given.
 */
#include "host/commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "host/character.h"
#include "host/manual_detach.h"
#include "host/lock.h"
#include "host/request.h"
#include "node/target/located.h"
#include "node/host/prepare.h"

/* One attach in progress. */
struct attaching {
	const struct host_args *a;
	const struct attachment_file *f;
	struct host_node h;
	struct deadline d;
	struct host_request q;
	bool recorded_before;
	bool occupied; /* the path had a mount before the stage */
	bool staged;
	int64_t since;
	const char *watched; /* namespace for the state file (struct host_state) */
};

/* ---- existing attachments ---- */

static const char *shown(const char *text, const char *otherwise)
{
	return *text ? text : otherwise;
}

/* Checks that a volume that is already attached was attached with the same options. */
static int attach_compare(const struct attaching *g, const struct host_state *is, struct err *err)
{
	const char *volume = is->volume;

	if (*g->a->watched && *is->uid && !str_eq(is->uid, g->f->is.key.uid))
		return err_set(err, ERR_EXISTS,
		               "volume %s is already attached, by attachment %s (uid %s): detach "
		               "it first (snap-csi-plugin host detach %s)",
		               volume, is->attachment, is->uid, volume);
	if (!str_eq(is->mount, g->q.mount))
		return err_set(err, ERR_EXISTS,
		               "volume %s is already attached, %s%s: detach it first "
		               "(snap-csi-plugin host detach %s)",
		               volume, *is->mount ? "at " : "as a device", is->mount, volume);
	if (!str_eq(is->options, g->a->options) || is->read_only != g->a->read_only ||
	    (*g->a->fs_type && *is->fs_type && !str_eq(is->fs_type, g->a->fs_type)))
		return err_set(err, ERR_EXISTS,
		               "volume %s is already attached with other options (%s%s, "
		               "filesystem %s): detach it first (snap-csi-plugin host detach %s)",
		               volume, shown(is->options, "none"),
		               is->read_only ? ", read-only" : "", shown(is->fs_type, "any"),
		               volume);
	return 0;
}

/*
 * Compares PCI addresses. Those of attachments are in upper or lower case, and may lack the domain.
 */
static bool is_same_pci_address(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);

	return n && m && strcasecmp(n > m ? a + n - m : a, m > n ? b + m - n : b) == 0;
}

/* Compares devices. Until a device is found, only the data of its attachment are known. */
static bool is_same_device(const struct attaching *g, const struct host_state *is,
                           const struct device *dev)
{
	const struct dpu_attachment *f = &g->f->is;

	if (is->nsid != f->nvme_nsid || !str_eq(is->tag, f->virtiofs_tag))
		return false;
	if (dev && *is->pci)
		return str_eq(is->pci, dev->pci);
	return is_same_pci_address(is->published, f->pci_address) ||
	       is_same_pci_address(*is->pci ? is->pci : is->published,
	                           dev ? dev->pci : f->pci_address);
}

/*
 * Returns an error if another volume has this mount point or this device. `dev` NULL: no device was
 * found yet.
 */
static int attach_check_other(const struct attaching *g, const char *name, const struct device *dev,
                              struct err *err)
{
	struct host_state is AUTO(host_state_clear) = { .tree = NULL };
	int rc = host_state_read(g->a->state_dir, g->h.boot, name, &is, err);

	if (rc)
		return rc < 0 ? -1 : 0;
	if (*g->q.mount && str_eq(is.mount, g->q.mount))
		return err_set(err, ERR_EXISTS,
		               "%s is the mount point of volume %s: choose another directory, or "
		               "detach that volume first",
		               g->q.mount, name);
	if (is_same_device(g, &is, dev))
		return err_set(
			err, ERR_PRECONDITION,
			"the device of attachment %s, PCI function %s, is already attached as "
			"volume %s; check the file, and if it is correct, detach that volume "
			"first (snap-csi-plugin host detach %s)",
			g->f->is.key.name, dev ? dev->pci : g->f->is.pci_address, name, name);
	return 0;
}

static int attach_check_others(const struct attaching *g, struct err *err)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err absent = ERR_INIT;
	struct device dev;
	bool there = device_find(&g->h.node.o.world, &g->q.stage.want, &dev, NULL, &absent) == 0;

	if (host_state_list(g->a->state_dir, &names, err))
		return -1;
	for (size_t i = 0; i < names.n; i++)
		if (!str_eq(names.v[i], g->f->is.key.volume) &&
		    attach_check_other(g, names.v[i], there ? &dev : NULL, err))
			return -1;
	return 0;
}

/* ---- state files and links ---- */

static struct host_state attach_state(const struct attaching *g, const struct device *dev)
{
	const struct dpu_attachment *is = &g->f->is;

	return (struct host_state) {
		.volume = is->key.volume,
		.attachment = is->key.name,
		.uid = is->key.uid,
		.node = is->key.node,
		.watched = g->watched,
		.kind = g->f->kind,
		.published = is->pci_address,
		.pci = dev ? dev->pci : "",
		.device = dev ? dev->path : "",
		/* for a key/value namespace the published UUID, by which it can be recognised */
		.uuid = dev && *dev->uuid && !dev->character ? dev->uuid : is->nvme_uuid,
		.tag = is->virtiofs_tag,
		.nsid = is->nvme_nsid,
		.mount = g->q.mount,
		.fs_type = g->a->fs_type,
		.options = g->a->options,
		.read_only = g->a->read_only,
		.key_value = dev && dev->character,
		.since = g->since,
	};
}

static int attach_write_state(const struct attaching *g, const struct device *dev, struct err *err)
{
	struct host_state is = attach_state(g, dev);

	return host_state_write(g->a->state_dir, g->h.boot, &is, err);
}

static int check_link(const struct attaching *g, struct err *err)
{
	char *path AUTO(free) = host_link_path(g->a, g->f->is.key.volume);

	return *g->q.mount ? 0 : host_link_check(path, err);
}

static int attach_make_link(const struct attaching *g, const struct device *dev, struct err *err)
{
	char *path AUTO(free) = host_link_path(g->a, g->f->is.key.volume);
	char *dir AUTO(free) = xasprintf("%s/snap-csi", g->a->dev);
	char *fresh AUTO(free) = xasprintf("%s/.%s.new", dir, g->f->is.key.volume);

	if (dir_make(dir, 0755, err) || file_remove(fresh, err))
		return -1;
	if (symlink(dev->path, fresh) < 0)
		return err_sys(err, errno, "create the link %s", fresh);
	if (rename(fresh, path) < 0)
		return err_sys(err, errno, "create the link %s", path);
	return 0;
}

/* ---- the attach ---- */

/*
 * Loads modules and creates VFs; a lock excludes other commands. Logs a failure and tries the stage
 * anyway.
 */
static int attach_prepare(struct attaching *g, struct err *err)
{
	struct host_lock lock AUTO(host_lock_release) = HOST_LOCK_INIT;
	struct str did AUTO(str_clear) = STR_INIT(1000);
	struct err failed = ERR_INIT;

	if (host_lock_take(&lock, g->a->state_dir, "_host", "this host", g->d, err))
		return -1;
	if (node_prepare(&g->h.node, &did, &failed))
		log_event(LOG_WARNING, "this host is not ready for all volumes", "error",
		          failed.msg, NULL);
	if (did.len)
		log_event(LOG_INFO, "prepared this host", "did", did.ptr, NULL);
	return 0;
}

/*
 * Writes the state file; a lock excludes other commands, so if two commands use one device, the
 * second one sees the state file of the first.
 */
static int attach_claim(struct attaching *g, struct err *err)
{
	struct host_lock lock AUTO(host_lock_release) = HOST_LOCK_INIT;

	if (host_lock_take(&lock, g->a->state_dir, "_records", "the records of this host", g->d,
	                   err) ||
	    attach_check_others(g, err))
		return -1;
	return g->recorded_before ? 0 : attach_write_state(g, NULL, err);
}

/* Finds the staged device. For a share, *ret is its function. */
static int attached_device(struct attaching *g, struct device *ret, struct err *err)
{
	struct located l AUTO(located_clear) = LOCATED_INIT;

	if (locate(&g->h.node, g->q.stage.volume_id, g->q.staging, &l, err))
		return -1;
	*ret = l.dev;
	if (l.mountpoint.kind == MOUNTPOINT_SHARE)
		return device_find(&g->h.node.o.world, &g->q.stage.want, ret, NULL, err) < 0 ? -1
		                                                                             : 0;
	return 0;
}

/* Makes a key/value namespace available. Returns HOST_NOT_CHARACTER if the volume is staged. */
static int attach_character(struct attaching *g, struct err *err)
{
	const char *volume = g->q.stage.volume_id;
	struct device dev;
	int rc = *g->q.mount ? HOST_NOT_CHARACTER
	                     : host_character_find(&g->h.node, volume, &g->q.stage.want, g->d, &dev,
	                                           err);

	if (rc)
		return rc;
	if (g->a->read_only)
		return err_set(err, ERR_INVALID,
		               "--read-only: volume %s is a key/value namespace, whose character "
		               "device %s cannot be made read-only",
		               volume, dev.path);
	return attach_write_state(g, &dev, err) || attach_make_link(g, &dev, err) ? -1 : 0;
}

static int attach_stage(struct attaching *g, struct err *err)
{
	struct device dev = { .kind = NULL };
	int rc = attach_character(g, err);

	if (rc != HOST_NOT_CHARACTER)
		return rc;
	if (node_stage(&g->h.node, &g->q.stage, g->d, err))
		return -1;
	g->staged = true;
	if (attached_device(g, &dev, err) || attach_write_state(g, &dev, err))
		return err_wrap(err, "the volume is attached, but");
	return *g->q.mount ? 0 : attach_make_link(g, &dev, err);
}

static int attach_probe_mountpoint(const struct attaching *g, bool *ret_occupied, struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct mountpoint p AUTO(mountpoint_clear) = MOUNTPOINT_INIT;

	if (mount_table_read(g->a->proc, &t, err) ||
	    mountpoint_read_staged(&t, g->q.staging, g->q.stage.volume_id, &p, err))
		return -1;
	*ret_occupied = p.kind != MOUNTPOINT_NONE;
	return 0;
}

/*
 * Removes the state file after a failed stage. A failed stage leaves no mount, so an existing mount
 * is older and not this volume's. If the roll-back has failed, the file is kept, because detach
 * needs it.
 */
static void attach_forget_state(const struct attaching *g)
{
	struct err ignored = ERR_INIT;
	bool occupied;

	if (g->recorded_before || g->staged)
		return;
	if (g->occupied || (!attach_probe_mountpoint(g, &occupied, &ignored) && !occupied))
		IGNORE_RESULT(host_state_remove(g->a->state_dir, g->q.stage.volume_id, &ignored));
}

/*
 * Returns an error if a user has detached the volume, because that takes precedence over `host
 * watch`.
 */
static int refuse_manual_detach(const struct attaching *g, struct err *err)
{
	const char *volume = g->q.stage.volume_id;
	struct err why = ERR_INIT;

	if (!*g->a->watched ||
	    !manual_detach_applies(g->a->state_dir, g->h.boot, volume, g->f->is.key.uid, &why))
		return 0;
	return err_set(err, ERR_ABORTED, "volume %s was detached by hand%s%s", volume,
	               *why.msg ? ", as far as can be read: " : "", why.msg);
}

static int end_manual_detach(const struct attaching *g, struct err *err)
{
	if (*g->a->watched)
		return 0;
	return manual_detach_remove(g->a->state_dir, g->q.stage.volume_id, err) < 0
	               ? err_wrap(err, "the volume is attached, but")
	               : 0;
}

static int attach_locked(struct attaching *g, struct err *err)
{
	struct host_state is AUTO(host_state_clear) = { .tree = NULL };
	int rc = host_state_read(g->a->state_dir, g->h.boot, g->q.stage.volume_id, &is, err);

	g->recorded_before = rc == 0;
	g->since = rc == 0 ? is.since : time(NULL);
	g->watched = rc == 0 ? is.watched : g->a->watched;
	if (rc < 0 || (rc == 0 && attach_compare(g, &is, err)))
		return -1;
	if (refuse_manual_detach(g, err) || check_link(g, err) ||
	    attach_probe_mountpoint(g, &g->occupied, err) || attach_prepare(g, err) ||
	    attach_claim(g, err))
		return -1;
	rc = attach_stage(g, err);
	if (rc)
		attach_forget_state(g);
	return rc ? rc : end_manual_detach(g, err);
}

/*
 * Takes the lock of the volume and the lock of the mount point, which another volume may be about
 * to use. The underscore keeps the two sets of names apart, because no volume name has one.
 */
static int attach_volume(struct attaching *g, struct err *err)
{
	struct host_lock volume AUTO(host_lock_release) = HOST_LOCK_INIT;
	struct host_lock point AUTO(host_lock_release) = HOST_LOCK_INIT;
	char name[40] = "_at-";

	if (dir_make(g->a->state_dir, 0700, err) ||
	    host_lock_take(&volume, g->a->state_dir, g->q.stage.volume_id, g->q.stage.volume_id,
	                   g->d, err))
		return -1;
	fnv128_hex(g->q.mount, "", name + strlen(name));
	if (*g->q.mount && host_lock_take(&point, g->a->state_dir, name, g->q.mount, g->d, err))
		return -1;
	return attach_locked(g, err);
}

static int attach_run(struct attaching *g, struct err *err)
{
	const struct attachment_file *f = g->f;
	bool vf = str_eq(f->is.function_type, "vf");
	int rc;

	if (host_request_paths(&g->q, g->a, f, err))
		return -1;
	rc = host_node_begin(&g->h, g->a, f->kind, vf, g->q.mount, err);
	if (!rc)
		rc = host_request_make(&g->q, &g->h.node, err);
	if (!rc)
		rc = attach_volume(g, err);
	host_node_end(&g->h);
	return rc;
}

int host_attach_object(const struct host_args *a, const struct attachment_file *f,
                       struct deadline d, struct str *said, struct err *err)
{
	struct str why AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	struct attaching g = { .a = a, .f = f, .d = d, .q = HOST_REQUEST_INIT };
	int rc;

	if (!attachment_is_ready(f, &why)) {
		str_addf(said, "attachment %s of volume %s %s", f->is.key.name, f->is.key.volume,
		         why.ptr);
		return HOST_NOT_READY;
	}
	rc = attach_run(&g, err);
	if (!rc && *g.q.mount) {
		str_add(said, g.q.mount);
	} else if (!rc) {
		char *link AUTO(free) = host_link_path(a, f->is.key.volume);

		str_add(said, link);
	}
	host_request_clear(&g.q);
	return rc;
}

int host_attach(const struct host_args *a, struct str *said, struct err *err)
{
	struct attachment_file f AUTO(attachment_file_clear) = { .tree = NULL };

	if (attachment_file_read(a->file, &f, err))
		return -1;
	return host_attach_object(a, &f, deadline_in_ms(a->timeout_ms), said, err);
}
