/* SPDX-License-Identifier: Apache-2.0 */
/* Polls the known attachments while no watch stream is open, so that a deletion is not missed. */
#pragma once

#include "host/watch_priv.h"

/*
 * No effect while the stream is open; ends with the first request that fails. The stream reports
 * new attachments. The scan thread, without the lock.
 */
void watch_poll(struct watch *w);
