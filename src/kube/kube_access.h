/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address of the API server and the credentials, read from a kubeconfig or from a pod's
 * ServiceAccount files, and re-read when one of the files changes.
 *
 * A `kube_access` is the result of one reading: immutable, shared by reference.
 */
#pragma once

#include <stdbool.h>

#include "common/cleanup.h"
#include "common/err.h"
#include "http/http.h"

/* The identity of a file when it was read. If the mark differs, the content has changed. */
struct file_mark {
	char *path;
	long long mtime_ns, ctime_ns;
	unsigned long long device, inode, size;
};

struct kube_access {
	int refs; /* under the lock of its kube_config */
	struct http_endpoint *endpoint;
	char *token;  /* NULL: none */
	char *source; /* "kubeconfig /etc/k, context c"; for error messages */
	struct file_mark *files;
	unsigned n_files;
};

/*
 * Where the configuration is read from; members as in struct kube_options. `kubeconfig` may be a
 * list (kube_access.c).
 */
struct kube_source {
	const char *kubeconfig, *context, *service_account_dir;
};

/* Reads all files once. INVALID_ARGUMENT naming file and field. */
int kube_access_load(const struct kube_source *source, struct kube_access **ret, struct err *err)
	MUST_CHECK;
void kube_access_free(struct kube_access *a);
/* Returns true if a file has changed since it was read. */
bool kube_access_is_stale(const struct kube_access *a);

/* Keeps the current kube_access up to date. Any thread. */
struct kube_config;
/*
 * `changed` is called with each new endpoint, never concurrently, with the lock held; it must not
 * block.
 */
int kube_config_new(const struct kube_source *source,
                    void (*changed)(void *arg, const struct http_endpoint *endpoint), void *arg,
                    struct kube_config **ret, struct err *err) MUST_CHECK;
struct kube_config *kube_config_free(struct kube_config *c);
/*
 * Returns a reference, to be released by kube_config_put(); never NULL. Re-reads the files if they
 * have changed, which is checked at most every 20 ms; with `force`, always. If they cannot be read
 * (a rotation is half done), the last good reading stays current; this is logged at a limited rate.
 */
struct kube_access *kube_config_get(struct kube_config *c, bool force);
void kube_config_put(struct kube_config *c, struct kube_access *a);
