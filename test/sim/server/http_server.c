/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only user of libmicrohttpd. Collects a request, calls route_request() on the thread of the
 * connection, where faults and watches may block, and sends the reply: a body, half of one, or a
 * watch in chunks.
 */
#include "test/sim/server/http_server.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "test/sim/api/watch.h"
#include "test/sim/base/options.h"
#include "test/sim/server/route.h"

#define BODY_MAX (3 * 1024 * 1024) /* the limit of the API server */
#define CONNECTIONS_MAX 2000
#define STACK_BYTES (256 * 1024)

struct http_server {
	struct sim *sim;
	struct MHD_Daemon *daemon;
	unsigned port;
};

/* One request, from its first line to the end of its reply. */
struct exchange {
	struct str body;
	struct strs query;
	struct watch_stream *stream;
	char *half; /* body of a reply that will be cut */
	size_t half_len;
};

static enum MHD_Result add_query(void *arg, enum MHD_ValueKind kind, const char *key,
                                 const char *value)
{
	struct exchange *x = arg;

	(void)kind;
	strs_addf(&x->query, "%s=%s", key, value ? value : "");
	return MHD_YES;
}

static ssize_t read_watch(void *arg, uint64_t pos, char *buf, size_t max)
{
	struct exchange *x = arg;
	ssize_t n = watch_read(x->stream, buf, max);

	(void)pos;
	if (n > 0)
		return n;
	return n == 0 ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
}

static ssize_t read_half(void *arg, uint64_t pos, char *buf, size_t max)
{
	struct exchange *x = arg;
	size_t end = x->half_len / 2, n = pos < end ? end - pos : 0;

	if (!n)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (n > max)
		n = max;
	memcpy(buf, x->half + pos, n);
	return (ssize_t)n;
}

static struct MHD_Response *make_response(struct exchange *x, struct reply *r)
{
	size_t n = r->body ? strlen(r->body) : 0;

	if (r->stream) {
		x->stream = r->stream;
		return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_watch, x,
		                                         NULL);
	}
	if (r->cut) {
		x->half_len = n;
		x->half = TAKE(r->body);
		return MHD_create_response_from_callback(x->half_len, 16384, read_half, x, NULL);
	}
	return MHD_create_response_from_buffer(n, TAKE(r->body), MHD_RESPMEM_MUST_FREE);
}

static enum MHD_Result send_reply(struct MHD_Connection *connection, struct exchange *x,
                                  struct reply *r)
{
	struct MHD_Response *response;
	enum MHD_Result rc;

	if (r->cut && !r->body && !r->stream)
		return MHD_NO; /* closes the connection without an answer */
	response = make_response(x, r);
	if (!response)
		return MHD_NO;
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, r->type);
	if (r->retry_after) {
		char seconds[16];

		snprintf(seconds, sizeof(seconds), "%u", r->retry_after);
		MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
	}
	rc = MHD_queue_response(connection, r->code, response);
	MHD_destroy_response(response);
	return rc;
}

static enum MHD_Result answer(struct http_server *s, struct MHD_Connection *connection,
                              struct exchange *x, const char *url, const char *method)
{
	const union MHD_ConnectionInfo *socket =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct api_call call = {
		.sim = s->sim,
		.method = method,
		.path = url,
		.content_type = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
		                                            MHD_HTTP_HEADER_CONTENT_TYPE),
		.authorization = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
		                                             MHD_HTTP_HEADER_AUTHORIZATION),
		.query = &x->query,
		.body = x->body.ptr,
		.body_len = x->body.len,
		.client_fd = socket ? socket->connect_fd : -1,
	};
	struct reply reply;
	enum MHD_Result rc;

	MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, add_query, x);
	if (x->body.cut) {
		reply = (struct reply) { 0 };
		reply_failure(&reply, 413, NULL, "the request is larger than %d bytes", BODY_MAX);
	} else {
		route_request(&call, &reply);
	}
	if (log_verbosity() >= 2)
		log_msg(LOG_INFO, "%s %s: %u", method, url, reply.code);
	rc = send_reply(connection, x, &reply);
	reply_clear(&reply);
	return rc;
}

/*
 * libmicrohttpd calls it for the headers, for each piece of the body, and at the end, when the
 * answer has to be sent.
 */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_len, void **state)
{
	struct exchange *x = *state;

	(void)version;
	if (!x) {
		x = xcalloc(1, sizeof(*x));
		str_init(&x->body, BODY_MAX);
		*state = x;
		return MHD_YES;
	}
	if (*data_len) {
		str_addn(&x->body, data, *data_len);
		*data_len = 0;
		return MHD_YES;
	}
	return answer(arg, connection, x, url, method);
}

static void on_completed(void *arg, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
	struct exchange *x = *state;

	(void)arg;
	(void)connection;
	(void)code;
	if (!x)
		return;
	str_clear(&x->body);
	strs_clear(&x->query);
	watch_free(x->stream);
	free(x->half);
	free(x);
	*state = NULL;
}

/* Tests break connections on purpose: logged only with --v=5. */
__attribute__((format(printf, 2, 0))) static void on_log(void *arg, const char *fmt, va_list args)
{
	char line[512];

	(void)arg;
	vsnprintf(line, sizeof(line), fmt, args);
	if (log_verbosity() >= 5)
		log_msg(LOG_DEBUG, "libmicrohttpd: %s", line);
}

static int start(struct http_server *s, struct err *err)
{
	const struct sim_options *o = s->sim->options;
	struct sockaddr_in address = { .sin_family = AF_INET,
		                       .sin_port = htons((uint16_t)o->port) };
	const union MHD_DaemonInfo *info;

	if (inet_pton(AF_INET, o->address, &address.sin_addr) != 1)
		return err_set(err, ERR_INVALID, "--listen: \"%s\" is no IPv4 address", o->address);
	s->daemon = MHD_start_daemon(
		MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
			MHD_USE_ERROR_LOG,
		0, NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
		MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address, MHD_OPTION_NOTIFY_COMPLETED,
		on_completed, NULL, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
		MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES,
		MHD_OPTION_LISTENING_ADDRESS_REUSE, 1U, MHD_OPTION_END);
	if (!s->daemon)
		return err_set(err, ERR_UNAVAILABLE,
		               "cannot serve on %s:%u: is the port in use? (--listen)", o->address,
		               o->port);
	info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT);
	s->port = info ? info->port : o->port;
	return 0;
}

int http_server_new(struct sim *sim, struct http_server **ret, struct err *err)
{
	struct http_server *s = xcalloc(1, sizeof(*s));

	s->sim = sim;
	if (start(s, err)) {
		http_server_free(s);
		return -1;
	}
	*ret = s;
	return 0;
}

unsigned http_server_port(const struct http_server *s)
{
	return s->port;
}

struct http_server *http_server_free(struct http_server *s)
{
	if (!s)
		return NULL;
	if (s->daemon)
		MHD_stop_daemon(s->daemon);
	free(s);
	return NULL;
}
