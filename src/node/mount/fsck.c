/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs e2fsck, and reads the few bytes of an ext superblock that determine whether it is needed.
 * Like mkfs (mkfs.c), the tool gets the device as a descriptor that the driver holds open. No
 * state, any thread. check.c decides when a volume is checked.
 *
 * Sources: Documentation/filesystems/ext4/super.rst, e2fsck(8).
 */
#include "node/mount/fsck.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "common/spawn.h"

enum {
	SUPERBLOCK = 1024,
	S_MAGIC = 0x38,
	S_STATE = 0x3a,
	S_FEATURE_INCOMPAT = 0x60,
	MAGIC = 0xef53,
	STATE_CLEAN = 1,
	STATE_ERRORS = 2,
	INCOMPAT_RECOVER = 4,
	FSCK_REPAIRED = 1, /* bits of the exit status */
};

int ext_state_read(int fd, const char *name, struct ext_state *ret, struct err *err)
{
	uint8_t sb[1024];
	ssize_t n = pread(fd, sb, sizeof(sb), SUPERBLOCK);

	if (n != (ssize_t)sizeof(sb)) {
		err_sys(err, n < 0 ? errno : EIO, "read the superblock of %s", name);
		return err_recode(err, ERR_UNAVAILABLE);
	}
	if (le16(sb + S_MAGIC) != MAGIC)
		return err_set(err, ERR_UNAVAILABLE,
		               "%s no longer has the ext filesystem that it had at the first "
		               "probe",
		               name);
	*ret = (struct ext_state) {
		.unclean = !(le16(sb + S_STATE) & STATE_CLEAN),
		.errors = le16(sb + S_STATE) & STATE_ERRORS,
		.journal_dirty = le16(sb + S_FEATURE_INCOMPAT) & INCOMPAT_RECOVER,
	};
	return 0;
}

const char *ext_state_asks(const struct ext_state *s)
{
	return s->errors ? "its error flag is set" : s->unclean ? "it was not unmounted" : NULL;
}

/*
 * Returns the last problem that e2fsck printed, without the leading device name, or else its last
 * line.
 */
static const char *finding(struct str *output)
{
	static const char before[] = SPAWN_FD_PATH ": ", summary[] = "UNEXPECTED INCONSISTENCY";
	char *found = NULL;
	size_t n;

	for (char *line = output->ptr; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (str_has_prefix(line, before) && !str_has_prefix(line + strlen(before), summary))
			found = line + strlen(before);
	}
	if (!found)
		return spawn_last_line(output);
	n = strcspn(found, "\n");
	while (n && found[n - 1] == ' ')
		n--;
	found[n] = '\0';
	return found;
}

/*
 * Returns the line in which e2fsck reports that it is older than the filesystem, or NULL if there
 * is no such line. If it prints such a line, the filesystem is not damaged, and nothing was
 * written.
 */
static char *fsck_find_unsupported(const struct str *output)
{
	char *line = strstr(output->ptr, "unsupported feature");

	if (line)
		line[strcspn(line, "\n")] = '\0';
	return line;
}

int fsck_run(int fd, const char *name, bool whole, struct err *err)
{
	struct str output AUTO(str_clear) = STR_INIT(LIMIT_SPAWN_OUTPUT);
	struct strs argv AUTO(strs_clear) = STRS_INIT;
	const char *line;
	int rc;

	strs_add(&argv, "e2fsck");
	strs_add(&argv, "-p");
	if (whole)
		strs_add(&argv, "-f");
	strs_add(&argv, SPAWN_FD_PATH);
	rc = spawn_run_fd(&argv, fd, deadline_never(), &output, err);
	if (rc < 0) {
		err_wrap(err, "e2fsck of %s", name);
		return err->code == ERR_UNAVAILABLE ? -1 : err_recode(err, ERR_INTERNAL);
	}
	if (rc == 0 || rc == FSCK_REPAIRED)
		return 0;
	line = fsck_find_unsupported(&output);
	if (line) {
		err_set(err, ERR_PRECONDITION,
		        "e2fsck of %s: it has %s, which this version of e2fsck does not support; "
		        "next: check it by hand with the e2fsck of a newer e2fsprogs",
		        name, line);
		err->sys = EOPNOTSUPP;
		return -1;
	}
	return err_set(
		err, ERR_PRECONDITION,
		"e2fsck -p cannot repair %s by itself (exit status %d): %s; by hand, while it "
		"is not mounted: e2fsck -f %s",
		name, rc, finding(&output), name);
}
