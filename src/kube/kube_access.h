/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the API server is reached and what we show it: read from a kubeconfig or from what
 * a pod is given, and read again when one of the files changes.
 *
 * What was read at one moment is a `kube_access`: immutable, shared by reference.
 */
#pragma once

#include <stdbool.h>

#include "common/cleanup.h"
#include "common/err.h"
#include "http/http.h"

/* Which file had which content when it was read. */
struct file_mark {
	char *path;
	long long mtime_ns, ctime_ns;
	unsigned long long device, inode, size;
};

#define ACCESS_FILES 6

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
/* Does a file differ from what was read? */
bool kube_access_is_stale(const struct kube_access *a);

/* The current access, kept up to date. Any thread. */
struct kube_config;
/* changed is called (lock held: must not block) with each new endpoint, never twice at once. */
int kube_config_new(const struct kube_source *source,
                    void (*changed)(void *arg, const struct http_endpoint *endpoint), void *arg,
                    struct kube_config **ret, struct err *err) MUST_CHECK;
struct kube_config *kube_config_free(struct kube_config *c);
/*
 * A reference; never NULL. Looks at the files first; force: reads them even when they look the
 * same. When they cannot be read (a rotation half done), the last good reading stays, and is logged
 * at a limited rate.
 */
struct kube_access *kube_config_get(struct kube_config *c, bool force);
void kube_config_put(struct kube_config *c, struct kube_access *a);
