/* SPDX-License-Identifier: Apache-2.0 */
/* Which conditions count, which are failures, and the one-line description for operators. */
#include "dpf/conditions.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "test/lib/suite.h"

static struct json *object(const char *conditions)
{
	struct json *j = NULL;
	struct err err = ERR_INIT;
	char *text AUTO(free) = NULL;

	if (asprintf(&text, "{\"metadata\":{\"generation\":2},\"status\":{\"conditions\":[%s]}}",
	             conditions) < 0)
		abort();
	ck_assert_msg(json_parse("test", text, strlen(text), &j, &err) == 0, "%s", err.msg);
	return j;
}

static const struct {
	const char *what, *conditions;
	bool ready;
	const char *failure; /* its type, or NULL */
	const char *text;
} rows[] = {
	{ "none", "", true, NULL, "no conditions yet" },
	{ "all true", "{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"Success\"}", true, NULL,
	  "" },
	{ "an observed generation that is the object's",
	  "{\"type\":\"Ready\",\"status\":\"True\",\"observedGeneration\":2}", true, NULL, "" },
	{ "an older generation",
	  "{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"Success\",\"observedGeneration\":"
	  "1}",
	  false, NULL, "Ready=True (Success; about an older generation)" },
	{ "not ready",
	  "{\"type\":\"Ready\",\"status\":\"False\",\"reason\":\"Pending\",\"message\":\"The "
	  "following conditions are not ready:\\n* Bound\"},{\"type\":\"Bound\",\"status\":"
	  "\"False\",\"reason\":\"Pending\",\"message\":\"volume is not bound yet\"},"
	  "{\"type\":\"Scheduled\",\"status\":\"True\"}",
	  false, NULL, "Bound=False (Pending: volume is not bound yet)" },
	{ "only the summary",
	  "{\"type\":\"Ready\",\"status\":\"False\",\"reason\":\"Pending\",\"message\":\"\\n a\\n"
	  "* b  c \"}",
	  false, NULL, "Ready=False (Pending: a * b c)" },
	{ "two unmet",
	  "{\"type\":\"A\",\"status\":\"Unknown\",\"reason\":\"Pending\"},{\"type\":\"B\"}", true,
	  NULL, "A=Unknown (Pending), B=Unknown" },
	{ "a failure below its summary",
	  "{\"type\":\"Ready\",\"status\":\"False\",\"reason\":\"Failure\"},"
	  "{\"type\":\"Bound\",\"status\":\"False\",\"reason\":\"Failure\",\"message\":\"lost\"}",
	  false, "Bound", "Bound=False (Failure: lost)" },
	{ "a failure that only the summary has",
	  "{\"type\":\"Ready\",\"status\":\"False\",\"reason\":\"Failure\"}", false, "Ready",
	  "Ready=False (Failure)" },
	{ "a failure about an older generation",
	  "{\"type\":\"Bound\",\"status\":\"False\",\"reason\":\"Failure\","
	  "\"observedGeneration\":1}",
	  true, NULL, "Bound=False (Failure; about an older generation)" },
	{ "conditions that are none", "7, \"x\", {\"type\":3}", true, NULL,
	  "=Unknown, =Unknown, =Unknown" },
};

START_TEST(conditions_are_judged_and_told)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct json *j AUTO(json_free) = object(rows[i].conditions);
		struct str text AUTO(str_clear) = STR_INIT(1000);
		struct condition failure;
		bool failed = condition_reason(j, REASON_FAILURE, &failure);

		ck_assert_msg(condition_holds_or_absent(j, CONDITION_READY) == rows[i].ready, "%s",
		              rows[i].what);
		ck_assert_msg(
			condition_holds(j, CONDITION_READY) ==
				(rows[i].ready && strstr(rows[i].conditions, "\"Ready\"") != NULL),
			"%s", rows[i].what);
		ck_assert_msg(failed == (rows[i].failure != NULL), "%s", rows[i].what);
		if (failed)
			ROW_STR_EQ(rows[i].what, failure.type, rows[i].failure);
		conditions_describe(j, &text);
		ROW_STR_EQ(rows[i].what, text.ptr, rows[i].text);
	}
}
END_TEST

#define NOT_BEGUN \
	"DPF has not started: check that its host controller runs and every DPU cluster is reachable"
#define NO_REASON "DPF gives no reason (is its node driver running on the DPU?)"

/* A DELETE has raised the generation to 2. */
static const struct {
	const char *what, *conditions, *text;
} deleted[] = {
	{ "conditions of before",
	  "{\"type\":\"A\",\"status\":\"True\",\"observedGeneration\":1},"
	  "{\"type\":\"B\",\"status\":\"False\",\"message\":\"b\",\"observedGeneration\":1}",
	  ": no conditions yet; " NOT_BEGUN },
	{ "one of the deletion",
	  "{\"type\":\"A\",\"status\":\"True\",\"observedGeneration\":1},{\"type\":\"B\",\"status\":"
	  "\"False\",\"reason\":\"AwaitingDeletion\",\"message\":\"b\",\"observedGeneration\":2}",
	  ": B=False (AwaitingDeletion: b)" },
	{ "a True of the deletion", "{\"type\":\"A\",\"status\":\"True\",\"observedGeneration\":2}",
	  "" },
};

START_TEST(of_an_object_that_is_deleted_only_the_deletion_counts)
{
	struct str text AUTO(str_clear) = STR_INIT(1000);
	struct json *j AUTO(json_free) = object(deleted[_i].conditions);

	json_set_str(json_sub(j, "metadata"), "deletionTimestamp", "2026-01-02T03:04:05Z");
	state_describe(j, "", &text);
	if (*state_hint(j))
		str_addf(&text, "; %s", state_hint(j));
	ROW_STR_EQ(deleted[_i].what, text.ptr, deleted[_i].text);
}
END_TEST

START_TEST(a_state_is_told_without_repeating_itself)
{
	static const struct {
		const char *what, *status, *missing, *text;
	} states[] = {
		{ "nothing to say", "\"conditions\":[{\"type\":\"A\",\"status\":\"True\"}]", "",
		  "" },
		{ "no status", "", "", ": no conditions yet; " NOT_BEGUN },
		{ "a part is missing", "\"conditions\":[{\"type\":\"A\",\"status\":\"True\"}]",
		  "b is missing", ": b is missing" },
		{ "a message of its own",
		  "\"message\":\"busy\",\"conditions\":[{\"type\":\"A\",\"status\":\"False\"}]", "",
		  ": busy; A=False" },
		{ "a message that a condition has too",
		  "\"message\":\"busy\",\"conditions\":[{\"type\":\"A\",\"status\":\"False\","
		  "\"message\":"
		  "\"is busy\"}]",
		  "", ": A=False (is busy)" },
		{ "an empty message", "\"message\":\"\"", "", ": no conditions yet; " NOT_BEGUN },
		{ "bare Unknowns",
		  "\"phase\":\"Pending\",\"conditions\":[{\"type\":\"Scheduled\",\"status\":"
		  "\"True\"},{\"type\":\"Bound\",\"status\":\"Unknown\",\"reason\":\"Pending\"}]",
		  "", ": Bound=Unknown (Pending); " NOT_BEGUN },
		{ "an Unknown with a message",
		  "\"conditions\":[{\"type\":\"A\",\"status\":\"Unknown\",\"message\":\"b\"}]", "",
		  ": A=Unknown (b)" },
		{ "a volume that has been bound", "\"phase\":\"Bound\"", "",
		  ": no conditions yet" },
		{ "no cause, said twice",
		  "\"message\":\"DPUAttach not ready: \",\"conditions\":[{\"type\":\"DPUAttached\","
		  "\"status\":\"False\",\"reason\":\"Pending\",\"message\":\"DPUAttach not ready: "
		  "\"}]",
		  "", ": DPUAttached=False (Pending: DPUAttach not ready); " NO_REASON },
		{ "no cause in the message alone",
		  "\"message\":\"ControllerAttach not ready:\\n\",\"conditions\":[{\"type\":\"A\","
		  "\"status\":\"False\"}]",
		  "b is missing",
		  ": ControllerAttach not ready; b is missing; A=False; " NO_REASON },
		{ "a cause",
		  "\"message\":\"DPUAttach not ready: busy\",\"conditions\":[{\"type\":\"A\","
		  "\"status\":\"False\",\"message\":\"DPUAttach not ready: busy \"}]",
		  "", ": A=False (DPUAttach not ready: busy)" },
		{ "a cause that ends like a message without one",
		  "\"conditions\":[{\"type\":\"A\",\"status\":\"False\",\"message\":\"DPU n1-dpu "
		  "is not ready\"}]",
		  "", ": A=False (DPU n1-dpu is not ready)" },
		{ "the same behind DPF's words",
		  "\"message\":\"DPUAttach not ready: DPU n1-dpu is not ready\",\"conditions\":[{"
		  "\"type\":\"A\",\"status\":\"True\"}]",
		  "", ": DPUAttach not ready: DPU n1-dpu is not ready" },
		{ "all of it", "\"message\":\"busy\"", "b is missing",
		  ": busy; b is missing; no conditions yet" },
	};

	for (size_t i = 0; i < ARRAY_LEN(states); i++) {
		struct str text AUTO(str_clear) = STR_INIT(1000);
		struct json *j AUTO(json_free) = NULL;
		struct err err = ERR_INIT;
		char *object AUTO(free) = xasprintf("{\"status\":{%s}}", states[i].status);

		ck_assert_int_eq(json_parse("test", object, strlen(object), &j, &err), 0);
		state_describe(j, states[i].missing, &text);
		if (*state_hint(j))
			str_addf(&text, "; %s", state_hint(j));
		ROW_STR_EQ(states[i].what, text.ptr, states[i].text);
	}
}
END_TEST

START_TEST(a_long_message_is_cut_between_characters)
{
	struct str conditions AUTO(str_clear) = STR_INIT(2000);
	struct json *j AUTO(json_free) = NULL;
	struct str text AUTO(str_clear) = STR_INIT(1000);

	str_add(&conditions, "{\"type\":\"A\",\"status\":\"False\",\"message\":\"x");
	for (int i = 0; i < 350; i++)
		str_add(&conditions, "\xc3\xa4");
	str_add(&conditions, "\"}");
	j = object(conditions.ptr);
	conditions_describe(j, &text);
	ck_assert(utf8_valid(text.ptr, text.len));
	ck_assert(str_has_suffix(text.ptr, "...)"));
}
END_TEST

SUITE("conditions", conditions_are_judged_and_told, a_state_is_told_without_repeating_itself,
      LOOP(of_an_object_that_is_deleted_only_the_deletion_counts, ARRAY_LEN(deleted)),
      a_long_message_is_cut_between_characters);
