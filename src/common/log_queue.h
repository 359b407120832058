/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes log lines to stderr. Until log_queue_start(), the calling thread writes its line. After
 * that, the queue's thread writes all lines, so that no other thread waits for stderr. Otherwise a
 * pipe whose reader has stopped (a container runtime, journald) would block every call that logs. A
 * line is one write(2), and lines keep their order. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/*
 * Maximum size of the queue, in which each line counts as its length plus 24 bytes. A line that does
 * not fit is dropped.
 */
#define LOG_QUEUE_BYTES ((size_t)256 * 1024)
/* The longest wait of log_queue_flush(). */
#define LOG_FLUSH_MS 500

/*
 * Starts the thread, which ends with the process. `notice` returns the line (malloc'ed, with its
 * newline) that reports the number of dropped lines; this line is written in place of the dropped
 * lines, once stderr accepts lines again. Dropped lines are counted in METRIC_LOG_DROPPED. Must not
 * be called twice.
 */
int log_queue_start(char *(*notice)(uint64_t lines), struct err *err) MUST_CHECK;
/* Queues a line, which ends with its newline and is copied. */
void log_queue_write(const char *line, size_t n);
/*
 * Waits until everything is written, for LOG_FLUSH_MS at most. Call it before the process ends.
 * Async-signal-safe.
 */
void log_queue_flush(void);
