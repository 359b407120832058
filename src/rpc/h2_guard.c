/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads frame headers and keeps the accounts. It decodes no header blocks and does not check the
 * protocol, because gRPC handles cheap errors.
 *
 * There are two accounts. The first is for calls: a client may open the maximum number of
 * concurrent calls and leave all of them waiting. An opened call costs one unit. The unit is
 * refunded when the server ends the call. If the client abandons the call, the unit is refunded
 * only with time. The call's frames (HEADERS, the start of its message, RST_STREAM) cost nothing
 * else, even if the server has ended the call just before the RST_STREAM, as it does at a deadline.
 *
 * The second is for frames: a connection starts with LIMIT_RPC_BUDGET units. Any other frame costs
 * one unit; a PING costs four, and long frames cost more, except for the bulk of a message. A call
 * that the server ends refunds twelve units (among other things, for the WINDOW_UPDATE and PING
 * that clients send in response to data), each DATA frame of the server two, each second 200. So
 * the account of a correct client stays full.
 *
 * The bytes of unfinished messages are also limited, because gRPC opens its window for each message
 * up to the maximum size, and keeps the received bytes. A stream's bytes count until the client's
 * frame that ends the message is complete, or the stream ends. The sum is checked after each piece
 * that was read, so a short message that arrives at once is accepted even while other messages have
 * reached the limit.
 */
#include "rpc/h2_guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/mem.h"

enum frame_type {
	DATA,
	HEADERS,
	PRIORITY,
	RST_STREAM,
	SETTINGS,
	PUSH_PROMISE,
	PING,
	GOAWAY,
	WINDOW_UPDATE,
	CONTINUATION,
};
enum { END_STREAM = 0x1, ACK = 0x1, END_HEADERS = 0x4, PADDED = 0x8 };

#define FIRST_BYTE_SEEN (UINT32_C(1) << 31) /* a stream's number has 31 bits */
#define FRAME INT64_C(1000)                 /* the price of one frame */
/* a DATA frame of this size or more is part of a message */
#define BULK 1024
/* WINDOW_UPDATEs that clients send with a call, for its stream and the connection */
#define UPDATES_PER_CALL 2
#define ROOM_KEPT 64 /* allocated streams, while none is open */
#define CALL_PAYS (12 * FRAME)
#define DATA_PAYS (2 * FRAME)
#define NS_PER_THOUSANDTH INT64_C(5000) /* 200 frames per second */

static const char *const names[] = {
	[DATA] = "DATA",
	[HEADERS] = "HEADERS",
	[PRIORITY] = "PRIORITY",
	[RST_STREAM] = "RST_STREAM",
	[SETTINGS] = "SETTINGS",
	[PUSH_PROMISE] = "PUSH_PROMISE",
	[PING] = "PING",
	[GOAWAY] = "GOAWAY",
	[WINDOW_UPDATE] = "WINDOW_UPDATE",
	[CONTINUATION] = "CONTINUATION",
};

void h2_guard_init(struct h2_guard *g, size_t *all_unfinished, int64_t now)
{
	*g = (struct h2_guard) { .all_unfinished = all_unfinished,
		                 .budget = LIMIT_RPC_BUDGET * FRAME,
		                 .calls = LIMIT_RPC_STREAMS * FRAME,
		                 .paid_at = now };
}

void h2_guard_clear(struct h2_guard *g)
{
	if (g->unfinished)
		*g->all_unfinished -= g->unfinished;
	g->unfinished = 0;
	free(g->streams);
	g->streams = NULL;
	g->n_streams = g->room = 0;
}

/* ---- frames ---- */

static uint32_t number(const uint8_t *p, size_t n)
{
	uint32_t v = 0;

	for (size_t i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

/*
 * Consumes bytes up to the end of a header, or of the received part of a payload; advances *p and
 * *n. Returns true if a header is complete.
 */
static bool h2_frame_take(struct h2_frames *f, const uint8_t **p, size_t *n)
{
	size_t want = sizeof(f->head) - f->n_head, k = *n < want ? *n : want;

	memcpy(f->head + f->n_head, *p, k);
	f->n_head += k;
	*p += k;
	*n -= k;
	if (f->n_head < sizeof(f->head))
		return false;
	f->n_head = 0;
	f->length = f->left = number(f->head, 3);
	f->type = f->head[3];
	f->flags = f->head[4];
	f->stream = number(f->head + 5, 4) & ~FIRST_BYTE_SEEN;
	return true;
}

static size_t skip(struct h2_frames *f, const uint8_t **p, size_t *n)
{
	size_t k = *n < f->left ? *n : f->left;

	f->left -= (uint32_t)k;
	*p += k;
	*n -= k;
	return k;
}

/* ---- streams ---- */

static struct h2_stream *find(struct h2_guard *g, uint32_t stream)
{
	for (unsigned i = 0; i < g->n_streams; i++)
		if ((g->streams[i].id & ~FIRST_BYTE_SEEN) == stream)
			return &g->streams[i];
	return NULL;
}

static void add_stream(struct h2_guard *g, uint32_t stream)
{
	if (g->n_streams == g->room) {
		g->room = g->room ? 2 * g->room : 8;
		g->streams = xrealloc(g->streams, g->room * sizeof(g->streams[0]));
	}
	g->streams[g->n_streams++] = (struct h2_stream) { .id = stream };
}

static void add_bytes(struct h2_guard *g, struct h2_stream *s, size_t n)
{
	s->bytes += (uint32_t)n; /* no overflow: the limit is far below the maximum */
	g->unfinished += n;
	*g->all_unfinished += n;
}

static void drop_bytes(struct h2_guard *g, struct h2_stream *s)
{
	g->unfinished -= s->bytes;
	*g->all_unfinished -= s->bytes;
	s->bytes = 0;
}

/* Returns true if the stream was open. */
static bool end_stream(struct h2_guard *g, uint32_t stream)
{
	struct h2_stream *s = find(g, stream);

	if (!s)
		return false;
	drop_bytes(g, s);
	*s = g->streams[--g->n_streams];
	if (g->n_streams == 0 && g->room > ROOM_KEPT)
		h2_guard_clear(g);
	return true;
}

/* ---- the account ---- */

static void pay(int64_t *account, int64_t amount, int64_t limit)
{
	*account += amount;
	if (*account > limit * FRAME)
		*account = limit * FRAME;
}

static void pay_for_time(struct h2_guard *g, int64_t now)
{
	int64_t amount = (now - g->paid_at) / NS_PER_THOUSANDTH;

	g->paid_at += amount * NS_PER_THOUSANDTH;
	pay(&g->budget, amount, LIMIT_RPC_BUDGET);
	pay(&g->calls, amount, LIMIT_RPC_STREAMS);
}

static int64_t price_of_data(struct h2_guard *g, const struct h2_frames *f)
{
	const struct h2_stream *s = find(g, f->stream);

	return s && (f->length >= BULK || (f->length && !(s->id & FIRST_BYTE_SEEN))) ? 0 : FRAME;
}

static int64_t price_of_reset(struct h2_guard *g, uint32_t stream)
{
	if (find(g, stream))
		return 0;
	if (!g->late)
		return FRAME;
	g->late--;
	return 0;
}

static int64_t price(struct h2_guard *g, const struct h2_frames *f)
{
	switch (f->type) {
	case DATA:
		return price_of_data(g, f);
	case HEADERS:
		return (f->stream > g->last_stream ? 0 : FRAME) + f->length / 1024 * FRAME;
	case CONTINUATION:
		return FRAME + f->length / 1024 * FRAME;
	case RST_STREAM:
		return price_of_reset(g, f->stream);
	case WINDOW_UPDATE:
		if (!g->updates)
			return FRAME;
		g->updates--;
		return 0;
	case PING:
		return 4 * FRAME; /* gRPC answers each PING */
	default:
		return FRAME + f->length / 64 * FRAME;
	}
}

/* ---- the client's direction ---- */

static const char *h2_stream_open(struct h2_guard *g, uint32_t stream)
{
	if (stream <= g->last_stream)
		return NULL; /* trailers, or an error that gRPC handles */
	if (g->n_streams == LIMIT_RPC_STREAMS) {
		snprintf(g->reason, sizeof(g->reason), "it opened more than %d streams",
		         LIMIT_RPC_STREAMS);
		return g->reason;
	}
	g->calls -= FRAME;
	if (g->calls < 0)
		return "it cancels more calls than it completes";
	g->last_stream = stream;
	add_stream(g, stream);
	if (g->updates < UPDATES_PER_CALL * LIMIT_RPC_STREAMS)
		g->updates += UPDATES_PER_CALL;
	return NULL;
}

static const char *add_to_block(struct h2_guard *g, size_t n)
{
	g->block += n;
	if (g->block <= LIMIT_RPC_HEADER_BLOCK)
		return NULL;
	snprintf(g->reason, sizeof(g->reason), "it sent a header block of more than %d bytes",
	         LIMIT_RPC_HEADER_BLOCK);
	return g->reason;
}

static void expect_first_byte(struct h2_guard *g, const struct h2_frames *f)
{
	const struct h2_stream *s = find(g, f->stream);
	uint32_t before = f->flags & PADDED ? 1 : 0;

	if (!s || s->id & FIRST_BYTE_SEEN || f->length <= before)
		return;
	g->first_byte = f->stream;
	g->padded = before;
}

static const char *on_client_frame(struct h2_guard *g, const struct h2_frames *f)
{
	const char *reason = NULL;

	g->budget -= price(g, f);
	if (g->budget < 0) {
		snprintf(g->reason, sizeof(g->reason),
		         "its frames are out of proportion to its calls, the last one is %s",
		         f->type < ARRAY_LEN(names) ? names[f->type] : "of an unknown type");
		return g->reason;
	}
	switch (f->type) {
	case HEADERS:
		g->block = 0;
		reason = h2_stream_open(g, f->stream);
		return reason ? reason : add_to_block(g, f->length);
	case CONTINUATION:
		return add_to_block(g, f->length);
	case DATA:
		expect_first_byte(g, f);
		return NULL;
	case RST_STREAM:
		end_stream(g, f->stream);
		return NULL;
	case SETTINGS:
		if (f->flags & ACK && g->unanswered) {
			g->unanswered--;
			g->asked_at = g->paid_at;
		}
		return NULL;
	default:
		return NULL;
	}
}

/*
 * Checks the first byte of a message, which says whether the message is compressed: 0 or 1. gRPC
 * 1.51 treats a message with any other value as an empty one.
 */
static const char *check_first_byte(struct h2_guard *g, struct h2_stream *s, const uint8_t *p,
                                    size_t n)
{
	if (g->padded) {
		g->padded = false;
		p++;
		n--;
	}
	if (n == 0)
		return NULL;
	s->id |= FIRST_BYTE_SEEN;
	g->first_byte = 0;
	if (*p <= 1)
		return NULL;
	snprintf(g->reason, sizeof(g->reason), "it sent a message that begins with byte %u",
	         (unsigned)*p);
	return g->reason;
}

static const char *on_data(struct h2_guard *g, const uint8_t *p, size_t n)
{
	struct h2_stream *s = find(g, g->client.stream);

	if (!s)
		return NULL;
	add_bytes(g, s, n);
	return g->first_byte == g->client.stream ? check_first_byte(g, s, p, n) : NULL;
}

/*
 * Called after the whole payload of a frame. A header block that continues does not end a message
 * yet.
 */
static void on_client_frame_end(struct h2_guard *g, const struct h2_frames *f)
{
	uint8_t wanted = f->type == HEADERS ? END_STREAM | END_HEADERS : END_STREAM;
	struct h2_stream *s;

	if ((f->type != DATA && f->type != HEADERS) || (f->flags & wanted) != wanted)
		return;
	s = find(g, f->stream);
	if (s)
		drop_bytes(g, s);
}

static const char *check_unfinished(struct h2_guard *g, size_t before)
{
	if (*g->all_unfinished <= LIMIT_RPC_UNFINISHED || g->unfinished <= before)
		return NULL;
	snprintf(g->reason, sizeof(g->reason),
	         "it continues a message while unfinished messages have more than %d MiB",
	         LIMIT_RPC_UNFINISHED / (1024 * 1024));
	return g->reason;
}

const char *h2_guard_client(struct h2_guard *g, const uint8_t *p, size_t n, int64_t now)
{
	struct h2_frames *f = &g->client;
	size_t before = g->unfinished;
	const char *reason = NULL;

	pay_for_time(g, now);
	while (n && !reason) {
		if (f->left) {
			const uint8_t *payload = p;
			size_t k = skip(f, &p, &n);

			if (f->type == DATA)
				reason = on_data(g, payload, k);
		} else if (h2_frame_take(f, &p, &n)) {
			reason = on_client_frame(g, f);
		} else {
			break;
		}
		if (!reason && !f->left)
			on_client_frame_end(g, f);
	}
	return reason ? reason : check_unfinished(g, before);
}

/* ---- the server's direction ---- */

/* Returns true if the call was open. */
static bool server_ends(struct h2_guard *g, uint32_t stream)
{
	if (!end_stream(g, stream))
		return false;
	if (g->late < LIMIT_RPC_STREAMS)
		g->late++;
	pay(&g->calls, FRAME, LIMIT_RPC_STREAMS);
	return true;
}

static void on_server_frame(struct h2_guard *g, const struct h2_frames *f, int64_t now)
{
	switch (f->type) {
	case DATA:
		pay(&g->budget, DATA_PAYS, LIMIT_RPC_BUDGET);
		break;
	case HEADERS:
		break;
	case RST_STREAM:
		server_ends(g, f->stream);
		return;
	case SETTINGS:
		if (!(f->flags & ACK) && g->unanswered++ == 0)
			g->asked_at = now;
		return;
	default:
		return;
	}
	if (f->flags & END_STREAM && server_ends(g, f->stream))
		pay(&g->budget, CALL_PAYS, LIMIT_RPC_BUDGET);
}

void h2_guard_server(struct h2_guard *g, const uint8_t *p, size_t n, int64_t now)
{
	struct h2_frames *f = &g->server;

	while (n)
		if (f->left)
			skip(f, &p, &n);
		else if (h2_frame_take(f, &p, &n))
			on_server_frame(g, f, now);
}

int64_t h2_guard_owes_since(const struct h2_guard *g)
{
	return g->unanswered ? g->asked_at : 0;
}
