/* SPDX-License-Identifier: Apache-2.0 */
/* The address of a server, as an operator writes it: ":9810", "127.0.0.1:9810", "unix:/run/x". */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "common/err.h"

struct listen_address {
	struct sockaddr_storage to;
	socklen_t n;
	bool any;       /* ":9810": every IPv6 and IPv4 address of the host */
	char path[108]; /* of a unix socket; "" for TCP */
};

/*
 * Parses an address. Hosts are numeric, or localhost (127.0.0.1), because a name would need a
 * resolver at start. Port 0 selects a free port. INVALID_ARGUMENT names the accepted forms.
 */
int listen_address_parse(const char *text, struct listen_address *ret, struct err *err) MUST_CHECK;
/*
 * Writes the address of a bound socket: "127.0.0.1:9810", "[::1]:9810" or "unix:/run/x". Returns
 * buf.
 */
#define LISTEN_ADDRESS_TEXT 160
const char *listen_address_of(int fd, char buf[LISTEN_ADDRESS_TEXT]);
