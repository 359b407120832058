/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host check: checks the preconditions of a host's first volume, in the order in which to fix them:
 * root, kernel modules and command line, the DPU's functions and slots.
 */
#include "host/commands.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "host/host_node.h"
#include "node/host/prepare.h"

#define CMDLINE_MAX 65536

struct findings {
	struct str *said;
	bool bad;
};

static void add_finding(struct findings *f, const char *level, const char *fmt, ...) PRINTF_(3, 4);

static void add_finding(struct findings *f, const char *level, const char *fmt, ...)
{
	char text[1200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	f->bad = f->bad || str_eq(level, "bad");
	str_addf(f->said, "%-5s %s\n", level, text);
}

static void host_check_root(struct findings *f)
{
	if (geteuid() != 0)
		add_finding(f, "bad",
		            "not root: attach and detach mount filesystems and bind drivers; run "
		            "the commands with sudo");
}

static void host_check_module(void *arg, const char *name, enum emulation kind, enum node_module is,
                              const char *advice)
{
	struct findings *f = arg;
	bool nvme = kind == EMULATION_NVME;

	if (is == MODULE_LOADED)
		add_finding(f, "ok", "the kernel module %s is loaded", name);
	else if (is == MODULE_LOADABLE)
		add_finding(f, "ok", "the kernel module %s is loaded when it is needed", name);
	else
		add_finding(
			f, nvme ? "bad" : "note",
			"the kernel module %s is missing, so no %s volume can be attached: install it "
			"for this kernel (modprobe %s)%s",
			name, nvme ? "NVMe" : "virtio-fs", name, advice);
}

static bool has_word(const char *line, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = line; (p = strstr(p, word)); p += n)
		if ((p == line || p[-1] == ' ') && strchr(" \n", p[n]))
			return true;
	return false;
}

/*
 * With more VFs, the 256 numbers of one bus may not suffice, because the PF and its neighbours use
 * some.
 */
#define VFS_OF_ONE_BUS 127

/*
 * Checks the bus numbers. Some firmware reserves only one bus for the VFs of a PF. The kernel then
 * ignores the VFs beyond that bus ("unknown header type 7f, ignoring device"), unless it assigns
 * the bus numbers itself.
 */
static void host_check_busses(struct findings *f, const char *line, const struct device_world *w)
{
	struct err ignored = ERR_INIT;
	unsigned vfs = 0;

	if (device_most_vfs(w, &vfs, &ignored) || vfs <= VFS_OF_ONE_BUS ||
	    strstr(line, "assign-busses"))
		return;
	add_finding(f, "note",
	            "a PF of the DPU can have %u VFs: if the kernel's log has \"unknown header "
	            "type 7f, ignoring device\", add pci=assign-busses to the kernel's arguments",
	            vfs);
}

static void host_check_arguments(struct findings *f, const struct host_args *a,
                                 const struct host_node *h)
{
	char *path AUTO(free) = xasprintf("%s/cmdline", a->proc), *line AUTO(free) = NULL;
	struct err err = ERR_INIT;
	size_t n;

	if (file_read(path, CMDLINE_MAX, &line, &n, &err)) {
		add_finding(f, "note", "the kernel's arguments could not be read: %s", err.msg);
		return;
	}
	if (has_word(line, "pcie_ports=compat"))
		add_finding(f, "note",
		            "the kernel's argument pcie_ports=compat disables hot-plug: remove "
		            "it for volumes on hot-plugged functions");
	else
		add_finding(f, "ok", "the kernel's arguments do not disable hot-plug");
	host_check_busses(f, line, &h->node.o.world);
}

static void host_check_ports(struct findings *f, const struct device_world *w)
{
	struct strs ports AUTO(strs_clear) = STRS_INIT;
	struct err ignored = ERR_INIT;
	char *list AUTO(free) = NULL;

	if (device_ports_without_bus(w, &ports, &ignored) || !ports.n)
		return;
	list = strs_join(&ports, ", ");
	add_finding(f, "note",
	            "%zu hot-plug ports of the DPU have no bus number, so nothing can be plugged "
	            "there: add pci=realloc to the kernel's arguments (%s)",
	            ports.n, list);
}

static int host_check_functions(struct findings *f, const struct device_world *w, struct err *err)
{
	struct str where AUTO(str_clear) = STR_INIT(500), slots_at AUTO(str_clear) = STR_INIT(500);
	unsigned vfs, slots, pfs;
	const char *level;

	if (device_count_functions(w, &vfs, &where, err) || device_count_static_pfs(w, &pfs, err) ||
	    device_count_slots(w, &slots, &slots_at, err))
		return -1;
	level = vfs || slots || pfs ? "note" : "bad";
	if (pfs)
		add_finding(f, "ok",
		            "%u static PFs of the DPU, each for one NVMe volume with "
		            "functionType pf and hotplugFunction false",
		            pfs);
	if (vfs)
		add_finding(f, "ok", "the DPU has %u VFs for NVMe volumes", vfs);
	else
		add_finding(
			f, level,
			"the DPU has no VFs (%s): host attach creates them if SR-IOV is enabled "
			"in the host's firmware and NVME_EMULATION_NUM_VF is set in the DPU's",
			where.ptr);
	if (slots)
		add_finding(f, "ok",
		            "%u hot-plug slots of the DPU (after a power cycle of this "
		            "host, DPF does not plug the functions again, its known issue "
		            "4734537: delete and create the attachments)",
		            slots);
	else
		add_finding(f, level,
		            "the DPU has no hot-plug slots (%s): for hot-plugged NVMe and for "
		            "virtio-fs enable its PCIe switch (PCI_SWITCH_EMULATION_ENABLE=1)",
		            slots_at.ptr);
	return 0;
}

int host_check(const struct host_args *a, struct str *said, struct err *err)
{
	struct findings f = { .said = said };
	struct host_node h;
	int rc = host_node_begin(&h, a, EMULATION_NVME, false, "", err);

	if (!rc) {
		host_check_root(&f);
		node_each_module(&h.node, host_check_module, &f);
		host_check_arguments(&f, a, &h);
		host_check_ports(&f, &h.node.o.world);
		rc = host_check_functions(&f, &h.node.o.world, err);
	}
	host_node_end(&h);
	return rc ? -1 : f.bad ? HOST_FAILED : 0;
}
