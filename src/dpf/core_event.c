/* SPDX-License-Identifier: Apache-2.0 */
/* Events of core/v1, which also has the fields of events.k8s.io/v1. Stateless. */
#include "dpf/core_event.h"

#include <string.h>
#include <time.h>

#include "dpf/conditions.h"

const struct kube_kind core_event_kind = {
	.group = "",
	.version = "v1",
	.plural = "events",
	.kind = "Event",
};

static const char *event_text(const struct json *object, const char *path)
{
	const char *text = json_str(object, path);

	return text ? text : "";
}

struct core_event core_event_decode(const struct json *object)
{
	static const char *const times[] = { "series.lastObservedTime", "lastTimestamp",
		                             "eventTime", "metadata.creationTimestamp" };
	struct core_event e = {
		.about = event_text(object, "involvedObject.uid"),
		.kind = event_text(object, "involvedObject.kind"),
		.name = event_text(object, "involvedObject.name"),
		.type = event_text(object, "type"),
		.reason = event_text(object, "reason"),
		.message = event_text(object, "message"),
		.at = "",
	};

	for (size_t i = 0; i < ARRAY_LEN(times) && !*e.at; i++)
		e.at = event_text(object, times[i]);
	return e;
}

struct json *core_event_encode(const struct core_event_draft *e)
{
	struct json *event = json_object(), *of = json_sub(event, "involvedObject");
	struct json *metadata = json_sub(event, "metadata");
	time_t at = (time_t)e->at;
	char when[32];
	struct tm utc;

	gmtime_r(&at, &utc);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &utc);
	json_set_str(metadata, "name", e->name);
	json_set_str(metadata, "namespace", CORE_EVENT_NAMESPACE);
	json_set_str(of, "apiVersion", e->about->version);
	json_set_str(of, "kind", e->about->kind);
	json_set_str(of, "name", e->about_name);
	json_set_str(of, "uid", e->about_uid);
	json_set_str(event, "type", "Warning");
	json_set_str(event, "reason", e->reason);
	json_set_str(event, "message", e->message);
	json_set_str(json_sub(event, "source"), "component", e->source);
	json_set_str(event, "firstTimestamp", when);
	json_set_str(event, "lastTimestamp", when);
	json_set_int(event, "count", 1);
	return event;
}

bool core_event_is_news(const struct core_event *e, const char *at)
{
	return str_eq(e->type, "Warning") && (!at || strcmp(e->at, at) >= 0);
}

void core_event_add_line(struct str *out, const char *reason, const char *message)
{
	str_add(out, "Event ");
	message_add_line(out, reason);
	str_add(out, ": ");
	message_add_line(out, message);
}
