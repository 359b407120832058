/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the head of an HTTP/1.x request. Pure; any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct web_request {
	bool head;        /* HEAD: the answer has no body */
	const char *path; /* points into the bytes; without the query */
	size_t path_n;
};

/*
 * Result of web_request_parse() if the head is incomplete. Other results: 0 (complete and valid),
 * or the status to answer with: 400, 405, 501 or 505.
 */
enum { WEB_MORE = 1 };
/* Parses the head. If it returns 0, *ret_used is the length of the head in bytes. */
int web_request_parse(const char *bytes, size_t n, struct web_request *ret, size_t *ret_used);
