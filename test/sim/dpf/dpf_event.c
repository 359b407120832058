/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DPF copies the Events of a claim to its DPUVolume, and adds the claim's name to the text. No
 * state.
 */
#include "test/sim/dpf/dpf_event.h"

#include <inttypes.h>
#include <time.h>

#include "common/mem.h"
#include "test/sim/dpf/dpf_cluster.h"
#include "test/sim/dpf/step.h"
#include "test/sim/kinds/object.h"
#include "test/sim/store/mirror.h"

#define COMPONENT "snap-host-controller"

static void set_metadata(struct json *metadata, const struct object_version *about, const char *now)
{
	struct timespec t;
	char uid[37];
	char *name AUTO(free) = NULL;

	clock_gettime(CLOCK_REALTIME, &t);
	name = xasprintf("%.236s.%" PRIx64, about->name,
	                 (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec);
	object_uuid(uid);
	json_set_str(metadata, "name", name);
	json_set_str(metadata, "namespace", about->ns);
	json_set_str(metadata, "uid", uid);
	json_set_str(metadata, "creationTimestamp", now);
}

static struct json *event_about(const struct object_version *about, const char *type,
                                const char *reason, const char *message)
{
	struct json *e = json_object(), *object = json_sub(e, "involvedObject");
	char *api_version AUTO(free) = resource_api_version(about->res);
	char now[32];

	object_now(now);
	json_set_str(e, "apiVersion", "v1");
	json_set_str(e, "kind", "Event");
	set_metadata(json_sub(e, "metadata"), about, now);
	json_set_str(object, "apiVersion", api_version);
	json_set_str(object, "kind", about->res->kind);
	json_set_str(object, "namespace", about->ns);
	json_set_str(object, "name", about->name);
	json_set_str(object, "uid", about->uid);
	json_set_str(e, "type", type);
	json_set_str(e, "reason", reason);
	json_set_str(e, "message", message);
	json_set_int(e, "count", 1);
	json_set_str(e, "firstTimestamp", now);
	json_set_str(e, "lastTimestamp", now);
	json_set_str(json_sub(e, "source"), "component", COMPONENT);
	json_set_str(e, "reportingComponent", COMPONENT);
	json_set_str(e, "reportingInstance", "");
	return e;
}

void event_of_claim(struct dpf *d, const struct object_version *volume, const char *type,
                    const char *reason, const char *text)
{
	char *stage AUTO(free) = xasprintf("event %s %s", reason, text);
	char *message AUTO(free) =
		xasprintf("Event from PVC %s/%s-pvc in cluster %s/" DPU_CLUSTER ": %s", volume->ns,
	                  volume->name, volume->ns, text);
	struct json *e AUTO(json_free) = NULL;

	if (!step_is_first(d, volume->uid, stage))
		return;
	e = event_about(volume, type, reason, message);
	step_wait_for_turn(d);
	if (d->sim->mirror)
		mirror_create(d->sim->mirror, RES(EVENTS), e);
	else
		IGNORE_RESULT(store_put(d->sim->store, RES(EVENTS), e, NULL, NULL));
}
