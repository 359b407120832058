/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State files: small files below the driver's own folder, by which a later call, also of a new
 * driver, learns what the kernel does not tell (disk_record.h). There are two folders, with one
 * file for each volume, of lines key=value. A path that is not a regular file, or is too long, is
 * not a record: it is neither followed nor waited for, and reading it is an error that names it.
 */
#pragma once

#include "node/node.h"

#define STATE_DIR_JOBS "formatting"
#define STATE_DIR_UNSTAGING "unstaging"

/* <plugin dir>/<folder>, malloc'ed. */
char *state_file_folder(const struct node *n, const char *folder);
/* <plugin dir>/<folder>/<hash of the volume id><suffix>, malloc'ed. */
char *state_file_path(const struct node *n, const char *folder, const char *volume_id,
                      const char *suffix);
enum { STATE_FILE_NONE = 1 };
/*
 * *ret: its text, malloc'ed; bytes behind a NUL are left out. STATE_FILE_NONE: there is no such
 * file. UNAVAILABLE: it cannot be read, or is no record.
 */
int state_file_read(const char *path, char **ret, struct err *err) MUST_CHECK;
/* Has the text this line, without its newline? */
bool state_file_has_line(const char *text, const char *key, const char *value);
/* The value of the first line that begins with "key=", malloc'ed; NULL: there is none. */
char *state_file_value(const char *text, const char *key);
/* That there is none is no error. UNAVAILABLE: it cannot be removed. */
int state_file_remove(const char *path, struct err *err) MUST_CHECK;
/* The same; a crash of the host does not bring it back. */
int state_file_remove_synced(const char *path, struct err *err) MUST_CHECK;
/* Makes removals from the folder durable. A missing folder is not an error. */
int state_file_sync(const struct node *n, const char *folder, struct err *err) MUST_CHECK;

/*
 * Writes the file in its place and syncs it: after a crash of the host it may be missing, or cut.
 * UNAVAILABLE: it cannot be written.
 */
int state_file_write_synced(const char *path, const char *text, struct err *err) MUST_CHECK;

/*
 * A volume must be unstaged also when the disk of the driver's folder is full. So this many files
 * that have their block already wait in <plugin dir>/spare: state_file_put() makes the record of
 * one, and state_file_give_back() returns it. Only where a rename can exchange two names does a
 * record that is replaced return to them, too.
 */
#define STATE_FILE_SPARES 16
/*
 * At the start: makes those that are missing or have lost their block, and the folder that they
 * will be needed in. -1: not all could be made; the rest was.
 */
int state_file_make_spares(const struct node *n, struct err *err) MUST_CHECK;
/*
 * Makes or replaces the file, as a whole: a record that can be seen is complete. Not synced.
 * UNAVAILABLE: it cannot be written.
 */
int state_file_put(const struct node *n, const char *path, const char *text, struct err *err)
	MUST_CHECK;
/* state_file_remove() of what state_file_put() has made. */
int state_file_give_back(const struct node *n, const char *path, struct err *err) MUST_CHECK;

/*
 * Removes the files of a folder that `is_outdated` says, and those that were half written; adds
 * their names to `did`. One that cannot be read is left to the call that needs it. -1: one cannot
 * be removed; the rest was tried.
 */
int state_file_tidy(const struct node *n, const char *folder,
                    bool (*is_outdated)(void *arg, const char *name, const char *text), void *arg,
                    struct str *did, struct err *err) MUST_CHECK;
