/* SPDX-License-Identifier: Apache-2.0 */
/* The head of an HTTP/1.x request, read from bytes. Pure; any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct web_request {
	bool head;        /* HEAD: the answer has no body */
	const char *path; /* into the bytes, without the query */
	size_t path_n;
};

/*
 * Results of web_request_parse() other than 0 (complete and valid): the head is incomplete, or the
 * status to answer with, 400, 405, 501 or 505.
 */
enum { WEB_MORE = 1 };
/* *ret_used: the bytes of the head, when 0 is returned. */
int web_request_parse(const char *bytes, size_t n, struct web_request *ret, size_t *ret_used);
