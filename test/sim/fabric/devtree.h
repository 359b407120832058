/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes attributes and links below a root. The first failure is kept in err, and later calls do
 * nothing, so that a caller builds a whole device and checks once at the end. A directory is built
 * in "new" and renamed into place, so that no reader sees a part of it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

struct devtree {
	const char *root; /* "<state>/<node>", with sys, dev and new below it */
	struct err err;
};

#define DEVTREE_INIT(root_)                      \
	{                                        \
		.root = (root_), .err = ERR_INIT \
	}

/* Paths are below the root, without a leading slash. */
void devtree_dir(struct devtree *t, const char *path); /* and its parents */
void devtree_attr(struct devtree *t, const char *dir, const char *name, const char *fmt, ...)
	PRINTF_(4, 5);
void devtree_bytes(struct devtree *t, const char *dir, const char *name, const void *bytes,
                   size_t n);
/*
 * Replaces the text of an attribute; a reader sees the old or the new one. Needs the directory
 * "new".
 */
void devtree_replace(struct devtree *t, const char *dir, const char *name, const char *text);
/* A link whose target is written unchanged. */
void devtree_symlink(struct devtree *t, const char *dir, const char *name, const char *target);
/* The shortest relative link to `target`, for a link that will be in `home`; both are below sys. */
void devtree_link(struct devtree *t, const char *dir, const char *name, const char *home,
                  const char *target);
/*
 * A link to `target` in a directory of links such as class/nvme, which is created if missing; both
 * are below sys.
 */
void devtree_entry(struct devtree *t, const char *dir, const char *name, const char *target);
void devtree_remove_entry(struct devtree *t, const char *dir, const char *name);
void devtree_fifo(struct devtree *t, const char *dir, const char *name);
void devtree_rename(struct devtree *t, const char *from, const char *to);
/*
 * Removes a file, a link or a whole directory; a missing one is fine. It also works after a
 * failure.
 */
void devtree_remove(struct devtree *t, const char *path);
bool devtree_has(const struct devtree *t, const char *path);
/* 0, or -1 and the first error of all calls. */
int devtree_end(struct devtree *t, struct err *err) MUST_CHECK;
/*
 * Removes everything in the directory `path` (a whole path) except the names in `keep`, which ends
 * with NULL and may be NULL. Never follows links or leaves the filesystem.
 */
void devtree_clear(const char *path, const char *const *keep);
