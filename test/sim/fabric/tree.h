/* SPDX-License-Identifier: Apache-2.0 */
/* PCI functions and NVMe controllers in sysfs. Callers hold fabric->lock. */
#pragma once

#include "test/sim/fabric/hardware.h"

int host_build(struct host *h, struct err *err) MUST_CHECK; /* the bus, without functions */
int function_appear(struct function *fn, struct err *err) MUST_CHECK;
void function_vanish(struct function *fn);
int function_bind(struct function *fn, struct err *err) MUST_CHECK;
void function_unbind(struct function *fn);
/*
 * The driver virtiofs tries to bind virtioN below a bound function: it succeeds if no other device
 * has its tag. Does nothing if it is already bound.
 */
int function_take_virtio(struct function *fn, struct err *err) MUST_CHECK;
bool host_autoprobe(const struct host *h);
/* The driver_override of a function, "" for none; malloc'ed. */
char *function_override(const struct function *fn);
