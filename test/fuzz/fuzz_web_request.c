/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as the beginning of an HTTP connection: the parser reads only within them, piece by piece,
 * too.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "web/web_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *bytes = malloc(n ? n : 1); /* exact size: a read beyond the end is detected */
	struct web_request q, half;
	size_t used = 0, ignored = 0;
	int rc;

	if (!bytes)
		abort();
	memcpy(bytes, data, n);
	rc = web_request_parse(bytes, n, &q, &used);
	if (rc == 0 &&
	    (used > n || q.path < bytes || q.path + q.path_n > bytes + used || *q.path != '/'))
		abort();
	/* A complete head was not complete before its last byte. */
	if (rc == 0 && web_request_parse(bytes, used - 1, &half, &ignored) != WEB_MORE)
		abort();
	free(bytes);
	return 0;
}
