/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When is a filesystem checked?  An ext3 or ext4 that is to be written, when its superblock asks for it, and nobody has the
 * device: e2fsck beside a mount destroys what it means to repair.  A check takes one of the turns of formatting, for
 * both may need much memory.  xfs and btrfs have no such question: mounting them answers it.
 */
#include "node/check.h"

#include <fcntl.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/str.h"
#include "node/format.h"
#include "node/mount/fsck.h"

static int check_unused(const struct device *dev, struct err *err)
{
	int fd AUTO(fd) = -1;

	return device_open(dev, O_RDONLY | O_EXCL, &fd, NULL, err);
}

int check_filesystem(struct node *n, const struct device *dev, int fd, const struct fsprobe *fs,
                     bool read_only, struct deadline d, struct err *err)
{
	struct ext_state state;
	const char *why;
	int rc;

	if (read_only || (!str_eq(fs->type, "ext4") && !str_eq(fs->type, "ext3")))
		return 0;
	if (ext_state_read(fd, dev->path, &state, err))
		return -1;
	why = ext_state_asks(&state);
	if (!why)
		return 0;
	if (dev->read_only)
		return err_set(err, ERR_PRECONDITION,
		               "the %s on %s asks for a check (%s), but the device is read-only",
		               fs->type, dev->path, why);
	if (check_unused(dev, err) || format_take_turn(n, d, err))
		return err_wrap(err, "the %s on %s asks for a check (%s)", fs->type, dev->path,
		                why);
	rc = fsck_run(fd, dev->path, err);
	format_give_turn(n);
	if (rc)
		return err_wrap(err, "the %s on %s is damaged (%s) and is not mounted", fs->type,
		                dev->path, why);
	log_msg(LOG_WARNING, "%s on %s was checked and repaired, for %s", fs->type, dev->path, why);
	return 0;
}
