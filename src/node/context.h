/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks and parses the volume context and the publish context of a volume, for stage and publish
 * (node_csi.c, src/host). Pure functions. An invalid field is INVALID_ARGUMENT, with the same
 * message as in the Go plugin.
 */
#pragma once

#include "node/node.h"
#include "volume/volume_cap.h"

/* Checks that the volume ID can be used as a file name. */
int context_check_id(const char *id, struct err *err) MUST_CHECK;
/*
 * Returns the kind of the volume. Volumes of the Go plugin have it only in their publish context.
 * If neither context has it, the node's default (node_options) applies.
 */
enum emulation context_kind(const struct node *n, const struct kvs *volume_context,
                            const struct kvs *publish_context);
/* Checks the volume context's keys for stage and publish; *ret has the driver's own keys. */
int context_check(const struct node *n, const struct kvs *volume_context,
                  const struct kvs *publish_context, const struct volume_cap *cap,
                  struct volume_params *ret, struct err *err) MUST_CHECK;
/*
 * Fills *ret from the publish context. Rejects a publish context that contradicts the volume's own
 * keys, `p`. *ret borrows from the map; its nsid or tag is set.
 */
int context_want(const struct kvs *publish_context, const struct volume_params *p,
                 struct device_want *ret, struct err *err) MUST_CHECK;
