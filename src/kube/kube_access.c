/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the configuration once: a kubeconfig (clusters, users, contexts) or the environment and
 * ServiceAccount files of a pod.
 *
 * Each file's mark is taken before the file is read, so that a change during the reading is
 * detected afterwards. No cache, no threads. Exec plugins and auth providers (which run programs),
 * passwords, impersonation and fields of a wrong type are refused with an error that names them.
 *
 * Several kubeconfigs, separated by ':' as in $KUBECONFIG, are read as client-go does: a missing
 * file counts as empty, and the first file that defines a named entry, or sets the current context,
 * takes precedence.
 */
#include "kube/kube_access.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/json.h"
#include "common/limits.h"
#include "common/mem.h"
#include "common/str.h"
#include "kube/kube_pem.h"
#include "kube/kube_proxy.h"
#include "kube/kube_yaml.h"

#define SERVICE_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

/* ---- files ---- */

static void mark_read(struct file_mark *m, const char *path)
{
	struct stat st;
	if (stat(path, &st))
		memset(&st, 0, sizeof(st));
	m->mtime_ns = st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec;
	m->ctime_ns = st.st_ctim.tv_sec * 1000000000LL + st.st_ctim.tv_nsec;
	m->device = st.st_dev;
	m->inode = st.st_ino;
	m->size = (unsigned long long)st.st_size;
}

bool kube_access_is_stale(const struct kube_access *a)
{
	for (unsigned i = 0; i < a->n_files; i++) {
		const struct file_mark *old = &a->files[i];
		struct file_mark now;
		mark_read(&now, old->path);
		if (now.mtime_ns != old->mtime_ns || now.ctime_ns != old->ctime_ns ||
		    now.device != old->device || now.inode != old->inode || now.size != old->size)
			return true;
	}
	return false;
}

static int read_marked(struct kube_access *a, const char *path, char **ret, struct err *err)
{
	struct file_mark *m;
	a->files = xrealloc(a->files, (a->n_files + 1) * sizeof(*a->files));
	m = &a->files[a->n_files++];
	m->path = xstrdup(path);
	mark_read(m, path);
	if (file_read(path, LIMIT_KUBE_FILE, ret, NULL, err)) {
		err_recode(err, ERR_INVALID);
		return -1;
	}
	return 0;
}

/* Refuses characters that would break the Authorization header. */
static int config_set_token(struct kube_access *a, const char *path, const char *token,
                            struct err *err)
{
	if (!*token || strpbrk(token, " \t\r\n"))
		return err_set(err, ERR_INVALID, "%s does not hold a token", path);
	a->token = xstrdup(token);
	return 0;
}

/* Reads a token file; drops a trailing newline, which editors add. */
static int config_read_token(struct kube_access *a, const char *path, struct err *err)
{
	char *text AUTO(free) = NULL;
	size_t n;
	int rc;
	if (read_marked(a, path, &text, err))
		return -1;
	n = strlen(text);
	while (n > 0 && strchr(" \t\r\n", text[n - 1]))
		text[--n] = 0;
	rc = config_set_token(a, path, text, err);
	explicit_bzero(text, n);
	return rc;
}

static int read_pem(struct kube_access *a, const char *path, enum pem_use use, const char **ret,
                    struct err *err)
{
	char *text AUTO(free) = NULL;
	if (read_marked(a, path, &text, err) || kube_pem_check(path, text, use, err))
		return -1;
	*ret = TAKE(text);
	return 0;
}

void kube_access_free(struct kube_access *a)
{
	if (!a)
		return;
	for (unsigned i = 0; i < a->n_files; i++)
		free(a->files[i].path);
	free(a->files);
	if (a->token)
		explicit_bzero(a->token, strlen(a->token));
	free(a->token);
	free(a->source);
	http_endpoint_free(a->endpoint);
	free(a);
}

DEFINE_AUTO(struct kube_access *, kube_access_free);

static struct kube_access *access_new(void)
{
	struct kube_access *a = xcalloc(1, sizeof(*a));
	a->endpoint = xcalloc(1, sizeof(*a->endpoint));
	return a;
}

/* ---- in a pod ---- */

static int config_load_in_cluster(const char *dir, struct kube_access **ret, struct err *err)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");
	struct kube_access *a AUTO(kube_access_free) = access_new();
	char *token AUTO(free) = xasprintf("%s/token", dir);
	char *ca AUTO(free) = xasprintf("%s/ca.crt", dir);
	if (str_empty(host) || str_empty(port))
		return err_set(err, ERR_INVALID,
		               "not in a Kubernetes pod: KUBERNETES_SERVICE_HOST and "
		               "KUBERNETES_SERVICE_PORT are not set; give --kubeconfig");
	a->source = xasprintf("ServiceAccount %s", dir);
	a->endpoint->url = strchr(host, ':') && *host != '['
	                           ? xasprintf("https://[%s]:%s", host, port)
	                           : xasprintf("https://%s:%s", host, port);
	a->endpoint->proxy = kube_proxy_of_environment(a->endpoint->url);
	if (config_read_token(a, token, err) ||
	    read_pem(a, ca, PEM_CERTIFICATE, &a->endpoint->ca, err))
		return -1;
	*ret = TAKE(a);
	return 0;
}

/* ---- kubeconfig ---- */

static int base64_value(char c)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(digits, c) : NULL;
	return at ? (int)(at - digits) : -1;
}

static char *config_base64_decode(const char *text)
{
	char *bytes = xmalloc(strlen(text) / 4 * 3 + 4);
	size_t n = 0;
	unsigned bits = 0, have = 0;
	for (const char *c = text; *c && *c != '='; c++) {
		int value = base64_value(*c);
		if (strchr(" \t\r\n", *c))
			continue;
		if (value < 0) {
			free(bytes);
			return NULL;
		}
		bits = (bits << 6) | (unsigned)value;
		have += 6;
		if (have >= 8) {
			have -= 8;
			bytes[n++] = (char)(bits >> have);
		}
	}
	bytes[n] = 0;
	return bytes;
}

struct kubeconfig {
	char *path;
	struct json *tree; /* NULL: the file does not exist */
};

struct kubeconfigs {
	struct kubeconfig *v;
	size_t n;
};

static void kubeconfigs_clear(struct kubeconfigs *all)
{
	for (size_t i = 0; i < all->n; i++) {
		free(all->v[i].path);
		json_free(all->v[i].tree);
	}
	free(all->v);
}
DEFINE_AUTO_VALUE(struct kubeconfigs, kubeconfigs_clear);

/*
 * Sets *ret to the <member> of the first entry {name: <name>, <member>: {..}} of the list, and
 * *ret_path to the file of that entry. *ret is NULL if there is no such entry.
 */
static int config_find(const struct kubeconfigs *all, const char *list, const char *name,
                       const char *member, const struct json **ret, const char **ret_path,
                       struct err *err)
{
	*ret = NULL;
	for (size_t i = 0; i < all->n && !str_empty(name); i++)
		json_foreach (item, json_at(all->v[i].tree, list)) {
			if (!str_eq(json_str(item, "name"), name))
				continue;
			*ret = json_member(item, member);
			*ret_path = all->v[i].path;
			if (!json_is_object(*ret))
				return err_set(err, ERR_INVALID, "%s: %s: \"%s\": %s is %s",
				               *ret_path, list, name, member,
				               *ret ? "not a mapping" : "missing");
			return 0;
		}
	return 0;
}

/* Reads a string field; *ret is "" if the field is not set. */
static int config_text(const char *path, const struct json *object, const char *field,
                       const char **ret, struct err *err)
{
	const struct json *value = json_member(object, field);

	*ret = json_is_string(value) ? json_text(value) : "";
	if (!value || json_is_string(value) || json_is_null(value))
		return 0;
	return err_set(err, ERR_INVALID, "%s: %s is not a string; quote it if it is one", path,
	               field);
}

static int config_flag(const char *path, const struct json *object, const char *field, bool *ret,
                       struct err *err)
{
	const struct json *value = json_member(object, field);

	*ret = false;
	if (!value || json_is_null(value))
		return 0;
	return json_get_bool(object, field, ret, err) ? err_wrap(err, "%s", path) : 0;
}

/*
 * Returns the path of a file named in the kubeconfig; relative paths are relative to the
 * kubeconfig's directory.
 */
static char *path_of(const char *kubeconfig, const char *name)
{
	const char *slash = strrchr(kubeconfig, '/');
	if (name[0] == '/' || !slash)
		return xstrdup(name);
	return xasprintf("%.*s/%s", (int)(slash - kubeconfig), kubeconfig, name);
}

/*
 * Reads PEM data in one of two forms: "<field>-data" (base64) or "<field>" (a file, relative to the
 * kubeconfig).
 */
static int config_pem_field(struct kube_access *a, const char *kubeconfig,
                            const struct json *object, const char *field, enum pem_use use,
                            const char **ret, struct err *err)
{
	char *data_field AUTO(free) = xasprintf("%s-data", field);
	const char *data, *path;
	char *whole AUTO(free) = NULL;
	if (config_text(kubeconfig, object, data_field, &data, err) ||
	    config_text(kubeconfig, object, field, &path, err))
		return -1;
	if (!str_empty(data)) {
		char *what AUTO(free) = xasprintf("%s: %s", kubeconfig, data_field);
		char *pem AUTO(free) = config_base64_decode(data);
		if (!pem)
			return err_set(err, ERR_INVALID, "%s is not base64", what);
		if (kube_pem_check(what, pem, use, err))
			return -1;
		*ret = TAKE(pem);
		return 0;
	}
	if (str_empty(path))
		return 0;
	whole = path_of(kubeconfig, path);
	if (read_pem(a, whole, use, ret, err))
		return err_wrap(err, "%s: %s", kubeconfig, field);
	return 0;
}

/* The URL appears in errors and in the log, so it must not contain a password. */
static int config_check_server(const char *path, const char *server, struct err *err)
{
	if (strpbrk(server, "@?#"))
		return err_set(err, ERR_INVALID,
		               "%s: server has a user name, a password or a query in its URL, "
		               "which is not supported; give a token, tokenFile or client "
		               "certificate",
		               path);
	if (!str_has_prefix(server, "https://") && !str_has_prefix(server, "http://"))
		return err_set(err, ERR_INVALID, "%s: server \"%s\" is not an http(s) URL", path,
		               server);
	return 0;
}

/* Removes the brackets of an IPv6 address. */
static int config_set_tls_name(struct http_endpoint *e, const char *path, const char *name,
                               struct err *err)
{
	size_t n = strlen(name);
	bool brackets = n > 2 && name[0] == '[' && name[n - 1] == ']';

	if (!n)
		return 0;
	e->tls_name = brackets ? xstrndup(name + 1, n - 2) : xstrdup(name);
	if (!strpbrk(e->tls_name, "/?#@[]\\ "))
		return 0;
	return err_set(err, ERR_INVALID,
	               "%s: tls-server-name \"%s\" is neither a host name nor an address", path,
	               name);
}

static int config_read_cluster(struct kube_access *a, const char *path, const struct json *cluster,
                               struct err *err)
{
	const char *server, *tls_name, *proxy;
	struct http_endpoint *e = a->endpoint;
	size_t n;
	if (config_text(path, cluster, "server", &server, err) ||
	    config_text(path, cluster, "tls-server-name", &tls_name, err) ||
	    config_text(path, cluster, "proxy-url", &proxy, err) ||
	    config_flag(path, cluster, "insecure-skip-tls-verify", &e->insecure, err) ||
	    config_check_server(path, server, err) || config_set_tls_name(e, path, tls_name, err) ||
	    (*proxy && kube_proxy_check(path, proxy, err)))
		return -1;
	n = strlen(server);
	while (n > 0 && server[n - 1] == '/')
		n--;
	e->url = xstrndup(server, n);
	e->proxy = *proxy ? xstrdup(proxy) : kube_proxy_of_environment(e->url);
	if (config_pem_field(a, path, cluster, "certificate-authority", PEM_CERTIFICATE, &e->ca,
	                     err))
		return -1;
	if (e->insecure && e->ca)
		return err_set(
			err, ERR_INVALID,
			"%s: insecure-skip-tls-verify and certificate-authority exclude each other",
			path);
	return 0;
}

/* Returns true if the field has a value that client-go would act on. */
static bool is_given(const struct json *value)
{
	if (!value || json_is_null(value))
		return false;
	return json_is_array(value) ? json_count(value) > 0
	                            : !json_is_string(value) || *json_text(value);
}

static int config_refuse_unsupported(const char *path, const struct json *user, struct err *err)
{
	static const char *const fields[][2] = {
		{ "exec", "exec plugins are not run" },
		{ "auth-provider", "auth providers are not supported" },
		{ "username", "passwords are not supported" },
		{ "as", "impersonation is not supported" },
		{ "as-uid", "impersonation is not supported" },
		{ "as-groups", "impersonation is not supported" },
		{ "as-user-extra", "impersonation is not supported" },
	};
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (is_given(json_member(user, fields[i][0])))
			return err_set(
				err, ERR_INVALID,
				"%s: the user has \"%s\": %s; give a token, tokenFile or client "
				"certificate",
				path, fields[i][0], fields[i][1]);
	return 0;
}

static int config_read_user(struct kube_access *a, const char *path, const struct json *user,
                            struct err *err)
{
	const char *token, *token_file;
	struct http_endpoint *e = a->endpoint;
	if (config_refuse_unsupported(path, user, err) ||
	    config_text(path, user, "token", &token, err) ||
	    config_text(path, user, "tokenFile", &token_file, err))
		return -1;
	if (*token_file) {
		char *whole AUTO(free) = path_of(path, token_file);
		if (config_read_token(a, whole, err))
			return err_wrap(err, "%s: tokenFile", path);
	} else if (*token && config_set_token(a, path, token, err)) {
		return -1;
	}
	if (config_pem_field(a, path, user, "client-certificate", PEM_CERTIFICATE, &e->cert, err) ||
	    config_pem_field(a, path, user, "client-key", PEM_KEY, &e->key, err))
		return -1;
	if (!e->cert != !e->key)
		return err_set(err, ERR_INVALID,
		               "%s: client-certificate and client-key go together", path);
	return 0;
}

static int config_read_context(struct kube_access *a, const char *source,
                               const struct kubeconfigs *all, const char *name, struct err *err)
{
	const char *path = source, *cluster_path, *user_path, *cluster, *user;
	const struct json *context, *c, *u;

	if (config_find(all, "contexts", name, "context", &context, &path, err))
		return -1;
	if (!context)
		return err_set(err, ERR_INVALID, "%s: there is no context \"%s\"", source, name);
	if (config_text(path, context, "cluster", &cluster, err) ||
	    config_text(path, context, "user", &user, err) ||
	    config_find(all, "clusters", cluster, "cluster", &c, &cluster_path, err) ||
	    config_find(all, "users", user, "user", &u, &user_path, err))
		return -1;
	if (!c || (!u && *user))
		return err_set(err, ERR_INVALID, "%s: context \"%s\": there is no %s \"%s\"", path,
		               name, c ? "user" : "cluster", c ? user : cluster);
	if (config_read_cluster(a, cluster_path, c, err) ||
	    (u && config_read_user(a, user_path, u, err)))
		return -1;
	a->source = xasprintf("kubeconfig %s, context %s%s", source, name,
	                      a->token || a->endpoint->cert ? "" : " (without credentials)");
	return 0;
}

/* `optional`: the file is one of a list, and may be missing. */
static int kubeconfigs_add(struct kubeconfigs *all, struct kube_access *a, const char *path,
                           bool optional, struct err *err)
{
	char *text AUTO(free) = NULL;
	int rc;

	all->v = xrealloc(all->v, (all->n + 1) * sizeof(*all->v));
	all->v[all->n].path = xstrdup(path);
	all->v[all->n++].tree = NULL;
	if (read_marked(a, path, &text, err)) {
		if (!optional || err->sys != ENOENT)
			return -1;
		err_clear(err);
		return 0;
	}
	rc = kube_yaml_parse(path, text, strlen(text), &all->v[all->n - 1].tree, err);
	explicit_bzero(text, strlen(text));
	return rc;
}

/* A name with a ':' is a single file if a file of that name exists. */
static int kubeconfigs_read(struct kubeconfigs *all, struct kube_access *a, const char *paths,
                            struct err *err)
{
	bool list = strchr(paths, ':') && access(paths, F_OK);
	char *copy AUTO(free) = xstrdup(paths);
	char *save = NULL;

	if (!list)
		return kubeconfigs_add(all, a, paths, false, err);
	for (char *path = strtok_r(copy, ":", &save); path; path = strtok_r(NULL, ":", &save))
		if (kubeconfigs_add(all, a, path, true, err))
			return -1;
	for (size_t i = 0; i < all->n; i++)
		if (all->v[i].tree)
			return 0;
	return err_set(err, ERR_INVALID, "%s: none of these files exists", paths);
}

static int config_load_kubeconfig(const char *paths, const char *context, struct kube_access **ret,
                                  struct err *err)
{
	struct kubeconfigs all AUTO(kubeconfigs_clear) = { .n = 0 };
	struct kube_access *a AUTO(kube_access_free) = access_new();

	if (kubeconfigs_read(&all, a, paths, err))
		return err_wrap(err, "kubeconfig");
	for (size_t i = 0; i < all.n && str_empty(context); i++)
		if (config_text(all.v[i].path, all.v[i].tree, "current-context", &context, err))
			return err_wrap(err, "kubeconfig");
	if (str_empty(context))
		return err_set(err, ERR_INVALID, "kubeconfig: %s: current-context is not set",
		               paths);
	if (config_read_context(a, paths, &all, context, err))
		return err_wrap(err, "kubeconfig");
	*ret = TAKE(a);
	return 0;
}

int kube_access_load(const struct kube_source *source, struct kube_access **ret, struct err *err)
{
	const char *dir = source->service_account_dir;
	if (source->kubeconfig)
		return config_load_kubeconfig(source->kubeconfig, source->context, ret, err);
	return config_load_in_cluster(dir ? dir : SERVICE_ACCOUNT_DIR, ret, err);
}
