/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what is known while no stream tells of it: a deletion is not to be heard of late. */
#pragma once

#include "host/watch_priv.h"

/*
 * Does nothing while the stream is open, and ends with the first request that fails. New
 * attachments are left to the stream. The thread of looks, without the lock.
 */
void watch_ask(struct watch *w);
