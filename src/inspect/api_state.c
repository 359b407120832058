/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings about the state of single objects: not ready, terminating for a long time, or refused by
 * the driver. Uses the facts in the tree; sends no request.
 */
#include "inspect/api_scan.h"

#include <stdlib.h>

#include "common/mem.h"
#include "common/str.h"
#include "dpf/core_event.h"
#include "dpf/dpu_attachment.h"
#include "dpf/dpu_volume.h"

#define UNREADY_S 10  /* an object that has not been ready for less time may be in progress */
#define DELETING_S 60 /* the same limit for a deletion */

/*
 * Returns how long the object has not been ready, from the time in its condition or from its
 * creation.
 */
static int64_t unready_for(const struct json *facts)
{
	int64_t since = api_seconds(facts, "since"), age = api_seconds(facts, "age");

	return since >= 0 ? since : age;
}

/* Appends "Event ProvisioningFailed: no space, 50 s ago". */
static void state_add_warning(struct str *out, const struct json *warning)
{
	int64_t age = api_seconds(warning, "age");
	char buf[64];

	core_event_add_line(out, api_text(warning, "reason"), api_text(warning, "message"));
	if (age >= 0)
		str_addf(out, ", %s ago", inspect_age(age, buf));
}

/*
 * Returns the next step for an object that is not ready, or for which `warning` (NULL: none)
 * reports a failure.
 */
static char *state_next(const struct api_scan *l, const struct kube_kind *kind, const char *name,
                        const struct json *facts, const struct json *warning)
{
	struct str next AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	const struct json *place = json_member(facts, "place");

	if (api_is(warning, "exhausted") && kind == &dpu_volume_kind)
		str_add(&next,
		        "the vendor's storage or a quota is full: free or add capacity; the call "
		        "is retried");
	else
		str_addf(&next,
		         "%s: kubectl -n %s describe %s %s; then the logs of DPF's storage "
		         "controllers and of the vendor's plugin",
		         api_is(facts, "ready") ? "all its Events"
		                                : "wait for DPF to make it "
		                                  "ready",
		         l->c.namespace, kind->plural, name);
	if (*api_text(place, "command"))
		str_addf(&next, "; in DPU cluster %s: %s", api_text(place, "dpuCluster"),
		         api_text(place, "command"));
	return str_take(&next);
}

static void state_report_unready(struct api_scan *l, const struct kube_kind *kind, const char *name,
                                 const struct json *facts)
{
	const struct json *warning = json_member(facts, "warning");
	struct str what AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	char *ref AUTO(free) = api_ref(l, kind, name);
	char *next AUTO(free) = state_next(l, kind, name, facts, warning);
	char buf[64];

	str_addf(&what, "%s; ", api_text(facts, "reason"));
	if (warning) {
		state_add_warning(&what, warning);
		str_add(&what, "; ");
	}
	str_addf(&what, "for %s", inspect_age(unready_for(facts), buf));
	inspect_finding(l->r, ref, next, "%s", what.ptr);
}

/* `before` begins the finding; `warning` is about this object or an earlier object of its name. */
static void state_report_warning(struct api_scan *l, const struct kube_kind *kind, const char *name,
                                 const struct json *facts, const struct json *warning,
                                 const char *before)
{
	struct str what AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	char *ref AUTO(free) = api_ref(l, kind, name);
	char *next AUTO(free) = state_next(l, kind, name, facts, warning);

	str_add(&what, before);
	state_add_warning(&what, warning);
	inspect_finding(l->r, ref, next, "%s", what.ptr);
}

static void state_report_deleting(struct api_scan *l, const struct kube_kind *kind,
                                  const char *name, const struct json *facts)
{
	char *ref AUTO(free) = api_ref(l, kind, name);
	char *next AUTO(free) = xasprintf(
		"find the controller whose finalizer blocks the deletion: kubectl -n %s describe "
		"%s %s, and the logs of that controller; do not remove a finalizer by hand: %s",
		l->c.namespace, kind->plural, name,
		kind == &dpu_volume_kind
			? "DPF then deletes the volume's storage, even while it is attached"
			: "the DPU may keep the function");
	struct str what AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	struct strs names AUTO(strs_clear) = STRS_INIT;
	char *finalizers AUTO(free) = NULL;
	char buf[64];

	json_foreach (f, json_member(facts, "finalizers"))
		strs_add(&names, json_text(f) ? json_text(f) : "?");
	finalizers = names.n ? strs_join(&names, ", ") : xstrdup("none");
	str_addf(&what, "has been terminating for %s; finalizers: %s",
	         inspect_age(api_seconds(facts, "deleting"), buf), finalizers);
	if (json_member(facts, "warning")) {
		str_add(&what, "; ");
		state_add_warning(&what, json_member(facts, "warning"));
	}
	inspect_finding(l->r, ref, next, "%s", what.ptr);
}

struct sorts {
	struct api_sort unready, deleting, warned, places, wishes;
};

/*
 * Returns true if the Warning is newer than the last success. A Warning in the same second counts
 * as older.
 */
static bool is_since_success(const struct json *facts, const struct json *warning)
{
	int64_t age = api_seconds(warning, "age");

	return age >= 0 && age < api_seconds(facts, "since");
}

static void state_check_object(struct api_scan *l, struct sorts *s, const struct kube_kind *kind,
                               const char *name, const struct json *facts)
{
	const struct json *warning = json_member(facts, "warning");
	int64_t deleting = api_seconds(facts, "deleting");

	if (deleting >= DELETING_S && api_one_more(&s->deleting))
		state_report_deleting(l, kind, name, facts);
	if (deleting >= 0)
		return;
	if (!api_is(facts, "ready") && (warning || unready_for(facts) >= UNREADY_S) &&
	    api_one_more(&s->unready))
		state_report_unready(l, kind, name, facts);
	if (api_is(facts, "ready") && is_since_success(facts, warning) && api_one_more(&s->warned))
		state_report_warning(l, kind, name, facts, warning,
		                     "is ready, but has a newer Warning: ");
}

/* Handles a refused volume: CreateVolume has removed it, and only its Event is left. */
static void state_check_earlier(struct api_scan *l, struct sorts *s, const char *id,
                                const struct json *api)
{
	const struct json *volume = json_member(api, "volume");
	const struct json *warning = json_member(api, "earlierWarning");

	if (warning && !api_is(volume, "ready") && !json_member(volume, "warning") &&
	    api_one_more(&s->warned))
		state_report_warning(l, &dpu_volume_kind, id, volume, warning,
		                     "an earlier object of this name was refused and removed: ");
}

/*
 * Finds a volume for one node that is attached to several nodes, so that two kernels may write its
 * blocks.
 */
static void state_check_nodes(struct api_scan *l, struct sorts *s, const char *id,
                              const struct json *api)
{
	struct str places AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	char *ref AUTO(free) = api_ref(l, &dpu_volume_kind, id);
	size_t n = 0;

	if (!api_is(json_member(api, "volume"), "oneNode"))
		return;
	json_foreach (a, json_member(api, "attachments")) {
		/*
		 * The deletion of one attachment together with a new attachment is a normal move of
		 * a volume.
		 */
		if (api_seconds(a, "deleting") >= 0 || api_seconds(a, "age") < UNREADY_S)
			continue;
		n++;
		str_addf(&places, "%s%s (%s%s)", places.len ? ", " : "", api_text(a, "node"),
		         api_text(a, "name"), api_is(a, "ready") ? "" : ", not ready");
	}
	if (n > 1 && api_one_more(&s->places))
		inspect_finding(l->r, ref,
		                "find the node that should have it: kubectl get "
		                "volumeattachments | grep NAME-OF-ITS-PERSISTENTVOLUME; check "
		                "the other node with `inspect volume` in the driver's pod there "
		                "before anything is detached",
		                "allows one node, but is attached to several: %s", places.ptr);
}

static void state_check_errors(struct api_scan *l, struct sorts *s, const char *id,
                               const struct json *api)
{
	json_foreach (a, json_member(api, "volumeAttachments")) {
		char *ref AUTO(free) = NULL, *next AUTO(free) = NULL;
		char buf[64];

		if (!*api_text(a, "error") || api_seconds(a, "age") < UNREADY_S ||
		    !api_one_more(&s->wishes))
			continue;
		ref = xasprintf("VolumeAttachment %s", api_text(a, "name"));
		next = xasprintf("docs/troubleshoot/error-texts.md explains the text; see also "
		                 "snap-csi-plugin inspect volume %s and the controller's log",
		                 id);
		inspect_finding(l->r, ref, next,
		                "%s of volume %s on node %s fails; it is %s old: %s",
		                api_seconds(a, "deleting") >= 0 ? "detaching" : "attaching", id,
		                api_text(a, "node"), inspect_age(api_seconds(a, "age"), buf),
		                api_text(a, "error"));
	}
}

void api_find_stuck(struct api_scan *l)
{
	struct sorts s = {
		.unready = { l, "objects that are not ready", 0 },
		.deleting = { l, "objects that are being deleted", 0 },
		.warned = { l, "objects with a Warning", 0 },
		.places = { l, "volumes for one node on several", 0 },
		.wishes = { l, "VolumeAttachments that fail", 0 },
	};

	json_foreach (v, json_member(l->r->tree, "volumes")) {
		const struct json *api = json_member(v, "api");
		const struct json *volume = json_member(api, "volume");
		const char *id = api_text(v, "id");

		if (!api)
			continue;
		if (volume)
			state_check_object(l, &s, &dpu_volume_kind, id, volume);
		json_foreach (a, json_member(api, "attachments"))
			state_check_object(l, &s, &dpu_attachment_kind, api_text(a, "name"), a);
		state_check_earlier(l, &s, id, api);
		state_check_nodes(l, &s, id, api);
		state_check_errors(l, &s, id, api);
	}
}
