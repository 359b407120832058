/* SPDX-License-Identifier: Apache-2.0 */
/* Folders that are attached to functions as virtio-fs devices. */
#pragma once

#include "test/sim/fabric/fabric.h"
#include "test/sim/fabric/hardware.h"

/* ---- for this room; callers hold fabric->lock ---- */

/* A folder for the function, which must not have one yet. */
void virtiofs_new(struct function *fn, const struct fabric_namespace *n);
/* Frees it; the function was removed. Does nothing without a folder. */
void virtiofs_free(struct function *fn);
/* Its daemon: runs from the bind of virtiofs until the unbind. */
int virtiofs_serve(struct function *fn, struct err *err) MUST_CHECK;
void virtiofs_end(struct function *fn);
/* The folder of a volume, created by the first attachment; malloc'ed. */
char *virtiofs_folder(const struct fabric *f, const char *ns, const char *volume);

/* ---- the switch of snap-sim ---- */

/*
 * Acts on the daemon that serves the volume on the node (NULL: on any): "kill", "stop", "continue",
 * or "restart", which ends it first if it runs. INVALID_ARGUMENT, NOT_FOUND: it is attached to no
 * bound function there; FAILED_PRECONDITION: no daemon runs.
 */
int virtiofs_do(struct fabric *f, const char *volume, const char *node, const char *what,
                struct err *err) MUST_CHECK;
