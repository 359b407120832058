/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts YAML to JSON trees with libyaml. Because aliases are expanded, the number of nodes is
 * limited; otherwise a few lines of YAML could exhaust the memory. Stateless; any thread.
 */
#include "kube/kube_yaml.h"

#include <stdbool.h>
#include <string.h>
#include <yaml.h>

#include "common/str.h"

#define DEPTH_MAX 50
#define NODES_MAX 200000 /* a kubeconfig of 800 clusters has 20,000 */
/* parsing time grows with the square of this number; see check_brackets() */
#define BRACKETS_MAX 20000

struct conversion {
	yaml_document_t *document;
	const char *what;
	/* a Kubernetes object: plain integers are numbers, a NUL is U+FFFD as in JSON */
	bool object;
	bool lined; /* line numbers are also requested, and duplicate keys are refused */
	unsigned nodes;
};

/* Returns the line of a value and of its members; see kube_yaml_parse_lined(). */
static struct json *line_of(const yaml_node_t *node)
{
	struct json *line = json_object();

	json_set_int(line, "", (int64_t)node->start_mark.line + 1);
	return line;
}

/* Accepts the integers of JSON. 0755 and 0x1 have different values in YAML, and stay strings. */
static bool is_integer(const char *text, int64_t *ret)
{
	const char *digits = *text == '-' ? text + 1 : text;
	struct err ignored = ERR_INIT;

	if (*digits < '0' || *digits > '9' || (*digits == '0' && digits[1]))
		return false;
	return parse_i64("", text, ret, &ignored) == 0;
}

/* Returns NULL if the text contains a NUL, because its reader would see a shorter text. */
static char *yaml_scalar_text(const struct conversion *c, const yaml_node_t *node)
{
	const char *at = (const char *)node->data.scalar.value,
		   *end = at + node->data.scalar.length;
	struct str text AUTO(str_clear) =
		STR_INIT(node->data.scalar.length * strlen(UTF8_REPLACEMENT));

	for (; at < end; at++)
		if (*at)
			str_addn(&text, at, 1);
		else if (c->object)
			str_add(&text, UTF8_REPLACEMENT);
		else
			return NULL;
	return str_take(&text);
}

static struct json *yaml_scalar(const struct conversion *c, const yaml_node_t *node,
                                const char *text)
{
	int64_t number;

	if (node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
		return json_string(text);
	if (c->object && is_integer(text, &number))
		return json_int(number);
	if (str_eq(text, "true") || str_eq(text, "false"))
		return json_boolean(text[0] == 't');
	if (!c->lined && (str_eq(text, "True") || str_eq(text, "TRUE") || str_eq(text, "False") ||
	                  str_eq(text, "FALSE")))
		return json_boolean(text[0] == 'T');
	if (str_empty(text) || str_eq(text, "null") || str_eq(text, "~"))
		return json_null();
	return json_string(text);
}

/* `lines` NULL: line numbers are not requested. */
static int yaml_convert(struct conversion *c, int index, int depth, struct json **ret,
                        struct json *lines, struct err *err);

static int convert_sequence(struct conversion *c, const yaml_node_t *node, int depth,
                            struct json **ret, struct err *err)
{
	struct json *array AUTO(json_free) = json_array();
	for (const yaml_node_item_t *i = node->data.sequence.items.start;
	     i < node->data.sequence.items.top; i++) {
		struct json *item;
		if (yaml_convert(c, *i, depth + 1, &item, NULL, err))
			return -1;
		json_append(array, item);
	}
	*ret = TAKE(array);
	return 0;
}

/*
 * Returns true for the key of "<<: *base" or "<<: [*one, *two]". Keys of the mapping itself, and of
 * earlier entries, take precedence.
 */
static bool is_merge_key(const struct conversion *c, const yaml_node_t *key)
{
	return !c->lined && key && key->type == YAML_SCALAR_NODE &&
	       key->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	       str_eq((const char *)key->data.scalar.value, "<<");
}

static int merge_mapping(struct conversion *c, int index, int depth, struct json *object,
                         struct err *err)
{
	struct json *base AUTO(json_free) = NULL;

	if (yaml_convert(c, index, depth, &base, NULL, err))
		return -1;
	if (!json_is_object(base))
		return err_set(err, ERR_INVALID, "%s: line %zu: the value of << is not a mapping",
		               c->what,
		               yaml_document_get_node(c->document, index)->start_mark.line + 1);
	json_foreach (member, base)
		if (!json_member(object, json_name(member)))
			json_set(object, json_name(member), json_copy(member));
	return 0;
}

static int yaml_merge(struct conversion *c, int index, int depth, struct json *object,
                      struct err *err)
{
	const yaml_node_t *node = yaml_document_get_node(c->document, index);

	if (!node || node->type != YAML_SEQUENCE_NODE)
		return merge_mapping(c, index, depth + 1, object, err);
	for (const yaml_node_item_t *i = node->data.sequence.items.start;
	     i < node->data.sequence.items.top; i++)
		if (merge_mapping(c, *i, depth + 2, object, err))
			return -1;
	return 0;
}

static int yaml_convert_mapping(struct conversion *c, const yaml_node_t *node, int depth,
                                struct json **ret, struct json *lines, struct err *err)
{
	struct json *object AUTO(json_free) = json_object();
	for (const yaml_node_pair_t *p = node->data.mapping.pairs.start;
	     p < node->data.mapping.pairs.top; p++) {
		const yaml_node_t *key = yaml_document_get_node(c->document, p->key);
		struct json *value, *line = NULL;
		char *name AUTO(free) =
			key && key->type == YAML_SCALAR_NODE ? yaml_scalar_text(c, key) : NULL;
		if (is_merge_key(c, key))
			continue;
		if (!name)
			return err_set(err, ERR_INVALID, "%s: line %zu: a key is not a string",
			               c->what, node->start_mark.line + 1);
		if (c->lined && (!*name || json_member(object, name)))
			return err_set(err, ERR_INVALID, "%s: line %zu: the key \"%s\" %s", c->what,
			               key->start_mark.line + 1, name,
			               *name ? "occurs twice" : "has no name");
		if (lines)
			json_set(lines, name, line = line_of(key));
		if (yaml_convert(c, p->value, depth + 1, &value, line, err))
			return -1;
		json_set(object, name, value);
	}
	for (const yaml_node_pair_t *p = node->data.mapping.pairs.start;
	     p < node->data.mapping.pairs.top; p++)
		if (is_merge_key(c, yaml_document_get_node(c->document, p->key)) &&
		    yaml_merge(c, p->value, depth, object, err))
			return -1;
	*ret = TAKE(object);
	return 0;
}

static int yaml_convert(struct conversion *c, int index, int depth, struct json **ret,
                        struct json *lines, struct err *err)
{
	const yaml_node_t *node = yaml_document_get_node(c->document, index);
	char *text AUTO(free) = NULL;
	if (!node || depth > DEPTH_MAX || ++c->nodes > NODES_MAX)
		return err_set(err, ERR_INVALID, "%s: nested too deeply or too large", c->what);
	switch (node->type) {
	case YAML_SCALAR_NODE:
		text = yaml_scalar_text(c, node);
		if (!text)
			return err_set(err, ERR_INVALID, "%s: line %zu: a text has a NUL", c->what,
			               node->start_mark.line + 1);
		*ret = yaml_scalar(c, node, text);
		return 0;
	case YAML_SEQUENCE_NODE:
		return convert_sequence(c, node, depth, ret, err);
	case YAML_MAPPING_NODE:
		return yaml_convert_mapping(c, node, depth, ret, lines, err);
	case YAML_NO_NODE:
	default:
		return err_set(err, ERR_INVALID, "%s: an empty node", c->what);
	}
}

static int bad_yaml(const char *what, const yaml_parser_t *parser, struct err *err)
{
	return err_set(err, ERR_INVALID, "%s: line %zu: %s", what, parser->problem_mark.line + 1,
	               parser->problem ? parser->problem : "not YAML");
}

/*
 * libyaml goes through all open brackets for each bracket that it reads, so a file of nothing but
 * brackets would take an hour.
 */
static int check_brackets(const char *what, const char *text, size_t n, struct err *err)
{
	unsigned brackets = 0;

	for (size_t i = 0; i < n; i++)
		brackets += text[i] == '[' || text[i] == '{';
	return brackets <= BRACKETS_MAX
	               ? 0
	               : err_set(err, ERR_INVALID, "%s: nested too deeply or too large", what);
}

/* The stream's end is a document without a root. */
static int check_last(const char *what, yaml_parser_t *parser, struct err *err)
{
	yaml_document_t document;
	bool more;

	if (!yaml_parser_load(parser, &document))
		return bad_yaml(what, parser, err);
	more = yaml_document_get_root_node(&document) != NULL;
	yaml_document_delete(&document);
	return more ? err_set(err, ERR_INVALID, "%s: has several documents (---)", what) : 0;
}

static int yaml_parse(const char *what, const char *text, size_t n, bool object, struct json **ret,
                      struct json *lines, struct err *err)
{
	yaml_parser_t parser;
	yaml_document_t document;
	struct json *tree AUTO(json_free) = NULL;
	struct conversion c = {
		.document = &document, .what = what, .object = object && !lines, .lined = lines
	};
	int rc;

	if (check_brackets(what, text, n, err))
		return -1;
	if (!yaml_parser_initialize(&parser))
		return err_set(err, ERR_INTERNAL, "%s: libyaml cannot be initialised", what);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
	if (!yaml_parser_load(&parser, &document)) {
		rc = bad_yaml(what, &parser, err);
		yaml_parser_delete(&parser);
		return rc;
	}
	rc = yaml_document_get_root_node(&document)
	             ? yaml_convert(&c, 1, 0, &tree, lines, err)
	             : err_set(err, ERR_INVALID, "%s: is empty", what);
	yaml_document_delete(&document);
	if (!rc && object)
		rc = check_last(what, &parser, err);
	yaml_parser_delete(&parser);
	if (!rc)
		*ret = TAKE(tree);
	return rc;
}

int kube_yaml_parse(const char *what, const char *text, size_t n, struct json **ret,
                    struct err *err)
{
	return yaml_parse(what, text, n, false, ret, NULL, err);
}

int kube_yaml_parse_object(const char *what, const char *text, size_t n, struct json **ret,
                           struct err *err)
{
	return yaml_parse(what, text, n, true, ret, NULL, err);
}

int kube_yaml_parse_lined(const char *what, const char *text, size_t n, struct json **ret,
                          struct json **ret_lines, struct err *err)
{
	struct json *lines AUTO(json_free) = json_object();

	if (yaml_parse(what, text, n, true, ret, lines, err))
		return -1;
	*ret_lines = TAKE(lines);
	return 0;
}

const char *kube_yaml_library(void)
{
	return yaml_get_version_string();
}
