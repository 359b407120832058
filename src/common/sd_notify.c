/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address is a path, or a name in the abstract namespace, which begins with @. systemd takes
 * the sender's credentials from the kernel, so the datagram does not contain them.
 */
#include "common/sd_notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"

static int address(const char *name, struct sockaddr_un *ret, socklen_t *ret_n, struct err *err)
{
	size_t n = strlen(name);

	*ret = (struct sockaddr_un) { .sun_family = AF_UNIX };
	if ((*name != '/' && *name != '@') || n < 2)
		return err_set(err, ERR_INVALID,
		               "NOTIFY_SOCKET=%s: neither a path nor an @ and a name", name);
	if (n >= sizeof(ret->sun_path))
		return err_set(err, ERR_INVALID, "NOTIFY_SOCKET=%s: longer than %zu bytes", name,
		               sizeof(ret->sun_path) - 1);
	memcpy(ret->sun_path, name, n);
	if (*name == '@')
		ret->sun_path[0] = '\0';
	*ret_n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (*name == '/'));
	return 0;
}

int sd_notify_send(const char *state, struct err *err)
{
	const char *name = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to;
	socklen_t n = 0;
	int fd AUTO(fd) = -1;

	if (str_empty(name))
		return 0;
	if (address(name, &to, &n, err))
		return -1;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(err, errno, "create a socket for %s", name);
	if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to, n) < 0)
		return err_sys(err, errno, "notify the service manager at %s", name);
	return 0;
}

int64_t sd_notify_watchdog_ms(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	struct err ignored = ERR_INIT;
	uint64_t n, of;

	if (str_empty(usec) || parse_u64("WATCHDOG_USEC", usec, &n, &ignored))
		return 0;
	if (!str_empty(pid) &&
	    (parse_u64("WATCHDOG_PID", pid, &of, &ignored) || of != (uint64_t)getpid()))
		return 0;
	/* Half of the interval, as sd_watchdog_enabled(3) advises. */
	return n > INT64_MAX ? 0 : (int64_t)(n / 2000);
}
