/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table defines the options for the parser (common/option_table.h) and the help. Reports
 * options that contradict each other; volumes, paths and filesystems are checked later by the
 * node's rules.
 */
#include "host/args.h"

#include <stddef.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/option_table.h"

#define ALL (HOST_ATTACH | HOST_DETACH | HOST_LIST | HOST_CHECK | HOST_WATCH | HOST_RESUME)
#define CHANGES (HOST_ATTACH | HOST_DETACH)

#define OPTION(name_, letter_, commands_, kind_, field_, default__, value_, text_)     \
	{                                                                              \
		.kind = OPTION_##kind_, .name = (name_), .letter = (letter_),          \
		.commands = (commands_), .offset = offsetof(struct host_args, field_), \
		.default_ = (default__), .value = (value_), .text = (text_)            \
	}
static const struct option_row options[] = {
	OPTION("file", 'f', CHANGES | HOST_CHECK, STRING, file, "", "FILE",
	       "the DPUVolumeAttachment, YAML or JSON as kubectl get -o prints it; - is standard input"),
	OPTION("device", 0, HOST_ATTACH, SWITCH, device, NULL, "",
	       "make the volume available as a disk, /dev/snap-csi/VOLUME (a key/value namespace: as its character device); without --mount the default"),
	OPTION("mount", 0, HOST_ATTACH, STRING, mount, "", "DIR",
	       "mount it at this directory, which is created if missing"),
	OPTION("fstype", 0, HOST_ATTACH, STRING, fs_type, "", "TYPE",
	       "its filesystem: ext4, ext3, xfs or btrfs; default: the existing one, or ext4"),
	OPTION("options", 0, HOST_ATTACH, STRING, options, "", "LIST",
	       "mount options, separated by commas: those of docs/reference/parameters.md, \"Mount options\""),
	OPTION("read-only", 0, HOST_ATTACH, SWITCH, read_only, NULL, "",
	       "write nothing to the volume, not even its journal: another host may be writing "
	       "to it"),
	OPTION("format", 0, HOST_ATTACH, STRING, format, "", "WHEN",
	       "create a filesystem on a disk without one. blank: only if the areas that the "
	       "driver checks are zero; unformatted: on any disk without a known signature. "
	       "Without this option, nothing is ever formatted"),
	OPTION("encryption", 0, HOST_ATTACH, STRING, encryption, "", "luks2",
	       "the disk has, or with --format gets, a LUKS2 container of this driver, which is "
	       "opened with the passphrase of --key-file"),
	OPTION("key-file", 0, HOST_ATTACH, STRING, key_file, "", "FILE",
	       "the passphrase of --encryption, without the newline at the end of the file, which "
	       "no other user may read"),
	OPTION("output", 'o', HOST_LIST, STRING, output, "", "json", "print JSON"),
	OPTION("timeout", 0, CHANGES | HOST_WATCH, SECONDS, timeout_ms, "120", "SECONDS",
	       "how long to wait for the device, for a holder, or for another command (120); "
	       "watch retries afterwards"),
	OPTION("kubeconfig", 0, HOST_WATCH, STRING, kubeconfig, "", "FILE",
	       "the cluster's API server, and an account that may get, list and watch "
	       "dpuvolumeattachments (manifests/components/host-watch)"),
	OPTION("node", 0, HOST_WATCH, STRING, node, "", "NAME",
	       "the name of this host's DPUNode: its attachments are followed"),
	OPTION("namespace", 0, HOST_WATCH, STRING, namespace, "dpf-operator-system", "NAME",
	       "namespace of the attachments (dpf-operator-system)"),
	OPTION("config", 0, HOST_WATCH, STRING, config, "", "FILE",
	       "how each volume is made available (/etc/snap-csi/host.yaml, if it exists)"),
	OPTION("state-dir", 0, ALL, STRING, state_dir, "/run/snap-csi/host", "DIR",
	       "directory of the records of attached volumes (/run/snap-csi/host)"),
	OPTION("sysfs-root", 0, ALL, STRING, sysfs, "/sys", "DIR", "where sysfs is (/sys)"),
	OPTION("dev-root", 0, ALL, STRING, dev, "/dev", "DIR", "where the device nodes are (/dev)"),
	OPTION("proc-root", 0, ALL, STRING, proc, "/proc", "DIR", "where procfs is (/proc)"),
	OPTION("node-snap-controller-device-id", 0, ALL, STRING, snap_device_id, "6001", "ID",
	       "PCI device id of the NVMe controllers that the DPU emulates (6001)"),
	OPTION("node-pci-vendor", 0, ALL, LIST, vendors, NULL, "ID,...",
	       "PCI vendors of the DPU (15b3)"),
	OPTION("node-virtiofs-filesystem-type", 0, ALL, STRING, virtiofs_type, "virtiofs", "TYPE",
	       "filesystem type by which virtio-fs volumes are mounted (virtiofs)"),
	OPTION("help", 'h', ALL, SWITCH, help, NULL, "", "print this text"),
};

static const struct {
	const char *word;
	enum host_command command;
	const char *usage, *text;
} commands[] = {
	{ "attach", HOST_ATTACH, "attach -f FILE [--device | --mount DIR [...]]",
	  "makes the volume of the file available on this host, and prints its path" },
	{ "detach", HOST_DETACH, "detach VOLUME | -f FILE",
	  "detaches the volume, unless it is in use" },
	{ "list", HOST_LIST, "list [-o json]", "attached volumes with their paths and health" },
	{ "check", HOST_CHECK, "check [-f FILE]",
	  "checks whether this host is ready for volumes, or has the function of the file's "
	  "attachment, and prints next steps" },
	{ "watch", HOST_WATCH, "watch --kubeconfig FILE --node NAME [--config FILE]",
	  "follows the attachments of this host: attaches ready ones, detaches deleted ones" },
	{ "resume", HOST_RESUME, "resume VOLUME",
	  "allows watch to attach a volume again that was detached by hand" },
};

static const char *command_word(enum host_command command)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (commands[i].command == command)
			return commands[i].word;
	return "";
}

static int args_read_option(struct host_args *a, struct option_table *t, struct err *err)
{
	struct option_arg arg;
	int rc = option_next(t, &arg);

	if (rc == OPTION_UNKNOWN) {
		const struct option_row *meant = option_meant(t, arg.word);

		return err_set(err, ERR_INVALID, "%s is not an option%s%s", arg.word,
		               meant ? "; write --" : "", meant ? meant->name : "");
	}
	if (a->command && !(arg.row->commands & a->command))
		return err_set(err, ERR_INVALID, "%s is not an option of host %s", arg.word,
		               command_word(a->command));
	if (rc == OPTION_EXTRA_VALUE)
		return err_set(err, ERR_INVALID, "--%s takes no value", arg.row->name);
	if (rc == OPTION_NO_VALUE)
		return err_set(err, ERR_INVALID, "%s needs a value: %s", arg.word, arg.row->value);
	if (arg.row->kind != OPTION_SWITCH && str_empty(arg.value))
		return err_set(err, ERR_INVALID, "--%s is empty", arg.row->name);
	return option_store(t, arg.row, arg.value, err);
}

static int args_read_word(struct host_args *a, const char *word, struct err *err)
{
	const char *meant = "";

	if ((a->command == HOST_DETACH || a->command == HOST_RESUME) && str_empty(a->name)) {
		a->name = word;
		return 0;
	}
	if (a->command)
		return err_set(err, ERR_INVALID, "host %s takes no \"%s\"",
		               command_word(a->command), word);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (str_eq(commands[i].word, word))
			a->command = commands[i].command;
		else if (str_resembles(word, commands[i].word))
			meant = commands[i].word;
	return a->command ? 0
	                  : err_set(err, ERR_INVALID, "\"%s\" is not a command%s%s", word,
	                            *meant ? "; write host " : "", meant);
}

int host_args_check_way(const struct host_args *a, struct err *err)
{
	bool mount = !str_empty(a->mount), encrypted = !str_empty(a->encryption);

	if (mount && a->device)
		return err_set(err, ERR_INVALID, "--device and --mount exclude each other");
	if (!mount && (*a->fs_type || *a->options || (*a->format && !encrypted)))
		return err_set(err, ERR_INVALID, "--fstype, --options and --format need --mount");
	if (encrypted == str_empty(a->key_file))
		return err_set(err, ERR_INVALID, "--encryption and --key-file need each other");
	if (encrypted && !str_eq(a->encryption, "luks2"))
		return err_set(err, ERR_INVALID, "--encryption: \"%s\" is not luks2",
		               a->encryption);
	if (*a->format && !str_eq(a->format, "blank") && !str_eq(a->format, "unformatted"))
		return err_set(err, ERR_INVALID,
		               "--format: \"%s\" is neither blank nor "
		               "unformatted",
		               a->format);
	if (*a->format && a->read_only)
		return err_set(err, ERR_INVALID, "--format and --read-only exclude each other");
	return 0;
}

static int args_check_watch(const struct host_args *a, struct err *err)
{
	if (str_empty(a->kubeconfig))
		return err_set(err, ERR_INVALID, "host watch needs --kubeconfig FILE");
	if (str_empty(a->node))
		return err_set(err, ERR_INVALID,
		               "host watch needs --node NAME, the name of this host's DPUNode");
	if (!dns1123_subdomain(a->node))
		return err_set(err, ERR_INVALID, "--node: \"%s\" is not a valid name of a DPUNode",
		               a->node);
	return dns1123_subdomain(a->namespace)
	               ? 0
	               : err_set(err, ERR_INVALID,
	                         "--namespace: \"%s\" is not a valid namespace "
	                         "name",
	                         a->namespace);
}

static int args_check(const struct host_args *a, struct err *err)
{
	switch (a->command) {
	case HOST_ATTACH:
		if (str_empty(a->file))
			return err_set(err, ERR_INVALID,
			               "host attach needs a file: -f FILE, or -f -");
		return host_args_check_way(a, err);
	case HOST_DETACH:
		if (str_empty(a->name) == str_empty(a->file))
			return err_set(err, ERR_INVALID,
			               "host detach needs the volume's name, or -f FILE");
		return 0;
	case HOST_LIST:
		if (*a->output && !str_eq(a->output, "json"))
			return err_set(err, ERR_INVALID, "-o: \"%s\" is not json", a->output);
		return 0;
	case HOST_CHECK:
		return 0;
	case HOST_WATCH:
		return args_check_watch(a, err);
	case HOST_RESUME:
		return str_empty(a->name)
		               ? err_set(err, ERR_INVALID, "host resume needs the volume's name")
		               : 0;
	}
	return err_set(err, ERR_INVALID,
	               "no command given (expected attach, detach, list, check, watch or resume)");
}

int host_args_parse(struct host_args *a, int argc, char *const argv[], struct err *err)
{
	struct option_table t = {
		.rows = options, .n = ARRAY_LEN(options), .fields = a, .argv = argv + (argc > 0)
	};

	*a = (struct host_args) { .name = "", .watched = "", .vendors = STRS_INIT };
	option_defaults(&t);
	while (*t.argv)
		if ((*t.argv)[0] == '-' && (*t.argv)[1] ? args_read_option(a, &t, err)
		                                        : args_read_word(a, *t.argv++, err))
			return -1;
	if (!a->vendors.n)
		strs_add(&a->vendors, "15b3");
	a->json = str_eq(a->output, "json");
	return a->help ? 0 : args_check(a, err);
}

void host_args_clear(struct host_args *a)
{
	strs_clear(&a->vendors);
}

/*
 * Prints the commands of an option, " (attach, detach)", or nothing for an option of all commands.
 */
static void list_commands(FILE *out, unsigned mask)
{
	const char *between = " (";

	if (mask == ALL)
		return;
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (mask & commands[i].command) {
			fprintf(out, "%s%s", between, commands[i].word);
			between = ", ";
		}
	fputs(")", out);
}

void host_args_print_help(FILE *out)
{
	fputs("Volumes of a DPU on a host without Kubernetes (docs/hosts/zero-trust.md).\n\n", out);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		fprintf(out, "  snap-csi-plugin host %s\n      %s\n", commands[i].usage,
		        commands[i].text);
	fputs("\nOptions:\n", out);
	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		const struct option_row *o = &options[i];

		fputs("  ", out);
		if (o->letter)
			fprintf(out, "-%c, ", o->letter);
		fprintf(out, "--%s%s%s", o->name, *o->value ? "=" : "", o->value);
		list_commands(out, o->commands);
		fprintf(out, "\n      %s\n", o->text);
	}
	fputs("\nExit status: 0 done, 1 failed, 2 invalid command line, 3 the attachment is not "
	      "ready yet.\n",
	      out);
}
