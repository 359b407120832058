/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the lists into the tree, page by page and one object at a time. The order of the lists
 * matters: objects that are created first (the DPUVolume, the DPUVolumeAttachment) are read first,
 * so that an object that is missing in a later list was not created in between.
 */
#include "inspect/api_scan.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "controller/attachments.h"
#include "dpf/dpu_node.h"
#include "dpf/dpu_volume.h"

/* ---- names ---- */

static int by_from(const void *a, const void *b)
{
	return strcmp(((const struct api_name *)a)->from, ((const struct api_name *)b)->from);
}

static void names_add(struct api_names *names, const char *from, const char *to)
{
	if (names->n == names->room) {
		names->room = names->room ? names->room * 2 : 64;
		names->v = xrealloc(names->v, names->room * sizeof(*names->v));
	}
	names->v[names->n++] = (struct api_name) { xstrdup(from), xstrdup(to) };
	names->sorted = false;
}

const char *api_names_find(struct api_names *names, const char *from)
{
	const struct api_name wanted = { .from = (char *)(uintptr_t)from };
	const struct api_name *found;

	if (!names->n)
		return NULL;
	if (!names->sorted)
		qsort(names->v, names->n, sizeof(*names->v), by_from);
	names->sorted = true;
	found = bsearch(&wanted, names->v, names->n, sizeof(*names->v), by_from);
	return found ? found->to : NULL;
}

static void names_clear(struct api_names *names)
{
	for (size_t i = 0; i < names->n; i++) {
		free(names->v[i].from);
		free(names->v[i].to);
	}
	free(names->v);
	*names = (struct api_names) { .n = 0 };
}

void api_scan_clear(struct api_scan *l)
{
	names_clear(&l->pvs);
	names_clear(&l->nodes);
	names_clear(&l->attached);
	names_clear(&l->lost);
}

char *api_ref(const struct api_scan *l, const struct kube_kind *kind, const char *name)
{
	char ref[OBJECT_REF_MAX];

	return xstrdup(object_ref(&l->c, kind, name, ref));
}

bool api_one_more(struct api_sort *s)
{
	if (++s->n == API_SORT_MOST + 1)
		inspect_finding(s->l->r, s->what,
		                "start with the first; many of them may have the same cause",
		                "there are more than %d", API_SORT_MOST);
	return s->n <= API_SORT_MOST;
}

void api_read_clock(struct api_scan *l)
{
	if (l->eye.now)
		return;
	l->eye.now = kube_server_time(l->c.kube);
	if (!l->eye.now)
		l->eye.now = time(NULL);
	l->eye.now += l->o->clock_ahead;
}

/* ---- one object of each kind ---- */

static bool is_wanted(const struct api_scan *l, const char *volume)
{
	return *volume && inspect_wants(l->o, volume);
}

static struct json *facts_of(struct api_scan *l, const char *volume)
{
	return json_sub(inspect_volume(l->r, volume), "api");
}

static void api_count(struct api_scan *l, const char *what)
{
	struct json *api = json_sub(l->r->tree, "api");
	int64_t n = api_seconds(api, what);

	json_set_int(api, what, n < 0 ? 1 : n + 1);
}

static int api_read_volume(void *arg, const struct json *item, struct err *err)
{
	struct api_scan *l = arg;
	const char *name = json_str(item, "metadata.name");

	(void)err;
	api_read_clock(l);
	if (!name || !is_wanted(l, name))
		return 0;
	json_set(facts_of(l, name), "volume", api_volume_facts(&l->eye, item));
	api_count(l, "dpuVolumes");
	return 0;
}

static bool is_told_already(const struct json *api, const char *attachment)
{
	json_foreach (a, json_member(api, "attachments"))
		if (str_eq(api_text(a, "name"), attachment))
			return true;
	return false;
}

static int api_read_attachment(void *arg, const struct json *item, struct err *err)
{
	struct api_scan *l = arg;
	struct dpu_attachment_key key = dpu_attachment_key(item);
	enum emulation kind = EMULATION_NVME;
	struct json *api;

	(void)err;
	api_read_clock(l);
	if (!is_wanted(l, key.volume))
		return 0;
	api = facts_of(l, key.volume);
	if (is_told_already(api, key.name))
		return 0;
	if (str_eq(api_text(json_member(api, "volume"), "kind"), "share"))
		kind = EMULATION_VIRTIOFS;
	json_append(inspect_list(api, "attachments"), api_attachment_facts(&l->eye, item, kind));
	names_add(&l->attached, key.uid, key.volume);
	api_count(l, "dpuVolumeAttachments");
	return 0;
}

static int api_read_csi_node(void *arg, const struct json *item, struct err *err)
{
	struct api_scan *l = arg;
	const char *node = json_str(item, "metadata.name");
	const char *id = csi_node_id(item, l->c.driver_name);

	(void)err;
	if (node && id)
		names_add(&l->nodes, node, id);
	return 0;
}

/* Records a driver of another name in this namespace, which manages the volume. */
static void note_other_driver(struct api_scan *l, const struct persistent_volume *pv)
{
	struct json *volume = *pv->driver ? inspect_volume_known(l->r, pv->handle) : NULL;

	if (json_at(volume, "api.volume"))
		json_set_str(json_sub(volume, "api"), "otherDriver", pv->driver);
}

/* Handles "inspect volume NAME" with the name of a PersistentVolume or a claim. */
static void api_note_meant(struct api_scan *l, const struct persistent_volume *pv)
{
	const char *id = l->o->volume_id;
	char *claim AUTO(free) = xasprintf("%s/%s", pv->claim_namespace, pv->claim_name);
	char *meant AUTO(free) = NULL;

	if (!id || str_eq(id, pv->handle))
		return;
	if (str_eq(id, pv->name))
		meant = xasprintf("volume %s", pv->handle);
	else if (str_eq(id, pv->claim_name) || str_eq(id, claim))
		meant = xasprintf("claim %s", claim);
	if (meant)
		json_append(inspect_list(l->r->tree, "didYouMean"), json_string(meant));
}

static void api_add_persistent_volume(struct json *api, const struct persistent_volume *pv)
{
	struct json *facts = api_persistent_volume_facts(pv);

	if (json_member(api, "persistentVolume"))
		json_append(inspect_list(api, "otherPersistentVolumes"), facts);
	else
		json_set(api, "persistentVolume", facts);
}

static int api_read_persistent_volume(void *arg, const struct json *item, struct err *err)
{
	struct api_scan *l = arg;
	struct persistent_volume pv = persistent_volume_decode(item);

	(void)err;
	if (!str_eq(pv.driver, l->c.driver_name)) {
		note_other_driver(l, &pv);
		return 0;
	}
	api_count(l, "persistentVolumes");
	names_add(&l->pvs, pv.name, pv.handle);
	api_note_meant(l, &pv);
	if (is_wanted(l, pv.handle))
		api_add_persistent_volume(facts_of(l, pv.handle), &pv);
	return 0;
}

/*
 * Records a VolumeAttachment whose volume can no longer be determined: it may be any volume.
 * external-provisioner gives a PersistentVolume the name of its volume.
 */
static void api_note_lost(struct api_scan *l, const struct volume_attachment *a, const char *node,
                          const struct json *facts)
{
	struct json *lost = json_copy(facts);
	struct json *volume = inspect_volume_known(l->r, a->persistent_volume);

	json_set_str(lost, "persistentVolume", a->persistent_volume);
	json_append(inspect_list(json_sub(l->r->tree, "api"), "lostVolumeAttachments"), lost);
	names_add(&l->lost, node ? node : a->node, a->name);
	l->lost_anywhere |= !node;
	if (volume)
		json_append(inspect_list(json_sub(volume, "api"), "volumeAttachments"),
		            json_copy(facts));
}

static int api_read_volume_attachment(void *arg, const struct json *item, struct err *err)
{
	struct api_scan *l = arg;
	struct volume_attachment a = volume_attachment_decode(item);
	const char *volume = api_names_find(&l->pvs, a.persistent_volume);
	const char *node = api_names_find(&l->nodes, a.node);

	struct json *facts AUTO(json_free) = NULL;

	(void)err;
	if (!str_eq(a.attacher, l->c.driver_name))
		return 0;
	api_read_clock(l);
	api_count(l, "volumeAttachments");
	facts = api_volume_attachment_facts(&l->eye, item, &a, node);
	if (!volume)
		api_note_lost(l, &a, node, facts);
	else if (is_wanted(l, volume))
		json_append(inspect_list(facts_of(l, volume), "volumeAttachments"), TAKE(facts));
	return 0;
}

/* ---- the lists ---- */

static int api_read_volumes(struct api_scan *l, struct err *err)
{
	const char *id = l->o->volume_id;
	struct json *object AUTO(json_free) = NULL;
	int rc;

	if (!id)
		return kube_list(l->c.kube, &dpu_volume_kind, l->c.namespace, NULL, api_read_volume,
		                 l, l->d, err);
	if (!dns1123_subdomain(id))
		return 0;
	rc = kube_get(l->c.kube, &dpu_volume_kind, l->c.namespace, id, l->d, &object, err);
	return rc ? (rc < 0 ? -1 : 0) : api_read_volume(l, object, err);
}

static int api_read_attachments(struct api_scan *l, struct err *err)
{
	if (l->o->volume_id)
		return attachments_each(&l->c, l->o->volume_id, api_read_attachment, l, l->d, err);
	return kube_list(l->c.kube, &dpu_attachment_kind, l->c.namespace, NULL, api_read_attachment,
	                 l, l->d, err);
}

void api_unread(struct api_scan *l, const char *what_for, const char *why)
{
	struct str text AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);

	str_addf(&text, "%s: ", what_for);
	str_add_shown(&text, why);
	json_append(inspect_list(json_sub(l->r->tree, "api"), "unread"), json_string(text.ptr));
}

bool api_read_optional(struct api_scan *l, const struct kube_kind *kind, const char *ns,
                       const char *fields, const char *what_for,
                       int (*read)(void *arg, const struct json *item, struct err *err), void *arg)
{
	struct err err = ERR_INIT;

	if (!kube_list_fields(l->c.kube, kind, ns, fields, read, arg, l->d, &err))
		return true;
	api_unread(l, what_for, err.msg);
	return false;
}

/*
 * Sets the number 0 for a list without objects, because "none exist" differs from "could not be
 * read".
 */
static void none_is_told_too(struct api_scan *l)
{
	static const char *const counted[] = { "dpuVolumes", "dpuVolumeAttachments" };
	struct json *api = json_sub(l->r->tree, "api");

	for (size_t i = 0; i < ARRAY_LEN(counted); i++)
		if (api_seconds(api, counted[i]) < 0)
			json_set_int(api, counted[i], 0);
}

int api_read(struct api_scan *l, struct err *err)
{
	if (api_read_volumes(l, err) || api_read_attachments(l, err))
		return -1;
	none_is_told_too(l);
	(void)api_read_optional(l, &csi_node_kind, NULL, NULL,
	                        "node ids are assumed to be node names", api_read_csi_node, l);
	l->persistent_volumes =
		api_read_optional(l, &persistent_volume_kind, NULL, NULL,
	                          "volumes without a PersistentVolume are not searched for",
	                          api_read_persistent_volume, l);
	l->volume_attachments =
		l->persistent_volumes &&
		api_read_optional(l, &volume_attachment_kind, NULL, NULL,
	                          "attachments without a VolumeAttachment are not searched for",
	                          api_read_volume_attachment, l);
	return 0;
}
