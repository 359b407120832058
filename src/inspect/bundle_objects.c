/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the driver's objects, redacted, as lines of JSON. Each file has about 1 MiB, so that the
 * required memory does not grow with the cluster.
 */
#include "inspect/bundle_priv.h"

#include <stdlib.h>
#include <string.h>

#include "dpf/core_event.h"
#include "dpf/core_volume.h"
#include "dpf/dpu_attachment.h"
#include "dpf/dpu_volume.h"
#include "inspect/api_scan.h"
#include "inspect/redact.h"

#define FILE_BYTES (1024 * 1024)

struct lines {
	struct bundle *b;
	const struct kube_kind *kind;
	struct str text;
	unsigned n_files;
};

static int bundle_write_lines(struct lines *l, struct err *err)
{
	char name[64];

	if (!l->text.len)
		return 0;
	snprintf(name, sizeof(name), "%s-%04u.jsonl", l->kind->plural, ++l->n_files);
	if (bundle_add(l->b, name, l->text.ptr, err))
		return -1;
	str_reset(&l->text);
	return 0;
}

/* Returns true for objects of this driver; those of other drivers are excluded. */
static bool bundle_is_drivers(const struct bundle *b, const struct kube_kind *kind,
                              const struct json *object)
{
	const char *driver = b->o->flags.name;

	if (kind == &persistent_volume_kind)
		return str_eq(persistent_volume_decode(object).driver, driver);
	if (kind == &volume_attachment_kind)
		return str_eq(volume_attachment_decode(object).attacher, driver);
	if (kind == &core_event_kind)
		return str_eq(core_event_decode(object).kind, dpu_volume_kind.kind) ||
		       str_eq(core_event_decode(object).kind, dpu_attachment_kind.kind);
	return true;
}

/* Compares names, so Events of earlier objects with the same name also count. */
static bool is_event_of_volume(const struct bundle *b, const char *id, const struct core_event *e)
{
	if (str_eq(e->kind, dpu_volume_kind.kind))
		return str_eq(e->name, id);
	json_foreach (a, json_at(inspect_volume_known(b->r, id), "api.attachments"))
		if (str_eq(api_text(a, "name"), e->name))
			return true;
	return false;
}

/* Returns true if the object belongs to the requested volume. */
static bool bundle_is_of_volume(const struct bundle *b, const struct kube_kind *kind,
                                const struct json *object)
{
	const char *id = b->o->volume_id, *pv;
	struct core_event e;

	if (!id)
		return true;
	if (kind == &dpu_volume_kind)
		return str_eq(json_str(object, "metadata.name"), id);
	if (kind == &dpu_attachment_kind)
		return str_eq(dpu_attachment_key(object).volume, id);
	if (kind == &persistent_volume_kind)
		return str_eq(persistent_volume_decode(object).handle, id);
	if (kind == &core_event_kind) {
		e = core_event_decode(object);
		return is_event_of_volume(b, id, &e);
	}
	pv = json_str(inspect_volume_known(b->r, id), "api.persistentVolume.name");
	return str_eq(volume_attachment_decode(object).persistent_volume, pv);
}

static int bundle_object(void *arg, const struct json *item, struct err *err)
{
	struct lines *l = arg;
	struct json *copy AUTO(json_free) = NULL;
	char *text AUTO(free) = NULL;

	if (!bundle_is_drivers(l->b, l->kind, item) || !bundle_is_of_volume(l->b, l->kind, item))
		return 0;
	copy = redact_object(item);
	text = json_print(copy);
	str_add(&l->text, text);
	str_add(&l->text, "\n");
	return l->text.len >= FILE_BYTES ? bundle_write_lines(l, err) : 0;
}

/*
 * Writes the objects of one kind. If the list fails, the error is written to the archive as a file.
 * Returns -1 only if the archive cannot be written.
 */
static int bundle_kind(struct bundle *b, struct kube *k, const struct kube_kind *kind,
                       const char *ns, struct err *err)
{
	struct lines l = { .b = b, .kind = kind, .text = STR_INIT(FILE_BYTES * 4) };
	struct err failed = ERR_INIT;
	char name[64];
	int rc = kube_list(k, kind, ns, NULL, bundle_object, &l, b->d, &failed);

	if (rc) {
		snprintf(name, sizeof(name), "%s.error.txt", kind->plural);
		rc = bundle_add(b, name, failed.msg, err);
	}
	if (rc == 0)
		rc = bundle_write_lines(&l, err);
	str_clear(&l.text);
	return rc;
}

int bundle_objects(struct bundle *b, struct err *err)
{
	const char *ns = b->o->flags.namespace_;
	struct err failed = ERR_INIT;
	struct kube *k = NULL;
	int rc;

	if (!b->asked_api)
		return bundle_add(
			b, "objects.error.txt",
			"the API server was not queried, or did not answer: report.txt has the "
			"reason\n",
			err);
	if (api_connect(b->o, &k, &failed))
		return bundle_add(b, "objects.error.txt", failed.msg, err);
	rc = bundle_kind(b, k, &dpu_volume_kind, ns, err);
	if (rc == 0)
		rc = bundle_kind(b, k, &dpu_attachment_kind, ns, err);
	if (rc == 0)
		rc = bundle_kind(b, k, &persistent_volume_kind, NULL, err);
	if (rc == 0)
		rc = bundle_kind(b, k, &volume_attachment_kind, NULL, err);
	if (rc == 0)
		rc = bundle_kind(b, k, &core_event_kind, ns, err);
	kube_free(k);
	return rc;
}
