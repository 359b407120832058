/* SPDX-License-Identifier: Apache-2.0 */
/* Reading of kubeconfigs and ServiceAccount files, and detection of changes. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kube/kube_access.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "test/lib/kube_fake.h"
#include "test/lib/suite.h"

#define PEM_CA "-----BEGIN CERTIFICATE-----\nca\n-----END CERTIFICATE-----\n"
#define PEM_CERT "-----BEGIN CERTIFICATE-----\ncert\n-----END CERTIFICATE-----\n"
#define PEM_KEY "-----BEGIN PRIVATE KEY-----\nkey\n-----END PRIVATE KEY-----\n"
/* base64 of PEM_CA */
#define DATA_CA "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCmNhCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K"

static struct kube_access *load(struct kube_fake *f, const char *context, struct err *err)
{
	struct kube_access *a = NULL;
	struct kube_source source = { .kubeconfig = f->kubeconfig, .context = context };
	return kube_access_load(&source, &a, err) ? NULL : a;
}

START_TEST(a_kubeconfig_says_server_trust_and_credentials)
{
	struct kube_access *a;
	struct kube_fake f;
	struct err err = ERR_INIT;
	kube_fake_start(&f, NULL);
	kube_fake_file(&f, "cert.pem", PEM_CERT);
	kube_fake_file(&f, "key.pem", PEM_KEY);
	kube_fake_file(&f, "token", "from-file\n");
	kube_fake_config(&f, "https://host:6443/",
	                 "    certificate-authority-data: " DATA_CA "\n"
	                 "    tls-server-name: kubernetes\n"
	                 "    proxy-url: http://proxy:3128\n",
	                 "    client-certificate: cert.pem\n"
	                 "    client-key: key.pem\n"
	                 "    token: ignored\n"
	                 "    tokenFile: token\n");
	a = load(&f, NULL, &err);
	ck_assert_msg(a != NULL, "%s", err.msg);
	ck_assert_str_eq(a->endpoint->url, "https://host:6443");
	ck_assert_str_eq(a->endpoint->ca, PEM_CA);
	ck_assert_str_eq(a->endpoint->cert, PEM_CERT);
	ck_assert_str_eq(a->endpoint->key, PEM_KEY);
	ck_assert_str_eq(a->endpoint->tls_name, "kubernetes");
	ck_assert_str_eq(a->endpoint->proxy, "http://proxy:3128");
	ck_assert_str_eq(a->token, "from-file");
	ck_assert(!a->endpoint->insecure);
	ck_assert_msg(strstr(a->source, "context c") != NULL, "%s", a->source);
	kube_access_free(a);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(the_environments_proxy_counts_without_a_proxy_url)
{
	static const char *const rows[][2] = { { "", "http://of-environment" },
		                               { "    proxy-url: ''\n", "http://of-environment" },
		                               { "    proxy-url: socks5://p\n", "socks5://p" } };
	struct err err = ERR_INIT;
	struct kube_access *a;
	struct kube_fake f;

	setenv("HTTPS_PROXY", "http://of-environment", 1);
	kube_fake_start(&f, NULL);
	kube_fake_config(&f, "https://host:6443", rows[_i][0], "");
	a = load(&f, NULL, &err);
	ck_assert_msg(a != NULL, "%s", err.msg);
	ck_assert_str_eq(a->endpoint->proxy, rows[_i][1]);
	kube_access_free(a);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(what_is_wrong_in_a_kubeconfig_is_named)
{
	static const struct {
		const char *what, *url, *cluster, *user, *context, *text;
	} rows[] = {
		{ "exec", "https://h", "", "    exec: {command: aws}\n", NULL,
		  "the user has \"exec\": exec plugins are not run" },
		{ "auth-provider", "https://h", "", "    auth-provider: {name: gcp}\n", NULL,
		  "auth-provider" },
		{ "password", "https://h", "", "    username: u\n    password: p\n", NULL,
		  "passwords are not supported" },
		{ "no file", "https://h", "    certificate-authority: /nowhere/ca\n", "", NULL,
		  "certificate-authority: " },
		{ "no base64", "https://h", "    certificate-authority-data: '***'\n", "", NULL,
		  "certificate-authority-data is not base64" },
		{ "no PEM", "https://h", "    certificate-authority-data: AAAA\n", "", NULL,
		  "does not hold PEM data" },
		{ "both", "https://h",
		  "    certificate-authority-data: " DATA_CA
		  "\n    insecure-skip-tls-verify: true\n",
		  "", NULL, "exclude each other" },
		{ "certificate without key", "https://h", "",
		  "    client-certificate-data: " DATA_CA "\n", NULL, "go together" },
		{ "no URL", "host:6443", "", "", NULL,
		  "server \"host:6443\" is not an http(s) URL" },
		{ "a password in the URL", "https://admin:hunter2@h", "", "", NULL,
		  "server has a user name, a password or a query in its URL" },
		{ "a password with a slash", "https://a:hunter2/x@h", "", "", NULL,
		  "server has a user name, a password or a query in its URL" },
		{ "a password without a scheme", "a:hunter2@h", "", "", NULL,
		  "server has a user name, a password or a query in its URL" },
		{ "a token in the URL", "https://h/?token=hunter2", "", "", NULL,
		  "server has a user name, a password or a query in its URL" },
		{ "a token that is no text", "https://h", "", "    token: true\n", NULL,
		  "token is not a string" },
		{ "a list of tokens", "https://h", "", "    token: [hunter2]\n", NULL,
		  "token is not a string" },
		{ "a file that is no text", "https://h", "", "    tokenFile: {a: b}\n", NULL,
		  "tokenFile is not a string" },
		{ "a key that is no text", "https://h", "", "    client-key-data: true\n", NULL,
		  "client-key-data is not a string" },
		{ "no boolean", "https://h", "    insecure-skip-tls-verify: maybe\n", "", NULL,
		  "insecure-skip-tls-verify: is not a boolean" },
		{ "a URL as the certificate's name", "https://h", "    tls-server-name: a/b\n", "",
		  NULL, "tls-server-name \"a/b\" is neither a host name nor an address" },
		{ "groups", "https://h", "", "    as-groups: [a]\n", NULL, "impersonation" },
		{ "a proxy that client-go refuses", "https://h", "    proxy-url: ftp://proxy\n", "",
		  NULL, "proxy-url does not begin with http://, https:// or socks5://" },
		{ "no context", "https://h", "", "", "x", "there is no context \"x\"" },
		{ "two tokens in one", "https://h", "", "    token: \"a\\nb\"\n", NULL,
		  "does not hold a token" },
		{ "no YAML", "https://h", "", "    a: [\n", NULL, "line " },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct kube_fake f;
		struct err err = ERR_INIT;
		kube_fake_start(&f, NULL);
		kube_fake_config(&f, rows[i].url, rows[i].cluster, rows[i].user);
		ck_assert_msg(load(&f, rows[i].context, &err) == NULL, "%s", rows[i].what);
		ck_assert_msg(err.code == ERR_INVALID, "%s: %s", rows[i].what,
		              err_code_name(err.code));
		ck_assert_msg(strstr(err.msg, rows[i].text) && strstr(err.msg, f.kubeconfig) &&
		                      !strstr(err.msg, "hunter2"),
		              "%s: %s", rows[i].what, err.msg);
		kube_fake_stop(&f);
	}
}
END_TEST

static const struct {
	const char *what, *cluster, *user, *token, *tls_name;
	bool insecure;
} accepted[] = {
	{ "what is empty is not there", "    tls-server-name: ''\n    proxy-url:\n",
	  "    username: ''\n    as: \"\"\n    as-groups: []\n    exec: null\n    token: t\n", "t",
	  NULL, false },
	{ "a merge key", "    <<: {insecure-skip-tls-verify: True}\n", "    <<: {token: t}\n", "t",
	  NULL, true },
	{ "an address as the certificate's name", "    tls-server-name: '::1'\n", "", NULL, "::1",
	  false },
	{ "the same in brackets", "    tls-server-name: '[::1]'\n", "", NULL, "::1", false },
};

START_TEST(a_kubeconfig_is_read_as_client_go_does)
{
	struct err err = ERR_INIT;
	struct kube_access *a;
	struct kube_fake f;

	kube_fake_start(&f, NULL);
	kube_fake_config(&f, "https://h", accepted[_i].cluster, accepted[_i].user);
	a = load(&f, NULL, &err);
	ck_assert_msg(a != NULL, "%s: %s", accepted[_i].what, err.msg);
	ck_assert_pstr_eq(a->token, accepted[_i].token);
	ck_assert_pstr_eq(a->endpoint->tls_name, accepted[_i].tls_name);
	ck_assert(a->endpoint->insecure == accepted[_i].insecure);
	ck_assert(!strstr(a->source, "without credentials") == (accepted[_i].token != NULL));
	kube_access_free(a);
	kube_fake_stop(&f);
}
END_TEST

/* A second kubeconfig: its cluster k differs from that of the first, and it has more entries. */
#define SECOND_CONFIG                                                   \
	"current-context: second\n"                                     \
	"clusters: [{name: k, cluster: {server: 'https://second'}},\n"  \
	"           {name: c2, cluster: {server: 'https://c2'}}]\n"     \
	"users: [{name: u2, user: {tokenFile: token}}]\n"               \
	"contexts: [{name: second, context: {cluster: k, user: u2}},\n" \
	"           {name: third, context: {cluster: c2, user: u2}}]\n"

static const struct {
	const char *what, *list, *context,
		*url; /* list: 1 and 2 are the files, - is a missing one */
} lists[] = {
	{ "the first current context counts", "1:2", NULL, "https://first" },
	{ "whatever the order", "2:1", NULL, "https://second" },
	{ "a context of the second with a cluster of the first", "1:2", "second", "https://first" },
	{ "all of the second", "1:2", "third", "https://c2" },
	{ "a file that is not there", "-:1", NULL, "https://first" },
	{ "one at the end", "2:-", NULL, "https://second" },
	{ "empty names", ":1:", NULL, "https://first" },
	{ "no file at all", "-:-", NULL, NULL },
};

static char *list_of(const struct kube_fake *f, const char *pattern)
{
	struct str list AUTO(str_clear) = STR_INIT(1000);

	for (; *pattern; pattern++)
		if (*pattern == ':')
			str_add(&list, ":");
		else
			str_addf(&list, "%s/%s", f->dir,
			         *pattern == '1'   ? "kubeconfig"
			         : *pattern == '2' ? "second"
			                           : "none");
	return str_take(&list);
}

START_TEST(several_kubeconfigs_are_one)
{
	struct kube_source source = { .context = lists[_i].context };
	struct kube_access *a = NULL;
	struct err err = ERR_INIT;
	char *list AUTO(free) = NULL;
	struct kube_fake f;
	int rc;

	kube_fake_start(&f, NULL);
	kube_fake_config(&f, "https://first", "", "    token: one\n");
	kube_fake_file(&f, "second", SECOND_CONFIG);
	kube_fake_file(&f, "token", "two");
	source.kubeconfig = list = list_of(&f, lists[_i].list);
	rc = kube_access_load(&source, &a, &err);
	ck_assert_msg(!rc == (lists[_i].url != NULL), "%s: %s", lists[_i].what, err.msg);
	if (rc) {
		ck_assert_msg(strstr(err.msg, "none of these files exists"), "%s", err.msg);
		kube_fake_stop(&f);
		return;
	}
	ck_assert_msg(str_eq(a->endpoint->url, lists[_i].url), "%s: %s", lists[_i].what,
	              a->endpoint->url);
	ck_assert(!kube_access_is_stale(a));
	kube_fake_file(&f, lists[_i].list[0] == '-' ? "none" : "kubeconfig", "new");
	ck_assert(kube_access_is_stale(a) == (strpbrk(lists[_i].list, "1") != NULL));
	kube_access_free(a);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(a_kubeconfig_may_have_two_thousand_clusters)
{
	struct str text AUTO(str_clear) = STR_INIT(4000000);
	struct kube_access *a;
	struct kube_fake f;
	struct err err = ERR_INIT;

	str_add(&text, "current-context: c1999\nclusters:\n");
	for (int i = 0; i < 2000; i++)
		str_addf(&text,
		         "- {name: c%d, cluster: {server: 'https://h%d', "
		         "certificate-authority-data: " DATA_CA "}}\n",
		         i, i);
	str_add(&text, "users:\n");
	for (int i = 0; i < 2000; i++)
		str_addf(&text, "- {name: u%d, user: {token: '%0700d'}}\n", i, i);
	str_add(&text, "contexts:\n");
	for (int i = 0; i < 2000; i++)
		str_addf(&text, "- {name: c%d, context: {cluster: c%d, user: u%d}}\n", i, i, i);
	kube_fake_start(&f, NULL);
	kube_fake_file(&f, "kubeconfig", text.ptr);
	a = load(&f, NULL, &err);
	ck_assert_msg(a != NULL, "%s", err.msg);
	ck_assert_str_eq(a->endpoint->url, "https://h1999");
	kube_access_free(a);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(aliases_do_not_multiply)
{
	struct kube_fake f;
	struct err err = ERR_INIT;
	struct str text AUTO(str_clear) = STR_INIT(10000);
	kube_fake_start(&f, NULL);
	str_add(&text, "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
	for (int i = 1; i < 12; i++)
		str_addf(&text, "a%d: &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,*a%d]\n", i, i, i - 1, i - 1,
		         i - 1, i - 1, i - 1, i - 1);
	kube_fake_file(&f, "kubeconfig", text.ptr);
	ck_assert_ptr_null(load(&f, NULL, &err));
	ck_assert_msg(strstr(err.msg, "too large") != NULL, "%s", err.msg);
	kube_fake_stop(&f);
}
END_TEST

START_TEST(a_pod_finds_its_server_and_its_service_account)
{
	struct kube_source source;
	struct kube_fake f;
	struct err err = ERR_INIT;
	struct kube_access *a = NULL;
	kube_fake_start(&f, NULL);
	source = (struct kube_source) { .service_account_dir = f.dir };
	unsetenv("KUBERNETES_SERVICE_HOST");
	ck_assert_int_eq(kube_access_load(&source, &a, &err), -1);
	ck_assert_msg(strstr(err.msg, "--kubeconfig") != NULL, "%s", err.msg);
	err_clear(&err);

	setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
	setenv("KUBERNETES_SERVICE_PORT", "443", 1);
	ck_assert_int_eq(kube_access_load(&source, &a, &err), -1);
	ck_assert_msg(strstr(err.msg, "/token") && err.code == ERR_INVALID, "%s", err.msg);
	err_clear(&err);

	kube_fake_file(&f, "token", "jwt\n");
	kube_fake_file(&f, "ca.crt", PEM_CA);
	ck_assert_int_eq(kube_access_load(&source, &a, &err), 0);
	ck_assert_str_eq(a->endpoint->url, "https://[fd00::1]:443");
	ck_assert_str_eq(a->endpoint->ca, PEM_CA);
	ck_assert_str_eq(a->token, "jwt");
	kube_access_free(a);

	setenv("KUBERNETES_SERVICE_HOST", "[fd00::1]", 1);
	ck_assert_int_eq(kube_access_load(&source, &a, &err), 0);
	ck_assert_str_eq(a->endpoint->url, "https://[fd00::1]:443");
	kube_access_free(a);
	kube_fake_stop(&f);
}
END_TEST

struct endpoint_seen {
	unsigned changes;
	char url[100];
};

static void note_change(void *arg, const struct http_endpoint *endpoint)
{
	struct endpoint_seen *seen = arg;
	seen->changes++;
	snprintf(seen->url, sizeof(seen->url), "%s", endpoint->url);
}

static void drop_log(void *arg, const char *line)
{
	(void)arg;
	(void)line;
}

START_TEST(a_changed_file_is_read_again_and_a_broken_one_changes_nothing)
{
	struct kube_source source;
	struct kube_access *first, *same, *second, *third, *fourth, *fifth;
	struct kube_fake f;
	struct err err = ERR_INIT;
	struct kube_config *c = NULL;
	struct endpoint_seen seen = { 0 };
	kube_fake_start(&f, NULL);
	kube_fake_file(&f, "token", "one");
	kube_fake_config(&f, "https://a", "", "    tokenFile: token\n");
	source = (struct kube_source) { .kubeconfig = f.kubeconfig };
	ck_assert_int_eq(kube_config_new(&source, note_change, &seen, &c, &err), 0);
	first = kube_config_get(c, false);
	same = kube_config_get(c, false);
	ck_assert_ptr_eq(first, same);
	ck_assert_uint_eq(seen.changes, 0);

	kube_fake_file(&f, "token", "two");
	second = kube_config_get(c, false);
	ck_assert_str_eq(second->token, "two");
	ck_assert_str_eq(first->token, "one"); /* a reference is unchanged */

	log_redirect(drop_log, NULL);
	kube_fake_file(&f, "kubeconfig", "broken: [");
	third = kube_config_get(c, false);
	ck_assert_ptr_eq(third, second);

	usleep(1100000);
	kube_fake_config(&f, "https://b", "", "    tokenFile: token\n");
	fourth = kube_config_get(c, false);
	ck_assert_str_eq(fourth->endpoint->url, "https://b");
	ck_assert_str_eq(seen.url, "https://b");
	fifth = kube_config_get(c, true); /* forced: read although unchanged */
	ck_assert_ptr_ne(fourth, fifth);
	kube_config_put(c, first);
	kube_config_put(c, same);
	kube_config_put(c, second);
	kube_config_put(c, third);
	kube_config_put(c, fourth);
	kube_config_put(c, fifth);
	kube_config_free(c);
	log_redirect(NULL, NULL);
	kube_fake_stop(&f);
}
END_TEST

#define PEM(type) "-----BEGIN " type "-----\nMIIB\n-----END " type "-----\n"

/* libcurl would have ended the process with the first of them. */
START_TEST(a_key_file_that_is_replaced_by_no_key_changes_nothing)
{
	static const char *const rows[] = {
		PEM("ENCRYPTED PRIVATE KEY"),
		"-----BEGIN PRIVATE KEY-----\nMII",
		PEM("CERTIFICATE"),
		"",
	};
	struct kube_config *c = NULL;
	struct kube_source source;
	struct endpoint_seen seen = { 0 };
	struct kube_access *first, *second;
	struct kube_fake f;
	struct err err = ERR_INIT;

	kube_fake_start(&f, NULL);
	kube_fake_file(&f, "client.pem", PEM("CERTIFICATE"));
	kube_fake_file(&f, "client.key", PEM("PRIVATE KEY"));
	kube_fake_config(&f, "https://a", "",
	                 "    client-certificate: client.pem\n    client-key: client.key\n");
	source = (struct kube_source) { .kubeconfig = f.kubeconfig };
	ck_assert_msg(!kube_config_new(&source, note_change, &seen, &c, &err), "%s", err.msg);
	first = kube_config_get(c, false);
	log_redirect(drop_log, NULL);
	kube_fake_file(&f, "client.key", rows[_i]);
	second = kube_config_get(c, true);
	ck_assert_ptr_eq(first, second);
	ck_assert_uint_eq(seen.changes, 0);
	kube_config_put(c, first);
	kube_config_put(c, second);
	kube_config_free(c);
	log_redirect(NULL, NULL);
	kube_fake_stop(&f);
}
END_TEST

/* As kubelet does: a file behind a symbolic link that is replaced. */
START_TEST(a_rotation_by_symbolic_link_is_seen)
{
	char *fresh AUTO(free) = NULL;
	char *link AUTO(free) = NULL;
	struct kube_source source;
	struct kube_access *a;
	struct kube_fake f;
	struct err err = ERR_INIT;
	struct kube_config *c = NULL;
	struct endpoint_seen seen = { 0 };
	kube_fake_start(&f, NULL);
	link = xasprintf("%s/token", f.dir);
	fresh = xasprintf("%s/token.new", f.dir);
	kube_fake_file(&f, "t1", "aaa");
	kube_fake_file(&f, "t2", "bbb");
	kube_fake_config(&f, "https://a", "", "    tokenFile: token\n");
	ck_assert_int_eq(symlink("t1", link), 0);
	source = (struct kube_source) { .kubeconfig = f.kubeconfig };
	ck_assert_int_eq(kube_config_new(&source, note_change, &seen, &c, &err), 0);
	ck_assert_int_eq(symlink("t2", fresh), 0);
	ck_assert_int_eq(rename(fresh, link), 0);
	a = kube_config_get(c, false);
	ck_assert_str_eq(a->token, "bbb");
	kube_config_put(c, a);
	kube_config_free(c);
	kube_fake_stop(&f);
}
END_TEST

SUITE("kube_config", a_kubeconfig_says_server_trust_and_credentials,
      LOOP(the_environments_proxy_counts_without_a_proxy_url, 3),
      what_is_wrong_in_a_kubeconfig_is_named, aliases_do_not_multiply,
      LOOP(a_kubeconfig_is_read_as_client_go_does, ARRAY_LEN(accepted)),
      LOOP(several_kubeconfigs_are_one, ARRAY_LEN(lists)),
      a_kubeconfig_may_have_two_thousand_clusters, a_pod_finds_its_server_and_its_service_account,
      a_changed_file_is_read_again_and_a_broken_one_changes_nothing,
      LOOP(a_key_file_that_is_replaced_by_no_key_changes_nothing, 4),
      a_rotation_by_symbolic_link_is_seen);
