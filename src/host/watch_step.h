/* SPDX-License-Identifier: Apache-2.0 */
/* One step of one attachment, by the functions of host attach and host detach. */
#pragma once

#include "host/watch_priv.h"

/* What a step is to do; the texts are the entry's, which stays as long as its step runs. */
struct watch_order {
	enum tracked_step step;
	const char *name, *uid, *volume;
	bool missing, gone;
	struct cancel *cancel;
};

struct watch_outcome {
	enum tracked_state state;
	bool found; /* of one that was missing: it is there */
	bool gone;  /* this uid is no more */
	char why[TRACKED_WHY_MAX];
};

/* Any thread, without the lock. */
void watch_step(struct watch *w, const struct watch_order *o, struct watch_outcome *ret);
