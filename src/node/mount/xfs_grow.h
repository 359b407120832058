/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grows a mounted xfs by ioctl(2). xfs_growfs(8) is not used because it first calls stat(2) for
 * every mount of the host, so that one mount whose server hangs would block all growth. No state,
 * any thread.
 *
 * Source: ioctl_xfs_fsgrowfs(2), fs/xfs/libxfs/xfs_fs.h.
 */
#pragma once

#include "common/err.h"

/*
 * Grows the xfs that is mounted at `mounted_at` to the size of `device`. Returns 0 even if it
 * already has that size. May hang, like any access to the mount. UNAVAILABLE: another growth is in
 * progress.
 */
int xfs_grow(const char *device, const char *mounted_at, struct err *err) MUST_CHECK;
