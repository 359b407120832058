/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves bytes with libcurl and waits for them. The engine decides which request is sent when, and
 * how long a silence may last. All functions run on the engine's thread.
 *
 * Reasons for this code (measured with libcurl 7.88):
 *  - With MAX_HOST_CONNECTIONS 1, a GOAWAY during an open watch blocks all later requests
 *    permanently. So the maximum is 2 plus the number of streams over HTTP/2, and 8 plus that
 *    number if the server only supports HTTP/1.1.
 *  - libcurl waits for one multi handle at a time: the sockets of retired epochs are added as
 *    extra descriptors.
 *  - Over HTTP/2 any transfer of a connection reads for all of them; the watch, which comes first,
 *    reads most. When the last bytes of an answer do not fit into its transfer's buffer any more,
 *    7.88 delivers them later but handles the end of the frame, and so of the answer, only when
 *    the server sends more data. So the buffer holds the longest answer.
 *  - A request whose connection has ended is silently repeated, even a POST: see
 *    on_sending().
 *  - Versions before 8.4 drop a timer that expires within the millisecond, including the one by
 *    which a transfer records that an answer has ended (once in 40,000 on a busy machine). So a
 *    wait after an event is short, and libcurl is called again after it.
 */
#include "http/http_curl.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "common/mem.h"
#include "http/libcurl.h"

#define DRAIN_POLL_MS 200
#define HTTP1_CONNECTIONS 8
#define HTTP2_CONNECTIONS 2
/*
 * A peer counts as lost if it acknowledges no data, or no keepalive probe of the kernel, for this
 * time.
 */
#define PEER_LOST_MS 30000
/* libcurl accepts headers of 128 KiB, and trailers of the same size */
#define BUFFER_SPARE (256 * 1024)
#define RETRY_AFTER_MAX_S 3600
#define POLL_AGAIN_MS 10 /* the maximum delay of an answer that libcurl forgot */

/* ---- epochs ---- */

void epoch_limit(struct pool_epoch *ep)
{
	unsigned base = ep->http1 ? HTTP1_CONNECTIONS : HTTP2_CONNECTIONS;
	curl.multi_setopt(ep->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)(base + ep->streams));
}

struct pool_epoch *epoch_new(struct http_endpoint *endpoint, int connect_ms)
{
	struct pool_epoch *ep = xcalloc(1, sizeof(*ep));
	ep->multi = curl.multi_init();
	if (!ep->multi)
		abort();
	ep->endpoint = endpoint;
	ep->connect_ms = connect_ms;
	ep->http1 = str_has_prefix(endpoint->url, "http:");
	curl.multi_setopt(ep->multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
	epoch_limit(ep);
	return ep;
}

void epoch_received(struct pool_epoch *ep, int64_t now)
{
	ep->owed = ep->requests > 0;
	ep->owed_since = now;
}

void epoch_free(struct pool_epoch *ep)
{
	assert(ep->requests + ep->streams == 0);
	transfers_rest(ep);
	curl.multi_cleanup(ep->multi);
	http_endpoint_free(ep->endpoint);
	free(ep);
}

/* ---- libcurl's callbacks ---- */

static bool is_streaming(struct http_call *c)
{
	long status = 0;
	if (!c->q.stream)
		return false;
	curl.easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	return status >= 200 && status < 300;
}

static long port_of(struct http_call *c)
{
	long port = 0;
	curl.easy_getinfo(c->easy, CURLINFO_LOCAL_PORT, &port);
	return port;
}

/*
 * Returns the entry of a connection; a new entry replaces the one that was silent for the longest
 * time.
 */
static struct last_byte *last_byte_of(struct pool_epoch *ep, long port)
{
	struct last_byte *oldest = ep->last_bytes;
	for (size_t i = 0; i < ARRAY_LEN(ep->last_bytes); i++) {
		if (ep->last_bytes[i].port == port)
			return &ep->last_bytes[i];
		if (ep->last_bytes[i].at < oldest->at)
			oldest = &ep->last_bytes[i];
	}
	*oldest = (struct last_byte) { .port = port };
	return oldest;
}

static void call_received(struct http_call *c)
{
	c->epoch->moved = true;
	c->last_byte = monotonic_ns();
	c->answered = true;
	last_byte_of(c->epoch, port_of(c))->at = c->last_byte;
	epoch_received(c->epoch, c->last_byte);
}

/*
 * Parses "Date: Sun, 06 Nov 1994 08:49:37 GMT", the only format that RFC 9110 permits for servers.
 */
static void note_date(struct http_call *c, const char *bytes, size_t n)
{
	char line[64];
	struct tm tm = { .tm_sec = 0 };

	if (n >= sizeof(line) || n < 6 || strncasecmp(bytes, "date:", 5) != 0)
		return;
	snprintf(line, sizeof(line), "%.*s", (int)n, bytes);
	if (strptime(line + 5, " %a, %d %b %Y %H:%M:%S GMT", &tm))
		c->date = timegm(&tm);
}

static size_t on_header(char *bytes, size_t size, size_t n, void *arg)
{
	struct http_call *c = arg;
	struct pool_epoch *ep = c->epoch;
	size_t length = size * n;
	bool last = length <= 2; /* the empty line after the headers */
	call_received(c);
	note_date(c, bytes, length);
	if (!ep->http1 && length >= 7 && memcmp(bytes, "HTTP/1.", 7) == 0) {
		ep->http1 = true;
		epoch_limit(ep);
	}
	return !last || !is_streaming(c) || c->q.on_bytes(c->q.arg, "", 0) ? length : length + 1;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
	struct http_call *c = arg;
	size_t length = size * n;
	bool wanted;
	call_received(c);
	wanted = is_streaming(c) ? c->q.on_bytes(c->q.arg, bytes, length)
	                         : str_addn(&c->body, bytes, length);
	return wanted ? length : length + 1; /* any other number makes libcurl abort */
}

/*
 * libcurl calls this each time before it sends the request: the first time, and again if a reused
 * connection has ended without a byte of an answer. Because the server may have executed the
 * request that was sent first, only a GET is repeated.
 */
static int on_sending(void *arg, char *peer, char *own, int peer_port, int own_port)
{
	struct http_call *c = arg;
	(void)peer;
	(void)own;
	(void)peer_port;
	(void)own_port;
	c->lost = c->sent_at && !str_eq(c->q.method, "GET");
	if (!c->sent_at)
		c->sent_at = monotonic_ns();
	return c->lost ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

static int on_socket(void *arg, curl_socket_t fd, curlsocktype purpose)
{
	struct http_call *c = arg;
	unsigned ms = PEER_LOST_MS;
	(void)purpose;
	c->socket = fd;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
	return CURL_SOCKOPT_OK;
}

/* ---- handles ---- */

/*
 * Creating and freeing handles for each request took 3% to 8% of the CPU time of a busy controller.
 * So the handles of calls that have ended normally are reused. The buffer for the answer is freed
 * with each transfer.
 */

/*
 * Returns the handle for reuse, with all options of the call reset, so that libcurl keeps none of
 * the call's strings. But NOSIGNAL has to stay set. Otherwise libcurl changes the action of SIGPIPE
 * during each cleanup, for which the kernel goes through all threads.
 */
static void easy_give(struct http_call *c, bool answered)
{
	struct pool_epoch *ep = c->epoch;
	if (!answered || c->q.stream || ep->n_spare == ARRAY_LEN(ep->spare)) {
		curl.easy_cleanup(c->easy);
		return;
	}
	curl.easy_reset(c->easy);
	curl.easy_setopt(c->easy, CURLOPT_NOSIGNAL, 1L);
	ep->spare[ep->n_spare++] = c->easy;
}

void transfers_rest(struct pool_epoch *ep)
{
	while (ep->n_spare > 0)
		curl.easy_cleanup(ep->spare[--ep->n_spare]);
}

/* ---- why nothing is sent ---- */

static bool is_resolved(struct http_call *c)
{
	curl_off_t us = 0;

	curl.easy_getinfo(c->easy, CURLINFO_NAMELOOKUP_TIME_T, &us);
	return us > 0;
}

/*
 * Returns true if the call's connection is established. libcurl itself reports a connection only
 * after TLS is also established. A reused descriptor number gives a false positive.
 */
static bool is_connected(const struct http_call *c)
{
	struct sockaddr_storage peer;
	socklen_t n = sizeof(peer);

	return c->socket > 0 && getpeername(c->socket, (struct sockaddr *)&peer, &n) == 0;
}

const char *transfer_waits_for(struct http_call *active, const struct pool_epoch *ep)
{
	bool resolved = false, connected = false;

	for (struct http_call *c = active; c; c = c->next) {
		if (c->epoch != ep)
			continue;
		if (transfer_is_sent(c))
			return "no connection was free";
		resolved |= is_resolved(c);
		connected |= is_connected(c);
	}
	if (connected)
		return "the server accepted the connection, but not its TLS handshake (a proxy: "
		       "the request to connect)";
	return resolved ? "the server did not accept the connection"
	                : "the name of the server could not be resolved";
}

/* ---- starting ---- */

/*
 * Returns a buffer size that holds a whole answer, so that libcurl never has to pause within an
 * answer. Only the used part takes memory.
 */
static long buffer_size(const struct http_call *c)
{
	size_t size = (c->q.stream ? 0 : c->q.max_body) + BUFFER_SPARE;
	return size < CURL_MAX_READ_SIZE ? (long)size : CURL_MAX_READ_SIZE;
}

static void curl_setup_callbacks(struct http_call *c)
{
	CURL *easy = c->easy;
	curl.easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, on_socket);
	curl.easy_setopt(easy, CURLOPT_SOCKOPTDATA, c);
	curl.easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_sending);
	curl.easy_setopt(easy, CURLOPT_PREREQDATA, c);
	curl.easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	curl.easy_setopt(easy, CURLOPT_HEADERDATA, c);
	curl.easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl.easy_setopt(easy, CURLOPT_WRITEDATA, c);
	curl.easy_setopt(easy, CURLOPT_BUFFERSIZE, buffer_size(c));
	curl.easy_setopt(easy, CURLOPT_PRIVATE, c);
	curl.easy_setopt(easy, CURLOPT_ERRORBUFFER, c->curl_error);
}

void transfer_start(struct http_call *c)
{
	struct pool_epoch *ep = c->epoch;
	_Static_assert(sizeof(c->curl_error) >= CURL_ERROR_SIZE, "libcurl's error text");
	c->sent_at = 0;
	c->socket = 0;
	c->easy = ep->n_spare > 0 ? ep->spare[--ep->n_spare] : curl.easy_init();
	if (!c->easy)
		abort();
	curl_setup_callbacks(c);
	transfer_setup(c);
	if (curl.multi_add_handle(ep->multi, c->easy) != CURLM_OK)
		abort();
}

bool transfer_is_sent(struct http_call *c)
{
	long request_size = 0;
	curl.easy_getinfo(c->easy, CURLINFO_REQUEST_SIZE, &request_size);
	return request_size > 0 || c->lost;
}

int64_t transfer_received_at(struct http_call *c)
{
	int64_t connection = last_byte_of(c->epoch, port_of(c))->at;
	return connection > c->last_byte ? connection : c->last_byte;
}

/* ---- ending ---- */

/*
 * Returns the seconds of a Retry-After. For a date, libcurl counts from the current time, so a date
 * in the past is negative.
 */
static int whole_seconds(curl_off_t seconds)
{
	if (seconds < 0)
		return 0;
	return seconds > RETRY_AFTER_MAX_S ? RETRY_AFTER_MAX_S : (int)seconds;
}

unsigned transfer_end(struct http_call *c, struct http_result *result)
{
	long status = 0, version = 0, connects = 0;
	curl_off_t retry_after = 0;
	curl.easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	curl.easy_getinfo(c->easy, CURLINFO_HTTP_VERSION, &version);
	curl.easy_getinfo(c->easy, CURLINFO_NUM_CONNECTS, &connects);
	curl.easy_getinfo(c->easy, CURLINFO_RETRY_AFTER, &retry_after);
	result->status = (int)status;
	result->sent = transfer_is_sent(c);
	result->sent_at = c->sent_at;
	result->http2 = version == CURL_HTTP_VERSION_2_0;
	result->retry_after_s = whole_seconds(retry_after);
	result->date = c->date;

	curl.multi_remove_handle(c->epoch->multi, c->easy);
	easy_give(c, result->end == HTTP_ANSWERED);
	transfer_setup_free(c);
	c->easy = NULL;
	return (unsigned)connects;
}

/* Formats the error. libcurl's message names the address; the reason comes from errno. */
static void failure_text(struct http_call *c, CURLcode code, char *buf, size_t n)
{
	long os_errno = 0;
	char reason[64] = "";
	const char *text = c->curl_error[0] ? c->curl_error : curl.easy_strerror(code);
	if (c->lost)
		text = "the connection was closed before the answer began";
	curl.easy_getinfo(c->easy, CURLINFO_OS_ERRNO, &os_errno);
	if (code == CURLE_COULDNT_CONNECT && os_errno)
		snprintf(reason, sizeof(reason), ": %s", strerrordesc_np((int)os_errno));
	snprintf(buf, n, "%s%s", text, reason);
}

static enum http_end end_of_code(struct http_call *c, CURLcode code)
{
	if (code == CURLE_OK)
		return HTTP_ANSWERED;
	if (c->body.cut)
		return HTTP_TOO_LARGE;
	return transfer_is_sent(c) ? HTTP_CUT : HTTP_NOT_SENT;
}

static void curl_consume_ended(struct pool_epoch *ep,
                               void (*ended)(struct http_call *c, enum http_end end,
                                             const char *why))
{
	CURLMsg *message;
	int left;
	while ((message = curl.multi_info_read(ep->multi, &left))) {
		struct http_call *c = NULL;
		char text[CURL_ERROR_SIZE + 64];
		CURLcode code = message->data.result;
		enum http_end end;
		if (message->msg != CURLMSG_DONE)
			continue;
		ep->moved = true;
		curl.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&c);
		failure_text(c, code, text, sizeof(text));
		end = end_of_code(c, code);
		if (end == HTTP_TOO_LARGE)
			snprintf(text, sizeof(text), "the answer is larger than %zu bytes",
			         c->q.max_body);
		ended(c, end, end == HTTP_ANSWERED ? NULL : text);
	}
}

void transfers_perform(struct pool_epoch *ep,
                       void (*ended)(struct http_call *c, enum http_end end, const char *why))
{
	int running;
	curl.multi_perform(ep->multi, &running);
	curl_consume_ended(ep, ended);
}

/* ---- waiting ---- */

/*
 * Adds the sockets of retired epochs that still have open calls, because libcurl waits for one
 * multi handle at a time. Descriptors that an fd_set cannot hold are served every DRAIN_POLL_MS.
 */
static unsigned curl_drain_sockets(const struct pool_epoch *ep, struct curl_waitfd *fds,
                                   unsigned max)
{
	unsigned n = 0;
	for (; ep; ep = ep->next) {
		fd_set in, out, bad;
		int last = -1;
		FD_ZERO(&in);
		FD_ZERO(&out);
		FD_ZERO(&bad);
		curl.multi_fdset(ep->multi, &in, &out, &bad, &last);
		for (int fd = 0; fd <= last && n < max; fd++) {
			short events = (short)((FD_ISSET(fd, &in) ? CURL_WAIT_POLLIN : 0) |
			                       (FD_ISSET(fd, &out) ? CURL_WAIT_POLLOUT : 0));
			if (events)
				fds[n++] = (struct curl_waitfd) { .fd = fd, .events = events };
		}
	}
	return n;
}

/* Returns `ms`, or less if libcurl has to be called earlier for a retired epoch. */
static int drain_timeout(const struct pool_epoch *ep, int ms)
{
	if (ep && ms > DRAIN_POLL_MS)
		ms = DRAIN_POLL_MS;
	for (; ep; ep = ep->next) {
		long wants = -1;
		curl.multi_timeout(ep->multi, &wants);
		if (wants >= 0 && wants < ms)
			ms = (int)wants;
	}
	return ms;
}

/* Returns true if data has moved since the last wait. */
static bool consume_moved(struct pool_epoch *ep)
{
	bool moved = false;
	for (; ep; ep = ep->next) {
		moved = moved || ep->moved;
		ep->moved = false;
	}
	return moved;
}

void transfers_wait(struct pool_epoch *ep, int wake, int ms)
{
	struct curl_waitfd fds[64] = { { .fd = wake, .events = CURL_WAIT_POLLIN } };
	unsigned n = 1 + curl_drain_sockets(ep->next, fds + 1, ARRAY_LEN(fds) - 1);
	int ready = 0;
	ms = drain_timeout(ep->next, ms);
	if (consume_moved(ep) && ms > POLL_AGAIN_MS)
		ms = POLL_AGAIN_MS;
	curl.multi_poll(ep->multi, fds, n, ms, &ready);
	ep->moved = ready > 0;
}
