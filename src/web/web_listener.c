/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the listening descriptor and, for a unix socket, its file while it is this listener's.
 * Connections are accepted by web_server.c.
 */
#include "web/web_listener.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"

/* Removes a stale socket. Any other file, or a served socket, stays. */
static int remove_stale(const struct listen_address *a, struct err *err)
{
	int fd AUTO(fd) = -1;
	struct stat st;

	if (lstat(a->path, &st) < 0)
		return errno == ENOENT ? 0 : err_sys(err, errno, "stat %s", a->path);
	if (!S_ISSOCK(st.st_mode))
		return err_set(err, ERR_PRECONDITION, "%s exists and is not a socket", a->path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && (connect(fd, (const struct sockaddr *)&a->to, a->n) == 0 || errno == EAGAIN))
		return err_set(err, ERR_PRECONDITION, "another process serves %s", a->path);
	if (unlink(a->path) < 0 && errno != ENOENT)
		return err_sys(err, errno, "remove %s", a->path);
	return 0;
}

/* Opens the socket. On a host without IPv6, ":PORT" listens on all IPv4 addresses. */
static int web_open_socket(struct listen_address *a, struct err *err)
{
	int fd = socket(a->to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), off = 0;

	if (fd < 0 && errno == EAFNOSUPPORT && a->any) {
		struct sockaddr_in v4 = { .sin_family = AF_INET,
			                  .sin_port = ((struct sockaddr_in6 *)&a->to)->sin6_port };

		memcpy(&a->to, &v4, sizeof(v4));
		a->n = sizeof(v4);
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	}
	if (fd < 0)
		return err_sys(err, errno, "socket");
	if (a->to.ss_family == AF_INET6 && a->any)
		IGNORE_RESULT(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)));
	return fd;
}

static int web_bind_socket(struct web_listener *l, int backlog, struct err *err)
{
	int on = 1;

	if (*l->address.path && remove_stale(&l->address, err))
		return -1;
	l->fd = web_open_socket(&l->address, err);
	if (l->fd < 0)
		return -1;
	IGNORE_RESULT(setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
	if (bind(l->fd, (const struct sockaddr *)&l->address.to, l->address.n) < 0 ||
	    (*l->address.path && chmod(l->address.path, 0600) < 0) || listen(l->fd, backlog) < 0)
		return err_sys(err, errno, "listen");
	if (*l->address.path && lstat(l->address.path, &l->file) < 0)
		return err_sys(err, errno, "stat %s", l->address.path);
	listen_address_of(l->fd, l->text);
	return 0;
}

int web_listener_open(struct web_listener *l, const char *address, int backlog, struct err *err)
{
	l->fd = -1;
	if (!listen_address_parse(address, &l->address, err) && !web_bind_socket(l, backlog, err))
		return 0;
	web_listener_close(l);
	return -1;
}

void web_listener_close(struct web_listener *l)
{
	struct stat now;

	if (l->fd < 0)
		return;
	if (*l->address.path && lstat(l->address.path, &now) == 0 && now.st_ino == l->file.st_ino &&
	    now.st_dev == l->file.st_dev)
		unlink(l->address.path);
	close(TAKE_FD(l->fd));
}
