/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a page of a list begins, as callers carry it: the API server's own token with a check, so
 * that what is not ours is known without asking. Pure.
 */
#pragma once

#include "common/mem.h"

/*
 * The token for the caller; "" when `api_token` is "": there is no next page. A token of a real API
 * server for a name of up to 60 bytes stays within the 128 bytes that CSI allows. In the arena.
 */
const char *list_token_make(const char *ns, const char *api_token, struct arena *arena);
/*
 * The API server's token again; "" for "". NULL: no list of this namespace has given out such a
 * token. In the arena.
 */
const char *list_token_read(const char *ns, const char *token, struct arena *arena);
