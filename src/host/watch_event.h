/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the attachments, from the API server into the table of `host watch`. */
#pragma once

#include "host/watch_priv.h"

/* A kube_news_fn; `arg` is the struct watch. The HTTP engine's thread. */
void watch_event(void *arg, enum kube_news news, const char *text, size_t n);
