/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get and list. A list is paged by limit and continue; the token holds the version of the first
 * page and the last key. Later pages show the objects as they are now, but carry the version of the
 * first page: a client that watches from there sees every change since then, some of them twice. No
 * state.
 */
#include "test/sim/api/api_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "test/sim/api/selectors.h"
#include "test/sim/store/store.h"

#define LIST_MAX ((size_t)1 << 31)

void api_get(const struct api_call *call, const struct target *t, struct reply *ret)
{
	struct object_version *v AUTO(version_unref) =
		store_get(call->sim->store, t->res, t->ns, t->name);

	if (!v) {
		reply_not_found(ret, t->res, t->name);
		return;
	}
	reply_text(ret, 200, v->text);
	ret->type = "application/json";
}

/* The token: "<rv>:<ns>/<name>"; version 0 continues with the current objects. */
static bool parse_continue(const char *token, uint64_t *rv, const char **after)
{
	struct err err = ERR_INIT;
	const char *colon = strchr(token, ':');
	char *number AUTO(free) = NULL;

	if (!colon || !strchr(colon, '/'))
		return false;
	number = xstrndup(token, (size_t)(colon - token));
	*after = colon + 1;
	return parse_u64("continue", number, rv, &err) == 0;
}

/* Offers to continue after the same name in a list that is not a snapshot. */
static void reply_expired(const char *after, struct reply *ret)
{
	struct json *s AUTO(json_free) = status_failure(
		410, NULL,
		"The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.");
	char *token AUTO(free) = xasprintf("0:%s", after);

	json_set_str(json_sub(s, "metadata"), "continue", token);
	reply_json(ret, 410, s);
}

/* Fills in limit, start and version. False: the reply has the error. */
static bool parse_paging(const struct api_call *call, struct store_query *q, uint64_t *rv,
                         struct reply *ret)
{
	const char *limit = call_query(call, "limit"), *token = call_query(call, "continue");
	struct err err = ERR_INIT;
	uint64_t n = 0;

	if (!str_empty(limit) && parse_u64("limit", limit, &n, &err)) {
		reply_failure(ret, 400, NULL, "%s", err.msg);
		return false;
	}
	q->limit = n;
	if (str_empty(token))
		return true;
	if (!parse_continue(token, rv, &q->after)) {
		reply_failure(ret, 400, NULL, "continue key is not valid: %s", token);
		return false;
	}
	if (*rv && !store_keeps(call->sim->store, *rv)) {
		reply_expired(q->after, ret);
		return false;
	}
	return true;
}

static void reply_page(const struct target *t, const struct store_page *page, uint64_t rv,
                       bool count_left, struct reply *ret)
{
	struct str out AUTO(str_clear) = STR_INIT(LIST_MAX);
	char *api_version AUTO(free) = resource_api_version(t->res);

	str_addf(&out,
	         "{\"kind\":\"%sList\",\"apiVersion\":\"%s\",\"metadata\":{\"resourceVersion\":"
	         "\"%" PRIu64 "\"",
	         t->res->kind, api_version, rv);
	if (!page->left)
		str_add(&out, ",\"continue\":\"\"");
	if (page->left) {
		const struct object_version *last = page->v[page->n - 1];

		str_addf(&out, ",\"continue\":\"%" PRIu64 ":%s/%s\"", rv, last->ns, last->name);
		if (count_left)
			str_addf(&out, ",\"remainingItemCount\":%zu", page->left);
	}
	str_add(&out, "},\"items\":[");
	for (size_t i = 0; i < page->n; i++) {
		if (i)
			str_add(&out, ",");
		str_addn(&out, page->v[i]->text, page->v[i]->len);
	}
	str_add(&out, "]}");
	ret->code = 200;
	ret->type = "application/json";
	ret->body = str_take(&out);
}

void api_list(const struct api_call *call, const struct target *t, struct reply *ret)
{
	struct selectors selectors AUTO(selectors_clear) = { 0 };
	struct store_page page AUTO(store_page_clear) = { 0 };
	struct store_query query = { .res = t->res, .ns = t->ns, .match = selectors_match };
	struct err err = ERR_INIT;
	uint64_t rv = 0;

	if (selectors_parse(t->res, call_query(call, "labelSelector"),
	                    call_query(call, "fieldSelector"), &selectors, &err)) {
		reply_failure(ret, 400, NULL, "%s", err.msg);
		return;
	}
	query.arg = &selectors;
	if (!parse_paging(call, &query, &rv, ret))
		return;
	store_list(call->sim->store, &query, &page);
	reply_page(t, &page, rv ? rv : page.rv, selectors.any, ret);
}
