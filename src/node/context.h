/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the maps of a volume, its context and its publish context, say to a node: checked and
 * parsed, for stage and publish (node_csi.c, the room host). Pure functions; field
 * errors are INVALID_ARGUMENT in the Go plugin's words.
 */
#pragma once

#include "node/node.h"
#include "volume/volume_cap.h"

/* The volume id is used as a file's name. */
int context_check_id(const char *id, struct err *err) MUST_CHECK;
/*
 * The kind of the volume. Volumes of the Go plugin say it in their publish context alone; the
 * node's own flag is for those that come without.
 */
enum emulation context_kind(const struct node *n, const struct kvs *volume_context,
                            const struct kvs *publish_context);
/* Checks the keys that only stage and publish use; *ret: the driver's own keys. */
int context_check(const struct node *n, const struct kvs *volume_context,
                  const struct kvs *publish_context, const struct volume_cap *cap,
                  struct volume_params *ret, struct err *err) MUST_CHECK;
/*
 * What the publish context leads to; a contradiction with the volume's own keys, `p`, is refused.
 * *ret borrows from the map; its nsid or tag is set.
 */
int context_want(const struct kvs *publish_context, const struct volume_params *p,
                 struct device_want *ret, struct err *err) MUST_CHECK;
