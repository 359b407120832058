/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifies systemd (sd_notify(3)): one datagram to the socket that NOTIFY_SOCKET names, without
 * libsystemd. Any thread. It keeps no state and never blocks.
 */
#pragma once

#include <stdint.h>

#include "common/err.h"

/*
 * Sends assignments, one per line: "READY=1\nSTATUS=...". A value must not contain a newline.
 * Returns 0, even if NOTIFY_SOCKET is not set; -1 if NOTIFY_SOCKET is not a socket address, or if
 * no process reads it.
 */
int sd_notify_send(const char *state, struct err *err) MUST_CHECK;
/*
 * Returns the longest allowed interval between two WATCHDOG=1, in ms (WATCHDOG_USEC of this
 * process); 0 if not requested.
 */
int64_t sd_notify_watchdog_ms(void);
