/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flags: the forms of the command line, the environment, the forms of an endpoint, and that all
 * errors are reported together.
 */
#include "test/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "flags/flags.h"
#include "flags/flags_priv.h"

#define ARGS_MAX 12

static const char *env_endpoint, *env_kubeconfig;

static char *fake_env(const char *name)
{
	const char *value = str_eq(name, "CSI_ENDPOINT") ? env_endpoint
	                    : str_eq(name, "KUBECONFIG") ? env_kubeconfig
	                                                 : NULL;

	return (char *)(uintptr_t)value;
}

static int parse(struct flags *f, struct flags_report *report, const char *const *args)
{
	char *argv[ARGS_MAX + 2] = { (char *)(uintptr_t) "snap-csi-plugin" };
	int argc = 1;

	while (*args)
		argv[argc++] = (char *)(uintptr_t)*args++;
	return flags_parse(f, argc, argv, fake_env, report);
}

/* All errors, joined by "; ". */
static void check_errors(const char *what, const struct flags_report *report, const char *want)
{
	char *all = strs_join(&report->errors, "; ");

	ck_assert_msg(strcmp(all, want) == 0, "%s:\n got  %s\n want %s", what, all, want);
	free(all);
}

START_TEST(defaults_are_those_of_the_go_plugin)
{
	struct flags f;
	struct flags_report r = FLAGS_REPORT_INIT;

	ck_assert_int_eq(
		parse(&f, &r, (const char *[]) { "--mode=controller", "--namespace=ns", NULL }), 0);
	ck_assert_str_eq(f.name, "csi.snap.nvidia.com");
	ck_assert_str_eq(f.emulation_mode, "nvme");
	ck_assert_str_eq(f.socket_path, "csi.sock");
	ck_assert_str_eq(f.plugin_dir, ".");
	ck_assert_str_eq(f.node_id, "");
	ck_assert_int_eq(f.max_volumes_per_node, 0);
	ck_assert_str_eq(f.snap_device_id, "6001");
	ck_assert(f.nvme_load_driver && f.nvme_create_vfs && f.virtiofs_load_driver);
	ck_assert_str_eq(f.virtiofs_filesystem_type, "virtiofs");
	ck_assert_int_eq(f.verbosity, 0);
	ck_assert_str_eq(f.logging_format, "text");
	ck_assert_int_eq(f.wait_timeout_ms, 110000);
	ck_assert_int_eq(f.socket_mode, 0600);
	ck_assert(f.socket_gid == (gid_t)-1);
	ck_assert_str_eq(f.node_pci_vendors.v[0], "15b3");
	ck_assert(f.controller && !f.node);
	ck_assert_uint_eq(r.warnings.n, 0);
	flags_clear(&f);
	flags_report_clear(&r);
}
END_TEST

static const struct form {
	const char *what;
	const char *args[ARGS_MAX];
	int64_t verbosity;
	bool load;
	const char *text;
} forms[] = {
	{ "nothing given", { NULL }, 0, true, "n" },
	{ "--v=2", { "--v=2" }, 2, true, "n" },
	{ "--v 2", { "--v", "2" }, 2, true, "n" },
	{ "-v=2", { "-v=2" }, 2, true, "n" },
	{ "-v 2", { "-v", "2" }, 2, true, "n" },
	{ "-v2", { "-v2" }, 2, true, "n" },
	{ "-v10", { "-v10" }, 10, true, "n" },
	{ "the last of several counts", { "--v=2", "-v=4" }, 4, true, "n" },
	{ "a boolean without value is true",
	  { "--node-nvme-load-driver=false", "--node-nvme-load-driver" },
	  0,
	  true,
	  "n" },
	{ "--x=false", { "--node-nvme-load-driver=false" }, 0, false, "n" },
	{ "--x=F", { "--node-nvme-load-driver=F" }, 0, false, "n" },
	{ "one dash", { "-node-nvme-load-driver=0" }, 0, false, "n" },
	{ "underscores", { "--node_nvme_load_driver=false" }, 0, false, "n" },
	{ "a value with =", { "--kubeconfig=a=b" }, 0, true, "a=b" },
	{ "a value that looks like a flag", { "--kubeconfig", "--v=3" }, 0, true, "--v=3" },
};

START_TEST(every_form_of_a_flag_is_read)
{
	const struct form *row = &forms[_i];
	const char *args[ARGS_MAX + 4] = { "--mode=node", "--node-id=n", "--kubeconfig=n" };
	struct flags_report r = FLAGS_REPORT_INIT;
	struct flags f;
	int rc;

	memcpy(args + 3, row->args, sizeof(row->args));
	rc = parse(&f, &r, args);
	check_errors(row->what, &r, "");
	ck_assert_msg(rc == 0, "%s: %d", row->what, rc);
	ck_assert_msg(f.verbosity == row->verbosity, "%s: v is %d", row->what, (int)f.verbosity);
	ck_assert_msg(f.nvme_load_driver == row->load, "%s", row->what);
	ck_assert_msg(str_eq(f.kubeconfig, row->text), "%s: %s", row->what, f.kubeconfig);
	flags_clear(&f);
	flags_report_clear(&r);
}
END_TEST

static const struct wrong {
	const char *what;
	const char *args[ARGS_MAX];
	const char *errors;
	bool usage;
} wrongs[] = {
	{ "nothing at all", { NULL }, "--mode is required: controller, node or all", false },
	{ "all at once",
	  { "--mode=node", "--max-volumes-per-node=-1", "--emulation-mode=scsi", "--name=A_b" },
	  "--name: \"A_b\" is not a driver name: at most 63 lower-case letters, digits, '-' and '.'; "
	  "--node-id is required with --mode=node: the name of this Kubernetes node; "
	  "--max-volumes-per-node: -1 is not between 0 and 2147483647; "
	  "--emulation-mode: \"scsi\" is not one of nvme, virtiofs",
	  false },
	{ "the key of a topology has the driver's name, and CSI limits both",
	  { "--mode=node", "--node-id=n", "--topology",
	    "--name=a.driver.whose.name.is.longer.than.a.topology.lets.it.be" },
	  "--topology: --name=a.driver.whose.name.is.longer.than.a.topology.lets.it.be is too long for "
	  "the key of a topology: at most 54 characters",
	  false },
	{ "a node has no token to take a taint off with",
	  { "--mode=node", "--node-id=n", "--startup-taint" },
	  "--startup-taint: --mode=node has no access to the Kubernetes API; set it for the controller",
	  false },
	{ "pages are served at an address",
	  { "--mode=node", "--node-id=n", "--http-endpoint=metrics.example:80" },
	  "--http-endpoint: \"metrics.example:80\" has no numeric address; "
	  "write :9810, 127.0.0.1:9810, [::1]:9810 or unix:/run/snap-csi.http",
	  false },
	{ "mode all needs both",
	  { "--mode=all" },
	  "--namespace is required with --mode=all; "
	  "--node-id is required with --mode=all: the name of this Kubernetes node",
	  false },
	{ "an unknown mode",
	  { "--mode=both" },
	  "--mode: \"both\" is not one of controller, node, all",
	  false },
	{ "an unknown flag",
	  { "--mode=node", "--node-id=n", "--nodeid=m" },
	  "unknown flag --nodeid=m; write --node-id",
	  true },
	{ "an unknown flag and a bad value",
	  { "--mode=node", "--node-id=n", "--frobnicate", "--v=-1" },
	  "unknown flag --frobnicate",
	  true },
	{ "an unknown flag, perhaps the mode",
	  { "--mod=node", "--node-id=n" },
	  "unknown flag --mod=node; write --mode",
	  true },
	{ "an unknown command",
	  { "attach", "--mode=node" },
	  "\"attach\" is not a command; the commands are host, inspect, log-level, help, version "
	  "(--help)",
	  true },
	{ "an unknown command alone",
	  { "hots", "watch" },
	  "\"hots\" is not a command; write host",
	  true },
	{ "a command without a letter, and its words",
	  { "inspct", "claim", "ns/a" },
	  "\"inspct\" is not a command; write inspect",
	  true },
	{ "a command in capitals",
	  { "VERSION" },
	  "\"VERSION\" is not a command; write version",
	  true },
	{ "a command behind a flag",
	  { "--v=2", "inspect" },
	  "\"inspect\" follows a flag; write the command first",
	  true },
	{ "an unknown flag with its value, in place of a required one",
	  { "--mode=node", "--node-ids", "n" },
	  "unknown flag --node-ids; write --node-id",
	  true },
	{ "an unknown flag with underscores",
	  { "--mode=node", "--bind_adress=unix:///a" },
	  "unknown flag --bind_adress=unix:///a; write --bind-address",
	  true },
	{ "an unknown mode, which may have been that of the other flags",
	  { "--mode=nod", "--node-id=n", "--kubelet-registration-path=/a", "--controlled-mode",
	    "--startup-taint" },
	  "--mode: \"nod\" is not one of controller, node, all",
	  false },
	{ "no mode, and flags of one",
	  { "--kubelet-registration-path=/a", "--controlled-mode", "--startup-taint" },
	  "--mode is required: controller, node or all",
	  false },
	{ "a probe apart from its value",
	  { "--probe", "registered" },
	  "unexpected argument \"registered\"; write --probe=registered",
	  true },
	{ "a time to wait that is no time",
	  { "--pre-stop=ten" },
	  "--pre-stop: \"ten\" is not a time like 110s or 1m30s",
	  true },
	{ "help by a value that is no boolean",
	  { "--help=me" },
	  "--help: \"me\" is not true or false",
	  true },
	{ "a probe of something else, without a mode",
	  { "--probe=live" },
	  "--probe: \"live\" is not a probe; write --probe or --probe=registered",
	  false },
	{ "a word for a boolean",
	  { "--mode=node", "--node-id=n", "--topology=maybe" },
	  "--topology: \"maybe\" is not true or false",
	  false },
	{ "no value", { "--mode=node", "--node-id" }, "--node-id needs a value", true },
	{ "a boolean and a word",
	  { "--mode=node", "--node-id=n", "--node-nvme-load-driver", "false" },
	  "unexpected argument \"false\"; write --node-nvme-load-driver=false",
	  true },
	{ "not a number",
	  { "--mode=node", "--node-id=n", "--max-volumes-per-node=4x" },
	  NULL,
	  false },
	{ "not a boolean",
	  { "--mode=node", "--node-id=n", "--node-nvme-load-driver=yes" },
	  "--node-nvme-load-driver: \"yes\" is not true or false",
	  false },
	{ "not a time",
	  { "--mode=controller", "--namespace=n", "--wait-timeout=110" },
	  "--wait-timeout: \"110\" is not a time like 110s or 1m30s",
	  false },
	{ "no time at all",
	  { "--mode=controller", "--namespace=n", "--wait-timeout=10ms" },
	  "--wait-timeout: 10ms is too short (expected at least 1s)",
	  false },
	{ "a probe of something else",
	  { "--mode=node", "--node-id=n", "--probe=liveness" },
	  "--probe: \"liveness\" is not a probe; write --probe or --probe=registered",
	  false },
	{ "not octal",
	  { "--mode=node", "--node-id=n", "--socket-mode=0690" },
	  "--socket-mode: \"0690\" is not an octal number like 0660",
	  false },
	{ "setuid sockets",
	  { "--mode=node", "--node-id=n", "--socket-mode=4600" },
	  "--socket-mode: 4600 has more than permission bits",
	  false },
	{ "negative qps",
	  { "--mode=controller", "--namespace=n", "--kube-api-qps=-1" },
	  "--kube-api-qps: \"-1\" is not a number of 0 or more",
	  false },
	{ "an unexpanded variable",
	  { "--mode=node", "--node-id=$(NODE_NAME)" },
	  "--node-id: \"$(NODE_NAME)\" was not replaced: the container has no such environment variable",
	  false },
	{ "a node's name in capitals",
	  { "--mode=node", "--node-id=HOST1" },
	  "--node-id: \"HOST1\" is not the name of a Kubernetes node: at most 253 lower-case letters, digits, '-' and '.'",
	  false },
	{ "a line end in a node's name",
	  { "--mode=node", "--node-id=n1\n" },
	  "--node-id: \"n1\n\" is not the name of a Kubernetes node: at most 253 lower-case letters, digits, '-' and '.'",
	  false },
	{ "a slash in a node's name",
	  { "--mode=node", "--node-id=a/b" },
	  "--node-id: \"a/b\" is not the name of a Kubernetes node: at most 253 lower-case letters, digits, '-' and '.'",
	  false },
	{ "a dash at the end of a node's name",
	  { "--mode=node", "--node-id=n1-" },
	  "--node-id: \"n1-\" is not the name of a Kubernetes node: at most 253 lower-case letters, digits, '-' and '.'",
	  false },
	{ "a shell's variable",
	  { "--mode=all", "--namespace=x", "--node-id=${NODE_NAME}" },
	  "--node-id: \"${NODE_NAME}\" was not replaced: the container has no such environment variable",
	  false },
	{ "a namespace that would leave its place in a URL",
	  { "--mode=controller", "--namespace=../x" },
	  "--namespace: \"../x\" is not the name of a namespace",
	  false },
	{ "no device id",
	  { "--mode=node", "--node-id=n", "--node-snap-controller-device-id=" },
	  "--node-snap-controller-device-id: \"\" is not four lower-case hex digits like 6001",
	  false },
	{ "no filesystem type",
	  { "--mode=node", "--node-id=n", "--node-virtiofs-filesystem-type=" },
	  "--node-virtiofs-filesystem-type is empty; the default is virtiofs",
	  false },
	{ "vendors",
	  { "--mode=node", "--node-id=n", "--node-pci-vendor=15b3,0x1b36" },
	  "--node-pci-vendor: \"0x1b36\" is not four lower-case hex digits like 15b3",
	  false },
	{ "a relative path of the socket",
	  { "--mode=node", "--node-id=n", "--kubelet-registration-path=csi.sock" },
	  "--kubelet-registration-path: \"csi.sock\" is not an absolute path",
	  false },
	{ "only a node is registered with kubelet",
	  { "--mode=controller", "--namespace=n", "--kubelet-registration-path=/csi.sock" },
	  "--kubelet-registration-path: --mode=controller serves no node to register",
	  false },
	{ "a gate without a node",
	  { "--mode=controller", "--namespace=n", "--controlled-mode" },
	  "--controlled-mode: --mode=controller serves no node",
	  false },
	{ "a relative path of the gate",
	  { "--mode=node", "--node-id=n", "--controlled-mode", "--control-socket=gate.sock" },
	  "--control-socket: \"gate.sock\" is not an absolute path",
	  false },
	{ "the CSI socket as the gate",
	  { "--mode=node", "--node-id=n", "--controlled-mode", "--control-socket=/c.sock",
	    "--bind-address=unix:///c.sock" },
	  "--control-socket: /c.sock is already the CSI socket (--bind-address)",
	  false },
	{ "nothing is ever formatted",
	  { "--mode=node", "--node-id=n", "--max-concurrent-formats=0" },
	  "--max-concurrent-formats: 0 is not between 1 and 64",
	  false },
	{ "no burst",
	  { "--mode=controller", "--namespace=n", "--kube-api-burst=0" },
	  "--kube-api-burst: 0 is not between 1 and 1000000",
	  false },
	{ "a relative root",
	  { "--mode=node", "--node-id=n", "--sysfs-root=sys" },
	  "--sysfs-root: \"sys\" is not an absolute path",
	  false },
	{ "a relative kubelet directory",
	  { "--mode=node", "--node-id=n", "--kubelet-dir=kubelet" },
	  "--kubelet-dir: \"kubelet\" is not an absolute path",
	  false },
	{ "a relative directory of volumes",
	  { "--mode=node", "--node-id=n", "--volume-dir=/a,b" },
	  "--volume-dir: \"b\" is not an absolute path",
	  false },
	{ "a format of log",
	  { "--mode=node", "--node-id=n", "--logging-format=xml" },
	  "--logging-format: \"xml\" is not one of text, json",
	  false },
	{ "a group that is not there",
	  { "--mode=node", "--node-id=n", "--socket-group=no-such-group" },
	  "--socket-group: there is no group \"no-such-group\"",
	  false },
	{ "tcp",
	  { "--mode=node", "--node-id=n", "--bind-address=tcp://0.0.0.0:1" },
	  "--bind-address (CSI_ENDPOINT): \"tcp://0.0.0.0:1\": tcp is not served, because every host on the network could then mount and delete volumes; use unix:///csi/csi.sock",
	  false },
};

START_TEST(all_that_is_wrong_is_said_at_once)
{
	const struct wrong *row = &wrongs[_i];
	struct flags f;
	struct flags_report r = FLAGS_REPORT_INIT;

	ck_assert_msg(parse(&f, &r, row->args) == -1, "%s: no error", row->what);
	if (row->errors)
		check_errors(row->what, &r, row->errors);
	ck_assert_uint_ge(r.errors.n, 1);
	ck_assert_msg(r.usage == row->usage, "%s: usage is %d", row->what, r.usage);
	flags_clear(&f);
	flags_report_clear(&r);
}
END_TEST

static const struct endpoint {
	const char *url, *path;
} endpoints[] = {
	{ "unix:///csi/csi.sock", "/csi/csi.sock" },
	{ "unix://csi/csi.sock", "csi/csi.sock" },
	{ "unix://csi.sock", "csi.sock" },
	{ "unix:/csi/csi.sock", "/csi/csi.sock" },
	{ "unix://localhost/var/x", "localhost/var/x" },
	{ "unix://", NULL },
	{ "unix:///", NULL },
	{ "unix:csi.sock", NULL },
	{ "/csi/csi.sock", NULL },
	{ "csi.sock", NULL },
	{ "http://x/csi.sock", NULL },
	{ "unix://user@csi/csi.sock", NULL },
	{ "unix:///csi/csi.sock#x", NULL },
	{ "unix:///csi/%2fcsi.sock", NULL },
	{ "tcp://127.0.0.1:1", NULL },
	{ "unix:///csi/csi.sock?x=1", NULL },
	{ "", NULL },
	{ "unix:///"
	  "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567"
	  "8901234567890123456789",
	  NULL },
};

START_TEST(endpoints_are_host_part_and_path_part)
{
	const struct endpoint *row = &endpoints[_i];
	struct err err = ERR_INIT;
	char *path = NULL;
	int rc = flags_endpoint_path(row->url, &path, &err);

	ck_assert_msg(rc == (row->path ? 0 : -1), "%s: %d %s", row->url, rc, err.msg);
	if (row->path)
		ck_assert_str_eq(path, row->path);
	free(path);
}
END_TEST

START_TEST(a_flag_beats_the_environment)
{
	static const struct {
		const char *what, *flag, *env, *path;
	} rows[] = {
		{ "neither", NULL, NULL, "csi.sock" },
		{ "environment", NULL, "unix:///e/s", "/e/s" },
		{ "flag", "--bind-address=unix:///f/s", NULL, "/f/s" },
		{ "both", "--bind-address=unix:///f/s", "unix:///e/s", "/f/s" },
		{ "flag with the default's value", "--bind-address=unix://csi.sock", "unix:///e/s",
		  "csi.sock" },
		{ "empty environment", NULL, "", "csi.sock" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct flags f;
		struct flags_report r = FLAGS_REPORT_INIT;
		const char *args[] = { "--mode=node", "--node-id=n", rows[i].flag, NULL };

		env_endpoint = rows[i].env;
		ck_assert_int_eq(parse(&f, &r, args), 0);
		ck_assert_msg(str_eq(f.socket_path, rows[i].path), "%s: %s", rows[i].what,
		              f.socket_path);
		flags_clear(&f);
		flags_report_clear(&r);
	}
	env_endpoint = NULL;
}
END_TEST

START_TEST(kubeconfig_comes_from_the_environment_too)
{
	struct flags f;
	struct flags_report r = FLAGS_REPORT_INIT;

	env_kubeconfig = "/env";
	ck_assert_int_eq(
		parse(&f, &r, (const char *[]) { "--mode=controller", "--namespace=n", NULL }), 0);
	ck_assert_str_eq(f.kubeconfig, "/env");
	flags_clear(&f);
	ck_assert_int_eq(parse(&f, &r,
	                       (const char *[]) { "--mode=controller", "--namespace=n",
	                                          "--kubeconfig=/flag", NULL }),
	                 0);
	ck_assert_str_eq(f.kubeconfig, "/flag");
	flags_clear(&f);
	flags_report_clear(&r);
	env_kubeconfig = NULL;
}
END_TEST

START_TEST(flags_without_effect_are_named_in_one_warning)
{
	struct flags f;
	struct flags_report r = FLAGS_REPORT_INIT;

	ck_assert_int_eq(
		parse(&f, &r,
	              (const char *[]) { "--mode=node", "--node-id=n", "--log-flush-frequency=5s",
	                                 "--log-text-split-stream", "--vmodule", "a=1",
	                                 "--feature-gates=A=true", "--vmodule=b=2",
	                                 "--logtostderr=true", NULL }),
		0);
	ck_assert_uint_eq(r.warnings.n, 1);
	ck_assert_str_eq(r.warnings.v[0],
	                 "flags without effect in this driver: --log-flush-frequency "
	                 "--log-text-split-stream --vmodule --feature-gates --logtostderr");
	flags_clear(&f);
	flags_report_clear(&r);
}
END_TEST

START_TEST(times_and_lists_are_read)
{
	struct flags f;
	struct flags_report r = FLAGS_REPORT_INIT;

	ck_assert_int_eq(
		parse(&f, &r,
	              (const char *[]) { "--mode=all", "--node-id=n", "--namespace=ns",
	                                 "--wait-timeout=1m30.5s", "--node-pci-vendor=1b36",
	                                 "--node-pci-vendor=15b3,1af4", "--socket-mode=660",
	                                 "--socket-group=0", "--kube-api-qps=2.5",
	                                 "--bind-address=unix:///csi.sock", NULL }),
		0);
	ck_assert_int_eq(f.wait_timeout_ms, 90500);
	ck_assert_uint_eq(f.node_pci_vendors.n, 3);
	ck_assert_str_eq(f.node_pci_vendors.v[0], "1b36");
	ck_assert_str_eq(f.node_pci_vendors.v[2], "1af4");
	ck_assert_int_eq(f.socket_mode, 0660);
	ck_assert_uint_eq(f.socket_gid, 0);
	ck_assert(f.kube_api_qps > 2.4 && f.kube_api_qps < 2.6);
	ck_assert_str_eq(f.plugin_dir, "/");
	ck_assert(f.controller && f.node);
	flags_clear(&f);
	flags_report_clear(&r);
}
END_TEST

START_TEST(help_and_version_ask_for_nothing_else)
{
	static const char *const asks[] = { "--help",    "-h",       "-help",
		                            "--version", "-version", "--help=true" };

	for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
		struct flags f;
		struct flags_report r = FLAGS_REPORT_INIT;

		ck_assert_msg(parse(&f, &r, (const char *[]) { "--mode=x", asks[i], NULL }) == 0,
		              "%s", asks[i]);
		ck_assert_msg(f.help || f.version, "%s", asks[i]);
		flags_clear(&f);
		flags_report_clear(&r);
	}
}
END_TEST

static char *printed(void (*print)(FILE *out))
{
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	print(out);
	fclose(out);
	return text;
}

START_TEST(the_end_of_a_pod_needs_directories_and_nothing_else)
{
	struct flags_report r = FLAGS_REPORT_INIT;
	struct flags f;

	ck_assert_int_eq(parse(&f, &r, (const char *[]) { "--pre-stop=30s", NULL }), 0);
	ck_assert_int_eq(f.question, ASK_PRE_STOP);
	ck_assert_int_eq(f.pre_stop_ms, 30000);
	flags_report_clear(&r);
	flags_clear(&f);
	r = (struct flags_report)FLAGS_REPORT_INIT;
	ck_assert_int_eq(
		parse(&f, &r, (const char *[]) { "--pre-stop=30s", "--kubelet-dir=here", NULL }),
		-1);
	ck_assert_str_eq(r.errors.v[0], "--kubelet-dir: \"here\" is not an absolute path");
	flags_report_clear(&r);
	flags_clear(&f);
}
END_TEST

/* pre-stop, the driver and inspect compare it with mountinfo. */
START_TEST(kubelets_directory_is_spelled_as_the_mount_table_does)
{
	static const char *const rows[] = { "--kubelet-dir=/proc//self/..//sys/",
		                            "--kubelet-dir=/proc/./sys",
		                            "--kubelet-dir=/proc/sys" };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct flags f;
		struct flags_report r = FLAGS_REPORT_INIT;

		ck_assert_int_eq(
			parse(&f, &r, (const char *[]) { "--pre-stop=30s", rows[i], NULL }), 0);
		ck_assert_str_eq(f.kubelet_dir, "/proc/sys");
		flags_clear(&f);
	}
}
END_TEST

START_TEST(a_probe_needs_an_endpoint_and_nothing_else)
{
	struct flags f;
	struct flags_report r = FLAGS_REPORT_INIT;

	ck_assert_int_eq(
		parse(&f, &r,
	              (const char *[]) { "--probe", "--bind-address=unix://csi/csi.sock", NULL }),
		0);
	ck_assert_int_eq(f.question, ASK_READY);
	ck_assert_str_eq(f.socket_path, "csi/csi.sock");
	flags_clear(&f);
	ck_assert_int_eq(parse(&f, &r,
	                       (const char *[]) { "--probe=registered",
	                                          "--bind-address=unix://csi.sock", NULL }),
	                 0);
	ck_assert_int_eq(f.question, ASK_REGISTERED);
	flags_clear(&f);
	ck_assert_int_eq(
		parse(&f, &r, (const char *[]) { "--probe", "--bind-address=/csi.sock", NULL }),
		-1);
	check_errors(
		"an endpoint that is none", &r,
		"--bind-address (CSI_ENDPOINT): \"/csi.sock\" has no scheme; write unix:///csi.sock");
	flags_clear(&f);
	flags_report_clear(&r);
}
END_TEST

START_TEST(help_names_every_flag_within_100_columns)
{
	char *text = printed(flags_print_help), *table = printed(flags_print_markdown);
	size_t n;
	const struct option_row *rows = flag_rows(&n);

	for (size_t i = 0; i < n; i++) {
		char flag[100], cell[100];

		if (rows[i].kind == OPTION_GROUP)
			continue;
		snprintf(flag, sizeof(flag), "--%s", rows[i].name);
		snprintf(cell, sizeof(cell), rows[i].ignored ? "--%s" : "| `--%s` |", rows[i].name);
		ck_assert_msg(strstr(text, flag), "%s is not in --help", flag);
		ck_assert_msg(strstr(table, cell), "%s is not in the table", flag);
	}
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
		ck_assert_msg(strcspn(line, "\n") <= 100, "too wide: %.120s", line);
	free(text);
	free(table);
}
END_TEST

SUITE("flags", defaults_are_those_of_the_go_plugin,
      LOOP(every_form_of_a_flag_is_read, ARRAY_LEN(forms)),
      LOOP(all_that_is_wrong_is_said_at_once, ARRAY_LEN(wrongs)),
      LOOP(endpoints_are_host_part_and_path_part, ARRAY_LEN(endpoints)),
      a_flag_beats_the_environment, kubeconfig_comes_from_the_environment_too,
      flags_without_effect_are_named_in_one_warning, times_and_lists_are_read,
      help_and_version_ask_for_nothing_else, the_end_of_a_pod_needs_directories_and_nothing_else,
      kubelets_directory_is_spelled_as_the_mount_table_does,
      a_probe_needs_an_endpoint_and_nothing_else, help_names_every_flag_within_100_columns);
