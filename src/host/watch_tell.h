/* SPDX-License-Identifier: Apache-2.0 */
/* What `host watch` tells systemd: that it is ready, what it does, and that its loop lives. */
#pragma once

#include "host/watch_priv.h"

/* Ready when the attachments of the start were tried, and after this in any case. */
#define WATCH_READY_MS 60000

struct watch_tell {
	bool begun, ready;
	int64_t begun_at, watchdog_at; /* monotonic ns */
	int64_t watchdog_ms;           /* 0: not asked for */
	char *status;                  /* as it was told last; NULL */
};

#define WATCH_TELL_INIT        \
	{                      \
		.begun = false \
	}
/* What is news; the loop's thread, often enough for the watchdog. */
void watch_tell(struct watch *w, struct watch_tell *t);
/* Tells that it stops. */
void watch_tell_end(struct watch_tell *t);
