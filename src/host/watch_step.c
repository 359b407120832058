/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Re-reads an attachment before attaching it, and before treating a missing one as deleted, because
 * the last event may be outdated. A detach of a deleted attachment needs no read, so it works even
 * if the API server is unreachable.
 */
#include "host/watch_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "dpf/dpu_attachment.h"
#include "host/commands.h"
#include "host/manual_detach.h"

/*
 * Time limit of one try, in ms. The volume's lock is held during a try, and a command that a user
 * has run may wait for it.
 */
#define TRY_MS 30000

static struct deadline end_of_try(const struct watch *w, const struct watch_order *o)
{
	struct deadline d = deadline_in_ms(w->a->timeout_ms < TRY_MS ? w->a->timeout_ms : TRY_MS);

	d.cancel = o->cancel;
	return d;
}

static void step_set_outcome(struct watch_outcome *ret, enum tracked_state state, const char *why)
{
	ret->state = state;
	snprintf(ret->why, sizeof(ret->why), "%.*s", (int)sizeof(ret->why) - 1, why);
}

/* Re-reads the attachment. Returns KUBE_ABSENT if there is no attachment with this name and UID. */
static int step_read_again(struct watch *w, const struct watch_order *o,
                           struct attachment_file *ret, struct err *err)
{
	struct json *tree = NULL;
	int rc = kube_get(w->kube, &dpu_attachment_kind, w->a->namespace, o->name, end_of_try(w, o),
	                  &tree, err);

	if (rc)
		return rc < 0 ? err_wrap(err, "attachment %s", o->name) : rc;
	if (!str_eq(dpu_attachment_key(tree).uid, o->uid)) {
		json_free(tree);
		return KUBE_ABSENT;
	}
	attachment_take(tree, ret);
	return 0;
}

static int step_attach_object(struct watch *w, const struct watch_order *o,
                              const struct attachment_file *f, struct watch_outcome *ret,
                              struct err *err)
{
	struct str said AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	char *mount AUTO(free) = NULL;
	struct host_args a;
	int rc;

	if (watch_config_way(&w->config, o->volume, w->a, &a, &mount)) {
		step_set_outcome(ret, TRACKED_IGNORED, "");
		return 0;
	}
	a.watched = w->a->namespace;
	rc = host_attach_object(&a, f, end_of_try(w, o), &said, err);
	if (rc < 0)
		return -1;
	/* If it is not ready any more, the event that reports this will arrive later. */
	step_set_outcome(ret, rc ? TRACKED_WAITING : TRACKED_ATTACHED, rc ? said.ptr : "");
	return 0;
}

static int step_attach(struct watch *w, const struct watch_order *o, struct watch_outcome *ret,
                       struct err *err)
{
	struct attachment_file f AUTO(attachment_file_clear) = { .tree = NULL };
	struct err why = ERR_INIT;
	int rc;

	if (manual_detach_applies(w->a->state_dir, w->scan_node.boot, o->volume, o->uid, &why)) {
		step_set_outcome(ret, TRACKED_MANUAL_DETACH,
		                 "was detached by hand: \"host resume\" ends that");
		return 0;
	}
	rc = step_read_again(w, o, &f, err);
	if (rc < 0)
		return -1;
	if (rc) {
		ret->gone = true;
		step_set_outcome(ret, TRACKED_FAILED, "no longer exists");
		return 0;
	}
	if (*f.fault)
		return err_set(err, ERR_UNAVAILABLE, "attachment %s: %s", o->name, f.fault);
	return step_attach_object(w, o, &f, ret, err);
}

static int step_detach(struct watch *w, const struct watch_order *o, struct watch_outcome *ret,
                       struct err *err)
{
	struct attachment_file f AUTO(attachment_file_clear) = { .tree = NULL };
	int rc = o->missing ? step_read_again(w, o, &f, err) : 0;

	if (rc < 0)
		return -1;
	if (o->missing && !rc) {
		ret->found = true;
		step_set_outcome(ret, TRACKED_WAITING, "");
		return 0;
	}
	ret->gone = o->gone || o->missing;
	if (host_detach_attachment(w->a, o->volume, o->uid, ret->gone, end_of_try(w, o), err))
		return -1;
	step_set_outcome(ret, TRACKED_DETACHED, "");
	return 0;
}

void watch_step(struct watch *w, const struct watch_order *o, struct watch_outcome *ret)
{
	struct err err = ERR_INIT;
	int rc;

	*ret = (struct watch_outcome) { .state = TRACKED_FAILED };
	rc = o->step == STEP_ATTACH ? step_attach(w, o, ret, &err) : step_detach(w, o, ret, &err);
	if (rc)
		step_set_outcome(ret, TRACKED_FAILED, err.msg);
}
