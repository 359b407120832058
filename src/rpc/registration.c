/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registration with kubelet: a second, small server, and one thread that owns it.
 *
 * The thread waits for inotify events of the directory. When the socket is removed (by a cleanup of
 * the node, or by another driver of the same name that ends), the thread serves a new socket. When
 * another file has replaced the socket, kubelet registers the process that listens there. If that
 * process is a living successor (a new pod of this driver), it keeps the path until it ends,
 * because two drivers that replace each other would make kubelet register and forget the driver
 * endlessly. A stale socket is replaced. While the directory is missing, inotify cannot report its
 * creation, because it may be a mount point; also, a host may have no inotify instances left. In
 * both cases the thread checks directory and socket every few seconds. Both methods run on the
 * server's poller, because they answer with constants and write a log line.
 */
#include "rpc/registration.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "csi/pluginregistration.pb-c.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "common/mem.h"
#include "rpc/listener.h"
#include "rpc/rpc_server.h"

#define LOOK_AGAIN_MS 5000
#define OUTDATED_MS 60000
#define STOP_MS 1000
#define CONNECTIONS 16 /* kubelet needs one at a time */

struct registration {
	struct registration_options options;
	char *path;
	struct rpc_service service;
	/* used only by the thread; NULL: the socket is not being served */
	struct rpc_server *server;
	int inotify; /* used only by the thread; -1: the directory is not watched */
	/* used only by the thread: another file has this driver's path */
	bool displaced;
	int stop; /* eventfd: readable when the thread must end */
	pthread_t thread;
};

/* ---- what kubelet calls ---- */

static int registration_get_info(void *self, struct rpc_call *call, const void *req,
                                 ProtobufCMessage **resp, struct err *err)
{
	static char *versions[] = { (char *)"1.0.0" };
	const struct registration *r = self;
	Pluginregistration__PluginInfo *info = RPC_NEW(call, pluginregistration__plugin_info);

	(void)req;
	(void)err;
	info->type = (char *)"CSIPlugin";
	info->name = (char *)r->options.driver;
	info->endpoint = (char *)r->options.endpoint;
	info->supported_versions = versions;
	info->n_supported_versions = ARRAY_LEN(versions);
	*resp = &info->base;
	return 0;
}

static void tell(const struct registration *r, bool registered)
{
	if (r->options.registered)
		r->options.registered(r->options.arg, registered);
}

static int notify(void *self, struct rpc_call *call, const void *req, ProtobufCMessage **resp,
                  struct err *err)
{
	const struct registration *r = self;
	const Pluginregistration__RegistrationStatus *status = req;

	(void)err;
	tell(r, status->plugin_registered);
	if (status->plugin_registered)
		log_event(LOG_INFO, "registered with kubelet", "driver", r->options.driver,
		          "endpoint", r->options.endpoint, NULL);
	else
		log_event(
			LOG_ERROR,
			"kubelet refused this driver; pods on this node get no volumes until it accepts it",
			"driver", r->options.driver, "endpoint", r->options.endpoint, "error",
			status->error, NULL);
	*resp = RPC_NEW(call, pluginregistration__registration_status_response);
	return 0;
}

static const struct rpc_method methods[] = {
	{ .name = "GetInfo", .handler = registration_get_info, .on_poller = true, .quiet = true },
	{ .name = "NotifyRegistrationStatus", .handler = notify, .on_poller = true, .quiet = true },
};

/* ---- the thread ---- */

static void stop_serving(struct registration *r)
{
	rpc_server_stop(TAKE(r->server), STOP_MS);
	/*
	 * Done after the server has stopped, because its last call might have reported the
	 * opposite.
	 */
	tell(r, false);
}

static int registration_serve(struct registration *r, struct err *err)
{
	const struct rpc_server_options options = {
		.path = r->path,
		.socket_mode = 0600,
		.socket_group = (gid_t)-1,
		.max_connections = CONNECTIONS,
	};

	if (rpc_server_start(&options, &r->service, 1, &r->server, err))
		return err_wrap(err, "serve %s", r->path);
	log_event(LOG_INFO, "waiting for kubelet to register the driver", "socket", r->path, NULL);
	return 0;
}

/* Watches the directory. Call it before the socket is served, so that no removal is missed. */
static int watch_folder(struct registration *r, struct err *err)
{
	r->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (r->inotify < 0)
		return err_sys_of(err, ERR_CALL_INOTIFY, errno, "watch %s", r->options.dir);
	if (inotify_add_watch(r->inotify, r->options.dir,
	                      IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF |
	                              IN_MOVE_SELF | IN_ONLYDIR) >= 0)
		return 0;
	err_sys_of(err, ERR_CALL_INOTIFY, errno, "watch %s (kubelet's folder plugins_registry)",
	           r->options.dir);
	close(TAKE_FD(r->inotify));
	return -1;
}

/* Returns true if a successor has taken this driver's path. */
static bool superseded(struct registration *r)
{
	if (r->displaced && listener_answers(r->path)) {
		log_limited(
			LOG_WARNING, 60,
			"another process serves %s now, so kubelet registers that process; this "
			"driver registers again when it has ended",
			r->path);
		return true;
	}
	r->displaced = false;
	return false;
}

/* Creates or removes the watch and the server, as the state of the directory requires. */
static void restore(struct registration *r)
{
	struct err unwatched = ERR_INIT, err = ERR_INIT;

	if (r->server && !rpc_server_has_socket(r->server)) {
		r->displaced = true;
		stop_serving(r);
	}
	if (r->inotify < 0)
		IGNORE_RESULT(watch_folder(r, &unwatched));
	if (unwatched.sys == ENOENT)
		err = unwatched;
	else if (!r->server && !superseded(r))
		IGNORE_RESULT(registration_serve(r, &err));
	if (err.code)
		log_limited(LOG_WARNING, 60, "cannot be registered with kubelet yet: %s", err.msg);
	else if (unwatched.code)
		log_limited(LOG_WARNING, 3600, "%s; until then the socket is checked every %d s",
		            unwatched.msg, LOOK_AGAIN_MS / 1000);
}

/*
 * Reads inotify events. If the directory was removed, its watch reports nothing any more, so
 * inotify is closed.
 */
static void read_events(struct registration *r)
{
	char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t n;
	bool folder_gone = false;

	while ((n = read(r->inotify, buf, sizeof(buf))) > 0) {
		for (char *at = buf; at < buf + n;) {
			const struct inotify_event *e = (const void *)at;

			if (e->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT))
				folder_gone = true;
			at += sizeof(*e) + e->len;
		}
	}
	if (folder_gone)
		close(TAKE_FD(r->inotify));
}

/* Returns the maximum time to wait for inotify, in ms; -1: unlimited. */
static int patience_ms(const struct registration *r)
{
	const struct registration_options *o = &r->options;

	if (r->inotify < 0 || !r->server)
		return o->look_again_ms ? o->look_again_ms : LOOK_AGAIN_MS;
	if (!o->outdated)
		return -1;
	return o->outdated_ms ? o->outdated_ms : OUTDATED_MS;
}

static void *registration_run(void *arg)
{
	struct registration *r = arg;
	struct pollfd fds[] = {
		{ .fd = r->stop, .events = POLLIN },
		{ .events = POLLIN },
	};
	int n;

	pthread_setname_np(pthread_self(), "registration");
	for (;;) {
		restore(r);
		fds[1].fd = r->inotify;
		n = poll(fds, ARRAY_LEN(fds), patience_ms(r));
		if (n < 0 && errno != EINTR)
			break;
		if (fds[0].revents)
			break;
		if (r->inotify >= 0 && fds[1].revents)
			read_events(r);
		else if (n == 0 && r->server && r->options.outdated &&
		         r->options.outdated(r->options.arg))
			stop_serving(r);
	}
	stop_serving(r);
	return NULL;
}

/* ---- start and stop ---- */

static struct registration *release(struct registration *r)
{
	if (r->inotify >= 0)
		close(r->inotify);
	if (r->stop >= 0)
		close(r->stop);
	free(r->path);
	free(r);
	return NULL;
}

static int registration_begin(struct registration *r, struct err *err)
{
	int rc;

	if (strlen(r->path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
		return err_set(err, ERR_INVALID,
		               "--plugin-registration-path: %s is too long for a socket", r->path);
	tell(r, false);
	r->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->stop < 0)
		return err_sys(err, errno, "eventfd");
	rc = pthread_create(&r->thread, NULL, registration_run, r);
	return rc ? err_sys_of(err, ERR_CALL_TASK, rc,
	                       "start the thread that registers with kubelet")
	          : 0;
}

int registration_start(const struct registration_options *options, struct registration **ret,
                       struct err *err)
{
	struct registration *r = xcalloc(1, sizeof(*r));

	r->options = *options;
	r->inotify = r->stop = -1;
	r->path = xasprintf("%s/%s-reg.sock", options->dir, options->driver);
	r->service = (struct rpc_service) {
		.descriptor = &pluginregistration__registration__descriptor,
		.methods = methods,
		.n_methods = ARRAY_LEN(methods),
		.self = r,
	};
	if (registration_begin(r, err)) {
		release(r);
		return -1;
	}
	*ret = r;
	return 0;
}

struct registration *registration_stop(struct registration *r)
{
	if (!r)
		return NULL;
	IGNORE_RESULT(eventfd_write(r->stop, 1));
	pthread_join(r->thread, NULL);
	return release(r);
}
