/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at what is attached: is it still there, and is what was held still held? */
#pragma once

#include "host/watch_priv.h"

/*
 * One look at each. What is no longer there becomes due. The one thread of looks, without the lock.
 */
void watch_look(struct watch *w);
