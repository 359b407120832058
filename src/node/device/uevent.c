/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives kernel uevents over netlink. A subscription owns a socket, and an eventfd by which a
 * cancelled call wakes the poll. An event only wakes the caller, and its content is not trusted, so
 * a forged event costs only one additional probe.
 */
#include "node/device/uevent.h"

#include <errno.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "common/mem.h"
#include "common/thread.h"

enum {
	GROUP_KERNEL = 1,
	MESSAGE_MAX = 8192, /* the kernel sends at most 2048 bytes plus the path */
};

struct uevent {
	int socket; /* -1: this process cannot receive events */
	int cancelled;
	const char *const *subsystems;
};

static int open_socket(void)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = GROUP_KERNEL };
	int fd AUTO(fd) = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
	                         NETLINK_KOBJECT_UEVENT);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)))
		return -1;
	return TAKE_FD(fd);
}

struct uevent *uevent_open(const char *const *subsystems)
{
	struct uevent *u = xcalloc(1, sizeof(*u));

	u->subsystems = subsystems;
	u->socket = open_socket();
	u->cancelled = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return u;
}

void uevent_close(struct uevent *u)
{
	if (!u)
		return;
	if (u->socket >= 0)
		close(u->socket);
	if (u->cancelled >= 0)
		close(u->cancelled);
	free(u);
}

static bool is_subsystem(const char *field, size_t len, const char *name)
{
	static const char key[] = "SUBSYSTEM=";
	size_t key_len = sizeof(key) - 1;

	return len == key_len + strlen(name) && memcmp(field, key, key_len) == 0 &&
	       memcmp(field + key_len, name, len - key_len) == 0;
}

/* Returns true if a component of the path begins with the name. */
static bool leads_through(const char *field, size_t len, const char *name)
{
	char *part AUTO(free) = xasprintf("/%s", name);

	return len > 8 && memcmp(field, "DEVPATH=", 8) == 0 &&
	       memmem(field, len, part, strlen(part)) != NULL;
}

bool uevent_matters(const char *msg, size_t n, const char *const *subsystems)
{
	const char *end = msg + n;
	bool block = false, below = false;

	for (const char *p = msg; p < end; p += strnlen(p, (size_t)(end - p)) + 1) {
		size_t len = strnlen(p, (size_t)(end - p));

		if (is_subsystem(p, len, "pci"))
			return true;
		block = block || is_subsystem(p, len, "block");
		for (const char *const *s = subsystems; *s; s++) {
			if (is_subsystem(p, len, *s))
				return true;
			below = below || leads_through(p, len, *s);
		}
	}
	return block && below;
}

/* Empties the socket. Returns true if any event in it is relevant. */
static bool uevent_drain(struct uevent *u)
{
	bool matters = false;
	char msg[MESSAGE_MAX];

	for (;;) {
		ssize_t n = recv(u->socket, msg, sizeof(msg), MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		/* ENOBUFS: some events were lost, and one of them may have been relevant. */
		if (n < 0)
			return matters || errno == ENOBUFS;
		matters = matters || uevent_matters(msg, (size_t)n, u->subsystems);
	}
}

static void wake(void *arg)
{
	struct uevent *u = arg;
	uint64_t one = 1;

	/* Fails only if the counter is at its maximum; the poll is then awake already. */
	IGNORE_RESULT(write(u->cancelled, &one, sizeof(one)));
}

static bool wait_uncancelled(struct uevent *u, struct deadline until)
{
	int left;

	thread_rest();
	while ((left = deadline_left_ms(until)) > 0) {
		/* poll() skips negative descriptors. */
		struct pollfd fds[] = { { .fd = u->socket, .events = POLLIN },
			                { .fd = u->cancelled, .events = POLLIN } };

		if (poll(fds, ARRAY_LEN(fds), left) < 0 && errno != EINTR)
			return false;
		if (fds[1].revents)
			return false;
		if (fds[0].revents && uevent_drain(u))
			return true;
	}
	return false;
}

bool uevent_wait(struct uevent *u, int ms, struct deadline d)
{
	bool woken = false;

	if (!cancel_on_set(d.cancel, wake, u))
		woken = wait_uncancelled(u, deadline_clamp(d, ms));
	(void)cancel_on_set(d.cancel, NULL, NULL);
	return woken;
}
