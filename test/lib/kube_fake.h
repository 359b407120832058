/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Kubernetes client and, as its API server, the scripted server of fake_http.h; every test of the
 * client starts with it.
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

/* tuning: NULL for short pauses and small pages. */
void kube_fake_start(struct kube_fake *f, const struct kube_tuning *tuning);
/* Stops client and server and removes the directory. Close all waits first. */
void kube_fake_stop(struct kube_fake *f);
/*
 * Writes the kubeconfig, also again: server URL, `cluster` and `user` further YAML lines, each
 * ending in a line feed.
 */
void kube_fake_config(struct kube_fake *f, const char *url, const char *cluster, const char *user);
/* Writes a file in the directory. The client checks it at the next request. */
void kube_fake_file(struct kube_fake *f, const char *name, const char *text);

extern const struct kube_kind kind_volume; /* dpuvolumes of storage.dpu.nvidia.com/v1alpha1 */
#define VOLUMES "/apis/storage.dpu.nvidia.com/v1alpha1/namespaces/ns/dpuvolumes"
/* A Status body, about the volume of that name, or about volume a. */
#define STATUS_OF(name, reason, message)                                                      \
	"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","  \
	"\"reason\":\"" reason "\",\"message\":\"" message "\",\"details\":{\"name\":\"" name \
	"\",\"group\":\"storage.dpu.nvidia.com\",\"kind\":\"dpuvolumes\"}}"
#define STATUS(reason, message) STATUS_OF("a", reason, message)
