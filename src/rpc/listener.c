/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the listening descriptor, the socket file while it is this listener's, and every connection
 * until it ends. (relay.c forwards the bytes of a connection.)
 *
 * One thread writes the table; listener_peer_pid() reads it from other threads, under the lock. The
 * caller blocks signals first.
 */
#include "rpc/listener.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
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
#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/metric.h"
#include "common/str.h"
#include "common/wait_queue.h"
#include "rpc/relay.h"

#define BACKLOG 128
#define PAUSE_MS 100       /* before the next accept() when no descriptor is free */
#define FEW_CONNECTIONS 16 /* allowed even with a low descriptor limit */

#define MS INT64_C(1000000)
#define EVENTS 32           /* maximum number of events taken from epoll at once */
#define DRAIN_MS 1000       /* time for clients to read their last answers at the end */
#define STOP_UNREAD_MS 5000 /* time for a client to read pending bytes while the server stops */
#define TRIM_MS 2000        /* time without traffic after which unused memory is released */
#define PROC_STAT_MAX 4096

struct connection {
	struct relay *relay; /* NULL: the connection has ended and will be removed */
	int grpc_fd;         /* gRPC's end; -1: not yet passed on */
	int pid;
};

/* The phases that other threads request. */
enum phase { SERVE, NO_MORE_CONNECTIONS, END };

struct listener {
	struct listener_options options;
	struct relay_options relay;
	char *path;
	dev_t dev; /* of the socket file, so that only this one is removed */
	ino_t ino;
	int fd, epoll, wake;
	/* directory of the socket file, with owner_lock(); -1: it could not be opened */
	int folder;
	bool bound, running;
	/* set by another thread, whose request is handled after the current events */
	bool woken;
	int64_t paused_until; /* 0: accepting */
	int64_t trim_at;      /* 0: no memory to release */
	int64_t active_at;    /* when bytes were last relayed */
	size_t unfinished;    /* bytes of incomplete messages; used only by the thread */
	int64_t end_by;       /* time limit for clients to read their last answers; 0: not ending */
	/* From the options, or lower if the process's descriptor limit is low. */
	unsigned max_connections;
	struct relay *over[EVENTS]; /* freed after the events that may refer to them */
	unsigned n_over;
	pthread_t thread;
	pthread_mutex_t lock;      /* guards the fields below; only the thread writes the table */
	struct wait_queue changed; /* signals a change of `reached` */
	enum phase asked, reached;
	unsigned n;
	struct connection table[];
};

/* ---- the socket file ---- */

/* Returns -1 with errno if the directory cannot be opened. */
static int open_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *dir AUTO(free) = slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup(".");

	return open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/*
 * Returns the record lock for a socket file: a lock on the file's directory, at the offset that is
 * the file's inode number. With fcntl(2) other processes find the lock's holder even if a
 * connection to the socket no longer identifies it, and no file is left in the directory.
 */
static struct flock owner_lock(short type, ino_t socket_file)
{
	return (struct flock) { .l_type = type,
		                .l_whence = SEEK_SET,
		                .l_start = (off_t)(socket_file & INT64_MAX),
		                .l_len = 1 };
}

/*
 * Returns the pid of the driver that created the socket, which holds its lock. Returns 0 if no
 * process holds the lock, because another program created the socket or its creator has ended, or
 * if that process is in a PID namespace that is not visible here.
 */
static pid_t owner_of(const char *path)
{
	int folder AUTO(fd) = open_folder(path);
	struct flock lock;
	struct stat st;

	if (folder < 0 || lstat(path, &st))
		return 0;
	lock = owner_lock(F_WRLCK, st.st_ino);
	return fcntl(folder, F_GETLK, &lock) || lock.l_type == F_UNLCK ? 0 : lock.l_pid;
}

static pid_t peer_of(int fd)
{
	struct ucred peer = { .pid = 0 };
	socklen_t n = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) ? 0 : peer.pid;
}

/*
 * Returns true if the process was killed. If one of its threads is in an uninterruptible sleep, the
 * process keeps its descriptors open, so its socket still accepts connections. A process of a PID
 * namespace that is not visible here counts as alive.
 */
static bool is_dead(pid_t pid)
{
	char *path AUTO(free) = NULL, *stat AUTO(free) = NULL;
	const char *name_end;
	struct err ignored = ERR_INIT;

	if (pid <= 0)
		return false;
	path = xasprintf("/proc/%d/stat", (int)pid);
	if (file_read_line(path, PROC_STAT_MAX, &stat, &ignored))
		return false;
	name_end = strrchr(stat, ')');
	return name_end && str_has_prefix(name_end, ") Z");
}

bool listener_answers(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd AUTO(fd) = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (fd < 0)
		return false;
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return errno == EAGAIN && !is_dead(owner_of(path)); /* a full backlog */
	return !is_dead(peer_of(fd));
}

static const char *file_kind(mode_t mode)
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

static int listener_check_name(const char *path, struct err *err)
{
	struct stat st;

	if (!*path || path[strlen(path) - 1] == '/')
		return err_set(err, ERR_INVALID, "socket path \"%s\" names no file", path);
	if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
		return err_set(err, ERR_PRECONDITION,
		               "%s is %s, not a socket: remove it or serve on another path", path,
		               file_kind(st.st_mode));
	return 0;
}

/* Creates a name of 8 characters in the directory of the path. */
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
 * Sets mode and group, listens, then renames the socket from its temporary name. Before listen() no
 * process can connect, so no process connects under another mode.
 */
static int put_in_place(struct listener *l, const char *name, struct err *err)
{
	struct flock lock;
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
	/* Without the lock the listener also works, but listener_answers() may not recognize it. */
	l->folder = open_folder(l->path);
	lock = owner_lock(F_RDLCK, l->ino);
	IGNORE_RESULT(fcntl(l->folder, F_SETLK, &lock));
	if (rename(name, l->path))
		return err_sys(err, errno, "rename the new socket to %s", l->path);
	return 0;
}

static int listener_bind(struct listener *l, struct err *err)
{
	struct sockaddr_un address;

	if (listener_check_name(l->path, err) || temporary_name(l->path, &address, err))
		return -1;
	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->fd < 0)
		return err_sys(err, errno, "create a unix socket");
	if (bind(l->fd, (const struct sockaddr *)&address, sizeof(address)))
		return err_sys(err, errno, "create the socket %s in its directory", l->path);
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

static struct connection *table_find(struct listener *l, const struct relay *relay)
{
	for (unsigned i = 0; i < l->n; i++)
		if (l->table[i].relay == relay)
			return &l->table[i];
	return NULL;
}

/*
 * Schedules a release of memory, because malloc keeps memory that calls have freed, even while
 * those calls wait or hang: 9 MB after 250 unmounts. All activity of this process begins or ends
 * with bytes in the listener. So memory is released after a quiet period, and at the same interval
 * during continuous traffic.
 */
static void trim_later(struct listener *l)
{
	l->active_at = monotonic_ns();
	if (!l->trim_at)
		l->trim_at = l->active_at + TRIM_MS * MS;
}

static void table_add(struct listener *l, const struct connection *c)
{
	assert(l->n < l->max_connections + l->options.own_places);
	metric_add(METRIC_CONNECTIONS, 1, NULL);
	metric_add(METRIC_CONNECTIONS_OPENED, 1, NULL);
	WITH_LOCK(&l->lock);
	l->table[l->n++] = *c;
}

/* Removes and frees a connection. Its slot is free at once, its memory after the current events. */
static void table_remove(struct listener *l, struct connection *c)
{
	l->over[l->n_over++] = c->relay;
	trim_later(l);
	metric_add(METRIC_CONNECTIONS, -1, NULL);
	WITH_LOCK(&l->lock);
	*c = l->table[--l->n];
}

/*
 * Returns true if the process runs the same program as this one, as the driver's own --probe does.
 */
static bool runs_this_program(int pid)
{
	char path[40];
	struct stat own, other;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return stat("/proc/self/exe", &own) == 0 && stat(path, &other) == 0 &&
	       own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

/* Returns true if this process may open one more connection. */
static bool table_has_room(const struct listener *l, int pid)
{
	if (l->n < l->max_connections)
		return true;
	return l->n < l->max_connections + l->options.own_places && runs_this_program(pid);
}

int listener_peer_pid(struct listener *l, int fd)
{
	WITH_LOCK(&l->lock);
	for (unsigned i = 0; i < l->n; i++)
		if (l->table[i].grpc_fd == fd)
			return l->table[i].pid;
	return 0;
}

/* ---- accepting ---- */

/* Called on the thread when a relay has received the client's preface; gRPC gets fd. */
static void listener_on_connected(void *arg, struct relay *relay, int fd)
{
	struct listener *l = arg;

	{
		WITH_LOCK(&l->lock);
		/* gRPC has closed an earlier descriptor with this number, if there was one. */
		for (unsigned i = 0; i < l->n; i++)
			if (l->table[i].grpc_fd == fd)
				l->table[i].grpc_fd = -1;
		table_find(l, relay)->grpc_fd = fd;
	}
	l->options.connected(l->options.arg, fd);
}

/*
 * Returns true for root, and for the user that the driver runs as. If the mode lets group or others
 * write to the socket, they are also permitted. Otherwise connect() has already rejected other
 * users, except processes with a capability that overrides the mode, or with a descriptor from
 * another process.
 */
static bool may_connect(const struct listener *l, const struct ucred *peer)
{
	return l->options.mode & 0022 || peer->uid == 0 || peer->uid == geteuid();
}

static void add_connection(struct listener *l, int fd)
{
	struct connection c = { .grpc_fd = -1 };
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
	if (!table_has_room(l, peer.pid)) {
		log_limited(LOG_WARNING, 10,
		            "refused a connection of process %d: %u are open, that is the limit",
		            peer.pid, l->n);
		close(fd);
		return;
	}
	c.pid = peer.pid;
	c.relay = relay_new(&l->relay, fd, c.pid, monotonic_ns());
	if (c.relay)
		table_add(l, &c);
}

static void watch_listener(struct listener *l, bool on)
{
	struct epoll_event event = { .events = on ? EPOLLIN : 0, .data.ptr = &l->fd };

	epoll_ctl(l->epoll, EPOLL_CTL_MOD, l->fd, &event);
}

static void accept_one(struct listener *l)
{
	int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0) {
		add_connection(l, fd);
	} else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
		log_limited(LOG_WARNING, 10,
		            "cannot accept a connection (%s): retrying every %d ms",
		            strerrorname_np(errno), PAUSE_MS);
		l->paused_until = monotonic_ns() + PAUSE_MS * MS;
		watch_listener(l, false);
	}
}

/* ---- the thread ---- */

static int64_t earlier(int64_t at, int64_t other)
{
	return other && other < at ? other : at;
}

static int next_timeout_ms(const struct listener *l)
{
	int64_t at =
		earlier(earlier(earlier(DEADLINE_NEVER, l->paused_until), l->trim_at), l->end_by);

	for (unsigned i = 0; i < l->n; i++)
		at = earlier(at, relay_due(l->table[i].relay));
	/* epoll_wait() treats -1 as no timeout. */
	return at == DEADLINE_NEVER ? -1 : deadline_left_ms((struct deadline) { .at = at });
}

static void free_over(struct listener *l)
{
	while (l->n_over)
		relay_free(l->over[--l->n_over]);
}

static void trim(struct listener *l, int64_t now)
{
	bool rested = now - l->active_at >= TRIM_MS * MS / 2;

	l->trim_at = rested ? 0 : now + TRIM_MS * MS;
	malloc_trim(0);
}

static void expire(struct listener *l)
{
	int64_t now = monotonic_ns();

	if (l->paused_until && now >= l->paused_until) {
		l->paused_until = 0;
		watch_listener(l, true);
	}
	if (l->trim_at && now >= l->trim_at)
		trim(l, now);
	for (unsigned i = 0; i < l->n;)
		if (relay_expire(l->table[i].relay, now)) {
			i++;
		} else {
			table_remove(l, &l->table[i]);
			free_over(l);
		}
}

static bool is_over(const struct listener *l, const struct relay *relay)
{
	for (unsigned i = 0; i < l->n_over; i++)
		if (l->over[i] == relay)
			return true;
	return false;
}

static void drop_unconnected(struct listener *l)
{
	for (unsigned i = 0; i < l->n;)
		if (l->table[i].grpc_fd >= 0 || relay_is_connected(l->table[i].relay)) {
			i++;
		} else {
			table_remove(l, &l->table[i]);
			free_over(l);
		}
}

/*
 * Executes the requests of other threads, and reports that they are done. It frees relays at once,
 * because no pending event can refer to one at this point.
 */
static void obey(struct listener *l)
{
	enum phase asked;
	uint64_t ignored;

	l->woken = false;
	IGNORE_RESULT(read(l->wake, &ignored, sizeof(ignored)));
	{
		WITH_LOCK(&l->lock);
		asked = l->asked;
	}
	if (asked >= NO_MORE_CONNECTIONS) {
		fd_p(&l->fd);
		l->fd = -1;
		drop_unconnected(l);
		/*
		 * The stop waits for calls, and calls wait for their clients to read the answers.
		 */
		if (l->relay.unread_ms > STOP_UNREAD_MS)
			l->relay.unread_ms = STOP_UNREAD_MS;
	}
	if (asked == END && !l->end_by)
		l->end_by = monotonic_ns() + DRAIN_MS * MS;
	WITH_LOCK(&l->lock);
	l->reached = asked;
	wait_queue_wake(&l->changed);
}

static void listener_on_event(struct listener *l, const struct epoll_event *event)
{
	void *what = event->data.ptr;
	struct relay *relay;

	if (what == &l->wake) {
		l->woken = true;
	} else if (what == &l->fd) {
		if (l->fd >= 0)
			accept_one(l);
	} else {
		relay = relay_of(what);
		if (is_over(l, relay))
			return;
		trim_later(l);
		if (relay_event(what, event->events, monotonic_ns()) != RELAY_OPEN)
			table_remove(l, table_find(l, relay));
	}
}

static void *listen_thread(void *arg)
{
	struct listener *l = arg;

	pthread_setname_np(pthread_self(), "rpc-listener");
	while (!l->end_by || (l->n && monotonic_ns() < l->end_by)) {
		struct epoll_event events[EVENTS];
		int n = epoll_wait(l->epoll, events, EVENTS, next_timeout_ms(l));

		for (int i = 0; i < n; i++)
			listener_on_event(l, &events[i]);
		free_over(l);
		if (l->woken)
			obey(l);
		expire(l);
	}
	return NULL;
}

static int watch(struct listener *l, int *fd, struct err *err)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = fd };

	if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, *fd, &event))
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
	if (watch(l, &l->fd, err) || watch(l, &l->wake, err))
		return -1;
	l->relay = (struct relay_options) {
		.epoll = l->epoll,
		.preface_ms = l->options.preface_timeout_ms,
		.ack_ms = l->options.ack_timeout_ms,
		.unread_ms = l->options.unread_timeout_ms,
		.unfinished = &l->unfinished,
		.connected = listener_on_connected,
		.arg = l,
	};
	rc = pthread_create(&l->thread, NULL, listen_thread, l);
	if (rc)
		return err_sys_of(err, ERR_CALL_TASK, rc, "start the thread that listens on %s",
		                  l->path);
	l->running = true;
	return 0;
}

/*
 * Returns how many connections the descriptor limit allows. Each takes three descriptors; a quarter
 * of the limit is reserved for other uses.
 */
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
	l->fd = l->epoll = l->wake = l->folder = -1;
	pthread_mutex_init(&l->lock, NULL);
	if (listener_bind(l, err)) {
		listener_free(l);
		return -1;
	}
	l->bound = true;
	*ret = l;
	return 0;
}

static void listener_enter(struct listener *l, enum phase phase)
{
	{
		WITH_LOCK(&l->lock);
		l->asked = phase;
	}
	/* The counter of the eventfd cannot overflow. */
	IGNORE_RESULT(eventfd_write(l->wake, 1));
	WITH_LOCK(&l->lock);
	while (l->reached < phase)
		IGNORE_RESULT(wait_queue_wait(&l->changed, &l->lock, deadline_never()));
}

void listener_stop(struct listener *l)
{
	if (l->bound && listener_has_name(l))
		unlink(l->path);
	l->bound = false;
	if (l->running)
		listener_enter(l, NO_MORE_CONNECTIONS);
}

struct listener *listener_free(struct listener *l)
{
	if (!l)
		return NULL;
	listener_stop(l);
	if (l->running) {
		listener_enter(l, END);
		pthread_join(l->thread, NULL);
	}
	for (unsigned i = 0; i < l->n; i++)
		relay_free(l->table[i].relay);
	fd_p(&l->fd);
	fd_p(&l->epoll);
	fd_p(&l->wake);
	fd_p(&l->folder);
	pthread_mutex_destroy(&l->lock);
	free(l->path);
	free(l);
	return NULL;
}
