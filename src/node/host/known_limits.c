/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the limits that sysfs and the kernel's arguments show. A missing function is found by the
 * callers, because only they know the attachments.
 */
#include "node/host/known_limits.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"

#define CMDLINE_MAX 65536

/* Returns true if the kernel assigns all bus numbers, or if its arguments cannot be read. */
static bool assigns_buses(const struct device_world *w)
{
	char *path AUTO(free) = xasprintf("%s/cmdline", w->proc ? w->proc : "/proc");
	char *line AUTO(free) = NULL;
	struct err ignored = ERR_INIT;

	return file_read(path, CMDLINE_MAX, &line, NULL, &ignored) || strstr(line, "assign-busses");
}

static void limit_of_ports(const struct device_world *w, bool assigned, known_limit_fn *fn,
                           void *arg)
{
	struct strs ports AUTO(strs_clear) = STRS_INIT;
	struct err ignored = ERR_INIT;
	char *list AUTO(free) = NULL, *what AUTO(free) = NULL;

	if (device_ports_without_bus(w, &ports, &ignored) || !ports.n)
		return;
	list = strs_join(&ports, ", ");
	what = xasprintf("%zu hot-plug ports of the DPU have no bus number, so nothing can be "
	                 "plugged there (%.300s)",
	                 ports.n, list);
	fn(arg, what,
	   assigned ? "reserve more bus numbers for the DPU's PCIe switch in the host's firmware"
	            : DEVICE_ASSIGN_BUSES);
}

/*
 * Some firmware reserves only one bus for the VFs of a PF. The kernel then ignores the VFs beyond
 * that bus, unless it assigns the bus numbers itself.
 */
static void limit_of_vfs(const struct device_world *w, known_limit_fn *fn, void *arg)
{
	struct device_vfs vfs;
	struct err ignored = ERR_INIT;
	char *what AUTO(free) = NULL;

	if (device_vfs_without_bus(w, &vfs, &ignored) || !vfs.possible)
		return;
	what = xasprintf("PF %s of the DPU has %u of %u VFs, and all of them need more bus numbers "
	                 "than one bus has",
	                 vfs.pf, vfs.present, vfs.possible);
	fn(arg, what,
	   "if the kernel's log has \"unknown header type 7f, ignoring "
	   "device\", " DEVICE_ASSIGN_BUSES);
}

void known_limits_each(const struct device_world *w, bool vfs, known_limit_fn *fn, void *arg)
{
	bool assigned = assigns_buses(w);

	limit_of_ports(w, assigned, fn, arg);
	if (vfs && !assigned)
		limit_of_vfs(w, fn, arg);
}
