/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ListVolumes and ControllerGetVolume in plain structs. Both only read, and keep nothing.
 *
 * A volume is every DPUVolume of the namespace that has been bound once or is attached. It
 * does not matter who made it: this driver, the Go plugin, a person. One that is being deleted is a
 * volume until it is gone. One that is being made, and that nobody can have, is none.
 */
#pragma once

#include "common/kv.h"
#include "common/mem.h"
#include "controller/controller.h"

/* In the arena of the call. */
struct listed_volume {
	const char *id;
	int64_t capacity; /* bytes; 0: not known */
	struct kvs context;
	const char **nodes; /* on which the DPU has attached it, each once */
	size_t n_nodes;
};

struct volume_page {
	struct listed_volume *v;
	size_t n;
	const char *next; /* "": there are no more */
};

/*
 * At most `most` volumes (0: as many as a page of the API has) from where `token` says. One list of
 * the API server; the nodes come from the index of attachments. ABORTED: the token is not ours, or
 * the API server does not know it any more. UNAVAILABLE: nobody knows which volume is on which
 * node, since the attachments cannot be watched.
 */
int volume_list(const struct controller *c, size_t most, const char *token, struct deadline d,
                struct arena *arena, struct volume_page *ret, struct err *err) MUST_CHECK;
/* One volume; its attachments are read. NOT_FOUND. */
int volume_get(const struct controller *c, const char *id, struct deadline d, struct arena *arena,
               struct listed_volume *ret, struct err *err) MUST_CHECK;
