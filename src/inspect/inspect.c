/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command, from its arguments to its exit status: options, facts of the host, facts of the API
 * server, output. Owns the report and the options; collects no facts itself.
 */
#include "inspect/inspect.h"

#include <stdlib.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "inspect/subprocess.h"

/*
 * The host either answers at once or hangs. The lists of a large cluster, and the re-reads of
 * candidates, take some time.
 */
#define NODE_MS 2500
#define ERRORS_MS 500
#define RESOLVE_MS 3000
#define API_MS 30000
/* A healthy API server needs less time, except for long lists. */
#define PARTIAL_MS 1500

enum { NOTHING_WRONG = 0, FINDINGS = 1, COULD_NOT_LOOK = 2 };

/* Reads the volumes of the subject, their last errors, and the facts of this host. */
static int scan_host(struct inspect_report *r, struct inspect_options *o, struct err *err)
{
	r->all_functions = o->subject == INSPECT_NODE;
	inspect_resolve(r, o, deadline_in_ms(RESOLVE_MS));
	inspect_last_errors(r, o, deadline_in_ms(ERRORS_MS));
	inspect_read_node_reports(r, o);
	if (o->flags.node && inspect_node_facts(r, o, deadline_in_ms(NODE_MS), err))
		return -1;
	if (o->flags.node)
		inspect_find_podless(r, o->flags.proc_root);
	inspect_find_old_errors(r, o);
	return 0;
}

static int scan_api(struct inspect_report *r, const struct inspect_options *o, struct err *err)
{
	if (!o->node_only && inspect_api_facts(r, o, deadline_in_ms(API_MS), err))
		return -1;
	inspect_find_unknown(r, o);
	return 0;
}

int inspect_scan(struct inspect_report *r, struct inspect_options *o, struct err *err)
{
	return scan_host(r, o, err) || scan_api(r, o, err) ? -1 : 0;
}

/* For human-readable output: prints the host's part if the API server does not answer. */
static int scan_and_print(struct inspect_report *r, struct inspect_options *o, struct err *err)
{
	struct inspect_partial *partial;
	unsigned n_findings;
	int rc;

	if (scan_host(r, o, err))
		return -1;
	n_findings = r->n_findings;
	partial = inspect_partial_start(r, PARTIAL_MS, stdout);
	rc = scan_api(r, o, err);
	if (inspect_partial_stop(partial)) {
		if (!rc)
			inspect_print_after(r, n_findings, stdout);
	} else if (!rc) {
		inspect_print(r, stdout);
	}
	return rc;
}

static int scan_for_program(struct inspect_report *r, struct inspect_options *o, struct err *err)
{
	char *text AUTO(free) = NULL;

	if (inspect_scan(r, o, err))
		return -1;
	if (o->bundle)
		return inspect_bundle(r, o, deadline_in_ms(API_MS), err);
	text = json_print_shown(r->tree);
	puts(text);
	return 0;
}

static int inspect_run(struct inspect_options *o)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };
	struct err err = ERR_INIT;
	int rc;

	inspect_report_init(&r);
	rc = o->json || o->bundle ? scan_for_program(&r, o, &err) : scan_and_print(&r, o, &err);
	if (rc) {
		fprintf(stderr, "inspect failed: %s\n", err.msg);
		return COULD_NOT_LOOK;
	}
	if (fflush(stdout) || ferror(stdout)) {
		fputs("inspect failed: the output could not be written\n", stderr);
		return COULD_NOT_LOOK;
	}
	return r.n_findings ? FINDINGS : NOTHING_WRONG;
}

static int inspect_command(int argc, char *const argv[])
{
	struct strs errors AUTO(strs_clear) = STRS_INIT;
	static struct inspect_options o; /* an abandoned scan reads it until the process ends */
	int status = COULD_NOT_LOOK;

	log_setup(0, false);
	if (inspect_options_read(&o, argc, argv, &errors)) {
		for (size_t i = 0; i < errors.n; i++)
			fprintf(stderr, "inspect failed: %s\n", errors.v[i]);
		fputs("snap-csi-plugin inspect --help shows the usage\n", stderr);
	} else if (o.help) {
		inspect_print_help(stdout);
		status = NOTHING_WRONG;
	} else {
		status = inspect_run(&o);
	}
	return status;
}

/*
 * If a thread of the scan was abandoned, the process may never be able to exit, so it runs in a
 * subprocess.
 */
int inspect_main(int argc, char *const argv[])
{
	return run_in_subprocess(inspect_command, argc, argv);
}
