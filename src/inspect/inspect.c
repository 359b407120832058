/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command from its words to its exit status: options, facts of the host, facts of the API
 * server, output. Owns the report and the options; knows no fact itself.
 */
#include "inspect/inspect.h"

#include <stdlib.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "inspect/subprocess.h"

/* The host answers at once, or hangs. Lists of a large cluster take a while, and once more each. */
#define NODE_MS 2500
#define API_MS 30000

enum { NOTHING_WRONG = 0, FINDINGS = 1, COULD_NOT_LOOK = 2 };

static int inspect_scan(struct inspect_report *r, const struct inspect_options *o, struct err *err)
{
	if (o->flags.node && inspect_node_facts(r, o, deadline_in_ms(NODE_MS), err))
		return -1;
	if (o->flags.node)
		inspect_find_podless(r, o->flags.proc_root);
	return o->node_only ? 0 : inspect_api_facts(r, o, deadline_in_ms(API_MS), err);
}

static void inspect_print_report(const struct inspect_report *r, const struct inspect_options *o)
{
	char *text AUTO(free) = NULL;

	if (o->json) {
		text = json_print_shown(r->tree);
		puts(text);
	} else {
		inspect_print(r, stdout);
	}
}

static int inspect_run(const struct inspect_options *o)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };
	struct err err = ERR_INIT;

	inspect_report_init(&r);
	if (inspect_scan(&r, o, &err)) {
		fprintf(stderr, "cannot look: %s\n", err.msg);
		return COULD_NOT_LOOK;
	}
	if (o->bundle && inspect_bundle(&r, o, deadline_in_ms(API_MS), &err)) {
		fprintf(stderr, "cannot look: %s\n", err.msg);
		return COULD_NOT_LOOK;
	}
	if (!o->bundle)
		inspect_print_report(&r, o);
	if (fflush(stdout) || ferror(stdout)) {
		fputs("cannot look: the output could not be written\n", stderr);
		return COULD_NOT_LOOK;
	}
	return r.n_findings ? FINDINGS : NOTHING_WRONG;
}

static int inspect_command(int argc, char *const argv[])
{
	struct strs errors AUTO(strs_clear) = STRS_INIT;
	static struct inspect_options o; /* a look that was given up reads it to the end */
	int status = COULD_NOT_LOOK;

	log_setup(0, false);
	if (inspect_options_read(&o, argc, argv, &errors)) {
		for (size_t i = 0; i < errors.n; i++)
			fprintf(stderr, "cannot look: %s\n", errors.v[i]);
		fputs("snap-csi-plugin inspect --help says how it is asked\n", stderr);
	} else if (o.help) {
		inspect_print_help(stdout);
		status = NOTHING_WRONG;
	} else {
		status = inspect_run(&o);
	}
	return status;
}

/* Where a thread of the look is given up, the process may be for ever about to end. */
int inspect_main(int argc, char *const argv[])
{
	return run_in_subprocess(inspect_command, argc, argv);
}
