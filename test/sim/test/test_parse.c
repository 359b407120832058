/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing of quantities, selectors and options. */
#include <inttypes.h>
#include <string.h>

#include "common/mem.h"
#include "test/lib/suite.h"
#include "test/sim/api/selectors.h"
#include "test/sim/base/options.h"
#include "test/sim/kinds/quantity.h"

START_TEST(quantities_are_exact_bytes)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} rows[] = {
		{ "0", 0 },
		{ "1073741824", 1073741824 },
		{ "1Gi", 1073741824 },
		{ "1.5Gi", 1610612736 },
		{ "100M", 100000000 },
		{ "1k", 1000 },
		{ "1500m", 2 },
		{ "1e9", 1000000000 },
		{ "2E", 2000000000000000000 },
		{ "1E3", 1000 },
		{ "+5", 5 },
		{ "0.5", 1 },
		{ "9223372036854775807", INT64_MAX },
		{ "7Ei", 8070450532247928832 },
		{ "9007199254740993", 9007199254740993 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;
		uint64_t bytes = 42;

		ck_assert_msg(quantity_parse(rows[i].text, &bytes, &err) == 0, "%s: %s",
		              rows[i].text, err.msg);
		ck_assert_msg(bytes == rows[i].bytes, "%s: %" PRIu64, rows[i].text, bytes);
	}
}
END_TEST

START_TEST(what_is_no_quantity_is_refused)
{
	static const char *const rows[] = { "",
		                            "-1",
		                            "1 Gi",
		                            "Gi",
		                            "1GiB",
		                            "1.2.3",
		                            "0x10",
		                            "8Ei",
		                            "1e30",
		                            "10E",
		                            "1K",
		                            ".",
		                            "1i",
		                            "99999999999999999999999999",
		                            "9223372036854775808" };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;
		uint64_t bytes = 42;

		ck_assert_msg(quantity_parse(rows[i], &bytes, &err) == -1, "%s: %" PRIu64, rows[i],
		              bytes);
		ck_assert_uint_eq(bytes, 42);
	}
}
END_TEST

START_TEST(selectors_select)
{
	static const struct {
		const char *labels, *fields;
		bool match;
	} rows[] = {
		{ "", "", true },
		{ "a=1", "", true },
		{ "a==1", "", true },
		{ "a=2", "", false },
		{ "a=1,b=", "", true },
		{ "a=1,c=3", "", false },
		{ "a!=2", "", true },
		{ "a!=1", "", false },
		{ "c!=1", "", true },
		{ "a", "", true },
		{ "c", "", false },
		{ "!c", "", true },
		{ "!a", "", false },
		{ " a = 1 , !c ", "", true },
		{ "b", "", true },
		{ "c=", "", false },
		{ "b=", "", true },
		{ "b!=", "", false },
		{ "a=1,!b", "", false },
		{ "example.com/v=pvc-1.2_3", "", true },
		{ "example.com/v", "", true },
		{ "!example.com/v", "", false },
		{ "example.com=pvc-1.2_3", "", false },
		{ "! c", "", true },
		{ "a in (1)", "", true },
		{ "a in (2,1)", "", true },
		{ "a in(2, 3)", "", false },
		{ "c in (1)", "", false },
		{ "b in ()", "", true },
		{ "b in (,x)", "", true },
		{ "a in ()", "", false },
		{ "a notin (1,2)", "", false },
		{ "a notin (2)", "", true },
		{ "c notin (1)", "", true },
		{ "a in (1),c notin (in, notin),!d", "", true },
		{ "a=in", "", false },
		{ "in", "", false },
		{ "!notin", "", true },
		{ "a>0", "", true },
		{ "a > 1", "", false },
		{ "a<2", "", true },
		{ "a<1", "", false },
		{ "b<1", "", false },
		{ "c<1", "", false },
		{ "", "metadata.name=x", true },
		{ "", "metadata.name==x", true },
		{ "", "metadata.name=y", false },
		{ "", "metadata.name=x,metadata.namespace=ns", true },
		{ "", "metadata.namespace=other", false },
		{ "a=1", "metadata.name=y", false },
	};
	struct object_version v = { .ns = (char *)"ns", .name = (char *)"x" };

	strs_add(&v.labels, "a=1");
	strs_add(&v.labels, "b=");
	strs_add(&v.labels, "example.com/v=pvc-1.2_3");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct selectors s AUTO(selectors_clear) = { 0 };
		struct err err = ERR_INIT;

		ck_assert_msg(selectors_parse(RES(VOLUMES), rows[i].labels, rows[i].fields, &s,
		                              &err) == 0,
		              "%s / %s: %s", rows[i].labels, rows[i].fields, err.msg);
		ck_assert_msg(selectors_match(&s, &v) == rows[i].match, "%s / %s", rows[i].labels,
		              rows[i].fields);
	}
	strs_clear(&v.labels);
}
END_TEST

START_TEST(selectors_that_are_not_understood_are_refused)
{
	static const struct {
		const char *labels, *fields;
	} rows[] = {
		{ "a=1,,b=2", "" },
		{ "a=1,", "" },
		{ ",a=1", "" },
		{ "=1", "" },
		{ "!", "" },
		{ "!!a", "" },
		{ "!a=1", "" },
		{ "!a in (b)", "" },
		{ "a b", "" },
		{ "a=1 2", "" },
		{ "a=(1)", "" },
		{ "a in", "" },
		{ "a in b", "" },
		{ "a in (b", "" },
		{ "a in (b c)", "" },
		{ "a in (b))", "" },
		{ "a IN (b)", "" },
		{ "a>", "" },
		{ "a>b", "" },
		{ "a<=1", "" },
		{ "-a", "" },
		{ "A.example/b", "" },
		{ "a=-1", "" },
		{ "a in (b,-c)", "" },
		{ "a=0123456789012345678901234567890123456789012345678901234567890123", "" },
		{ "", "spec.nodeName=x" },
		{ "", "metadata.name!=x,metadata.name!=y" },
		{ "", "metadata.name" },
		{ "", "metadata.na=x" },
		{ "", "=x" },
		{ "", "metadata.name=x," },
		{ "", "metadata.name=x,metadata.name=y" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct selectors s = { 0 };
		struct err err = ERR_INIT;

		ck_assert_msg(selectors_parse(RES(VOLUMES), rows[i].labels, rows[i].fields, &s,
		                              &err) == -1,
		              "%s / %s", rows[i].labels, rows[i].fields);
	}
}
END_TEST

static int parse(const char *const *args, struct sim_options *o, struct err *err)
{
	char *argv[8] = { (char *)"snap-sim" };
	enum options_end end;
	int n = 1;

	for (; *args; args++)
		argv[n++] = (char *)*args;
	return options_parse(n, argv, o, &end, err);
}

START_TEST(options_take_both_spellings)
{
	static const char *const args[] = {
		"--listen=0.0.0.0:80", "--vfs", "7", "-v=2", "--node=a", "--no-dpf", NULL
	};
	struct sim_options o;
	struct err err = ERR_INIT;

	ck_assert_int_eq(parse(args, &o, &err), 0);
	ck_assert_str_eq(o.address, "0.0.0.0");
	ck_assert_uint_eq(o.port, 80);
	ck_assert_uint_eq(o.vfs, 7);
	ck_assert_uint_eq(o.verbosity, 2);
	ck_assert(o.no_dpf);
	ck_assert(strs_has(&o.nodes, "a"));
	options_clear(&o);
}
END_TEST

START_TEST(wrong_options_are_named)
{
	static const struct {
		const char *args[3];
		const char *text;
	} rows[] = {
		{ { "--nope" }, "unknown option --nope" },
		{ { "stray" }, "unknown option stray" },
		{ { "--vfs" }, "--vfs needs N" },
		{ { "--vfs=0" }, "--vfs: 0 is not between" },
		{ { "--vfs=x" }, "--vfs" },
		{ { "--listen=99" }, "is not ADDRESS:PORT" },
		{ { "--listen=a:99999" }, "there is no port 99999" },
		{ { "--node=A_B" }, "--node: \"A_B\" is no Kubernetes name" },
		{ { "--sector-size=1024" }, "--sector-size: 1024" },
		{ { "--attachment-metadata=x" }, "is not KEY=VALUE" },
		{ { "--namespace", "" }, "--namespace" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct sim_options o;
		struct err err = ERR_INIT;

		ck_assert_int_eq(parse(rows[i].args, &o, &err), -1);
		ck_assert_msg(strstr(err.msg, rows[i].text), "%s: %s", rows[i].args[0], err.msg);
		options_clear(&o);
	}
}
END_TEST

SUITE("sim parse", quantities_are_exact_bytes, what_is_no_quantity_is_refused, selectors_select,
      selectors_that_are_not_understood_are_refused, options_take_both_spellings,
      wrong_options_are_named);
