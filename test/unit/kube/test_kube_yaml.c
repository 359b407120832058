/* SPDX-License-Identifier: Apache-2.0 */
/* YAML as kubectl writes it, and as an attacker writes it. */
#include "test/lib/suite.h"

#include <string.h>

#include "common/mem.h"
#include "kube/kube_yaml.h"

/* The tree of the text as JSON, or its error. */
static char *read_object(const char *text, size_t n)
{
	struct json *tree AUTO(json_free) = NULL;
	struct err err = ERR_INIT;

	if (kube_yaml_parse_object("it", text, n, &tree, &err))
		return xstrdup(err.msg);
	return json_print(tree);
}

static const struct {
	const char *what, *text, *want;
} objects[] = {
	{ "a plain integer is a number", "a: 1\nb: -20\nc: 0\n", "{\"a\":1,\"b\":-20,\"c\":0}" },
	{ "a quoted one is a text", "a: \"1\"\nb: '2'\n", "{\"a\":\"1\",\"b\":\"2\"}" },
	{ "what other languages take for numbers is a text",
	  "a: 0755\nb: 0x1\nc: 1e3\nd: 1_000\ne: -x\n",
	  "{\"a\":\"0755\",\"b\":\"0x1\",\"c\":\"1e3\",\"d\":\"1_000\",\"e\":\"-x\"}" },
	{ "an integer above 64 bits is a text", "a: 99999999999999999999\n",
	  "{\"a\":\"99999999999999999999\"}" },
	{ "true, false and null", "a: true\nb: false\nc: null\nd:\ne: ~\nf: \"true\"\n",
	  "{\"a\":true,\"b\":false,\"c\":null,\"d\":null,\"e\":null,\"f\":\"true\"}" },
	{ "lists in lists and maps", "a:\n- b: 1\n  c:\n  - d\n  - - e\n- f\n",
	  "{\"a\":[{\"b\":1,\"c\":[\"d\",[\"e\"]]},\"f\"]}" },
	{ "a text of several lines", "a: |-\n  one\n  two\nb: >\n  three\n  four\nc: \"x\n  y\"\n",
	  "{\"a\":\"one\\ntwo\",\"b\":\"three four\\n\",\"c\":\"x y\"}" },
	{ "a time is a text", "a: \"2026-01-02T03:04:05Z\"\nb: 2026-01-02T03:04:05Z\n",
	  "{\"a\":\"2026-01-02T03:04:05Z\",\"b\":\"2026-01-02T03:04:05Z\"}" },
	{ "empty maps and lists", "a: {}\nb: []\n", "{\"a\":{},\"b\":[]}" },
	{ "a document's begin and end", "---\na: 1\n...\n", "{\"a\":1}" },
	{ "a second document", "a: 1\n---\na: 2\n", "it: has several documents (---)" },
	{ "what is no YAML behind the document", "a: 1\n---\n\t- x",
	  "it: line 3: found character that cannot start any token" },
	{ "nothing", "", "it: is empty" },
	{ "a key that is a list", "? [a]\n: b\n", "it: line 1: a key is not a string" },
	{ "True is true", "a: True\nb: FALSE\nc: \"True\"\nd: tRue\n",
	  "{\"a\":true,\"b\":false,\"c\":\"True\",\"d\":\"tRue\"}" },
	{ "a merge key: what is there itself counts", "x: &x {a: 1, b: 2}\ny:\n  b: 3\n  <<: *x\n",
	  "{\"x\":{\"a\":1,\"b\":2},\"y\":{\"b\":3,\"a\":1}}" },
	{ "several are merged: the first counts",
	  "x: &x {a: 1}\nz: &z {a: 2, b: 3}\ny:\n  <<: [*x, *z, {c: 4}]\n",
	  "{\"x\":{\"a\":1},\"z\":{\"a\":2,\"b\":3},\"y\":{\"a\":1,\"b\":3,\"c\":4}}" },
	{ "a merge of merges", "x: &x {a: 1}\nz: &z {<<: *x, b: 2}\ny: {<<: *z}\n",
	  "{\"x\":{\"a\":1},\"z\":{\"b\":2,\"a\":1},\"y\":{\"b\":2,\"a\":1}}" },
	{ "a quoted << is a key", "y: {\"<<\": 1}\n", "{\"y\":{\"<<\":1}}" },
	{ "a merge of a text", "y:\n  <<: x\n", "it: line 2: the value of << is not a mapping" },
	{ "a merge with itself", "a: &a\n  <<: [*a, *a]\n", "it: nested too deeply or too large" },
	{ "a NUL in a text", "a: \"b\\0c\"\n",
	  "{\"a\":\"b\xef\xbf\xbd"
	  "c\"}" },
	{ "a NUL in a key", "\"b\\0\": a\nb: c\n", "{\"b\xef\xbf\xbd\":\"a\",\"b\":\"c\"}" },
};

START_TEST(an_object_is_read_as_kubectl_writes_it)
{
	char *got AUTO(free) = read_object(objects[_i].text, strlen(objects[_i].text));

	ROW_STR_EQ(objects[_i].what, got, objects[_i].want);
}
END_TEST

START_TEST(open_brackets_alone_are_refused_at_once)
{
	char *text AUTO(free) = xmalloc(100000), *got AUTO(free) = NULL;

	memset(text, '[', 100000);
	got = read_object(text, 100000);
	ck_assert_str_eq(got, "it: nested too deeply or too large");
}
END_TEST

/* Nine lines that would expand to a billion nodes. */
START_TEST(aliases_do_not_expand_without_end)
{
	static const char text[] = "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
				   "b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
				   "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
				   "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
				   "e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n"
				   "f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n"
				   "g: [*f,*f,*f,*f,*f,*f,*f,*f,*f,*f]\n";
	char *got AUTO(free) = read_object(text, strlen(text));

	ck_assert_str_eq(got, "it: nested too deeply or too large");
}
END_TEST

START_TEST(numbers_of_a_kubeconfig_stay_texts)
{
	static const char text[] = "a: 1\n---\nb: 2\n";
	struct json *tree AUTO(json_free) = NULL;
	struct err err = ERR_INIT;

	ck_assert_int_eq(kube_yaml_parse("it", text, strlen(text), &tree, &err), 0);
	ck_assert_str_eq(json_str(tree, "a"), "1");
}
END_TEST

static const struct {
	const char *what, *text, *want;
} lined[] = {
	{ "each key has its line", "a:\n  b: 1\n\n  c: {d: true}\n",
	  "{\"a\":{\"b\":\"1\",\"c\":{\"d\":true}}} "
	  "{\"a\":{\"\":1,\"b\":{\"\":2},\"c\":{\"\":4,\"d\":{\"\":4}}}}" },
	{ "a list is one value", "# x\na: [1, {b: 2}]\n",
	  "{\"a\":[\"1\",{\"b\":\"2\"}]} {\"a\":{\"\":2}}" },
	{ "a key that occurs twice", "a: 1\nb:\n  c: 1\n  c: 2\n",
	  "it: line 4: the key \"c\" occurs twice" },
	{ "a key without a name", "a: 1\n\"\": 2\n", "it: line 2: the key \"\" has no name" },
	{ "a second document", "a: 1\n---\na: 2\n", "it: has several documents (---)" },
	{ "a NUL in a text", "a: \"b\\0c\"\n", "it: line 1: a text has a NUL" },
	{ "a NUL in a key", "\"b\\0c\": a\n", "it: line 1: a key is not a string" },
};

START_TEST(a_file_that_a_person_writes_has_lines)
{
	struct json *tree AUTO(json_free) = NULL, *lines AUTO(json_free) = NULL;
	char *got AUTO(free) = NULL;
	struct err err = ERR_INIT;

	if (kube_yaml_parse_lined("it", lined[_i].text, strlen(lined[_i].text), &tree, &lines,
	                          &err)) {
		got = xstrdup(err.msg);
	} else {
		char *a AUTO(free) = json_print(tree), *b AUTO(free) = json_print(lines);

		got = xasprintf("%s %s", a, b);
	}
	ROW_STR_EQ(lined[_i].what, got, lined[_i].want);
}
END_TEST

SUITE("kube_yaml", LOOP(an_object_is_read_as_kubectl_writes_it, ARRAY_LEN(objects)),
      aliases_do_not_expand_without_end, open_brackets_alone_are_refused_at_once,
      numbers_of_a_kubeconfig_stay_texts,
      LOOP(a_file_that_a_person_writes_has_lines, ARRAY_LEN(lined)));
