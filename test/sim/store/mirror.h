/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DPF against another API server (--kubeconfig): the store is a copy of that server's objects, kept
 * up by a list and a watch of each kind, and what DPF writes goes there instead of into the store.
 */
#pragma once

#include "common/json.h"
#include "test/sim/base/sim.h"
#include "test/sim/store/store.h"

struct mirror;

/*
 * Reads the kubeconfig, lists every kind once (an API server that stays away for seconds is an
 * error here) and starts watching.
 */
int mirror_new(struct sim *sim, const char *kubeconfig, struct mirror **ret, struct err *err)
	MUST_CHECK;
/* Ends every request and the threads; mirror_write() does nothing from then on. NULL is fine. */
void mirror_stop(struct mirror *m);
/* After mirror_stop(). NULL is fine; returns NULL. */
struct mirror *mirror_free(struct mirror *m);
/* Whether DPF's objects of this kind live on the other server. */
bool mirror_has(const struct api_resource *res);
/*
 * Carries the change from v to `o` to the other server: its finalizers, else its status. Blocks.
 * Refused because somebody was faster, or the object is gone: nothing, an event brings DPF back.
 */
void mirror_write(struct mirror *m, const struct object_version *v, const struct json *o);
