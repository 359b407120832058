/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host watch. The HTTP engine's thread receives the events (watch_event). The loop starts the due
 * steps, each on its own thread, so that a step that hangs does not delay other steps. A thread
 * scans the attached volumes. The main thread waits for a signal.
 *
 * The API has no selector for spec.dpuNodeName, so the attachments of all nodes in the namespace
 * are received; those of other nodes are not parsed.
 */
#include "host/commands.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/signals.h"
#include "common/thread.h"
#include "dpf/dpu_attachment.h"
#include "host/state_file.h"
#include "host/lock.h"
#include "host/watch_priv.h"

/*
 * Maximum number of concurrent steps. A step that has run for SLOW_MS is not included, because it
 * is waiting or hangs.
 */
#define STEPS_AT_ONCE 8
#define SLOW_MS 10000
#define TICK_MS 5000
#define SCAN_MS 5000

/* ---- a step on its thread ---- */

struct step {
	struct watch *w;
	struct tracked *f;
	struct watch_order order;
};

static void tell_end(const struct watch_order *o, const struct watch_outcome *r)
{
	static const char *const texts[] = {
		[TRACKED_ATTACHED] = "attached",
		[TRACKED_DETACHED] = "detached",
		[TRACKED_MANUAL_DETACH] = "not attached",
		[TRACKED_IGNORED] = "ignored by the configuration",
	};

	if (r->state == TRACKED_FAILED)
		log_event(LOG_WARNING,
		          o->step == STEP_ATTACH ? "cannot be attached yet"
		                                 : "cannot be detached yet",
		          "volume", o->volume, "error", r->why, NULL);
	else if (r->state != TRACKED_WAITING)
		log_event(LOG_INFO, texts[r->state], "volume", o->volume, "attachment", o->name,
		          "why", *r->why ? r->why : NULL, NULL);
}

static bool end_step(struct watch *w, struct tracked *f, const struct watch_outcome *r)
{
	int64_t now = monotonic_ns();
	bool to_log;

	WITH_LOCK(&w->lock);
	if (r->gone)
		tracked_gone(&w->table, f->uid, now);
	if (r->found)
		tracked_found(f);
	/* A step that was cancelled because the attachment has changed has not failed. */
	to_log = !(f->changed && r->state == TRACKED_FAILED);
	to_log &= tracked_done(&w->table, f, r->state, r->why, now);
	w->steps--;
	w->notified = true;
	wait_queue_wake(&w->changed);
	return to_log;
}

static void *run_step(void *arg)
{
	struct step *s AUTO(free) = arg;
	struct watch_outcome r;
	struct running_call call = { .table = NULL };
	struct watch_order told = s->order;
	char *volume AUTO(free) = xstrdup(s->order.volume),
		     *name AUTO(free) = xstrdup(s->order.name);

	pthread_setname_np(pthread_self(), "step");
	running_begin(s->w->running, &call, told.step == STEP_ATTACH ? "attach" : "detach");
	running_about(&call, volume);
	running_on_thread(&call);
	watch_step(s->w, &s->order, &r);
	running_end(&call);
	told.volume = volume;
	told.name = name;
	/* read before end_step(), which may free the entry and its strings */
	if (end_step(s->w, s->f, &r))
		tell_end(&told, &r);
	return NULL;
}

/* Starts a step. Returns false if no thread can be started. */
static bool start_step_locked(struct watch *w, struct tracked *f, int64_t now)
{
	struct step *s = xcalloc(1, sizeof(*s));

	assert_locked(&w->lock);
	tracked_start(f, now);
	*s = (struct step) { .w = w,
		             .f = f,
		             .order = { .step = tracked_step(f),
		                        .name = f->name,
		                        .uid = f->uid,
		                        .volume = f->volume,
		                        .missing = f->missing,
		                        .gone = f->gone,
		                        .cancel = &f->cancel } };
	if (thread_start(run_step, s)) {
		free(s);
		tracked_done(&w->table, f, TRACKED_FAILED, "cannot start a thread", now);
		return false;
	}
	w->steps++;
	return true;
}

/* ---- the loop ---- */

static bool has_room_locked(const struct watch *w, int64_t now)
{
	unsigned fresh = 0;

	assert_locked((pthread_mutex_t *)&w->lock);
	for (const struct tracked *f = w->table.first; f; f = f->next)
		fresh += f->running && now - f->since < SLOW_MS * NS_PER_MS;
	return fresh < STEPS_AT_ONCE;
}

static void start_due_locked(struct watch *w)
{
	int64_t now = monotonic_ns();
	struct tracked *f;

	assert_locked(&w->lock);
	while (has_room_locked(w, now) && (f = tracked_due(&w->table, now, NULL)))
		if (tracked_step(f) == STEP_NOTHING)
			tracked_idle(f);
		else if (!start_step_locked(w, f, now))
			break;
}

/* Waits for a notification, for the next due step, or for the next message to systemd. */
static void watch_wait_locked(struct watch *w, int64_t most_ms)
{
	struct deadline until = deadline_in_ms(most_ms);
	int64_t at;

	assert_locked(&w->lock);
	IGNORE_RESULT(tracked_due(&w->table, monotonic_ns(), &at));
	if (at < until.at)
		until.at = at;
	while (!w->notified && !w->stop && wait_queue_wait(&w->changed, &w->lock, until))
		;
	w->notified = false;
}

/* Returns unused memory to the system after a burst of steps. */
static void watch_trim(struct watch *w, bool *work)
{
	bool idle;

	{
		WITH_LOCK(&w->lock);
		idle = !w->steps;
	}
	if (idle && *work)
		malloc_trim(0);
	*work = !idle;
}

static void watch_restore_all(struct watch *w);

static void *watch_loop(void *arg)
{
	struct watch *w = arg;
	struct watch_notify tell = { .begun = false };
	bool remembered = false, complete, work = false, stop = false;

	pthread_setname_np(pthread_self(), "loop");
	while (!stop) {
		{
			WITH_LOCK(&w->lock);
			start_due_locked(w);
			complete = w->complete;
			stop = w->stop;
		}
		if (complete && !remembered) {
			watch_restore_all(w);
			remembered = true;
			continue;
		}
		watch_notify(w, &tell);
		watch_trim(w, &work);
		{
			WITH_LOCK(&w->lock);
			watch_wait_locked(w, tell.watchdog_ms && tell.watchdog_ms < TICK_MS
			                             ? tell.watchdog_ms
			                             : TICK_MS);
		}
	}
	watch_notify_end(&tell);
	return NULL;
}

static void *watch_scan_loop(void *arg)
{
	struct watch *w = arg;
	struct deadline until;
	bool stop;

	pthread_setname_np(pthread_self(), "scan");
	do {
		watch_scan(w);
		watch_poll(w);
		WITH_LOCK(&w->lock);
		until = deadline_in_ms(SCAN_MS);
		while (!w->stop && wait_queue_wait(&w->changed, &w->lock, until))
			;
		stop = w->stop;
	} while (!stop);
	return NULL;
}

/* ---- the state files of an earlier watch ---- */

/*
 * Removes the state file of an earlier boot, after which nothing is attached, unless a command uses
 * the file.
 */
static void watch_remove_outdated(const struct watch *w, const char *volume)
{
	struct host_lock lock AUTO(host_lock_release) = HOST_LOCK_INIT;
	struct host_state is AUTO(host_state_clear) = { .tree = NULL };
	struct err ignored = ERR_INIT;

	if (!host_lock_take(&lock, w->a->state_dir, volume, volume, deadline_in_ms(1), &ignored) &&
	    host_state_read(w->a->state_dir, w->scan_node.boot, volume, &is, &ignored) ==
	            HOST_STATE_NONE)
		IGNORE_RESULT(host_state_remove(w->a->state_dir, volume, &ignored));
}

/*
 * Called once all attachments are known. Restores the entry of a volume whose attachment may have
 * been deleted while no `host watch` ran. Ignores a state file of another node, of another
 * namespace, or of a command that a user has run.
 */
static void watch_restore(struct watch *w, const char *volume)
{
	struct host_state is AUTO(host_state_clear) = { .tree = NULL };
	struct err err = ERR_INIT;
	int rc = host_state_read(w->a->state_dir, w->scan_node.boot, volume, &is, &err);

	if (rc < 0)
		log_event(LOG_WARNING, "a record cannot be read", "volume", volume, "error",
		          err.msg, NULL);
	if (rc)
		watch_remove_outdated(w, volume);
	if (rc || !str_eq(is.watched, w->a->namespace) || !str_eq(is.node, w->a->node))
		return;
	WITH_LOCK(&w->lock);
	tracked_restore(&w->table, is.attachment, is.uid, is.volume, monotonic_ns());
}

static void watch_restore_all(struct watch *w)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;

	if (host_state_list(w->a->state_dir, &names, &err))
		log_event(LOG_WARNING, "the records cannot be read", "error", err.msg, NULL);
	for (size_t i = 0; i < names.n; i++)
		watch_restore(w, names.v[i]);
}

/* ---- start and end ---- */

static void stop_all(struct watch *w)
{
	cancel_set(&w->stopping);
	WITH_LOCK(&w->lock);
	w->stop = true;
	for (struct tracked *f = w->table.first; f; f = f->next)
		if (f->running)
			cancel_set(&f->cancel);
	wait_queue_wake(&w->changed);
}

/* Waits for running steps. The signal thread logs and abandons steps that do not end. */
static void wait_for_steps(struct watch *w)
{
	WITH_LOCK(&w->lock);
	while (w->steps)
		IGNORE_RESULT(wait_queue_wait(&w->changed, &w->lock, deadline_never()));
}

static void watch_begin(struct watch *w)
{
	struct kube_follow *f =
		kube_follow(w->kube, &dpu_attachment_kind, w->a->namespace, watch_event, w);

	WITH_LOCK(&w->lock);
	w->follow = f;
}

static int watch_follow(struct watch *w, struct signals *signals, struct err *err)
{
	pthread_t loop_thread, scan_thread;
	int rc = pthread_create(&scan_thread, NULL, watch_scan_loop, w);

	if (rc)
		return err_sys_of(err, ERR_CALL_TASK, rc, "start a thread");
	rc = pthread_create(&loop_thread, NULL, watch_loop, w);
	if (!rc) {
		watch_begin(w);
		log_event(LOG_INFO, "watching", "node", w->a->node, "namespace", w->a->namespace,
		          NULL);
		signals_wait(signals);
	}
	stop_all(w);
	pthread_join(scan_thread, NULL);
	if (!rc)
		pthread_join(loop_thread, NULL);
	wait_for_steps(w);
	return rc ? err_sys_of(err, ERR_CALL_TASK, rc, "start a thread") : 0;
}

static int watch_with_signals(struct watch *w, struct err *err)
{
	const struct kube_options o = { .kubeconfig = w->a->kubeconfig,
		                        .user_agent = "snap-csi-host/" SNAP_CSI_VERSION };
	struct signals signals = { .end_at = 0 };
	int rc;

	signals_block(&signals);
	w->running = running_new(RUNNING_HUNG_MS);
	if (log_start(err) || signals_start(&signals, w->running, err))
		return -1;
	rc = kube_new(&o, &w->kube, err);
	if (!rc)
		rc = watch_follow(w, &signals, err);
	w->kube = kube_free(w->kube);
	signals_end(&signals);
	return rc;
}

/* Takes the lock, because two processes that watch the same attachments would conflict. */
static int lock_watch(const struct watch *w, struct host_lock *lock, struct err *err)
{
	char name[64] = HOST_WATCH_LOCK;
	char *what AUTO(free) = xasprintf("the attachments of node %s in namespace %s", w->a->node,
	                                  w->a->namespace);

	fnv128_hex(w->a->namespace, w->a->node, name + strlen(name));
	return dir_make(w->a->state_dir, 0700, err) || host_lock_take(lock, w->a->state_dir, name,
	                                                              what, deadline_in_ms(1), err)
	               ? -1
	               : 0;
}

int host_watch(const struct host_args *a, struct err *err)
{
	struct watch w = { .a = a, .config = WATCH_CONFIG_INIT };
	struct host_lock lock AUTO(host_lock_release) = HOST_LOCK_INIT;
	int rc;

	pthread_mutex_init(&w.lock, NULL);
	cancel_init(&w.stopping);
	rc = watch_config_read(a->config, &w.config, err);
	if (!rc)
		rc = lock_watch(&w, &lock, err);
	if (!rc) {
		rc = host_node_begin(&w.scan_node, a, EMULATION_NVME, false, "", err);
		if (!rc)
			rc = watch_with_signals(&w, err);
		host_node_end(&w.scan_node);
	}
	tracked_clear(&w.table);
	running_free(w.running);
	watch_config_clear(&w.config);
	pthread_mutex_destroy(&w.lock);
	cancel_destroy(&w.stopping);
	return rc;
}
