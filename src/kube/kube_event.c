/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scanner walks {"type":..,"object":{..,"metadata":{..}}}, or {"metadata":{..},"items":[..]},
 * member by member, in any order. It skips unneeded values by counting brackets outside of strings.
 * A name, a uid and a resourceVersion never contain escapes, so a string with an escape matches no
 * awaited name. No allocation, stateless.
 */
#include "kube/kube_event.h"

#include <string.h>

#include "common/cleanup.h"

struct cursor {
	const char *at, *end;
};

static void skip_space(struct cursor *c)
{
	while (c->at < c->end &&
	       (*c->at == ' ' || *c->at == '\t' || *c->at == '\r' || *c->at == '\n'))
		c->at++;
}

static bool scan_char(struct cursor *c, char wanted)
{
	skip_space(c);
	if (c->at >= c->end || *c->at != wanted)
		return false;
	c->at++;
	return true;
}

/* Returns true if an odd number of backslashes precedes the quote. */
static bool is_escaped(const char *start, const char *quote)
{
	size_t n = 0;
	while (quote - n > start && quote[-1 - (ptrdiff_t)n] == '\\')
		n++;
	return n % 2;
}

static bool event_scan_string(struct cursor *c, struct line_span *ret)
{
	const char *start, *quote;
	if (!scan_char(c, '"'))
		return false;
	start = c->at;
	quote = memchr(start, '"', (size_t)(c->end - start));
	while (quote && is_escaped(start, quote))
		quote = memchr(quote + 1, '"', (size_t)(c->end - quote - 1));
	if (!quote)
		return false;
	*ret = (struct line_span) { start, (size_t)(quote - start) };
	c->at = quote + 1;
	return true;
}

/* Skips an object or array; the cursor is at its opening bracket. */
static bool event_skip_nested(struct cursor *c)
{
	unsigned depth = 0;
	while (c->at < c->end) {
		struct line_span ignored;
		if (*c->at == '"') {
			if (!event_scan_string(c, &ignored))
				return false;
			continue;
		}
		if (*c->at == '{' || *c->at == '[')
			depth++;
		else if (*c->at == '}' || *c->at == ']')
			depth--;
		c->at++;
		if (depth == 0)
			return true;
	}
	return false;
}

static bool event_skip_value(struct cursor *c)
{
	struct line_span ignored;
	const char *start;
	skip_space(c);
	if (c->at >= c->end)
		return false;
	if (*c->at == '"')
		return event_scan_string(c, &ignored);
	if (*c->at == '{' || *c->at == '[')
		return event_skip_nested(c);
	start = c->at;
	while (c->at < c->end && !strchr(",}] \t\r\n", *c->at))
		c->at++;
	return c->at > start;
}

/*
 * Reads the next member's name and moves the cursor to its value. Returns false at the end of the
 * object (*ok), or if anything other than a member follows (!*ok).
 */
static bool next_member(struct cursor *c, bool *first, struct line_span *name, bool *ok)
{
	*ok = true;
	if (scan_char(c, '}'))
		return false;
	*ok = (*first || scan_char(c, ',')) && event_scan_string(c, name) && scan_char(c, ':');
	*first = false;
	return *ok;
}

bool line_span_eq(struct line_span s, const char *text)
{
	return s.at && strlen(text) == s.n && memcmp(s.at, text, s.n) == 0;
}

uint64_t kube_version_number(struct line_span version)
{
	uint64_t number = 0;
	if (version.n > 0 && *version.at == '0')
		return 0;
	for (size_t i = 0; i < version.n; i++) {
		unsigned digit = (unsigned char)version.at[i] - (unsigned)'0';
		if (digit > 9 || __builtin_mul_overflow(number, 10u, &number) ||
		    __builtin_add_overflow(number, digit, &number))
			return 0;
	}
	return number;
}

static bool event_scan_metadata(struct cursor *c, struct kube_event *e)
{
	struct line_span name;
	bool first = true, ok;
	if (!scan_char(c, '{'))
		return false;
	while (next_member(c, &first, &name, &ok)) {
		struct line_span *wanted = line_span_eq(name, "name")  ? &e->name
		                           : line_span_eq(name, "uid") ? &e->uid
		                           : line_span_eq(name, "resourceVersion")
		                                   ? &e->resource_version
		                                   : NULL;
		if (wanted ? !event_scan_string(c, wanted) : !event_skip_value(c))
			return false;
	}
	return ok;
}

static bool event_scan_object(struct cursor *c, struct kube_event *e)
{
	struct line_span name;
	bool first = true, ok;
	const char *start;
	skip_space(c);
	start = c->at;
	if (!scan_char(c, '{'))
		return false;
	while (next_member(c, &first, &name, &ok)) {
		/* The Status of an ERROR event has metadata that are null or empty. */
		bool into = line_span_eq(name, "metadata") && (skip_space(c), c->at < c->end) &&
		            *c->at == '{';
		if (into ? !event_scan_metadata(c, e) : !event_skip_value(c))
			return false;
	}
	e->object = (struct line_span) { start, (size_t)(c->at - start) };
	return ok;
}

static bool event_type_of(struct line_span text, enum event_type *ret)
{
	static const char *const names[] = { [EVENT_ADDED] = "ADDED",
		                             [EVENT_MODIFIED] = "MODIFIED",
		                             [EVENT_DELETED] = "DELETED",
		                             [EVENT_BOOKMARK] = "BOOKMARK",
		                             [EVENT_ERROR] = "ERROR" };
	for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
		if (!line_span_eq(text, names[i]))
			continue;
		*ret = (enum event_type)i;
		return true;
	}
	return false;
}

bool kube_event_scan(const char *line, size_t n, struct kube_event *ret)
{
	struct cursor c = { line, line + n };
	struct kube_event e = { 0 };
	struct line_span name, type = { 0 };
	bool first = true, ok;
	if (!scan_char(&c, '{'))
		return false;
	while (next_member(&c, &first, &name, &ok)) {
		if (line_span_eq(name, "type")     ? !event_scan_string(&c, &type)
		    : line_span_eq(name, "object") ? !event_scan_object(&c, &e)
		                                   : !event_skip_value(&c))
			return false;
	}
	skip_space(&c);
	if (!ok || c.at != c.end || !e.object.at || !event_type_of(type, &e.type))
		return false;
	*ret = e;
	return true;
}

/* ---- members ---- */

static struct kube_member *wanted_member(struct kube_member *members, size_t n,
                                         struct line_span name)
{
	for (size_t i = 0; i < n; i++)
		if (line_span_eq(name, members[i].name))
			return &members[i];
	return NULL;
}

bool kube_members(struct line_span object, struct kube_member *members, size_t n)
{
	struct cursor c = { object.at, object.at + object.n };
	struct line_span name;
	bool first = true, ok;
	if (!scan_char(&c, '{'))
		return false;
	while (next_member(&c, &first, &name, &ok)) {
		struct kube_member *wanted = wanted_member(members, n, name);
		const char *start;
		skip_space(&c);
		start = c.at;
		if (!event_skip_value(&c))
			return false;
		if (wanted)
			wanted->value = (struct line_span) { start, (size_t)(c.at - start) };
	}
	return ok;
}

bool kube_plain_text(struct line_span value, struct line_span *ret)
{
	if (value.n < 2 || *value.at != '"' || memchr(value.at, '\\', value.n))
		return false;
	*ret = (struct line_span) { value.at + 1, value.n - 2 };
	return true;
}

void kube_blank_unread(char *object, size_t n)
{
	struct kube_member metadata = { .name = "metadata" };
	struct kube_member fields = { .name = "managedFields" };
	char *value;
	if (!kube_members((struct line_span) { object, n }, &metadata, 1) || !metadata.value.n ||
	    !kube_members(metadata.value, &fields, 1) || !fields.value.n || *fields.value.at != '[')
		return;
	value = object + (fields.value.at - object);
	memset(value, ' ', fields.value.n);
	memcpy(value, "[]", 2);
}

/* ---- pages of a list ---- */

/* Reads the value of a member if it begins with `open`; otherwise accepts only null. */
static bool event_scan_value_of(struct cursor *c, char open, char close, struct line_span *ret)
{
	static const char null[] = "null";
	const char *start;
	skip_space(c);
	start = c->at;
	if (!event_skip_value(c))
		return false;
	*ret = (struct line_span) { start, (size_t)(c->at - start) };
	if (*start == open)
		return c->at[-1] == close;
	if (!line_span_eq(*ret, null))
		return false;
	ret->n = 0;
	return true;
}

static bool is_list_of(struct line_span list, const char *kind)
{
	static const char list_of[] = "List";
	size_t n = strlen(kind), more = sizeof(list_of) - 1;
	return list.n == n + more && memcmp(list.at, kind, n) == 0 &&
	       memcmp(list.at + n, list_of, more) == 0;
}

bool kube_page_scan(const char *body, size_t n, const char *kind, struct kube_page *ret)
{
	struct cursor c = { body, body + n };
	struct kube_page page = { 0 };
	struct line_span name, list = { 0 };
	bool first = true, ok;
	if (!scan_char(&c, '{'))
		return false;
	while (next_member(&c, &first, &name, &ok)) {
		if (line_span_eq(name, "items") ? !event_scan_value_of(&c, '[', ']', &page.items)
		    : line_span_eq(name, "metadata")
		            ? !event_scan_value_of(&c, '{', '}', &page.metadata)
		    : line_span_eq(name, "kind") ? !event_scan_string(&c, &list)
		                                 : !event_skip_value(&c))
			return false;
	}
	skip_space(&c);
	if (!ok || c.at != c.end || !page.items.at || !is_list_of(list, kind))
		return false;
	if (page.items.n > 0) { /* remove the brackets */
		page.items.at++;
		page.items.n -= 2;
	}
	*ret = page;
	return true;
}

int kube_page_next(struct kube_page *page, struct line_span *ret)
{
	struct cursor c = { page->items.at, page->items.at + page->items.n };
	skip_space(&c);
	if (c.at == c.end)
		return KUBE_PAGE_END;
	ret->at = c.at;
	if (*c.at != '{' || !event_skip_value(&c))
		return -1;
	ret->n = (size_t)(c.at - ret->at);
	skip_space(&c);
	if (c.at < c.end && (!scan_char(&c, ',') || (skip_space(&c), c.at == c.end)))
		return -1;
	page->items = (struct line_span) { c.at, (size_t)(c.end - c.at) };
	return 0;
}
