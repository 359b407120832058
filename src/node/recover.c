/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tidies up after a killed driver. Kubelet repeats its call, or unpublishes and unstages, and those
 * find mounts, files and disks by themselves. An unstage cannot find a function that was bound for
 * a disk which was never mounted, because its request names no function. driver_override has an
 * effect only while a function is being bound, so clearing it does no harm to a volume in use.
 */
#include "node/recover.h"

#include <libgen.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "node/format.h"

#define RECORD_MAX 4096

/* Of another boot, or half written? One that cannot be read is left to the stage that needs it. */
static bool is_outdated(const char *path, const char *boot)
{
	char *line AUTO(free) = xasprintf("\nboot=%s\n", boot);
	char *text AUTO(free) = NULL;
	struct err ignored = ERR_INIT;

	if (str_has_suffix(path, ".tmp"))
		return true;
	return file_read(path, RECORD_MAX, &text, NULL, &ignored) == 0 && !strstr(text, line);
}

static int remove_records(const struct node *n, struct str *did, struct err *err)
{
	char *any AUTO(free) = format_record_path(n, "");
	char *boot AUTO(free) = format_boot_id(n);
	struct strs names AUTO(strs_clear) = STRS_INIT;
	const char *dir = dirname(any);

	if (!path_exists(dir))
		return 0;
	if (dir_list(dir, &names, err))
		return -1;
	for (size_t i = 0; i < names.n; i++) {
		char *path AUTO(free) = xasprintf("%s/%s", dir, names.v[i]);

		if (!is_outdated(path, boot))
			continue;
		if (file_remove(path, err))
			return -1;
		str_addf(did, "%sformatting record %s", did->len ? ", " : "", names.v[i]);
	}
	return 0;
}

int node_recover(const struct node *n, struct str *did, struct err *err)
{
	struct err functions = ERR_INIT, records = ERR_INIT;
	int rc = device_release_all(&n->o.world, did, &functions);

	if (remove_records(n, did, &records))
		rc = -1;
	if (rc)
		*err = functions.code ? functions : records;
	return rc;
}
