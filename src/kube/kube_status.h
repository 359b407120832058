/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an answer of the API server, or the lack of one, means: the one table from HTTP to error
 * codes.
 */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "http/http.h"
#include "common/json.h"
#include "kube/kube.h"

/* What was asked for; for error texts, and to tell "no such object" from "no such resource". */
struct kube_target {
	const char *verb; /* RBAC's name: get list watch create patch delete */
	const struct kube_kind *kind;
	const char *ns;     /* NULL: cluster-scoped */
	const char *name;   /* NULL: a collection */
	const char *server; /* URL */
	const char *source; /* where the credentials come from */
};

/* The answer's Status object, a new root; NULL when the body is not a Status. */
struct json *kube_status_parse(const struct http_result *result);
/* Always -1: sets the error for an answer that is no success, or for no answer. */
int kube_status_error(const struct kube_target *target, const struct http_result *result,
                      struct err *err);
/* The same for a Status inside a watch stream. */
int kube_status_error_of(const struct kube_target *target, int http_status,
                         const struct json *status, struct err *err);
/*
 * True for a 404 that is a Status about this object, by kind and name: not about another one, an
 * API group, a resource or a namespace, and not a proxy's page.
 */
bool kube_status_no_object(const struct kube_target *target, const struct http_result *result);
/*
 * An answer that a server may give by mistake while it starts, or while roles, tokens or kinds are
 * being changed: it is believed when it comes a second time.
 */
bool kube_status_may_be_mistaken(const struct http_result *result);
/*
 * Proof that the request has done nothing: it was not sent, or refused in the API server's own
 * words. Everything else may have been carried out, also what a proxy says of it.
 */
bool kube_status_is_refusal(const struct http_result *result);
bool kube_status_reason_is(const struct http_result *result, const char *reason);
/* Is this the object of that name, of the target's kind and namespace? It has a uid then. */
bool kube_is_object(const struct kube_target *target, const char *name, const struct json *object);
/*
 * Writes "dpuvolumes.storage.dpu.nvidia.com ns/name" to buf; without namespace and name for a verb
 * on one object, because the caller names that itself. Returns buf.
 */
const char *kube_target_text(const struct kube_target *target, char buf[512]);
