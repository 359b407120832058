/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host check: what a host needs before its first volume, in the order in which it is put right:
 * root, the kernel's modules and arguments, the DPU's functions and slots.
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
		            "not root: attach and detach mount, and give functions their driver; "
		            "run the commands with sudo");
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

static void host_check_arguments(struct findings *f, const struct host_args *a)
{
	char *path AUTO(free) = xasprintf("%s/cmdline", a->proc), *line AUTO(free) = NULL;
	struct err err = ERR_INIT;
	size_t n;

	if (file_read(path, CMDLINE_MAX, &line, &n, &err)) {
		add_finding(f, "note", "the kernel's arguments are not known: %s", err.msg);
		return;
	}
	if (has_word(line, "pcie_ports=compat"))
		add_finding(f, "note",
		            "the kernel's argument pcie_ports=compat turns hot-plug off: remove "
		            "it for volumes on hot-plugged functions");
	else
		add_finding(f, "ok", "the kernel's arguments do not turn hot-plug off");
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
	            "%zu hot-plug ports of the DPU have no bus number, and nothing can be plugged "
	            "there: add pci=realloc to the kernel's arguments (%s)",
	            ports.n, list);
}

static int host_check_functions(struct findings *f, const struct device_world *w, struct err *err)
{
	struct str where AUTO(str_clear) = STR_INIT(500), slots_at AUTO(str_clear) = STR_INIT(500);
	unsigned vfs, slots;
	const char *level;

	if (device_count_functions(w, &vfs, &where, err) ||
	    device_count_slots(w, &slots, &slots_at, err))
		return -1;
	level = vfs || slots ? "note" : "bad";
	if (vfs)
		add_finding(f, "ok", "%u VFs of the DPU are there for NVMe volumes", vfs);
	else
		add_finding(
			f, level,
			"there are no VFs of the DPU (%s): host attach makes them where SR-IOV is on in "
			"the firmware of the host, and NVME_EMULATION_NUM_VF set in that of the DPU",
			where.ptr);
	if (slots)
		add_finding(f, "ok", "%u hot-plug slots of the DPU are there", slots);
	else
		add_finding(
			f, level,
			"there are no hot-plug slots of the DPU (%s): for hot-plugged NVMe and for "
			"virtio-fs turn its PCIe switch on (PCI_SWITCH_EMULATION_ENABLE=1)",
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
		host_check_arguments(&f, a);
		host_check_ports(&f, &h.node.o.world);
		rc = host_check_functions(&f, &h.node.o.world, err);
	}
	host_node_end(&h);
	return rc ? -1 : f.bad ? HOST_FAILED : 0;
}
