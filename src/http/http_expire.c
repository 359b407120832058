/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the HTTP engine abandons a call: if the call is cancelled, past its deadline, or
 * sent over a connection that delivers nothing.
 *
 * Epochs exist because libcurl never abandons a peer that acknowledges bytes but never answers,
 * least of all while a watch keeps the connection in use. A request is abandoned when its own
 * connection delivers nothing for silence_ms (patience_ms for a patient request), because one
 * address may lead to a working and a failed server, and data from the first proves nothing about
 * the second.
 */
#include "http/http_engine.h"

#include "common/cleanup.h"

/*
 * Called when a request has ended without an answer. Retires the epoch if nothing else has arrived
 * either.
 */
static void check_silence(struct http *h, const struct pool_epoch *ep, int64_t now)
{
	if (ep == h->current && ep->owed &&
	    now - ep->owed_since >= h->silence_ms * INT64_C(1000000))
		epoch_retire(h, "requests get no answer", NULL);
}

/*
 * The call is detached first; otherwise retiring the epoch would requeue a call that was never
 * sent.
 */
static void call_give_up(struct http *h, struct http_call *c, enum http_end end, const char *why)
{
	struct http_result result = { .end = end };
	if (c->epoch)
		call_detach(h, c, &result);
	if (c->epoch && !c->q.stream)
		check_silence(h, c->epoch, monotonic_ns());
	call_finish(c, &result, why);
}

static bool is_cancelled(struct http *h, struct http_call *c)
{
	WITH_LOCK(&h->lock);
	return c->cancelled;
}

/* Returns the time at which a silent stream is abandoned. */
static int64_t silent_at(const struct http_call *c)
{
	int ms = !c->answered && c->q.open_ms ? c->q.open_ms : c->q.silence_ms;
	if (!c->epoch || !c->q.stream || ms <= 0)
		return DEADLINE_NEVER;
	return c->last_byte + ms * INT64_C(1000000);
}

/*
 * Returns the time at which a sent request is abandoned because its connection is silent. While it
 * itself has waited for less than the limit, returns the end of that limit without asking libcurl
 * about the connection, because this function runs for each request in flight.
 */
static int64_t hung_at(struct http *h, struct http_call *c, int64_t now)
{
	int64_t silence = (c->q.patient ? h->patience_ms : h->silence_ms) * INT64_C(1000000);
	if (!c->epoch || c->q.stream)
		return DEADLINE_NEVER;
	if (now < c->last_byte + silence)
		return c->last_byte + silence;
	return transfer_is_sent(c) ? transfer_received_at(c) + silence : DEADLINE_NEVER;
}

static void call_cut(struct http *h, struct http_call *c)
{
	if (c->epoch == h->current)
		epoch_retire(h, "requests get no answer", NULL);
	call_end(c, HTTP_CUT, "no answer, and nothing else came over its connection");
}

static const char *late_reason(struct http *h, struct http_call *c)
{
	if (!c->epoch)
		return "no connection was free";
	return transfer_is_sent(c) ? "no answer in time" : transfer_waits_for(h->active, c->epoch);
}

/* Returns true if calls were ended, so that the list has changed. */
static bool expire_one(struct http *h, struct http_call *c, int64_t now)
{
	if (is_cancelled(h, c))
		call_give_up(h, c, HTTP_CANCELLED, "cancelled");
	else if (now >= c->q.deadline_at)
		call_give_up(h, c, HTTP_DEADLINE, late_reason(h, c));
	else if (now >= hung_at(h, c, now))
		call_cut(h, c);
	else if (now >= silent_at(c) && c->epoch == h->current)
		epoch_retire(h, c->answered ? "a watch receives no data" : "a watch gets no answer",
		             NULL);
	else if (now >= silent_at(c))
		call_end(c, HTTP_RETIRED, "silent");
	else
		return false;
	return true;
}

void calls_expire(struct http *h, int64_t now)
{
	for (struct http_call **at = &h->queued; *at;) {
		struct http_call *c = *at;
		if (now < c->q.deadline_at && !is_cancelled(h, c)) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		if (!*at)
			h->queued_tail = at;
		(void)expire_one(h, c, now);
	}
	for (struct http_call *c = h->active; c;)
		c = expire_one(h, c, now) ? h->active : c->next;
}

static int64_t earliest(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t calls_next_alarm(struct http *h, int64_t now)
{
	int64_t at = h->timers ? h->timers->at : DEADLINE_NEVER;
	for (const struct http_call *c = h->queued; c; c = c->next)
		at = earliest(at, c->q.deadline_at);
	for (struct http_call *c = h->active; c; c = c->next) {
		at = earliest(at, c->q.deadline_at);
		at = earliest(at, hung_at(h, c, now));
		at = earliest(at, silent_at(c));
	}
	return at;
}
