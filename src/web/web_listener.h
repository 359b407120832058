/* SPDX-License-Identifier: Apache-2.0 */
/* The socket that the HTTP server listens on: TCP, or unix with a file that nobody else needs. */
#pragma once

#include <sys/stat.h>

#include "common/err.h"
#include "common/listen_address.h"

struct web_listener {
	int fd; /* -1: closed */
	struct listen_address address;
	char text[LISTEN_ADDRESS_TEXT]; /* where it listens, with the port that it got */
	struct stat file;               /* of a unix socket, to remove no other one */
};

/*
 * A dead unix socket at the path is replaced (the new one has mode 0600). FAILED_PRECONDITION:
 * another process serves it, or it is no socket. Else what the errno means.
 */
int web_listener_open(struct web_listener *l, const char *address, int backlog, struct err *err)
	MUST_CHECK;
/* Removes the file too, if it is still this one's. Closed already: nothing. */
void web_listener_close(struct web_listener *l);
