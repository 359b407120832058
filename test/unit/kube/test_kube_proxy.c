/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests the environment sends to a proxy: the cases of golang.org/x/net/http/httpproxy. */
#include "kube/kube_proxy.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "test/lib/suite.h"

static void environment_set(const char *name, const char *value)
{
	static const char *const names[] = { "HTTPS_PROXY", "https_proxy", "HTTP_PROXY",
		                             "http_proxy",  "NO_PROXY",    "no_proxy",
		                             "ALL_PROXY" };

	for (size_t i = 0; !name && i < ARRAY_LEN(names); i++)
		unsetenv(names[i]);
	if (name)
		setenv(name, value, 1);
}

static const struct {
	const char *name, *value, *url;
	bool proxied;
} variables[] = {
	{ "HTTPS_PROXY", "http://p", "https://h:6443", true },
	{ "https_proxy", "http://p", "https://h:6443", true },
	{ "HTTP_PROXY", "http://p", "http://h", true },
	{ "http_proxy", "http://p", "http://h", true },
	{ "HTTP_PROXY", "http://p", "https://h", false },
	{ "HTTPS_PROXY", "http://p", "http://h", false },
	{ "ALL_PROXY", "http://p", "https://h", false },
	{ "HTTPS_PROXY", "", "https://h", false },
	{ "HTTPS_PROXY", "http://p", "https://localhost:6443", false },
	{ "HTTPS_PROXY", "http://p", "https://127.3.2.1", false },
	{ "HTTPS_PROXY", "http://p", "https://[::1]:6443", false },
	{ "HTTPS_PROXY", "http://p", "https://[::2]:6443", true },
};

START_TEST(the_environment_names_a_proxy_by_the_urls_scheme)
{
	char *proxy AUTO(free) = NULL;

	environment_set(NULL, NULL);
	environment_set(variables[_i].name, variables[_i].value);
	proxy = kube_proxy_of_environment(variables[_i].url);
	ck_assert_msg(!proxy == !variables[_i].proxied, "%s=%s, %s: %s", variables[_i].name,
	              variables[_i].value, variables[_i].url, proxy ? proxy : "no proxy");
}
END_TEST

static const struct {
	const char *no_proxy, *url;
	bool exempt;
} exemptions[] = {
	{ "*", "https://h", true },
	{ "a, *", "https://h", true },
	{ "*x", "https://h", false },
	{ "", "https://h", false },
	{ " , ,", "https://h", false },
	{ "other,H.Example", "https://h.example:6443", true },
	{ "example", "https://h.EXAMPLE", true },
	{ "example", "https://hexample", false },
	{ ".example", "https://example", false },
	{ ".example", "https://h.example", true },
	{ "*.example", "https://h.example", true },
	{ "*.example", "https://example", false },
	{ "example:6443", "https://h.example:6443", true },
	{ "example:6443", "https://h.example:443", false },
	{ "example:443", "https://h.example", true },
	{ ":443", "https://h", false },
	{ "10.96.0.1", "https://10.96.0.1:443", true },
	{ "10.96.0.1:444", "https://10.96.0.1:443", false },
	{ "10.96.0.0/12", "https://10.111.255.1", true },
	{ "10.96.0.0/12", "https://10.112.0.1", false },
	{ "10.96.0.0/33", "https://10.96.0.1", false },
	{ "0.0.0.0/0", "https://10.112.0.1", true },
	{ "0.0.0.0/0", "https://[fd00::1]", false },
	{ "fd00::/8", "https://[fd12::1]:443", true },
	{ "fd00::/8", "https://[fe12::1]:443", false },
	{ "FD00::1", "https://[fd00:0::1]", true },
	{ "[fd00::1]:6443", "https://[fd00::1]:6443", true },
	{ "[fd00::1]:6443", "https://[fd00::1]", false },
	{ "10.96", "https://10.96.0.1", false },
};

START_TEST(no_proxy_exempts_hosts_domains_networks_and_ports)
{
	char *proxy AUTO(free) = NULL;

	environment_set(NULL, NULL);
	environment_set("HTTPS_PROXY", "http://p");
	environment_set(_i % 2 ? "NO_PROXY" : "no_proxy", exemptions[_i].no_proxy);
	proxy = kube_proxy_of_environment(exemptions[_i].url);
	ck_assert_msg(!proxy == exemptions[_i].exempt, "NO_PROXY=%s, %s", exemptions[_i].no_proxy,
	              exemptions[_i].url);
}
END_TEST

START_TEST(a_proxy_url_of_another_scheme_is_refused_without_its_text)
{
	struct err err = ERR_INIT;

	ck_assert_int_eq(kube_proxy_check("f", "http://u:p@h:3128", &err), 0);
	ck_assert_int_eq(kube_proxy_check("f", "socks5://h", &err), 0);
	ck_assert_int_eq(kube_proxy_check("f", "u:secret@h:3128", &err), -1);
	ck_assert_int_eq(err.code, ERR_INVALID);
	ck_assert_ptr_null(strstr(err.msg, "secret"));
}
END_TEST

SUITE("kube_proxy", LOOP(the_environment_names_a_proxy_by_the_urls_scheme, ARRAY_LEN(variables)),
      LOOP(no_proxy_exempts_hosts_domains_networks_and_ports, ARRAY_LEN(exemptions)),
      a_proxy_url_of_another_scheme_is_refused_without_its_text);
