/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares of virtio-fs devices, known by their tag. What mounts of one tag have in common is their
 * superblock, whose number mountinfo shows; it is theirs until the device goes, and then all of
 * them answer that they are not connected. No state, any thread.
 */
#pragma once

#include "node/node.h"
#include "node/target/mountpoint.h"

enum { SHARE_DEAD = 1 };
/*
 * Does the share that is mounted at `path` answer within guard_ms? 0: yes, possibly with an errno,
 * which says nothing about a later unmount. SHARE_DEAD: the device, or the server behind it, was
 * removed, so this mount will never answer again. UNAVAILABLE: the share hangs, or no thread could
 * be started to ask it.
 */
int share_probe(const struct node *n, dev_t devno, const char *path, struct err *err) MUST_CHECK;
/* Is this the errno that the kernel answers when a share's device or server was removed? */
bool share_errno_is_dead(int errnum);
enum { SHARE_NO_TAG = 1 };
/*
 * Which superblock does the tag lead to now? Mounts it read-only below the driver's folder for a
 * moment; `flags` are those that the volume has. SHARE_NO_TAG: no device of this host has it.
 */
int share_probe_tag(const struct node *n, const char *volume_id, const char *tag,
                    const struct strs *flags, dev_t *ret, struct err *err) MUST_CHECK;
/*
 * mountpoint_elsewhere(). Of a share that a client outside the kernel serves, only what kubelet and
 * its like have mounted, below --kubelet-dir and --volume-dir: the client has it mounted for
 * itself.
 */
const struct mount *share_elsewhere(const struct node *n, const struct mount_table *t,
                                    const struct mountpoint *p, const struct mountpoint *but,
                                    bool whole, const struct mount *after);
/* Is it such a mount? */
bool share_is_tag_probe(const struct node *n, const char *target);
/*
 * For the start, beside the calls: removes mounts that share_probe_tag() of a killed driver has
 * left (their names end in the token of another node), and adds them to `did`. -1: a mount whose
 * server hangs stays; the text names it, and the others were tried.
 */
int share_tidy(const struct node *n, struct str *did, struct err *err) MUST_CHECK;
