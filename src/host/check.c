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
#include "node/device/device_kind.h"
#include "node/host/known_limits.h"
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

static void host_check_arguments(struct findings *f, const struct host_args *a)
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
}

static void host_check_limit(void *arg, const char *what, const char *next)
{
	add_finding(arg, "note", "%s: %s", what, next);
}

static struct device_want host_check_want(const struct attachment_file *f)
{
	bool share = f->kind == EMULATION_VIRTIOFS;

	return (struct device_want) {
		.pci = f->is.pci_address,
		.vuid = f->is.func_vuid,
		.nsid = (uint32_t)f->is.nvme_nsid,
		.uuid = f->is.nvme_uuid,
		.tag = share ? f->is.virtiofs_tag : NULL,
		.function = share || f->is.hotplug              ? DEVICE_FUNCTION_PF
		            : str_eq(f->is.function_type, "vf") ? DEVICE_FUNCTION_VF
		                                                : DEVICE_FUNCTION_STATIC_PF,
		.emulation = f->kind,
		.character = true,
	};
}

/* Checks that the function of the attachment in the file is on this host. */
static int host_check_attachment(struct findings *f, const struct host_args *a,
                                 const struct device_world *w, struct err *err)
{
	struct attachment_file file AUTO(attachment_file_clear) = { .tree = NULL };
	struct str why AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	struct device_sight sight = { .kind = NULL };
	struct device_want want;
	struct device ignored;
	struct err refused = ERR_INIT;
	int rc;

	if (!*a->file)
		return 0;
	if (attachment_file_read(a->file, &file, err))
		return -1;
	if (!attachment_is_ready(&file, &why)) {
		add_finding(f, "bad", "attachment %s %s: get the file again when it is ready",
		            file.is.key.name, why.ptr);
		return 0;
	}
	want = host_check_want(&file);
	rc = device_probe(w, &want, &ignored, &sight, &why, &refused);
	if (rc < 0)
		add_finding(f, "bad", "attachment %s: %s", file.is.key.name, refused.msg);
	else if (*sight.pci)
		add_finding(f, "ok", "PCI function %s of attachment %s is present", sight.pci,
		            file.is.key.name);
	else
		add_finding(f, "bad", "attachment %s is Ready, but this host has %s%s%s%s%s",
		            file.is.key.name, why.ptr, file.is.hotplug ? "; " : "",
		            file.is.hotplug ? NOT_PLUGGED_AGAIN : "", file.is.hotplug ? ": " : "",
		            file.is.hotplug ? NOT_PLUGGED_AGAIN_NEXT : "");
	return 0;
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
		add_finding(
			f, "ok",
			"%u hot-plug slots of the DPU (" NOT_PLUGGED_AGAIN
			"; host check -f FILE reports whether an attachment lacks its function)",
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
		host_check_arguments(&f, a);
		known_limits_each(&h.node.o.world, true, host_check_limit, &f);
		rc = host_check_functions(&f, &h.node.o.world, err);
	}
	if (!rc)
		rc = host_check_attachment(&f, a, &h.node.o.world, err);
	host_node_end(&h);
	return rc ? -1 : f.bad ? HOST_FAILED : 0;
}
