/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Determines the version in which a kind is requested: the version in its struct kube_kind, until
 * the API server answers that it does not serve that version. Then the client reads the served
 * versions, and uses the first one whose schema is accepted by serves() of struct kube_kind.
 */
#pragma once

#include "common/str.h"
#include "http/http.h"
#include "kube/kube.h"

#define KUBE_VERSION_MAX 64
#define KUBE_VERSION_WHY_MAX 400

/* The state of one kind; exists until the client ends. */
struct kube_version {
	struct kube_version *next;
	struct kube *k;
	const struct kube_kind *kind;

	/* Under the client's lock. */
	char version[KUBE_VERSION_MAX];
	char why[KUBE_VERSION_WHY_MAX]; /* why no served version is usable; "": not known */
	bool reading;

	/* Used only by kube_version_read.c, while `reading` is true. */
	struct strs served;
	size_t at;           /* index in `served` of the version whose document is requested */
	struct str unusable; /* becomes `why` */
};

/* Any thread, k's lock not held. Copies the version to ret and returns ret. */
const char *kube_version(struct kube *k, const struct kube_kind *kind, char ret[KUBE_VERSION_MAX]);
/*
 * Any thread, k's lock not held. Writes to `ret` why no served version can be used ("v2: spec.x is
 * missing"), or "" if not known. Returns ret.
 */
const char *kube_version_why(struct kube *k, const struct kube_kind *kind,
                             char ret[KUBE_VERSION_WHY_MAX]);
/*
 * Any thread, k's lock not held. If the answer says that the kind is not served, starts to read the
 * served versions, on the engine's thread. Does nothing for a kind without serves(), or while the
 * served versions are already being read.
 */
void kube_version_read(struct kube *k, const struct kube_kind *kind, const struct http_result *r);
/* k's lock held. Returns the entry of the kind, or NULL. */
struct kube_version *kube_version_find(struct kube *k, const struct kube_kind *kind);
/* k's lock held. Returns true while the served versions of this kind are being read. */
bool kube_version_is_reading(struct kube *k, const struct kube_kind *kind);
/* Returns the path of the OpenAPI document for this version of the kind's group, malloc'ed. */
char *kube_version_document(const struct kube_kind *kind, const char *version);
/* Returns the kind's schema within the document, which still owns it, or NULL. */
const struct json *kube_version_schema(const struct json *document, const struct kube_kind *kind,
                                       const char *version);
/* Call it after the HTTP engine has ended. */
void kube_versions_free(struct kube *k);
