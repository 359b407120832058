/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the volumes on which calls fail, with the last error of each volume, the number of failures
 * and the time of the first. Sidecars and kubelet repeat a failing call as a new call each time, so
 * no single call shows that a volume is stuck. An entry lasts from the first failed call for its
 * volume to the next successful one.
 *
 * It counts calls that take the volume's lock, calls that hang, and calls that only read the volume
 * and find it unavailable. The table has FAILING_MAX entries; when it is full, the volume with the
 * oldest last failure is dropped. A volume is found in constant time. An entry contains no secret,
 * because an error message contains none (common/err.h). Any thread; a caller never waits for the
 * disk.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/deadline.h"
#include "common/err.h"

#define FAILING_MAX 1024
/* A volume without a call for this time is not counted as failing; its entry stays. */
#define FAILING_FORGOTTEN_NS (INT64_C(900) * 1000000000)
#define FAILING_FILE "last-errors.json" /* in the driver's own directory */
#define FAILING_NEWS_MS 1000
#define FAILING_REPEAT_MS 5000

struct failing_error {
	char volume[256]; /* volume id, or the name of a volume that is to be created */
	char call[64];    /* "NodeStageVolume" */
	/* error of the last failed call; ABORTED never replaces another error */
	struct err err;
	int64_t first, last; /* times of failed calls; monotonic ns, in the file Unix seconds */
	uint64_t count;      /* failed calls since `first` */
};

/* Records that a call for the volume has ended at `now` (monotonic ns); err NULL: it succeeded. */
void failing_note(const char *volume, const char *call, const struct err *err, int64_t now);
/*
 * Like failing_note(), but for a call that changes nothing, such as NodeGetVolumeStats. Only
 * UNAVAILABLE counts as an error of the volume; any other result removes an earlier error of such a
 * call. An error of any other call stays, because it is more informative.
 */
void failing_note_read(const char *volume, const char *call, const struct err *err, int64_t now);
/*
 * Returns the number of failing volumes; *ret_oldest is how long the first of them has been
 * failing, in ns.
 */
unsigned failing_count(int64_t now, int64_t *ret_oldest);
/* Returns false if the last call for the volume succeeded, or is not known. */
bool failing_find(const char *volume, struct failing_error *ret);

struct failing_options {
	const char *path;
	int news_ms; /* interval of writes when errors change; 0: FAILING_NEWS_MS. For tests */
	/* interval when calls repeat known errors; 0: FAILING_REPEAT_MS. For tests */
	int repeat_ms;
};

/*
 * Reads the entries of an earlier start from the file, and starts a thread that writes the file
 * (mode 0600) after changes, and retries if it cannot be written. The first change is written at
 * once. An error that is new, has changed or has ended is written within 1 s, the count and time of
 * a known error within 5 s. A large table is written less often: a full table of typical errors
 * (1.4 MB) every 6 s. If the process is killed, the changes that are not yet written are lost.
 * Returns -1 if the file exists but cannot be read; the next change replaces the file.
 */
int failing_start(const struct failing_options *o, struct err *err) MUST_CHECK;
/*
 * Waits until the last change is written, but not longer than `until`; nothing is written after
 * that.
 */
void failing_stop(struct deadline until);
/*
 * Calls fn for each entry of the file, the newest last. A missing file has no entries.
 * INVALID_ARGUMENT if the file was not written by failing_start().
 */
int failing_read(const char *path, void (*fn)(void *arg, const struct failing_error *e), void *arg,
                 struct err *err) MUST_CHECK;
