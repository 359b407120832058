/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State files: small files below the driver's own directory. They store facts that a later call
 * needs, even of a new driver process, and that the kernel does not have (disk_record.h). There are
 * three directories, each with one file per volume. A file consists of lines key=value. A path that
 * is not a regular file, or is too long, is not a record: the driver neither follows it nor blocks
 * on it, and reading it is an error that names it.
 */
#pragma once

#include "node/node.h"

#define STATE_DIR_JOBS "formatting"
#define STATE_DIR_UNSTAGING "unstaging"
#define STATE_DIR_SETTINGS "settings"

/* Returns <plugin dir>/<folder>, malloc'ed. */
char *state_file_folder(const struct node *n, const char *folder);
/* Returns <plugin dir>/<folder>/<hash of the volume ID><suffix>, malloc'ed. */
char *state_file_path(const struct node *n, const char *folder, const char *volume_id,
                      const char *suffix);
enum { STATE_FILE_NONE = 1 };
/*
 * Reads the file; *ret is its text up to the first NUL, malloc'ed. Returns STATE_FILE_NONE if there
 * is no such file. UNAVAILABLE: it cannot be read, or is not a record.
 */
int state_file_read(const char *path, char **ret, struct err *err) MUST_CHECK;
/* Returns true if the text has the line key=value. */
bool state_file_has_line(const char *text, const char *key, const char *value);
/*
 * Returns the value of the first line that begins with "key=", malloc'ed, or NULL if there is no
 * such line.
 */
char *state_file_value(const char *text, const char *key);
/* Removes the file. A missing file is not an error. UNAVAILABLE: it cannot be removed. */
int state_file_remove(const char *path, struct err *err) MUST_CHECK;
/*
 * Like state_file_remove(), but syncs the removal, so that the file does not reappear after a crash
 * of the host.
 */
int state_file_remove_synced(const char *path, struct err *err) MUST_CHECK;
/* Makes removals from the directory durable. A missing directory is not an error. */
int state_file_sync(const struct node *n, const char *folder, struct err *err) MUST_CHECK;

/*
 * Writes the file in place and syncs it. After a crash of the host, the file may be missing or
 * truncated. UNAVAILABLE: it cannot be written.
 */
int state_file_write_synced(const char *path, const char *text, struct err *err) MUST_CHECK;

/*
 * A volume must be unstaged even if the filesystem of the driver's directory is full. Therefore
 * this many spare files, each with an allocated block, are kept in <plugin dir>/spare.
 * state_file_put() turns one of them into the record, and state_file_give_back() returns it. The
 * file of a replaced record becomes a spare again only if rename can exchange two names.
 */
#define STATE_FILE_SPARES 16
/*
 * To be called at startup: creates the directories, and the spare files that are missing or have no
 * allocated block. -1: some could not be created; the others were.
 */
int state_file_make_spares(const struct node *n, struct err *err) MUST_CHECK;
/*
 * Creates or replaces the file atomically, so a visible record is complete. Does not sync it.
 * UNAVAILABLE: it cannot be written.
 */
int state_file_put(const struct node *n, const char *path, const char *text, struct err *err)
	MUST_CHECK;
/* Removes a file of state_file_put(), like state_file_remove(), and makes it a spare file again. */
int state_file_give_back(const struct node *n, const char *path, struct err *err) MUST_CHECK;

/*
 * Removes the files of a directory for which `is_outdated` returns true, and incomplete files; adds
 * their names to `did`. A file that cannot be read is left to the call that needs it. -1: a file
 * cannot be removed; the others were tried.
 */
int state_file_tidy(const struct node *n, const char *folder,
                    bool (*is_outdated)(void *arg, const char *name, const char *text), void *arg,
                    struct str *did, struct err *err) MUST_CHECK;
