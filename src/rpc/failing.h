/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Volumes on which calls fail, and since when. Sidecars and kubelet repeat a call that fails, each
 * time as a new one: that a volume is stuck shows in no single call. A volume is here from its
 * first failed call to its next good one, or until nobody has called for it for
 * FAILING_FORGOTTEN_NS.
 *
 * Counted are calls that take the volume's lock; of a volume its hash is kept. Any thread, no lock:
 * two calls that end in the same moment may leave one of them out. So many volumes at most that the
 * page /metrics stays quick; of more, those that failed first stay.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define FAILING_MAX 1024
#define FAILING_FORGOTTEN_NS (INT64_C(900) * 1000000000)

/* A call for the volume has ended at `now` (monotonic ns). */
void failing_note(const char *volume, bool failed, int64_t now);
/* How many there are; *ret_oldest: for how long the first of them has been failing, ns. */
unsigned failing_count(int64_t now, int64_t *ret_oldest);
