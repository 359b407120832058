/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications of `host watch` to systemd: ready, status, watchdog. */
#pragma once

#include "host/watch_priv.h"

/* Ready when each attachment of the start was tried once, and after this time in any case. */
#define WATCH_READY_MS 60000

struct watch_notify {
	bool begun, ready;
	int64_t begun_at, watchdog_at; /* monotonic ns */
	int64_t watchdog_ms;           /* 0: not asked for */
	char *status;                  /* the last one sent; NULL */
};

#define WATCH_NOTIFY_INIT      \
	{                      \
		.begun = false \
	}
/* Sends what has changed. The loop's thread, often enough for the watchdog. */
void watch_notify(struct watch *w, struct watch_notify *t);
/* Sends STOPPING. */
void watch_notify_end(struct watch_notify *t);
