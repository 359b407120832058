/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares of virtio-fs devices, identified by tag. All mounts of one tag share a superblock, whose
 * device number is in mountinfo. The number stays the same until the device is removed. After that,
 * every access to the mounts fails with ENOTCONN. No state, any thread.
 */
#pragma once

#include "node/node.h"
#include "node/target/mountpoint.h"

enum { SHARE_DEAD = 1 };
/*
 * Probes the share mounted at `path`. Returns 0 if the share answered within guard_ms, possibly
 * with an errno, which does not predict whether an unmount will succeed. Returns SHARE_DEAD if the
 * device, or the server behind it, was removed, so this mount will never answer again. UNAVAILABLE:
 * the share hangs, or no thread could be started for the probe.
 */
int share_probe(const struct node *n, dev_t devno, const char *path, struct err *err) MUST_CHECK;
/* Returns true for an errno of a share whose device or server was removed. */
bool share_errno_is_dead(int errnum);
enum { SHARE_NO_TAG = 1 };
/*
 * Returns the device number of the superblock that the tag currently selects. For this, mounts the
 * tag read-only below the driver's directory for a moment, with the volume's `flags`. Returns
 * SHARE_NO_TAG if no device of this host has the tag.
 */
int share_probe_tag(const struct node *n, const char *volume_id, const char *tag,
                    const struct strs *flags, dev_t *ret, struct err *err) MUST_CHECK;
/*
 * Like mountpoint_elsewhere(), but for a share with a userspace client only mounts below
 * --kubelet-dir and --volume-dir are returned, because the client itself has another mount.
 */
const struct mount *share_elsewhere(const struct node *n, const struct mount_table *t,
                                    const struct mountpoint *p, const struct mountpoint *but,
                                    bool whole, const struct mount *after);
/* Returns true if the target is a mount of share_probe_tag(). */
bool share_is_tag_probe(const struct node *n, const char *target);
/*
 * Called at startup, concurrently with RPC calls. Removes mounts that share_probe_tag() of a killed
 * driver has left (their names end in the token of another node), and adds them to `did`. -1: a
 * mount whose server hangs stays; the message names it. The others were tried.
 */
int share_tidy(const struct node *n, struct str *did, struct err *err) MUST_CHECK;
