/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table of options, from which the parser and the help are made. Says what contradicts; whether
 * a volume, a path or a filesystem is right, the node's rules say later.
 */
#include "host/args.h"

#include <stddef.h>
#include <string.h>

#include "common/cleanup.h"

#define ALL (HOST_ATTACH | HOST_DETACH | HOST_LIST | HOST_CHECK | HOST_WATCH | HOST_RESUME)
#define CHANGES (HOST_ATTACH | HOST_DETACH)

enum option_kind { OPTION_FLAG, OPTION_TEXT, OPTION_SECONDS, OPTION_LIST };

struct option {
	const char *name;
	char letter; /* 0: none */
	unsigned commands;
	enum option_kind kind;
	size_t at;
	const char *otherwise; /* of a text */
	const char *value, *text;
};

#define AT(member) offsetof(struct host_args, member)
static const struct option options[] = {
	{ "file", 'f', CHANGES, OPTION_TEXT, AT(file), "", "FILE",
	  "the DPUVolumeAttachment, YAML or JSON as kubectl get -o prints it; - is standard input" },
	{ "device", 0, HOST_ATTACH, OPTION_FLAG, AT(device), NULL, "",
	  "make the volume available as a disk, /dev/snap-csi/VOLUME; without --mount the default" },
	{ "mount", 0, HOST_ATTACH, OPTION_TEXT, AT(mount), "", "DIR",
	  "mount it at this directory, which is made when it is missing" },
	{ "fstype", 0, HOST_ATTACH, OPTION_TEXT, AT(fs_type), "", "TYPE",
	  "its filesystem: ext4, ext3, xfs or btrfs; without it, the one that is there, or ext4" },
	{ "options", 0, HOST_ATTACH, OPTION_TEXT, AT(options), "", "LIST",
	  "mount options, separated by commas: those of docs/parameters.md, \"Mount options\"" },
	{ "read-only", 0, HOST_ATTACH, OPTION_FLAG, AT(read_only), NULL, "",
	  "write nothing to the volume, also no journal: another host may be writing it" },
	{ "format", 0, HOST_ATTACH, OPTION_TEXT, AT(format), "", "WHEN",
	  "make a filesystem where there is none. blank: only on a disk that is zero where the "
	  "driver looks; unformatted: on any without a known signature. Without it nothing is ever "
	  "formatted" },
	{ "output", 'o', HOST_LIST, OPTION_TEXT, AT(output), "", "json", "print JSON" },
	{ "timeout", 0, CHANGES | HOST_WATCH, OPTION_SECONDS, AT(timeout_ms), "120", "SECONDS",
	  "how long to wait for the device, for a holder, or for another command (120); watch "
	  "tries again afterwards" },
	{ "kubeconfig", 0, HOST_WATCH, OPTION_TEXT, AT(kubeconfig), "", "FILE",
	  "the cluster's API server, and an account that may get, list and watch "
	  "dpuvolumeattachments (manifests/components/host-watch)" },
	{ "node", 0, HOST_WATCH, OPTION_TEXT, AT(node), "", "NAME",
	  "the name of this host's DPUNode: its attachments are followed" },
	{ "namespace", 0, HOST_WATCH, OPTION_TEXT, AT(namespace), "dpf-operator-system", "NAME",
	  "where the attachments are (dpf-operator-system)" },
	{ "config", 0, HOST_WATCH, OPTION_TEXT, AT(config), "", "FILE",
	  "how each volume is made available (/etc/snap-csi/host.yaml, when there is one)" },
	{ "state-dir", 0, ALL, OPTION_TEXT, AT(state_dir), "/run/snap-csi/host", "DIR",
	  "where is recorded what is attached (/run/snap-csi/host)" },
	{ "sysfs-root", 0, ALL, OPTION_TEXT, AT(sysfs), "/sys", "DIR", "where sysfs is (/sys)" },
	{ "dev-root", 0, ALL, OPTION_TEXT, AT(dev), "/dev", "DIR",
	  "where the device nodes are (/dev)" },
	{ "proc-root", 0, ALL, OPTION_TEXT, AT(proc), "/proc", "DIR", "where procfs is (/proc)" },
	{ "node-snap-controller-device-id", 0, ALL, OPTION_TEXT, AT(snap_device_id), "6001", "ID",
	  "PCI device id of the NVMe controllers that the DPU emulates (6001)" },
	{ "node-pci-vendor", 0, ALL, OPTION_LIST, AT(vendors), NULL, "ID,...",
	  "PCI vendors of the DPU (15b3)" },
	{ "node-virtiofs-filesystem-type", 0, ALL, OPTION_TEXT, AT(virtiofs_type), "virtiofs",
	  "TYPE", "filesystem type by which virtio-fs volumes are mounted (virtiofs)" },
	{ "help", 'h', ALL, OPTION_FLAG, AT(help), NULL, "", "print this text" },
};

static const struct {
	const char *word;
	enum host_command command;
	const char *usage, *text;
} commands[] = {
	{ "attach", HOST_ATTACH, "attach -f FILE [--device | --mount DIR [...]]",
	  "makes the volume of the file available on this host, and prints where it is" },
	{ "detach", HOST_DETACH, "detach VOLUME | -f FILE",
	  "takes it away, unless somebody uses it" },
	{ "list", HOST_LIST, "list [-o json]", "what is attached, where, and its health" },
	{ "check", HOST_CHECK, "check", "is this host ready for volumes, and what to do if not" },
	{ "watch", HOST_WATCH, "watch --kubeconfig FILE --node NAME [--config FILE]",
	  "follows the attachments of this host: attaches what is ready, detaches what is deleted" },
	{ "resume", HOST_RESUME, "resume VOLUME",
	  "lets watch attach again what was detached by hand" },
};

static const char *command_word(enum host_command command)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (commands[i].command == command)
			return commands[i].word;
	return "";
}

static void *field(struct host_args *a, const struct option *o)
{
	return (char *)a + o->at;
}

static void add_list(struct strs *list, const char *value)
{
	for (const char *end; *value; value = *end ? end + 1 : end) {
		end = value + strcspn(value, ",");
		strs_addf(list, "%.*s", (int)(end - value), value);
	}
}

static int set(struct host_args *a, const struct option *o, const char *value, struct err *err)
{
	uint64_t seconds;

	switch (o->kind) {
	case OPTION_FLAG:
		*(bool *)field(a, o) = true;
		return 0;
	case OPTION_TEXT:
		*(const char **)field(a, o) = value;
		return 0;
	case OPTION_LIST:
		add_list(field(a, o), value);
		return 0;
	case OPTION_SECONDS:
		break;
	}
	if (parse_u64(o->name, value, &seconds, err))
		return -1;
	if (!seconds || seconds > 86400)
		return err_set(err, ERR_INVALID, "--%s: from 1 to 86400 seconds", o->name);
	*(int64_t *)field(a, o) = (int64_t)seconds * 1000;
	return 0;
}

static int set_defaults(struct host_args *a, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		if (options[i].otherwise && set(a, &options[i], options[i].otherwise, err))
			return -1;
	return 0;
}

/* *ret_value: behind "=", else NULL. */
static const struct option *find_option(const char *arg, const char **ret_value)
{
	const char *name = arg + 2, *equals = strchr(arg, '=');
	size_t n = equals ? (size_t)(equals - name) : strlen(name);

	*ret_value = equals ? equals + 1 : NULL;
	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		const struct option *o = &options[i];

		if (arg[1] == '-' ? strlen(o->name) == n && strncmp(o->name, name, n) == 0
		                  : o->letter && arg[1] == o->letter && !arg[2])
			return o;
	}
	return NULL;
}

/* Reads the option at argv[*i], and moves *i to its last word. */
static int read_option(struct host_args *a, int argc, char *const argv[], int *i, struct err *err)
{
	const char *value, *arg = argv[*i];
	const struct option *o = find_option(arg, &value);

	if (!o)
		return err_set(err, ERR_INVALID, "%s is no option", arg);
	if (a->command && !(o->commands & a->command))
		return err_set(err, ERR_INVALID, "%s is no option of host %s", arg,
		               command_word(a->command));
	if (o->kind == OPTION_FLAG && value)
		return err_set(err, ERR_INVALID, "--%s takes no value", o->name);
	if (o->kind != OPTION_FLAG && !value) {
		if (*i + 1 >= argc)
			return err_set(err, ERR_INVALID, "%s needs a value: %s", arg, o->value);
		value = argv[++*i];
	}
	if (o->kind != OPTION_FLAG && str_empty(value))
		return err_set(err, ERR_INVALID, "--%s is empty", o->name);
	return set(a, o, value, err);
}

static int read_word(struct host_args *a, const char *word, struct err *err)
{
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
	return a->command ? 0 : err_set(err, ERR_INVALID, "\"%s\" is no command", word);
}

int host_args_check_way(const struct host_args *a, struct err *err)
{
	bool mount = !str_empty(a->mount);

	if (mount && a->device)
		return err_set(err, ERR_INVALID, "--device and --mount exclude each other");
	if (!mount && (*a->fs_type || *a->options || *a->format))
		return err_set(err, ERR_INVALID, "--fstype, --options and --format need --mount");
	if (*a->format && !str_eq(a->format, "blank") && !str_eq(a->format, "unformatted"))
		return err_set(err, ERR_INVALID, "--format is blank or unformatted, not \"%s\"",
		               a->format);
	if (*a->format && a->read_only)
		return err_set(err, ERR_INVALID, "--format and --read-only exclude each other");
	return 0;
}

static int check_watch(const struct host_args *a, struct err *err)
{
	if (str_empty(a->kubeconfig))
		return err_set(err, ERR_INVALID, "host watch needs --kubeconfig FILE");
	if (str_empty(a->node))
		return err_set(err, ERR_INVALID,
		               "host watch needs --node NAME, the name of this host's DPUNode");
	if (!dns1123_subdomain(a->node))
		return err_set(err, ERR_INVALID, "--node: no DPUNode can be called \"%s\"",
		               a->node);
	return dns1123_subdomain(a->namespace)
	               ? 0
	               : err_set(err, ERR_INVALID, "--namespace: \"%s\" is no name of one",
	                         a->namespace);
}

static int check(const struct host_args *a, struct err *err)
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
			return err_set(err, ERR_INVALID, "-o is json, not \"%s\"", a->output);
		return 0;
	case HOST_CHECK:
		return 0;
	case HOST_WATCH:
		return check_watch(a, err);
	case HOST_RESUME:
		return str_empty(a->name)
		               ? err_set(err, ERR_INVALID, "host resume needs the volume's name")
		               : 0;
	}
	return err_set(err, ERR_INVALID,
	               "no command: attach, detach, list, check, watch or resume");
}

int host_args_parse(struct host_args *a, int argc, char *const argv[], struct err *err)
{
	*a = (struct host_args) { .name = "", .watched = "", .vendors = STRS_INIT };
	if (set_defaults(a, err))
		return -1;
	for (int i = 1; i < argc; i++)
		if (argv[i][0] == '-' && argv[i][1] ? read_option(a, argc, argv, &i, err)
		                                    : read_word(a, argv[i], err))
			return -1;
	if (!a->vendors.n)
		strs_add(&a->vendors, "15b3");
	a->json = str_eq(a->output, "json");
	return a->help ? 0 : check(a, err);
}

void host_args_clear(struct host_args *a)
{
	strs_clear(&a->vendors);
}

/* Adds " (attach, detach)"; nothing of an option that every command has. */
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
	fputs("Volumes of a DPU on a host without Kubernetes (docs/zero-trust.md).\n\n", out);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		fprintf(out, "  snap-csi-plugin host %s\n      %s\n", commands[i].usage,
		        commands[i].text);
	fputs("\nOptions:\n", out);
	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		const struct option *o = &options[i];

		fputs("  ", out);
		if (o->letter)
			fprintf(out, "-%c, ", o->letter);
		fprintf(out, "--%s%s%s", o->name, *o->value ? "=" : "", o->value);
		list_commands(out, o->commands);
		fprintf(out, "\n      %s\n", o->text);
	}
	fputs("\nExit status: 0 done, 1 failed, 2 the command line cannot be read, "
	      "3 the attachment is not ready yet.\n",
	      out);
}
