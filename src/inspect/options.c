/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of inspect: its own arguments, mixed with flags of the driver. The options own
 * the strings that the flags borrow.
 */
#include <stddef.h>
#include <string.h>

#include "common/mem.h"
#include "common/option_table.h"
#include "inspect/inspect.h"

/* The driver's record directory if no flag sets it, as in the manifests. */
#define PLUGIN_DIR "/var/lib/kubelet/plugins/csi.snap.nvidia.com"

/* The rest of the command line, and the destinations of its parts. */
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
		strs_addf(w->errors, "-o: \"%s\" is neither json nor table", format);
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
	/* A separate value is not an argument of inspect; booleans use "=" here. */
	if (!strchr(arg, '=') && *w->t.argv && **w->t.argv != '-')
		strs_add(&w->flags, *w->t.argv++);
}

static const struct {
	const char *word, *value;
} subjects[] = {
	[INSPECT_VOLUME] = { "volume", "its id" },
	[INSPECT_CLAIM] = { "claim", "NAMESPACE/NAME" },
	[INSPECT_POD] = { "pod", "NAMESPACE/NAME" },
	[INSPECT_NODE] = { "node", NULL },
};

static enum inspect_subject subject_of(const char *word)
{
	for (size_t i = INSPECT_VOLUME; i < ARRAY_LEN(subjects); i++)
		if (str_eq(word, subjects[i].word))
			return (enum inspect_subject)i;
	return INSPECT_ALL;
}

static bool is_namespaced_name(const char *name)
{
	const char *slash = strchr(name, '/');
	char *namespace AUTO(free) = slash ? xstrndup(name, (size_t)(slash - name)) : NULL;

	return slash && dns1123_subdomain(namespace) && dns1123_subdomain(slash + 1);
}

static void options_check_name(struct words *w, const char *word)
{
	struct inspect_options *o = w->o;

	if (o->subject == INSPECT_VOLUME)
		o->volume_id = o->name;
	if (!o->name && o->subject != INSPECT_NODE)
		strs_addf(w->errors, "inspect %s: %s is missing", word, subjects[o->subject].value);
	else if ((o->subject == INSPECT_CLAIM || o->subject == INSPECT_POD) &&
	         !is_namespaced_name(o->name))
		strs_addf(w->errors, "inspect %s: \"%s\" is not NAMESPACE/NAME", word, o->name);
	else if (o->subject == INSPECT_NODE)
		o->node_only = !o->name;
}

/*
 * Reads "volume ID", "claim NAMESPACE/NAME", "pod NAMESPACE/NAME", "node", "node NAME", or nothing.
 */
static void options_read_subject(struct words *w, const char *word)
{
	struct inspect_options *o = w->o;
	enum inspect_subject subject = subject_of(word);

	if (!subject || o->subject) {
		strs_addf(w->errors,
		          "unexpected argument \"%s\"; expected one of: volume ID, claim "
		          "NAMESPACE/NAME, pod NAMESPACE/NAME, node [NAME]",
		          word);
		return;
	}
	o->subject = subject;
	if (*w->t.argv && **w->t.argv && **w->t.argv != '-')
		o->name = *w->t.argv++;
	options_check_name(w, word);
}

/*
 * Adds the flags that precede those of the command line: the running driver's, or defaults if no
 * driver runs.
 */
static void options_find_driver(struct words *w)
{
	struct inspect_options *o = w->o;
	struct err err = ERR_INIT;
	char host[256] = "";
	int64_t pid = 0;

	strs_add(&o->words, "snap-csi-plugin");
	if (o->pid && (parse_i64("--pid", o->pid, &pid, &err) || pid < 1 || pid > INT32_MAX)) {
		strs_addf(w->errors, "--pid: \"%s\" is not a process id", o->pid);
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
	strs_clear(&o->volumes);
	*o = (struct inspect_options) { .driver_pid = 0 };
}

void inspect_print_help(FILE *out)
{
	fputs("snap-csi-plugin inspect: reports the state of volumes on this host and in the Kubernetes\n"
	      "API, and contradictions between the two. Read-only.\n"
	      "\n"
	      "  inspect                all volumes, and this node\n"
	      "  inspect volume ID      one volume, and the processes that have its device open\n"
	      "  inspect claim NS/NAME  the volume of a PersistentVolumeClaim\n"
	      "  inspect pod NS/NAME    the volumes of a pod\n"
	      "  inspect node           only this node, without the API. With a NAME:\n"
	      "                         the volumes that are attached to that node or being attached\n"
	      "\n"
	      "  -o json              the whole report for programs\n"
	      "  --bundle FILE        all of it as an archive for a support case, without secrets;\n"
	      "                       FILE must not exist; - is the standard output\n"
	      "  --node-report FILE   also compare with the output of `inspect -o json` on a node\n"
	      "  --pid N              the driver whose flags are used, if several run\n"
	      "  -h, --help           this text\n"
	      "\n"
	      "The flags of the driver that runs here are used, or the given flags (see\n"
	      "snap-csi-plugin --help; with --mode no running driver is used).\n"
	      "Exit status: 0 no findings, 1 findings, 2 inspect failed.\n",
	      out);
}
