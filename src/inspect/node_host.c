/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host itself: functions and slots of the DPU, kernel modules, mount propagation to pods, disk
 * space and registration. Reads sysfs and kubelet's own directories; changes nothing.
 */
#include <stdlib.h>
#include <sys/statvfs.h>

#include "common/detached.h"
#include "common/file.h"
#include "common/mem.h"
#include "inspect/node_scan.h"
#include "node/device/device_kind.h"
#include "node/device/device_states.h"
#include "node/device/pci_driver.h"
#include "node/device/pci_slots.h"
#include "node/host/known_limits.h"
#include "node/host/max_volumes.h"
#include "node/target/propagation.h"

/* With less free space, in bytes, kubelet and the driver's records fail. */
#define LITTLE_ROOM (16LL * 1024 * 1024)
/*
 * The probe of a working device ends within this time; if it ends later, the next scan shows the
 * result.
 */
#define OVERRIDE_MS 400

/* ---- functions ---- */

/* Returns the volume whose device belongs to this function; NULL if this host does not know it. */
static const char *host_function_volume(const struct node_scan *l, const char *pci)
{
	json_foreach (v, json_at(l->report->tree, "volumes"))
		if (str_eq(json_str(v, "node.device.pci"), pci))
			return json_str(v, "id");
	return NULL;
}

/* Returns true for a PF of the DPU that only provides VFs, and has no volume. */
static bool is_parent(const struct node_scan *l, const struct strs *slots, const char *pci)
{
	return device_kind_of_pf(&l->node->o.world, pci) && !pci_in_slot(slots, pci);
}

/* Contains all data of the read, because a hung thread outlives the caller. */
struct override_look {
	char dir[300];
	char is[PCI_DRIVER_NAME_MAX];
};

static void host_read_override(void *box)
{
	struct override_look *o = box;
	char *text AUTO(free) = NULL;
	struct err ignored = ERR_INIT;

	if (!sysfs_attr(o->dir, "driver_override", &text, &ignored) && !str_eq(text, "(null)"))
		snprintf(o->is, sizeof(o->is), "%s", text);
}

/*
 * Detects functions on which each call would hang. A read of driver_override waits for the lock of
 * the device, and a hung removal or probe holds that lock. If several functions hang, as many are
 * named as time permits. `f` is the function's entry, or NULL.
 */
static void host_probe_hung(const struct node_scan *l, const char *pci, struct json *f)
{
	char *dir AUTO(free) = pci_dir(&l->node->o.world, pci);
	struct detached_slot *slot AUTO(detached_slot_free) = NULL;
	struct override_look o = { .is = "" };
	struct err ignored = ERR_INIT;
	int rc;

	if (deadline_passed(l->deadline))
		return;
	snprintf(o.dir, sizeof(o.dir), "%s", dir);
	slot = detached_slot_new();
	rc = detached_slot_run(slot, host_read_override, &o, sizeof(o), deadline_in_ms(OVERRIDE_MS),
	                       &ignored);
	if (f && *o.is)
		node_scan_text(f, "override", o.is);
	if (rc != DETACHED_RUNS)
		return;
	if (f)
		json_set_bool(f, "hangs", true);
	inspect_finding(l->report, "this node",
	                "check the kernel log (dmesg) of this host for a removal or a probe that "
	                "hangs: until it ends, volumes of this function are UNAVAILABLE",
	                "PCI function %s does not answer: the kernel hangs in %s/driver_override",
	                pci, dir);
}

static struct json *host_function(const struct node_scan *l, const struct device_kind *kind,
                                  const struct strs *slots, const char *pci)
{
	const struct device_world *w = &l->node->o.world;
	struct strs disks AUTO(strs_clear) = STRS_INIT, shown AUTO(strs_clear) = STRS_INIT;
	struct json *f = json_object();
	struct err ignored = ERR_INIT;
	char *driver AUTO(free) = NULL, *list AUTO(free) = NULL;
	const char *volume = host_function_volume(l, pci);

	if (pci_driver(w, pci, &driver, &ignored))
		driver = NULL;
	if (kind->list && driver)
		IGNORE_RESULT(kind->list(w, pci, &disks, &ignored));
	for (size_t i = 0; i < disks.n; i++) {
		char name[64];

		device_show_key_value(w, disks.v[i], name);
		strs_add(&shown, name);
	}
	list = strs_join(&shown, " ");
	node_scan_text(f, "pci", pci);
	json_set_str(f, "kind", kind->name);
	node_scan_text(f, "driver", driver ? driver : "none");
	node_scan_text(f, "disks", list);
	node_scan_text(f, "volume", volume);
	if (pci_in_slot(slots, pci))
		json_set_bool(f, "hotPlugged", true);
	host_probe_hung(l, pci, f);
	return f;
}

static void host_scan_functions(const struct node_scan *l, struct json *node)
{
	const struct device_world *w = &l->node->o.world;
	char *dir AUTO(free) = xasprintf("%s/bus/pci/devices", w->sysfs);
	struct strs names AUTO(strs_clear) = STRS_INIT, slots AUTO(strs_clear) = STRS_INIT;
	struct err ignored = ERR_INIT;

	if (sysfs_list(dir, &names, &ignored) || pci_slots(w, &slots, &ignored))
		return;
	inspect_list(node, "functions"); /* an empty list is a fact, unlike no list */
	for (size_t i = 0; i < names.n; i++) {
		const struct device_kind *kind = device_kind_of(w, names.v[i]);
		struct pci_match match;
		struct err unusable = ERR_INIT;

		if (!kind)
			continue;
		match = kind->functions(w);
		if (pci_usable(w, names.v[i], &match, &unusable))
			continue;
		if (is_parent(l, &slots, names.v[i]))
			host_probe_hung(l, names.v[i], NULL);
		else
			json_append(inspect_list(node, "functions"),
			            host_function(l, kind, &slots, names.v[i]));
	}
}

static void host_scan_shares(const struct node_scan *l)
{
	struct err err = ERR_INIT;

	if (device_shares_answer(&l->node->o.world, &err))
		inspect_finding(l->report, "this node",
		                "check the kernel log (dmesg) of this host and the DPU for "
		                "changes to this function while it was mounted",
		                "%s", err.msg);
}

static void add_states(struct json *node, const char *name, const unsigned counts[DEVICE_STATES])
{
	for (enum device_state i = 0; i < DEVICE_STATES; i++)
		if (counts[i])
			json_set_int(json_sub(node, name), device_state_name(i), counts[i]);
}

static void host_count_functions(const struct node_scan *l, struct json *node)
{
	struct device_states seen;
	struct err ignored = ERR_INIT;

	if (device_count_states(&l->node->o.world, &seen, &ignored))
		return;
	add_states(node, "vfs", seen.vfs);
	add_states(node, "slots", seen.slots);
}

static void host_scan_limit(const struct node_scan *l, struct json *node)
{
	static const char *const sources[] = {
		[MAX_VOLUMES_SET] = "set by --max-volumes-per-node",
		[MAX_VOLUMES_COUNTED] = "counted",
		[MAX_VOLUMES_LAST_KNOWN] = "last count: the DPU currently offers no functions",
		[MAX_VOLUMES_GUESSED] = "estimate: the DPU has never offered a function",
	};
	struct max_volumes max;

	max_volumes_count(l->node, &max);
	json_set_int(node, "maxVolumes", max.n);
	json_set_str(node, "maxVolumesBy", sources[max.source]);
	if (max.uncounted)
		inspect_finding(l->report, "this node",
		                "check the kernel log (dmesg) of this host for a removal or a "
		                "probe that hangs",
		                "the functions of the DPU cannot be counted: %s", max.where);
	else if (!max.vfs && !max.slots)
		inspect_finding(l->report, "this node",
		                "check that the DPU is up, and that DPF has configured VFs or "
		                "hot-plug ports of it",
		                "the DPU offers this host neither VFs nor hot-plug slots: %s",
		                max.where);
}

static void host_add_limit(void *arg, const char *what, const char *next)
{
	const struct node_scan *l = arg;

	inspect_finding(l->report, "this node", next, "%s", what);
}

/* ---- the rest of the host ---- */

static void host_scan_modules(const struct node_scan *l, struct json *node)
{
	static const char *const names[] = { "nvme", "virtio_pci", "virtiofs" };
	struct strs loaded AUTO(strs_clear) = STRS_INIT;
	char *list AUTO(free) = NULL;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char *path AUTO(free) = xasprintf("%s/module/%s", l->node->o.world.sysfs, names[i]);

		if (path_exists(path))
			strs_add(&loaded, names[i]);
	}
	list = strs_join(&loaded, " ");
	json_set_str(node, "modules", list);
}

static void host_scan_propagation(const struct node_scan *l, struct json *node)
{
	struct strs errors AUTO(strs_clear) = STRS_INIT, warnings AUTO(strs_clear) = STRS_INIT;
	struct err ignored = ERR_INIT;

	if (propagation_scan(&l->node->o, &errors, &warnings, &ignored))
		return;
	for (size_t i = 0; i < errors.n; i++)
		inspect_finding(
			l->report, "this node",
			"correct the DaemonSet; its pods are then recreated, and volumes in use "
			"are kept",
			"%s", errors.v[i]);
	json_set_bool(node, "podsSeeMounts", !errors.n);
}

static void host_scan_space(const struct node_scan *l, struct json *node)
{
	struct statvfs room;
	char bytes[64];

	if (statvfs(l->node->o.plugin_dir, &room))
		return;
	json_set_str(node, "room", str_bytes((uint64_t)room.f_bavail * room.f_frsize, bytes));
	if ((int64_t)(room.f_bavail * room.f_frsize) < LITTLE_ROOM)
		inspect_finding(l->report, "this node",
		                "free space on that disk, which holds kubelet's directories as "
		                "well",
		                "the disk of the driver's folder %s has only %s left",
		                l->node->o.plugin_dir, bytes);
}

static void host_scan_registration(const struct node_scan *l, struct json *node)
{
	const struct flags *f = &l->options->flags;
	char *path AUTO(free) = xasprintf("%s/%s-reg.sock", f->registration_dir, f->name);
	bool there = path_exists(path);

	if (str_empty(f->registration_path))
		return; /* another process registers the driver, on an unknown socket */
	json_set_bool(node, "registrationSocket", there);
	if (!there)
		inspect_finding(
			l->report, "this node",
			"read the last lines of this driver's log: without this socket kubelet "
			"sends no calls",
			"the socket %s, by which kubelet finds the driver, does not exist", path);
}

void node_scan_host(const struct node_scan *l)
{
	struct json *node = json_sub(l->report->tree, "node");

	atomic_store(l->step, "the functions of the DPU in sysfs");
	host_scan_limit(l, node);
	host_count_functions(l, node);
	host_scan_functions(l, node);
	host_scan_shares(l);
	known_limits_each(&l->node->o.world, l->node->o.create_vfs, host_add_limit,
	                  (void *)(uintptr_t)l);
	host_scan_modules(l, node);
	atomic_store(l->step, "kubelet's directories");
	host_scan_propagation(l, node);
	host_scan_registration(l, node);
	atomic_store(l->step, "the free space on the disk of --plugin-dir");
	host_scan_space(l, node);
}
