/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses and prints socket addresses. Pure functions, any thread. They open no socket and use no
 * resolver, because an address has to mean the same at each start.
 */
#include "common/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "common/str.h"

#define HOST_MAX 64

static int wrong(const char *text, const char *why, struct err *err)
{
	return err_set(
		err, ERR_INVALID,
		"\"%s\" %s; write :9810, 127.0.0.1:9810, [::1]:9810 or unix:/run/snap-csi.http",
		text, why);
}

static int parse_unix(const char *text, const char *path, struct listen_address *ret,
                      struct err *err)
{
	struct sockaddr_un *to = (struct sockaddr_un *)&ret->to;

	if (str_has_prefix(path, "//"))
		path += 2;
	if (*path != '/' || str_has_suffix(path, "/"))
		return wrong(text, "is not the whole path of a socket", err);
	if (strlen(path) >= sizeof(to->sun_path))
		return wrong(text, "is too long for a socket", err);
	to->sun_family = AF_UNIX;
	snprintf(to->sun_path, sizeof(to->sun_path), "%s", path);
	snprintf(ret->path, sizeof(ret->path), "%s", path);
	ret->n = sizeof(*to);
	return 0;
}

/* `host` has no brackets; "" means all addresses. */
static bool parse_host(const char *host, bool brackets, in_port_t port, struct listen_address *ret)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)&ret->to;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&ret->to;

	if (str_eq(host, "localhost"))
		host = "127.0.0.1";
	ret->any = !*host && !brackets;
	if (!brackets && *host) {
		v4->sin_family = AF_INET;
		v4->sin_port = port;
		ret->n = sizeof(*v4);
		return inet_pton(AF_INET, host, &v4->sin_addr) == 1;
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = port;
	ret->n = sizeof(*v6);
	return ret->any || inet_pton(AF_INET6, host, &v6->sin6_addr) == 1;
}

int listen_address_parse(const char *text, struct listen_address *ret, struct err *err)
{
	const char *colon = strrchr(text, ':'), *host = text;
	struct err ignored = ERR_INIT;
	char copy[HOST_MAX];
	uint64_t port;
	bool brackets;
	size_t n;

	memset(ret, 0, sizeof(*ret));
	if (str_has_prefix(text, "unix:"))
		return parse_unix(text, text + strlen("unix:"), ret, err);
	if (!colon)
		return wrong(text, "has no port", err);
	n = (size_t)(colon - text);
	brackets = n >= 2 && text[0] == '[' && colon[-1] == ']';
	if (brackets) {
		host++;
		n -= 2;
	}
	if (n >= sizeof(copy))
		return wrong(text, "is not an address", err);
	snprintf(copy, sizeof(copy), "%.*s", (int)n, host);
	if (parse_u64("port", colon + 1, &port, &ignored) || port > UINT16_MAX)
		return wrong(text, "has no port between 0 and 65535", err);
	if (!parse_host(copy, brackets, htons((in_port_t)port), ret))
		return wrong(text, "has no numeric address", err);
	return 0;
}

const char *listen_address_of(int fd, char buf[LISTEN_ADDRESS_TEXT])
{
	struct sockaddr_storage at = { 0 };
	socklen_t n = sizeof(at);
	char host[INET6_ADDRSTRLEN] = "?";

	if (getsockname(fd, (struct sockaddr *)&at, &n) < 0) {
		snprintf(buf, LISTEN_ADDRESS_TEXT, "?");
	} else if (at.ss_family == AF_UNIX) {
		snprintf(buf, LISTEN_ADDRESS_TEXT, "unix:%s",
		         ((struct sockaddr_un *)&at)->sun_path);
	} else if (at.ss_family == AF_INET) {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)&at;

		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
		snprintf(buf, LISTEN_ADDRESS_TEXT, "%s:%u", host, ntohs(v4->sin_port));
	} else {
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&at;

		inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
		snprintf(buf, LISTEN_ADDRESS_TEXT, "[%s]:%u", host, ntohs(v6->sin6_port));
	}
	return buf;
}
