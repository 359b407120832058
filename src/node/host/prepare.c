/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepares a host for volumes: loads the kernel modules of its devices, and creates missing VFs.
 *
 * If both were done at boot, writes nothing and starts no process. After a failure, the caller
 * reports it and serves nevertheless, because the volumes of running pods must be unpublished even
 * on a host whose DPU is unreachable.
 */
#include "node/host/prepare.h"

#include "common/detached.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "node/device/sysfs.h"
#include "node/gate/gatekeeper.h"

#define MODPROBE_MS 20000

/* A kernel module, and the path of its driver in sysfs. */
struct module {
	const char *name, *driver;
	const char *advice; /* follows modprobe's own message */
};

static const struct module nvme = { "nvme", "bus/pci/drivers/nvme", "" };

#define VIRTIOFS_ADVICE                                                                          \
	" (a kernel that was built without CONFIG_VIRTIO_FS cannot serve virtio-fs volumes; if " \
	"the distribution has a separate package for its module, like linux-modules-extra of "   \
	"Ubuntu, install that package for this kernel)"

static const struct module virtiofs[] = {
	{ "virtio_pci", "bus/pci/drivers/virtio-pci", "" },
	{ "virtiofs", "bus/virtio/drivers/virtiofs", VIRTIOFS_ADVICE },
};

static int prepare_load(const char *sysfs, const struct module *m, struct str *did, struct err *err)
{
	char *driver AUTO(free) = xasprintf("%s/%s", sysfs, m->driver);
	struct strs argv AUTO(strs_clear) = STRS_INIT;
	struct str output AUTO(str_clear) = STR_INIT(1000);
	int rc;

	if (path_exists(driver))
		return 0;
	strs_add(&argv, "modprobe");
	strs_add(&argv, m->name);
	rc = spawn_run(&argv, deadline_in_ms(MODPROBE_MS), &output, err);
	if (rc > 0)
		return err_set(err, ERR_UNAVAILABLE,
		               "load the kernel module %s: modprobe exited with %d: %s%s", m->name,
		               rc, spawn_last_line(&output), m->advice);
	if (rc)
		return err_wrap(err, "load the kernel module %s", m->name);
	str_addf(did, "%sloaded %s", did->len ? ", " : "", m->name);
	return 0;
}

static int load_virtiofs(const char *sysfs, struct str *did, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(virtiofs); i++)
		if (prepare_load(sysfs, &virtiofs[i], did, err))
			return -1;
	return 0;
}

static enum node_module prepare_probe_module(const struct node *n, const struct module *m,
                                             bool may_load)
{
	char *driver AUTO(free) = xasprintf("%s/%s", n->o.world.sysfs, m->driver);
	struct strs argv AUTO(strs_clear) = STRS_INIT;
	struct err ignored = ERR_INIT;

	if (path_exists(driver))
		return MODULE_LOADED;
	strs_add(&argv, "modprobe");
	strs_add(&argv, "--dry-run");
	strs_add(&argv, m->name);
	return may_load && spawn_run(&argv, deadline_in_ms(MODPROBE_MS), NULL, &ignored) == 0
	               ? MODULE_LOADABLE
	               : MODULE_MISSING;
}

void node_each_module(const struct node *n, node_module_fn *fn, void *arg)
{
	fn(arg, nvme.name, EMULATION_NVME, prepare_probe_module(n, &nvme, n->o.load_driver),
	   nvme.advice);
	for (size_t i = 0; i < ARRAY_LEN(virtiofs); i++)
		fn(arg, virtiofs[i].name, EMULATION_VIRTIOFS,
		   prepare_probe_module(n, &virtiofs[i], n->o.load_virtiofs), virtiofs[i].advice);
}

int node_load_virtiofs(const struct node *n, struct err *err)
{
	struct str did AUTO(str_clear) = STR_INIT(100);
	int rc = n->o.load_virtiofs ? load_virtiofs(n->o.world.sysfs, &did, err) : 0;

	if (did.len)
		log_event(LOG_INFO, "prepared this host for virtio-fs", "did", did.ptr, NULL);
	return rc ? err_recode(err, ERR_UNAVAILABLE) : 0;
}

/* Adds an error: keeps the first one, and appends the others. */
static int prepare_add_error(struct err *all, const struct err *failed)
{
	struct err first = *all;

	if (!first.code) {
		*all = *failed;
		return -1;
	}
	err_clear(all);
	return err_set(all, first.code, "%.480s; %.480s", first.msg, failed->msg);
}

static int prepare_host(const struct node *n, struct str *did, struct err *err)
{
	const struct node_options *o = &n->o;
	struct str made AUTO(str_clear) = STR_INIT(1000);
	struct err failed = ERR_INIT;
	int rc = 0;

	if (o->load_driver && prepare_load(o->world.sysfs, &nvme, did, &failed))
		rc = prepare_add_error(err, &failed);
	err_clear(&failed);
	/* Otherwise the modules are loaded for the first volume that needs them. */
	if (o->load_virtiofs && o->emulation == EMULATION_VIRTIOFS &&
	    load_virtiofs(o->world.sysfs, did, &failed))
		rc = prepare_add_error(err, &failed);
	err_clear(&failed);
	/* The gate may have been closed while modules were loaded. */
	if (o->create_vfs && gatekeeper_permits(o->gate) &&
	    device_create_vfs(&o->world, &made, &failed))
		rc = prepare_add_error(err, &failed);
	if (made.len)
		str_addf(did, "%s%s", did->len ? ", " : "", made.ptr);
	return rc;
}

int node_prepare(struct node *n, struct str *did, struct err *err)
{
	if (gatekeeper_check(n->o.gate, err))
		return -1;
	atomic_fetch_add(&n->preparations, 1);
	return prepare_host(n, did, err);
}

/* ---- in the background of calls ---- */

struct preparing {
	struct node *n;
	bool log_error;
	int rc;
	struct err err;
};

static void prepare_and_log(void *box)
{
	struct str did AUTO(str_clear) = STR_INIT(2000);
	struct preparing *p = box;

	p->rc = node_prepare(p->n, &did, &p->err);
	if (did.len)
		log_event(LOG_INFO, "prepared this host", "did", did.ptr, NULL);
	if (p->rc && p->log_error)
		log_event(LOG_WARNING, "this host is not ready for new volumes", "error",
		          p->err.msg, NULL);
}

static int prepare_report_running(const struct node *n, struct err *err)
{
	struct strs at AUTO(strs_clear) = STRS_INIT;
	char *list AUTO(free) = NULL;

	sysfs_hung(n->o.tuning.host_wait_ms / 2, &at);
	list = strs_join(&at, ", ");
	err_clear(err);
	err_set(err, ERR_UNAVAILABLE, "preparing this host has taken %.1f s and continues%s%s",
	        detached_slot_seconds(n->preparer), at.n ? ": the kernel is in " : "", list);
	return NODE_PREPARES;
}

static size_t count_names(const struct node *n)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err ignored = ERR_INIT;

	IGNORE_RESULT(device_functions(&n->o.world, &names, &ignored));
	return names.n;
}

int node_prepare_beside(struct node *n, bool log_error, int64_t quiet_ms, struct err *err)
{
	struct preparing p = { .n = n, .log_error = log_error };
	size_t now = count_names(n), before;
	int rc;

	/*
	 * If this run ends late, the next one has nothing to do and returns the result of this one.
	 */
	do {
		before = now;
		rc = detached_slot_run(n->preparer, prepare_and_log, &p, sizeof(p),
		                       deadline_in_ms(quiet_ms), err);
		now = count_names(n);
	} while (rc == DETACHED_RUNS && now != before);
	if (rc)
		return rc < 0 ? -1 : prepare_report_running(n, err);
	*err = p.err;
	return p.rc;
}

int node_prepare_wait(const struct node *n, int64_t quiet_ms, struct deadline d, struct err *err)
{
	size_t now = count_names(n), before;

	do {
		before = now;
		if (detached_slot_wait(n->preparer, deadline_clamp(d, quiet_ms)))
			return 0;
		if (deadline_check(d, err, "waiting until the VFs are created"))
			return -1;
		now = count_names(n);
	} while (now != before);
	return prepare_report_running(n, err);
}
