/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the command "luks" of this program with the disk as SPAWN_FD and the passphrases on its
 * standard input, and turns its exit status into an error. Keeps nothing: an open mapping is found
 * by its name, which is derived from the volume id. The only static variables count the children.
 */
#include "node/disk/crypt.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/kill_point.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/metric.h"
#include "common/spawn.h"
#include "common/wait_queue.h"
#include "luks/luks.h"
#include "node/device/mapping.h"
#include "node/holders/flocks.h"
#include "node/holders/holders.h"
#include "node/mount/mountinfo.h"
#include "node/staged/unstaging.h"
#include "node/work/disk_record.h"
#include "node/work/state_file.h"
#include "volume/context_keys.h"
#include "volume/luks_name.h"

#define UNDO_MS 1000          /* time limit for closing a mapping after a failed open */
#define SELF "/proc/self/exe" /* the same program, even if its file was replaced */
/* Larger blocks cannot be smaller than the sectors of the mapping. */
#define LARGE_SECTOR 4096

/* ---- the header ---- */

/* Source: LUKS2 On-Disk Format Specification, section 2.1. */
bool crypt_has_header(int fd)
{
	static const char magic[] = "LUKS\272\276\0\2";
	enum { SUBSYSTEM_AT = 208 };
	char header[256];

	return pread(fd, header, sizeof(header), 0) == (ssize_t)sizeof(header) &&
	       memcmp(header, magic, sizeof(magic) - 1) == 0 &&
	       strncmp(header + SUBSYSTEM_AT, LUKS_SUBSYSTEM, sizeof(header) - SUBSYSTEM_AT) == 0;
}

/* ---- the command ---- */

static int refuse_wrong_passphrase(const struct crypt_request *r, struct err *err)
{
	metric_add(METRIC_REFUSALS, 1, LABELS("wrong passphrase"));
	err_set(err, ERR_PRECONDITION,
	        "%s: the passphrase of the secret does not open its LUKS2 container%s; it is not "
	        "formatted; next: correct " SECRET_PASSPHRASE
	        " in the secret of this call (node-stage or node-expand), or add "
	        "the one before as " SECRET_PASSPHRASE_PREVIOUS,
	        r->disk->path, r->keys->previous.n ? ", nor does the previous one" : "");
	return err_set_kind(err, ERR_KIND_WRONG_PASSPHRASE);
}

static int refuse_other_volume(const struct crypt_request *r, const char *text, struct err *err)
{
	metric_add(METRIC_REFUSALS, 1, LABELS("other encryption"));
	err_set(err, ERR_PRECONDITION,
	        "%s: its LUKS2 header is not of this volume (%s); it is neither opened nor "
	        "formatted; next: find the volume of that label, or open a copy by hand "
	        "(cryptsetup open)",
	        r->disk->path, text);
	return err_set_kind(err, ERR_KIND_HAS_DATA);
}

static int refuse_other_cipher(const struct crypt_request *r, const char *text, struct err *err)
{
	metric_add(METRIC_REFUSALS, 1, LABELS("other encryption"));
	err_set(err, ERR_PRECONDITION,
	        "%s: its LUKS2 header has another encryption (%s), with which the storage might "
	        "read the data; it is neither opened nor formatted; next: restore the header "
	        "(cryptsetup luksHeaderRestore), and find out who changed it",
	        r->disk->path, text);
	return err_set_kind(err, ERR_KIND_HAS_DATA);
}

/* Sets the error of an exit status. Returns CRYPT_INCOMPLETE or -1. */
static int crypt_failed(const struct crypt_request *r, const char *word, int status,
                        const char *text, struct err *err)
{
	const char *path = r->disk->path;

	switch ((enum luks_status)status) {
	case LUKS_WRONG_PASSPHRASE:
		return refuse_wrong_passphrase(r, err);
	case LUKS_OTHER_VOLUME:
		return refuse_other_volume(r, text, err);
	case LUKS_OTHER_CIPHER:
		return refuse_other_cipher(r, text, err);
	case LUKS_NO_HEADER:
	case LUKS_NO_KEY:
		err_set(err, ERR_PRECONDITION,
		        "%s: its LUKS2 header %s, and this node has no record of an interrupted "
		        "format for the current attachment: it is not formatted; next: restore "
		        "the header (cryptsetup luksHeaderRestore), or, if this volume has never "
		        "held data, clear it with \"blkdiscard -z\"",
		        path, status == LUKS_NO_KEY ? "has no passphrase" : "is damaged");
		err_set_kind(err, ERR_KIND_HAS_DATA);
		return CRYPT_INCOMPLETE;
	case LUKS_NO_DM_CRYPT:
		return err_set(err, ERR_PRECONDITION,
		               "%s: the kernel of this host has no dm-crypt (%s); next: load the "
		               "module dm_crypt, or install the package that has it",
		               path, text);
	case LUKS_NO_LIBRARY:
		return err_set(err, str_eq(word, "format") ? ERR_NOT_FOUND : ERR_PRECONDITION,
		               "%s: libcryptsetup is needed for an encrypted volume (Debian "
		               "package libcryptsetup12): %s",
		               path, text);
	case LUKS_DONE:
	case LUKS_FAILED:
	case LUKS_USAGE:
	case LUKS_ROTATED:
	case LUKS_NOT_ROTATED:
		break;
	}
	return err_set(err, ERR_INTERNAL, "luks %s of %s failed (exit status %d): %s", word, path,
	               status, text);
}

/* Puts the passphrases one after another, as luks.h describes. Returns the number of bytes. */
static size_t write_input(const struct passphrases *keys, char *ret)
{
	memcpy(ret, keys->current.text, keys->current.n);
	ret[keys->current.n] = '\0';
	memcpy(ret + keys->current.n + 1, keys->previous.text, keys->previous.n);
	return keys->current.n + 1 + keys->previous.n;
}

/*
 * Concurrent commands of calls. Each needs 77 MB for Argon2id, and after a reboot of the host kubelet
 * stages all volumes at once. The deadline of a call ends its command, so a device that hangs does
 * not keep a place. Formats have turns of their own (job.h).
 */
#define RUNS_MAX 4
static pthread_mutex_t runs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct wait_queue runs_changed; /* protected by the lock */
static unsigned runs;                  /* protected by the lock */

static int begin_run(struct deadline d, struct err *err)
{
	{
		WITH_LOCK(&runs_lock);
		while (runs >= RUNS_MAX && wait_queue_wait(&runs_changed, &runs_lock, d))
			;
		if (runs < RUNS_MAX) {
			runs++;
			return 0;
		}
	}
	return deadline_check(d, err, "waiting for the containers of other volumes");
}

static void end_run(void)
{
	WITH_LOCK(&runs_lock);
	runs--;
	wait_queue_wake(&runs_changed);
}

/*
 * A command that hangs in the kernel outlives its kill, and may still write to the header. The
 * record leads NodeUnstageVolume, whose request does not name the disk, to the lock that the command
 * holds (orphan_tool.h). It is removed when the command has ended.
 */
static int put_record(const struct crypt_request *r, struct err *err)
{
	const struct disk_record record = {
		.volume_id = r->volume_id,
		.dev = r->disk,
		.fs_type = "luks2",
		.diskseq = r->disk->diskseq,
	};
	char *path AUTO(free) = disk_record_path(r->node, r->volume_id, DISK_RECORD_LUKS);
	char *text AUTO(free) = NULL;

	if (disk_record_text(r->node, DISK_RECORD_LUKS, &record, &text, err) ||
	    state_file_put(r->node, path, text, err))
		return err_wrap(err, "the record of its open cannot be written");
	kill_point("stage: record of the open written");
	return 0;
}

static void remove_record(const struct node *n, const char *volume_id)
{
	char *path AUTO(free) = disk_record_path(n, volume_id, DISK_RECORD_LUKS);
	struct err ignored = ERR_INIT;

	IGNORE_RESULT(state_file_give_back(n, path, &ignored));
}

/* Returns LUKS_DONE, LUKS_ROTATED, LUKS_NOT_ROTATED, CRYPT_INCOMPLETE with *err set, or -1. */
static int run_luks(const struct crypt_request *r, struct strs *argv, struct deadline d,
                    struct err *err)
{
	struct str output AUTO(str_clear) = STR_INIT(LIMIT_SPAWN_OUTPUT);
	/* has room for both texts and the byte between them */
	struct passphrases *buffer AUTO(passphrases_free) = passphrases_new();
	struct spawn_input input = { buffer, write_input(r->keys, (char *)buffer) };
	const char *word = argv->v[2];
	/* In a job, the record of mkfs serves the same purpose. */
	const bool recorded = !r->in_job && str_eq(word, "open");
	int status;

	if (!r->in_job && begin_run(d, err))
		return err_wrap(err, "luks %s of %s", word, r->disk->path);
	status = recorded ? put_record(r, err) : 0;
	if (!status)
		status = spawn_run_input(argv, r->fd, &input, d, &output, err);
	if (!r->in_job)
		end_run();
	if (status < 0)
		return err_wrap(err, "luks %s of %s", word, r->disk->path);
	if (recorded)
		remove_record(r->node, r->volume_id);
	if (status == LUKS_DONE || status == LUKS_ROTATED || status == LUKS_NOT_ROTATED)
		return status;
	return crypt_failed(r, word, status, spawn_last_line(&output), err);
}

static void crypt_argv(const struct crypt_request *r, const char *word, struct strs *ret)
{
	strs_add(ret, str_empty(r->node->o.luks_program) ? SELF : r->node->o.luks_program);
	strs_add(ret, "luks");
	strs_add(ret, word);
	strs_add(ret, r->volume_id);
}

int crypt_format(const struct crypt_request *r, struct err *err)
{
	struct strs argv AUTO(strs_clear) = STRS_INIT;
	uint64_t block = r->params->mkfs.block_size;

	crypt_argv(r, "format", &argv);
	if (r->params->kdf == KDF_PBKDF2)
		strs_add(&argv, "--kdf=pbkdf2");
	if (block && block < LARGE_SECTOR)
		strs_add(&argv, "--sector=512");
	return run_luks(r, &argv, deadline_never(), err) ? -1 : 0;
}

/* ---- close ---- */

int crypt_find(const struct node *n, const char *volume_id, struct device *ret, struct err *err)
{
	struct luks_name name = { .uuid = "" };
	int rc;

	luks_name(volume_id, &name);
	rc = device_by_mapping(&n->o.world, name.mapping, ret, err);
	return rc < 0 ? err_recode(err, ERR_UNAVAILABLE) : rc;
}

unsigned crypt_name_holders(const struct node *n, const struct device *mapping, struct deadline d,
                            struct str *text)
{
	struct holders h AUTO(holders_clear) = { 0 };
	const struct holders_query q = {
		.proc_root = n->o.proc_root,
		.disk = mapping->devno,
		.ms = n->o.tuning.holders_ms,
		.files = n->o.tuning.holders_files,
		.mounts = true,
	};

	holders_find(&q, d, &h);
	holders_describe(&h, &q, mapping->path, text);
	return h.n;
}

static int refuse_open_mapping(const struct node *n, const struct device *mapping,
                               struct deadline d, struct err *err)
{
	struct str text AUTO(str_clear) = STR_INIT(600);

	crypt_name_holders(n, mapping, d, &text);
	err_clear(err);
	err_set(err, ERR_UNAVAILABLE,
	        "its encrypted mapping %s is still open, so the key stays in the kernel; %s",
	        mapping->path, text.ptr);
	return err_set_kind(err, ERR_KIND_HELD);
}

/*
 * Returns true if the mount shows the mapping: as a filesystem, or its node, bound for raw block. A
 * bound node that no process has open does not keep the kernel from closing the mapping, whose
 * number another volume may then get. The number of a btrfs is anonymous, so its source is compared.
 */
static bool mount_shows(const struct mount *m, const struct device *mapping)
{
	const char *name = strrchr(m->root, '/'), *node = NULL;
	struct stat st;

	if (m->devno == mapping->devno)
		return true;
	if (str_eq(m->fs_type, "btrfs"))
		node = m->source;
	else if (name && str_eq(name + 1, mapping->name))
		node = m->target;
	return node && stat(node, &st) == 0 && S_ISBLK(st.st_mode) && st.st_rdev == mapping->devno;
}

/* Like mount_shows(), for a mount of another namespace, whose paths are not this process's. */
static bool mount_may_show(const struct mount *m, const struct device *mapping)
{
	const char *name = strrchr(m->root, '/');

	return m->devno == mapping->devno ||
	       (str_eq(m->fs_type, "devtmpfs") && name && str_eq(name + 1, mapping->name));
}

static int refuse_shown_in(const struct mount_table *t, const struct device *mapping,
                           bool (*shows)(const struct mount *m, const struct device *mapping),
                           const char *where, struct err *err)
{
	for (size_t i = 0; i < t->n; i++) {
		if (!shows(&t->v[i], mapping))
			continue;
		err_set(err, ERR_PRECONDITION,
		        "its encrypted mapping %s is still shown at %s%s: unmount it there",
		        mapping->path, t->v[i].target, where);
		return err_set_kind(err, ERR_KIND_HELD);
	}
	return 0;
}

/*
 * FAILED_PRECONDITION: a mount shows the mapping, in this mount namespace or in that of the host, in
 * which `host attach` may have bound its node.
 */
static int refuse_shown(const struct node *n, const struct device *mapping, struct err *err)
{
	struct mount_table own AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct mount_table host AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct err ignored = ERR_INIT;

	if (mount_table_read(n->o.proc_root, &own, err) ||
	    refuse_shown_in(&own, mapping, mount_shows, "", err))
		return -1;
	if (mount_table_read_of(n->o.proc_root, "1", &host, &ignored))
		return 0; /* without hostPID, the driver sees only its own namespace */
	return refuse_shown_in(&host, mapping, mount_may_show, " of the host", err);
}

int crypt_close(const struct node *n, const struct device *mapping, struct deadline d,
                struct err *err)
{
	struct deadline end = deadline_clamp(d, n->o.tuning.unstaging_ms);

	if (refuse_shown(n, mapping, err))
		return -1;
	for (;;) {
		struct err ignored = ERR_INIT;

		if (mapping_remove(&n->o.world, mapping, err) == 0)
			return 0;
		if (err->sys != EBUSY)
			return err_recode(err, ERR_UNAVAILABLE);
		if (deadline_sleep(end, UNSTAGING_STEP_MS, &ignored, ""))
			return refuse_open_mapping(n, mapping, d, err);
		err_clear(err);
	}
}

int crypt_close_volume(const struct node *n, const char *volume_id, struct deadline d,
                       struct err *err)
{
	struct device mapping;
	int rc = crypt_find(n, volume_id, &mapping, err);

	if (rc < 0 || (!rc && crypt_close(n, &mapping, d, err)))
		return -1;
	if (!rc)
		kill_point("unstage: container closed");
	remove_record(n, volume_id);
	return 0;
}

void crypt_clear(const struct node *n, const char *volume_id)
{
	struct luks_name name = { .uuid = "" };
	struct device mapping = { .name = "" };
	struct err ignored = ERR_INIT;

	luks_name(volume_id, &name);
	snprintf(mapping.mapping, sizeof(mapping.mapping), "%s", name.mapping);
	IGNORE_RESULT(mapping_remove(&n->o.world, &mapping, &ignored));
}

/* ---- open ---- */

/* Only a mapping's own read-ahead matters for what is mounted on it. */
static void set_read_ahead(const struct crypt_request *r, const struct device *mapping)
{
	const char *text = r->params->settings[SETTING_READ_AHEAD_KB];
	struct err ignored = ERR_INIT;
	int fd AUTO(fd) = -1;

	if (*text && device_open(mapping, O_RDONLY, &fd, NULL, &ignored) == 0)
		ioctl(fd, BLKRASET, strtoul(text, NULL, 10) * 1024 / 512);
}

/* Finds the mapping that was just opened, and checks that it is on this disk. */
static int opened_mapping(const struct crypt_request *r, struct device *ret, struct err *err)
{
	int rc = crypt_find(r->node, r->volume_id, ret, err);

	if (rc < 0)
		return -1;
	if (rc || ret->lower != r->disk->devno)
		return err_set(err, ERR_UNAVAILABLE,
		               "%s: its encrypted mapping was opened, but sysfs shows %s",
		               r->disk->path, rc ? "none" : "it on another disk");
	set_read_ahead(r, ret);
	return 0;
}

/* Closes the mapping that a failed or killed command may have opened. */
static void close_after_failure(const struct crypt_request *r)
{
	struct err ignored = ERR_INIT;
	struct device mapping;
	int rc = crypt_find(r->node, r->volume_id, &mapping, &ignored);

	if (rc == DEVICE_ABSENT)
		crypt_clear(r->node, r->volume_id);
	else if (rc == 0 && mapping.lower == r->disk->devno)
		IGNORE_RESULT(crypt_close(r->node, &mapping, deadline_in_ms(UNDO_MS), &ignored));
}

static void note_rotation(const struct crypt_request *r, int status)
{
	if (status == LUKS_ROTATED) {
		metric_add(METRIC_KEY_ROTATIONS, 1, NULL);
		log_event(LOG_INFO, "the previous passphrase of a volume was removed", "volume",
		          r->volume_id, "device", r->disk->path, NULL);
	} else if (status == LUKS_NOT_ROTATED) {
		log_event(LOG_WARNING,
		          "the previous passphrase of a volume was not removed; its next stage "
		          "tries again",
		          "volume", r->volume_id, "device", r->disk->path, NULL);
	}
}

int crypt_open(const struct crypt_request *r, struct deadline d, struct device *ret,
               struct err *err)
{
	struct strs argv AUTO(strs_clear) = STRS_INIT;
	int rc;

	crypt_argv(r, "open", &argv);
	if (r->read_only)
		strs_add(&argv, "--read-only");
	if (r->params->allow_discards)
		strs_add(&argv, "--allow-discards");
	if (r->shared)
		strs_add(&argv, "--shared");
	rc = run_luks(r, &argv, d, err);
	if (rc >= 0 && !err->code) {
		note_rotation(r, rc);
		rc = opened_mapping(r, ret, err);
	}
	if (rc < 0)
		close_after_failure(r);
	return rc < 0 ? -1 : err->code ? CRYPT_INCOMPLETE : 0;
}

int crypt_resize(const struct crypt_request *r, struct deadline d, struct err *err)
{
	struct strs argv AUTO(strs_clear) = STRS_INIT;

	crypt_argv(r, "resize", &argv);
	return run_luks(r, &argv, d, err) ? -1 : 0;
}

/* ---- after a restart ---- */

/* Finds the disk below the mapping. Returns 0, DEVICE_ABSENT or -1. */
static int crypt_disk(const struct node *n, const struct device *mapping, struct device *ret,
                      struct err *err)
{
	return mapping->lower ? device_by_number(&n->o.world, mapping->lower, ret, err)
	                      : DEVICE_ABSENT;
}

static bool disk_is_locked(const struct node *n, const struct device *mapping)
{
	struct err ignored = ERR_INIT;
	struct device disk;
	int rc = crypt_disk(n, mapping, &disk, &ignored);

	return rc < 0 || (rc == 0 && flock_is_held(n->o.proc_root, disk.path));
}

/*
 * A call that has ended between two reads has released its lock, and has mounted or closed the
 * mapping before.
 */
bool crypt_is_orphan(const struct node *n, const struct device *mapping)
{
	struct err ignored = ERR_INIT;
	struct device now;

	return !disk_is_locked(n, mapping) && !refuse_shown(n, mapping, &ignored) &&
	       !disk_is_locked(n, mapping) &&
	       device_by_mapping(&n->o.world, mapping->mapping, &now, &ignored) == 0;
}

/*
 * Closes the mapping unless a call has locked its disk, or a mount shows it. The mounts are read
 * under the lock, because a call may have staged the mapping before that. Returns true if the
 * mapping was closed.
 */
static bool close_orphan(const struct node *n, const struct device *mapping)
{
	struct err ignored = ERR_INIT;
	struct device disk;
	int fd AUTO(fd) = -1;
	int rc = crypt_disk(n, mapping, &disk, &ignored);

	if (rc < 0 || (rc == 0 && (device_open(&disk, O_RDONLY, &fd, NULL, &ignored) ||
	                           flock(fd, LOCK_EX | LOCK_NB))))
		return false;
	return !refuse_shown(n, mapping, &ignored) &&
	       mapping_remove(&n->o.world, mapping, &ignored) == 0;
}

int crypt_recover(const struct node *n, struct str *did, struct err *err)
{
	struct strs mappings AUTO(strs_clear) = STRS_INIT;

	if (mapping_list(&n->o.world, &mappings, err))
		return -1;
	for (size_t i = 0; i < mappings.n; i++) {
		struct err ignored = ERR_INIT;
		struct device mapping;

		if (device_by_mapping(&n->o.world, mappings.v[i], &mapping, &ignored) == 0 &&
		    close_orphan(n, &mapping))
			str_addf(did, "%sencrypted mapping %s", did->len ? ", " : "",
			         mapping.mapping);
	}
	return 0;
}
