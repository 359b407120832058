/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy for the API server, by the rules of client-go (golang.org/x/net/http/httpproxy): the
 * kubeconfig's proxy-url applies to all requests, and the environment is used only without it. Pure
 * except for getenv(3).
 */
#pragma once

#include "common/err.h"

/*
 * Returns the proxy that the environment sets for this URL, in HTTPS_PROXY (HTTP_PROXY for an http
 * URL) or the lower-case form of this variable. Returns NULL if no proxy is set, if NO_PROXY
 * exempts the host, or if the host is this machine. The caller frees the result.
 */
char *kube_proxy_of_environment(const char *url);
/*
 * Returns 0, or -1 (INVALID_ARGUMENT) if client-go refuses the scheme of the proxy-url in the file
 * `path`.
 */
int kube_proxy_check(const char *path, const char *proxy, struct err *err) MUST_CHECK;
