/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Determines the health of volumes and of the node's storage from mountinfo and sysfs at each call,
 * without state and without a watcher. A fault is a result, not an error; an error means that the
 * health could not be determined.
 *
 * If no given path is mounted, the volume is searched for among the mounts by its ID: a raw block
 * file has the volume's name, and for a filesystem kubelet stores vol_data.json beside the staging
 * path. For raw block, kubelet 1.37 sets no publish path, and its staging path is the directory of
 * kubelet's own mapping (globalMapPath), where this driver mounts nothing.
 */
#include "node/health.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "common/detached.h"
#include "common/cleanup.h"
#include "common/failing.h"
#include "common/file.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/running.h"
#include "node/device/sysfs.h"
#include "node/disk/fs_fault.h"
#include "node/target/guard.h"
#include "node/work/job.h"
#include "node/host/max_volumes.h"
#include "node/target/mountpoint.h"
#include "node/target/share.h"

#define VOL_DATA_MAX 65536
#define HUNG_SHOWN 8 /* number of hung calls that are compared to find the oldest */
#define GLOBAL_MOUNT "/globalmount"
#define NS_PER_S INT64_C(1000000000)

static void fault(struct health *h, enum health_status status, const char *reason, const char *fmt,
                  ...) __attribute__((format(printf, 4, 5)));

static void fault(struct health *h, enum health_status status, const char *reason, const char *fmt,
                  ...)
{
	struct health_fault *f = &h->v[h->n];
	va_list ap;

	if (h->n == HEALTH_FAULTS_MAX)
		return;
	h->n++;
	f->status = status;
	f->reason = reason;
	va_start(ap, fmt);
	vsnprintf(f->message, sizeof(f->message), fmt, ap);
	va_end(ap);
}

/* ---- finding the volume ---- */

/*
 * Returns true if, according to vol_data.json, the staging path of this mount belongs to the
 * volume.
 */
static bool staged_for(const struct mount *m, const char *volume_id)
{
	size_t dir = strlen(m->target) - strlen(GLOBAL_MOUNT);
	char *path AUTO(free) = xasprintf("%.*s/vol_data.json", (int)dir, m->target);
	char *text AUTO(free) = NULL;
	struct json *tree AUTO(json_free) = NULL;
	struct err ignored = ERR_INIT;
	size_t n;

	assert(str_has_suffix(m->target, GLOBAL_MOUNT));
	return file_read(path, VOL_DATA_MAX, &text, &n, &ignored) == 0 &&
	       json_parse(path, text, n, &tree, &ignored) == 0 &&
	       str_eq(json_str(tree, "volumeHandle"), volume_id);
}

/*
 * Returns true for a raw block file, which is a bound device node. A whole filesystem mounted at a
 * path of that name is not one.
 */
static bool is_block_file(const struct mount *m, const char *name)
{
	return str_has_suffix(m->target, name) && !str_eq(m->root, "/") &&
	       mountpoint_may_be_volume(m);
}

static const struct mount *find_by_id(const struct mount_table *t, const char *volume_id)
{
	char *name AUTO(free) = xasprintf("/%s", volume_id);

	for (size_t i = 0; i < t->n; i++)
		if (is_block_file(&t->v[i], name))
			return &t->v[i];
	for (size_t i = 0; i < t->n; i++)
		if (str_has_suffix(t->v[i].target, GLOBAL_MOUNT) && staged_for(&t->v[i], volume_id))
			return &t->v[i];
	return NULL;
}

enum { VOLUME_UNKNOWN = 1 };
/*
 * Finds the mountpoint to probe, *ret. Returns VOLUME_UNKNOWN if no path is given and no mount has
 * this ID.
 */
static int find_mountpoint(const struct mount_table *t, const char *volume_id,
                           const char *publish_path, const char *staging_path,
                           struct mountpoint *ret, struct err *err)
{
	const struct mount *m;

	if (!str_empty(publish_path))
		return mountpoint_read(t, publish_path, ret, err);
	if (!str_empty(staging_path) &&
	    (mountpoint_read_staged(t, staging_path, volume_id, ret, err) ||
	     ret->kind != MOUNTPOINT_NONE))
		return err->code ? -1 : 0;
	m = find_by_id(t, volume_id);
	if (!m)
		return str_empty(staging_path) ? VOLUME_UNKNOWN : 0;
	mountpoint_clear(ret);
	return mountpoint_read(t, m->target, ret, err);
}

/* ---- finding the faults of the volume ---- */

/*
 * Checks for an error that mountinfo does not show: after an error ext4 rejects writes but, since
 * Linux 6.12 and its backports, does not show itself as read-only.
 */
static void check_ext_errors(const struct node *n, const struct mountpoint *p,
                             const struct device *dev, struct health *h)
{
	char *dir AUTO(free) = xasprintf("%s/fs/ext4/%s", n->o.world.sysfs, dev->name);
	struct err ignored = ERR_INIT;
	uint64_t errors = 0;

	if (str_has_prefix(p->m->fs_type, "ext") &&
	    sysfs_attr_u64(dir, "errors_count", &errors, &ignored) == 0 && errors)
		fault(h, HEALTH_DEGRADED, "FilesystemErrors",
		      "%s at %s has met %llu errors since it was last checked and may refuse "
		      "writes: see the node's kernel log",
		      p->m->fs_type, p->path, (unsigned long long)errors);
}

/*
 * Returns true for errnos of a server that denies root access or does not support statfs(2); the
 * files may be intact.
 */
static bool is_refusal(int errnum)
{
	return errnum == EACCES || errnum == EPERM || errnum == ENOSYS || errnum == EOPNOTSUPP;
}

/*
 * Reports a filesystem that does not answer. The message has no duration, because kubelet writes
 * the status of the pod each time that a message changes.
 */
static void fault_of_hang(struct health *h, const char *path)
{
	fault(h, HEALTH_INACCESSIBLE, "FilesystemNotResponding",
	      "the filesystem at %s does not answer: its device hangs", path);
}

/*
 * Checks a share. Its errno is that of the server, because a probe of a share needs no descriptor
 * of the driver.
 */
static int health_check_share(struct node *n, const struct mount_table *t,
                              const struct mountpoint *p, struct health *h, struct err *err)
{
	const char *path = mountpoint_probe_path(t, p);
	struct statvfs ignored;
	int sys;

	if (guard_read(n->guard, p->disk, path, &ignored, &sys, err)) {
		if (err->sys != ETIMEDOUT)
			return -1; /* no thread could be started for the probe */
		fault_of_hang(h, path);
		err_clear(err);
	} else if (share_errno_is_dead(sys)) {
		fault(h, HEALTH_INACCESSIBLE, "FilesystemDead",
		      "the share at %s no longer answers (%s): its device or server was removed; "
		      "delete the pod",
		      path, strerrordesc_np(sys));
	} else if (sys && !is_refusal(sys)) {
		const char *what = strerrordesc_np(sys);

		fault(h, HEALTH_DEGRADED, "ShareAnswersError",
		      "the server of the share at %s answers statfs with errno %d (%s); see the logs of the DPU",
		      path, sys, what ? what : "unknown");
	}
	return 0;
}

static int health_check_filesystem(struct node *n, const struct mount_table *t,
                                   const struct mountpoint *p, const struct device *dev,
                                   struct health *h, struct err *err)
{
	static const struct {
		enum health_status status;
		const char *reason;
	} rows[FS_FAULTS] = {
		[FS_SHUT_DOWN] = { HEALTH_INACCESSIBLE, "FilesystemShutDown" },
		[FS_READ_ONLY] = { HEALTH_DEGRADED, "ReadOnlyAfterError" },
		[FS_DEAD] = { HEALTH_INACCESSIBLE, "FilesystemDead" },
		[FS_FROZEN] = { HEALTH_DEGRADED, "FilesystemFrozen" },
	};
	int rc = fs_fault_probe(n, t, p, GUARD_READ, err);

	if (rc == FS_FINE && (!p->m->read_only || mount_turned_read_only(p->m)))
		rc = fs_fault_probe(n, t, p, GUARD_WRITE, err);
	if (rc == FS_HANGS)
		fault_of_hang(h, p->path);
	else if (rc > 0)
		fault(h, rows[rc].status, rows[rc].reason, "%s", err->msg);
	if (rc > 0)
		err_clear(err);
	check_ext_errors(n, p, dev, h);
	return rc < 0 ? -1 : 0;
}

static int health_check_block(const struct mountpoint *p, const struct device *dev,
                              struct health *h, struct err *err)
{
	int fd AUTO(fd) = -1;

	if (device_open(dev, O_RDONLY, &fd, NULL, err) == 0)
		return 0;
	if (err->code == ERR_UNAVAILABLE && !mount_errno_is_dead(err->sys))
		return -1; /* the filesystem could not be probed: out of descriptors, or no /dev */
	/* The kernel may have reused the number of a removed device. */
	fault(h, HEALTH_INACCESSIBLE, "DeviceReplaced", "%s shows another disk: %s", p->path,
	      err->msg);
	err_clear(err);
	return 0;
}

static int health_check_device(struct node *n, const struct mount_table *t,
                               const struct mountpoint *p, struct health *h, struct err *err)
{
	struct str why AUTO(str_clear) = STR_INIT(300);
	struct device dev;
	int rc = device_by_number(&n->o.world, p->disk, &dev, err);

	if (rc < 0)
		return -1;
	if (rc == DEVICE_ABSENT) {
		fault(h, HEALTH_INACCESSIBLE, "DeviceGone",
		      "the device %u:%u of %s no longer exists: it was detached while in use",
		      major(p->shown), minor(p->shown), p->path);
		return 0;
	}
	rc = device_controllers_live(&n->o.world, &dev, &why, err);
	if (rc < 0)
		return -1;
	if (rc == DEVICE_NOT_LIVE) {
		fault(h, HEALTH_INACCESSIBLE, "ControllerNotLive", "%s: %s", dev.name, why.ptr);
		return 0;
	}
	if (p->kind == MOUNTPOINT_BLOCK)
		return health_check_block(p, &dev, h, err);
	return health_check_filesystem(n, t, p, &dev, h, err);
}

/*
 * Adds the reason why the volume is not mounted. A volume without a failed call gets no fault here.
 */
static void health_add_last_error(const char *volume_id, struct health *h)
{
	struct failing_error e;

	if (failing_find(volume_id, &e))
		fault(h, HEALTH_INACCESSIBLE, "LastCallFailed", "%s: %s: %.600s", e.call,
		      err_code_name(e.err.code), e.err.msg);
}

int node_volume_health(struct node *n, const char *volume_id, const char *publish_path,
                       const char *staging_path, struct health *ret, struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct mountpoint p AUTO(mountpoint_clear) = MOUNTPOINT_INIT;
	int rc;

	ret->n = 0;
	rc = mount_table_read(n->o.proc_root, &t, err);
	if (!rc)
		rc = find_mountpoint(&t, volume_id, publish_path, staging_path, &p, err);
	if (!rc && p.kind == MOUNTPOINT_NONE)
		fault(ret, HEALTH_INACCESSIBLE, "NotMounted", "nothing is mounted at %s",
		      str_empty(publish_path) ? staging_path : publish_path);
	else if (!rc && p.kind == MOUNTPOINT_OTHER)
		fault(ret, HEALTH_INACCESSIBLE, "ForeignMount",
		      "%s shows %s of %s, which this driver did not mount", p.path, p.m->fs_type,
		      p.m->source);
	else if (!rc && p.kind == MOUNTPOINT_SHARE)
		rc = health_check_share(n, &t, &p, ret, err);
	else if (!rc)
		rc = health_check_device(n, &t, &p, ret, err);
	if (rc == VOLUME_UNKNOWN || (!rc && p.kind == MOUNTPOINT_NONE))
		health_add_last_error(volume_id, ret);
	return rc < 0 ? err_wrap(err, "health of volume %s", volume_id) : 0;
}

/* Names only the oldest hung call, because later ones often wait for the same backend. */
static void check_calls(const struct node *n, struct health *h)
{
	struct running_seen seen[HUNG_SHOWN];
	size_t hung = running_list(n->o.running, true, seen, HUNG_SHOWN);
	const struct running_seen *s =
		&seen[hung < HUNG_SHOWN ? (hung ? hung - 1 : 0) : HUNG_SHOWN - 1];

	if (hung)
		fault(h, HEALTH_DEGRADED, "CallsHang",
		      "%zu calls of this node hang in the kernel past their deadline, among them "
		      "%s of volume %s (for %.0f s): see dmesg and /proc/<pid>/task/%d/stack of "
		      "the driver",
		      hung, s->method, *s->subject ? s->subject : "(none)", s->seconds, s->thread);
}

static void check_jobs(struct node *n, struct health *h)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;
	char *list AUTO(free) = NULL;

	jobs_old(n->jobs, &names);
	list = strs_join(&names, ", ");
	if (names.n)
		fault(h, HEALTH_DEGRADED, "ToolsSlow",
		      "a device is slow or does not answer: %s; see the node's kernel log and the DPU",
		      list);
}

/* Reports a fault if the limit of volumes that NodeGetInfo returns is not a current count. */
static void check_limit(const struct node *n, struct health *h)
{
	struct max_volumes max;

	max_volumes_count(n, &max);
	if (max.source == MAX_VOLUMES_LAST_KNOWN)
		fault(h, HEALTH_DEGRADED, "VolumeLimitLastKnown",
		      "this node reports a limit of %" PRId64
		      " volumes, the last count of functions that the DPU offered",
		      max.n);
	if (max.source == MAX_VOLUMES_GUESSED)
		fault(h, HEALTH_DEGRADED, "VolumeLimitGuessed",
		      "this node reports a limit of %" PRId64
		      " volumes, an estimate: the DPU has never offered a function; "
		      "--max-volumes-per-node sets another number",
		      max.n);
}

struct host_probe {
	const struct node *n;
	unsigned functions, slots;
	size_t ports; /* number of ports without a bus number */
	char where[300], free[300], list[160];
	int rc;
	struct err err, shares; /* shares: the reason why shares cannot be mounted */
};

static void probe_host(void *box)
{
	struct str where AUTO(str_clear) = STR_INIT(300), slots AUTO(str_clear) = STR_INIT(300);
	struct strs ports AUTO(strs_clear) = STRS_INIT;
	struct host_probe *l = box;
	const struct device_world *w = &l->n->o.world;
	struct err ignored = ERR_INIT;
	char *list AUTO(free) = NULL;

	l->rc = device_count_functions(w, &l->functions, &where, &l->err);
	if (!l->rc)
		l->rc = device_count_slots(w, &l->slots, &slots, &l->err);
	if (device_ports_without_bus(w, &ports, &ignored))
		ports.n = 0;
	IGNORE_RESULT(device_shares_answer(w, &l->shares));
	list = strs_join(&ports, ", ");
	l->ports = ports.n;
	snprintf(l->where, sizeof(l->where), "%s", where.ptr);
	snprintf(l->free, sizeof(l->free), "%s", slots.ptr);
	snprintf(l->list, sizeof(l->list), "%s", list);
}

/* Reports missing slots, and the next step. */
static void check_functions(const struct host_probe *l, struct health *h)
{
	if (!l->functions && !l->slots)
		fault(h, HEALTH_INACCESSIBLE, "NoFunctions",
		      "the DPU offers this host neither VFs nor hot-plug slots for volumes: %s; %s",
		      l->where, l->free);
	if (l->ports)
		fault(h, HEALTH_DEGRADED, "PortsWithoutBus",
		      "the host has no bus number for %zu hot-plug ports of the DPU, so they "
		      "cannot receive volumes: " DEVICE_ASSIGN_BUSES " (%.150s)",
		      l->ports, l->list);
}

/* Reports accesses to sysfs that have run for `ms` or longer. */
static void check_sysfs(int64_t ms, const struct err *shares, struct health *h)
{
	struct strs at AUTO(strs_clear) = STRS_INIT;
	char *list AUTO(free) = NULL;

	if (!sysfs_hung(ms, &at)) {
		if (shares->code)
			fault(h, HEALTH_DEGRADED, "FunctionsHang", "%s", shares->msg);
		return;
	}
	list = strs_join(&at, ", ");
	fault(h, HEALTH_DEGRADED, "FunctionsHang",
	      "the kernel does not answer about %s: volumes of other functions are served; see dmesg of the node for a removal or a probe that hangs, which a reboot ends",
	      list);
}

int node_storage_health(struct node *n, struct health *ret, struct err *err)
{
	struct host_probe l = { .n = n };
	int rc = detached_slot_run(n->counter, probe_host, &l, sizeof(l),
	                           deadline_in_ms(n->o.tuning.host_wait_ms), err);

	ret->n = 0;
	if (rc == 0 && l.rc)
		*err = l.err;
	if (rc < 0 || l.rc)
		return err_wrap(err, "health of the storage");
	if (rc == 0)
		check_functions(&l, ret);
	check_limit(n, ret);
	check_sysfs(rc == DETACHED_RUNS ? n->o.tuning.host_wait_ms : device_hang_ms(&n->o.world),
	            &l.shares, ret);
	check_calls(n, ret);
	check_jobs(n, ret);
	return 0;
}
