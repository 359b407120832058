/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of a client, with some of a server in between, as input of a connection's account: it stays
 * within its bounds, however the bytes are split.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "rpc/h2_guard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* In pieces of `size` bytes; the server's bytes come after the client's. */
static void feed(struct h2_guard *g, size_t *unfinished, const uint8_t *client, size_t n_client,
                 const uint8_t *server, size_t n_server, size_t size, char reason[static 100])
{
	const char *why = NULL;

	reason[0] = 0;
	h2_guard_init(g, unfinished, 1);
	for (size_t at = 0; at < n_client && !why; at += size)
		why = h2_guard_client(g, client + at, size < n_client - at ? size : n_client - at,
		                      1);
	if (why)
		memcpy(reason, why, strlen(why) + 1);
	for (size_t at = 0; at < n_server; at += size)
		h2_guard_server(g, server + at, size < n_server - at ? size : n_server - at, 1);
	if (g->n_streams > LIMIT_RPC_STREAMS || g->budget > LIMIT_RPC_BUDGET * INT64_C(1000) ||
	    g->unfinished > n_client || g->unfinished != *unfinished)
		abort();
}

/* The first byte is the length of the pieces, the second the server's share. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct h2_guard whole, pieces;
	char why_whole[100], why_pieces[100];
	size_t n_server, unfinished[2] = { 0 };
	uint8_t *exact;

	if (n < 2)
		return 0;
	n_server = (n - 2) * data[1] / 255;
	exact = xmalloc(n);
	memcpy(exact, data, n);
	feed(&whole, &unfinished[0], exact + 2 + n_server, n - 2 - n_server, exact + 2, n_server, n,
	     why_whole);
	feed(&pieces, &unfinished[1], exact + 2 + n_server, n - 2 - n_server, exact + 2, n_server,
	     (size_t)data[0] + 1, why_pieces);
	if (strcmp(why_whole, why_pieces) != 0 || whole.n_streams != pieces.n_streams ||
	    whole.budget != pieces.budget || whole.calls != pieces.calls ||
	    whole.unanswered != pieces.unanswered ||
	    (!*why_whole && unfinished[0] != unfinished[1]))
		abort();
	h2_guard_clear(&whole);
	h2_guard_clear(&pieces);
	if (unfinished[0] || unfinished[1])
		abort();
	free(exact);
	return 0;
}
