/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ListVolumes and ControllerGetVolume in plain structs. Both only read, and keep no state.
 *
 * A volume is every DPUVolume of the namespace that has been bound at some time or is attached. Its
 * creator does not matter: this driver, the Go plugin or a user. A DPUVolume that is being deleted
 * is a volume until it is deleted. A DPUVolume that is being created is not yet a volume, because
 * no client can have its id.
 */
#pragma once

#include "common/kv.h"
#include "common/mem.h"
#include "controller/controller.h"

/* Allocated in the call's arena. */
struct listed_volume {
	const char *id;
	int64_t capacity; /* bytes; 0: not known */
	struct kvs context;
	const char **nodes; /* nodes to which the DPU has attached the volume, each once */
	size_t n_nodes;
};

struct volume_page {
	struct listed_volume *v;
	size_t n;
	const char *next; /* "": this is the last page */
};

/*
 * Returns at most `most` volumes (0: the page size of the API), from the position of `token`. Sends
 * one list request to the API server; the nodes come from the index of attachments. ABORTED if the
 * driver has not issued the token, or if the API server no longer knows it. UNAVAILABLE if the
 * nodes of the volumes are unknown, because the attachments cannot be watched.
 */
int volume_list(const struct controller *c, size_t most, const char *token, struct deadline d,
                struct arena *arena, struct volume_page *ret, struct err *err) MUST_CHECK;
/* Reads one volume and its attachments. NOT_FOUND if it does not exist. */
int volume_get(const struct controller *c, const char *id, struct deadline d, struct arena *arena,
               struct listed_volume *ret, struct err *err) MUST_CHECK;
