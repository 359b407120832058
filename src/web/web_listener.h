/* SPDX-License-Identifier: Apache-2.0 */
/* The socket of the HTTP server: TCP, or a unix socket that no other program uses. */
#pragma once

#include <sys/stat.h>

#include "common/err.h"
#include "common/listen_address.h"

struct web_listener {
	int fd; /* -1: closed */
	struct listen_address address;
	char text[LISTEN_ADDRESS_TEXT]; /* the address, with the assigned port */
	/* identity of a unix socket's file, so that only this file is removed */
	struct stat file;
};

/*
 * Opens the socket. A stale unix socket at the path is replaced (the new one has mode 0600).
 * FAILED_PRECONDITION if another process serves the path, or if the file is not a socket. Other
 * codes are derived from errno.
 */
int web_listener_open(struct web_listener *l, const char *address, int backlog, struct err *err)
	MUST_CHECK;
/*
 * Closes the socket, and removes its file if it is still this listener's. Does nothing if it is
 * already closed.
 */
void web_listener_close(struct web_listener *l);
