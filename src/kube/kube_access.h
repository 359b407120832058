/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the API server is reached, and with which credentials: read from a kubeconfig or from a pod's
 * ServiceAccount files, and read again when one of the files changes.
 *
 * A `kube_access` is what was read at one moment: immutable, shared by reference.
 */
#pragma once

#include <stdbool.h>

#include "common/cleanup.h"
#include "common/err.h"
#include "http/http.h"

/* A file as it was when it was read: another mark means another content. */
struct file_mark {
	char *path;
	long long mtime_ns, ctime_ns;
	unsigned long long device, inode, size;
};

#define ACCESS_FILES 6 /* kubeconfig, CA, certificate, key, token; one spare */

struct kube_access {
	int refs; /* under the lock of its kube_config */
	struct http_endpoint *endpoint;
	char *token;  /* NULL: none */
	char *source; /* "kubeconfig /etc/k, context c": for error texts */
	struct file_mark files[ACCESS_FILES];
	unsigned n_files;
};

/* Where to read from: as in struct kube_options. */
struct kube_source {
	const char *kubeconfig, *context, *service_account_dir;
};

/* kube_config.c: one reading of everything. INVALID_ARGUMENT naming file and field. */
int kube_access_load(const struct kube_source *source, struct kube_access **ret, struct err *err)
	MUST_CHECK;
void kube_access_free(struct kube_access *a);
/* True when a file is no longer the one that was read. */
bool kube_access_is_stale(const struct kube_access *a);

/* The current access, kept up to date. Any thread. */
struct kube_config;
/* changed is called (lock held: must not block) with each new endpoint, never twice at once. */
int kube_config_new(const struct kube_source *source,
                    void (*changed)(void *arg, const struct http_endpoint *endpoint), void *arg,
                    struct kube_config **ret, struct err *err) MUST_CHECK;
struct kube_config *kube_config_free(struct kube_config *c);
/*
 * A reference, to be given back with kube_config_put(); never NULL. Reads the files again when they
 * have changed, which is looked at once in 20 ms; force: in any case. When they cannot be read (a
 * rotation is half done), the last good reading stays current; this is logged at a limited rate.
 */
struct kube_access *kube_config_get(struct kube_config *c, bool force);
void kube_config_put(struct kube_config *c, struct kube_access *a);
