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
#include "node/holders/holders.h"
#include "node/target/guard.h"
#include "node/work/job.h"

#define DEFAULT_FORMATS 2

static void set_default(int64_t *ms, int64_t value)
{
	if (!*ms)
		*ms = value;
}

static void complete_tuning(struct node_tuning *t)
{
	set_default(&t->busy_ms, 1000);
	set_default(&t->unstaging_ms, 3000);
	set_default(&t->lock_ms, 1000);
	/* Leaves time for hotplug scripts and the kernel's probing. */
	set_default(&t->settle_ms, 1000);
	/* half of kubelet's deadline for a stage, which is two minutes */
	set_default(&t->job_turn_ms, 60000);
	/*
	 * NodeGetInfo waits for this time at most twice, and the driver must register with kubelet
	 * within 2 s.
	 */
	set_default(&t->host_wait_ms, 750);
	set_default(&t->guard_ms, 3000);
	set_default(&t->unpublish_ms, 2000);
	set_default(&t->holders_ms, HOLDERS_MS);
	set_default(&t->holders_files, HOLDERS_FILES);
}

void node_init(struct node *n, const struct node_options *o)
{
	struct err later = ERR_INIT; /* node_boot_id() will report the error */

	*n = (struct node) { .o = *o,
		             .guard = guard_new(&n->o.tuning.guard_ms),
		             .recovery = detached_slot_new(),
		             .preparer = detached_slot_new(),
		             .counter = detached_slot_new() };
	if (o->own_probes)
		snprintf(n->token, sizeof(n->token), "%016" PRIx64, hash_key_random().k0);
	if (o->proc_root)
		IGNORE_RESULT(node_boot_id(n, n->boot_id, &later));
	if (str_empty(n->o.virtiofs_type))
		n->o.virtiofs_type = "virtiofs";
	if (!n->o.max_formats)
		n->o.max_formats = DEFAULT_FORMATS;
	complete_tuning(&n->o.tuning);
	n->jobs = jobs_new(n->o.max_formats, n->o.tuning.job_turn_ms);
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
		          "stopping while tools run; the tools end with the container, and the "
		          "next stage of each volume on this node repeats its tool",
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
