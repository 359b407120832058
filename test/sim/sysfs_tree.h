/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a tree of attributes and links below a root.  The first failure is kept in err and
 * everything after it does nothing: a caller builds a whole device and looks once at the end.
 * Directories are built aside and renamed into place, so that nobody sees half of one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

struct tree {
	const char *root; /* "<state>/<node>": has sys, dev and new below it */
	struct err err;
};

#define TREE_INIT(root_)                         \
	{                                        \
		.root = (root_), .err = ERR_INIT \
	}

/* Paths are below the root, without a leading slash. */
void tree_dir(struct tree *t, const char *path); /* with parents */
void tree_attr(struct tree *t, const char *dir, const char *name, const char *fmt, ...)
	PRINTF_(4, 5);
void tree_bytes(struct tree *t, const char *dir, const char *name, const void *bytes, size_t n);
/* A raw target. */
void tree_symlink(struct tree *t, const char *dir, const char *name, const char *target);
/* A relative link to `target` (a path below sys) for a link that will be in `home` (below sys). */
void tree_link(struct tree *t, const char *dir, const char *name, const char *home,
               const char *target);
void tree_fifo(struct tree *t, const char *dir, const char *name);
void tree_rename(struct tree *t, const char *from, const char *to);
/* A file, a link or a whole directory; one that is not there is fine. Works after a failure,
   too. */
void tree_remove(struct tree *t, const char *path);
bool tree_has(const struct tree *t, const char *path);
/* 0, or -1 and the first failure. */
int tree_end(struct tree *t, struct err *err) MUST_CHECK;
/* Removes everything in `path` (whole path) but the names in `keep` (NULL-terminated, may be
   NULL); never
   follows links nor leaves the filesystem. */
void tree_clear(const char *path, const char *const *keep);
