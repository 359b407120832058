/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the files of --node-report, and takes over the findings of those hosts: the reason why a
 * volume is not mounted is known only on its node. api_compare.c compares the same reports with the
 * API server.
 */
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"
#include "inspect/inspect.h"

#define REPORT_MAX (64 * 1024 * 1024)
#define OF_A_VOLUME "volume "

const char *inspect_node_of(const struct json *tree, const char *otherwise)
{
	const char *id = json_str(tree, "node.id");

	if (str_empty(id))
		id = otherwise;
	if (str_empty(id))
		id = json_str(tree, "host");
	return id ? id : "";
}

/* Returns the object as it is named in this report, malloc'ed; NULL: it is not taken over. */
static char *node_report_object(const struct inspect_options *o, const struct json *tree,
                                const char *object)
{
	const char *node = inspect_node_of(tree, NULL), *when = json_str(tree, "time");

	if (str_has_prefix(object, OF_A_VOLUME)) {
		/* A node may have volumes that are no longer attached to it. */
		if (o->subject != INSPECT_NODE && !inspect_wants(o, object + strlen(OF_A_VOLUME)))
			return NULL;
		return xasprintf("%s on node %s (as it was at %s)", object, node, when ? when : "");
	}
	if (!str_eq(object, "this node") && !str_eq(object, "this host"))
		return NULL; /* the API server's side is in this report */
	return xasprintf("node %s (as it was at %s)", node, when ? when : "");
}

static void node_report_take(struct inspect_report *r, const struct inspect_options *o,
                             const struct json *tree)
{
	json_foreach (finding, json_member(tree, "findings")) {
		const char *object = json_str(finding, "object"), *what = json_str(finding, "what");
		const char *next = json_str(finding, "next");
		char *here AUTO(free) = object ? node_report_object(o, tree, object) : NULL;

		if (here && what && next)
			inspect_finding(r, here, next, "%s", what);
	}
}

static void node_report_read(struct inspect_report *r, const struct inspect_options *o,
                             const char *path)
{
	struct json *tree AUTO(json_free) = NULL;
	char *text AUTO(free) = NULL;
	struct err err = ERR_INIT;
	size_t n = 0;

	if (file_read(path, REPORT_MAX, &text, &n, &err) ||
	    json_parse(path, text, n, &tree, &err)) {
		inspect_finding(r, path, "create it with: snap-csi-plugin inspect -o json", "%s",
		                err.msg);
	} else if (!json_member(tree, "findings")) {
		inspect_finding(r, path, "create it with: snap-csi-plugin inspect -o json",
		                "is not a report of inspect");
	} else {
		node_report_take(r, o, tree);
		json_append(r->node_reports, TAKE(tree));
	}
}

void inspect_read_node_reports(struct inspect_report *r, const struct inspect_options *o)
{
	for (size_t i = 0; i < o->node_reports.n; i++)
		node_report_read(r, o, o->node_reports.v[i]);
}
