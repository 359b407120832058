/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements the steps of a stage that do not depend on the kind of volume. Owns nothing:
 * node_stage() owns the struct.
 */
#include "node/staged/staging.h"

#include "common/cleanup.h"
#include "common/kill_point.h"
#include "common/mem.h"
#include "node/target/paths.h"

int staging_find_path(struct staging *s, struct err *err)
{
	const struct stage_request *r = s->r;
	char *path AUTO(free) = s->kind == TARGET_FILE
	                                ? mountpoint_block_file(r->staging_path, r->volume_id)
	                                : xstrdup(r->staging_path);

	if (!r->resolved)
		return paths_resolve(path, &s->path, err);
	s->path = TAKE(path);
	return 0;
}

int staging_make_point(struct staging *s, struct err *err)
{
	if (target_make(s->path, s->kind, &s->made, err))
		return -1;
	kill_point("stage: mount point made");
	return mount_target_open(s->path, &s->target, err);
}

int staging_check_gate(const struct staging *s, struct err *err)
{
	if (!s->check_only)
		return 0;
	return err_set(err, ERR_UNAVAILABLE, "the volume is not staged, and the gate is closed");
}

void staging_undo(struct staging *s)
{
	if (s->mounted)
		mount_target_remove(&s->target);
	kill_point("undo stage: unmounted");
	target_unmake(s->path, s->made);
	kill_point("undo stage: mount point removed");
}

/* RESOURCE_EXHAUSTED is not included: kubelet retries it, but CSI does not promise that. */
bool staging_is_retried(enum err_code code)
{
	return code == ERR_CANCELLED || code == ERR_DEADLINE || code == ERR_UNAVAILABLE ||
	       code == ERR_ABORTED;
}
