/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recorded /sys in a temporary directory: unpacked from a manifest of test/data, changed by a
 * test, removed at its end. Paths are as in the manifest ("/sys/..."); recorded links are relative,
 * so they stay inside the tree. Any failure here fails the running test.
 */
#pragma once

#include <stddef.h>

#include "common/cleanup.h"
#include "common/str.h"

struct tree {
	char root[64];  /* the temporary directory */
	char sysfs[80]; /* <root>/sys */
	char dev[80];   /* <root>/dev, exists */
};

/* The manifest test/data/sysfs/<name>.manifest.jsonl, or an empty tree when name is NULL. */
void tree_unpack(struct tree *t, const char *name);
/* Removes the directory. */
void tree_clear(struct tree *t);
DEFINE_AUTO_VALUE(struct tree, tree_clear);

/* <root><path>, malloc'ed. */
char *tree_path(const struct tree *t, const char *path);
/* Writes a file with this content, replacing an existing one; creates its parents. */
void tree_write(const struct tree *t, const char *path, const char *text);
void tree_write_bytes(const struct tree *t, const char *path, const void *bytes, size_t n);
/* Creates a symbolic link, replacing an existing entry; creates its parents. */
void tree_link(const struct tree *t, const char *path, const char *target);
/*
 * A FIFO in place of an attribute: a thread that opens it waits, as for the kernel's lock of a
 * device, until tree_answer() ends the wait of one reader (with this text) or writer.
 */
void tree_fifo(const struct tree *t, const char *path);
void tree_answer(const struct tree *t, const char *path, const char *text);
void tree_mkdir(const struct tree *t, const char *path);
/* Removes a file, a link or a directory with its contents. */
void tree_remove(const struct tree *t, const char *path);
void tree_rename(const struct tree *t, const char *from, const char *to);
/* The content without trailing white space, malloc'ed; NULL if the file does not exist. */
char *tree_read(const struct tree *t, const char *path);
