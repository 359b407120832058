/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DPF against another API server (--kubeconfig): the store is a copy of that server's objects,
 * which a list and a watch of each kind keep up to date. DPF's writes go to that server instead of
 * into the store.
 */
#pragma once

#include "common/json.h"
#include "test/sim/base/sim.h"
#include "test/sim/store/store.h"

struct mirror;

/*
 * Reads the kubeconfig, lists every kind and starts to watch. UNAVAILABLE if the API server does
 * not answer for some seconds.
 */
int mirror_new(struct sim *sim, const char *kubeconfig, struct mirror **ret, struct err *err)
	MUST_CHECK;
/* Ends all requests and threads; after that mirror_write() does nothing. NULL is fine. */
void mirror_stop(struct mirror *m);
/* After mirror_stop(). NULL is fine; returns NULL. */
struct mirror *mirror_free(struct mirror *m);
/* Whether the objects of this kind are on the other server. */
bool mirror_has(const struct api_resource *res);
/*
 * Writes the change from v to `o` to the other server: the finalizers if they differ, else the
 * status. Blocks. If another writer was faster, or the object was deleted, nothing is written; DPF
 * receives an event about it.
 */
void mirror_write(struct mirror *m, const struct object_version *v, const struct json *o);
/* Creates an object there, of any kind; a failure is only logged. Blocks. */
void mirror_create(struct mirror *m, const struct api_resource *res, const struct json *o);
