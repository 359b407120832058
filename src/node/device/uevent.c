/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel uevents over netlink. A subscription owns a socket and an eventfd by which a cancelled
 * call wakes the poll. Events are counted, not believed: whoever sends a false one makes us look
 * once more.
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
#include "common/str.h"

enum {
	GROUP_KERNEL = 1,
	MESSAGE_MAX = 8192, /* the kernel's own limit is 2048 and the path */
};

struct uevent {
	int socket; /* -1: there are no events here */
	int cancelled;
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

struct uevent *uevent_open(void)
{
	struct uevent *u = xcalloc(1, sizeof(*u));

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

bool uevent_matters(const char *msg, size_t n)
{
	static const char *const subsystems[] = { "SUBSYSTEM=pci", "SUBSYSTEM=nvme",
		                                  "SUBSYSTEM=nvme-subsystem" };
	const char *end = msg + n;
	bool block = false, nvme = false;

	for (const char *p = msg; p < end; p += strnlen(p, (size_t)(end - p)) + 1) {
		size_t len = strnlen(p, (size_t)(end - p));

		for (size_t i = 0; i < ARRAY_LEN(subsystems); i++)
			if (len == strlen(subsystems[i]) && memcmp(p, subsystems[i], len) == 0)
				return true;
		block = block || (len == 15 && memcmp(p, "SUBSYSTEM=block", 15) == 0);
		nvme = nvme || (len > 8 && memcmp(p, "DEVPATH=", 8) == 0 &&
		                memmem(p, len, "/nvme", 5) != NULL);
	}
	return block && nvme;
}

/* Empties the socket; true when anything in it matters. */
static bool drain(struct uevent *u)
{
	bool matters = false;
	char msg[MESSAGE_MAX];

	for (;;) {
		ssize_t n = recv(u->socket, msg, sizeof(msg), MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		/* ENOBUFS: some were lost, so one of them may have mattered. */
		if (n < 0)
			return matters || errno == ENOBUFS;
		matters = matters || uevent_matters(msg, (size_t)n);
	}
}

static void wake(void *arg)
{
	struct uevent *u = arg;
	uint64_t one = 1;

	/* Fails only when it was woken 2^64 times before. */
	if (write(u->cancelled, &one, sizeof(one)) < 0)
		return;
}

static bool wait_uncancelled(struct uevent *u, struct deadline until)
{
	int left;

	while ((left = deadline_left_ms(until)) > 0) {
		/* poll() skips negative descriptors. */
		struct pollfd fds[] = { { .fd = u->socket, .events = POLLIN },
			                { .fd = u->cancelled, .events = POLLIN } };

		if (poll(fds, ARRAY_LEN(fds), left) < 0 && errno != EINTR)
			return false;
		if (fds[1].revents)
			return false;
		if (fds[0].revents && drain(u))
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
