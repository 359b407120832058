/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a tree of attributes and links below a root. The first failure is kept in err and
 * everything after it does nothing: a caller builds a whole device and looks once at the end.
 * Directories are built aside and renamed into place, so that nobody sees half of one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

struct devtree {
	const char *root; /* "<state>/<node>": has sys, dev and new below it */
	struct err err;
};

#define DEVTREE_INIT(root_)                      \
	{                                        \
		.root = (root_), .err = ERR_INIT \
	}

/* Paths are below the root, without a leading slash. */
void devtree_dir(struct devtree *t, const char *path); /* with parents */
void devtree_attr(struct devtree *t, const char *dir, const char *name, const char *fmt, ...)
	PRINTF_(4, 5);
void devtree_bytes(struct devtree *t, const char *dir, const char *name, const void *bytes,
                   size_t n);
/* Another text for an attribute that is there: readers see the old or the new one. Needs "new". */
void devtree_replace(struct devtree *t, const char *dir, const char *name, const char *text);
/* A raw target. */
void devtree_symlink(struct devtree *t, const char *dir, const char *name, const char *target);
/*
 * The shortest relative link to `target` (a path below sys) for one that will be in `home` (below
 * sys).
 */
void devtree_link(struct devtree *t, const char *dir, const char *name, const char *home,
                  const char *target);
/*
 * A link in a class or bus directory `dir` (below sys), which is made when it is missing; `target`
 * is below sys, too.
 */
void devtree_entry(struct devtree *t, const char *dir, const char *name, const char *target);
void devtree_remove_entry(struct devtree *t, const char *dir, const char *name);
void devtree_fifo(struct devtree *t, const char *dir, const char *name);
void devtree_rename(struct devtree *t, const char *from, const char *to);
/*
 * A file, a link or a whole directory; one that is not there is fine. Works after a failure, too.
 */
void devtree_remove(struct devtree *t, const char *path);
bool devtree_has(const struct devtree *t, const char *path);
/* 0, or -1 and the first failure. */
int devtree_end(struct devtree *t, struct err *err) MUST_CHECK;
/*
 * Removes everything in `path` (whole path) but the names in `keep` (NULL-terminated, may be NULL);
 * never follows links nor leaves the filesystem.
 */
void devtree_clear(const char *path, const char *const *keep);
