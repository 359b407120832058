/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cleans up after a killed driver. Kubelet repeats its call, or unpublishes and unstages, and these
 * calls find mounts, files and disks themselves. But an unstage cannot find a function that was
 * bound for a disk which was never mounted, because its request names no function. driver_override
 * has an effect only while a function is being bound, so clearing it does not affect a volume in
 * use, and pci_driver.h prevents a call from binding the function at the same time. Records of an
 * earlier boot are no longer valid. A probe of a share (share.h) may have been in progress.
 *
 * The functions are processed on a thread. If it hangs at a function, it is abandoned, and another
 * thread continues after that function.
 */
#include "node/host/recover.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/detached.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "node/device/sysfs.h"
#include "node/disk/crypt.h"
#include "node/work/disk_record.h"
#include "node/work/state_file.h"
#include "node/target/share.h"

struct tidying {
	const struct node *n;
	struct strs *unfinished; /* NULL: the records are those of unstages */
};

/*
 * Returns true for a record that cannot match a disk any more. Other records stay; those of tools
 * are reported.
 */
static bool recover_is_outdated(void *arg, const char *name, const char *text)
{
	const struct tidying *t = arg;
	char *what AUTO(free) = disk_record_describe(name, text);

	if (!t->unfinished)
		return disk_record_is_outdated(t->n, text);
	if (!what || disk_record_is_outdated(t->n, text))
		return true;
	strs_add(t->unfinished, what);
	return false;
}

/*
 * Checks the driver's directory. Returns 0 even if it does not exist yet, because the first record
 * creates it.
 */
static int recover_check_folder(const struct node *n, struct err *err)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err failed = ERR_INIT;

	if (dir_list(n->o.plugin_dir, &names, &failed)) {
		if (failed.sys == ENOENT)
			return 0;
	} else if (access(n->o.plugin_dir, R_OK | W_OK | X_OK)) {
		err_sys(&failed, errno, "write to %s", n->o.plugin_dir);
	}
	if (!failed.code)
		return 0;
	return err_set(
		err, failed.code,
		"state directory of the driver (--plugin-dir): %s; running formats and unstages are "
		"recorded there, so correct its type, owner, mode or mount",
		failed.msg);
}

int node_recover_records(const struct node *n, struct str *did, struct strs *unfinished,
                         struct err *err)
{
	struct err records = ERR_INIT, ignored = ERR_INIT, full = ERR_INIT;
	struct tidying t = { n, unfinished };
	int rc = 0;

	if (recover_check_folder(n, err))
		return -1;
	if (state_file_tidy(n, STATE_DIR_JOBS, recover_is_outdated, &t, did, &records))
		rc = -1;
	t.unfinished = NULL;
	if (state_file_tidy(n, STATE_DIR_UNSTAGING, recover_is_outdated, &t, did,
	                    records.code ? &ignored : &records))
		rc = -1;
	if (state_file_tidy(n, STATE_DIR_SETTINGS, recover_is_outdated, &t, did,
	                    records.code ? &ignored : &records))
		rc = -1;
	if (state_file_make_spares(n, &full))
		log_event(
			LOG_WARNING,
			"while the disk of the driver's folder is full, volumes cannot be unstaged",
			"error", full.msg, NULL);
	if (rc)
		*err = records;
	return rc;
}

/* ---- functions ---- */

#define DID_MAX 2000

/* Shared by the waiting caller and the thread that processes the functions. */
struct walk {
	struct node *n;
	struct strs functions;
	atomic_size_t at;      /* index of the function that the thread is accessing */
	atomic_bool abandoned; /* set: the thread ends after the current function */
};

static void walk_free(void *box)
{
	struct walk *w = box;

	strs_clear(&w->functions);
	free(w);
}

/* Returns the data for a thread that processes the functions from index `from`. */
static struct walk *walk_new(struct node *n, const struct strs *functions, size_t from)
{
	struct walk *w = xcalloc(1, sizeof(*w));

	w->n = n;
	for (size_t i = from; i < functions->n; i++)
		strs_add(&w->functions, functions->v[i]);
	return w;
}

static void log_did(const char *did)
{
	if (*did)
		log_event(LOG_INFO, "cleaned up after an earlier start", "removed", did, NULL);
}

static void log_failure(const struct err *err)
{
	log_event(LOG_WARNING, "leftovers of an earlier start cannot be cleaned up", "error",
	          err->msg, NULL);
}

static void log_hung(const char *pci)
{
	struct strs all AUTO(strs_clear) = STRS_INIT;
	const char *at = NULL;

	sysfs_hung(0, &all);
	for (size_t i = 0; i < all.n && !at; i++)
		at = strstr(all.v[i], pci) ? all.v[i] : NULL;
	log_event(LOG_WARNING,
	          "a PCI function does not answer: its volume is UNAVAILABLE, others are served",
	          "function", pci, "at", at, "see",
	          "see dmesg of the node for a removal or probe that hangs", NULL);
}

static void recover_next(void *box)
{
	struct walk *w = box;
	struct str did AUTO(str_clear) = STR_INIT(DID_MAX);
	size_t i = atomic_load(&w->at);

	while (i < w->functions.n && !atomic_load(&w->abandoned)) {
		struct err failed = ERR_INIT;
		int rc = device_recover(&w->n->o.world, w->functions.v[i], &failed);

		if (rc == 0)
			str_addf(&did, "%sdriver_override of %s", did.len ? ", " : "",
			         w->functions.v[i]);
		if (rc < 0 && failed.code == ERR_UNAVAILABLE)
			log_hung(w->functions.v[i]);
		else if (rc < 0)
			log_failure(&failed);
		i = atomic_fetch_add(&w->at, 1) + 1;
	}
	log_did(did.ptr);
	atomic_fetch_sub(&w->n->walks, 1);
}

/*
 * Processes the functions on a thread; waits until all are processed, or one hangs. *ret: the index
 * of that function, or the number of functions.
 */
static int recover_walk(struct walk *w, size_t *ret, struct err *err)
{
	int64_t ms = device_hang_ms(&w->n->o.world);
	struct detached *work;
	size_t before;
	bool ended;

	*ret = 0;
	atomic_fetch_add(&w->n->walks, 1);
	work = detached_start(recover_next, walk_free, w, err);
	if (!work) {
		atomic_fetch_sub(&w->n->walks, 1);
		walk_free(w);
		return -1;
	}
	do {
		before = *ret;
		ended = detached_wait(work, deadline_in_ms(ms));
		*ret = atomic_load(&w->at);
	} while (!ended && *ret != before);
	atomic_store(&w->abandoned, true);
	detached_put(work);
	return 0;
}

static void recover_functions(struct node *n)
{
	struct strs functions AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;
	size_t from = 0;

	if (device_functions(&n->o.world, &functions, &err)) {
		log_failure(&err);
		return;
	}
	while (from < functions.n) {
		size_t done;

		if (recover_walk(walk_new(n, &functions, from), &done, &err)) {
			log_failure(&err);
			return;
		}
		from += done;
		if (from < functions.n)
			log_hung(functions.v[from++]);
	}
}

struct shares_probe {
	const struct node *n;
	struct err err;
};

static void probe_shares(void *box)
{
	struct shares_probe *l = box;

	IGNORE_RESULT(device_shares_answer(&l->n->o.world, &l->err));
}

/*
 * Logs a removal that hangs. Not every kernel blocks a reader of driver_override while it removes a
 * function.
 */
static void log_shares(const struct node *n)
{
	struct shares_probe l = { .n = n };
	struct err ignored = ERR_INIT;

	if (!detached_slot_run(n->counter, probe_shares, &l, sizeof(l),
	                       deadline_in_ms(device_hang_ms(&n->o.world)), &ignored) &&
	    l.err.code)
		log_event(LOG_WARNING, "virtio-fs volumes are UNAVAILABLE, others are served",
		          "error", l.err.msg, NULL);
}

void node_recover_host(struct node *n)
{
	struct str did AUTO(str_clear) = STR_INIT(DID_MAX);
	struct err err = ERR_INIT;

	recover_functions(n);
	log_shares(n);
	if (share_tidy(n, &did, &err))
		log_failure(&err);
	err_clear(&err);
	if (crypt_recover(n, &did, &err))
		log_failure(&err);
	log_did(did.ptr);
}
