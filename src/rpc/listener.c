/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the listening descriptor, the socket file while it is this listener's, and the connections
 * that have not sent the HTTP/2 preface yet. A connection that was handed over belongs to its new
 * owner; the table keeps only its descriptor number and socket inode. When the table is full,
 * entries whose descriptor no longer has the stored inode are dropped: the new owner need not
 * report that it has closed one.
 *
 * One thread writes the table; listener_peer_pid() reads it from other threads, under the lock. The
 * caller blocks signals before.
 */
#include "rpc/listener.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/log.h"
#include "common/mem.h"

#define BACKLOG 128
#define PAUSE_MS 100       /* before the next accept() when there is no free descriptor */
#define FEW_CONNECTIONS 16 /* are tried with any limit of descriptors */

/* RFC 9113, 3.4: the connection preface, which every HTTP/2 client sends first. */
static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
#define PREFACE_LEN (sizeof(preface) - 1)

struct connection {
	int fd;
	ino_t inode;
	int pid;
	int64_t preface_by; /* monotonic ns; DEADLINE_NEVER: handed over */
};

struct listener {
	struct listener_options options;
	char *path;
	dev_t dev; /* of the socket file, to remove no other */
	ino_t ino;
	int fd, epoll, wake;
	bool bound, running;
	int64_t paused_until; /* 0: accepting */
	unsigned
		max_connections; /* of the options, or fewer when the process has few descriptors */
	pthread_t thread;
	pthread_mutex_t lock; /* guards the table; only the thread writes it */
	unsigned n;
	struct connection table[];
};

/* ---- the socket file ---- */

static const char *kind_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "a regular file";
	case S_IFLNK:
		return "a symbolic link";
	case S_IFDIR:
		return "a directory";
	default:
		return "something else";
	}
}

static int check_name(const char *path, struct err *err)
{
	struct stat st;

	if (!*path || path[strlen(path) - 1] == '/')
		return err_set(err, ERR_INVALID, "socket path \"%s\" names no file", path);
	if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
		return err_set(err, ERR_PRECONDITION,
		               "%s is %s, not a socket: remove it or serve on another path", path,
		               kind_of(st.st_mode));
	return 0;
}

/* A name of 8 characters in the directory of the path. */
static int temporary_name(const char *path, struct sockaddr_un *ret, struct err *err)
{
	const char *slash = strrchr(path, '/');
	size_t n_dir = slash ? (size_t)(slash - path) + 1 : 0;
	unsigned random = 0;

	if (n_dir + 8 >= sizeof(ret->sun_path) || strlen(path) >= sizeof(ret->sun_path))
		return err_set(
			err, ERR_INVALID,
			"socket path %s is too long: the path may have %zu characters, its directory %zu",
			path, sizeof(ret->sun_path) - 1, sizeof(ret->sun_path) - 9);
	if (getrandom(&random, sizeof(random), 0) < 0)
		return err_sys(err, errno, "getrandom");
	*ret = (struct sockaddr_un) { .sun_family = AF_UNIX };
	snprintf(ret->sun_path, sizeof(ret->sun_path), "%.*s.%07x", (int)n_dir, path,
	         random & 0xfffffffU);
	return 0;
}

/*
 * Sets mode and group, listens, then renames the socket from its temporary name. Before listen()
 * nobody can connect, so nobody connects under another mode.
 */
static int put_in_place(struct listener *l, const char *name, struct err *err)
{
	struct stat st;

	if (chmod(name, l->options.mode))
		return err_sys(err, errno, "set mode %o of the socket %s", l->options.mode,
		               l->path);
	if (l->options.group != (gid_t)-1 && lchown(name, (uid_t)-1, l->options.group))
		return err_sys(err, errno, "give the socket %s to group %u", l->path,
		               l->options.group);
	if (listen(l->fd, BACKLOG))
		return err_sys(err, errno, "listen on %s", l->path);
	if (lstat(name, &st))
		return err_sys(err, errno, "stat the socket %s", name);
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	if (rename(name, l->path))
		return err_sys(err, errno, "rename the new socket to %s", l->path);
	return 0;
}

static int bind_socket(struct listener *l, struct err *err)
{
	struct sockaddr_un address;

	if (check_name(l->path, err) || temporary_name(l->path, &address, err))
		return -1;
	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->fd < 0)
		return err_sys(err, errno, "make a unix socket");
	if (bind(l->fd, (const struct sockaddr *)&address, sizeof(address)))
		return err_sys(err, errno, "make the socket %s in its directory", l->path);
	if (put_in_place(l, address.sun_path, err)) {
		unlink(address.sun_path);
		return -1;
	}
	return 0;
}

bool listener_has_name(const struct listener *l)
{
	struct stat st;

	return lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino;
}

/* ---- the table ---- */

static ino_t inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

static struct connection *table_find(struct listener *l, int fd)
{
	for (unsigned i = 0; i < l->n; i++)
		if (l->table[i].fd == fd)
			return &l->table[i];
	return NULL;
}

static void table_remove(struct listener *l, struct connection *c)
{
	WITH_LOCK(&l->lock);
	*c = l->table[--l->n];
}

/* Drops entries of connections that their new owner has closed. */
static void table_drop_closed(struct listener *l)
{
	for (unsigned i = 0; i < l->n;) {
		struct connection *c = &l->table[i];

		if (c->preface_by == DEADLINE_NEVER && inode_of(c->fd) != c->inode)
			table_remove(l, c);
		else
			i++;
	}
}

static void table_add(struct listener *l, const struct connection *c)
{
	struct connection *old = table_find(l, c->fd);

	/* accept() has given this number, so the new owner of the old connection has closed it. */
	assert(!old || old->preface_by == DEADLINE_NEVER);
	assert(old || l->n < l->max_connections + l->options.own_places);
	WITH_LOCK(&l->lock);
	*(old ? old : &l->table[l->n++]) = *c;
}

/* Does the process run the same program as this one, as the driver's own --probe does? */
static bool runs_this_program(int pid)
{
	char path[40];
	struct stat own, other;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return stat("/proc/self/exe", &own) == 0 && stat(path, &other) == 0 &&
	       own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

/* Is there a place for a connection of this process, whose descriptor is fd? */
static bool table_has_room(struct listener *l, int fd, int pid)
{
	if (l->n < l->max_connections || table_find(l, fd))
		return true;
	table_drop_closed(l);
	if (l->n < l->max_connections)
		return true;
	return l->n < l->max_connections + l->options.own_places && runs_this_program(pid);
}

int listener_peer_pid(struct listener *l, int fd)
{
	WITH_LOCK(&l->lock);
	const struct connection *c = table_find(l, fd);

	return c ? c->pid : 0;
}

/* ---- accepting ---- */

static void drop(struct listener *l, struct connection *c, const char *why)
{
	/* Debug level: a script that connects to see whether somebody listens is no event. */
	log_msg(LOG_DEBUG, "closed a connection of process %d: it %s", c->pid, why);
	close(c->fd);
	table_remove(l, c);
}

static void hand_over(struct listener *l, struct connection *c)
{
	int fd = c->fd;

	epoll_ctl(l->epoll, EPOLL_CTL_DEL, fd, NULL);
	{
		WITH_LOCK(&l->lock);
		c->preface_by = DEADLINE_NEVER;
	}
	l->options.connected(l->options.arg, fd);
}

/* Compares what the client has sent with the preface; leaves it unread for gRPC. */
static void check_preface(struct listener *l, struct connection *c, uint32_t events)
{
	char sent[PREFACE_LEN];
	ssize_t n = recv(c->fd, sent, sizeof(sent), MSG_PEEK | MSG_DONTWAIT);

	assert(c->preface_by != DEADLINE_NEVER);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		drop(l, c, "sent nothing and left");
	else if (memcmp(sent, preface, (size_t)n) != 0)
		drop(l, c, "does not speak HTTP/2");
	else if ((size_t)n == PREFACE_LEN)
		hand_over(l, c);
	else if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		drop(l, c, "left before the end of the HTTP/2 preface");
}

/*
 * Root, and the user that the driver runs as. A mode that lets group or others write to the socket
 * says that they may connect. Otherwise the mode has kept others out already, unless they have a
 * capability, or a descriptor that somebody gave them.
 */
static bool may_connect(const struct listener *l, const struct ucred *peer)
{
	return l->options.mode & 0022 || peer->uid == 0 || peer->uid == geteuid();
}

static void add_connection(struct listener *l, int fd)
{
	struct connection c = { .fd = fd, .inode = inode_of(fd) };
	/*
	 * Edge-triggered: events for new bytes only, since check_preface() leaves them unread.
	 */
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.fd = fd };
	socklen_t n = sizeof(struct ucred);
	struct ucred peer = { .uid = (uid_t)-1 };

	IGNORE_RESULT(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n));
	if (!may_connect(l, &peer)) {
		log_limited(
			LOG_WARNING, 10,
			"refused a connection of process %d, user %u: only root and user %u may use %s; --socket-group and --socket-mode let others in",
			peer.pid, peer.uid, geteuid(), l->path);
		close(fd);
		return;
	}
	if (!table_has_room(l, fd, peer.pid)) {
		log_limited(LOG_WARNING, 10,
		            "refused a connection of process %d: %u are open, that is the limit",
		            peer.pid, l->n);
		close(fd);
		return;
	}
	c.pid = peer.pid;
	c.preface_by = monotonic_ns() + l->options.preface_timeout_ms * INT64_C(1000000);
	if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event)) {
		close(fd);
		return;
	}
	table_add(l, &c);
}

static void watch_listener(struct listener *l, bool on)
{
	struct epoll_event event = { .events = on ? EPOLLIN : 0, .data.fd = l->fd };

	epoll_ctl(l->epoll, EPOLL_CTL_MOD, l->fd, &event);
}

static void accept_one(struct listener *l)
{
	int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0) {
		add_connection(l, fd);
	} else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
		log_limited(LOG_WARNING, 10,
		            "cannot accept a connection (%s): trying again every %d ms",
		            strerrorname_np(errno), PAUSE_MS);
		l->paused_until = monotonic_ns() + PAUSE_MS * INT64_C(1000000);
		watch_listener(l, false);
	}
}

/* ---- the thread ---- */

static int next_timeout_ms(const struct listener *l)
{
	int64_t at = l->paused_until ? l->paused_until : DEADLINE_NEVER;

	for (unsigned i = 0; i < l->n; i++)
		if (l->table[i].preface_by < at)
			at = l->table[i].preface_by;
	/* -1: no timeout. */
	return at == DEADLINE_NEVER ? -1 : deadline_left_ms((struct deadline) { .at = at });
}

static void expire(struct listener *l)
{
	int64_t now = monotonic_ns();

	if (l->paused_until && now >= l->paused_until) {
		l->paused_until = 0;
		watch_listener(l, true);
	}
	for (unsigned i = 0; i < l->n;)
		if (now >= l->table[i].preface_by)
			drop(l, &l->table[i], "did not send the HTTP/2 preface in time");
		else
			i++;
}

static void *listen_thread(void *arg)
{
	struct listener *l = arg;

	pthread_setname_np(pthread_self(), "rpc-listener");
	for (;;) {
		struct epoll_event event;
		int n = epoll_wait(l->epoll, &event, 1, next_timeout_ms(l));

		if (n == 1 && event.data.fd == l->wake)
			return NULL;
		if (n == 1 && event.data.fd == l->fd) {
			accept_one(l);
		} else if (n == 1) {
			struct connection *c = table_find(l, event.data.fd);

			if (c)
				check_preface(l, c, event.events);
		}
		expire(l);
	}
}

static int watch(struct listener *l, int fd, struct err *err)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event))
		return err_sys(err, errno, "watch the socket %s", l->path);
	return 0;
}

int listener_run(struct listener *l, struct err *err)
{
	int rc;

	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->epoll < 0 || l->wake < 0)
		return err_sys(err, errno, "prepare to listen on %s", l->path);
	if (watch(l, l->fd, err) || watch(l, l->wake, err))
		return -1;
	rc = pthread_create(&l->thread, NULL, listen_thread, l);
	if (rc)
		return err_sys(err, rc, "start the thread that listens on %s", l->path);
	l->running = true;
	return 0;
}

/* As many as use a quarter of the descriptors that the process may have. */
static unsigned affordable(unsigned connections)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return connections;
	limit.rlim_cur /= 4;
	if (limit.rlim_cur < FEW_CONNECTIONS)
		limit.rlim_cur = FEW_CONNECTIONS;
	return connections < limit.rlim_cur ? connections : (unsigned)limit.rlim_cur;
}

int listener_new(const struct listener_options *options, struct listener **ret, struct err *err)
{
	unsigned max = affordable(options->max_connections);
	struct listener *l =
		xcalloc(1, sizeof(*l) + (max + options->own_places) * sizeof(l->table[0]));

	l->options = *options;
	l->max_connections = max;
	l->path = xstrdup(options->path);
	l->fd = l->epoll = l->wake = -1;
	pthread_mutex_init(&l->lock, NULL);
	if (bind_socket(l, err)) {
		listener_free(l);
		return -1;
	}
	l->bound = true;
	*ret = l;
	return 0;
}

static void close_waiting(struct listener *l)
{
	for (unsigned i = 0; i < l->n;)
		if (l->table[i].preface_by != DEADLINE_NEVER) {
			close(l->table[i].fd);
			table_remove(l, &l->table[i]);
		} else {
			i++;
		}
}

void listener_stop(struct listener *l)
{
	uint64_t one = 1;

	if (l->running && write(l->wake, &one, sizeof(one)) == (ssize_t)sizeof(one))
		pthread_join(l->thread, NULL);
	l->running = false;
	if (l->bound && listener_has_name(l))
		unlink(l->path);
	l->bound = false;
	close_waiting(l);
	fd_p(&l->fd);
	fd_p(&l->epoll);
	fd_p(&l->wake);
	l->fd = l->epoll = l->wake = -1;
}

struct listener *listener_free(struct listener *l)
{
	if (!l)
		return NULL;
	listener_stop(l);
	pthread_mutex_destroy(&l->lock);
	free(l->path);
	free(l);
	return NULL;
}
