/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints as values. A copy owns its strings, and its key is wiped when it is freed. No threads,
 * no libcurl.
 */
#include "http/http.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"

struct http_endpoint *http_endpoint_copy(const struct http_endpoint *from)
{
	struct http_endpoint *e = xcalloc(1, sizeof(*e));
	*e = (struct http_endpoint) { .url = xstrdup_or_null(from->url),
		                      .ca = xstrdup_or_null(from->ca),
		                      .cert = xstrdup_or_null(from->cert),
		                      .key = xstrdup_or_null(from->key),
		                      .tls_name = xstrdup_or_null(from->tls_name),
		                      .proxy = xstrdup_or_null(from->proxy),
		                      .insecure = from->insecure };
	return e;
}

struct http_endpoint *http_endpoint_free(struct http_endpoint *e)
{
	if (!e)
		return NULL;
	if (e->key)
		explicit_bzero((char *)e->key, strlen(e->key));
	free((char *)e->url);
	free((char *)e->ca);
	free((char *)e->cert);
	free((char *)e->key);
	free((char *)e->tls_name);
	free((char *)e->proxy);
	free(e);
	return NULL;
}

static bool same(const char *a, const char *b)
{
	return a == b || str_eq(a, b);
}

bool http_endpoint_equal(const struct http_endpoint *a, const struct http_endpoint *b)
{
	return same(a->url, b->url) && same(a->ca, b->ca) && same(a->cert, b->cert) &&
	       same(a->key, b->key) && same(a->tls_name, b->tls_name) && same(a->proxy, b->proxy) &&
	       a->insecure == b->insecure;
}

const char *http_url_authority(const char *url, size_t *ret_n)
{
	const char *scheme = strstr(url, "://");
	const char *start = scheme ? scheme + 3 : url;
	*ret_n = strcspn(start, "/?");
	return start;
}
