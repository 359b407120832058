/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of names, and the thread that processes it. node_taint.c re-reads the node and decides
 * whether the taint is removed, so an unneeded name costs only a request.
 *
 * A name whose check fails stays in the queue and is retried after a pause. When the queue is full,
 * all Nodes are read instead.
 */
#include "controller/startup_taint.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/metric.h"
#include "common/str.h"
#include "common/wait_queue.h"
#include "controller/node_taint.h"
#include "dpf/dpu_node.h"
#include "kube/kube_event.h"
#include "kube/kube_follow.h"

#define PAGE_MS 60000
#define PAGE 50
#define RETRY_MS 1000
#define RETRY_MOST_MS 60000
#define REQUEST_MS 30000

struct startup_taint {
	struct startup_taint_options o;
	char *key;
	struct cancel cancel;
	pthread_t thread;
	pthread_mutex_t lock;
	struct wait_queue changed;
	/* The fields below are guarded by the lock. */
	bool stopping;
	bool read_all; /* all Nodes have to be read at once */
	char *names[STARTUP_TAINT_NAMES];
	size_t n_names;
	/* The fields below are used only by the thread. */
	bool reading_all;
	char *token;     /* token of the next page; NULL: the first page */
	int64_t page_at; /* monotonic ns */
	int failures;    /* consecutive failures */
	int64_t retry_at;
};

/* ---- the queue ---- */

static void add_name_locked(struct startup_taint *t, const char *name)
{
	assert_locked(&t->lock);
	for (size_t i = 0; i < t->n_names; i++)
		if (str_eq(t->names[i], name))
			return;
	if (t->n_names == ARRAY_LEN(t->names))
		t->read_all = true;
	else
		t->names[t->n_names++] = xstrdup(name);
	wait_queue_wake(&t->changed);
}

static void add_name(struct startup_taint *t, const char *name)
{
	WITH_LOCK(&t->lock);
	add_name_locked(t, name);
}

/* Removes and returns the oldest name, malloc'ed; NULL if the queue is empty. */
static char *pop_name_locked(struct startup_taint *t)
{
	char *name = t->names[0];

	assert_locked(&t->lock);
	if (!t->n_names)
		return NULL;
	t->n_names--;
	memmove(&t->names[0], &t->names[1], t->n_names * sizeof(t->names[0]));
	return name;
}

/* ---- events of CSINodes, on the HTTP engine's thread ---- */

/* Returns true if a CSINode contains the driver's name; only such a CSINode is queued. */
static bool speaks_of(struct line_span drivers, const char *driver)
{
	return drivers.n && memmem(drivers.at, drivers.n, driver, strlen(driver));
}

static void on_csi_node(struct startup_taint *t, struct line_span object)
{
	struct kube_member top[] = { { .name = "metadata" }, { .name = "spec" } };
	struct kube_member meta[] = { { .name = "name" } }, spec[] = { { .name = "drivers" } };
	struct line_span text;
	char *name AUTO(free) = NULL;

	if (!kube_members(object, top, ARRAY_LEN(top)) ||
	    !kube_members(top[0].value, meta, ARRAY_LEN(meta)) ||
	    !kube_members(top[1].value, spec, ARRAY_LEN(spec)) ||
	    !kube_plain_text(meta[0].value, &text) || !speaks_of(spec[0].value, t->o.driver))
		return;
	name = xstrndup(text.at, text.n);
	add_name(t, name);
}

static void on_csi_node_event(void *arg, enum kube_follow_event event, const char *text, size_t n)
{
	struct startup_taint *t = arg;

	if (event == KUBE_FOLLOW_CHANGED)
		on_csi_node(t, (struct line_span) { text, n });
	if (event == KUBE_FOLLOW_REFUSED)
		log_limited(
			LOG_WARNING, 600,
			"--startup-taint: CSINodes cannot be watched, so taints are removed late "
			"(manifests/components/startup-taint has the rights): %.*s",
			(int)n, text);
	/* Earlier registrations are found by reading all Nodes, later ones by events. */
	if (event == KUBE_FOLLOW_COMPLETE) {
		WITH_LOCK(&t->lock);
		t->read_all = true;
		wait_queue_wake(&t->changed);
	}
}

/* ---- the thread ---- */

static struct deadline one_request(struct startup_taint *t)
{
	return (struct deadline) { .at = deadline_in_ms(REQUEST_MS).at, .cancel = &t->cancel };
}

static void startup_taint_failed(struct startup_taint *t, const struct err *err)
{
	int first = t->o.retry_ms ? t->o.retry_ms : RETRY_MS;
	int64_t ms = (int64_t)first << (t->failures < 16 ? t->failures : 16);

	t->failures++;
	t->retry_at = monotonic_ns() + (ms < RETRY_MOST_MS ? ms : RETRY_MOST_MS) * NS_PER_MS;
	if (cancel_is_set(&t->cancel))
		return;
	metric_add(METRIC_STARTUP_TAINTS, 1, LABELS("failed"));
	log_limited(LOG_WARNING, 60, "--startup-taint: %s; retrying", err->msg);
}

static void remove_taint(struct startup_taint *t, const char *name)
{
	struct err err = ERR_INIT;
	int rc = node_taint_remove(t->o.kube, t->o.driver, name, one_request(t), &err);

	if (rc < 0) {
		startup_taint_failed(t, &err);
		add_name(t, name);
		return;
	}
	t->failures = 0;
	if (rc)
		return;
	metric_add(METRIC_STARTUP_TAINTS, 1, LABELS("ok"));
	log_event(LOG_INFO, "the driver is registered, so the node's start-up taint is removed",
	          "node", name, "taint", t->key, NULL);
}

static int on_node(void *arg, const struct json *node, struct err *err)
{
	struct startup_taint *t = arg;
	const char *name = json_str(node, "metadata.name");

	(void)err;
	if (name && node_taint_is_on(node, t->key))
		add_name(t, name);
	return 0;
}

static void read_node_page(struct startup_taint *t)
{
	struct err err = ERR_INIT;
	char *next AUTO(free) = NULL;
	int rc = kube_list_page(t->o.kube, &core_node_kind, NULL, t->o.page ? t->o.page : PAGE,
	                        t->token, on_node, t, &next, one_request(t), &err);

	t->page_at = monotonic_ns() + (t->o.page_ms ? t->o.page_ms : PAGE_MS) * NS_PER_MS;
	if (rc < 0) {
		startup_taint_failed(t, &err);
		return;
	}
	t->failures = 0;
	free(TAKE(t->token));
	if (rc == 0 && !str_empty(next))
		t->token = TAKE(next);
	else if (rc == 0)
		t->reading_all = false;
}

static void start_over_locked(struct startup_taint *t)
{
	assert_locked(&t->lock);
	if (!t->read_all)
		return;
	t->read_all = false;
	t->reading_all = true;
	free(TAKE(t->token));
}

/*
 * Waits for work. Returns false if the thread has to end. Otherwise *ret is a name to check,
 * malloc'ed, or NULL if a page has to be read.
 */
static bool await_work(struct startup_taint *t, char **ret)
{
	WITH_LOCK(&t->lock);
	while (!t->stopping) {
		int64_t now = monotonic_ns(), at;

		start_over_locked(t);
		/*
		 * Queued names take precedence until the next page is due, so that a node whose
		 * check always fails does not stop the scan.
		 */
		if (now >= t->retry_at && now < t->page_at && (*ret = pop_name_locked(t)))
			return true;
		at = t->n_names || t->reading_all || t->page_at < t->retry_at ? t->retry_at
		                                                              : t->page_at;
		if (now >= at)
			return true;
		IGNORE_RESULT(
			wait_queue_wait(&t->changed, &t->lock, (struct deadline) { at, NULL }));
	}
	return false;
}

static void *run_startup_taint(void *arg)
{
	struct startup_taint *t = arg;
	char *name = NULL;

	pthread_setname_np(pthread_self(), "startup-taint");
	while (await_work(t, &name)) {
		if (name)
			remove_taint(t, name);
		else
			read_node_page(t);
		free(TAKE(name));
	}
	return NULL;
}

/* ---- life ---- */

int startup_taint_start(const struct startup_taint_options *o, struct startup_taint **ret,
                        struct err *err)
{
	struct startup_taint *t = xcalloc(1, sizeof(*t));
	int rc;

	t->o = *o;
	t->key = node_taint_key(o->driver);
	/* The first page is read when the watch has begun, or when it cannot begin. */
	t->page_at = monotonic_ns() + (o->page_ms ? o->page_ms : PAGE_MS) * NS_PER_MS;
	cancel_init(&t->cancel);
	pthread_mutex_init(&t->lock, NULL);
	rc = pthread_create(&t->thread, NULL, run_startup_taint, t);
	if (rc) {
		startup_taint_free(t);
		return err_sys_of(err, ERR_CALL_TASK, rc,
		                  "start the thread that removes start-up taints");
	}
	kube_follow(o->kube, &csi_node_kind, NULL, on_csi_node_event, t);
	*ret = t;
	return 0;
}

void startup_taint_stop(struct startup_taint *t)
{
	if (!t)
		return;
	{
		WITH_LOCK(&t->lock);
		t->stopping = true;
		wait_queue_wake(&t->changed);
	}
	cancel_set(&t->cancel);
	pthread_join(t->thread, NULL);
}

struct startup_taint *startup_taint_free(struct startup_taint *t)
{
	if (!t)
		return NULL;
	for (size_t i = 0; i < t->n_names; i++)
		free(t->names[i]);
	free(t->token);
	free(t->key);
	pthread_mutex_destroy(&t->lock);
	cancel_destroy(&t->cancel);
	free(t);
	return NULL;
}
