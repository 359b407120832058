/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of a stage that do not ask what is staged. Owns nothing: node_stage() owns the struct.
 */
#include "node/staged/staging.h"

#include "common/kill_point.h"

int staging_make_point(struct staging *s, struct err *err)
{
	int rc;

	if (target_make(s->asked, s->kind, &s->made, err))
		return -1;
	kill_point("stage: mount point made");
	rc = mount_resolve_path(s->asked, &s->path, err);
	if (rc == MOUNT_DIR_ABSENT)
		return err_set(err, ERR_UNAVAILABLE, "%s was removed by somebody", s->asked);
	return rc;
}

int staging_check_gate(const struct staging *s, struct err *err)
{
	if (!s->check_only)
		return 0;
	return err_set(err, ERR_UNAVAILABLE, "the volume is not staged, and the gate is closed");
}

void staging_undo(struct staging *s)
{
	struct err ignored = ERR_INIT;

	if (s->mounted && mount_remove(s->path, false, &ignored) < 0) {
		err_clear(&ignored);
		IGNORE_RESULT(mount_remove(s->path, true, &ignored));
	}
	kill_point("undo stage: unmounted");
	target_unmake(s->asked, s->made);
	kill_point("undo stage: mount point removed");
}

/* kubelet retries RESOURCE_EXHAUSTED, too, but CSI does not promise that. */
bool staging_is_retried(enum err_code code)
{
	return code == ERR_CANCELLED || code == ERR_DEADLINE || code == ERR_UNAVAILABLE ||
	       code == ERR_ABORTED;
}
