/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps a server on its path. Between the check for an answering server and this process's bind,
 * another process may bind the path. Then one of the two processes finds its socket replaced, and
 * waits until the other process ends.
 */
#include "rpc/shared_path.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "rpc/listener.h"

#define STOP_MS 1000
#define CONNECTIONS 16 /* a daemon needs one connection, and another one when it restarts */

static int shared_path_serve(struct shared_path *s, struct err *err)
{
	const struct rpc_server_options options = {
		.path = s->path,
		.socket_mode = 0600,
		.socket_group = (gid_t)-1,
		.max_connections = CONNECTIONS,
	};

	if (listener_answers(s->path))
		return err_set(err, ERR_UNAVAILABLE,
		               "another process serves %s and is left alone: end it, or give one "
		               "of the two a socket of its own",
		               s->path);
	if (rpc_server_start(&options, &s->service, 1, &s->server, err))
		return err_wrap(err, "serve %s", s->path);
	log_event(LOG_INFO, "serving", "socket", s->path, NULL);
	return 0;
}

int shared_path_keep(struct shared_path *s, struct err *err)
{
	if (s->server && !rpc_server_has_socket(s->server) && !s->in_use(s->arg)) {
		log_event(LOG_WARNING, "the socket was removed, or replaced by another process",
		          "socket", s->path, NULL);
		shared_path_stop(s);
	}
	return s->server ? 0 : shared_path_serve(s, err);
}

void shared_path_stop(struct shared_path *s)
{
	rpc_server_stop(TAKE(s->server), STOP_MS);
}
