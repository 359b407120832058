/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the Events of one object by its uid, and keeps one of them. Owns nothing beyond a call. */
#include "controller/object_events.h"

#include <stdlib.h>

#include "common/mem.h"
#include "dpf/conditions.h"
#include "dpf/core_event.h"

struct newest_warning {
	const char *uid;
	char *reason, *message, *at; /* owned; NULL: none yet */
};

static int keep_newest(void *arg, const struct json *item, struct err *err)
{
	struct newest_warning *w = arg;
	struct core_event e = core_event_decode(item);

	(void)err;
	if (!str_eq(e.about, w->uid) || !core_event_is_news(&e, w->at))
		return 0;
	free(w->reason);
	free(w->message);
	free(w->at);
	w->reason = xstrdup(e.reason);
	w->message = xstrdup(e.message);
	w->at = xstrdup(e.at);
	return 0;
}

bool object_events_describe(const struct controller *c, const struct json *object,
                            struct deadline d, struct str *out)
{
	struct newest_warning w = { .uid = json_str(object, "metadata.uid") };
	char *selector AUTO(free) = NULL;
	struct err err = ERR_INIT;
	bool exhausted = false;
	int rc;

	const char *hint = state_hint(object);

	selector = xasprintf("involvedObject.uid=%s", w.uid ? w.uid : "");
	rc = kube_list_fields(c->kube, &core_event_kind, c->namespace, selector, keep_newest, &w, d,
	                      &err);
	if (!w.message && *hint)
		str_addf(out, "; %s", hint);
	if (rc && err.code == ERR_PERMISSION)
		str_addf(out,
		         "; its Events may have details, but the driver is not permitted to list "
		         "events in namespace %s (manifests/base/rbac.yaml)",
		         c->namespace);
	if (w.message) {
		str_add(out, "; ");
		core_event_add_line(out, w.reason, w.message);
		exhausted = speaks_of_exhaustion(w.message);
	}
	free(w.reason);
	free(w.message);
	free(w.at);
	return exhausted;
}
