/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings about the state of single objects: not ready, being deleted for long, refused by the
 * driver. What was read is in the tree; nobody is asked.
 */
#include "inspect/api_scan.h"

#include <stdlib.h>

#include "common/mem.h"
#include "common/str.h"
#include "dpf/dpu_attachment.h"
#include "dpf/dpu_volume.h"

#define UNREADY_S 10  /* what is not ready for less is on its way */
#define DELETING_S 60 /* the same of a deletion */

/* For how long it has not been ready: since its condition says so, or since it is there. */
static int64_t unready_for(const struct json *facts)
{
	int64_t since = api_seconds(facts, "since"), age = api_seconds(facts, "age");

	return since >= 0 ? since : age;
}

static void state_report_unready(struct api_scan *l, const struct kube_kind *kind, const char *name,
                                 const struct json *facts)
{
	char *ref AUTO(free) = api_ref(l, kind, name);
	char *next AUTO(free) = xasprintf(
		"DPF has to make it ready: kubectl -n %s describe %s %s; then the logs of DPF's "
		"storage controllers and of the vendor's plugin",
		l->c.namespace, kind->plural, name);
	char buf[64];

	inspect_finding(l->r, ref, next, "%s; since %s", api_text(facts, "reason"),
	                inspect_age(unready_for(facts), buf));
}

static void state_report_deleting(struct api_scan *l, const struct kube_kind *kind,
                                  const char *name, const struct json *facts)
{
	char *ref AUTO(free) = api_ref(l, kind, name);
	char *next AUTO(free) = xasprintf(
		"who keeps it? kubectl -n %s describe %s %s, and the logs of the finalizer's "
		"owner; a finalizer that is removed by hand leaves the DPU's function or the "
		"vendor's storage behind",
		l->c.namespace, kind->plural, name);
	struct strs names AUTO(strs_clear) = STRS_INIT;
	char *finalizers AUTO(free) = NULL;
	char buf[64];

	json_foreach (f, json_member(facts, "finalizers"))
		strs_add(&names, json_text(f) ? json_text(f) : "?");
	finalizers = names.n ? strs_join(&names, ", ") : xstrdup("none");
	inspect_finding(l->r, ref, next, "is being deleted since %s; finalizers: %s",
	                inspect_age(api_seconds(facts, "deleting"), buf), finalizers);
}

struct sorts {
	struct api_sort unready, deleting, places, wishes;
};

static void state_check_object(struct api_scan *l, struct sorts *s, const struct kube_kind *kind,
                               const char *name, const struct json *facts)
{
	int64_t deleting = api_seconds(facts, "deleting");

	if (deleting >= DELETING_S && api_one_more(&s->deleting))
		state_report_deleting(l, kind, name, facts);
	else if (deleting < 0 && !api_is(facts, "ready") && unready_for(facts) >= UNREADY_S &&
	         api_one_more(&s->unready))
		state_report_unready(l, kind, name, facts);
}

/* A volume for one node on several of them: two kernels may write its blocks. */
static void state_check_nodes(struct api_scan *l, struct sorts *s, const char *id,
                              const struct json *api)
{
	struct str places AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	char *ref AUTO(free) = api_ref(l, &dpu_volume_kind, id);
	size_t n = 0;

	if (!api_is(json_member(api, "volume"), "oneNode"))
		return;
	json_foreach (a, json_member(api, "attachments")) {
		/* One that goes while another comes is how a volume moves. */
		if (api_seconds(a, "deleting") >= 0 || api_seconds(a, "age") < UNREADY_S)
			continue;
		n++;
		str_addf(&places, "%s%s (%s%s)", places.len ? ", " : "", api_text(a, "node"),
		         api_text(a, "name"), api_is(a, "ready") ? "" : ", not ready");
	}
	if (n > 1 && api_one_more(&s->places))
		inspect_finding(l->r, ref,
		                "which node should have it? kubectl get volumeattachments | grep "
		                "NAME-OF-ITS-PERSISTENTVOLUME; look at the other with `inspect "
		                "volume` in the driver's pod there before anything is detached",
		                "is for one node and attached elsewhere, too: %s", places.ptr);
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
		next = xasprintf("docs/troubleshooting.md has the text; snap-csi-plugin inspect "
		                 "volume %s, and the controller's log",
		                 id);
		inspect_finding(l->r, ref, next,
		                "%s of volume %s on node %s fails, it is %s old: %s",
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
		state_check_nodes(l, &s, id, api);
		state_check_errors(l, &s, id, api);
	}
}
