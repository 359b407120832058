/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The publish context of a volume: the device that the DPU presents to the host. The controller and
 * `host attach` write it, the node reads it. No state, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/kv.h"
#include "common/mem.h"
#include "volume/volume_params.h"

/* Texts are borrowed. "" or 0: unknown. */
struct publish_context {
	const char *volume, *attachment, *attachment_uid; /* names of the objects, and a UID */
	const char *pci;          /* address of the PCI function, with or without its domain */
	const char *vuid;         /* VPD field VU of the function */
	enum emulation emulation; /* which of the following members are set */
	uint64_t nsid;            /* NVMe: namespace id, at most 2^32 - 1 */
	const char *uuid;         /* NVMe */
	const char *tag;          /* virtio-fs; not checked */
	uint64_t capacity;        /* bytes: size of the disk, or quota of the share */
};

/*
 * In the arena. Exactly one of nv-nvmeNsID and nv-virtioFsTag is written: it tells the node the
 * kind. `vendor`: further keys. A key that only the driver may write is left out, even if the
 * driver does not write it, because the node would take the vendor's value for the driver's.
 */
struct kvs publish_context_write(const struct publish_context *c, const struct kvs *vendor,
                                 struct arena *arena);
/*
 * Borrows from the map. PCI address and either nsid or tag are required (the error texts are the Go
 * plugin's). `expected` only says which of the two is missing when neither is there.
 * INVALID_ARGUMENT: a key is missing or malformed. The capacity of a share is not read: it is not
 * the size of a device.
 */
int publish_context_read(const struct kvs *map, enum emulation expected,
                         struct publish_context *ret, struct err *err) MUST_CHECK;
/*
 * The kind of device: with a namespace id it is NVMe, with a tag virtio-fs. `otherwise` when the
 * map has neither or both.
 */
enum emulation publish_context_emulation(const struct kvs *map, enum emulation otherwise);
/* Does it have a PCI address? NodePublishVolume may come without. */
bool publish_context_given(const struct kvs *map);
