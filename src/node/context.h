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
 * *ret borrows from the map.
 */
int context_want(const struct kvs *publish_context, const struct volume_params *p,
                 struct device_want *ret, struct err *err) MUST_CHECK;

/*
 * The kind of device that the publish context leads to: one with a namespace id is NVMe, one with a
 * tag is virtio-fs, whatever the flags say. `otherwise` when it has neither or both.
 */
enum emulation publish_context_emulation(const struct kvs *map, enum emulation otherwise);
/*
 * Parses the publish context into what device_find() looks for; *ret borrows from the map. PCI
 * address and either nsid or tag are required (the error texts are the Go plugin's); any other
 * missing key means "unknown" and is not checked. `expected` only says which one is missing when
 * neither is there; ret->emulation says which it was, and ret->function is a PF for a tag, else
 * any.
 */
int publish_context_parse(const struct kvs *map, enum emulation expected, struct device_want *ret,
                          struct err *err) MUST_CHECK;
/* Does it have a PCI address? NodePublishVolume may come without. */
bool publish_context_given(const struct kvs *map);
