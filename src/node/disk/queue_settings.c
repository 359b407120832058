/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes attributes below <sysfs>/dev/block/<number>/queue. The kernel may give the name
 * of a disk to another disk, but not its number while the disk is open. volume_params.c decides
 * which values are valid.
 */
#include "node/disk/queue_settings.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/kill_point.h"
#include "common/log.h"
#include "common/mem.h"
#include "node/device/sysfs.h"
#include "node/work/disk_record.h"
#include "node/work/state_file.h"

static const char *const attributes[QUEUE_SETTINGS] = {
	[SETTING_IO_SCHEDULER] = "scheduler",
	[SETTING_NR_REQUESTS] = "nr_requests",
	[SETTING_READ_AHEAD_KB] = "read_ahead_kb",
	[SETTING_RQ_AFFINITY] = "rq_affinity",
};

static char *queue_dir(const struct node *n, const struct device *dev)
{
	return xasprintf("%s/dev/block/%u:%u/queue", n->o.world.sysfs, major(dev->devno),
	                 minor(dev->devno));
}

/*
 * Returns the value in *ret, malloc'ed; or SYSFS_ABSENT. For schedulers the kernel lists all and
 * marks the current one: "[none] bfq".
 */
static int read_setting(const char *dir, size_t i, char **ret, struct err *err)
{
	int rc = sysfs_attr(dir, attributes[i], ret, err);
	char *open = rc || i != SETTING_IO_SCHEDULER ? NULL : strchr(*ret, '[');
	char *end = open ? strchr(open, ']') : NULL;

	if (end) {
		*end = '\0';
		memmove(*ret, open + 1, (size_t)(end - open));
	}
	return rc;
}

/* Writes the setting and verifies that the queue has it. `key` is for messages. */
static int write_setting(const struct node *n, const struct device *dev, size_t i,
                         const char *value, struct err *err)
{
	char *dir AUTO(free) = queue_dir(n, dev);
	char *path AUTO(free) = xasprintf("%s/%s", dir, attributes[i]);
	char *now AUTO(free) = NULL, *then AUTO(free) = NULL;
	const char *key = queue_setting_key((enum queue_setting)i);
	int e, rc = read_setting(dir, i, &now, err);

	if (rc < 0 || (!rc && str_eq(now, value)))
		return rc;
	if (rc)
		return err_set(err, ERR_PRECONDITION,
		               "%s: the disk has no %s; next: leave %s out of the StorageClass",
		               dev->path, path, key);
	e = sysfs_write(n->o.world.writer, path, value);
	if (!e && read_setting(dir, i, &then, err))
		return err->code ? -1
		                 : err_set(err, ERR_UNAVAILABLE, "%s: %s no longer exists",
		                           dev->path, path);
	if (!e && str_eq(then, value))
		return 0;
	return err_set(err, ERR_PRECONDITION,
	               "%s: the kernel rejected %s \"%s\" (%s: %s; current value \"%s\"); next: "
	               "set a value that this disk accepts in the StorageClass, or omit the key, "
	               "and create the PersistentVolume again",
	               dev->path, key, value, path, e ? strerrordesc_np(e) : "no error",
	               then ? then : now);
}

/* ---- record ---- */

/*
 * Returns true if the setting must be recorded: one that is requested, and nr_requests if the
 * scheduler is, because the kernel changes both.
 */
static bool is_recorded(const struct volume_params *p, size_t i)
{
	return *p->settings[i] || (i == SETTING_NR_REQUESTS && *p->settings[SETTING_IO_SCHEDULER]);
}

/*
 * Returns true if an earlier call has recorded all settings. The disk's current values may then be
 * those that it wrote.
 */
static bool is_complete(const char *path, const struct volume_params *p)
{
	struct err ignored = ERR_INIT;
	char *text AUTO(free) = NULL;

	if (state_file_read(path, &text, &ignored) || !str_has_suffix(text, "\n"))
		return false;
	for (size_t i = 0; i < QUEUE_SETTINGS; i++) {
		char *was AUTO(free) = state_file_value(text, attributes[i]);

		if (*p->settings[i] && !was)
			return false;
	}
	return true;
}

static int describe_settings(const struct node *n, const struct device *dev,
                             const struct volume_params *p, struct str *ret, struct err *err)
{
	char *dir AUTO(free) = queue_dir(n, dev);

	for (size_t i = 0; i < QUEUE_SETTINGS; i++) {
		char *now AUTO(free) = NULL;

		if (is_recorded(p, i) && read_setting(dir, i, &now, err) < 0)
			return -1;
		if (now)
			str_addf(ret, "%s=%s\n", attributes[i], now);
	}
	return 0;
}

static int record_settings(const struct node *n, const char *volume_id, const struct device *dev,
                           const struct volume_params *p, struct err *err)
{
	char *path AUTO(free) = disk_record_path(n, volume_id, DISK_RECORD_SETTINGS);
	char *text AUTO(free) = NULL;
	struct str lines AUTO(str_clear) = STR_INIT(400);
	struct disk_record r = { .volume_id = volume_id, .dev = dev, .diskseq = dev->diskseq };
	struct device of;
	dev_t fs;
	int rc = disk_record_read(n, volume_id, DISK_RECORD_SETTINGS, &of, &fs, err);

	if (rc < 0 || (!rc && of.devno == dev->devno && is_complete(path, p)))
		return rc;
	if (describe_settings(n, dev, p, &lines, err))
		return -1;
	r.lines = lines.ptr;
	if (disk_record_text(n, DISK_RECORD_SETTINGS, &r, &text, err) ||
	    state_file_write_synced(path, text, err))
		return err_wrap(err, "the settings that %s has now cannot be recorded", dev->path);
	kill_point("stage: settings of the device recorded");
	return 0;
}

/* ---- stage and unstage ---- */

int queue_settings_write(struct node *n, const char *volume_id, const struct device *dev,
                         const struct volume_params *p, struct err *err)
{
	bool recorded = false;

	for (size_t i = 0; i < QUEUE_SETTINGS; i++) {
		if (!*p->settings[i])
			continue;
		if (!recorded && record_settings(n, volume_id, dev, p, err))
			return -1;
		recorded = true;
		if (write_setting(n, dev, i, p->settings[i], err))
			return -1;
		kill_point("stage: setting of the device written");
	}
	return 0;
}

/* Restores the settings in the text of a record on `dev`, the disk in the record. */
static int restore_from(const struct node *n, const char *text, const struct device *dev,
                        struct err *err)
{
	struct err first = ERR_INIT;
	int fd AUTO(fd) = -1;

	if (device_open(dev, O_RDONLY, &fd, NULL, err))
		return -1;
	for (size_t i = 0; i < QUEUE_SETTINGS; i++) {
		char *was AUTO(free) = state_file_value(text, attributes[i]);
		struct err failed = ERR_INIT;

		if (was && write_setting(n, dev, i, was, &failed) && !first.code)
			first = failed;
		if (was)
			kill_point("unstage: setting of the device restored");
	}
	*err = first;
	return first.code ? -1 : 0;
}

void queue_settings_restore(struct node *n, const char *volume_id)
{
	char *path AUTO(free) = disk_record_path(n, volume_id, DISK_RECORD_SETTINGS);
	char *text AUTO(free) = NULL;
	struct err err = ERR_INIT;
	struct device dev;
	dev_t fs;
	int rc = state_file_read(path, &text, &err);

	if (rc == STATE_FILE_NONE)
		return;
	if (!rc)
		rc = disk_record_read(n, volume_id, DISK_RECORD_SETTINGS, &dev, &fs, &err);
	if (!rc)
		rc = restore_from(n, text, &dev, &err);
	if (rc < 0 && !device_errno_is_gone(err.sys))
		log_event(LOG_WARNING, "the settings of a disk were not restored", "volume",
		          volume_id, "error", err.msg, NULL);
	err_clear(&err);
	if (state_file_remove(path, &err))
		log_event(LOG_WARNING, "the record of a disk's settings was not removed", "volume",
		          volume_id, "error", err.msg, NULL);
}
