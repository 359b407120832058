/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one HTTP/2 connection costs, by the heads of its frames (RFC 9113, 4.1). gRPC's own limits
 * hold for clients that keep to what the server has announced; these hold for the others too.
 *
 * Every frame that serves no call costs; a completed call and time pay. The bytes of messages that
 * have not ended are counted for all connections together, because gRPC keeps them. Pure: no I/O,
 * no clock, no thread of its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/limits.h"

/* One direction: the head of the current frame, and how much of it is still to come. */
struct h2_frames {
	uint8_t head[9];
	size_t n_head;   /* bytes of it that have come */
	uint32_t length; /* of the payload */
	uint32_t left;   /* of it */
	uint32_t stream;
	uint8_t type, flags;
};

struct h2_stream {
	uint32_t id;    /* with a bit: the first byte of its message was seen */
	uint32_t bytes; /* that have come of a message without an end */
};

struct h2_guard {
	struct h2_frames client, server;
	struct h2_stream *streams; /* open ones */
	unsigned n_streams, room;
	size_t unfinished;      /* the bytes of all streams */
	size_t *all_unfinished; /* of all connections */
	unsigned late;          /* calls that the server ended: each may still be reset once */
	uint32_t last_stream;   /* the highest number so far */
	size_t block;           /* bytes of the current header block */
	uint32_t first_byte;    /* the stream whose first byte comes next; 0: none */
	bool padded;            /* a pad length comes before it */
	int64_t budget;         /* in thousandths of a frame */
	int64_t calls;          /* in thousandths of a call: that may be opened and given up */
	unsigned updates;       /* WINDOW_UPDATEs that the opened calls are good for */
	int64_t paid_at;        /* ns: until when time has paid */
	unsigned unanswered;    /* SETTINGS of the server */
	int64_t asked_at;       /* ns: the first of them */
	char reason[100];
};

/*
 * all_unfinished outlives it: the sum of all guards that one thread calls, which no other reads; 0
 * at first.
 */
void h2_guard_init(struct h2_guard *g, size_t *all_unfinished, int64_t now);
/* Frees what it holds, and takes its bytes off the sum. Fine for one that is all zeros. */
void h2_guard_clear(struct h2_guard *g);
/*
 * Bytes from the client after the connection preface. NULL, or why the connection must be closed;
 * the text says what the client did and lives as long as *g.
 */
const char *h2_guard_client(struct h2_guard *g, const uint8_t *p, size_t n, int64_t now);
/* Bytes of the server. */
void h2_guard_server(struct h2_guard *g, const uint8_t *p, size_t n, int64_t now);
/* Since when the client owes an acknowledgement of SETTINGS, in ns; 0: it owes none. */
int64_t h2_guard_owes_since(const struct h2_guard *g);
