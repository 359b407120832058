/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds contradictions between the two sides of one volume: a volume that is staged on this host,
 * or was staged when a file of --node-report was written, and its objects on the API server. An
 * unknown side contradicts nothing. Also finds attachments whose function that host does not have.
 */
#include "inspect/api_scan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <strings.h>

#include "common/mem.h"
#include "common/str.h"
#include "node/host/known_limits.h"

/* A function that is being plugged is reported only after this time, in seconds. */
#define PLUGGED_S 120

#define WHO_USES                                                                                  \
	"stop the pods that use the volume on this host first; do not repair or format it while " \
	"it is staged"

struct pair {
	struct api_scan *l;
	const char *id, *node; /* id of the volume; node id of the scanned host */
	const char *when;      /* when that host was scanned; NULL: just now */
	const struct json *api, *device;
	const struct json *attachment; /* the attachment to this node */
};

static char *object_of(const struct pair *p)
{
	return p->when ? xasprintf("volume %s on node %s (as it was at %s)", p->id, p->node,
	                           p->when)
	               : xasprintf("volume %s on node %s", p->id, p->node);
}

/*
 * Compares the UUIDs, because a hot-plugged function may return in a slot other than the one that
 * DPF has published.
 */
static bool is_same_by_uuid(const struct pair *p)
{
	const char *here = api_text(p->device, "uuid");

	return str_eq(api_text(p->attachment, "function"), "pf") && *here &&
	       strcasecmp(here, api_text(p->attachment, "uuid")) == 0;
}

/* Compares PCI addresses: "3b:00.4" is the same as "0000:3b:00.4". */
static bool is_same_function(const char *a, const char *b)
{
	return str_has_suffix(a, b) || str_has_suffix(b, a);
}

static void compare_text(const struct pair *p, const char *what, const char *says, const char *is)
{
	char *object AUTO(free) = NULL;

	if (!*says || !*is || strcasecmp(says, is) == 0)
		return;
	object = object_of(p);
	inspect_finding(p->l->r, object, WHO_USES,
	                "DPUVolumeAttachment %s has %s %s, but the staged device has %s",
	                api_text(p->attachment, "name"), what, says, is);
}

static void compare_device(const struct pair *p)
{
	const char *says = api_text(p->attachment, "pci"), *is = api_text(p->device, "pci");
	int64_t nsid = api_seconds(p->attachment, "nsid"), here = api_seconds(p->device, "nsid");

	if (!is_same_function(says, is) && !is_same_by_uuid(p))
		compare_text(p, "function", says, is);
	compare_text(p, "UUID", api_text(p->attachment, "uuid"), api_text(p->device, "uuid"));
	compare_text(p, "tag", api_text(p->attachment, "tag"), api_text(p->device, "tag"));
	if (nsid > 0 && here > 0 && nsid != here) {
		char says_text[32], is_text[32];

		snprintf(says_text, sizeof(says_text), "%" PRId64, nsid);
		snprintf(is_text, sizeof(is_text), "%" PRId64, here);
		compare_text(p, "namespace id", says_text, is_text);
	}
}

static void compare_size(const struct pair *p)
{
	int64_t capacity = api_seconds(json_member(p->api, "volume"), "capacity");
	int64_t size = api_seconds(p->device, "size");
	char says[64], is[64];
	char *object AUTO(free) = NULL;

	if (capacity <= 0 || size <= 0 || size == capacity)
		return;
	object = object_of(p);
	inspect_finding(p->l->r, object,
	                size < capacity
	                        ? "the device must not be smaller than its volume: check that it "
	                          "is the right device, and ask the storage vendor before using "
	                          "it further"
	                        : "the storage has grown without a report by DPF, or this is a "
	                          "different device: compare the UUIDs",
	                "the DPUVolume has %s, the device %s", str_bytes((uint64_t)capacity, says),
	                str_bytes((uint64_t)size, is));
}

static void compare_state(const struct pair *p)
{
	char *object AUTO(free) = object_of(p);
	char buf[64];
	int64_t deleting = api_seconds(p->attachment, "deleting");

	if (deleting >= 0)
		inspect_finding(p->l->r, object, WHO_USES,
		                "DPUVolumeAttachment %s has been terminating for %s while the "
		                "volume is staged",
		                api_text(p->attachment, "name"), inspect_age(deleting, buf));
	else if (!api_is(p->attachment, "ready"))
		inspect_finding(p->l->r, object,
		                "I/O may fail or hang until DPF reports it ready again; check the "
		                "conditions of the attachment",
		                "staged, but DPUVolumeAttachment %s %s",
		                api_text(p->attachment, "name"), api_text(p->attachment, "reason"));
}

static void compare_report_unattached(const struct pair *p)
{
	struct str where AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	char *object AUTO(free) = object_of(p);

	json_foreach (a, json_member(p->api, "attachments"))
		str_addf(&where, "%s%s", where.len ? ", " : "", api_text(a, "node"));
	if (!json_member(p->api, "volume"))
		inspect_finding(p->l->r, object, WHO_USES,
		                "staged, but there is no DPUVolume of this name");
	else if (where.len)
		inspect_finding(p->l->r, object, WHO_USES,
		                "staged on this node, but attached to %s", where.ptr);
	else
		inspect_finding(p->l->r, object, WHO_USES,
		                "staged, but its DPUVolumeAttachment no longer exists: the DPU has "
		                "removed the device, or will remove it");
}

static void compare_volume(struct pair *p)
{
	json_foreach (a, json_member(p->api, "attachments"))
		if (str_eq(api_text(a, "node"), p->node))
			p->attachment = a;
	if (!p->attachment) {
		compare_report_unattached(p);
		return;
	}
	compare_device(p);
	compare_size(p);
	compare_state(p);
}

/* ---- functions that were not plugged again ---- */

static bool is_staged(const struct json *tree, const char *id)
{
	json_foreach (v, json_member(tree, "volumes"))
		if (str_eq(api_text(v, "id"), id))
			return json_count(json_at(v, "node.staged"));
	return false;
}

/* Returns true if an attachment to the node has this function. */
static bool is_published(const struct api_scan *l, const char *node, const char *pci)
{
	json_foreach (v, json_member(l->r->tree, "volumes"))
		json_foreach (a, json_at(v, "api.attachments"))
			if (str_eq(api_text(a, "node"), node) && *api_text(a, "pci") &&
			    is_same_function(api_text(a, "pci"), pci))
				return true;
	return false;
}

/*
 * Returns true if the host may have the function of this attachment: at its address, or in another
 * slot, as a hot-plugged function that belongs to no known volume.
 */
static bool may_have_function(const struct api_scan *l, const struct json *functions,
                              const char *node, const char *pci)
{
	json_foreach (f, functions) {
		const char *is = api_text(f, "pci");

		if (is_same_function(pci, is) ||
		    (api_is(f, "hotPlugged") && !*api_text(f, "volume") &&
		     !is_published(l, node, is)))
			return true;
	}
	return false;
}

static void compare_function(const struct pair *p, const struct json *functions)
{
	const struct json *a = p->attachment;
	const char *pci = api_text(a, "pci");
	char *object AUTO(free) = NULL;

	if (!str_eq(api_text(a, "node"), p->node) || !api_is(a, "ready") || !api_is(a, "hotplug") ||
	    !*pci || api_seconds(a, "age") < PLUGGED_S || api_seconds(a, "deleting") >= 0 ||
	    may_have_function(p->l, functions, p->node, pci))
		return;
	object = object_of(p);
	inspect_finding(p->l->r, object, NOT_PLUGGED_AGAIN_NEXT,
	                "DPUVolumeAttachment %s is Ready, but this host does not have its "
	                "hot-plugged function %s: " NOT_PLUGGED_AGAIN,
	                api_text(a, "name"), pci);
}

/* `tree` has the host's side; the API server's side is in the report. */
static void compare_functions(struct api_scan *l, const struct json *tree, const char *node,
                              const char *when)
{
	const struct json *functions = json_at(tree, "node.functions");

	if (!functions)
		return;
	json_foreach (v, json_member(l->r->tree, "volumes"))
		json_foreach (a, json_at(v, "api.attachments")) {
			const struct pair p = { .l = l,
				                .id = api_text(v, "id"),
				                .node = node,
				                .when = when,
				                .attachment = a };

			if (!is_staged(tree, p.id))
				compare_function(&p, functions);
		}
}

/* ---- hosts ---- */

/* As compare_functions(). */
static void compare_all(struct api_scan *l, const struct json *tree, const char *node,
                        const char *when)
{
	json_foreach (v, json_member(tree, "volumes")) {
		const struct json *there = json_member(v, "node");
		const char *id = api_text(v, "id");
		struct pair p = { .l = l, .id = id, .node = node, .when = when };

		if (!*id || !json_count(json_member(there, "staged")) || !inspect_wants(l->o, id))
			continue;
		p.device = json_member(there, "device");
		p.api = when ? json_member(inspect_volume(l->r, id), "api") : json_member(v, "api");
		compare_volume(&p);
	}
	compare_functions(l, tree, node, when);
}

void api_find_contradictions(struct api_scan *l)
{
	compare_all(l, l->r->tree, inspect_node_of(l->r->tree, l->o->flags.node_id), NULL);
	json_foreach (tree, l->r->node_reports)
		compare_all(l, tree, inspect_node_of(tree, NULL), api_text(tree, "time"));
}
