/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What hosts write into their sysfs: the thread that obeys it. The caller holds fabric->lock, but
 * for starting, stopping and waking the thread.
 */
#pragma once

#include "test/sim/fabric/hardware.h"

int host_listen(struct host *h, struct err *err) MUST_CHECK; /* FIFOs and watches of the tree */
void host_watch_function(struct function *fn);
int host_writes_start(struct fabric *f, struct err *err) MUST_CHECK;
void host_writes_stop(struct fabric *f);
/* Faults have changed, or the end has come. */
void host_writes_wake(struct fabric *f);
