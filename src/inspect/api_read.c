/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the lists, page by page, one object at a time, into the tree. Their order matters: what is
 * made first (the DPUVolume, the DPUVolumeAttachment) is read first, so that what is missing in a
 * later list did not come in between.
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

static const char *api_names_find(struct api_names *names, const char *from)
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
		                "begin with the first; most of them may have one cause",
		                "there are more than %d", API_SORT_MOST);
	return s->n <= API_SORT_MOST;
}

/* ---- one object of each kind ---- */

static bool is_wanted(const struct api_scan *l, const char *volume)
{
	return *volume && (!l->o->volume_id || str_eq(l->o->volume_id, volume));
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
	if (!is_wanted(l, key.volume))
		return 0;
	api = facts_of(l, key.volume);
	if (is_told_already(api, key.name))
		return 0;
	if (str_eq(api_text(json_member(api, "volume"), "kind"), "share"))
		kind = EMULATION_VIRTIOFS;
	json_append(inspect_list(api, "attachments"), api_attachment_facts(&l->eye, item, kind));
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

/* A driver of another name in this namespace: the volume is in its care. */
static void note_other_driver(struct api_scan *l, const struct persistent_volume *pv)
{
	struct json *volume = *pv->driver ? inspect_volume_known(l->r, pv->handle) : NULL;

	if (json_at(volume, "api.volume"))
		json_set_str(json_sub(volume, "api"), "otherDriver", pv->driver);
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
	if (is_wanted(l, pv.handle))
		json_set(facts_of(l, pv.handle), "persistentVolume",
		         api_persistent_volume_facts(&pv));
	return 0;
}

static int api_read_volume_attachment(void *arg, const struct json *item, struct err *err)
{
	struct api_scan *l = arg;
	struct volume_attachment a = volume_attachment_decode(item);
	const char *volume = api_names_find(&l->pvs, a.persistent_volume);
	const char *node = api_names_find(&l->nodes, a.node);

	(void)err;
	if (!str_eq(a.attacher, l->c.driver_name))
		return 0;
	api_count(l, "volumeAttachments");
	if (volume && is_wanted(l, volume))
		json_append(inspect_list(facts_of(l, volume), "volumeAttachments"),
		            api_volume_attachment_facts(&l->eye, item, &a, node));
	return 0;
}

/* ---- the lists ---- */

typedef int read_fn(void *arg, const struct json *item, struct err *err);

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

/* What the report can do without: true when it was read. */
static bool api_read_optional(struct api_scan *l, const struct kube_kind *kind,
                              const char *what_for, read_fn *read)
{
	struct err err = ERR_INIT;
	struct str text AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);

	if (!kube_list(l->c.kube, kind, NULL, NULL, read, l, l->d, &err))
		return true;
	str_addf(&text, "%s: ", what_for);
	str_add_shown(&text, err.msg);
	json_append(inspect_list(json_sub(l->r->tree, "api"), "unread"), json_string(text.ptr));
	return false;
}

/* That there are none is an answer; that they could not be read is another one. */
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
	l->csi_nodes = api_read_optional(
		l, &csi_node_kind, "nodes are taken to have their names as ids", api_read_csi_node);
	l->persistent_volumes = api_read_optional(
		l, &persistent_volume_kind, "volumes without a PersistentVolume are not looked for",
		api_read_persistent_volume);
	l->volume_attachments =
		l->persistent_volumes &&
		api_read_optional(l, &volume_attachment_kind,
	                          "attachments without a VolumeAttachment are not looked for",
	                          api_read_volume_attachment);
	return 0;
}
