/* SPDX-License-Identifier: Apache-2.0 */
/* Scans the volumes: attached ones for their health, manually detached ones for `host resume`. */
#pragma once

#include "host/watch_priv.h"

/*
 * One scan of all. A volume that has to be attached again becomes due. The scan thread, without the
 * lock.
 */
void watch_scan(struct watch *w);
