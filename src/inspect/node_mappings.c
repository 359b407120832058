/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds open mappings of encrypted volumes that are not staged: their keys stay in the kernel. The
 * decision is that of the driver's start (crypt.h). A mapping's name is derived from the volume id,
 * so its volume is found only among the volumes that this host or the request names.
 */
#include <stdlib.h>
#include <sys/sysmacros.h>

#include "common/mem.h"
#include "inspect/node_scan.h"
#include "node/device/mapping.h"
#include "node/disk/crypt.h"

/* A volume whose unstage began less than this time ago, in seconds, may be between two steps. */
#define MOMENT_S 10

static bool is_mapping_of(const char *volume_id, const char *mapping)
{
	struct luks_name name = { .uuid = "" };

	luks_name(volume_id, &name);
	return str_eq(name.mapping, mapping);
}

/* Returns the volume of the mapping; NULL if it is not known. */
static const char *mappings_volume(const struct node_scan *l, const char *mapping)
{
	const struct inspect_options *o = l->options;

	json_foreach (v, json_at(l->report->tree, "volumes"))
		if (is_mapping_of(json_str(v, "id"), mapping))
			return json_str(v, "id");
	if (o->volume_id && is_mapping_of(o->volume_id, mapping))
		return o->volume_id;
	for (size_t i = 0; i < o->volumes.n; i++)
		if (is_mapping_of(o->volumes.v[i], mapping))
			return o->volumes.v[i];
	return NULL;
}

/* Returns true if a call may have begun to work on this volume a moment ago. */
static bool mappings_in_work(const struct json *node)
{
	struct err ignored = ERR_INIT;
	int64_t since;

	json_foreach (record, json_member(node, "records"))
		if (json_get_i64(record, "since", &since, &ignored) == 0 && since < MOMENT_S)
			return true;
	return false;
}

/* Describes the disk below the mapping, malloc'ed. */
static char *mappings_disk(const struct device *mapping)
{
	if (*mapping->pci)
		return xasprintf("PCI function %s", mapping->pci);
	if (mapping->lower)
		return xasprintf("disk %u:%u", major(mapping->lower), minor(mapping->lower));
	return xstrdup("a disk that was removed");
}

static void mappings_find(const struct node_scan *l, const struct device *mapping,
                          const char *object)
{
	struct str who AUTO(str_clear) = STR_INIT(600);
	unsigned n = crypt_name_holders(l->node, mapping, l->deadline, &who);
	char *next AUTO(free) = xasprintf(
		"%sthe next stage of its volume on this node, or a restart of the driver here, "
		"closes it; by hand: cryptsetup close %s (if that fails, lsblk and losetup -a show "
		"users in the kernel)",
		n ? "end the processes that have it open; then " : "", mapping->mapping);
	char *disk AUTO(free) = mappings_disk(mapping);

	inspect_finding(
		l->report, object, next,
		"the encrypted mapping %s (%s, of %s) is open, but not staged: no mount shows "
		"it, so its key stays in the kernel; %s",
		mapping->mapping, mapping->path, disk,
		n ? who.ptr : "no visible process has it open");
}

static void mappings_read(const struct node_scan *l, const char *name)
{
	struct err ignored = ERR_INIT;
	struct device mapping;
	const char *id = mappings_volume(l, name);
	char *object AUTO(free) = id ? node_scan_object(id) : xstrdup("this node");
	struct json *node;

	if (device_by_mapping(&l->node->o.world, name, &mapping, &ignored))
		return; /* it was closed */
	if (id && mappings_in_work(json_member(inspect_volume_known(l->report, id), "node")))
		return;
	if (!crypt_is_orphan(l->node, &mapping))
		return;
	if (id) {
		node = json_sub(inspect_volume(l->report, id), "node");
		json_set_str(node, "openMapping", name);
	}
	mappings_find(l, &mapping, object);
}

void node_scan_mappings(const struct node_scan *l)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err ignored = ERR_INIT;

	atomic_store(l->step, "the mappings of encrypted volumes in sysfs");
	if (mapping_list(&l->node->o.world, &names, &ignored))
		return;
	for (size_t i = 0; i < names.n && !deadline_passed(l->deadline); i++)
		mappings_read(l, names.v[i]);
}
