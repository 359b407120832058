/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the object and checks its status. Text that begins with a brace is JSON, anything else
 * YAML. The controller accepts an attachment without the condition Ready, which old versions of DPF
 * do not set, because it waits for the attachment. A file is read only once, so here Ready is
 * required.
 */
#include "host/attachment_file.h"

#include <string.h>

#include "common/file.h"
#include "common/mem.h"
#include "dpf/conditions.h"
#include "dpf/attachment_context.h"
#include "kube/kube_yaml.h"

#define FILE_MAX_BYTES (1024 * 1024)

/* ---- shape ---- */

static int parse_text(const char *what, const char *text, size_t n, struct json **ret,
                      struct err *err)
{
	size_t space = strspn(text, " \t\r\n");

	if (text[space] == '{')
		return json_parse(what, text, n, ret, err);
	return kube_yaml_parse_object(what, text, n, ret, err);
}

static int attachment_check_kind(const char *what, const struct json *tree, struct err *err)
{
	char *version AUTO(free) =
		xasprintf("%s/%s", dpu_attachment_kind.group, dpu_attachment_kind.version);
	const char *kind = json_str(tree, "kind"), *api = json_str(tree, "apiVersion");

	if (!json_is_object(tree))
		return err_set(err, ERR_INVALID, "%s: is not a Kubernetes object", what);
	if (kind && str_has_suffix(kind, "List"))
		return err_set(err, ERR_INVALID,
		               "%s: is a %s of %zu objects; write one %s: kubectl get %s NAME",
		               what, kind, json_count(json_at(tree, "items")),
		               dpu_attachment_kind.kind, dpu_attachment_kind.plural);
	if (str_eq(kind, dpu_attachment_kind.kind) && str_eq(api, version))
		return 0;
	return err_set(err, ERR_INVALID, "%s: is %s of %s, not %s of %s", what,
	               kind ? kind : "an object without kind", api ? api : "no apiVersion",
	               dpu_attachment_kind.kind, version);
}

static int attachment_check_name(const char *what, const char *path, const char *name,
                                 struct err *err)
{
	if (!*name)
		return err_set(err, ERR_INVALID, "%s: %s is missing", what, path);
	if (!dns1123_subdomain(name))
		return err_set(err, ERR_INVALID,
		               "%s: %s is \"%s\", which is not a valid object "
		               "name",
		               what, path, name);
	return 0;
}

static int attachment_check_shape(const char *what, struct attachment_file *f, struct err *err)
{
	if (dpu_attachment_decode(f->tree, &f->is, err)) {
		err_wrap(err, "%s", what);
		return err_recode(err, ERR_INVALID);
	}
	if (attachment_check_name(what, "metadata.name", f->is.key.name, err) ||
	    attachment_check_name(what, "spec.dpuVolumeName", f->is.key.volume, err))
		return -1;
	if (!*f->is.function_type)
		return err_set(err, ERR_INVALID, "%s: spec.functionType is missing", what);
	if (f->is.has_nvme && f->is.has_virtiofs)
		return err_set(
			err, ERR_INVALID,
			"%s: status.dpu has both nvmeAttrs and virtioFSAttrs; a volume is an "
			"NVMe namespace or a virtio-fs share",
			what);
	f->kind = f->is.has_virtiofs ? EMULATION_VIRTIOFS : EMULATION_NVME;
	return 0;
}

int attachment_parse(const char *what, const char *text, size_t n, struct attachment_file *ret,
                     struct err *err)
{
	struct attachment_file f AUTO(attachment_file_clear) = { .tree = NULL };

	if (parse_text(what, text, n, &f.tree, err) || attachment_check_kind(what, f.tree, err) ||
	    attachment_check_shape(what, &f, err))
		return -1;
	*ret = f;
	f.tree = NULL;
	return 0;
}

void attachment_take(struct json *tree, struct attachment_file *ret)
{
	struct err err = ERR_INIT;

	*ret = (struct attachment_file) { .tree = tree };
	if (attachment_check_shape("an attachment of the API server", ret, &err))
		snprintf(ret->fault, sizeof(ret->fault), "%s", err.msg);
}

int attachment_file_read(const char *path, struct attachment_file *ret, struct err *err)
{
	bool standard = str_eq(path, "-");
	char *text AUTO(free) = NULL;
	size_t n;

	if (file_read(standard ? "/dev/stdin" : path, FILE_MAX_BYTES, &text, &n, err))
		return -1;
	return attachment_parse(standard ? "standard input" : path, text, n, ret, err);
}

void attachment_file_clear(struct attachment_file *f)
{
	json_free(f->tree);
	f->tree = NULL;
}

/* ---- status ---- */

bool attachment_is_ready(const struct attachment_file *f, struct str *why)
{
	struct str missing AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);

	if (f->is.key.deleting || *f->fault) {
		str_add(why, f->is.key.deleting ? "is being deleted" : f->fault);
		return false;
	}
	if (!f->is.attached || !condition_holds(f->tree, CONDITION_READY)) {
		str_addf(why, "%s is not True",
		         f->is.attached ? "its condition Ready" : "status.dpuAttached");
		state_describe(f->tree, "", why);
		return false;
	}
	if (!f->is.has_nvme && !f->is.has_virtiofs && f->is.has_dpu)
		str_add(&missing, "status.dpu has neither nvmeAttrs nor virtioFSAttrs");
	else if (!attachment_is_stale(f->tree, &f->is, &missing) &&
	         attachment_is_complete(&f->is, f->kind, &missing))
		return true;
	str_addf(why, "is not complete: %s", missing.ptr);
	return false;
}
