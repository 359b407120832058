/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API server's facts: who is asked, and what is said when nobody can be. Reads only; the lists
 * are in api_read.c, what follows from them in the other api_*.c.
 */

#include "inspect/api_scan.h"

#define NO_ACCESS                                                                             \
	"a node has no access to the API server: ask in the controller's pod (kubectl exec "  \
	"deploy/snap-csi-controller -c snap-csi-plugin -- snap-csi-plugin inspect), or here " \
	"with --kubeconfig and --namespace"

static int report_error(struct inspect_report *r, const char *why)
{
	struct str text AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);

	str_add_shown(&text, why);
	json_set_str(json_sub(r->tree, "api"), "error", text.ptr);
	return 0;
}

/* That the API server refuses or is away may be the very incident. */
static int report_failure(struct api_scan *l, const struct err *err)
{
	const char *next =
		"is the API server up (kubectl get --raw /readyz), and reached from here?";

	if (err->code == ERR_PERMISSION)
		next = "give the account the rights of manifests/base/rbac.yaml; kubectl auth "
		       "can-i --list --as=system:serviceaccount:NAMESPACE:ACCOUNT shows those that "
		       "it has";
	else if (err->code == ERR_UNAUTHENTICATED)
		next = "is the token or the certificate still valid? The text names the file that "
		       "it was read from";
	else if (err->code == ERR_PRECONDITION)
		next = "is DPF installed in this cluster (kubectl get crd "
		       "dpuvolumes.storage.dpu.nvidia.com)?";
	inspect_finding(l->r, "API server", next, "%s", err->msg);
	return report_error(l->r, err->msg);
}

static int api_scan_all(struct api_scan *l)
{
	struct err err = ERR_INIT;
	int rc = api_read(l, &err);

	if (rc)
		return report_failure(l, &err);
	api_find_contradictions(l);
	api_find_stuck(l);
	api_find_orphans(l);
	return 0;
}

int api_connect(const struct inspect_options *o, struct kube **ret, struct err *err)
{
	const struct flags *f = &o->flags;
	const struct kube_options options = {
		.kubeconfig = str_empty(f->kubeconfig) ? NULL : f->kubeconfig,
		.user_agent = "snap-csi/" SNAP_CSI_VERSION,
	};

	return kube_new(&options, ret, err);
}

int inspect_api_facts(struct inspect_report *r, const struct inspect_options *o, struct deadline d,
                      struct err *err)
{
	const struct flags *f = &o->flags;
	struct api_scan l = { .r = r, .o = o, .d = d };
	struct json *api = json_sub(r->tree, "api");
	struct err failed = ERR_INIT;
	int rc;

	(void)err;
	if (!f->controller && str_empty(f->kubeconfig))
		return report_error(r, NO_ACCESS);
	if (str_empty(f->namespace_))
		return report_error(r, "--namespace is needed: that of the DPUVolumes");
	json_set_str(api, "namespace", f->namespace_);
	json_set_str(api, "driver", f->name);
	if (api_connect(o, &l.c.kube, &failed))
		return report_failure(&l, &failed);
	l.c.namespace = f->namespace_;
	l.c.driver_name = f->name;
	l.eye = (struct api_eye) {
		.c = &l.c,
		.now = time(NULL),
		.all = l.o->volume_id != NULL,
	};
	rc = api_scan_all(&l);
	api_scan_clear(&l);
	kube_free(l.c.kube);
	return rc;
}
