/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists, page by page: one page of objects is in memory at a time. A token of the server says where
 * the next page starts. No state, any thread.
 */
#include "kube/kube_priv.h"

#include <malloc.h>
#include <stdlib.h>

#include "common/json.h"
#include "common/mem.h"

#define RESTARTS_MAX 5

struct listing {
	struct kube *k;
	struct kube_operation op;
	const char *label_selector;
	int (*fn)(void *arg, const struct json *item, struct err *err);
	void *arg;
	char *token; /* where the next page starts; "" at the beginning and at the end */
	unsigned pages, restarts;
};

static char *list_query(const struct listing *l)
{
	struct str query AUTO(str_clear) = STR_INIT(64 * 1024);
	str_addf(&query, "?limit=%d", l->k->tuning.page);
	if (!str_empty(l->label_selector)) {
		str_add(&query, "&labelSelector=");
		kube_path_encode(&query, l->label_selector);
	}
	if (!str_empty(l->token)) {
		str_add(&query, "&continue=");
		kube_path_encode(&query, l->token);
	}
	return str_take(&query);
}

static void next_page_at(struct listing *l, const char *token)
{
	free(l->token);
	l->token = xstrdup(token ? token : "");
}

static int hand_out(const struct listing *l, const struct json *page, struct err *err)
{
	json_foreach (item, json_at(page, "items")) {
		int rc = l->fn(l->arg, item, err);
		if (rc)
			return rc;
	}
	return 0;
}

/*
 * The server no longer has the snapshot that the token names. It may offer another token, which
 * continues at the next name in a newer snapshot; without one the list starts again.
 */
static int list_expired(struct listing *l, const struct http_result *r, struct err *err)
{
	struct json *status AUTO(json_free) = kube_status_parse(r);
	if (str_empty(l->token) || ++l->restarts > RESTARTS_MAX)
		return kube_target_failed(l->k, &l->op.target, r, err);
	next_page_at(l, json_str(status, "metadata.continue"));
	return 0;
}

/* 0: there is another page. KUBE_STOP: there is none, or fn wants no more. */
static int list_page(struct listing *l, struct deadline d, struct err *err)
{
	char *query AUTO(free) = list_query(l);
	struct json *page AUTO(json_free) = NULL;
	struct http_result r = { 0 };
	char *body AUTO(free) = NULL;
	int rc;
	l->op.query = query;
	if (kube_exchange(l->k, &l->op, d, &r, err))
		return -1;
	body = r.body;
	if (r.end == HTTP_ANSWERED && r.status == 410)
		return list_expired(l, &r, err);
	if (!kube_is_success(&r))
		return kube_target_failed(l->k, &l->op.target, &r, err);
	if (kube_parse_answer(&l->op, &r, &page, err))
		return -1;
	l->pages++;
	rc = hand_out(l, page, err);
	next_page_at(l, json_str(page, "metadata.continue"));
	if (rc)
		return rc;
	return str_empty(l->token) ? KUBE_STOP : 0;
}

int kube_list(struct kube *k, const struct kube_kind *kind, const char *ns,
              const char *label_selector,
              int (*fn)(void *arg, const struct json *item, struct err *err), void *arg,
              struct deadline d, struct err *err)
{
	KUBE_CALL(k);
	struct listing l = { .k = k,
		             .op = { .method = "GET",
		                     .target = { .verb = "list", .kind = kind, .ns = ns } },
		             .label_selector = label_selector,
		             .fn = fn,
		             .arg = arg,
		             .token = xstrdup("") };
	int rc;
	do
		rc = list_page(&l, d, err);
	while (rc == 0);
	free(l.token);
	/* Frees the memory of whole pages: without this 2 MB and more stay in the process. */
	if (l.pages > 1)
		malloc_trim(0);
	return rc < 0 ? -1 : 0;
}
