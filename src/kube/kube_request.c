/* SPDX-License-Identifier: Apache-2.0 */
/* Formats requests to the API server: path and headers. Stateless; any thread. */
#include "kube/kube_priv.h"
#include "kube/kube_version.h"

#include <ctype.h>
#include <string.h>

#include "common/limits.h"

void kube_path_encode(struct str *path, const char *text)
{
	for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
		if (isalnum(*c) || strchr("-._~", *c))
			str_addn(path, (const char *)c, 1);
		else
			str_addf(path, "%%%02X", *c);
	}
}

char *kube_path(const struct kube_kind *kind, const char *version, const char *ns, const char *name)
{
	struct str path AUTO(str_clear) = STR_INIT(8192);
	if (str_empty(kind->group))
		str_addf(&path, "/api/%s", version);
	else
		str_addf(&path, "/apis/%s/%s", kind->group, version);
	if (ns) {
		str_add(&path, "/namespaces/");
		kube_path_encode(&path, ns);
	}
	str_addf(&path, "/%s", kind->plural);
	if (name) {
		str_add(&path, "/");
		kube_path_encode(&path, name);
	}
	return str_take(&path);
}

struct http_request kube_request(struct kube *k, const struct kube_access *access,
                                 const char *method, const char *path)
{
	return (struct http_request) { .method = method,
		                       .path = path,
		                       .accept = "application/json",
		                       .user_agent = k->user_agent,
		                       .bearer = access->token,
		                       .max_body = LIMIT_KUBE_ANSWER };
}

int64_t kube_attempt_end(const struct kube *k)
{
	return monotonic_ns() + k->tuning.attempt_ms * INT64_C(1000000);
}

struct http_call *kube_get_start(struct kube *k, const struct http_request *q, bool force)
{
	struct kube_access *access = kube_config_get(k->config, force);
	struct http_request whole = kube_request(k, access, "GET", q->path);
	struct http_call *call;
	whole.deadline_at = q->deadline_at;
	whole.stream = q->stream;
	whole.silence_ms = q->silence_ms;
	whole.open_ms = q->open_ms;
	whole.on_bytes = q->on_bytes;
	whole.on_done = q->on_done;
	whole.arg = q->arg;
	call = http_start(k->http, &whole);
	kube_config_put(k->config, access);
	return call;
}

int kube_target_failed(struct kube *k, const struct kube_target *target,
                       const struct http_result *result, struct err *err)
{
	struct kube_access *access = kube_config_get(k->config, false);
	struct kube_target whole = *target;
	char version[KUBE_VERSION_MAX], why[KUBE_VERSION_WHY_MAX];
	whole.version = kube_version(k, target->kind, version);
	whole.unusable = kube_version_why(k, target->kind, why);
	whole.server = access->endpoint->url;
	whole.source = access->source;
	kube_status_error(&whole, result, err);
	kube_config_put(k->config, access);
	return -1;
}
