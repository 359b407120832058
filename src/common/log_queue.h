/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes log lines to stderr. Until log_queue_start() the calling thread writes its line. After
 * that a thread of the queue does, and no other thread waits for stderr: a pipe whose reader has
 * stopped (a container runtime, journald) would otherwise block every call that logs. A line is one
 * write(2), and lines keep their order. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* Bytes of queued lines, plus 24 for each line. A line that does not fit is dropped. */
#define LOG_QUEUE_BYTES ((size_t)256 * 1024)
/* The longest wait of log_queue_flush(). */
#define LOG_FLUSH_MS 500

/*
 * Starts the thread, which ends with the process. `notice` returns the line (malloc'ed, with its
 * newline) that says how many lines were dropped; it is written in their place, once stderr takes
 * lines again. Dropped lines are counted in METRIC_LOG_DROPPED. Not called twice.
 */
int log_queue_start(char *(*notice)(uint64_t lines), struct err *err) MUST_CHECK;
/* `line` ends with its newline; it is copied. */
void log_queue_write(const char *line, size_t n);
/*
 * Before the process ends: waits until everything is written, for LOG_FLUSH_MS at most.
 * Async-signal-safe.
 */
void log_queue_flush(void);
