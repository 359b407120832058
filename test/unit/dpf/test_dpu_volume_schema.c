/* SPDX-License-Identifier: Apache-2.0 */
/* Which schemas of a DPUVolume let its size change. */
#include <string.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "dpf/dpu_volume_schema.h"
#include "test/lib/suite.h"

#define RULE(text) "\"x-kubernetes-validations\":[{\"rule\":\"true\"},{\"rule\":\"" text "\"}],"
#define STORAGE(rule) "{" rule "\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\"}]}"
#define REQUESTS(rule, storage) "{" rule "\"additionalProperties\":" storage "}"
#define RESOURCES(rule, requests) "{" rule "\"properties\":{\"requests\":" requests "}}"
#define SPEC(rule, resources) "{" rule "\"properties\":{\"resources\":" resources "}}"
#define ROOT(rule, spec) "{" rule "\"properties\":{\"spec\":" spec "}}"
#define FREE REQUESTS("", STORAGE(""))
#define ON_RESOURCES(text) ROOT("", SPEC("", RESOURCES(RULE(text), FREE)))
#define ON_SPEC(text) ROOT("", SPEC(RULE(text), RESOURCES("", FREE)))

static const struct {
	const char *what, *schema, *why; /* why: NULL: changes are permitted */
} rows[] = {
	{ "no rule", ROOT("", SPEC("", RESOURCES("", FREE))), NULL },
	{ "DPF's rule of today", ON_RESOURCES("self == oldSelf"),
	  "spec.resources has the rule self == oldSelf" },
	{ "the other way round, without blanks", ON_RESOURCES("oldSelf==self"),
	  "spec.resources has the rule oldSelf==self" },
	{ "in parentheses", ON_RESOURCES("((self) == oldSelf)"),
	  "spec.resources has the rule ((self) == oldSelf)" },
	{ "in outer parentheses", ON_RESOURCES("( self == oldSelf )"),
	  "spec.resources has the rule ( self == oldSelf )" },
	{ "on the whole spec", ON_SPEC("self == oldSelf"), "spec has the rule self == oldSelf" },
	{ "on the object", ROOT(RULE("self.spec == oldSelf.spec"), SPEC("", RESOURCES("", FREE))),
	  "object has the rule self.spec == oldSelf.spec" },
	{ "on requests",
	  ROOT("", SPEC("", RESOURCES("", REQUESTS(RULE("self == oldSelf"), STORAGE(""))))),
	  "spec.resources.requests has the rule self == oldSelf" },
	{ "on each quantity",
	  ROOT("", SPEC("", RESOURCES("", REQUESTS("", STORAGE(RULE("self == oldSelf")))))),
	  "spec.resources.requests.storage has the rule self == oldSelf" },
	{ "of the spec, by a path", ON_SPEC("self.resources == oldSelf.resources"),
	  "spec has the rule self.resources == oldSelf.resources" },
	{ "by an index", ON_RESOURCES("self.requests['storage'] == oldSelf.requests['storage']"),
	  "spec.resources has the rule self.requests['storage'] == oldSelf.requests['storage']" },
	{ "one of several that must hold",
	  ON_SPEC("self.volumeMode == oldSelf.volumeMode && (self.resources == oldSelf.resources)"),
	  "spec has the rule self.volumeMode == oldSelf.volumeMode && (self.resources == "
	  "oldSelf.resources)" },
	{ "of another field", ON_SPEC("self.volumeMode == oldSelf.volumeMode"), NULL },
	{ "of a field whose name begins alike", ON_SPEC("self.resource == oldSelf.resource"),
	  NULL },
	{ "of the limits", ON_RESOURCES("self.limits == oldSelf.limits"), NULL },
	{ "it may only grow",
	  ON_RESOURCES("quantity(self.requests['storage']).compareTo("
	               "quantity(oldSelf.requests['storage'])) >= 0"),
	  NULL },
	{ "one of several that may hold", ON_RESOURCES("self == oldSelf || self.grows"), NULL },
	{ "two fields of the new state", ON_RESOURCES("self == self"), NULL },
	{ "parentheses that do not close", ON_RESOURCES("((self == oldSelf"), NULL },
	{ "an empty rule", ON_RESOURCES(""), NULL },
	{ "storage by its name",
	  ROOT("", SPEC("", RESOURCES("", "{\"properties\":{\"storage\":{"
	                                  "\"type\":\"string\"}}}"))),
	  NULL },
	{ "no spec.resources", ROOT("", "{\"properties\":{}}"), "there is no spec.resources" },
	{ "requests of no such thing", ROOT("", SPEC("", RESOURCES("", "{\"type\":\"object\"}"))),
	  "there is no spec.resources.requests.storage" },
	{ "additionalProperties: true",
	  ROOT("", SPEC("", RESOURCES("", "{\"additionalProperties\":true}"))),
	  "there is no spec.resources.requests.storage" },
	{ "not a schema", "[]", "there is no spec" },
};

START_TEST(a_size_may_change_unless_a_rule_freezes_it)
{
	struct str why AUTO(str_clear) = STR_INIT(1000);
	struct json *schema AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	bool may;

	ck_assert_msg(json_parse(rows[_i].what, rows[_i].schema, strlen(rows[_i].schema), &schema,
	                         &err) == 0,
	              "%s", err.msg);
	may = dpu_volume_may_grow(schema, &why);
	ck_assert_msg(may == !rows[_i].why, "%s: %s", rows[_i].what, may ? "it may" : why.ptr);
	ROW_STR_EQ(rows[_i].what, why.ptr, rows[_i].why ? rows[_i].why : "");
}
END_TEST

#define LONG 1000000
START_TEST(a_rule_longer_than_anyone_writes_is_left_to_the_api_server)
{
	struct str why AUTO(str_clear) = STR_INIT(1000), text AUTO(str_clear) = STR_INIT(2 * LONG);
	char *rule AUTO(free) = xmalloc(LONG + 1);
	struct json *schema AUTO(json_free) = NULL;
	struct err err = ERR_INIT;

	memset(rule, "(&"[_i], LONG);
	rule[LONG] = 0;
	str_addf(&text, "{\"x-kubernetes-validations\":[{\"rule\":\"");
	str_add(&text, rule);
	str_add(&text, "\"}],\"properties\":{\"spec\":{\"properties\":{\"resources\":");
	str_add(&text, RESOURCES("", FREE));
	str_add(&text, "}}}}");
	ck_assert_msg(json_parse("schema", text.ptr, text.len, &schema, &err) == 0, "%s", err.msg);
	ck_assert_msg(dpu_volume_may_grow(schema, &why), "%s", why.ptr);
}
END_TEST

SUITE("dpu volume schema", LOOP(a_rule_longer_than_anyone_writes_is_left_to_the_api_server, 2),
      LOOP(a_size_may_change_unless_a_rule_freezes_it, ARRAY_LEN(rows)));
