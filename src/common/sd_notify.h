/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a service tells systemd (sd_notify(3)): one datagram to the socket that NOTIFY_SOCKET names,
 * without libsystemd. Any thread. Nothing is kept, and nothing is waited for.
 */
#pragma once

#include <stdint.h>

#include "common/err.h"

/*
 * Sends assignments, one a line: "READY=1\nSTATUS=...". A text in a value has no newline. 0, also
 * when there is nobody to tell. -1: NOTIFY_SOCKET is no address of a socket, or nobody reads it.
 */
int sd_notify_send(const char *state, struct err *err) MUST_CHECK;
/*
 * How often WATCHDOG=1 has to be sent at the least, in ms (WATCHDOG_USEC of this process); 0: it is
 * not asked for.
 */
int64_t sd_notify_watchdog_ms(void);
