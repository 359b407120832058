/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the configuration once: a kubeconfig (clusters, users, contexts) or the environment
 * and ServiceAccount files of a pod.
 *
 * Each file's mark is taken before the file is read, so that a change during the reading is seen
 * afterwards. No cache, no threads. Refused with an error that names them, not ignored: exec
 * plugins and auth providers (they run programs), passwords, impersonation.
 */
#include "kube/kube_access.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/json.h"
#include "common/limits.h"
#include "common/mem.h"
#include "common/str.h"
#include "kube/kube_pem.h"
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
	struct file_mark *m = &a->files[a->n_files++];
	assert(a->n_files <= ACCESS_FILES);
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

/* Reads a token file; drops the newline that editors leave at its end. */
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
	a->endpoint->url = strchr(host, ':') ? xasprintf("https://[%s]:%s", host, port)
	                                     : xasprintf("https://%s:%s", host, port);
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

/* The <member> of the list's entry {name: <name>, <member>: {..}}; NULL: no such entry. */
static const struct json *named(const struct json *config, const char *list, const char *name,
                                const char *member)
{
	json_foreach (item, json_at(config, list))
		if (str_eq(json_str(item, "name"), name))
			return json_member(item, member);
	return NULL;
}

/* A file that the kubeconfig names: relative names are relative to the kubeconfig's folder. */
static char *path_of(const char *kubeconfig, const char *name)
{
	const char *slash = strrchr(kubeconfig, '/');
	if (name[0] == '/' || !slash)
		return xstrdup(name);
	return xasprintf("%.*s/%s", (int)(slash - kubeconfig), kubeconfig, name);
}

/*
 * One of the two ways to give PEM data: "<field>-data" (base64) or "<field>" (a file, relative to
 * the kubeconfig).
 */
static int config_pem_field(struct kube_access *a, const char *kubeconfig,
                            const struct json *object, const char *field, enum pem_use use,
                            const char **ret, struct err *err)
{
	char *data_field AUTO(free) = xasprintf("%s-data", field);
	const char *data = json_text(json_member(object, data_field));
	const char *path = json_text(json_member(object, field));
	char *whole AUTO(free) = NULL;
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

static bool is_true(const struct json *object, const char *field)
{
	bool value = false;
	struct err ignored = ERR_INIT;
	return json_get_bool(object, field, &value, &ignored) == 0 && value;
}

static int config_read_cluster(struct kube_access *a, const char *path, const struct json *cluster,
                               struct err *err)
{
	const char *server = json_str(cluster, "server");
	const char *tls_name = json_str(cluster, "tls-server-name");
	const char *proxy = json_str(cluster, "proxy-url");
	struct http_endpoint *e = a->endpoint;
	size_t n;
	if (str_empty(server) ||
	    (!str_has_prefix(server, "https://") && !str_has_prefix(server, "http://")))
		return err_set(err, ERR_INVALID, "%s: server \"%s\" is not an http(s) URL", path,
		               server ? server : "");
	n = strlen(server);
	while (n > 0 && server[n - 1] == '/')
		n--;
	e->url = xstrndup(server, n);
	e->tls_name = str_empty(tls_name) ? NULL : xstrdup(tls_name);
	e->proxy = str_empty(proxy) ? NULL : xstrdup(proxy);
	e->insecure = is_true(cluster, "insecure-skip-tls-verify");
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

static int config_refuse_unsupported(const char *path, const struct json *user, struct err *err)
{
	static const char *const fields[][2] = {
		{ "exec", "exec plugins are not run" },
		{ "auth-provider", "auth providers are not supported" },
		{ "username", "passwords are not supported" },
		{ "as", "impersonation is not supported" },
	};
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (json_member(user, fields[i][0]))
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
	const char *token = json_str(user, "token");
	const char *token_file = json_str(user, "tokenFile");
	struct http_endpoint *e = a->endpoint;
	if (config_refuse_unsupported(path, user, err))
		return -1;
	if (!str_empty(token_file)) {
		char *whole AUTO(free) = path_of(path, token_file);
		if (config_read_token(a, whole, err))
			return err_wrap(err, "%s: tokenFile", path);
	} else if (!str_empty(token) && config_set_token(a, path, token, err)) {
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

static int config_read_context(struct kube_access *a, const char *path, const struct json *config,
                               const char *name, struct err *err)
{
	const struct json *context = named(config, "contexts", name, "context");
	const char *cluster = json_str(context, "cluster"), *user = json_str(context, "user");
	const struct json *c = named(config, "clusters", cluster, "cluster");
	const struct json *u = named(config, "users", user, "user");
	if (!context)
		return err_set(err, ERR_INVALID, "%s: there is no context \"%s\"", path, name);
	if (!c)
		return err_set(err, ERR_INVALID, "%s: context \"%s\": there is no cluster \"%s\"",
		               path, name, cluster ? cluster : "");
	if (!u && !str_empty(user))
		return err_set(err, ERR_INVALID, "%s: context \"%s\": there is no user \"%s\"",
		               path, name, user);
	a->source = xasprintf("kubeconfig %s, context %s", path, name);
	return config_read_cluster(a, path, c, err) || config_read_user(a, path, u, err) ? -1 : 0;
}

static int config_load_kubeconfig(const char *path, const char *context, struct kube_access **ret,
                                  struct err *err)
{
	struct kube_access *a AUTO(kube_access_free) = access_new();
	char *text AUTO(free) = NULL;
	struct json *config AUTO(json_free) = NULL;
	int rc;
	if (read_marked(a, path, &text, err))
		return err_wrap(err, "kubeconfig");
	rc = kube_yaml_parse(path, text, strlen(text), &config, err);
	explicit_bzero(text, strlen(text));
	if (rc)
		return err_wrap(err, "kubeconfig");
	if (str_empty(context))
		context = json_str(config, "current-context");
	if (str_empty(context))
		return err_set(err, ERR_INVALID, "kubeconfig: %s: current-context is not set",
		               path);
	if (config_read_context(a, path, config, context, err))
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
