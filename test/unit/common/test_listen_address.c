/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses are accepted, and the errors for the others. */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/listen_address.h"
#include "test/lib/suite.h"

static const struct {
	/* wrong NULL: accepted; bound: as printed after the bind */
	const char *text, *wrong, *bound;
} rows[] = {
	{ "127.0.0.1:0", NULL, "127.0.0.1:" },
	{ "localhost:0", NULL, "127.0.0.1:" },
	{ "[::1]:9810", NULL, NULL },
	{ ":9810", NULL, NULL },
	{ "unix:/run/x.sock", NULL, NULL },
	{ "unix:///run/x.sock", NULL, NULL },
	{ "9810", "has no port", NULL },
	{ "", "has no port", NULL },
	{ ":", "has no port between 0 and 65535", NULL },
	{ ":70000", "has no port between 0 and 65535", NULL },
	{ ":+80", "has no port between 0 and 65535", NULL },
	{ "metrics.example:9810", "has no numeric address", NULL },
	{ "::1:9810", "has no numeric address", NULL },
	{ "[127.0.0.1]:9810", "has no numeric address", NULL },
	{ "[]:9810", "has no numeric address", NULL },
	{ "http://127.0.0.1:9810", "has no numeric address", NULL },
	{ "unix:run/x.sock", "is not the whole path of a socket", NULL },
	{ "unix:/run/", "is not the whole path of a socket", NULL },
	{ "unix:/run/0123456789012345678901234567890123456789012345678901234567890123456789"
	  "01234567890123456789012345678901234",
	  "is too long for a socket", NULL },
};

START_TEST(an_address_is_understood_or_refused_with_a_better_one)
{
	struct listen_address a;
	struct err err = ERR_INIT;
	int rc = listen_address_parse(rows[_i].text, &a, &err);
	char text[LISTEN_ADDRESS_TEXT];
	int fd AUTO(fd) = -1;

	if (rows[_i].wrong) {
		ck_assert_int_eq(rc, -1);
		ck_assert_int_eq(err.code, ERR_INVALID);
		ck_assert_msg(strstr(err.msg, rows[_i].wrong) != NULL, "%s", err.msg);
		ck_assert_ptr_nonnull(strstr(err.msg, "write :9810"));
		return;
	}
	ck_assert_msg(rc == 0, "%s", err.msg);
	if (!rows[_i].bound)
		return;
	fd = socket(a.to.ss_family, SOCK_STREAM, 0);
	ck_assert_int_eq(bind(fd, (const struct sockaddr *)&a.to, a.n), 0);
	listen_address_of(fd, text);
	ck_assert_msg(strncmp(text, rows[_i].bound, strlen(rows[_i].bound)) == 0, "%s", text);
}
END_TEST

START_TEST(what_the_address_is_made_of)
{
	struct listen_address a;
	struct err err = ERR_INIT;

	ck_assert_int_eq(listen_address_parse(":9810", &a, &err), 0);
	ck_assert(a.any);
	ck_assert_int_eq(a.to.ss_family, AF_INET6);
	ck_assert_int_eq(ntohs(((struct sockaddr_in6 *)&a.to)->sin6_port), 9810);
	ck_assert_int_eq(listen_address_parse("10.1.2.3:80", &a, &err), 0);
	ck_assert(!a.any);
	ck_assert_uint_eq(ntohl(((struct sockaddr_in *)&a.to)->sin_addr.s_addr), 0x0a010203);
	ck_assert_int_eq(listen_address_parse("unix:///run/x", &a, &err), 0);
	ck_assert_str_eq(a.path, "/run/x");
}
END_TEST

SUITE("listen_address",
      LOOP(an_address_is_understood_or_refused_with_a_better_one, ARRAY_LEN(rows)),
      what_the_address_is_made_of);
