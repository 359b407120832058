/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growing strings with a maximum, and owned string lists. Stateless; any thread; an object belongs
 * to one thread at a time.
 */
#include "common/str.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>

#include "common/mem.h"

static char empty_string[1];

void str_init(struct str *s, size_t max)
{
	*s = (struct str) { .ptr = empty_string, .max = max };
}

void str_clear(struct str *s)
{
	if (s->cap)
		free(s->ptr);
	str_init(s, s->max);
}

void str_reset(struct str *s)
{
	s->len = 0;
	s->cut = false;
	if (s->cap)
		s->ptr[0] = '\0';
}

/* Reserves n more bytes and a NUL; the caller has checked that n does not exceed max. */
static void str_reserve(struct str *s, size_t n)
{
	size_t need = s->len + n + 1, cap = s->cap ? s->cap : 64;

	assert(n <= s->max - s->len);
	if (need <= s->cap)
		return;
	while (cap < need)
		cap *= 2;
	s->ptr = xrealloc(s->cap ? s->ptr : NULL, cap);
	s->cap = cap;
}

bool str_addn(struct str *s, const char *bytes, size_t n)
{
	bool fits = n <= s->max - s->len;

	assert(s->len <= s->max);
	if (!fits) {
		n = s->max - s->len;
		s->cut = true;
	}
	if (!n)
		return fits;
	str_reserve(s, n);
	memcpy(s->ptr + s->len, bytes, n);
	s->len += n;
	s->ptr[s->len] = '\0';
	return fits;
}

bool str_add(struct str *s, const char *text)
{
	return str_addn(s, text, strlen(text));
}

static PRINTF_(1, 0) char *vprint(const char *fmt, va_list ap)
{
	char *text = NULL;

	if (vasprintf(&text, fmt, ap) < 0)
		abort();
	return text;
}

bool str_addf(struct str *s, const char *fmt, ...)
{
	char *text AUTO(free) = NULL;
	va_list ap;

	va_start(ap, fmt);
	text = vprint(fmt, ap);
	va_end(ap);
	return str_add(s, text);
}

char *str_take(struct str *s)
{
	char *text = s->cap ? s->ptr : xstrdup("");

	str_init(s, s->max);
	return text;
}

static void strs_push(struct strs *l, char *owned)
{
	l->v = xrealloc(l->v, (l->n + 2) * sizeof(*l->v));
	l->v[l->n++] = owned;
	l->v[l->n] = NULL;
}

void strs_add(struct strs *l, const char *s)
{
	strs_push(l, xstrdup(s));
}

void strs_addf(struct strs *l, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	strs_push(l, vprint(fmt, ap));
	va_end(ap);
}

bool strs_has(const struct strs *l, const char *s)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i], s) == 0)
			return true;
	return false;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void strs_sort(struct strs *l)
{
	if (l->n > 1)
		qsort(l->v, l->n, sizeof(*l->v), compare);
}

void strs_clear(struct strs *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	*l = (struct strs)STRS_INIT;
}

char *strs_join(const struct strs *l, const char *separator)
{
	struct str all = STR_INIT(SIZE_MAX / 2);

	for (size_t i = 0; i < l->n; i++) {
		if (i)
			str_add(&all, separator);
		str_add(&all, l->v[i]);
	}
	return str_take(&all);
}

bool str_has_prefix(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_has_suffix(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n >= m && strcmp(s + n - m, suffix) == 0;
}

static bool same_start(const char *a, const char *b, size_t n)
{
	return strncasecmp(a, b, n) == 0;
}

bool str_resembles(const char *a, const char *b)
{
	while (*a && same_start(a, b, 1))
		a++, b++;
	if (!*a || !*b)
		return strlen(a) + strlen(b) <= 1;
	return !strcasecmp(a + 1, b + 1) || !strcasecmp(a + 1, b) || !strcasecmp(a, b + 1) ||
	       (same_start(a, b + 1, 1) && same_start(a + 1, b, 1) && !strcasecmp(a + 2, b + 2));
}
