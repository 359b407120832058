/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the query; waits for a descriptor, a timeout or the client's end. No state. */
#include "test/sim/api/call.h"

#include <poll.h>
#include <string.h>

const char *call_query(const struct api_call *call, const char *key)
{
	size_t n = strlen(key);

	for (size_t i = 0; call->query && i < call->query->n; i++)
		if (strncmp(call->query->v[i], key, n) == 0 && call->query->v[i][n] == '=')
			return call->query->v[i] + n + 1;
	return NULL;
}

bool call_flag(const struct api_call *call, const char *key)
{
	const char *value = call_query(call, key);

	return str_eq(value, "true") || str_eq(value, "1");
}

enum wait_end call_wait(const struct api_call *call, int fd, int ms)
{
	struct pollfd fds[] = {
		{ .fd = call->client_fd, .events = POLLRDHUP },
		{ .fd = call->sim->stop_fd, .events = POLLIN },
		{ .fd = fd, .events = POLLIN },
	};
	int n = poll(fds, ARRAY_LEN(fds), ms);

	if (n == 0)
		return WAIT_TIMEOUT;
	return n < 0 || fds[0].revents || fds[1].revents ? WAIT_GONE : WAIT_READY;
}
