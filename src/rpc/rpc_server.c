/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gRPC server: its parts, its start and its stop. (The life of a call: rpc_server_call.c.)
 *
 * Threads: gRPC's own, the poller, the listener, and one for each running call. rpc_server_stop()
 * stops them in a fixed order: it accepts no new connections, then no new calls, waits for the
 * running calls, then ends the workers, the queue and the poller.
 */
#include "rpc/rpc_server_priv.h"

#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <protobuf-c/protobuf-c.h>

#include <stdlib.h>

#include "common/limits.h"
#include "common/log.h"
#include "rpc/listener.h"
#include "rpc/workers.h"
#include "common/str.h"

#define SLOTS 8 /* calls that gRPC can report before the poller takes the first one */
#define PING_INTERVAL_MS 5000
#define IDLE_MS 30000  /* a thread that has been idle for this time ends */
#define GOODBYE_MS 100 /* time for idle clients to close their connections at the end */

static void *poll_thread(void *arg)
{
	pthread_setname_np(pthread_self(), "rpc-poller");
	rpc_poll(arg);
	return NULL;
}

const char *rpc_server_library(void)
{
	return grpc_version_string();
}

const char *rpc_server_messages(void)
{
	return protobuf_c_version();
}

/* ---- start and stop ---- */

extern char **environ;

void rpc_server_sanitize_environment(void)
{
	/*
	 * An empty or unknown GRPC_POLL_STRATEGY makes grpc_init() abort, and no GRPC_* variable
	 * configures the driver.
	 */
	char **kept = environ;

	for (char **e = environ; e && *e; e++)
		if (!str_has_prefix(*e, "GRPC_"))
			*kept++ = *e;
	if (kept)
		*kept = NULL;
}

static void log_grpc(gpr_log_func_args *args)
{
	log_limited(LOG_WARNING, 10, "gRPC: %s", args->message);
}

/*
 * Debian builds Abseil, which gRPC uses, with its debug checks. One check finds deadlocks: it adds
 * every lock that a thread takes while holding another lock to a graph. This takes a sixth of the
 * instructions of a Probe, and memory per mutex that is never freed, 2 MB after 1,000 connections.
 * Abseil has no C interface, and its symbols contain its version; if none of these symbols is
 * linked, the check stays on.
 */
#define EACH_ABSEIL(X) \
	X(7debian3) X(7debian4) X(7debian5) X(7debian6) X(7debian7) X(7debian8) X(7debian9)
#define DECLARE(version_)                                                                      \
	void set_deadlock_check_##version_(int mode) __asm__(                                  \
		"_ZN4absl" #version_ "29SetMutexDeadlockDetectionModeENS0_15OnDeadlockCycleE") \
		__attribute__((weak));
EACH_ABSEIL(DECLARE)
#undef DECLARE

static void turn_off_deadlock_check(void)
{
	enum { IGNORE }; /* absl::OnDeadlockCycle::kIgnore */
#define CALL(version_)                     \
	if (set_deadlock_check_##version_) \
		set_deadlock_check_##version_(IGNORE);
	EACH_ABSEIL(CALL)
#undef CALL
}

static void on_connected(void *arg, int fd)
{
	struct rpc_server *s = arg;

	grpc_server_add_channel_from_fd(s->grpc, fd, s->credentials);
}

static grpc_server *new_grpc_server(unsigned max_streams)
{
#define INTEGER(key_, value_) \
	{ .type = GRPC_ARG_INTEGER, .key = (char *)key_, .value.integer = (value_) }
	grpc_arg args[] = {
		INTEGER(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, LIMIT_RPC_MESSAGE),
		INTEGER(GRPC_ARG_MAX_METADATA_SIZE, LIMIT_RPC_METADATA),
		INTEGER(GRPC_ARG_MAX_CONCURRENT_STREAMS, (int)max_streams),
		INTEGER(GRPC_ARG_ENABLE_CHANNELZ, 0),
		/*
		 * Disables compression (bit 0 is "identity"), because gRPC would unpack a small
		 * gzip message to a gigabyte before it applies a limit.
		 */
		INTEGER(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1),
		/* gRPC disconnects a client that pings an idle connection more often. */
		INTEGER(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, PING_INTERVAL_MS),
		INTEGER(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
	};
#undef INTEGER
	grpc_channel_args all = { ARRAY_LEN(args), args };

	return grpc_server_create(&all, NULL);
}

static struct rpc_server *rpc_server_new(const struct rpc_server_options *o,
                                         const struct rpc_service *services, size_t n_services)
{
	struct rpc_server *s = xcalloc(1, sizeof(*s));

	s->services = services;
	s->n_services = n_services;
	s->running = o->running;
	s->watch_at = INT64_MAX;
	s->unread_tail = &s->unread;
	s->max_incomplete = o->max_incomplete ? o->max_incomplete : LIMIT_RPC_INCOMPLETE;
	s->message_ns = INT64_C(1000000) *
	                (o->message_timeout_ms ? o->message_timeout_ms : LIMIT_RPC_MESSAGE_MS);
	s->max_calls = o->max_calls ? o->max_calls : LIMIT_RPC_CALLS;
	s->shut = (struct tag) { SERVER_SHUT, NULL };
	pthread_mutex_init(&s->lock, NULL);
	s->workers = workers_new(IDLE_MS);
	gpr_set_log_function(log_grpc);
	gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
	turn_off_deadlock_check();
	grpc_init();
	s->grpc = new_grpc_server(o->max_streams ? o->max_streams : LIMIT_RPC_STREAMS);
	s->credentials = grpc_insecure_server_credentials_create();
	s->queue = grpc_completion_queue_create_for_next(NULL);
	grpc_server_register_completion_queue(s->grpc, s->queue, NULL);
	return s;
}

static int bind_listener(struct rpc_server *s, const struct rpc_server_options *o, struct err *err)
{
	struct listener_options options = {
		.path = o->path,
		.mode = o->socket_mode ? o->socket_mode : 0600,
		.group = o->socket_group,
		.max_connections = o->max_connections ? o->max_connections : LIMIT_RPC_CONNECTIONS,
		.own_places = o->own_places,
		.preface_timeout_ms =
			o->preface_timeout_ms ? o->preface_timeout_ms : LIMIT_RPC_PREFACE_MS,
		.ack_timeout_ms = o->ack_timeout_ms ? o->ack_timeout_ms : LIMIT_RPC_ACK_MS,
		.unread_timeout_ms =
			o->unread_timeout_ms ? o->unread_timeout_ms : LIMIT_RPC_UNREAD_MS,
		.connected = on_connected,
		.arg = s,
	};

	return listener_new(&options, &s->listener, err);
}

static int start_threads(struct rpc_server *s, struct err *err)
{
	int rc;

	grpc_server_start(s->grpc);
	for (int i = 0; i < SLOTS; i++)
		rpc_post_slot(s);
	rc = pthread_create(&s->poller, NULL, poll_thread, s);
	if (rc)
		return err_sys_of(err, ERR_CALL_TASK, rc, "start the thread that polls gRPC");
	s->polling = true;
	return listener_run(s->listener, err);
}

int rpc_server_start(const struct rpc_server_options *options, const struct rpc_service *services,
                     size_t n_services, struct rpc_server **ret, struct err *err)
{
	struct rpc_server *s = rpc_server_new(options, services, n_services);

	if (bind_listener(s, options, err) || start_threads(s, err)) {
		rpc_server_stop(s, 0);
		return -1;
	}
	*ret = s;
	return 0;
}

bool rpc_server_has_socket(const struct rpc_server *s)
{
	return listener_has_name(s->listener);
}

/*
 * Waits until no calls are left and, with `connections`, every client has closed its connection.
 * Returns false if d passes first.
 */
static bool wait_quiet(struct rpc_server *s, bool connections, struct deadline d)
{
	WITH_LOCK(&s->lock);
	while (s->live || (connections && !s->notified))
		if (!wait_queue_wait(&s->changed, &s->lock, d))
			return false;
	return true;
}

/*
 * Gives running calls grace_ms, then idle clients GOODBYE_MS, because gRPC has told them to close
 * their connections. Remaining calls are cancelled.
 */
static void drain(struct rpc_server *s, int grace_ms)
{
	if (!wait_quiet(s, false, deadline_in_ms(grace_ms)))
		log_msg(LOG_WARNING, "calls are still running after %d ms: cancelling them",
		        grace_ms);
	else if (wait_quiet(s, true, deadline_in_ms(GOODBYE_MS)))
		return;
	grpc_server_cancel_all_calls(s->grpc);
	wait_quiet(s, true, deadline_never());
}

static void begin_stop(struct rpc_server *s)
{
	{
		WITH_LOCK(&s->lock);
		s->stopping = true;
	}
	rpc_hand(s);
	grpc_server_shutdown_and_notify(s->grpc, s->queue, &s->shut);
}

static void rpc_server_release(struct rpc_server *s)
{
	grpc_completion_queue_destroy(s->queue);
	grpc_server_destroy(s->grpc);
	grpc_server_credentials_release(s->credentials);
	grpc_shutdown_blocking();
	/* gRPC has closed its ends; the bytes that it has sent still go to the clients. */
	listener_free(s->listener);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

void rpc_server_stop(struct rpc_server *s, int grace_ms)
{
	if (!s)
		return;
	if (s->listener)
		listener_stop(s->listener);
	begin_stop(s);
	if (s->polling)
		drain(s, grace_ms);
	workers_free(s->workers);
	/*
	 * Must follow the end of all calls, because gRPC aborts if a batch is started on a queue
	 * that is shut down.
	 */
	grpc_completion_queue_shutdown(s->queue);
	if (s->polling)
		pthread_join(s->poller, NULL);
	else
		rpc_poll(s);
	rpc_server_release(s);
}
