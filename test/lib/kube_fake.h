/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Kubernetes client whose API server is a scripted one: what every test of the client starts
 * with.
 */
#pragma once

#include "kube/kube_priv.h"
#include "test/lib/fake_http.h"

struct kube_fake {
	struct fake_http *server;
	struct kube *kube;
	char dir[64]; /* temporary, with the kubeconfig in it */
	char kubeconfig[128];
};

/* Short pauses and small pages unless the caller has its own. */
void kube_fake_start(struct kube_fake *f, const struct kube_tuning *tuning);
/* After the tests' own waits are closed: stops both, removes the directory. */
void kube_fake_stop(struct kube_fake *f);
/*
 * Writes (anew) the kubeconfig: server URL, `cluster` and `user` further YAML lines, each ending in
 * \n.
 */
void kube_fake_config(struct kube_fake *f, const char *url, const char *cluster, const char *user);
/* A file in the directory. */
void kube_fake_file(struct kube_fake *f, const char *name, const char *text);

extern const struct kube_kind kind_volume; /* dpuvolumes of storage.dpu.nvidia.com/v1alpha1 */
#define VOLUMES "/apis/storage.dpu.nvidia.com/v1alpha1/namespaces/ns/dpuvolumes"
/* A Status body. */
#define STATUS(reason, message)                                                              \
	"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\"," \
	"\"reason\":\"" reason "\",\"message\":\"" message "\",\"details\":{\"name\":\"a\"}}"
