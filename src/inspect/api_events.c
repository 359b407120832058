/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads Warnings about the objects of a report, because DPF writes a vendor's answers into Events,
 * not into a condition. Sends one list per kind, because the API server reads all Events of the
 * namespace for any selector. api_state.c derives findings from the Warnings.
 */
#include "inspect/api_scan.h"

#include <stdlib.h>

#include "common/mem.h"
#include "common/str.h"
#include "dpf/dpu_attachment.h"
#include "dpf/dpu_volume.h"

/*
 * An attempt of CreateVolume takes up to two minutes, and csi-provisioner pauses up to five minutes
 * before the next attempt. An older Event is about a deleted claim.
 */
#define EARLIER_S 600

static void events_keep(struct json *facts, const char *member, const struct api_eye *eye,
                        const struct core_event *e)
{
	if (core_event_is_news(e, json_str(json_member(facts, member), "at")))
		json_set(facts, member, api_warning_facts(eye, e));
}

/*
 * Returns true for an Event about a volume that the vendor has refused, and that CreateVolume
 * removed before it answered.
 */
static bool is_of_refused_volume(const struct api_scan *l, const struct core_event *e)
{
	struct json *facts AUTO(json_free) = NULL;
	int64_t age;

	if (!speaks_of_exhaustion(e->message) || !dns1123_subdomain(e->name) ||
	    !inspect_wants(l->o, e->name))
		return false;
	facts = api_warning_facts(&l->eye, e);
	age = api_seconds(facts, "age");
	return age >= 0 && age <= EARLIER_S;
}

static int events_read_of_volume(void *arg, const struct json *item, struct err *err)
{
	struct api_scan *l = arg;
	struct core_event e = core_event_decode(item);
	struct json *volume = inspect_volume_known(l->r, e.name);
	struct json *facts = volume ? json_at_mut(volume, "api.volume") : NULL;

	(void)err;
	api_read_clock(l);
	if (facts && str_eq(api_text(facts, "uid"), e.about))
		events_keep(facts, "warning", &l->eye, &e);
	else if (is_of_refused_volume(l, &e))
		events_keep(json_sub(inspect_volume(l->r, e.name), "api"), "earlierWarning",
		            &l->eye, &e);
	return 0;
}

static int events_read_of_attachment(void *arg, const struct json *item, struct err *err)
{
	struct api_scan *l = arg;
	struct core_event e = core_event_decode(item);
	const char *id = api_names_find(&l->attached, e.about);
	struct json *volume = id ? inspect_volume_known(l->r, id) : NULL;
	size_t i = 0;

	(void)err;
	json_foreach (a, json_at(volume, "api.attachments")) {
		char path[64];

		snprintf(path, sizeof(path), "api.attachments.%zu", i++);
		if (str_eq(api_text(a, "uid"), e.about))
			events_keep(json_at_mut(volume, path), "warning", &l->eye, &e);
	}
	return 0;
}

void api_read_events(struct api_scan *l)
{
	static const char what_for[] = "the Events of DPF could not be read";
	const char *id = l->o->volume_id;
	const struct deadline all = l->d;
	char *of_volumes AUTO(free) = NULL, *of_attachments AUTO(free) = NULL;

	if (id && !dns1123_subdomain(id))
		return;
	of_volumes = xasprintf("type=Warning,involvedObject.kind=%s%s%s", dpu_volume_kind.kind,
	                       id ? ",involvedObject.name=" : "", id ? id : "");
	of_attachments = xasprintf("type=Warning,involvedObject.kind=%s", dpu_attachment_kind.kind);
	l->d = deadline_clamp(l->d, l->causes_ms);
	if (api_read_optional(l, &core_event_kind, l->c.namespace, of_volumes, what_for,
	                      events_read_of_volume, l) &&
	    l->attached.n)
		IGNORE_RESULT(api_read_optional(l, &core_event_kind, l->c.namespace, of_attachments,
		                                what_for, events_read_of_attachment, l));
	l->d = all;
}
