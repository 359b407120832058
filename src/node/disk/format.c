/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a device may be formatted, and formats it.
 *
 * Theory of operation. A device may be formatted only when (1) it can be read, (2) libblkid finds
 * no signature at any offset that it knows, (3) it is blank (blank.h), (4) no process has it open
 * exclusively, and (5) the volume's formatPolicy and access mode allow it. With formatPolicy
 * `unformatted`, (3) is not required. With `never`, and with reader-only modes, no device is
 * formatted.
 *
 * A killed mkfs leaves a device that is neither blank nor formatted, or an xfs that is marked "in
 * progress". Rule (3) would permanently reject such a volume. So a record (disk_record.h) is
 * written before mkfs runs and removed after it. It states that this disk was empty and is being
 * formatted. A later stage that finds the record, the same identity and no complete filesystem
 * formats the disk again. The identity includes the attachment, because a volume that was attached
 * to another node in between may have data from that node, which the old record does not cover.
 * Such a volume, and one without a record on this node, is rejected; the message says how to clear
 * the device. A complete filesystem always has precedence over a record. A record is removed when
 * the disk is handed out (disk_records_end()), when mkfs has refused without having written, and
 * when another process is found to use the disk.
 *
 * The disk is checked before the record is written, because the record states that the disk was
 * empty, and again immediately before mkfs runs. Waiting for a turn and syncing the record may take
 * long, and other processes may write to the disk during that time.
 *
 * An encrypted volume has a container (crypt.h) on the disk and the filesystem in it. All rules are
 * those of the disk: it must be blank before the container is created. The same record covers both
 * steps, because an interruption leaves a container whose content is noise: while the record
 * matches, the container is created again with a new key.
 *
 * mkfs runs to completion as a job (job.h), even if its caller has ended; a retry waits for the job
 * and then finds the complete filesystem.
 */
#include "node/disk/format.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/kill_point.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/metric.h"
#include "node/disk/crypt.h"
#include "node/work/job.h"
#include "node/mount/blank.h"
#include "node/mount/blank_places.h"
#include "node/mount/mkfs.h"
#include "node/work/disk_record.h"
#include "node/work/state_file.h"
#include "volume/context_keys.h"
#include "volume/volume_cap.h"

/* A request, and the decisions that were made about it. */
struct format_plan {
	struct node *n;
	const struct format_request *r;
	const char *fs_type; /* the type to create if the device is empty */
	bool unfinished;     /* the device has an xfs whose mkfs was interrupted */
	bool container;      /* the device has a container whose format was interrupted */
};

static struct crypt_request container_of_request(const struct node *n,
                                                 const struct format_request *r)
{
	return (struct crypt_request) {
		.node = n,
		.volume_id = r->volume_id,
		.disk = r->dev,
		.fd = r->fd,
		.params = r->params,
		.keys = r->keys,
		.read_only = r->reader || r->dev->read_only,
		.shared = r->many_nodes,
	};
}

static struct disk_record record_of(const struct format_plan *p)
{
	return (struct disk_record) {
		.volume_id = p->r->volume_id,
		.dev = p->r->dev,
		.fs_type = p->fs_type,
		.diskseq = p->r->diskseq,
		.attachment = p->r->attachment,
	};
}

/* ---- decisions ---- */

static int refuse_not_blank(const struct format_request *r, const struct blank *blank,
                            struct err *err)
{
	char *otherwise AUTO(free) =
		r->format_option
			? xasprintf("%s=unformatted formats it anyway", r->format_option)
			: xasprintf("for future volumes a StorageClass can have %s: unformatted "
	                            "(docs/reference/formatting.md)",
	                            PARAM_FORMAT_POLICY);

	metric_add(METRIC_REFUSALS, 1, LABELS("not blank"));
	err_set(err, ERR_PRECONDITION,
	        "%s has no known signature but is not blank (byte %llu is 0x%02x): it is not "
	        "formatted. If this volume has never held data (an interrupted mkfs on another "
	        "node, or a backend that does not zero what it frees), clear it with "
	        "\"blkdiscard -z\"; %s",
	        r->dev->path, (unsigned long long)blank->offset, blank->byte, otherwise);
	return err_set_kind(err, ERR_KIND_HAS_DATA);
}

static int check_blank(const struct format_request *r, struct err *err)
{
	const struct device *dev = r->dev;
	struct blank blank;
	int fd AUTO(fd) = -1;

	if (device_open(dev, O_RDONLY | O_DIRECT, &fd, NULL, err) ||
	    blank_check(fd, dev->path, dev->size, r->volume_id, &blank, err))
		return err_wrap(err, "%s is not formatted", dev->path);
	return blank.is_blank ? 0 : refuse_not_blank(r, &blank, err);
}

static int refuse_unformatted(const struct format_request *r, struct err *err)
{
	metric_add(METRIC_REFUSALS, 1, LABELS("format never"));
	if (r->format_option)
		return err_set(err, ERR_PRECONDITION,
		               "%s has no filesystem, and without %s no filesystem is created; a "
		               "new volume needs %s=blank",
		               r->dev->path, r->format_option, r->format_option);
	return err_set(err, ERR_PRECONDITION,
	               "%s has no filesystem, and its StorageClass has %s: never; create one by "
	               "hand, or use a claim of another class",
	               r->dev->path, PARAM_FORMAT_POLICY);
}

/*
 * Checks that this device, which has no filesystem, may be formatted. `again`: the record proves
 * that an earlier mkfs of this driver was interrupted.
 */
static int check_may_format(const struct format_request *r, bool again, struct err *err)
{
	const struct device *dev = r->dev;

	if (r->read_only || dev->read_only)
		metric_add(METRIC_REFUSALS, 1, LABELS("read only"));
	if (r->read_only)
		return err_set(err, ERR_PRECONDITION,
		               "%s has no filesystem, and a read-only volume is never formatted",
		               dev->path);
	if (dev->read_only)
		return err_set(
			err, ERR_PRECONDITION,
			"%s has no filesystem and is write-protected by its controller: it "
			"cannot be formatted. Remove the protection on the backend, or create "
			"the filesystem on a host that can write to the volume",
			dev->path);
	if (r->params->format_policy == FORMAT_NEVER)
		return refuse_unformatted(r, err);
	if (device_check_unused(dev, err))
		return err_wrap(err, "%s is not formatted", dev->path);
	if (again || r->params->format_policy == FORMAT_UNFORMATTED)
		return 0;
	return check_blank(r, err);
}

/*
 * Removes a record that is false or in doubt: it states that only mkfs has written to the disk
 * since it was empty. The call fails in any case, so a failed removal is only logged.
 */
static void forget(const char *record, const char *device)
{
	struct err failed = ERR_INIT;

	if (state_file_remove_synced(record, &failed))
		log_msg(LOG_WARNING, "%s is not formatted, and its formatting record stays: %s",
		        device, failed.msg);
}

static void forget_record(const struct format_plan *p)
{
	char *record AUTO(free) = disk_record_path(p->n, p->r->volume_id, DISK_RECORD_MKFS);

	forget(record, p->r->dev->path);
}

static int probe_result(const struct device *dev, int fd, const char *fs_type, struct fsprobe *ret,
                        struct err *err)
{
	if (fsprobe_fd(fd, dev->path, ret, err))
		return -1;
	if (ret->kind != FSPROBE_FILESYSTEM || !str_eq(ret->type, fs_type) || ret->unfinished)
		return err_set(err, ERR_INTERNAL, "%s was formatted as %s, but now contains: %s",
		               dev->path, fs_type, ret->found);
	return 0;
}

/* ---- the job ---- */

/* All data of the job, because the call that starts it may end first. */
struct formatting {
	atomic_int holders; /* references: the job and the call */
	const struct node *n;
	struct device dev;
	struct volume_params params;
	int fd;
	char *volume_id, *fs_type;
	bool again;               /* a record permits another mkfs */
	bool unfinished;          /* clear the superblock of an interrupted mkfs.xfs first */
	struct passphrases *keys; /* NULL: not encrypted */
	bool raw;                 /* encrypted: create no filesystem */
	bool container;           /* replace the container of an interrupted format */
	bool container_made;      /* the disk has a container, which only the record explains */
	char *record_path, *record;
	/* results for the call, valid once the job has succeeded */
	struct fsprobe made;
	struct device mapping;
};

static void formatting_put(void *arg)
{
	struct formatting *f = arg;

	if (atomic_fetch_sub(&f->holders, 1) > 1)
		return;
	close(f->fd);
	free(f->volume_id);
	free(f->fs_type);
	free(f->record_path);
	free(f->record);
	passphrases_free(f->keys);
	free(f);
}

enum { SIGNATURE_CHANGED = 1 };
static int check_signature(const struct formatting *f, struct fsprobe *ret, struct err *err)
{
	int rc = fsprobe_fd(f->fd, f->dev.path, ret, err);

	if (rc)
		return rc;
	if (f->unfinished || f->container)
		return (f->container ? ret->luks : ret->unfinished) ? 0 : SIGNATURE_CHANGED;
	return ret->kind == FSPROBE_NOTHING ? 0 : SIGNATURE_CHANGED;
}

/*
 * Checks that the disk is unchanged since the decision to format it. Reads the signatures last,
 * because the blank check takes longer. If the check fails, the record is removed because mkfs has
 * not written yet, unless the record is of an earlier mkfs and may still be true.
 */
static int format_recheck(const struct formatting *f, struct err *err)
{
	const struct format_request r = {
		.volume_id = f->volume_id,
		.dev = &f->dev,
		.params = &f->params,
	};
	struct fsprobe now;
	int rc = check_signature(f, &now, err);

	if (!rc)
		rc = check_may_format(&r, f->again, err);
	if (!rc)
		rc = check_signature(f, &now, err);
	if (rc == SIGNATURE_CHANGED) {
		metric_add(METRIC_REFUSALS, 1, LABELS("changed"));
		err_set(err, ERR_PRECONDITION,
		        "%s is not formatted: another process has written to it since its first "
		        "probe, and now it contains %s",
		        f->dev.path, now.found);
	}
	if (rc && (!f->again || rc == SIGNATURE_CHANGED || err->sys == EBUSY))
		forget(f->record_path, f->dev.path);
	return rc ? -1 : 0;
}

/*
 * After a failed mkfs, returns whether mkfs may have written to the disk. It has not if another
 * process uses the disk, because mkfs then fails without writing, or if the disk is still blank.
 */
static bool may_be_half_made(const struct formatting *f)
{
	struct err err = ERR_INIT;
	struct fsprobe now;
	struct blank blank;
	int fd AUTO(fd) = -1;

	if (device_check_unused(&f->dev, &err))
		return err.sys != EBUSY;
	return fsprobe_fd(f->fd, f->dev.path, &now, &err) || now.kind != FSPROBE_NOTHING ||
	       device_open(&f->dev, O_RDONLY | O_DIRECT, &fd, NULL, &err) ||
	       blank_check(fd, f->dev.path, f->dev.size, f->volume_id, &blank, &err) ||
	       !blank.is_blank;
}

static int mkfs_on(struct formatting *f, const struct device *dev, int fd, struct err *err)
{
	int rc = mkfs_run(f->fs_type, &f->params.mkfs, fd, dev->path, err);

	if (rc)
		return rc;
	kill_point("format: mkfs done");
	return probe_result(dev, fd, f->fs_type, &f->made, err);
}

static int mkfs_in_container(struct formatting *f, struct err *err)
{
	int fd AUTO(fd) = -1;

	return device_open(&f->mapping, O_RDONLY, &fd, NULL, err) ||
	                       mkfs_on(f, &f->mapping, fd, err)
	               ? -1
	               : 0;
}

/* Creates the container, opens it, and creates the filesystem in it. */
static int make_container(struct formatting *f, struct err *err)
{
	const struct format_request r = {
		.volume_id = f->volume_id,
		.dev = &f->dev,
		.fd = f->fd,
		.params = &f->params,
		.keys = f->keys,
	};
	struct crypt_request c = container_of_request(f->n, &r);
	struct err ignored = ERR_INIT;

	c.in_job = true;
	if (crypt_format(&c, err))
		return -1;
	f->container_made = true;
	kill_point("format: container created");
	if (crypt_open(&c, deadline_never(), &f->mapping, err))
		return -1;
	kill_point("format: container opened");
	if (f->raw || mkfs_in_container(f, err) == 0)
		return 0;
	IGNORE_RESULT(crypt_close(f->n, &f->mapping, deadline_never(), &ignored));
	return -1;
}

static int run_mkfs(struct formatting *f, struct err *err)
{
	int64_t since = monotonic_ns();
	int rc = f->keys ? make_container(f, err) : mkfs_on(f, &f->dev, f->fd, err);
	bool missing = rc && err->code == ERR_NOT_FOUND;

	metric_observe(METRIC_FORMATS, monotonic_ns() - since,
	               LABELS(f->fs_type, rc ? "failed" : "ok"));
	if (rc && !f->container_made && ((missing && !f->again) || !may_be_half_made(f)))
		forget(f->record_path, f->dev.path);
	return missing ? err_recode(err, ERR_INTERNAL) : rc;
}

/* Logs the start of the format (ms NULL) or its end, after `ms`. */
static void log_formatting(const struct formatting *f, const char *ms)
{
	const struct log_pair pairs[] = {
		log_text("volume", f->volume_id),
		log_text("device", f->dev.path),
		log_text("pci", f->dev.pci),
		log_text("fs", f->fs_type),
		log_text("encryption", f->keys ? "luks2" : NULL),
		log_number("ms", ms),
	};

	log_pairs(LOG_INFO, ms ? "formatted" : "formatting", pairs, ARRAY_LEN(pairs));
}

static int formatting_run(void *arg, struct err *err)
{
	struct formatting *f = arg;
	int64_t since = monotonic_ns();
	char ms[32];

	log_formatting(f, NULL);
	kill_point("format: decided");
	if (state_file_write_synced(f->record_path, f->record, err))
		return err_wrap(err, "%s is not formatted: its formatting record cannot be written",
		                f->dev.path);
	kill_point("format: record written");
	if (format_recheck(f, err))
		return -1;
	if (f->unfinished && mkfs_forget_unfinished(f->fd, f->dev.path, err))
		return -1;
	if (f->unfinished)
		kill_point("format: unfinished xfs forgotten");
	if (run_mkfs(f, err) || state_file_remove_synced(f->record_path, err))
		return -1;
	log_formatting(f, log_ms(since, ms));
	kill_point("format: record removed");
	return 0;
}

static int format_run_job(const struct format_plan *p, bool again, struct deadline d,
                          struct fsprobe *ret, struct device *ret_mapping, struct err *err)
{
	const struct format_request *r = p->r;
	const struct disk_record record = record_of(p);
	struct formatting *f;
	char *what AUTO(free) = xasprintf("mkfs.%s of %s", p->fs_type, r->dev->path);
	char *text AUTO(free) = NULL;
	int fd, rc;

	if (disk_record_text(p->n, DISK_RECORD_MKFS, &record, &text, err))
		return -1;
	fd = fcntl(r->fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0) {
		err_sys(err, errno, "keep %s open for mkfs", r->dev->path);
		return err_recode(err, ERR_UNAVAILABLE);
	}
	f = xcalloc(1, sizeof(*f));
	*f = (struct formatting) {
		.holders = 2,
		.n = p->n,
		.dev = *r->dev,
		.params = *r->params,
		.fd = fd,
		.volume_id = xstrdup(r->volume_id),
		.fs_type = xstrdup(p->fs_type),
		.again = again,
		.unfinished = p->unfinished,
		.keys = passphrases_copy(r->keys),
		.raw = r->raw,
		.container = p->container,
		.record_path = disk_record_path(p->n, r->volume_id, DISK_RECORD_MKFS),
		.record = TAKE(text),
	};
	rc = job_run(p->n->jobs,
	             &(struct job_order) { .kind = JOB_FORMAT,
	                                   .key = r->volume_id,
	                                   .what = what,
	                                   .run = formatting_run,
	                                   .free = formatting_put,
	                                   .arg = f },
	             d, err);
	if (!rc)
		*ret = f->made;
	if (!rc && ret_mapping)
		*ret_mapping = f->mapping;
	formatting_put(f);
	return rc;
}

/*
 * Rejects a larger logical block size, because the blank check reads, and mkfs.btrfs writes, units
 * of BLANK_ALIGN bytes.
 */
static int refuse_large_sectors(const struct format_request *r, struct err *err)
{
	int bytes = 0;

	if (ioctl(r->fd, BLKSSZGET, &bytes) < 0)
		return err_sys(err, errno, "read the sector size of %s", r->dev->path);
	if (bytes <= BLANK_ALIGN)
		return 0;
	return err_set(err, ERR_PRECONDITION,
	               "%s: its logical sectors have %d bytes, expected at most %d; it is not "
	               "formatted; next: give its namespace an LBA format of 512 or 4096 bytes, or "
	               "use it as raw block (volumeMode: Block)",
	               r->dev->path, bytes, BLANK_ALIGN);
}

/*
 * Of two nodes that create a container on one disk at the same time, each has a key of its own, and
 * the data of one of them is lost. So the controller selects one node (controller/publish.c).
 */
static bool is_other_nodes_work(const struct format_plan *p)
{
	const struct format_request *r = p->r;

	return r->keys && r->many_nodes && !r->read_only && !str_eq(r->format_node, p->n->o.id);
}

static int refuse_other_nodes_work(const struct format_plan *p, struct err *err)
{
	const struct format_request *r = p->r;

	if (str_empty(r->format_node))
		return err_set(
			err, ERR_PRECONDITION,
			"%s has no LUKS2 container, and several nodes may write to the volume: "
			"only the node that the publish context names creates the container, "
			"and it names none (" PUBLISH_FORMAT_NODE
			"); next: update the controller, and detach the volume from all nodes "
			"before it is attached again",
			r->dev->path);
	return err_set(err, ERR_UNAVAILABLE,
	               "%s has no complete LUKS2 container yet, and of the nodes that may write to "
	               "the volume, only %s creates it, because the volume was attached to it "
	               "first; next: wait until %s has staged the volume for writing. If it does "
	               "not, scale the volume's pods to zero until its VolumeAttachments are "
	               "deleted",
	               r->dev->path, r->format_node, r->format_node);
}

/* Checks the parameters of mkfs against the space that the filesystem will have. */
static int check_mkfs_size(const struct format_plan *p, struct err *err)
{
	const struct format_request *r = p->r;
	uint64_t header = r->keys ? CRYPT_HEADER_BYTES : 0, size = r->dev->size;
	char has[64], needs[64];

	if (size <= header)
		return err_set(err, ERR_INVALID,
		               "an encrypted volume needs more than %s, the volume has %s",
		               str_bytes(header, needs), str_bytes(size, has));
	return r->raw ? 0 : mkfs_check(p->fs_type, size - header, &r->params->mkfs, err);
}

static int format(const struct format_plan *p, struct deadline d, struct fsprobe *ret,
                  struct device *ret_mapping, struct err *err)
{
	const struct format_request *r = p->r;
	const struct disk_record record = record_of(p);
	int rc = refuse_large_sectors(r, err);

	if (rc)
		return -1;
	if (is_other_nodes_work(p))
		return refuse_other_nodes_work(p, err);
	rc = disk_record_matches(p->n, DISK_RECORD_MKFS, &record, err);
	if (rc < 0)
		return err_wrap(err, "read the formatting record of this volume");
	if (p->unfinished && rc == DISK_RECORD_ABSENT) {
		err_set(err, ERR_PRECONDITION,
		        "%s has an xfs whose mkfs was interrupted, and this node has no record of "
		        "that mkfs for the current attachment: it is not formatted again. If this volume has never held "
		        "data, clear it with \"blkdiscard -z\"",
		        r->dev->path);
		return err_set_kind(err, ERR_KIND_HAS_DATA);
	}
	if (check_may_format(r, rc == 0, err)) {
		if (err->sys == EBUSY)
			forget_record(p);
		return -1;
	}
	if (check_mkfs_size(p, err))
		return -1;
	return format_run_job(p, rc == 0, d, ret, ret_mapping, err);
}

/* Where a filesystem is expected: on the device, or in its container. */
static const char *container_text(const struct format_request *r)
{
	return r->keys ? ": its LUKS2 container" : "";
}

/* Checks that the filesystem on the device is the one that the volume requests. */
static int accept(const struct format_plan *p, const struct fsprobe *found, struct err *err)
{
	const struct format_request *r = p->r;

	if (filesystem_normalise(found->type) == NULL ||
	    (!str_empty(r->fs_type) && !str_eq(found->type, r->fs_type))) {
		metric_add(METRIC_REFUSALS, 1, LABELS("other filesystem"));
		if (!found->unfinished)
			forget_record(p);
		err_set(err, ERR_PRECONDITION,
		        "%s%s contains %s, but the volume wants %s: it is neither mounted nor "
		        "formatted",
		        r->dev->path, container_text(r), found->found, p->fs_type);
		return err_set_kind(err, ERR_KIND_HAS_DATA);
	}
	return 0;
}

static int refuse_foreign_content(const struct format_plan *p, const struct fsprobe *found,
                                  struct err *err)
{
	const bool plain = !p->r->keys;

	metric_add(METRIC_REFUSALS, 1, LABELS("foreign signature"));
	forget_record(p);
	err_set(err, ERR_PRECONDITION,
	        "%s%s contains %s, but the volume wants %s: it is neither mounted nor formatted%s",
	        p->r->dev->path, container_text(p->r), found->found, p->fs_type,
	        plain && found->luks ? "; if the volume is encrypted, its StorageClass, and so "
	                               "its PersistentVolume, needs " PARAM_ENCRYPTION ": luks2"
	                             : "");
	return err_set_kind(err, ERR_KIND_HAS_DATA);
}

int format_ensure(struct node *n, const struct format_request *r, struct deadline d,
                  struct fsprobe *ret, struct err *err)
{
	struct format_plan p = {
		.n = n,
		.r = r,
		.fs_type = str_empty(r->fs_type) ? "ext4" : r->fs_type,
	};

	if (fsprobe_fd(r->fd, r->dev->path, ret, err))
		return -1;
	switch (ret->kind) {
	case FSPROBE_FILESYSTEM:
		p.unfinished = ret->unfinished && str_eq(ret->type, p.fs_type);
		return p.unfinished ? format(&p, d, ret, NULL, err) : accept(&p, ret, err);
	case FSPROBE_NOTHING:
		return format(&p, d, ret, NULL, err);
	case FSPROBE_FOREIGN:
		break;
	}
	return refuse_foreign_content(&p, ret, err);
}

/* ---- encrypted volumes ---- */

static int refuse_plain(const struct format_plan *p, const struct fsprobe *found, struct err *err)
{
	metric_add(METRIC_REFUSALS, 1, LABELS("not encrypted"));
	forget_record(p);
	err_set(err, ERR_PRECONDITION,
	        "%s contains %s, but the volume is to be encrypted (" PARAM_ENCRYPTION
	        ": luks2): it is neither mounted nor formatted; next: use it with a "
	        "PersistentVolume without this key, or copy its data to a new encrypted volume",
	        p->r->dev->path, found->found);
	return err_set_kind(err, ERR_KIND_HAS_DATA);
}

static int refuse_empty_container(const struct format_plan *p, const struct fsprobe *found,
                                  struct err *err)
{
	err_set(err, ERR_PRECONDITION,
	        "%s: its LUKS2 container contains %s, but the volume wants %s, and this node has no "
	        "record of an interrupted format for the current attachment: it is not formatted; "
	        "next: if this volume has never held data, clear it with \"blkdiscard -z\"",
	        p->r->dev->path, found->found, p->fs_type);
	return err_set_kind(err, ERR_KIND_HAS_DATA);
}

static int probe_container(const struct device *mapping, struct fsprobe *ret, struct err *err)
{
	int fd AUTO(fd) = -1;

	return device_open(mapping, O_RDONLY, &fd, NULL, err) ||
	                       fsprobe_fd(fd, mapping->path, ret, err)
	               ? -1
	               : 0;
}

enum { CONTAINER_EMPTY = 1 };
/* Returns 0 if the open container has the volume's filesystem, or CONTAINER_EMPTY. */
static int check_container(const struct format_plan *p, const struct device *mapping,
                           struct fsprobe *ret, struct err *err)
{
	if (p->r->raw)
		return 0;
	if (probe_container(mapping, ret, err))
		return -1;
	if (ret->kind == FSPROBE_FOREIGN)
		return refuse_foreign_content(p, ret, err);
	if (ret->kind == FSPROBE_FILESYSTEM && !ret->unfinished)
		return accept(p, ret, err);
	return CONTAINER_EMPTY;
}

/*
 * Opens the container on the disk. If it is incomplete or has no filesystem, and the record proves
 * that this driver was interrupted while it created the container, creates it again.
 */
static int open_container(struct format_plan *p, struct deadline d, struct fsprobe *ret,
                          struct device *mapping, struct err *err)
{
	const struct crypt_request c = container_of_request(p->n, p->r);
	const struct disk_record record = record_of(p);
	struct err ignored = ERR_INIT, why;
	int rc = crypt_open(&c, d, mapping, err);

	if (!rc) {
		rc = check_container(p, mapping, ret, err);
		if (rc && crypt_close(p->n, mapping, d, rc < 0 ? &ignored : err))
			return -1;
		if (rc == CONTAINER_EMPTY)
			IGNORE_RESULT(refuse_empty_container(p, ret, err));
	}
	if (rc <= 0)
		return rc;
	why = *err;
	err_clear(err);
	rc = disk_record_matches(p->n, DISK_RECORD_MKFS, &record, err);
	if (rc < 0)
		return err_wrap(err, "read the formatting record of this volume");
	if (rc && !str_empty(p->r->format_node) && is_other_nodes_work(p))
		return refuse_other_nodes_work(p, err);
	if (rc) {
		metric_add(METRIC_REFUSALS, 1, LABELS("incomplete encryption"));
		*err = why;
		return -1;
	}
	p->container = true;
	return format(p, d, ret, mapping, err);
}

int format_ensure_encrypted(struct node *n, const struct format_request *r, struct deadline d,
                            struct fsprobe *ret, struct device *ret_mapping, struct err *err)
{
	struct format_plan p = {
		.n = n,
		.r = r,
		.fs_type = r->raw                  ? "luks2"
		           : str_empty(r->fs_type) ? "ext4"
		                                   : r->fs_type,
	};

	if (fsprobe_fd(r->fd, r->dev->path, ret, err))
		return -1;
	if (ret->kind == FSPROBE_NOTHING)
		return format(&p, d, ret, ret_mapping, err);
	return ret->luks ? open_container(&p, d, ret, ret_mapping, err)
	                 : refuse_plain(&p, ret, err);
}
