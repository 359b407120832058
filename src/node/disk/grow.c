/* SPDX-License-Identifier: Apache-2.0 */
/* Runs fs_grow() as a job of the volume. The callers decide whether the filesystem has to grow. */
#include "node/disk/grow.h"

#include <stdlib.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/work/job.h"
#include "node/mount/mkfs.h"

/* Owned by the job. */
struct growth {
	char *fs_type, *device, *mounted_at;
};

static int growth_run(void *arg, struct err *err)
{
	const struct growth *g = arg;

	return fs_grow(g->fs_type, g->device, g->mounted_at, deadline_in_ms(GROW_MS), err);
}

static void growth_free(void *arg)
{
	struct growth *g = arg;

	free(g->fs_type);
	free(g->device);
	free(g->mounted_at);
	free(g);
}

int grow_filesystem(struct node *n, const char *volume_id, const char *fs_type, const char *device,
                    const char *mounted_at, struct deadline d, struct err *err)
{
	char *what AUTO(free) = xasprintf("growth of the %s on %s", fs_type, device);
	struct growth *g;

	if (job_join(n->jobs, volume_id, d, err))
		return -1;
	g = xmalloc(sizeof(*g));
	*g = (struct growth) { xstrdup(fs_type), xstrdup(device), xstrdup(mounted_at) };
	return job_run(n->jobs,
	               &(struct job_order) { .kind = JOB_GROW,
	                                     .key = volume_id,
	                                     .what = what,
	                                     .run = growth_run,
	                                     .free = growth_free,
	                                     .arg = g },
	               d, err);
}
