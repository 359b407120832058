/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsing and matching of selectors.  Set-based label selectors ("a in (b,c)") are refused with
 * a text, never ignored: a selector that is ignored selects too much.  No state.
 */
#include "test/sim/selectors.h"

#include <string.h>

#include "common/mem.h"

static char *trimmed(const char *s, size_t n)
{
	while (n && *s == ' ')
		s++, n--;
	while (n && s[n - 1] == ' ')
		n--;
	return xstrndup(s, n);
}

/* "key=value", "key==value", "key!=value", "key", "!key". */
static int parse_term(const char *text, size_t n, struct selector_term *ret, struct err *err)
{
	AUTO(free) char *term = trimmed(text, n);
	char *equals = strchr(term, '=');

	*ret = (struct selector_term) { 0 };
	if (!*term || strpbrk(term, "()"))
		return err_set(err, ERR_INVALID,
		               "unable to parse requirement: \"%s\" (snap-sim knows equality only)",
		               term);
	if (!equals) {
		ret->negative = *term == '!';
		ret->key = xstrdup(term + ret->negative);
		return 0;
	}
	ret->negative = equals > term && equals[-1] == '!';
	ret->key = trimmed(term, (size_t)(equals - term) - ret->negative);
	equals += equals[1] == '=' ? 2 : 1;
	ret->value = trimmed(equals, strlen(equals));
	return 0;
}

static int parse_labels(const char *text, struct selectors *ret, struct err *err)
{
	for (const char *s = text;;) {
		size_t n = strcspn(s, ",");
		struct selector_term term;

		if (parse_term(s, n, &term, err))
			return -1;
		ret->labels =
			xrealloc(ret->labels, (ret->n_labels + 1) * sizeof(struct selector_term));
		ret->labels[ret->n_labels++] = term;
		if (!s[n])
			return 0;
		s += n + 1;
	}
}

static int parse_fields(const char *text, struct selectors *ret, struct err *err)
{
	for (const char *s = text;;) {
		size_t n = strcspn(s, ",");
		struct selector_term term;
		char **slot = NULL;

		if (parse_term(s, n, &term, err))
			return -1;
		if (str_eq(term.key, "metadata.name"))
			slot = &ret->name;
		else if (str_eq(term.key, "metadata.namespace"))
			slot = &ret->ns;
		if (slot && !*slot && term.value && !term.negative)
			*slot = TAKE(term.value);
		else
			err_set(err, ERR_INVALID, "\"%s\" is not a known field selector", term.key);
		free(term.key);
		free(term.value);
		if (err->code)
			return -1;
		if (!s[n])
			return 0;
		s += n + 1;
	}
}

int selectors_parse(const char *labels, const char *fields, struct selectors *ret, struct err *err)
{
	struct selectors s = { 0 };

	if ((!str_empty(labels) && parse_labels(labels, &s, err)) ||
	    (!str_empty(fields) && parse_fields(fields, &s, err))) {
		selectors_clear(&s);
		return -1;
	}
	s.any = !s.n_labels && !s.name && !s.ns;
	*ret = s;
	return 0;
}

void selectors_clear(struct selectors *s)
{
	for (size_t i = 0; i < s->n_labels; i++) {
		free(s->labels[i].key);
		free(s->labels[i].value);
	}
	free(s->labels);
	free(s->name);
	free(s->ns);
	*s = (struct selectors) { 0 };
}

static bool term_matches(const struct selector_term *term, const struct version *v)
{
	size_t n = strlen(term->key);

	for (size_t i = 0; i < v->labels.n; i++) {
		const char *label = v->labels.v[i];

		if (strncmp(label, term->key, n) || label[n] != '=')
			continue;
		return (!term->value || str_eq(term->value, label + n + 1)) != term->negative;
	}
	return term->negative;
}

bool selectors_match(const void *arg, const struct version *v)
{
	const struct selectors *s = arg;

	if (s->any)
		return true;
	if ((s->name && !str_eq(s->name, v->name)) || (s->ns && !str_eq(s->ns, v->ns)))
		return false;
	for (size_t i = 0; i < s->n_labels; i++)
		if (!term_matches(&s->labels[i], v))
			return false;
	return true;
}
