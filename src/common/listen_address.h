/* SPDX-License-Identifier: Apache-2.0 */
/* Where a server listens, as an operator writes it: ":9810", "127.0.0.1:9810", "unix:/run/x". */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "common/err.h"

struct listen_address {
	struct sockaddr_storage to;
	socklen_t n;
	bool any;       /* ":9810": every address of the host, IPv6's and IPv4's */
	char path[108]; /* of a unix socket; "" for TCP */
};

/*
 * Addresses are numbers, or localhost (127.0.0.1): a name would need a resolver at start. Port 0
 * takes a free one. INVALID_ARGUMENT says what to write instead.
 */
int listen_address_parse(const char *text, struct listen_address *ret, struct err *err) MUST_CHECK;
/* "127.0.0.1:9810", "[::1]:9810" or "unix:/run/x" of a bound socket; returns buf. */
#define LISTEN_ADDRESS_TEXT 160
const char *listen_address_of(int fd, char buf[LISTEN_ADDRESS_TEXT]);
