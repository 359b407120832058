/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of "snap-csi-plugin host". */
#include "test/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "host/args.h"

#define WORDS_MAX 24
#define LINE_MAX_BYTES 200

/* `words` gets the words of the line; the arguments point into it. */
static int parse(struct host_args *a, const char *line, char words[LINE_MAX_BYTES], struct err *err)
{
	char *argv[WORDS_MAX] = { words };
	int argc = 1;

	snprintf(words, LINE_MAX_BYTES, "host %s", line);
	for (char *blank = words; (blank = strchr(blank, ' ')) && blank[1]; blank++) {
		*blank = '\0';
		argv[argc++] = blank + 1;
	}
	return host_args_parse(a, argc, argv, err);
}

static const struct {
	const char *line, *error;
} wrongs[] = {
	{ "", "no command given (expected attach, detach, list, check, watch or resume)" },
	{ "mount", "\"mount\" is not a command" },
	{ "dettach a", "\"dettach\" is not a command; write host detach" },
	{ "attach -f a --read_onyl", "--read_onyl is not an option; write --read-only" },
	{ "attach", "host attach needs a file" },
	{ "attach -f", "-f needs a value: FILE" },
	{ "attach --file= --device", "--file is empty" },
	{ "attach -f a --mount b --device", "--device and --mount exclude each other" },
	{ "attach -f a --fstype xfs", "--fstype, --options and --format need --mount" },
	{ "attach -f a --device --format blank", "--fstype, --options and --format need --mount" },
	{ "attach -f a --encryption luks2", "--encryption and --key-file need each other" },
	{ "attach -f a --key-file k", "--encryption and --key-file need each other" },
	{ "attach -f a --encryption luks1 --key-file k", "--encryption: \"luks1\" is not luks2" },
	{ "attach -f a --mount b --format always", "--format:" },
	{ "attach -f a --mount b --format blank --read-only",
	  "--format and --read-only exclude each other" },
	{ "attach -f a --timeout 0", "--timeout: 0 is not between 1 and 86400 seconds" },
	{ "attach -f a --timeout x", "timeout" },
	{ "attach -f a --nothing", "--nothing is not an option" },
	{ "attach -f a --device=no", "--device takes no value" },
	{ "attach -f a b", "host attach takes no \"b\"" },
	{ "attach -f a -o json", "-o is not an option of host attach" },
	{ "detach", "host detach needs the volume's name, or -f FILE" },
	{ "detach a -f b", "host detach needs the volume's name, or -f FILE" },
	{ "detach a b", "host detach takes no \"b\"" },
	{ "list -o yaml", "-o: \"yaml\"" },
	{ "list a", "host list takes no \"a\"" },
	{ "check a", "host check takes no \"a\"" },
	{ "check --mount a", "--mount is not an option of host check" },
	{ "watch --node a", "host watch needs --kubeconfig FILE" },
	{ "watch --kubeconfig a", "host watch needs --node NAME" },
	{ "watch --kubeconfig a --node A", "\"A\"" },
	{ "watch --kubeconfig a --node a --namespace a/b",
	  "--namespace: \"a/b\" is not a valid namespace name" },
	{ "watch --kubeconfig a --node a -f b", "-f is not an option of host watch" },
	{ "watch --kubeconfig a --node a b", "host watch takes no \"b\"" },
	{ "resume", "host resume needs the volume's name" },
	{ "resume a --timeout 5", "--timeout is not an option of host resume" },
};

START_TEST(a_wrong_line_is_refused)
{
	struct host_args a;
	struct err err = ERR_INIT;
	char copy[LINE_MAX_BYTES];

	ck_assert_msg(parse(&a, wrongs[_i].line, copy, &err) == -1, "%s", wrongs[_i].line);
	ck_assert_msg(strstr(err.msg, wrongs[_i].error) != NULL, "%s: %s", wrongs[_i].line,
	              err.msg);
	ck_assert_int_eq(err.code, ERR_INVALID);
	host_args_clear(&a);
}
END_TEST

START_TEST(values_arrive_in_their_fields)
{
	struct host_args a;
	struct err err = ERR_INIT;
	char copy[LINE_MAX_BYTES];

	ck_assert_int_eq(parse(&a,
	                       "attach -f - --mount=/srv --fstype xfs --options ro,noatime "
	                       "--format blank --timeout 5 --state-dir /s",
	                       copy, &err),
	                 0);
	ck_assert_int_eq(a.command, HOST_ATTACH);
	ck_assert_str_eq(a.file, "-");
	ck_assert_str_eq(a.mount, "/srv");
	ck_assert_str_eq(a.fs_type, "xfs");
	ck_assert_str_eq(a.options, "ro,noatime");
	ck_assert_str_eq(a.format, "blank");
	ck_assert_int_eq(a.timeout_ms, 5000);
	ck_assert_str_eq(a.state_dir, "/s");
	ck_assert_str_eq(a.sysfs, "/sys");
	ck_assert_str_eq(a.vendors.v[0], "15b3");
	host_args_clear(&a);
	ck_assert_int_eq(parse(&a,
	                       "detach data-1 --node-pci-vendor 1af4,15b3 --node-pci-vendor=1b36",
	                       copy, &err),
	                 0);
	ck_assert_str_eq(a.name, "data-1");
	ck_assert_int_eq(a.timeout_ms, 120000);
	ck_assert_uint_eq(a.vendors.n, 3);
	ck_assert_str_eq(a.vendors.v[0], "1af4");
	ck_assert_str_eq(a.vendors.v[1], "15b3");
	ck_assert_str_eq(a.vendors.v[2], "1b36");
	host_args_clear(&a);
	ck_assert_int_eq(parse(&a, "list -o json", copy, &err), 0);
	ck_assert(a.json);
	host_args_clear(&a);
	ck_assert_int_eq(parse(&a, "watch --kubeconfig k --node n --timeout 7", copy, &err), 0);
	ck_assert_str_eq(a.namespace, "dpf-operator-system");
	ck_assert_str_eq(a.config, "");
	ck_assert_str_eq(a.watched, "");
	ck_assert_int_eq(a.timeout_ms, 7000);
	host_args_clear(&a);
	ck_assert_int_eq(parse(&a, "--help", copy, &err), 0);
	ck_assert(a.help);
	host_args_clear(&a);
}
END_TEST

START_TEST(help_says_which_commands_an_option_is_for)
{
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	host_args_print_help(out);
	fclose(out);
	ck_assert(strstr(text, "  -f, --file=FILE (attach, detach, check)\n") != NULL);
	ck_assert(strstr(text, "  -o, --output=json (list)\n") != NULL);
	ck_assert(strstr(text, "  --sysfs-root=DIR\n") != NULL);
	free(text);
}
END_TEST

SUITE("host args", LOOP(a_wrong_line_is_refused, ARRAY_LEN(wrongs)), values_arrive_in_their_fields,
      help_says_which_commands_an_option_is_for);
