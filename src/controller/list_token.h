/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The token for the next page of a list, as callers pass it: the API server's own token with a
 * checksum, so that a foreign token is rejected without a request. Pure functions.
 */
#pragma once

#include "common/mem.h"

/*
 * Returns the token for the caller, in the arena; "" if `api_token` is "", that is, if there is no
 * next page. With the token of a real API server and an object name of up to 60 bytes, the result
 * stays within the 128 bytes that CSI allows.
 */
const char *list_token_make(const char *ns, const char *api_token, struct arena *arena);
/*
 * Returns the API server's token, in the arena; "" for "". Returns NULL if no list of this
 * namespace has issued this token.
 */
const char *list_token_read(const char *ns, const char *token, struct arena *arena);
