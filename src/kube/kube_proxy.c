/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the proxy. libcurl could read the environment itself, but its rules differ: it ignores
 * HTTP_PROXY and ports in NO_PROXY, reads ALL_PROXY, and sends requests to this machine to a proxy.
 */
#include "kube/kube_proxy.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/str.h"
#include "http/http.h"

/* Parses an address of either family, and converts it to IPv6: 192.0.2.1 is ::ffff:192.0.2.1. */
static bool address_parse(const char *text, struct in6_addr *ret, bool *ret_v4)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	*ret_v4 = inet_pton(AF_INET, text, &ret->s6_addr[12]) == 1;
	if (!*ret_v4)
		return inet_pton(AF_INET6, text, ret) == 1;
	memcpy(ret->s6_addr, mapped, sizeof(mapped));
	return true;
}

static bool same_prefix(const struct in6_addr *a, const struct in6_addr *b, unsigned bits)
{
	unsigned rest = bits % 8;

	if (memcmp(a->s6_addr, b->s6_addr, bits / 8) != 0)
		return false;
	return !rest || (a->s6_addr[bits / 8] ^ b->s6_addr[bits / 8]) >> (8 - rest) == 0;
}

struct proxy_target {
	char *host; /* in lower case, without brackets; owned */
	const char *port;
	bool is_address;
	struct in6_addr address;
};

/* Splits "host:port" or "[address]:port" in place. Returns the port, or NULL. */
static char *split_port(char **host)
{
	char *at = *host, *end, *port;

	if (*at == '[' && (end = strchr(at, ']'))) {
		*host = at + 1;
		*end = '\0';
		return end[1] == ':' ? end + 2 : NULL;
	}
	port = strchr(at, ':');
	if (!port || strchr(port + 1, ':'))
		return NULL; /* an IPv6 address without brackets */
	*port = '\0';
	return port + 1;
}

/* Parses "10.0.0.0/8". Returns false if the entry is not a network. */
static bool network_parse(const char *entry, struct in6_addr *ret, unsigned *ret_bits)
{
	const char *slash = strchr(entry, '/');
	char *address AUTO(free) = slash ? xstrndup(entry, (size_t)(slash - entry)) : NULL;
	struct err ignored = ERR_INIT;
	int64_t bits;
	bool v4;

	if (!slash || !address_parse(address, ret, &v4) ||
	    parse_i64("", slash + 1, &bits, &ignored) || bits < 0 || bits > (v4 ? 32 : 128))
		return false;
	*ret_bits = (unsigned)bits + (v4 ? 96 : 0);
	return true;
}

/*
 * "example.com" matches the domain and its subdomains; ".example.com" and "*.example.com" only the
 * subdomains
 */
static bool domain_matches(const char *entry, const char *host)
{
	const char *domain = *entry == '*' && entry[1] == '.' ? entry + 1 : entry;
	size_t n = strlen(host), m = strlen(domain);

	if (*domain == '.')
		return n > m && str_has_suffix(host, domain);
	return str_eq(host, domain) ||
	       (n > m && host[n - m - 1] == '.' && str_has_suffix(host, domain));
}

static bool entry_exempts(char *entry, const struct proxy_target *t)
{
	struct in6_addr address;
	unsigned bits;
	char *port;
	bool v4;

	if (network_parse(entry, &address, &bits))
		return t->is_address && same_prefix(&address, &t->address, bits);
	port = split_port(&entry);
	if (!*entry || (port && !str_eq(port, t->port)))
		return false;
	if (address_parse(entry, &address, &v4))
		return t->is_address && same_prefix(&address, &t->address, 128);
	return domain_matches(entry, t->host);
}

static const char *proxy_variable(const char *big, const char *small)
{
	const char *value = getenv(big);

	return str_empty(value) ? getenv(small) : value;
}

static char *small_letters(const char *text, size_t n)
{
	char *copy = xstrndup(text, n);

	for (char *c = copy; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	return copy;
}

static bool environment_exempts(const struct proxy_target *t)
{
	const char *value = proxy_variable("NO_PROXY", "no_proxy");
	char *list AUTO(free) = value ? small_letters(value, strlen(value)) : NULL;
	char *save = NULL;

	for (char *entry = list ? strtok_r(list, ",", &save) : NULL; entry;
	     entry = strtok_r(NULL, ",", &save)) {
		entry += strspn(entry, " \t");
		entry[strcspn(entry, " \t")] = '\0';
		if (str_eq(entry, "*") || entry_exempts(entry, t))
			return true;
	}
	return false;
}

static bool is_this_machine(const struct proxy_target *t)
{
	static const uint8_t v6[16] = { [15] = 1 };
	static const uint8_t v4[13] = { [10] = 0xff, [11] = 0xff, [12] = 127 };

	if (!t->is_address)
		return str_eq(t->host, "localhost");
	return !memcmp(t->address.s6_addr, v6, 16) || !memcmp(t->address.s6_addr, v4, 13);
}

char *kube_proxy_of_environment(const char *url)
{
	bool https = str_has_prefix(url, "https:"), v4;
	const char *proxy = https ? proxy_variable("HTTPS_PROXY", "https_proxy")
	                          : proxy_variable("HTTP_PROXY", "http_proxy");
	struct proxy_target t = { .host = NULL };
	char *authority AUTO(free) = NULL;
	const char *start;
	size_t n;

	if (str_empty(proxy))
		return NULL;
	start = http_url_authority(url, &n);
	authority = t.host = small_letters(start, n);
	t.port = split_port(&t.host);
	if (!t.port)
		t.port = https ? "443" : "80";
	t.is_address = address_parse(t.host, &t.address, &v4);
	return is_this_machine(&t) || environment_exempts(&t) ? NULL : xstrdup(proxy);
}

int kube_proxy_check(const char *path, const char *proxy, struct err *err)
{
	static const char *const schemes[] = { "http://", "https://", "socks5://" };

	for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
		if (str_has_prefix(proxy, schemes[i]))
			return 0;
	/* The value may contain a password, so the error does not quote it. */
	return err_set(err, ERR_INVALID,
	               "%s: proxy-url does not begin with http://, https:// or "
	               "socks5://",
	               path);
}
