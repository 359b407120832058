/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of inspect: its own words, and around them flags of the driver. The words that
 * the flags borrow from live in the options.
 */
#include <stddef.h>
#include <string.h>

#include "common/option_table.h"
#include "inspect/inspect.h"

/* Where the driver records what runs, when no flag says so: as in the manifests. */
#define PLUGIN_DIR "/var/lib/kubelet/plugins/csi.snap.nvidia.com"

/* What is left of the command line, and where its parts go. */
struct words {
	struct option_table t;
	struct inspect_options *o;
	struct strs flags; /* of the driver */
	struct strs *errors;
	const char *proc_root;
	bool has_mode;
};

#define AT(member) offsetof(struct inspect_options, member)
static const struct option_row rows[] = {
	{ .kind = OPTION_STRING, .name = "output", .letter = 'o', .offset = AT(output) },
	{ .kind = OPTION_STRING, .name = "bundle", .offset = AT(bundle) },
	{ .kind = OPTION_STRINGS, .name = "node-report", .offset = AT(node_reports) },
	{ .kind = OPTION_STRING, .name = "pid", .offset = AT(pid) },
	{ .kind = OPTION_BOOL, .name = "help", .letter = 'h', .offset = AT(help) },
};

static void options_check_format(struct words *w)
{
	const char *format = w->o->output;

	w->o->json = str_eq(format, "json");
	if (!w->o->json && !str_empty(format) && !str_eq(format, "table"))
		strs_addf(w->errors, "-o %s: is neither json nor table", format);
}

static void options_add_flag(struct words *w, const char *arg)
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
	if (!strchr(arg, '=') && *w->t.argv && **w->t.argv != '-')
		strs_add(&w->flags, *w->t.argv++);
}

/* "volume ID", "node", or nothing. */
static void options_read_subject(struct words *w, const char *word)
{
	if (str_eq(word, "node") && !w->o->volume_id) {
		w->o->node_only = true;
	} else if (str_eq(word, "volume") && !w->o->node_only) {
		if (*w->t.argv && **w->t.argv && **w->t.argv != '-')
			w->o->volume_id = *w->t.argv++;
		else
			strs_add(w->errors, "inspect volume: which one? Its id is missing");
	} else {
		strs_addf(w->errors, "unexpected argument \"%s\"", word);
	}
}

/* The flags in front of those of the command line: the running driver's, or those of no driver. */
static void options_find_driver(struct words *w)
{
	struct inspect_options *o = w->o;
	struct err err = ERR_INIT;
	char host[256] = "";
	int64_t pid = 0;

	strs_add(&o->words, "snap-csi-plugin");
	if (o->pid && (parse_i64("--pid", o->pid, &pid, &err) || pid < 1 || pid > INT32_MAX)) {
		strs_addf(w->errors, "--pid %s: is no process id", o->pid);
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

static void options_parse_flags(struct words *w)
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

static void options_read_option(struct words *w)
{
	struct option_arg arg;
	struct err err = ERR_INIT;
	int rc = option_next(&w->t, &arg);

	if (rc == OPTION_UNKNOWN)
		options_add_flag(w, arg.word);
	else if (rc)
		strs_addf(w->errors, "%s needs a value", arg.word);
	else if (option_store(&w->t, arg.row, arg.value, &err))
		strs_add(w->errors, err.msg);
}

int inspect_options_read(struct inspect_options *o, int argc, char *const argv[],
                         struct strs *errors)
{
	struct words w = { .t = { .rows = rows,
		                  .n = ARRAY_LEN(rows),
		                  .fields = o,
		                  .argv = argv + (argc < 2 ? argc : 2) },
		           .o = o,
		           .errors = errors };

	*o = (struct inspect_options) { .driver_pid = 0 };
	while (*w.t.argv)
		if (**w.t.argv == '-')
			options_read_option(&w);
		else
			options_read_subject(&w, *w.t.argv++);
	options_check_format(&w);
	if (!errors->n && !o->help)
		options_find_driver(&w);
	if (!errors->n && !o->help)
		options_parse_flags(&w);
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
