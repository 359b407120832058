/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the facts of a node on a separate thread, which the caller abandons at its deadline,
 * because sysfs and kubelet's directories may hang. The thread fills its own report. Only a
 * complete report is merged into the caller's; `inspect volume` leaves out the other volumes. The
 * options must outlive caller and thread.
 */
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/detached.h"
#include "common/mem.h"
#include "inspect/node_scan.h"
#include "node/device/sysfs.h"
#include "settings/node_settings.h"

#define WALKS_LEAVE_MS 1000
#define HUNG_MS 500
#define VOLUME_OBJECT "volume " /* the prefix that node_scan_object() adds */

/* Shared by the caller and the thread. */
struct work {
	const char *_Atomic step;  /* the thread's current step */
	struct inspect_report own; /* owned by the thread until it has ended */
	const struct inspect_options *options;
	struct deadline deadline;
	int rc;
	struct err err;
};

static void init_node(struct node *n, const struct inspect_options *o)
{
	struct node_options options = settings_node(&o->flags);

	/*
	 * If PID 1 is the driver, inspect runs in the driver's container and shares its mount
	 * namespace.
	 */
	options.own_mounts |= o->driver_pid == 1;
	node_init(n, &options);
}

static int facts_scan(struct work *w)
{
	struct mount_table table AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	const struct inspect_options *o = w->options;
	struct json *node = json_sub(w->own.tree, "node");
	struct node *n = xcalloc(1, sizeof(*n));
	const struct node_scan l = { .report = &w->own,
		                     .options = o,
		                     .node = n,
		                     .table = &table,
		                     .deadline = w->deadline,
		                     .step = &w->step };

	json_set_str(node, "id", o->flags.node_id);
	if (o->driver_pid)
		json_set_int(node, "driverProcess", o->driver_pid);
	if (mount_table_read(o->flags.proc_root, &table, &w->err)) {
		free(n);
		return -1;
	}
	init_node(n, o);
	node_scan_mounts(&l);
	node_scan_compare(&l);
	node_scan_records(&l);
	node_scan_mappings(&l);
	node_scan_host(&l);
	if (o->volume_id)
		node_scan_holders(&l, o->volume_id);
	/* A hung thread still uses the node. */
	if (!node_wait_host(n, deadline_in_ms(0)))
		return 0;
	node_clear(n);
	free(n);
	return 0;
}

static void work_main(void *box)
{
	struct work *w = box;

	w->rc = facts_scan(w);
}

static void work_free(void *box)
{
	struct work *w = box;

	inspect_report_clear(&w->own);
	free(w);
}

/* ---- merging the reports ---- */

static bool concerns(const struct inspect_options *o, const struct json *finding)
{
	const char *of = json_str(finding, "object");

	return !str_has_prefix(of, VOLUME_OBJECT) ||
	       inspect_wants(o, of + sizeof(VOLUME_OBJECT) - 1);
}

/* Handles "inspect volume NAME" with the name of this volume's PersistentVolume. */
static void facts_add_meant(struct inspect_report *r, const char *volume_id)
{
	char *meant AUTO(free) = xasprintf("volume %s", volume_id);

	json_append(inspect_list(r->tree, "didYouMean"), json_string(meant));
}

static void facts_merge(struct inspect_report *r, const struct work *w)
{
	json_set(r->tree, "node", json_copy(json_at(w->own.tree, "node")));
	json_foreach (f, json_at(w->own.tree, "findings"))
		if (concerns(w->options, f))
			inspect_finding(r, json_str(f, "object"), json_str(f, "next"), "%s",
			                json_str(f, "what"));
	json_foreach (v, json_at(w->own.tree, "volumes")) {
		const char *id = json_str(v, "id"), *asked = w->options->volume_id;

		if (str_eq(json_str(v, "node.persistentVolume"), asked) && !str_eq(id, asked))
			facts_add_meant(r, id);
		if (inspect_wants(w->options, id))
			json_set(inspect_volume(r, id), "node", json_copy(json_at(v, "node")));
	}
}

static void facts_find_hung(struct inspect_report *r, const struct work *w)
{
	const char *step = atomic_load(&w->step);
	struct strs at AUTO(strs_clear) = STRS_INIT;
	char *list AUTO(free) = NULL;

	sysfs_hung(HUNG_MS, &at);
	list = strs_join(&at, ", ");
	json_set_str(json_sub(r->tree, "node"), "id", w->options->flags.node_id);
	json_set_str(json_sub(r->tree, "node"), "hangs", step);
	inspect_finding(
		r, "this node",
		"check the kernel log (dmesg) of this host for a device that does not answer, "
		"and processes in state D (ps axo pid,stat,wchan:30,comm)",
		"reading %s does not finish%s%s%s: no facts of this host are shown", step,
		at.n ? " (the kernel is in " : "", list, at.n ? ")" : "");
}

/* ---- waiting ---- */

static struct work *work_new(const struct inspect_options *o, struct deadline d)
{
	struct work *w = xcalloc(1, sizeof(*w));

	w->options = o;
	/*
	 * A search through many processes has an earlier deadline, because the later steps also
	 * need time.
	 */
	w->deadline = deadline_reserve(d, WALKS_LEAVE_MS, 0);
	w->step = "mountinfo";
	inspect_report_init(&w->own);
	return w;
}

int inspect_node_facts(struct inspect_report *r, const struct inspect_options *o, struct deadline d,
                       struct err *err)
{
	struct work *w = work_new(o, d);
	struct detached *thread = detached_start(work_main, work_free, w, err);
	int rc = 0;

	if (!thread) {
		work_free(w);
		return err_wrap(err, "inspect this host");
	}
	if (!detached_wait(thread, d)) {
		facts_find_hung(r, w);
	} else if (w->rc) {
		rc = w->rc;
		*err = w->err;
	} else {
		facts_merge(r, w);
	}
	detached_put(thread);
	return rc;
}
