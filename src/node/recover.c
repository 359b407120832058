/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tidies up after a killed driver. Kubelet repeats its call, or unpublishes and unstages, and those
 * find mounts, files and disks by themselves. An unstage cannot find a function that was bound for
 * a disk which was never mounted, because its request names no function. driver_override has an
 * effect only while a function is being bound, so clearing it does no harm to a volume in use.
 * Records of the boot before say nothing any more. A look at a share (share.h) may have been under
 * way.
 */
#include "node/recover.h"

#include <stdlib.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "node/job_record.h"
#include "node/leaving.h"
#include "node/record.h"
#include "node/share.h"

struct tidying {
	const struct node *n;
	struct strs *unfinished;
};

/* Others stay when they can match a disk yet, and are told. */
static bool is_outdated(void *arg, const char *name, const char *text)
{
	const struct tidying *t = arg;
	char *what AUTO(free) = job_record_describe(name, text);

	if (!what || job_record_is_outdated(t->n, text))
		return true;
	strs_add(t->unfinished, what);
	return false;
}

int node_recover(const struct node *n, struct str *did, struct strs *unfinished, struct err *err)
{
	struct err functions = ERR_INIT, records = ERR_INIT, ignored = ERR_INIT, full = ERR_INIT;
	struct err looks = ERR_INIT;
	struct tidying t = { n, unfinished };
	int rc = device_release_all(&n->o.world, did, &functions);

	if (record_tidy(n, RECORD_DIR_JOBS, is_outdated, &t, did, &records))
		rc = -1;
	if (leaving_remove_outdated(n, did, records.code ? &ignored : &records))
		rc = -1;
	if (share_tidy(n, did, &looks))
		rc = -1;
	if (record_make_spares(n, &full))
		log_event(
			LOG_WARNING,
			"while the disk of the driver's folder is full, volumes cannot be unstaged",
			"error", full.msg, NULL);
	if (rc)
		*err = functions.code ? functions : records.code ? records : looks;
	return rc;
}
