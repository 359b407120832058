/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits the cost of one HTTP/2 connection, measured by its frame headers (RFC 9113, 4.1). gRPC's
 * own limits hold only for clients that obey the server's settings; these limits hold for all
 * clients.
 *
 * Every frame that serves no call reduces a budget; completed calls and time refill it. The bytes
 * of incomplete messages are counted for all connections together, because gRPC keeps them in
 * memory. Pure: no I/O, no clock, no thread of its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/limits.h"

/* One direction: the header of the current frame, and the number of its remaining bytes. */
struct h2_frames {
	uint8_t head[9];
	size_t n_head;   /* received bytes of `head` */
	uint32_t length; /* length of the payload */
	uint32_t left;   /* bytes of the payload still to come */
	uint32_t stream;
	uint8_t type, flags;
};

struct h2_stream {
	uint32_t id;    /* with a flag bit: the first byte of its message was seen */
	uint32_t bytes; /* received bytes of an incomplete message */
};

struct h2_guard {
	struct h2_frames client, server;
	struct h2_stream *streams; /* open streams */
	unsigned n_streams, room;
	size_t unfinished;      /* bytes of incomplete messages of all streams */
	size_t *all_unfinished; /* the same, of all connections */
	/* calls ended by the server; the client may still reset each of them once */
	unsigned late;
	uint32_t last_stream; /* the highest stream number so far */
	size_t block;         /* bytes of the current header block */
	uint32_t first_byte;  /* the stream whose message's first byte comes next; 0: none */
	bool padded;          /* a pad length precedes that byte */
	int64_t budget;       /* in thousandths of a frame */
	/* in thousandths of a call: how many calls may be opened and abandoned */
	int64_t calls;
	unsigned updates;    /* number of WINDOW_UPDATEs that the opened calls still permit */
	int64_t paid_at;     /* ns: time until which the budget was refilled */
	unsigned unanswered; /* unacknowledged SETTINGS frames of the server */
	int64_t asked_at;    /* when the first of them was sent; ns */
	char reason[100];
};

/*
 * Initialises a guard. *all_unfinished must outlive it: the sum over all guards of one thread, not
 * read by any other thread; initially 0.
 */
void h2_guard_init(struct h2_guard *g, size_t *all_unfinished, int64_t now);
/* Frees the guard's memory, and subtracts its bytes from the sum. Also valid for a zeroed guard. */
void h2_guard_clear(struct h2_guard *g);
/*
 * Counts bytes from the client after the connection preface. Returns NULL, or why the connection
 * must be closed: a text that names the client's fault and lives as long as *g.
 */
const char *h2_guard_client(struct h2_guard *g, const uint8_t *p, size_t n, int64_t now);
/* Counts bytes from the server. */
void h2_guard_server(struct h2_guard *g, const uint8_t *p, size_t n, int64_t now);
/* Returns the time at which the oldest unacknowledged SETTINGS frame was sent, in ns; 0: none. */
int64_t h2_guard_owes_since(const struct h2_guard *g);
