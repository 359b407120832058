/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ControllerPublishVolume and ControllerUnpublishVolume, in plain structs. Idempotent; any thread,
 * one per volume.
 */
#pragma once

#include "common/kv.h"
#include "common/mem.h"
#include "volume/volume_cap.h"
#include "controller/controller.h"

struct attach_request {
	const char *volume, *node;
	struct volume_cap cap;
	struct kvs volume_context;
};

/*
 * Attaches the volume, waits until the DPU reports the attachment and DPF reports Ready (if its
 * objects have that condition), and returns the publish context, in the arena.
 */
int volume_attach(struct controller *c, const struct attach_request *r, struct deadline d,
                  struct arena *arena, struct kvs *ret, struct err *err) MUST_CHECK;
/*
 * Detaches the volume and waits until the attachment is deleted, whether or not the volume or the
 * node still exists. If `node` is "" or NULL, detaches it from all nodes, but leaves attachments
 * whose name does not have this driver's format.
 */
int volume_detach(const struct controller *c, const char *volume, const char *node,
                  struct deadline d, struct err *err) MUST_CHECK;
