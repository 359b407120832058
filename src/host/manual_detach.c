/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The marker is a file of two lines: the boot ID and the attachment's UID. Callers that write or
 * remove it hold the volume's lock. `host watch` reads it under that lock, so it does not attach a
 * volume while `host detach` runs.
 */
#include "host/manual_detach.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "host/commands.h"
#include "host/lock.h"

#define MANUAL_DETACH_MAX 1024

static char *manual_detach_path(const char *state_dir, const char *volume)
{
	return xasprintf("%s/held/%s", state_dir, volume);
}

int manual_detach_add(const char *state_dir, const char *boot, const char *volume, const char *uid,
                      struct err *err)
{
	char *dir AUTO(free) = xasprintf("%s/held", state_dir);
	char *path AUTO(free) = manual_detach_path(state_dir, volume);
	char *text AUTO(free) = xasprintf("%s\n%s\n", boot, uid);

	if (dir_make(dir, 0700, err) || file_replace(path, text, strlen(text), 0600, err))
		return err_wrap(err, "record that volume %s is detached by hand", volume);
	return 0;
}

bool manual_detach_applies(const char *state_dir, const char *boot, const char *volume,
                           const char *uid, struct err *why)
{
	char *path AUTO(free) = manual_detach_path(state_dir, volume);
	char *text AUTO(free) = NULL, *line;

	if (!path_exists(path))
		return false;
	if (file_read(path, MANUAL_DETACH_MAX, &text, NULL, why)) {
		bool gone = why->code == ERR_NOT_FOUND;

		if (gone)
			err_clear(why);
		return !gone;
	}
	line = strchr(text, '\n');
	if (!line)
		return false; /* not a marker: a marker has two lines */
	*line++ = '\0';
	line[strcspn(line, "\n")] = '\0';
	return str_eq(text, boot) && (!*line || str_eq(line, uid));
}

int manual_detach_remove(const char *state_dir, const char *volume, struct err *err)
{
	char *path AUTO(free) = manual_detach_path(state_dir, volume);

	if (!path_exists(path))
		return MANUAL_DETACH_NONE;
	return file_remove(path, err);
}

int host_resume(const struct host_args *a, struct str *said, struct err *err)
{
	struct host_lock lock AUTO(host_lock_release) = HOST_LOCK_INIT;
	int rc;

	if (!dns1123_subdomain(a->name))
		return err_set(err, ERR_INVALID, "\"%s\" is not a valid volume name", a->name);
	if (host_lock_take(&lock, a->state_dir, a->name, a->name, deadline_in_ms(a->timeout_ms),
	                   err))
		return -1;
	rc = manual_detach_remove(a->state_dir, a->name, err);
	if (rc < 0)
		return -1;
	str_addf(said, "volume %s %s", a->name,
	         rc ? "was not detached by hand" : "may be attached by host watch again");
	return 0;
}
