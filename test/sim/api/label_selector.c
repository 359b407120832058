/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser of label selectors, one token after the other. It refuses what the API server refuses,
 * because a misread selector selects too much or too little. "in" and "notin" are operators only
 * after a key; elsewhere they are words. No state.
 */
#include "test/sim/api/label_selector.h"

#include <inttypes.h>
#include <string.h>

#include "common/mem.h"
#include "test/sim/kinds/qualified_name.h"

struct reader {
	const char *at; /* the rest of the text */
	char *token;    /* the current one: a word, a symbol, or "" at the end */
	bool word;
};

static bool is_symbol(char c)
{
	return c && strchr("=!(),<>", c);
}

/* Length of the symbol at the start of the text; the longest one takes precedence. */
static size_t symbol_length(const char *s)
{
	return (s[0] == '=' || s[0] == '!') && s[1] == '=' ? 2 : 1;
}

static void next(struct reader *r)
{
	size_t n = 0;

	free(r->token);
	r->at += strspn(r->at, " \t\r\n");
	r->word = *r->at && !is_symbol(*r->at);
	if (r->word)
		while (r->at[n] && !is_symbol(r->at[n]) && !strchr(" \t\r\n", r->at[n]))
			n++;
	else if (*r->at)
		n = symbol_length(r->at);
	r->token = xstrndup(r->at, n);
	r->at += n;
}

static bool is(const struct reader *r, const char *symbol)
{
	return !r->word && str_eq(r->token, symbol);
}

static bool ends(const struct reader *r)
{
	return is(r, "") || is(r, ",");
}

static int unexpected(const struct reader *r, const char *expected, struct err *err)
{
	return err_set(err, ERR_INVALID, "found '%s', expected: %s", r->token, expected);
}

static const struct {
	const char *token;
	enum label_operator op;
} operators[] = {
	{ "=", LABEL_IN },    { "==", LABEL_IN }, { "!=", LABEL_NOT_IN },    { ">", LABEL_ABOVE },
	{ "<", LABEL_BELOW }, { "in", LABEL_IN }, { "notin", LABEL_NOT_IN },
};

/* "(a,b)"; nothing between two commas is the empty value. */
static int read_set(struct reader *r, struct strs *values, struct err *err)
{
	if (!is(r, "("))
		/* The server writes this text without a comma, unlike the others. */
		return err_set(err, ERR_INVALID, "found '%s' expected: '('", r->token);
	do {
		next(r);
		strs_add(values, r->word ? r->token : "");
		if (r->word)
			next(r);
	} while (is(r, ","));
	if (!is(r, ")"))
		return unexpected(r, "',' or ')'", err);
	next(r);
	return 0;
}

static int read_value(struct reader *r, struct strs *values, struct err *err)
{
	if (!r->word && !ends(r))
		return unexpected(r, "identifier", err);
	strs_add(values, r->word ? r->token : "");
	if (r->word)
		next(r);
	return 0;
}

static int read_operation(struct reader *r, struct label_requirement *q, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(operators); i++) {
		bool set = strchr("in", operators[i].token[0]);

		if (!str_eq(r->token, operators[i].token))
			continue;
		q->op = operators[i].op;
		next(r);
		return set ? read_set(r, &q->values, err) : read_value(r, &q->values, err);
	}
	return unexpected(r, "in, notin, =, ==, !=, gt, lt", err);
}

static int check(const struct label_requirement *q, struct err *err)
{
	struct err number = ERR_INIT;
	int64_t n;

	if (!qualified_name_is_valid(q->key))
		return err_set(err, ERR_INVALID, "key: Invalid value: \"%s\"", q->key);
	for (size_t i = 0; i < q->values.n; i++) {
		if (!label_value_is_valid(q->values.v[i]))
			return err_set(err, ERR_INVALID, "values[%zu][%s]: Invalid value: \"%s\"",
			               i, q->key, q->values.v[i]);
		if ((q->op == LABEL_ABOVE || q->op == LABEL_BELOW) &&
		    parse_i64(q->key, q->values.v[i], &n, &number))
			return err_set(
				err, ERR_INVALID,
				"values[%zu]: Invalid value: \"%s\": for 'Gt', 'Lt' operators, the value must be an integer",
				i, q->values.v[i]);
	}
	return 0;
}

static int read_requirement(struct reader *r, struct label_requirement *q, struct err *err)
{
	q->op = LABEL_EXISTS;
	if (is(r, "!")) {
		q->op = LABEL_ABSENT;
		next(r);
	}
	if (!r->word)
		return unexpected(r, "identifier", err);
	q->key = xstrdup(r->token);
	next(r);
	if (q->op == LABEL_EXISTS && !ends(r) && read_operation(r, q, err))
		return -1;
	return check(q, err);
}

static int read_all(struct reader *r, struct label_selector *s, struct err *err)
{
	next(r);
	if (is(r, ""))
		return 0;
	for (;;) {
		s->v = xrealloc(s->v, (s->n + 1) * sizeof(*s->v));
		s->v[s->n] = (struct label_requirement) { .key = NULL };
		s->n++;
		if (read_requirement(r, &s->v[s->n - 1], err))
			return err_wrap(err, "unable to parse requirement");
		if (is(r, ""))
			return 0;
		if (!is(r, ","))
			return unexpected(r, "',' or 'end of string'", err);
		next(r);
		if (is(r, ""))
			return unexpected(r, "identifier after ','", err);
	}
}

int label_selector_parse(const char *text, struct label_selector *ret, struct err *err)
{
	struct reader r = { .at = text };
	struct label_selector s = { 0 };
	int rc = read_all(&r, &s, err);

	free(r.token);
	if (rc)
		label_selector_clear(&s);
	else
		*ret = s;
	return rc;
}

void label_selector_clear(struct label_selector *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].key);
		strs_clear(&s->v[i].values);
	}
	free(s->v);
	*s = (struct label_selector) { 0 };
}

static const char *value_of(const struct strs *labels, const char *key)
{
	size_t n = strlen(key);

	for (size_t i = 0; i < labels->n; i++)
		if (!strncmp(labels->v[i], key, n) && labels->v[i][n] == '=')
			return labels->v[i] + n + 1;
	return NULL;
}

/* A value that is not a number is neither above nor below one. */
static bool compares(const struct label_requirement *q, const char *value)
{
	struct err ignored = ERR_INIT;
	int64_t have, bound;

	if (parse_i64(q->key, value, &have, &ignored) ||
	    parse_i64(q->key, q->values.v[0], &bound, &ignored))
		return false;
	return q->op == LABEL_ABOVE ? have > bound : have < bound;
}

static bool requirement_holds(const struct label_requirement *q, const struct strs *labels)
{
	const char *value = value_of(labels, q->key);

	switch (q->op) {
	case LABEL_EXISTS:
		return value;
	case LABEL_ABSENT:
		return !value;
	case LABEL_IN:
		return value && strs_has(&q->values, value);
	case LABEL_NOT_IN:
		return !value || !strs_has(&q->values, value);
	case LABEL_ABOVE:
	case LABEL_BELOW:
		return value && compares(q, value);
	}
	return false;
}

bool label_selector_matches(const struct label_selector *s, const struct strs *labels)
{
	for (size_t i = 0; i < s->n; i++)
		if (!requirement_holds(&s->v[i], labels))
			return false;
	return true;
}
