/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `snap-csi-plugin inspect`: what this host and the API server say about volumes, and what
 * contradicts. Looks and changes nothing: it opens files to read them, takes no lock, and touches
 * nothing that is mounted. It runs beside a driver, or without one.
 *
 * The report is one JSON tree, which `-o json` prints and report_print() renders:
 *
 *   time, host    of the look: RFC 3339, name of the host
 *   findings      [{object, what, next}]: what is wrong, contradictions
 *   node          facts of this host; absent where no node was asked for
 *   api           facts of the API server that belong to no single volume; or {error}
 *   volumes       [{id, node: {...}, api: {...}}]: a side that knows nothing of it is absent
 *
 * volumes[].node, as far as known:
 *   staged        [{path, kind: disk, block or share, filesystem, readOnly, gone}]
 *   published     [{path, pod, readOnly}]: pod is its UID, from the path
 *   device        {name, number, pci, nsid, uuid, size, diskseq, tag, gone}
 *   volumeAttachment, persistentVolume    names, as kubelet has them
 *   records       [{what, since}]: tools and unstages that have begun and not ended
 *   holders       [text]: other processes that have it open
 *
 * No state beside the report, which belongs to one thread at a time.
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

/* What is asked, and of which driver. */
struct inspect_options {
	struct flags flags;    /* the running driver's, then those of the command line */
	struct strs words;     /* what the flags borrow from */
	pid_t driver_pid;      /* whose flags they are; 0: no driver's */
	const char *volume_id; /* only this volume; NULL: all */
	const char *bundle;    /* file for a support case; NULL: none */
	/* Files with what `inspect -o json` has said on nodes, to be compared. */
	struct strs node_reports;
	const char *output, *pid; /* as given; NULL */
	bool node_only;           /* the API server is not asked */
	bool json;
	bool help;
};

struct inspect_report {
	struct json *tree;
	struct hash_table volumes; /* the tree's volumes by id */
	struct hash_key key;
	unsigned n_findings;
};

void inspect_report_init(struct inspect_report *r);
void inspect_report_clear(struct inspect_report *r);
DEFINE_AUTO_VALUE(struct inspect_report, inspect_report_clear);
/* The volume of this id, made when it is missing; it belongs to the tree. */
struct json *inspect_volume(struct inspect_report *r, const char *id);
/* NULL: the tree has none of this id. */
struct json *inspect_volume_known(const struct inspect_report *r, const char *id);
/* The array member of that name, made when it is missing. */
struct json *inspect_list(struct json *object, const char *name);
/*
 * Adds a finding: on which object ("volume pvc-1", "mount /var/..."), what is wrong with it, and
 * what to do next. `next` is a whole text; `what` and what follows it are made as by printf().
 */
void inspect_finding(struct inspect_report *r, const char *object, const char *next,
                     const char *what, ...) PRINTF_(4, 5);
/* Seconds as "3 d 4 h", "12 min 5 s", "0 s": two units at most. Returns buf. */
const char *inspect_age(int64_t seconds, char buf[64]);

/* The tables for people. */
void inspect_print(const struct inspect_report *r, FILE *out);

/*
 * What the node of these options sees on its host: `node` of the tree and of the volumes, and the
 * findings that follow. Ends by the deadline, whatever hangs; then that is a finding, and what
 * hangs still reads the options. -1: nothing could be looked at.
 */
int inspect_node_facts(struct inspect_report *r, const struct inspect_options *o, struct deadline d,
                       struct err *err) MUST_CHECK;
/*
 * What the API server says, compared with what is there of the host already: `api` of the tree and
 * of the volumes, and the findings that follow. That it cannot be asked is no error: `api` then
 * says why.
 */
int inspect_api_facts(struct inspect_report *r, const struct inspect_options *o, struct deadline d,
                      struct err *err) MUST_CHECK;
/*
 * pods.c. Adds a finding for each volume that is published to a pod without any process, not even
 * of its sandbox, on this host. A volume that is published for less than five minutes has none: its
 * pod may be about to start. Adds none where the host's processes are not visible.
 */
void inspect_find_podless(struct inspect_report *r, const char *proc_root);

/*
 * bundle.c. Writes o->bundle, which must not exist (mode 0600), or with "-" the standard output: a
 * tape archive of the report, the objects without secrets, and facts of the host. A part that is
 * not available is replaced by its error. -1: nothing was written, or the file was removed.
 */
int inspect_bundle(const struct inspect_report *r, const struct inspect_options *o,
                   struct deadline d, struct err *err) MUST_CHECK;

/*
 * Reads the command line. argv[1] is "inspect"; what is no word of this command is a flag of the
 * driver. -1: `errors` has whole lines. inspect_options_clear() afterwards, also after -1.
 */
int inspect_options_read(struct inspect_options *o, int argc, char *const argv[],
                         struct strs *errors) MUST_CHECK;
void inspect_options_clear(struct inspect_options *o);
void inspect_print_help(FILE *out);
/*
 * Adds the flags of the driver that runs here to `words`, and says which process it is: the first
 * process of this container, or the only driver in this mount namespace, or the only one that is
 * seen. 0: none is. -1: several are, or `pid`, when it is not 0, is none.
 */
int inspect_running_driver(const char *proc_root, pid_t pid, struct strs *words, pid_t *ret,
                           struct err *err) MUST_CHECK;

/*
 * The command: argv[1] is "inspect". Exit status: 0 nothing is wrong, 1 findings, 2 could not look.
 */
int inspect_main(int argc, char *const argv[]);
