/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host detach: unstages the volume at the path in the state file. An administrator may have
 * unmounted the volume and mounted another filesystem there, so the mount is first verified to be
 * the volume's.
 */
#include "host/commands.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "host/character.h"
#include "host/manual_detach.h"
#include "host/lock.h"
#include "node/context.h"
#include "node/target/mountpoint.h"
#include "node/stage/stage.h"

static int refuse_foreign_mount(const struct mountpoint *p, const struct host_state *is,
                                struct err *err)
{
	return err_set(err, ERR_PRECONDITION,
	               "%s shows %s of %s, which is not volume %s: it is left alone; unmount it, "
	               "then detach the volume again",
	               p->path, p->m->fs_type, p->m->source, is->volume);
}

static int detach_check_disk(const struct node *n, const struct mountpoint *p,
                             const struct host_state *is, struct err *err)
{
	struct device dev;
	int rc = device_by_number(&n->o.world, p->disk, &dev, err);

	if (rc)
		/* the disk was removed, so the volume needs only an unmount */
		return rc == DEVICE_ABSENT ? 0 : -1;
	if (dev.nsid != (uint64_t)is->nsid ||
	    (*is->uuid && *dev.uuid && !str_eq(is->uuid, dev.uuid)) ||
	    (*is->pci && !str_eq(is->pci, dev.pci)))
		return refuse_foreign_mount(p, is, err);
	return 0;
}

static int detach_check_mountpoint(const struct node *n, const char *path,
                                   const struct host_state *is, struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct mountpoint p AUTO(mountpoint_clear) = MOUNTPOINT_INIT;

	if (mount_table_read(n->o.proc_root, &t, err) ||
	    mountpoint_read_staged(&t, path, is->volume, &p, err))
		return -1;
	switch (p.kind) {
	case MOUNTPOINT_NONE:
		return 0;
	case MOUNTPOINT_FILESYSTEM:
	case MOUNTPOINT_BLOCK:
		return detach_check_disk(n, &p, is, err);
	case MOUNTPOINT_SHARE:
		return str_eq(p.m->source, is->tag) ? 0 : refuse_foreign_mount(&p, is, err);
	case MOUNTPOINT_OTHER:
		break;
	}
	return refuse_foreign_mount(&p, is, err);
}

static int detach_unstage(const struct host_args *a, const struct host_state *is, struct deadline d,
                          struct err *err)
{
	char *path AUTO(free) = host_staging_path(a, is->mount);
	char *link AUTO(free) = host_link_path(a, is->volume);
	struct host_node h;
	int rc = host_node_begin(&h, a, is->kind, false, is->mount, err);

	if (!rc)
		rc = detach_check_mountpoint(&h.node, path, is, err);
	if (!rc && !*is->mount)
		rc = host_link_check(link, err);
	if (!rc)
		rc = is->key_value ? host_character_release(&h.node, is, d, err)
		                   : node_unstage(&h.node, is->volume, path, d, err);
	if (!rc && !*is->mount)
		rc = file_remove(link, err);
	if (!rc)
		rc = host_state_remove(a->state_dir, is->volume, err);
	host_node_end(&h);
	return rc;
}

/* Reads the state file, which is valid only for its boot. */
static int detach_read_state(const struct host_args *a, const char *volume, char boot[BOOT_ID_SIZE],
                             struct host_state *ret, struct err *err)
{
	struct host_node h;
	int rc = host_node_begin(&h, a, EMULATION_NVME, false, "", err);

	if (!rc)
		rc = host_state_read(a->state_dir, h.boot, volume, ret, err);
	memcpy(boot, h.boot, BOOT_ID_SIZE);
	host_node_end(&h);
	return rc;
}

/*
 * Creates the marker of a manual detach. Called before the first change, so that `host watch` does
 * not attach the volume between the detach and the marker. If the detach fails, the caller removes
 * the marker. `is`: the state; NULL: the volume is not attached.
 */
static int mark_manual(const struct host_args *a, const char *volume, const char *boot,
                       const struct host_state *is, bool *ret_marked, struct err *err)
{
	*ret_marked = false;
	if (!(is && *is->watched) && !host_lock_is_taken(a->state_dir, HOST_WATCH_LOCK))
		return 0;
	*ret_marked = true;
	return manual_detach_add(a->state_dir, boot, volume, is ? is->uid : "", err);
}

static int detach_volume(const struct host_args *a, const char *volume, struct str *said,
                         struct err *err)
{
	struct deadline d = deadline_in_ms(a->timeout_ms);
	struct host_state is AUTO(host_state_clear) = { .tree = NULL };
	struct host_lock lock AUTO(host_lock_release) = HOST_LOCK_INIT;
	struct err ignored = ERR_INIT;
	char boot[BOOT_ID_SIZE];
	bool manual;
	int rc, absent;

	if (host_lock_take(&lock, a->state_dir, volume, volume, d, err))
		return -1;
	absent = detach_read_state(a, volume, boot, &is, err);
	if (absent < 0 || mark_manual(a, volume, boot, absent ? NULL : &is, &manual, err))
		return -1;
	str_addf(said, "volume %s is %s%s", volume,
	         absent ? "not attached to this host" : "detached",
	         manual ? "; host watch attaches it again after \"host resume\"" : "");
	/* A state file of another boot describes no mount: only the file is removed. */
	rc = absent ? host_state_remove(a->state_dir, volume, err) : detach_unstage(a, &is, d, err);
	if (rc && manual)
		IGNORE_RESULT(manual_detach_remove(a->state_dir, volume, &ignored));
	return rc;
}

int host_detach_attachment(const struct host_args *a, const char *volume, const char *uid,
                           bool gone, struct deadline d, struct err *err)
{
	struct host_state is AUTO(host_state_clear) = { .tree = NULL };
	struct host_lock lock AUTO(host_lock_release) = HOST_LOCK_INIT;
	struct err ignored = ERR_INIT;
	char boot[BOOT_ID_SIZE];
	int rc;

	if (host_lock_take(&lock, a->state_dir, volume, volume, d, err))
		return -1;
	rc = detach_read_state(a, volume, boot, &is, err);
	if (rc < 0)
		return -1;
	rc = rc || !str_eq(is.uid, uid) ? 0 : detach_unstage(a, &is, d, err);
	if (!rc && gone && manual_detach_applies(a->state_dir, boot, volume, uid, &ignored))
		rc = manual_detach_remove(a->state_dir, volume, err) < 0 ? -1 : 0;
	return rc;
}

int host_detach(const struct host_args *a, struct str *said, struct err *err)
{
	struct attachment_file f AUTO(attachment_file_clear) = { .tree = NULL };
	const char *volume = a->name;

	if (*a->file) {
		if (attachment_file_read(a->file, &f, err))
			return -1;
		volume = f.is.key.volume;
	}
	if (!dns1123_subdomain(volume))
		return err_set(err, ERR_INVALID, "\"%s\" is not a valid volume name", volume);
	return context_check_id(volume, err) ? -1 : detach_volume(a, volume, said, err);
}
