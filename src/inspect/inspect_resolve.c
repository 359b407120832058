/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolves a claim, a pod or a node to volume ids through the API server, and suggests a command
 * for a name that is not a volume. Reads only. Findings about the volumes are added elsewhere.
 */
#include "inspect/api_scan.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "dpf/dpu_attachment.h"
#include "dpf/dpu_node.h"

enum claim_state { CLAIM_MISSING, CLAIM_UNBOUND, CLAIM_BOUND, CLAIM_OF_DRIVER };

struct claim {
	char *ns, *name, *pv, *uid;
	enum claim_state state;
};

struct resolve {
	struct inspect_report *r;
	struct inspect_options *o;
	struct kube *kube;
	struct deadline d;
	char *object; /* "claim team-a/data-0" */
	struct claim *claims;
	size_t n_claims;
	struct strs pvs;     /* PersistentVolumes of the node's VolumeAttachments */
	const char *node_id; /* id of the node; its name if kubelet does not have the driver */
	/* the node id registered with kubelet; NULL: the driver is not registered */
	char *registered;
};

static void resolve_add(struct resolve *s, const char *volume_id)
{
	if (!str_empty(volume_id) && !strs_has(&s->o->volumes, volume_id))
		strs_add(&s->o->volumes, volume_id);
}

/* ---- claims ---- */

static void resolve_add_claim(struct resolve *s, const char *ns, const char *name)
{
	s->claims = xrealloc(s->claims, (s->n_claims + 1) * sizeof(*s->claims));
	s->claims[s->n_claims++] = (struct claim) { .ns = xstrdup(ns), .name = xstrdup(name) };
}

static void resolve_clear(struct resolve *s)
{
	for (size_t i = 0; i < s->n_claims; i++) {
		free(s->claims[i].ns);
		free(s->claims[i].name);
		free(s->claims[i].pv);
		free(s->claims[i].uid);
	}
	free(s->claims);
	strs_clear(&s->pvs);
	free(s->registered);
	free(s->object);
	s->kube = kube_free(s->kube);
}

static int resolve_read_claim(void *arg, const struct json *item, struct err *err)
{
	struct claim *c = arg;
	const char *pv = json_str(item, "spec.volumeName");

	(void)err;
	if (!str_eq(json_str(item, "metadata.name"), c->name))
		return 0;
	c->state = str_empty(pv) ? CLAIM_UNBOUND : CLAIM_BOUND;
	free(c->pv);
	free(c->uid);
	c->pv = xstrdup_or_null(pv);
	c->uid = xstrdup_or_null(json_str(item, "metadata.uid"));
	return 0;
}

static int resolve_read_pv_of_claim(void *arg, const struct json *item, struct err *err)
{
	struct resolve *s = arg;
	struct persistent_volume pv = persistent_volume_decode(item);

	(void)err;
	for (size_t i = 0; i < s->n_claims; i++) {
		struct claim *c = &s->claims[i];

		/*
		 * If a claim was deleted and re-created, the old volume's PersistentVolume still
		 * names it.
		 */
		if (!str_eq(pv.claim_namespace, c->ns) || !str_eq(pv.claim_name, c->name) ||
		    (c->state != CLAIM_MISSING && !str_eq(c->pv, pv.name)))
			continue;
		if (!str_eq(pv.driver, s->o->flags.name))
			continue;
		c->state = CLAIM_OF_DRIVER;
		resolve_add(s, pv.handle);
	}
	return 0;
}

static void claim_report(struct resolve *s, const struct claim *c)
{
	char *object AUTO(free) = xasprintf("claim %s/%s", c->ns, c->name);
	char *next AUTO(free) = NULL;

	if (c->state == CLAIM_MISSING) {
		inspect_finding(s->r, object,
		                "kubectl get pvc -A lists all claims; for a pod: inspect pod "
		                "NAMESPACE/NAME",
		                "does not exist (namespace %s has no PersistentVolumeClaim %s)",
		                c->ns, c->name);
	} else if (c->state == CLAIM_UNBOUND) {
		next = xasprintf("kubectl -n %s describe pvc %s shows its Events; it may wait for "
		                 "its first pod",
		                 c->ns, c->name);
		inspect_finding(s->r, object, next,
		                "has no PersistentVolume yet; its volume will be pvc-%s",
		                c->uid ? c->uid : "UID");
	} else if (c->state == CLAIM_BOUND && s->o->subject == INSPECT_CLAIM) {
		next = xasprintf("kubectl get pv %s -o yaml names the driver", c->pv);
		inspect_finding(s->r, object, next, "its PersistentVolume %s is not of driver %s",
		                c->pv, s->o->flags.name);
	}
}

/*
 * `unread`: the driver is not permitted to list claims; then only PersistentVolumes name bound
 * claims.
 */
static int resolve_claims(struct resolve *s, struct err *err)
{
	struct err unread = ERR_INIT;

	for (size_t i = 0; i < s->n_claims && !unread.code; i++) {
		char *fields AUTO(free) = xasprintf("metadata.name=%s", s->claims[i].name);

		IGNORE_RESULT(kube_list_fields(s->kube, &persistent_volume_claim_kind,
		                               s->claims[i].ns, fields, resolve_read_claim,
		                               &s->claims[i], s->d, &unread));
	}
	if (kube_list(s->kube, &persistent_volume_kind, NULL, NULL, resolve_read_pv_of_claim, s,
	              s->d, err))
		return -1;
	for (size_t i = 0; i < s->n_claims; i++) {
		struct claim *c = &s->claims[i];
		char *made AUTO(free) = NULL;

		if (c->state == CLAIM_MISSING && unread.code)
			return err_set(err, unread.code, "%s", unread.msg);
		claim_report(s, c);
		if (c->state != CLAIM_UNBOUND || !c->uid)
			continue;
		made = xasprintf("pvc-%s", c->uid);
		resolve_add(s, made);
	}
	return 0;
}

static int resolve_claim(struct resolve *s, struct err *err)
{
	const char *slash = strchr(s->o->name, '/');
	char *ns AUTO(free) = xstrndup(s->o->name, (size_t)(slash - s->o->name));

	resolve_add_claim(s, ns, slash + 1);
	return resolve_claims(s, err);
}

/* ---- pods ---- */

static int resolve_pod(struct resolve *s, struct err *err)
{
	const char *slash = strchr(s->o->name, '/');
	char *ns AUTO(free) = xstrndup(s->o->name, (size_t)(slash - s->o->name));
	struct json *pod AUTO(json_free) = NULL;
	int rc = kube_get(s->kube, &pod_kind, ns, slash + 1, s->d, &pod, err);

	if (rc < 0)
		return -1;
	if (rc == KUBE_ABSENT) {
		inspect_finding(s->r, s->object,
		                "kubectl get pods -A lists all pods; for a volume of a "
		                "deleted pod: inspect claim NAMESPACE/NAME",
		                "does not exist (namespace %s has no pod %s)", ns, slash + 1);
		return 0;
	}
	json_foreach (v, json_at(pod, "spec.volumes")) {
		const char *claim = json_str(v, "persistentVolumeClaim.claimName");
		/* The claim of a generic ephemeral volume is named after the pod and the volume. */
		char *made AUTO(free) = json_member(v, "ephemeral")
		                                ? xasprintf("%s-%s", slash + 1, api_text(v, "name"))
		                                : NULL;

		if (claim || made)
			resolve_add_claim(s, ns, claim ? claim : made);
	}
	if (s->n_claims && resolve_claims(s, err))
		return -1;
	if (!s->o->volumes.n)
		inspect_finding(s->r, s->object,
		                "its volumes belong to other drivers, or it has "
		                "none",
		                "has no volume of driver %s (%zu claims)", s->o->flags.name,
		                s->n_claims);
	return 0;
}

/* ---- nodes ---- */

static int resolve_read_csi_node(void *arg, const struct json *item, struct err *err)
{
	struct resolve *s = arg;

	(void)err;
	if (!str_eq(json_str(item, "metadata.name"), s->o->name))
		return 0;
	free(s->registered);
	s->registered = xstrdup_or_null(csi_node_id(item, s->o->flags.name));
	s->node_id = s->registered ? s->registered : s->o->name;
	return KUBE_STOP;
}

static int resolve_read_attachment(void *arg, const struct json *item, struct err *err)
{
	struct resolve *s = arg;
	struct dpu_attachment_key key = dpu_attachment_key(item);

	(void)err;
	if (str_eq(key.node, s->node_id))
		resolve_add(s, key.volume);
	return 0;
}

static int resolve_read_wish(void *arg, const struct json *item, struct err *err)
{
	struct resolve *s = arg;
	struct volume_attachment a = volume_attachment_decode(item);

	(void)err;
	if (str_eq(a.attacher, s->o->flags.name) && str_eq(a.node, s->o->name))
		strs_add(&s->pvs, a.persistent_volume);
	return 0;
}

static int resolve_read_pv_of_node(void *arg, const struct json *item, struct err *err)
{
	struct resolve *s = arg;
	struct persistent_volume pv = persistent_volume_decode(item);

	(void)err;
	if (str_eq(pv.driver, s->o->flags.name) && strs_has(&s->pvs, pv.name))
		resolve_add(s, pv.handle);
	return 0;
}

static int resolve_node(struct resolve *s, struct err *err)
{
	s->node_id = s->o->name;
	if (kube_list(s->kube, &csi_node_kind, NULL, NULL, resolve_read_csi_node, s, s->d, err) ||
	    kube_list(s->kube, &dpu_attachment_kind, s->o->flags.namespace_, NULL,
	              resolve_read_attachment, s, s->d, err) ||
	    kube_list(s->kube, &volume_attachment_kind, NULL, NULL, resolve_read_wish, s, s->d,
	              err))
		return -1;
	if (s->pvs.n && kube_list(s->kube, &persistent_volume_kind, NULL, NULL,
	                          resolve_read_pv_of_node, s, s->d, err))
		return -1;
	if (!s->registered && !s->o->volumes.n)
		inspect_finding(s->r, s->object,
		                "kubectl get csinodes lists the nodes and their drivers; check "
		                "that the driver's pod runs there",
		                "kubelet has no driver %s there, and no volume is attached to it",
		                s->o->flags.name);
	return 0;
}

/* ---- all subjects ---- */

/* Resolves without the API server, which is only possible for the node of this host. */
static void resolve_on_node(struct resolve *s)
{
	struct inspect_options *o = s->o;
	bool own = o->subject == INSPECT_NODE && str_eq(o->name, o->flags.node_id);

	o->node_only = o->subject == INSPECT_NODE;
	if (!own)
		inspect_finding(s->r, s->object,
		                "run it in the controller's pod (kubectl exec "
		                "deploy/snap-csi-controller -c snap-csi-plugin -- "
		                "snap-csi-plugin inspect ...), which names the volumes; here: "
		                "inspect volume ID",
		                "is unknown on this host (node %s), which has no access to the "
		                "API server; all volumes of the host are shown",
		                o->flags.node_id);
}

static void resolve_by_api(struct resolve *s)
{
	static int (*const by_subject[])(struct resolve * s, struct err * err) = {
		[INSPECT_CLAIM] = resolve_claim,
		[INSPECT_POD] = resolve_pod,
		[INSPECT_NODE] = resolve_node,
	};
	struct inspect_options *o = s->o;
	struct err err = ERR_INIT;

	if (api_connect(o, &s->kube, &err) || by_subject[o->subject](s, &err)) {
		inspect_finding(s->r, s->object,
		                "kubectl get pv shows the volumeHandle of each claim: inspect "
		                "volume ID",
		                "its volumes could not be determined, so all are shown: %s",
		                err.msg);
		strs_clear(&o->volumes);
		return;
	}
	o->resolved = true;
	if (o->volumes.n == 1)
		o->volume_id = o->volumes.v[0];
}

void inspect_resolve(struct inspect_report *r, struct inspect_options *o, struct deadline d)
{
	static const char *const words[] = {
		[INSPECT_CLAIM] = "claim", [INSPECT_POD] = "pod", [INSPECT_NODE] = "node"
	};
	struct resolve s = { .r = r, .o = o, .d = d };

	if (!o->name || o->subject <= INSPECT_VOLUME)
		return;
	s.object = xasprintf("%s %s", words[o->subject], o->name);
	if (!o->flags.controller && str_empty(o->flags.kubeconfig))
		resolve_on_node(&s);
	else
		resolve_by_api(&s);
	resolve_clear(&s);
}

/* ---- names that do not exist ---- */

static char *unknown_next(const struct inspect_report *r, const char *id)
{
	struct str next AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);

	json_foreach (meant, json_member(r->tree, "didYouMean"))
		str_addf(&next, "%s%s", next.len ? ", or " : "it is another name of: inspect ",
		         json_text(meant));
	if (next.len)
		return str_take(&next);
	if (strchr(id, '/'))
		return xasprintf("for a claim or a pod: inspect claim %s, or inspect pod %s", id,
		                 id);
	return xstrdup("a volume's id is the volumeHandle of its PersistentVolume (kubectl get pv "
	               "-o custom-columns=CLAIM:.spec.claimRef.name,"
	               "ID:.spec.csi.volumeHandle); for a claim: inspect claim NAMESPACE/NAME; for "
	               "a pod: inspect pod NAMESPACE/NAME");
}

void inspect_find_unknown(struct inspect_report *r, const struct inspect_options *o)
{
	const struct json *volume =
		o->subject == INSPECT_VOLUME ? inspect_volume_known(r, o->volume_id) : NULL;
	char *object AUTO(free) = NULL, *next AUTO(free) = NULL;
	bool api = json_at(r->tree, "api.dpuVolumes") && !json_at(r->tree, "api.error");

	if (o->subject != INSPECT_VOLUME)
		return;
	json_foreach (side, volume)
		if (json_count(side))
			return;
	object = xasprintf("volume %s", o->volume_id);
	next = unknown_next(r, o->volume_id);
	inspect_finding(r, object, next, "is unknown: %s%s%s%s",
	                o->flags.node ? "this host has no mount, no record and no error of it" : "",
	                o->flags.node && api ? ", and " : "",
	                api ? "it has no DPUVolume, attachment or PersistentVolume in namespace "
	                    : (o->flags.node ? "" : "the API server was not queried"),
	                api ? o->flags.namespace_ : "");
}
