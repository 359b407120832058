/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists objects page by page. Only one page is in memory at a time, as text, and one of its objects
 * as a tree. The server's token says where the next page starts. A page that is too large is
 * requested again with a smaller limit. Stateless; any thread.
 */
#include "kube/kube_priv.h"

#include <stdlib.h>

#include "common/json.h"
#include "common/mem.h"
#include "kube/kube_event.h"

#define RESTARTS_MAX 5
/* after a page that was too large, the limit is divided by this number */
#define SMALLER 4
#define METADATA_MAX (64 * 1024) /* metadata of a page, which are parsed as a whole */

struct listing {
	struct kube *k;
	struct kube_operation op;
	const char *label_selector, *field_selector;
	int (*fn)(void *arg, const struct json *item, struct err *err);
	void *arg;
	char *token;   /* token of the next page; "" at the beginning and at the end */
	int limit;     /* objects per page */
	bool one_page; /* the caller keeps the token: kube_list_page() */
	bool cached;   /* the API server's cache may answer: kube_list_cached() */
	unsigned restarts;
	size_t bytes; /* sum of all pages */
};

static char *list_query(const struct listing *l)
{
	struct str query AUTO(str_clear) = STR_INIT(64 * 1024);
	str_addf(&query, "?limit=%d", l->limit);
	if (!str_empty(l->label_selector)) {
		str_add(&query, "&labelSelector=");
		kube_path_encode(&query, l->label_selector);
	}
	if (!str_empty(l->field_selector)) {
		str_add(&query, "&fieldSelector=");
		kube_path_encode(&query, l->field_selector);
	}
	if (!str_empty(l->token)) {
		str_add(&query, "&continue=");
		kube_path_encode(&query, l->token);
	} else if (l->cached) {
		str_add(&query, "&resourceVersion=0");
	}
	return str_take(&query);
}

static void next_page_at(struct listing *l, const char *token)
{
	free(l->token);
	l->token = xstrdup(token ? token : "");
}

/*
 * Sets the error for an answer that is not a list, and so proves nothing about the existing
 * objects. Returns -1.
 */
static int unusable(const struct listing *l, const char *why, struct err *err)
{
	char text[512];
	return err_set(err, ERR_UNAVAILABLE,
	               "list %s: the API server's answer is not a list: %s; check for a proxy in "
	               "between",
	               kube_target_text(&l->op.target, text), why);
}

static int hand_out_one(const struct listing *l, struct line_span text, struct err *err)
{
	struct json *item AUTO(json_free) = NULL;
	struct err malformed = ERR_INIT;
	if (json_parse("an item", text.at, text.n, &item, &malformed))
		return unusable(l, malformed.msg, err);
	return l->fn(l->arg, item, err);
}

static int hand_out(const struct listing *l, struct kube_page *page, struct err *err)
{
	struct line_span item;
	int rc, stop;
	while ((rc = kube_page_next(page, &item)) == 0) {
		stop = hand_out_one(l, item, err);
		if (stop)
			return stop;
	}
	return rc == KUBE_PAGE_END ? 0 : unusable(l, "an item is not an object", err);
}

/*
 * Reads the token of the next page from a page's metadata. The first page also has the version of
 * the list.
 */
static int list_parse_token(struct listing *l, struct line_span metadata, struct err *err)
{
	struct json *tree AUTO(json_free) = NULL;
	struct err malformed = ERR_INIT;
	if (metadata.n > METADATA_MAX)
		return unusable(l, "its metadata is too large", err);
	if (metadata.n > 0 && json_parse("metadata", metadata.at, metadata.n, &tree, &malformed))
		return unusable(l, malformed.msg, err);
	if (str_empty(l->token) && !l->cached)
		kube_resume_point_compare(l->k, l->op.target.kind, l->op.target.ns, l->op.before,
		                          json_str(tree, "resourceVersion"));
	next_page_at(l, json_str(tree, "continue"));
	return 0;
}

/* Returns like list_page(). */
static int consume_page(struct listing *l, const struct http_result *r, struct err *err)
{
	struct kube_page page;
	int rc;
	if (!r->body || !kube_page_scan(r->body, r->body_n, l->op.target.kind->kind, &page))
		return unusable(l, "it is of another kind, or has no array of items", err);
	rc = list_parse_token(l, page.metadata, err);
	if (rc == 0)
		rc = hand_out(l, &page, err);
	if (rc)
		return rc;
	return l->one_page || str_empty(l->token) ? KUBE_STOP : 0;
}

/*
 * Handles an expired token, whose snapshot the server has discarded. The server may offer another
 * token, which continues at the next name in a newer snapshot; otherwise the list starts again.
 */
static int list_expired(struct listing *l, const struct http_result *r, struct err *err)
{
	struct json *status AUTO(json_free) = kube_status_parse(r);
	if (str_empty(l->token) || ++l->restarts > RESTARTS_MAX)
		return kube_target_failed(l->k, &l->op.target, r, err);
	if (l->one_page && str_empty(json_str(status, "metadata.continue")))
		return status ? KUBE_NO_SUCH_PAGE : kube_target_failed(l->k, &l->op.target, r, err);
	next_page_at(l, json_str(status, "metadata.continue"));
	return 0;
}

/*
 * Returns true if the server itself reports that it cannot read the token, which is the only part
 * of the request that comes from a caller.
 */
static bool token_is_refused(const struct listing *l, const struct http_result *r)
{
	struct json *status AUTO(json_free) = NULL;
	if (!l->one_page || str_empty(l->token) || r->end != HTTP_ANSWERED || r->status != 400)
		return false;
	status = kube_status_parse(r);
	return status != NULL;
}

/*
 * Reads one page. Returns 0 if another page follows, KUBE_STOP after the last page or if fn has
 * stopped the list, KUBE_NO_SUCH_PAGE, or -1.
 */
static int list_page(struct listing *l, struct deadline d, struct err *err)
{
	char *query AUTO(free) = list_query(l);
	struct http_result r = { 0 };
	char *body AUTO(free) = NULL;
	l->op.query = query;
	if (kube_exchange(l->k, &l->op, d, &r, err))
		return -1;
	body = r.body;
	if (r.end == HTTP_ANSWERED && r.status == 410)
		return list_expired(l, &r, err);
	if (token_is_refused(l, &r))
		return KUBE_NO_SUCH_PAGE;
	if (r.end == HTTP_TOO_LARGE && l->limit > 1) {
		l->limit = l->limit > SMALLER ? l->limit / SMALLER : 1;
		return 0;
	}
	if (!kube_is_success(&r))
		return kube_operation_failed(l->k, &l->op, &r, err);
	l->bytes += r.body_n;
	return consume_page(l, &r, err);
}

/* Returns KUBE_STOP, KUBE_NO_SUCH_PAGE or -1. */
static int list_pages(struct listing *l, struct deadline d, struct err *err)
{
	int rc;
	l->op.method = "GET";
	l->op.target.verb = "list";
	l->op.before = kube_resume_point_of(l->k, l->op.target.kind, l->op.target.ns);
	do
		rc = list_page(l, d, err);
	while (rc == 0);
	kube_trim_soon(l->k, l->bytes);
	return rc;
}

static int list_all(struct listing *l, struct deadline d, struct err *err)
{
	int rc;
	l->token = xstrdup("");
	l->limit = l->k->tuning.page;
	rc = list_pages(l, d, err);
	free(l->token);
	return rc < 0 ? -1 : 0;
}

int kube_list(struct kube *k, const struct kube_kind *kind, const char *ns,
              const char *label_selector,
              int (*fn)(void *arg, const struct json *item, struct err *err), void *arg,
              struct deadline d, struct err *err)
{
	KUBE_CALL(k);
	struct listing l = { .k = k,
		             .op = { .target = { .kind = kind, .ns = ns } },
		             .label_selector = label_selector,
		             .fn = fn,
		             .arg = arg };
	return list_all(&l, d, err);
}

int kube_list_cached(struct kube *k, const struct kube_kind *kind, const char *ns,
                     const char *label_selector,
                     int (*fn)(void *arg, const struct json *item, struct err *err), void *arg,
                     struct deadline d, struct err *err)
{
	KUBE_CALL(k);
	struct listing l = { .k = k,
		             .op = { .target = { .kind = kind, .ns = ns } },
		             .label_selector = label_selector,
		             .fn = fn,
		             .arg = arg,
		             .cached = true };
	return list_all(&l, d, err);
}

int kube_list_fields(struct kube *k, const struct kube_kind *kind, const char *ns,
                     const char *field_selector,
                     int (*fn)(void *arg, const struct json *item, struct err *err), void *arg,
                     struct deadline d, struct err *err)
{
	KUBE_CALL(k);
	struct listing l = { .k = k,
		             .op = { .target = { .kind = kind, .ns = ns } },
		             .field_selector = field_selector,
		             .fn = fn,
		             .arg = arg };
	return list_all(&l, d, err);
}

int kube_list_page(struct kube *k, const struct kube_kind *kind, const char *ns, int limit,
                   const char *token,
                   int (*fn)(void *arg, const struct json *item, struct err *err), void *arg,
                   char **ret_next, struct deadline d, struct err *err)
{
	KUBE_CALL(k);
	bool restricted = limit > 0 && limit < k->tuning.page;
	struct listing l = { .k = k,
		             .op = { .target = { .kind = kind, .ns = ns } },
		             .fn = fn,
		             .arg = arg,
		             .token = xstrdup(token ? token : ""),
		             .limit = restricted ? limit : k->tuning.page,
		             .one_page = true };
	int rc = list_pages(&l, d, err);
	if (rc == KUBE_STOP)
		*ret_next = TAKE(l.token);
	free(l.token);
	return rc == KUBE_STOP ? 0 : rc;
}
