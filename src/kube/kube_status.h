/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Translates answers of the API server, and missing answers, to error codes. No other file does
 * this.
 */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "http/http.h"
#include "common/json.h"
#include "kube/kube.h"

/* The request, for error messages, and to distinguish "no such object" from "no such resource". */
struct kube_target {
	const char *verb; /* RBAC verb: get list watch create patch delete */
	const struct kube_kind *kind;
	const char *ns;     /* NULL: cluster-scoped */
	const char *name;   /* NULL: a collection */
	const char *server; /* URL */
	const char *source; /* the source of the credentials */
	/*
	 * The requested version; NULL: the kind's version. Why no served version can be used; "" or
	 * NULL: not known.
	 */
	const char *version, *unusable;
};

/* Returns the answer's Status object, a new root; NULL if the body is not a Status. */
struct json *kube_status_parse(const struct http_result *result);
/* Sets the error for an unsuccessful answer, or for a missing answer. Returns -1. */
int kube_status_error(const struct kube_target *target, const struct http_result *result,
                      struct err *err);
/* Like kube_status_error(), but for a Status inside a watch stream. */
int kube_status_error_of(const struct kube_target *target, int http_status,
                         const struct json *status, struct err *err);
/*
 * Returns true for a 404 that is a Status about this object, by kind and name. Returns false if it
 * is about another object, an API group, a resource or a namespace, or is a proxy's page.
 */
bool kube_status_no_object(const struct kube_target *target, const struct http_result *result);
/*
 * Returns true for an answer that a server may give by mistake while it starts, or while roles,
 * tokens or kinds are being changed. Such an answer is trusted when it comes a second time.
 */
bool kube_status_may_be_mistaken(const struct http_result *result);
/*
 * Returns true if the result proves that the request has changed nothing: it was not sent, or the
 * API server itself refused it. After any other answer, including a proxy's, the request may have
 * been executed.
 */
bool kube_status_is_refusal(const struct http_result *result);
bool kube_status_reason_is(const struct http_result *result, const char *reason);
/*
 * Returns true if this is the object of that name, of the target's kind and namespace, and has a
 * uid.
 */
bool kube_is_object(const struct kube_target *target, const char *name, const struct json *object);
/*
 * Writes "dpuvolumes.storage.dpu.nvidia.com ns/name" to buf. Leaves out namespace and name for a
 * verb on one object, because the caller names the object itself. Returns buf.
 */
const char *kube_target_text(const struct kube_target *target, char buf[512]);
