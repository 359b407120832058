/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The publish context of a volume, which identifies the device that the DPU presents to the host.
 * The controller and `host attach` write it; the node reads it. Stateless; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/kv.h"
#include "common/mem.h"
#include "volume/volume_params.h"

/* Strings are borrowed. "" or 0: unknown. */
struct publish_context {
	const char *volume, *attachment, *attachment_uid; /* names of the objects, and a UID */
	/* the attachment's creationTimestamp, RFC 3339; not checked */
	const char *attachment_created;
	/* the only node that may create the container of a volume that several nodes may write */
	const char *format_node;
	const char *pci;          /* address of the PCI function, with or without its domain */
	const char *vuid;         /* VPD field VU of the function */
	enum emulation emulation; /* determines which of the following members are set */
	uint64_t nsid;            /* NVMe: namespace id, at most 2^32 - 1 */
	const char *uuid;         /* NVMe */
	const char *tag;          /* virtio-fs; not checked */
	uint64_t capacity;        /* bytes: size of the disk, or quota of the share */
};

/*
 * Writes the map, in the arena. Exactly one of nv-nvmeNsID and nv-virtioFsTag is written, which
 * determines the kind on the node. `vendor` has further keys. A vendor's key with a name that only
 * the driver may write is omitted, even if the driver does not write that key, because the node
 * would read the vendor's value as the driver's. A node rejects a context of more than 4096 bytes
 * (CSI's limit of a map), so vendor keys are omitted until the context fits, longest first;
 * *ret_cut is the first omitted key, or NULL. UNAVAILABLE if the driver's own keys exceed the
 * limit.
 */
int publish_context_write(const struct publish_context *c, const struct kvs *vendor,
                          struct arena *arena, struct kvs *ret, const char **ret_cut,
                          struct err *err) MUST_CHECK;
/*
 * Reads the map, and borrows its strings. The PCI address and either nsid or tag are required (the
 * error messages are the Go plugin's). `expected` only determines which of the two is reported as
 * missing if both are absent. INVALID_ARGUMENT if a key is missing or malformed. A share's capacity
 * is not read, because it is not the size of a device.
 */
int publish_context_read(const struct kvs *map, enum emulation expected,
                         struct publish_context *ret, struct err *err) MUST_CHECK;
/*
 * Returns the kind of device: NVMe with a namespace id, virtio-fs with a tag; `otherwise` if the
 * map has neither or both.
 */
enum emulation publish_context_emulation(const struct kvs *map, enum emulation otherwise);
/* Returns true if the map has a PCI address, which is optional in NodePublishVolume. */
bool publish_context_given(const struct kvs *map);
