/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of inspect: its own words, and around them flags of the driver. The words that
 * the flags borrow from live in the options.
 */
#include <string.h>

#include "common/mem.h"
#include "inspect/inspect.h"

/* Where the driver records what runs, when no flag says so: as in the manifests. */
#define PLUGIN_DIR "/var/lib/kubelet/plugins/csi.snap.nvidia.com"

/* What is left of the command line, and where its parts go. */
struct words {
	char *const *argv;
	struct inspect_options *o;
	struct strs flags; /* of the driver */
	struct strs *errors;
	const char *pid, *proc_root;
	bool has_mode;
};

/* "--name=value", or "--name" with the value apart. NULL: it is another flag. */
static const char *value_of(struct words *w, const char *arg, const char *name)
{
	size_t n = strlen(name);

	if (strncmp(arg, name, n) != 0 || (arg[n] != '\0' && arg[n] != '='))
		return NULL;
	if (arg[n] == '=')
		return arg + n + 1;
	if (*w->argv)
		return *w->argv++;
	strs_addf(w->errors, "%s needs a value", name);
	return "";
}

static void take_format(struct words *w, const char *format)
{
	w->o->json = str_eq(format, "json");
	if (!w->o->json && !str_eq(format, "table") && *format)
		strs_addf(w->errors, "-o %s: is neither json nor table", format);
}

/* One of inspect's own; false: it is the driver's. */
static bool take_own(struct words *w, const char *arg)
{
	const char *value;

	if (str_eq(arg, "--help") || str_eq(arg, "-h"))
		w->o->help = true;
	else if ((value = value_of(w, arg, "-o")) || (value = value_of(w, arg, "--output")))
		take_format(w, value);
	else if ((value = value_of(w, arg, "--bundle")))
		w->o->bundle = value;
	else if ((value = value_of(w, arg, "--node-report")))
		strs_add(&w->o->node_reports, value);
	else if ((value = value_of(w, arg, "--pid")))
		w->pid = value;
	else
		return false;
	return true;
}

static void take_flag(struct words *w, const char *arg)
{
	const char *value;

	strs_add(&w->flags, arg);
	if (str_has_prefix(arg, "--mode"))
		w->has_mode = true;
	if (str_has_prefix(arg, "--proc-root=")) {
		value = strchr(arg, '=');
		w->proc_root = value + 1;
	}
	/* A value that stands apart is no word of ours; booleans are given with "=" here. */
	if (!strchr(arg, '=') && *w->argv && **w->argv != '-')
		strs_add(&w->flags, *w->argv++);
}

/* "volume ID", "node", or nothing. */
static void take_subject(struct words *w, const char *word)
{
	if (str_eq(word, "node") && !w->o->volume_id) {
		w->o->node_only = true;
	} else if (str_eq(word, "volume") && !w->o->node_only) {
		if (*w->argv && **w->argv && **w->argv != '-')
			w->o->volume_id = *w->argv++;
		else
			strs_add(w->errors, "inspect volume: which one? Its id is missing");
	} else {
		strs_addf(w->errors, "unexpected argument \"%s\"", word);
	}
}

/* The flags in front of those of the command line: the running driver's, or those of no driver. */
static void take_running(struct words *w)
{
	struct inspect_options *o = w->o;
	struct err err = ERR_INIT;
	char host[256] = "";
	int64_t pid = 0;

	strs_add(&o->words, "snap-csi-plugin");
	if (w->pid && (parse_i64("--pid", w->pid, &pid, &err) || pid < 1 || pid > INT32_MAX)) {
		strs_addf(w->errors, "--pid %s: is no process id", w->pid);
		return;
	}
	if (!w->has_mode && inspect_running_driver(w->proc_root ? w->proc_root : "/proc",
	                                           (pid_t)pid, &o->words, &o->driver_pid, &err)) {
		strs_add(w->errors, err.msg);
		return;
	}
	if (o->driver_pid)
		return;
	if (!w->has_mode)
		strs_add(&o->words, "--mode=node");
	if (gethostname(host, sizeof(host) - 1) || !*host)
		snprintf(host, sizeof(host), "this-host");
	strs_addf(&o->words, "--node-id=%s", host);
	strs_add(&o->words, "--plugin-dir=" PLUGIN_DIR);
}

static void parse_flags(struct words *w)
{
	struct flags_report report = FLAGS_REPORT_INIT;
	struct inspect_options *o = w->o;

	for (size_t i = 0; i < w->flags.n; i++)
		strs_add(&o->words, w->flags.v[i]);
	if (flags_parse(&o->flags, (int)o->words.n, o->words.v, getenv, &report))
		for (size_t i = 0; i < report.errors.n; i++)
			strs_add(w->errors, report.errors.v[i]);
	flags_report_clear(&report);
}

int inspect_options_read(struct inspect_options *o, int argc, char *const argv[],
                         struct strs *errors)
{
	struct words w = { .argv = argv + (argc < 2 ? argc : 2), .o = o, .errors = errors };

	*o = (struct inspect_options) { .driver_pid = 0 };
	while (*w.argv) {
		const char *arg = *w.argv++;

		if (*arg != '-')
			take_subject(&w, arg);
		else if (!take_own(&w, arg))
			take_flag(&w, arg);
	}
	if (!errors->n && !o->help)
		take_running(&w);
	if (!errors->n && !o->help)
		parse_flags(&w);
	strs_clear(&w.flags);
	return errors->n ? -1 : 0;
}

void inspect_options_clear(struct inspect_options *o)
{
	flags_clear(&o->flags);
	strs_clear(&o->words);
	strs_clear(&o->node_reports);
	*o = (struct inspect_options) { .driver_pid = 0 };
}

void inspect_print_help(FILE *out)
{
	fputs("snap-csi-plugin inspect: what this host and the Kubernetes API say of volumes, and\n"
	      "what contradicts. Looks only; changes nothing.\n"
	      "\n"
	      "  inspect              all volumes, and this node\n"
	      "  inspect volume ID    one volume, and who has its device open\n"
	      "  inspect node         this node alone; the API is not asked\n"
	      "\n"
	      "  -o json              the whole report for programs\n"
	      "  --bundle FILE        all of it as an archive for a support case, without secrets;\n"
	      "                       FILE must not exist; - is the standard output\n"
	      "  --node-report FILE   also compare with what `inspect -o json` has said on a node\n"
	      "  --pid N              the driver whose flags are used, where several run\n"
	      "  -h, --help           this text\n"
	      "\n"
	      "The flags of the driver that runs here are used, or those that are given (see\n"
	      "snap-csi-plugin --help; --mode says that no running driver is meant).\n"
	      "Exit status: 0 nothing is wrong, 1 something is (\"findings\"), 2 could not look.\n",
	      out);
}
