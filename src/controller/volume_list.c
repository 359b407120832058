/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page costs one list of DPUVolumes. Attachments are not read: to read each would take hundreds
 * of requests, and the API selects attachments only by labels, with a search through all of them
 * for each page. The nodes come from the index of attachments, as of the last event.
 *
 * Without a working watch the answer is UNAVAILABLE, never a page without nodes, which
 * external-attacher would treat as "attached nowhere". A volume that was just attached or detached
 * may be listed with its old nodes for a moment; external-attacher then repeats a call that changes
 * nothing.
 */
#include "controller/volume_list.h"

#include "common/limits.h"
#include "common/log.h"
#include "common/str.h"
#include "controller/attachment_index.h"
#include "controller/attachments.h"
#include "controller/list_token.h"
#include "controller/volume_provenance.h"
#include "controller/volume_read.h"
#include "dpf/dpu_attachment.h"

#define UNREAD_MAX 2000

static struct listed_volume listed_volume_of(const struct dpu_volume *v, struct arena *arena)
{
	return (struct listed_volume) {
		.id = arena_strdup(arena, v->name),
		.capacity = v->capacity,
		.context = provenance_context(v, NULL, arena),
	};
}

static void add_node(struct listed_volume *v, const char *node, struct arena *arena)
{
	for (size_t i = 0; i < v->n_nodes; i++)
		if (str_eq(v->nodes[i], node))
			return;
	v->nodes[v->n_nodes++] = arena_strdup(arena, node);
}

/* ---- a page ---- */

struct listing {
	const struct controller *c;
	struct arena *arena;
	struct volume_page *page;
	bool *made; /* for each volume of the page */
	size_t most;
	struct str *unread; /* "OBJECT: reason" for each object that has an unreadable field */
};

/* Returns true if the object may be a volume, but the fields that would prove it are unreadable. */
static bool hides_its_state(const struct json *item, const struct dpu_volume *v, bool unreadable)
{
	const struct json *status = json_at(item, "status"), *phase = json_member(status, "phase");

	if (!status || !json_is_object(status))
		return status;
	return unreadable &&
	       ((phase && !json_is_string(phase)) ||
	        (json_at(status, "state.volumeInfo.capacity.storage") && !v->capacity));
}

static int add_listed_volume(void *arg, const struct json *item, struct err *err)
{
	struct listing *l = arg;
	struct err why = ERR_INIT;
	char ref[OBJECT_REF_MAX];
	struct dpu_volume v;
	bool unreadable;

	if (l->page->n == l->most)
		return err_set(err, ERR_UNAVAILABLE,
		               "the API server sent more DPUVolumes than requested (limit %zu); "
		               "check for a proxy in between",
		               l->most);
	unreadable = dpu_volume_decode(item, &v, &why) < 0;
	if (unreadable)
		str_addf(l->unread, "%s%s: %s", l->unread->len ? "; " : "",
		         object_ref(l->c, &dpu_volume_kind, v.name, ref), why.msg);
	if (!*v.name)
		return 0;
	l->made[l->page->n] = dpu_volume_was_bound(&v) || hides_its_state(item, &v, unreadable);
	l->page->v[l->page->n++] = listed_volume_of(&v, l->arena);
	return 0;
}

static int read_volume_page(struct listing *l, const char *token, struct deadline d,
                            struct err *err)
{
	const char *from = list_token_read(l->c->namespace, token, l->arena);
	char *next AUTO(free) = NULL;
	int rc = KUBE_NO_SUCH_PAGE;

	if (from)
		rc = kube_list_page(l->c->kube, &dpu_volume_kind, l->c->namespace, (int)l->most,
		                    from, add_listed_volume, l, &next, d, err);
	if (rc == KUBE_NO_SUCH_PAGE)
		return err_set(err, ERR_ABORTED,
		               "StartingToken: %s; restart the list without a "
		               "token",
		               from ? "the API server no longer accepts it"
		                    : "it was not issued by this driver");
	if (rc) {
		/* ABORTED would mean that the token is wrong. */
		if (err->code == ERR_ABORTED)
			IGNORE_RESULT(err_recode(err, ERR_UNAVAILABLE));
		return err_wrap(err, "listing the volumes of namespace %s", l->c->namespace);
	}
	l->page->next = list_token_make(l->c->namespace, next, l->arena);
	if (l->unread->len)
		log_limited(LOG_WARNING, 60, "the list omits unreadable objects: %s",
		            l->unread->ptr);
	return 0;
}

/* ---- the nodes of a page ---- */

/* Returns false if the attachments are being re-read. */
static bool add_nodes(const struct controller *c, struct listed_volume *v, struct arena *arena)
{
	struct attachment_refs p AUTO(attachment_refs_clear) = { .n = 0 };
	bool known = attachment_index_find(c->attachments, v->id, NULL, ATTACHMENT_ANY_AGE,
	                                   SIZE_MAX, &p);

	v->n_nodes = 0;
	v->nodes = arena_alloc(arena, (p.n + 1) * sizeof(*v->nodes));
	for (size_t i = 0; i < p.n; i++)
		if (p.v[i].attached)
			add_node(v, p.v[i].node, arena);
	return known;
}

static bool add_all_nodes(const struct listing *l)
{
	for (size_t i = 0; i < l->page->n; i++)
		if (!add_nodes(l->c, &l->page->v[i], l->arena))
			return false;
	return true;
}

static int await_index(const struct controller *c, struct deadline d, struct err *err)
{
	int rc = c->attachments ? attachment_index_ready(c->attachments, d, err) : INDEX_UNUSABLE;

	if (rc <= 0)
		return rc;
	return err_set(err, ERR_UNAVAILABLE,
	               "could not determine the nodes of the volumes, because the "
	               "DPUVolumeAttachments of namespace %s cannot be watched at the moment; "
	               "the driver's log has the reason; retry",
	               c->namespace);
}

/* Removes DPUVolumes whose id no client can have. */
static void drop_unmade(const struct listing *l)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->page->n; i++)
		if (l->made[i] || l->page->v[i].n_nodes)
			l->page->v[kept++] = l->page->v[i];
	l->page->n = kept;
}

int volume_list(const struct controller *c, size_t most, const char *token, struct deadline d,
                struct arena *arena, struct volume_page *ret, struct err *err)
{
	struct str unread AUTO(str_clear) = STR_INIT(UNREAD_MAX);
	struct listing l = { .c = c, .arena = arena, .page = ret, .unread = &unread };

	l.most = most && most < LIMIT_KUBE_PAGE ? most : LIMIT_KUBE_PAGE;
	l.made = arena_alloc(arena, l.most * sizeof(*l.made));
	*ret = (struct volume_page) { .v = arena_alloc(arena, l.most * sizeof(*ret->v)) };
	d = controller_deadline(c, d);
	/* Done before the list, so that no request is sent if the nodes are not available. */
	if (await_index(c, d, err) || read_volume_page(&l, token, d, err))
		return -1;
	while (!add_all_nodes(&l))
		if (await_index(c, d, err))
			return -1;
	drop_unmade(&l);
	return 0;
}

/* ---- one volume ---- */

struct finding {
	struct arena *arena;
	struct listed_volume *v;
	size_t room; /* capacity of `nodes` */
};

static int add_attached(void *arg, const struct json *item, struct err *err)
{
	struct finding *f = arg;
	struct dpu_attachment_key key = dpu_attachment_key(item);

	(void)err;
	if (!key.attached || !str_eq(key.volume, f->v->id))
		return 0;
	if (f->v->n_nodes == f->room) {
		const char **more = arena_alloc(f->arena, (f->room * 2 + 4) * sizeof(*more));

		for (size_t i = 0; i < f->v->n_nodes; i++)
			more[i] = f->v->nodes[i];
		f->v->nodes = more;
		f->room = f->room * 2 + 4;
	}
	add_node(f->v, key.node, f->arena);
	return 0;
}

int volume_get(const struct controller *c, const char *id, struct deadline d, struct arena *arena,
               struct listed_volume *ret, struct err *err)
{
	struct json *object AUTO(json_free) = NULL;
	struct finding f = { .arena = arena, .v = ret };
	struct dpu_volume v;

	d = controller_deadline(c, d);
	if (volume_read(c, id, d, &object, &v, err))
		return -1;
	*ret = listed_volume_of(&v, arena);
	if (attachments_each(c, id, add_attached, &f, d, err))
		return err_wrap(err, "reading the attachments of volume %s", id);
	if (dpu_volume_was_bound(&v) || ret->n_nodes)
		return 0;
	return volume_refuse_unbound(c, id, err);
}
