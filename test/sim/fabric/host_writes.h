/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that acts on hosts' writes to their sysfs. Callers hold fabric->lock, except for
 * starting, stopping and waking the thread.
 */
#pragma once

#include "test/sim/fabric/hardware.h"

int host_listen(struct host *h, struct err *err)
	MUST_CHECK; /* opens the FIFOs, watches sriov_numvfs */
void host_watch_function(struct function *fn);
/* Whether a fault prevents the kernel from binding this function. */
bool host_ignores_bind(const struct function *fn);
int host_writes_start(struct fabric *f, struct err *err) MUST_CHECK;
void host_writes_stop(struct fabric *f);
/* Wakes the thread: faults have changed, or it has to end. */
void host_writes_wake(struct fabric *f);
