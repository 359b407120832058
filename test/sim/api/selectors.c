/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The label selector and the field selector of a request. An unknown selector is refused, because
 * ignoring it would select too much. No state.
 */
#include "test/sim/api/selectors.h"

#include <string.h>

#include "common/mem.h"

static int unknown(const char *term, struct err *err)
{
	return err_set(err, ERR_INVALID, "\"%s\" is not a known field selector", term);
}

static bool is_field_of(const struct api_resource *res, const char *path)
{
	for (const char *const *field = res->fields; field && *field; field++)
		if (str_eq(*field, path))
			return true;
	return false;
}

/* "key=value", "key==value" or "key!=value". */
static int parse_field(const struct api_resource *res, const char *term, struct selectors *ret,
                       struct err *err)
{
	const char *equal = strchr(term, '=');
	bool differs = equal && equal > term && equal[-1] == '!';
	size_t n = equal ? (size_t)(equal - term) - differs : 0;
	char *key AUTO(free) = xstrndup(term, n);
	const char *value = equal ? equal + (!differs && equal[1] == '=' ? 2 : 1) : "";
	char **slot = NULL;

	if (str_eq(key, "metadata.name"))
		slot = differs ? &ret->not_name : &ret->name;
	else if (str_eq(key, "metadata.namespace"))
		slot = differs ? &ret->not_ns : &ret->ns;
	if (equal && !slot && is_field_of(res, key)) {
		strs_addf(&ret->fields, "%c%s=%s", differs ? '!' : '=', key, value);
		return 0;
	}
	if (equal && !slot)
		return err_set(err, ERR_INVALID, "field label not supported: %s", key);
	if (!slot || *slot)
		return unknown(term, err);
	*slot = xstrdup(value);
	return 0;
}

static int parse_fields(const struct api_resource *res, const char *text, struct selectors *ret,
                        struct err *err)
{
	for (const char *s = text;;) {
		size_t n = strcspn(s, ",");
		char *term AUTO(free) = xstrndup(s, n);

		if (parse_field(res, term, ret, err))
			return -1;
		if (!s[n])
			return 0;
		s += n + 1;
	}
}

int selectors_parse(const struct api_resource *res, const char *labels, const char *fields,
                    struct selectors *ret, struct err *err)
{
	struct selectors s = { 0 };

	if ((!str_empty(labels) && label_selector_parse(labels, &s.labels, err)) ||
	    (!str_empty(fields) && parse_fields(res, fields, &s, err))) {
		selectors_clear(&s);
		return -1;
	}
	s.any = !s.labels.n && !s.name && !s.ns && !s.not_name && !s.not_ns && !s.fields.n;
	*ret = s;
	return 0;
}

void selectors_clear(struct selectors *s)
{
	label_selector_clear(&s->labels);
	free(s->name);
	free(s->ns);
	free(s->not_name);
	free(s->not_ns);
	strs_clear(&s->fields);
	*s = (struct selectors) { 0 };
}

/* An absent field is the empty text. */
static bool fields_match(const struct strs *fields, const struct object_version *v)
{
	struct json *o AUTO(json_free) = fields->n ? version_parse(v) : NULL;

	for (size_t i = 0; i < fields->n; i++) {
		const char *path = fields->v[i] + 1, *equal = strchr(path, '=');
		char *key AUTO(free) = xstrndup(path, (size_t)(equal - path));
		const char *found = json_str(o, str_eq(key, "source") ? "source.component" : key);

		if (str_eq(found ? found : "", equal + 1) != (fields->v[i][0] == '='))
			return false;
	}
	return true;
}

bool selectors_match(const void *arg, const struct object_version *v)
{
	const struct selectors *s = arg;

	if (s->any)
		return true;
	if ((s->name && !str_eq(s->name, v->name)) || (s->ns && !str_eq(s->ns, v->ns)))
		return false;
	if ((s->not_name && str_eq(s->not_name, v->name)) ||
	    (s->not_ns && str_eq(s->not_ns, v->ns)))
		return false;
	return label_selector_matches(&s->labels, &v->labels) && fields_match(&s->fields, v);
}
