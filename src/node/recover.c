/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tidies up after a killed driver. Kubelet repeats its call, or unpublishes and unstages, and those
 * find mounts, files and disks by themselves. An unstage cannot find a function that was bound for
 * a disk which was never mounted, because its request names no function. driver_override has an
 * effect only while a function is being bound, so clearing it does no harm to a volume in use.
 */
#include "node/recover.h"

#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "node/job_record.h"
#include "node/leaving.h"

#define RECORD_MAX 4096

enum { RECORD_UNREADABLE = 1 };
/*
 * One that cannot be read is left to the stage that needs it. Others stay when they can match a
 * disk yet, and are told.
 */
static int look_at_job(const struct node *n, const char *path, const char *name, struct str *did,
                       struct strs *unfinished, struct err *err)
{
	char *text AUTO(free) = NULL, *what AUTO(free) = NULL;
	struct err ignored = ERR_INIT;

	if (file_read(path, RECORD_MAX, &text, NULL, &ignored))
		return RECORD_UNREADABLE;
	what = job_record_describe(name, text);
	if (what && !job_record_is_outdated(n, text)) {
		strs_add(unfinished, what);
		return 0;
	}
	if (file_remove(path, err))
		return -1;
	str_addf(did, "%sformatting record %s", did->len ? ", " : "", name);
	return 0;
}

static int look_at_jobs(const struct node *n, struct str *did, struct strs *unfinished,
                        struct err *err)
{
	char *dir AUTO(free) = job_record_dir(n);
	struct strs names AUTO(strs_clear) = STRS_INIT;

	if (!path_exists(dir))
		return 0;
	if (dir_list(dir, &names, err))
		return -1;
	for (size_t i = 0; i < names.n; i++) {
		char *path AUTO(free) = xasprintf("%s/%s", dir, names.v[i]);

		if (look_at_job(n, path, names.v[i], did, unfinished, err) < 0)
			return -1;
	}
	return 0;
}

int node_recover(const struct node *n, struct str *did, struct strs *unfinished, struct err *err)
{
	struct err functions = ERR_INIT, records = ERR_INIT, ignored = ERR_INIT;
	int rc = device_release_all(&n->o.world, did, &functions);

	if (look_at_jobs(n, did, unfinished, &records))
		rc = -1;
	if (leaving_remove_outdated(n, did, records.code ? &ignored : &records))
		rc = -1;
	if (rc)
		*err = functions.code ? functions : records;
	return rc;
}
