/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `snap-csi-plugin inspect`: reports what this host and the API server say about volumes, and their
 * contradictions. It is read-only: it opens files for reading, takes no lock, and does not access
 * mounted filesystems. It runs next to a driver, or without one.
 *
 * The report is one JSON tree, which `-o json` prints and report_print() renders:
 *
 *   time, host    of the scan: RFC 3339, name of the host
 *   didYouMean    ["volume pvc-1"]: objects that have the requested id as another name
 *   findings      [{object, what, next}]: faults and contradictions
 *   node          facts of this host; absent if no node was requested
 *   api           facts of the API server that belong to no single volume; or {error}
 *   volumes       [{id, lastError, node: {...}, api: {...}}]: a side without facts is
 *                 absent; lastError {call, code, text, count, since, age} belongs to the driver
 *                 whose flags are used: its last failed call, unless a later call succeeded
 *
 * node.functions  [{pci, kind, driver, disks, volume, hotPlugged, override, hangs}]: VFs and
 *                 hot-plugged functions; absent if they could not be read
 *
 * volumes[].node, as far as known:
 *   staged        [{path, kind: disk, block or share, filesystem, readOnly, gone}]
 *   published     [{path, pod, readOnly}]: pod is its UID, from the path
 *   device        {name, number, pci, nsid, uuid, size, diskseq, tag, gone, encryption, mapping}
 *   openMapping   name of an encrypted volume's open mapping that is not staged
 *   volumeAttachment, persistentVolume    names, as kubelet has them
 *   records       [{what, since}]: unfinished tools and unstages
 *   holders       [text]: other processes that have it open
 *
 * No state except the report, which belongs to one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/err.h"
#include "common/hash_table.h"
#include "common/json.h"
#include "common/keyed_hash.h"
#include "common/str.h"
#include "flags/flags.h"

enum inspect_subject { INSPECT_ALL, INSPECT_VOLUME, INSPECT_CLAIM, INSPECT_POD, INSPECT_NODE };

/* The request, and the driver that the request is about. */
struct inspect_options {
	/* the running driver's flags, overridden by those of the command line */
	struct flags flags;
	struct strs words; /* owns the strings that the flags borrow */
	pid_t driver_pid;  /* the process whose flags are in `flags`; 0: no driver's */
	enum inspect_subject subject;
	/* name of the claim, pod ("NAMESPACE/NAME") or node; NULL: this node */
	const char *name;
	/* restricts the report to this volume; NULL: to `volumes`, or not at all */
	const char *volume_id;
	struct strs volumes; /* the subject's volumes, after inspect_resolve() has found them */
	bool resolved;       /* the report is restricted to `volumes` */
	int64_t clock_ahead; /* for tests: seconds added to the API server's clock */
	const char *bundle;  /* output file for a support case; NULL: none */
	/* Files with the output of `inspect -o json` on nodes, to be compared. */
	struct strs node_reports;
	const char *output, *pid; /* as on the command line; or NULL */
	/* Time limit in ms, which applies separately to Events, DPUNodes and DPUs; 0: 5,000. */
	int causes_ms;
	bool node_only; /* the API server is not read */
	bool json;
	bool help;
};

struct inspect_report {
	struct json *tree;
	struct hash_table volumes; /* the tree's volumes by id */
	struct hash_key key;
	unsigned n_findings;
	struct json *node_reports; /* array: the trees of --node-report */
	bool all_functions;        /* for printing: the table has all functions, however many */
};

void inspect_report_init(struct inspect_report *r);
void inspect_report_clear(struct inspect_report *r);
DEFINE_AUTO_VALUE(struct inspect_report, inspect_report_clear);
/* Returns the volume with this id, added if missing; it belongs to the tree. */
struct json *inspect_volume(struct inspect_report *r, const char *id);
/* Returns the volume with this id, or NULL if the tree does not have it. */
struct json *inspect_volume_known(const struct inspect_report *r, const char *id);
/* Returns true if the report includes this volume. */
bool inspect_wants(const struct inspect_options *o, const char *volume_id);
/* Returns the array member of that name, added if missing. */
struct json *inspect_list(struct json *object, const char *name);
/*
 * Adds a finding: its object ("volume pvc-1", "mount /var/..."), the fault, and the next step.
 * `next` is the complete text; `what` and its arguments are formatted like printf().
 */
void inspect_finding(struct inspect_report *r, const char *object, const char *next,
                     const char *what, ...) PRINTF_(4, 5);
/* Formats seconds as "3 d 4 h", "12 min 5 s" or "0 s", with at most two units. Returns buf. */
const char *inspect_age(int64_t seconds, char buf[64]);

/*
 * Collects all facts that the options request, and all findings. May restrict the options to
 * volumes. Returns -1 if no facts could be read.
 */
int inspect_scan(struct inspect_report *r, struct inspect_options *o, struct err *err) MUST_CHECK;

/* Prints the report as human-readable tables. */
void inspect_print(const struct inspect_report *r, FILE *out);
/* Like inspect_print(), but after a report with the first n_findings has been printed. */
void inspect_print_after(const struct inspect_report *r, unsigned n_findings, FILE *out);
/*
 * In inspect_partial.c. Renders the report now, and starts a thread that prints it to `out` after
 * `after_ms`, unless inspect_partial_stop() is called before. Returns NULL if no thread can be
 * started. inspect_partial_stop() frees p and returns whether the report was printed.
 */
struct inspect_partial *inspect_partial_start(const struct inspect_report *r, int64_t after_ms,
                                              FILE *out);
bool inspect_partial_stop(struct inspect_partial *p); /* NULL: returns false */

/*
 * Collects the host's facts, as the node with these options sees them: `node` of the tree and of
 * the volumes, and the findings that follow from them. Returns by the deadline, even if parts of
 * the scan hang; a finding then reports this, and the hanging threads still read the options.
 * Returns -1 if no source could be read.
 */
int inspect_node_facts(struct inspect_report *r, const struct inspect_options *o, struct deadline d,
                       struct err *err) MUST_CHECK;
/*
 * Collects the facts of the API server and compares them with the host's facts in the tree: `api`
 * of the tree and of the volumes, and the findings that follow from them. An unreachable API server
 * is not an error: `api` then has the reason.
 */
int inspect_api_facts(struct inspect_report *r, const struct inspect_options *o, struct deadline d,
                      struct err *err) MUST_CHECK;
/*
 * In inspect_resolve.c. Finds the volumes of a claim, a pod or a node, and restricts the options to
 * them. After a failure, a finding reports it, and the report has all volumes. Does nothing for
 * other subjects.
 */
void inspect_resolve(struct inspect_report *r, struct inspect_options *o, struct deadline d);
/* Adds a finding if no source knows the requested volume. Call it after all facts are collected. */
void inspect_find_unknown(struct inspect_report *r, const struct inspect_options *o);

/*
 * In last_errors.c. inspect_last_errors() adds `lastError` to the volumes, and a finding for each
 * volume that fails now; it returns by the deadline. inspect_find_old_errors() adds a finding for
 * an older error of a volume that is staged, being unstaged or requested; call it after the node's
 * facts are collected.
 */
void inspect_last_errors(struct inspect_report *r, const struct inspect_options *o,
                         struct deadline d);
void inspect_find_old_errors(struct inspect_report *r, const struct inspect_options *o);

/*
 * In node_reports.c. Reads the files of --node-report into r->node_reports, and adds their findings
 * about requested volumes and about their nodes. Adds a finding for a file that cannot be read.
 */
void inspect_read_node_reports(struct inspect_report *r, const struct inspect_options *o);
/* Returns the driver's name of the node in a report's tree, `otherwise`, the host's name, or "". */
const char *inspect_node_of(const struct json *tree, const char *otherwise);

/*
 * In pods.c. Adds a finding for each volume that is published to a pod without any process, not
 * even one of its sandbox, on this host. Volumes that were published less than five minutes ago are
 * skipped, because their pods may be about to start. Adds no finding if the host's processes are
 * not visible.
 */
void inspect_find_podless(struct inspect_report *r, const char *proc_root);

/*
 * In bundle.c. Writes o->bundle, which must not exist (mode 0600), or the standard output for "-":
 * a tar archive of the report, the objects without secrets, and facts of the host. A part that is
 * not available is replaced by its error. Returns -1 if nothing was written, or if the file was
 * removed.
 */
int inspect_bundle(const struct inspect_report *r, const struct inspect_options *o,
                   struct deadline d, struct err *err) MUST_CHECK;

/*
 * Reads the command line. argv[1] is "inspect"; an argument that does not belong to this command is
 * a flag of the driver. After -1, `errors` has complete lines. Call inspect_options_clear()
 * afterwards, even after -1.
 */
int inspect_options_read(struct inspect_options *o, int argc, char *const argv[],
                         struct strs *errors) MUST_CHECK;
void inspect_options_clear(struct inspect_options *o);
void inspect_print_help(FILE *out);
/*
 * Adds the flags of the running driver to `words`, and sets *ret to its process: the first process
 * of this container, or else the only driver in this mount namespace, or else the only visible one.
 * The last two consider only processes of root and of this user. Returns 0 if none is running; -1
 * if several are running, or if `pid` is not 0 and is not a driver.
 */
int inspect_running_driver(const char *proc_root, pid_t pid, struct strs *words, pid_t *ret,
                           struct err *err) MUST_CHECK;

/*
 * Runs the command; argv[1] is "inspect". Returns the exit status: 0 no findings, 1 findings, 2 the
 * scan failed.
 */
int inspect_main(int argc, char *const argv[]);
