/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML to JSON trees with libyaml. Aliases are expanded, so the number of nodes is limited: a few
 * lines of YAML could otherwise expand to more nodes than there is memory. No state, any thread.
 */
#include "kube/kube_yaml.h"

#include <stdbool.h>
#include <string.h>
#include <yaml.h>

#include "common/mem.h"
#include "common/str.h"

#define DEPTH_MAX 50
#define NODES_MAX 20000

struct conversion {
	yaml_document_t *document;
	const char *what;
	unsigned nodes;
};

static struct json *scalar(const yaml_node_t *node)
{
	const char *text = (const char *)node->data.scalar.value;
	if (node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
		return json_string(text);
	if (str_eq(text, "true") || str_eq(text, "false"))
		return json_boolean(text[0] == 't');
	if (str_empty(text) || str_eq(text, "null") || str_eq(text, "~"))
		return json_null();
	return json_string(text);
}

static int convert(struct conversion *c, int index, int depth, struct json **ret, struct err *err);

static int convert_sequence(struct conversion *c, const yaml_node_t *node, int depth,
                            struct json **ret, struct err *err)
{
	struct json *array AUTO(json_free) = json_array();
	for (const yaml_node_item_t *i = node->data.sequence.items.start;
	     i < node->data.sequence.items.top; i++) {
		struct json *item;
		if (convert(c, *i, depth + 1, &item, err))
			return -1;
		json_append(array, item);
	}
	*ret = TAKE(array);
	return 0;
}

static int convert_mapping(struct conversion *c, const yaml_node_t *node, int depth,
                           struct json **ret, struct err *err)
{
	struct json *object AUTO(json_free) = json_object();
	for (const yaml_node_pair_t *p = node->data.mapping.pairs.start;
	     p < node->data.mapping.pairs.top; p++) {
		const yaml_node_t *key = yaml_document_get_node(c->document, p->key);
		struct json *value;
		if (!key || key->type != YAML_SCALAR_NODE)
			return err_set(err, ERR_INVALID, "%s: line %zu: a key is not a string",
			               c->what, node->start_mark.line + 1);
		if (convert(c, p->value, depth + 1, &value, err))
			return -1;
		json_set(object, (const char *)key->data.scalar.value, value);
	}
	*ret = TAKE(object);
	return 0;
}

static int convert(struct conversion *c, int index, int depth, struct json **ret, struct err *err)
{
	const yaml_node_t *node = yaml_document_get_node(c->document, index);
	if (!node || depth > DEPTH_MAX || ++c->nodes > NODES_MAX)
		return err_set(err, ERR_INVALID, "%s: nested too deeply or too large", c->what);
	switch (node->type) {
	case YAML_SCALAR_NODE:
		*ret = scalar(node);
		return 0;
	case YAML_SEQUENCE_NODE:
		return convert_sequence(c, node, depth, ret, err);
	case YAML_MAPPING_NODE:
		return convert_mapping(c, node, depth, ret, err);
	case YAML_NO_NODE:
	default:
		return err_set(err, ERR_INVALID, "%s: an empty node", c->what);
	}
}

int kube_yaml_parse(const char *what, const char *text, size_t n, struct json **ret,
                    struct err *err)
{
	yaml_parser_t parser;
	yaml_document_t document;
	struct conversion c = { .document = &document, .what = what };
	int rc;
	if (!yaml_parser_initialize(&parser))
		return err_set(err, ERR_INTERNAL, "%s: libyaml cannot be initialised", what);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
	if (!yaml_parser_load(&parser, &document)) {
		err_set(err, ERR_INVALID, "%s: line %zu: %s", what, parser.problem_mark.line + 1,
		        parser.problem ? parser.problem : "not YAML");
		yaml_parser_delete(&parser);
		return -1;
	}
	rc = yaml_document_get_root_node(&document)
	             ? convert(&c, 1, 0, ret, err)
	             : err_set(err, ERR_INVALID, "%s: is empty", what);
	yaml_document_delete(&document);
	yaml_parser_delete(&parser);
	return rc;
}
