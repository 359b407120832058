/* SPDX-License-Identifier: Apache-2.0 */
/* See kube_memory.h. One table for the process: each test begins with fake_reset(). */
#include "test/unit/controller/kube_memory.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"

struct kube_memory fake;

struct json *fake_json(const char *text)
{
	struct json *j = NULL;
	struct err err = ERR_INIT;

	ck_assert_msg(json_parse("test", text, strlen(text), &j, &err) == 0, "%s: %s", text,
	              err.msg);
	return j;
}

void fake_reset(void)
{
	for (size_t i = 0; i < fake.n_objects; i++)
		json_free(fake.objects[i].tree);
	for (size_t i = 0; i < fake.n_steps; i++)
		json_free(fake.steps[i].patch);
	json_free(fake.on_create);
	memset(&fake, 0, sizeof(fake));
	fake.end = ERR_DEADLINE;
	fake.follower.start = KUBE_FOLLOW_COMPLETE;
}

void fake_tell(enum kube_follow_event news, const struct json *tree)
{
	char *text AUTO(free) = tree ? json_print(tree) : xstrdup("");

	fake.follower.fn(fake.follower.arg, news, text, strlen(text));
}

static void fake_tell_of(enum kube_follow_event news, const struct fake_object *o)
{
	if (!strcmp(fake.follower.plural, o->plural) && !fake.follower.quiet)
		fake_tell(news, o->tree);
}

static void fake_remove(struct fake_object *o)
{
	fake_tell_of(KUBE_FOLLOW_DELETED, o);
	*o = (struct fake_object) { .tree = o->tree, .gone = true };
}

struct fake_object *fake_find(const char *plural, const char *name)
{
	for (size_t i = 0; i < fake.n_objects; i++) {
		struct fake_object *o = &fake.objects[i];

		if (!o->gone && !strcmp(o->plural, plural) && !strcmp(o->name, name))
			return o;
	}
	return NULL;
}

struct fake_object *fake_add(const char *plural, const struct json *tree)
{
	struct fake_object *o = &fake.objects[fake.n_objects++];
	struct json *metadata;
	char uid[64];

	ck_assert_uint_lt(fake.n_objects, FAKE_MAX);
	*o = (struct fake_object) { .tree = json_copy(tree), .version = ++fake.version };
	snprintf(o->plural, sizeof(o->plural), "%s", plural);
	snprintf(o->name, sizeof(o->name), "%s", json_str(tree, "metadata.name"));
	metadata = json_sub(o->tree, "metadata");
	snprintf(uid, sizeof(uid), FAKE_UID "%04d", ++fake.uid);
	if (!json_str(o->tree, "metadata.uid"))
		json_set_str(metadata, "uid", uid);
	json_set_int(metadata, "generation", 1);
	fake_tell_of(KUBE_FOLLOW_CHANGED, o);
	return o;
}

void fake_put(const char *plural, const char *text)
{
	struct json *j = fake_json(text);

	fake_add(plural, j);
	json_free(j);
}

static void fake_change(struct fake_object *o, const struct json *patch)
{
	json_merge_patch(o->tree, patch);
	o->version = ++fake.version;
	fake_tell_of(KUBE_FOLLOW_CHANGED, o);
}

void fake_change_text(const char *plural, const char *name, const char *patch)
{
	struct json *j = fake_json(patch);

	fake_change(fake_find(plural, name), j);
	json_free(j);
}

void fake_then(const char *plural, const char *name, const char *patch)
{
	struct fake_step *s = &fake.steps[fake.n_steps++];

	ck_assert_uint_lt(fake.n_steps, FAKE_MAX);
	snprintf(s->plural, sizeof(s->plural), "%s", plural);
	snprintf(s->name, sizeof(s->name), "%s", name);
	s->patch = patch ? fake_json(patch) : NULL;
}

void fake_refuse_after(int skip, const char *verb, const char *plural, enum err_code code,
                       const char *text)
{
	fake.refusals[fake.n_refusals++] = (struct fake_refusal) { verb, plural, code, text, skip };
}

void fake_refuse(const char *verb, const char *plural, enum err_code code, const char *text)
{
	fake_refuse_after(0, verb, plural, code, text);
}

static int fake_refused(const char *verb, const struct kube_kind *kind, struct err *err)
{
	for (size_t i = 0; i < fake.n_refusals; i++) {
		struct fake_refusal *r = &fake.refusals[i];

		if (!strcmp(r->verb, verb) && !strcmp(r->plural, kind->plural) && r->skip-- <= 0)
			return err_set(err, r->code, "%s", r->text);
	}
	return 0;
}

bool fake_run_step(void)
{
	struct fake_step *s = &fake.steps[fake.next_step];
	struct fake_object *o;

	if (fake.next_step == fake.n_steps)
		return false;
	fake.next_step++;
	o = fake_find(s->plural, s->name);
	if (o && s->patch)
		fake_change(o, s->patch);
	else if (o)
		fake_remove(o);
	return true;
}

/* ---- kube.h ---- */

int kube_get(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
             struct deadline d, struct json **ret, struct err *err)
{
	struct fake_object *o = fake_find(kind->plural, name);

	(void)k, (void)d;
	fake.gets++;
	if (fake.during_get)
		fake.during_get();
	if (strcmp(kind->plural, "nodes") && strcmp(kind->plural, "csinodes") &&
	    strcmp(kind->plural, "persistentvolumes"))
		ck_assert_str_eq(ns, FAKE_NS);
	if (fake_refused("get", kind, err))
		return -1;
	if (!o || fake.comes_and_goes)
		return KUBE_ABSENT;
	*ret = json_copy(o->tree);
	return 0;
}

int kube_get_cached(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
                    struct deadline d, struct json **ret, struct err *err)
{
	if (!fake.cached)
		return kube_get(k, kind, ns, name, d, ret, err);
	fake.gets++;
	if (!*fake.cached)
		return KUBE_ABSENT;
	*ret = fake_json(fake.cached);
	return 0;
}

int kube_create(struct kube *k, const struct kube_kind *kind, const char *ns, struct json *object,
                struct deadline d, struct json **ret, struct err *err)
{
	struct fake_object *o;

	(void)k, (void)d;
	for (size_t i = 0; i < ARRAY_LEN(fake.before_create); i++)
		if (fake.before_create[i])
			fake_put(kind->plural, TAKE(fake.before_create[i]));
	o = fake_find(kind->plural, json_str(object, "metadata.name"));
	fake.creates++;
	ck_assert_str_eq(ns, strcmp(kind->plural, "events") ? FAKE_NS : "default");
	if (fake_refused("create", kind, err))
		return -1;
	if (o)
		return KUBE_EXISTS;
	o = fake_add(kind->plural, object);
	if (fake.admission)
		fake_change_text(kind->plural, o->name, fake.admission);
	*ret = json_copy(o->tree);
	if (fake.on_create)
		fake_change(o, fake.on_create);
	if (fake.lost_creates-- <= 0)
		return 0;
	json_free(TAKE(*ret));
	return err_set(err, ERR_UNAVAILABLE, "incomplete answer");
}

static int fake_conflict(struct err *err)
{
	return err_set(err, ERR_ABORTED, "patch: the object has been modified");
}

int kube_patch(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
               const struct json *patch, struct deadline d, struct json **ret, struct err *err)
{
	struct fake_object *o = fake_find(kind->plural, name);

	(void)k, (void)d;
	fake.patches++;
	if (strcmp(kind->plural, "nodes"))
		ck_assert_str_eq(ns, FAKE_NS);
	if (fake_refused("patch", kind, err))
		return -1;
	if (o && fake.before_patch) {
		fake_change_text(kind->plural, name, TAKE(fake.before_patch));
		return fake_conflict(err);
	}
	if (!o)
		return KUBE_ABSENT;
	fake_change(o, patch);
	if (fake.lost_patch) {
		fake.lost_patch = false;
		return fake_conflict(err);
	}
	if (ret)
		*ret = json_copy(o->tree);
	return 0;
}

int kube_schema(struct kube *k, const struct kube_kind *kind, struct deadline d, struct json **ret,
                struct err *err)
{
	(void)k, (void)kind, (void)d;
	fake.schemas++;
	if (!fake.schema)
		return err_set(err, ERR_PERMISSION, "/openapi/v3 is forbidden");
	*ret = fake_json(fake.schema);
	return 0;
}

bool kube_may_come(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name)
{
	(void)k, (void)kind, (void)ns, (void)name;
	return fake.may_come;
}

bool kube_may_change(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name)
{
	(void)k, (void)kind, (void)ns, (void)name;
	return fake.may_change;
}

int kube_delete(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
                const char *uid, struct deadline d, struct err *err)
{
	struct fake_object *o = fake_find(kind->plural, name);

	(void)k, (void)d;
	fake.deletes++;
	ck_assert_str_eq(ns, FAKE_NS);
	ck_assert_msg(uid && *uid, "a DELETE without uid");
	if (o && fake.gone_before_delete && !strcmp(fake.gone_before_delete, name)) {
		fake_remove(o);
		o = NULL;
	}
	if (fake_refused("delete", kind, err))
		return -1;
	if (!o)
		return KUBE_ABSENT;
	if (strcmp(json_str(o->tree, "metadata.uid"), uid))
		return KUBE_REPLACED;
	if (fake.hold) {
		json_set_str(json_sub(o->tree, "metadata"), "deletionTimestamp",
		             "2026-01-01T00:00:00Z");
		o->version = ++fake.version;
	} else {
		fake_remove(o);
	}
	return 0;
}

int kube_delete_state(struct kube *k, const struct kube_kind *kind, const char *ns,
                      const struct json *state, struct deadline d, struct err *err)
{
	const char *name = json_str(state, "metadata.name");
	struct fake_object *o = fake_find(kind->plural, name);

	if (o && fake.before_delete) {
		struct json *patch AUTO(json_free) = fake_json(fake.before_delete);

		fake.before_delete = NULL;
		fake_change(o, patch);
	}
	if (o && (fake.never_as_it_was || !json_equal(o->tree, state)))
		return KUBE_CHANGED;
	return kube_delete(k, kind, ns, name, json_str(state, "metadata.uid"), d, err);
}

int kube_find_group(struct kube *k, const struct kube_kind *kind, struct deadline d,
                    struct err *err)
{
	(void)k, (void)d, (void)kind, (void)err;
	return fake.no_group ? 0 : KUBE_EXISTS;
}

/* One of "key", "!key", "key in (a,b)". */
static bool fake_term_holds(const struct json *labels, const char *term)
{
	static const char in[] = " in (";
	const char *list = strstr(term, in);
	size_t n = list ? (size_t)(list - term) : strlen(term);
	char *key AUTO(free) = xstrndup(term + (*term == '!'), n - (*term == '!'));
	const char *value = json_text(json_member(labels, key));
	char *member AUTO(free) = value ? xasprintf(",%s,", value) : NULL;
	char *members AUTO(free) = NULL;

	if (!list)
		return (value != NULL) == (*term != '!');
	list += strlen(in);
	members = xasprintf(",%.*s,", (int)strcspn(list, ")"), list);
	return member && strstr(members, member);
}

/* The end of the first term: the comma after it, unless in brackets, or the end of the text. */
static size_t fake_term_length(const char *text)
{
	size_t n = strcspn(text, ",(");

	if (text[n] == '(')
		n += strcspn(text + n, ")") + 1;
	return n;
}

static bool fake_is_selected(const struct json *object, const char *selector)
{
	while (!str_empty(selector)) {
		size_t n = fake_term_length(selector);
		char *term AUTO(free) = xstrndup(selector, n);

		if (!fake_term_holds(json_at(object, "metadata.labels"), term))
			return false;
		selector += n + (selector[n] == ',');
	}
	return true;
}

static void fake_wake(void *arg)
{
	(void)arg;
}

int kube_list(struct kube *k, const struct kube_kind *kind, const char *ns,
              const char *label_selector,
              int (*fn)(void *arg, const struct json *item, struct err *err), void *arg,
              struct deadline d, struct err *err)
{
	(void)k;
	if (str_eq(kind->plural, "dpus"))
		fake.dpu_lists++;
	else
		fake.lists++;
	ck_assert_str_eq(ns, FAKE_NS);
	if (str_eq(kind->plural, "dpus") && !fake.dpus)
		return err_set(err, ERR_PRECONDITION, "dpus are not served");
	/* Like a request, which only one wait of the call may do at a time. */
	(void)cancel_on_set(d.cancel, fake_wake, NULL);
	if (fake.during_list)
		fake.during_list();
	(void)cancel_on_set(d.cancel, NULL, NULL);
	if (fake_refused("list", kind, err))
		return -1;
	for (size_t i = 0; i < fake.n_objects; i++) {
		struct fake_object *o = &fake.objects[i];
		int rc;

		if (o->gone || strcmp(o->plural, kind->plural) ||
		    !fake_is_selected(o->tree, label_selector))
			continue;
		fake.listed++;
		rc = fn(arg, o->tree, err);
		if (rc)
			return rc < 0 ? -1 : 0;
	}
	return 0;
}

int kube_list_cached(struct kube *k, const struct kube_kind *kind, const char *ns,
                     const char *label_selector,
                     int (*fn)(void *arg, const struct json *item, struct err *err), void *arg,
                     struct deadline d, struct err *err)
{
	return kube_list(k, kind, ns, label_selector, fn, arg, d, err);
}

int kube_list_fields(struct kube *k, const struct kube_kind *kind, const char *ns,
                     const char *field_selector,
                     int (*fn)(void *arg, const struct json *item, struct err *err), void *arg,
                     struct deadline d, struct err *err)
{
	(void)k, (void)d;
	fake.event_lists++;
	ck_assert_str_eq(ns, FAKE_NS);
	if (fake_refused("list", kind, err))
		return -1;
	for (size_t i = 0; i < fake.n_objects; i++) {
		struct fake_object *o = &fake.objects[i];
		char *selector AUTO(free) =
			xasprintf("involvedObject.uid=%s", json_str(o->tree, "involvedObject.uid"));

		if (!o->gone && str_eq(o->plural, kind->plural) &&
		    str_eq(selector, field_selector) && fn(arg, o->tree, err))
			return -1;
	}
	return 0;
}

/* The token is the number of the first object. */
int kube_list_page(struct kube *k, const struct kube_kind *kind, const char *ns, int limit,
                   const char *token,
                   int (*fn)(void *arg, const struct json *item, struct err *err), void *arg,
                   char **ret_next, struct deadline d, struct err *err)
{
	uint64_t i = 0;
	int n = 0;

	(void)k, (void)d;
	fake.lists++;
	ck_assert_str_eq(ns, FAKE_NS);
	if (fake_refused("list", kind, err))
		return -1;
	if (fake.expired && !str_empty(token))
		return KUBE_NO_SUCH_PAGE;
	if (!str_empty(token))
		ck_assert_int_eq(parse_u64("token", token, &i, err), 0);
	for (; i < fake.n_objects; i++) {
		struct fake_object *o = &fake.objects[i];

		if (o->gone || strcmp(o->plural, kind->plural))
			continue;
		if (n++ == limit)
			break;
		fake.listed++;
		if (fn(arg, o->tree, err))
			return -1;
	}
	*ret_next = i < fake.n_objects ? xasprintf("%" PRIu64, i) : xstrdup("");
	return 0;
}

struct kube_wait {
	struct kube_kind kind;
	char name[254];
	int seen;
	bool had, said_gone;
	void (*on_rest)(void *arg);
	void *on_rest_arg;
};

int kube_wait_open(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
                   struct kube_wait **ret, struct err *err)
{
	struct fake_object *o = fake_find(kind->plural, name);
	struct kube_wait *w = xcalloc(1, sizeof(*w));

	(void)k, (void)err;
	ck_assert_str_eq(ns, FAKE_NS);
	fake.waits_open++;
	w->kind = *kind;
	snprintf(w->name, sizeof(w->name), "%s", name);
	w->had = o != NULL;
	*ret = w;
	return 0;
}

int kube_wait_next(struct kube_wait *w, struct deadline d, struct json **ret, struct err *err)
{
	(void)d;
	if (w->on_rest)
		w->on_rest(w->on_rest_arg);
	if (fake_refused("watch", &w->kind, err))
		return -1;
	if (fake.foreign) {
		*ret = fake_json(fake.foreign);
		fake.foreign = NULL;
		return 0;
	}
	if (fake.stale_gone) {
		fake.stale_gone = false;
		return KUBE_ABSENT;
	}
	do {
		struct fake_object *o = fake_find(w->kind.plural, w->name);

		if (o && o->version > w->seen) {
			w->seen = o->version;
			w->had = true;
			*ret = json_copy(o->tree);
			return 0;
		}
		if (!o && w->had && !w->said_gone) {
			w->said_gone = true;
			return KUBE_ABSENT;
		}
	} while (fake_run_step());
	return err_set(err, fake.end, "fake wait ended");
}

void kube_wait_event(struct kube_wait *w, struct deadline d)
{
	(void)w, (void)d;
	fake.news++;
}

void kube_wait_seen(struct kube_wait *w, const char *version)
{
	(void)w;
	(void)version;
}

void kube_wait_expect(struct kube_wait *w, const char *uid)
{
	ck_assert(uid && *uid);
	w->had = true;
}

void kube_wait_on_rest(struct kube_wait *w, void (*fn)(void *arg), void *arg)
{
	w->on_rest = fn;
	w->on_rest_arg = arg;
}

const char *kube_wait_watch_error(struct kube_wait *w, char ret[KUBE_WATCH_ERROR_MAX])
{
	(void)w;
	snprintf(ret, KUBE_WATCH_ERROR_MAX, "%s", fake.watch_error ? fake.watch_error : "");
	return ret;
}

void kube_wait_close(struct kube_wait *w)
{
	fake.waits_open--;
	free(w);
}

/* ---- kube_follow.h ---- */

struct kube_follow {
	char unused;
};

struct kube_follow *kube_follow(struct kube *k, const struct kube_kind *kind, const char *ns,
                                kube_follow_fn *fn, void *arg)
{
	static struct kube_follow follow;
	struct fake_follower *f = &fake.follower;
	struct err ignored = ERR_INIT;

	(void)k;
	ck_assert_str_eq(ns, FAKE_NS);
	snprintf(f->plural, sizeof(f->plural), "%s", kind->plural);
	f->fn = fn;
	f->arg = arg;
	fake_tell(KUBE_FOLLOW_BEGIN, NULL);
	for (size_t i = 0; i < fake.n_objects; i++)
		if (!fake.objects[i].gone)
			fake_tell_of(KUBE_FOLLOW_LISTED, &fake.objects[i]);
	if (fake_refused("list", kind, &ignored))
		fake_tell(KUBE_FOLLOW_REFUSED, NULL);
	else if (f->start != KUBE_FOLLOW_BEGIN)
		fake_tell(f->start, NULL);
	return &follow;
}

int64_t kube_follow_closed_ms(struct kube_follow *f, char why[KUBE_WATCH_ERROR_MAX])
{
	(void)f;
	snprintf(why, KUBE_WATCH_ERROR_MAX, "%s", fake.watch_error ? fake.watch_error : "");
	return fake.follower.closed_ms;
}
