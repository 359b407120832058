/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See share_world.h. A write to bind or unbind starts or ends the daemon as the kernel's driver
 * would create or remove a share.
 */
#include "test/lib/share_world.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "test/lib/dpu_switch.h"
#include "test/lib/kernel.h"
#include "test/lib/virtio_function.h"

#define DRIVER "virtio-pci"

static struct share_world *world;

/* By its function, or by its virtio device. */
static struct share_device *device_of(const char *name)
{
	for (size_t i = 0; i < world->n; i++)
		if (str_eq(world->devices[i].pci, name) || str_eq(world->devices[i].name, name))
			return &world->devices[i];
	return NULL;
}

/* ---- the kernel's part ---- */

static char *function_dir(const char *pci)
{
	return xasprintf("%s/bus/pci/devices/%s", world->node.nvme.sysfs, pci);
}

static void serve(struct share_device *d)
{
	char *at AUTO(free) = xasprintf("%s/%s", world->tags, d->tag);

	share_start(&d->daemon, d->tag, d->folder, at);
}

static void stop(struct share_device *d)
{
	if (d->daemon.pid > 0)
		share_signal(&d->daemon, SIGKILL);
	share_end(&d->daemon);
}

/* The driver virtiofs binds the device, unless another one has its tag. */
static int give_to_virtiofs(struct share_device *d)
{
	int e = kernel_bind_virtio(&world->tree, d->n);

	if (!e)
		serve(d);
	return e;
}

void share_world_bind(struct share_world *w, struct share_device *d)
{
	const struct kernel_share s = { d->pci, d->n, d->tag, !w->unproven };
	char *dir AUTO(free) = function_dir(d->pci);

	run_tool("ln -sfn ../../drivers/" DRIVER " %s/driver", dir);
	d->bound = true;
	kernel_add_virtio(&w->tree, &s);
	IGNORE_RESULT(give_to_virtiofs(d));
}

void share_world_unbind(struct share_world *w, struct share_device *d)
{
	char *dir AUTO(free) = function_dir(d->pci);

	kernel_remove_virtio(&w->tree, d->n);
	run_tool("rm -f %s/driver", dir);
	d->bound = false;
	stop(d);
}

void share_world_unplug(struct share_world *w, struct share_device *d)
{
	char *dir AUTO(free) = function_dir(d->pci);

	if (d->bound)
		share_world_unbind(w, d);
	run_tool("rm -rf %s", dir);
}

void share_world_plug(struct share_world *w, struct share_device *d)
{
	char *dir AUTO(free) = function_dir(d->pci);

	virtio_function_add(w->node.nvme.sysfs, d->pci, "0x1af4\n", d->tag);
	run_tool("echo '(null)' > %s/driver_override", dir);
}

static int write_as_kernel(void *arg, const char *path, const char *text)
{
	struct share_world *w = arg;
	struct share_device *d;
	char name[16];

	snprintf(name, sizeof(name), "%.15s", text);
	name[strcspn(name, "\n")] = '\0';
	d = device_of(name);
	if (d && str_has_suffix(path, "/drivers/" DRIVER "/bind"))
		share_world_bind(w, d);
	else if (d && str_has_suffix(path, "/drivers/virtiofs/bind"))
		return give_to_virtiofs(d);
	else if (d && str_has_suffix(path, "/unbind"))
		share_world_unbind(w, d);
	else if (str_has_suffix(path, "/driver_override") && !strstr(path, "/0000:26:"))
		run_tool("echo '%s' > %s", *name ? name : "(null)", path);
	else
		return w->node.nvme.writer.write(w->node.nvme.writer.arg, path, text);
	return 0;
}

/* ---- the world ---- */

void share_world_unprove(struct share_world *w)
{
	w->unproven = true;
	virtio_function_lock_down(true);
	run_tool("rm -rf %s/fs/virtiofs", w->node.nvme.sysfs);
}

void share_world_restart(struct share_world *w)
{
	struct node_options o = w->node.node.o;

	node_clear(&w->node.node);
	node_init(&w->node.node, &o);
}

void share_world_init(struct share_world *w)
{
	memset(w, 0, sizeof(*w));
	world = w;
	node_world_init(&w->node);
	snprintf(w->tree.root, sizeof(w->tree.root), "%s", w->node.nvme.root);
	snprintf(w->tree.sysfs, sizeof(w->tree.sysfs), "%s", w->node.nvme.sysfs);
	w->writer = (struct sysfs_writer) { write_as_kernel, w };
	w->node.node.o.world.writer = &w->writer;
	w->node.node.o.virtiofs_type = "snapsim";
	/*
	 * The daemon's own mount is not a use of the function: the simulated procfs does not show
	 * it.
	 */
	w->proc = xasprintf("%s/unmounted", w->node.nvme.root);
	w->node.node.o.world.proc = w->proc;
	share_world_restart(w);
	w->tags = xasprintf("%s/tags", w->node.nvme.root);
	mount_helper_tags(w->tags);
	dpu_switch_add(w->node.nvme.sysfs, "0x15b3\n", SHARE_WORLD_DEVICES);
	run_tool("cd %s && mkdir -p %s bus/pci/drivers/" DRIVER
	         " bus/virtio/drivers/virtiofs fs/virtiofs module/virtiofs ../unmounted/self && "
	         "touch bus/virtio/drivers/virtiofs/bind && echo 0 > module/virtiofs/refcnt && "
	         "touch ../unmounted/self/mountinfo",
	         w->node.nvme.sysfs, w->tags);
}

void share_world_clear(struct share_world *w)
{
	for (size_t i = 0; i < w->n; i++) {
		stop(&w->devices[i]);
		free(w->devices[i].folder);
	}
	free(w->tags);
	free(w->proc);
	node_world_clear(&w->node);
	world = NULL;
}

struct share_device *share_world_add(struct share_world *w, const char *tag)
{
	struct share_device *d = &w->devices[w->n];

	ck_assert_uint_lt(w->n, SHARE_WORLD_DEVICES);
	snprintf(d->pci, sizeof(d->pci), "0000:%zx:00.0", 0x22 + w->n);
	d->n = (unsigned)++w->n;
	snprintf(d->name, sizeof(d->name), "virtio%u", d->n);
	snprintf(d->tag, sizeof(d->tag), "%s", tag);
	d->folder = xasprintf("%s/folder%zu", w->node.nvme.root, w->n);
	run_tool("mkdir %s", d->folder);
	share_world_plug(w, d);
	return d;
}

struct stage_request share_stage_request(const struct share_world *w, const struct share_device *d,
                                         enum access_mode mode)
{
	const struct nvme_disk none = { .nsid = 0 };
	struct stage_request r = stage_request(&w->node, &none, "", mode);

	r.want = (struct device_want) { .volume_id = "",
		                        .pci = d->pci,
		                        .vuid = "",
		                        .uuid = "",
		                        .tag = d->tag,
		                        .function = DEVICE_FUNCTION_PF,
		                        .emulation = EMULATION_VIRTIOFS };
	return r;
}

struct publish_request share_publish_request(const struct share_world *w, const char *target,
                                             enum access_mode mode)
{
	return publish_request(&w->node, target, "", mode);
}
