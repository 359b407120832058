/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resources behind the objects: the storage of volumes, and the functions that attachments
 * hold. Only the controllers' thread calls, unless a function says otherwise.
 */
#pragma once

#include "test/sim/dpf/state.h"

struct backing *backing_find(struct dpf *d, const char *ns, const char *volume);
struct backing *backing_new(struct dpf *d, const struct json *volume, uint64_t bytes);
/* Removes the storage and its image; frees it. */
int backing_remove(struct dpf *d, struct backing *b, struct err *err) MUST_CHECK;
/*
 * Sets the size, which can only grow, of the storage and of the devices that show it.
 * INVALID_ARGUMENT, NOT_FOUND. Any thread.
 */
int backing_resize(struct dpf *d, const char *volume, uint64_t bytes, struct err *err) MUST_CHECK;
struct placement *placement_find(struct dpf *d, const char *ns, const char *attachment);
/* Takes a free function of the node. RESOURCE_EXHAUSTED: none is free. */
int placement_take(struct dpf *d, const struct json *attachment, const struct backing *b,
                   struct placement **ret, struct err *err) MUST_CHECK;
/* Assigns another function, if one is free; `moves` is set until the caller has shown it there. */
void placement_move(struct dpf *d, struct placement *p);
/* Attachments of its node that have no function are checked again. */
void placement_release(struct dpf *d, struct placement *p);
/*
 * For the call that has taken it: no other attachment had it in between, so none has waited for it.
 */
void placement_give_back(struct dpf *d, struct placement *p);
/* Makes the device appear on the node, or vanish. Without a fabric nothing happens. */
int placement_show(struct dpf *d, struct placement *p, struct err *err) MUST_CHECK;
int placement_hide(struct dpf *d, struct placement *p, struct err *err) MUST_CHECK;
/* The PCI address: "0000:26:00.1" or, with --short-pci-address, "26:00.1". */
void placement_pci(const struct dpf *d, const struct placement *p, char buf[16]);
/* The VUID of the function; that of its PF for a VF. */
void placement_vuid(const struct placement *p, char buf[32]);
/* {"volumes": [...], "attachments": [...]}; a new root. Any thread. */
struct json *placement_json(struct dpf *d);
