/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the API server's facts: connects, and adds a finding if that fails. Reads only. The
 * lists are in api_read.c, the findings in the other api_*.c files.
 */

#include "inspect/api_scan.h"

#include <errno.h>

#define CAUSES_MS 5000
#define CLOCK_S 300

#define NO_ACCESS                                                                                  \
	"a node has no access to the API server: run it in the controller's pod (kubectl exec "    \
	"deploy/snap-csi-controller -c snap-csi-plugin -- snap-csi-plugin inspect), or here with " \
	"--kubeconfig and --namespace"

static int report_error(struct inspect_report *r, const char *why)
{
	struct str text AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);

	str_add_shown(&text, why);
	json_set_str(json_sub(r->tree, "api"), "error", text.ptr);
	return 0;
}

/* Reports an API server that refuses or is unreachable, because this may be the incident itself. */
static int report_failure(struct api_scan *l, const struct err *err)
{
	const char *next =
		"check that the API server is up (kubectl get --raw /readyz) and reachable from "
		"here";

	if (err->code == ERR_PERMISSION)
		next = "give the account the rights of manifests/base/rbac.yaml; kubectl auth "
		       "can-i --list --as=system:serviceaccount:NAMESPACE:ACCOUNT lists its "
		       "rights";
	else if (err->code == ERR_UNAUTHENTICATED)
		next = "check that the token or the certificate is still valid; the text names "
		       "its file";
	else if (err->code == ERR_PRECONDITION)
		next = "check that DPF is installed in this cluster (kubectl get crd "
		       "dpuvolumes.storage.dpu.nvidia.com)?";
	else if (err->sys != ENOTCONN)
		next = "the API server answered with an error: check the component that its text "
		       "names, for example a conversion webhook; kubectl get dpuvolumes -A sends "
		       "the same request";
	inspect_finding(l->r, "API server", next, "%s", err->msg);
	return report_error(l->r, err->msg);
}

/*
 * Compares the clocks. Ages are differences of two clocks, and an age that is too small hides an
 * object that has been waiting for a long time.
 */
static void api_compare_clocks(struct api_scan *l)
{
	char buf[64];

	if (l->ahead >= CLOCK_S)
		inspect_finding(l->r, "API server",
		                "compare `date -u` on the hosts of all API servers and on this "
		                "host, and correct the wrong clock; until then findings may be "
		                "missing from this report",
		                "the clocks differ: an object was created %s later than the time "
		                "of the list, so ages in this report are too small",
		                inspect_age(l->ahead, buf));
}

static int api_scan_all(struct api_scan *l)
{
	struct err err = ERR_INIT;
	int rc = api_read(l, &err);

	if (rc)
		return report_failure(l, &err);
	api_compare_clocks(l);
	api_read_events(l);
	api_find_contradictions(l);
	api_check_nodes(l);
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
	struct api_scan l = {
		.r = r, .o = o, .d = d, .causes_ms = o->causes_ms ? o->causes_ms : CAUSES_MS
	};
	struct json *api = json_sub(r->tree, "api");
	struct err failed = ERR_INIT;
	int rc;

	(void)err;
	if (!f->controller && str_empty(f->kubeconfig))
		return report_error(r, NO_ACCESS);
	if (str_empty(f->namespace_))
		return report_error(r, "--namespace is required: the namespace of the DPUVolumes");
	json_set_str(api, "namespace", f->namespace_);
	json_set_str(api, "driver", f->name);
	if (api_connect(o, &l.c.kube, &failed))
		return report_failure(&l, &failed);
	l.c.namespace = f->namespace_;
	l.c.driver_name = f->name;
	l.eye = (struct api_eye) {
		.c = &l.c,
		.all = l.o->volume_id != NULL,
		.ahead = &l.ahead,
	};
	rc = api_scan_all(&l);
	api_scan_clear(&l);
	kube_free(l.c.kube);
	return rc;
}
