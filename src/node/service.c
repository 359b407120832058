/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the guard, the jobs and the slots of detached work of a node; everything else is borrowed.
 */
#include "node/service.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/detached.h"
#include "common/keyed_hash.h"
#include "common/log.h"
#include "common/str.h"
#include "node/target/guard.h"
#include "node/work/job.h"

#define DEFAULT_FORMATS 2
/* NodeGetInfo waits twice at most, and kubelet is to register the driver within two seconds. */
#define DEFAULT_HOST_WAIT_MS 750
/* kubelet gives a stage two minutes: one that waits for two slow tools has half of them left. */
#define JOB_TURN_MS 60000

void node_init(struct node *n, const struct node_options *o)
{
	struct err later = ERR_INIT; /* node_boot_id() tells it */

	*n = (struct node) { .o = *o,
		             .guard = guard_new(),
		             .recovery = detached_slot_new(),
		             .preparer = detached_slot_new(),
		             .counter = detached_slot_new() };
	if (o->own_looks)
		snprintf(n->token, sizeof(n->token), "%016" PRIx64, hash_key_random().k0);
	if (o->proc_root)
		IGNORE_RESULT(node_boot_id(n, n->boot_id, &later));
	if (str_empty(n->o.virtiofs_type))
		n->o.virtiofs_type = "virtiofs";
	if (!n->o.max_formats)
		n->o.max_formats = DEFAULT_FORMATS;
	if (!n->o.host_wait_ms)
		n->o.host_wait_ms = DEFAULT_HOST_WAIT_MS;
	n->jobs = jobs_new(n->o.max_formats, n->o.job_turn_ms ? n->o.job_turn_ms : JOB_TURN_MS);
}

void node_wait_jobs(struct node *n, struct deadline d)
{
	struct err err = ERR_INIT;

	if (!jobs_wait(n->jobs, deadline_in_ms(0), &err))
		return;
	log_event(LOG_INFO, "waiting for tools before stopping", "running", err.msg, NULL);
	err_clear(&err);
	if (jobs_wait(n->jobs, d, &err))
		log_event(LOG_WARNING,
		          "stopping while tools run; they end with the container, and the next "
		          "stage of their volumes on this node repeats them",
		          "running", err.msg, NULL);
}

bool node_wait_host(const struct node *n, struct deadline d)
{
	return detached_slot_wait(n->recovery, d) && detached_slot_wait(n->preparer, d) &&
	       detached_slot_wait(n->counter, d) && !atomic_load(&n->walks);
}

void node_clear(struct node *n)
{
	n->recovery = detached_slot_free(n->recovery);
	n->preparer = detached_slot_free(n->preparer);
	n->counter = detached_slot_free(n->counter);
	n->guard = guard_free(n->guard);
	n->jobs = jobs_free(n->jobs);
}
