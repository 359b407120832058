/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls and epochs of the HTTP engine, and the lists of them. Only call_finish() notifies a
 * call's owner of its end. Other files decide when a call ends.
 */
#include "http/http_engine.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/metric.h"

#define ANSWER_LONGEST_NS INT64_C(100000000)

/* ---- calls ---- */

static void http_call_free(struct http_call *c)
{
	if (c->q.bearer)
		explicit_bzero((char *)c->q.bearer, strlen(c->q.bearer));
	free((char *)c->q.method);
	free((char *)c->q.path);
	free((char *)c->q.content_type);
	free((char *)c->q.body);
	free((char *)c->q.accept);
	free((char *)c->q.user_agent);
	free((char *)c->q.bearer);
	str_clear(&c->body);
	free(c);
}

struct http_call *call_new(struct http *h, const struct http_request *q)
{
	struct http_call *c = xcalloc(1, sizeof(*c));
	c->http = h;
	c->q = *q;
	c->q.method = xstrdup(q->method);
	c->q.path = xstrdup(q->path);
	c->q.content_type = xstrdup_or_null(q->content_type);
	c->q.body = q->body ? xstrndup(q->body, q->body_n) : NULL;
	c->q.accept = xstrdup_or_null(q->accept);
	c->q.user_agent = xstrdup_or_null(q->user_agent);
	c->q.bearer = xstrdup_or_null(q->bearer);
	if (!c->q.deadline_at)
		c->q.deadline_at = DEADLINE_NEVER;
	str_init(&c->body, q->max_body);
	return c;
}

static void active_remove(struct http *h, struct http_call *c)
{
	struct http_call **at = &h->active;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
}

/*
 * Updates the mean of about the last eight answer times, so that one slow answer soon loses its
 * weight.
 */
static void answer_took(struct http *h, int64_t ns)
{
	if (ns > ANSWER_LONGEST_NS)
		ns = ANSWER_LONGEST_NS;
	h->answer_ns += (ns - h->answer_ns) / 8;
}

void call_detach(struct http *h, struct http_call *c, struct http_result *result)
{
	struct pool_epoch *ep = c->epoch;
	unsigned connects = transfer_end(c, result);
	active_remove(h, c);
	if (c->q.stream) {
		ep->streams--;
		epoch_limit(ep);
	} else {
		ep->requests--;
		h->in_flight--;
	}
	if (result->end == HTTP_ANSWERED) {
		int64_t now = monotonic_ns();
		epoch_received(ep, now);
		if (!c->q.stream)
			answer_took(h, now - result->sent_at);
	}
	metric_add(METRIC_API_CONNECTIONS, connects, NULL);
	WITH_LOCK(&h->lock);
	h->stats.connections += connects;
	h->stats.http2 += result->http2;
}

/* Returns the call to the head of the queue, because it was started before all queued calls. */
static void call_requeue(struct http *h, struct http_call *c)
{
	struct http_result ignored = { .end = HTTP_RETIRED };
	call_detach(h, c, &ignored);
	c->epoch = NULL;
	c->curl_error[0] = 0;
	c->next = h->queued;
	h->queued = c;
	if (!c->next)
		h->queued_tail = &c->next;
}

void call_finish(struct http_call *c, struct http_result *result, const char *why)
{
	{
		WITH_LOCK(&c->http->lock);
		c->http->stats.requests++;
	}
	if (why)
		snprintf(result->why, sizeof(result->why), "%s", why);
	if (c->body.len > 0) {
		result->body_n = c->body.len;
		result->body = str_take(&c->body);
	}
	c->q.on_done(c->q.arg, result);
	free(result->body);
	http_call_free(c);
}

void call_end(struct http_call *c, enum http_end end, const char *why)
{
	struct http_result result = { .end = end };
	if (c->epoch)
		call_detach(c->http, c, &result);
	call_finish(c, &result, why);
}

void call_activate(struct http *h, struct http_call *c)
{
	struct pool_epoch *ep = h->current;
	c->epoch = ep;
	c->last_byte = monotonic_ns();
	c->next = h->active;
	h->active = c;
	if (c->q.stream) {
		ep->streams++;
		epoch_limit(ep);
	} else {
		ep->requests++;
		h->in_flight++;
		if (!ep->owed)
			epoch_received(ep, c->last_byte);
	}
	transfer_start(c);
}

/* ---- epochs ---- */

void epoch_start(struct http *h, struct http_endpoint *endpoint)
{
	struct pool_epoch *ep = epoch_new(endpoint, h->connect_ms);
	ep->next = h->current;
	h->current = ep;
	WITH_LOCK(&h->lock);
	h->stats.epochs++;
}

void epoch_retire(struct http *h, const char *why, struct http_endpoint *endpoint)
{
	struct pool_epoch *old = h->current;
	if (!endpoint)
		endpoint = http_endpoint_copy(old->endpoint);
	log_limited(LOG_INFO, 10, "connections to %s are replaced: %s", endpoint->url, why);
	epoch_start(h, endpoint);
	for (struct http_call *c = h->active, *next; c; c = next) {
		next = c->next;
		if (c->epoch == old && c->q.stream)
			call_end(c, HTTP_RETIRED, why);
		else if (c->epoch == old && !transfer_is_sent(c))
			call_requeue(h, c);
	}
}

void epochs_reap(struct http *h)
{
	for (struct pool_epoch **at = &h->current->next; *at;) {
		struct pool_epoch *ep = *at;
		if (ep->requests + ep->streams > 0) {
			at = &ep->next;
			continue;
		}
		*at = ep->next;
		epoch_free(ep);
	}
}
