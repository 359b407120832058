/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a request for libcurl: address, credentials, trust and body. Callbacks of libcurl
 * are set elsewhere (http_curl.c).
 *
 * Reasons for the options (measured with libcurl 7.88):
 *  - 150 parallel requests without a limit open up to 18 connections, hence the engine's queue, and
 *    PIPEWAIT.
 *  - CURLOPT_CAINFO_BLOB leaves CAPATH at /etc/ssl/certs, which is then also trusted: set to NULL.
 *  - libcurl computes the length of the pass phrase of a protected key even if none is set, which
 *    reads from address 0: hence an empty pass phrase.
 *  - Removing a handle whose name is being resolved waits for the resolver, unless QUICK_EXIT is
 *    set.
 */
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "http/http_curl.h"
#include "http/libcurl.h"

#define KEEPALIVE_IDLE_S 30L
#define KEEPALIVE_INTERVAL_S 10L

static struct curl_slist *list_add(struct curl_slist *list, const char *line)
{
	struct curl_slist *more = curl.slist_append(list, line);
	if (!more)
		abort();
	return more;
}

static void header_add(struct http_call *c, const char *name, const char *value)
{
	char *line AUTO(free) = NULL;
	if (!value)
		return;
	line = xasprintf("%s: %s", name, value);
	c->headers = list_add(c->headers, line);
	explicit_bzero(line, strlen(line));
}

static void setup_headers(struct http_call *c)
{
	header_add(c, "Accept", c->q.accept);
	header_add(c, "Content-Type", c->q.content_type);
	if (c->q.bearer) {
		char *value AUTO(free) = xasprintf("Bearer %s", c->q.bearer);
		header_add(c, "Authorization", value);
		explicit_bzero(value, strlen(value));
	}
	c->headers = list_add(c->headers, "Expect:");
	curl.easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->headers);
	curl.easy_setopt(c->easy, CURLOPT_USERAGENT, c->q.user_agent);
}

static void blob_set(CURL *easy, CURLoption option, const char *pem)
{
	struct curl_blob blob = { .data = (void *)pem, .flags = CURL_BLOB_NOCOPY };
	if (!pem)
		return;
	blob.len = strlen(pem);
	curl.easy_setopt(easy, option, &blob);
}

static void setup_trust(CURL *easy, const struct http_endpoint *e)
{
	curl.easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, e->insecure ? 0L : 1L);
	curl.easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, e->insecure ? 0L : 2L);
	if (e->ca) {
		curl.easy_setopt(easy, CURLOPT_CAINFO, NULL);
		curl.easy_setopt(easy, CURLOPT_CAPATH, NULL);
		curl.easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
		blob_set(easy, CURLOPT_CAINFO_BLOB, e->ca);
	}
	blob_set(easy, CURLOPT_SSLCERT_BLOB, e->cert);
	blob_set(easy, CURLOPT_SSLKEY_BLOB, e->key);
	curl.easy_setopt(easy, CURLOPT_KEYPASSWD, "");
	curl.easy_setopt(easy, CURLOPT_SSLCERTTYPE, "PEM");
	curl.easy_setopt(easy, CURLOPT_SSLKEYTYPE, "PEM");
}

/*
 * Used if the certificate has a name other than that of the address: the URL gets the certificate's
 * name, CONNECT_TO the address, and the Host header the server's own name.
 */
static void setup_url_of_name(struct http_call *c, const struct http_endpoint *e)
{
	size_t n;
	const char *authority = http_url_authority(e->url, &n);
	char *address AUTO(free) = xstrndup(authority, n);
	const char *bracket = strrchr(address, ']');
	bool has_port = strrchr(bracket ? bracket : address, ':') != NULL;
	char *target AUTO(free) = xasprintf("::%s%s", address, has_port ? "" : ":443");
	c->url =
		xasprintf(strchr(e->tls_name, ':') ? "%.*s[%s]%s%s" : "%.*s%s%s%s",
	                  (int)(authority - e->url), e->url, e->tls_name, authority + n, c->q.path);
	c->connect_to = list_add(NULL, target);
	header_add(c, "Host", address);
	curl.easy_setopt(c->easy, CURLOPT_CONNECT_TO, c->connect_to);
}

/*
 * NOPROXY is "", because otherwise libcurl would apply NO_PROXY of the environment to any proxy.
 * The proxy resolves the server's name, as with client-go.
 */
static void setup_proxy(CURL *easy, const char *proxy)
{
	static const char socks[] = "socks5://";
	char *remote AUTO(free) = NULL;

	if (proxy && str_has_prefix(proxy, socks))
		remote = xasprintf("socks5h://%s", proxy + strlen(socks));
	curl.easy_setopt(easy, CURLOPT_NOPROXY, "");
	curl.easy_setopt(easy, CURLOPT_PROXY, remote ? remote : proxy ? proxy : "");
}

static void setup_connection(struct http_call *c, const struct http_endpoint *e)
{
	CURL *easy = c->easy;
	curl.easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl.easy_setopt(easy, CURLOPT_HTTP_VERSION,
	                 str_has_prefix(e->url, "http:") ? CURL_HTTP_VERSION_1_1
	                                                 : CURL_HTTP_VERSION_2TLS);
	curl.easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);
	setup_proxy(easy, e->proxy);
	curl.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl.easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	curl.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)c->epoch->connect_ms);
	curl.easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl.easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
	curl.easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
}

void transfer_setup(struct http_call *c)
{
	const struct http_endpoint *e = c->epoch->endpoint;
	setup_connection(c, e);
	setup_trust(c->easy, e);
	if (e->tls_name)
		setup_url_of_name(c, e);
	else
		c->url = xasprintf("%s%s", e->url, c->q.path);
	curl.easy_setopt(c->easy, CURLOPT_URL, c->url);
	setup_headers(c);
	curl.easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST, c->q.method);
	if (!c->q.body)
		return;
	curl.easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->q.body_n);
	curl.easy_setopt(c->easy, CURLOPT_POSTFIELDS, c->q.body);
}

void transfer_setup_free(struct http_call *c)
{
	curl.slist_free_all(c->headers);
	curl.slist_free_all(c->connect_to);
	free(c->url);
	c->headers = c->connect_to = NULL;
	c->url = NULL;
}
