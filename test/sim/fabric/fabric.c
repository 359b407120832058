/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The namespace or folder on each function, and the loop devices. Public functions take
 * fabric->lock and hold it to their end (fabric.h says why).
 */
#include "test/sim/fabric/fabric.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "test/sim/base/sim.h"
#include "test/sim/fabric/devtree.h"
#include "test/sim/fabric/host_writes.h"
#include "test/sim/fabric/hotplug.h"
#include "test/sim/fabric/image.h"
#include "test/sim/fabric/tree.h"
#include "test/sim/fabric/tree_disk.h"
#include "test/sim/fabric/virtiofs.h"

#define PORT "devices/pci0000:00/0000:00:04.0"

static void init_function(struct host *h, struct function *fn, enum function_kind kind,
                          unsigned index)
{
	*fn = (struct function) { .host = h, .kind = kind, .index = index, .watch = -1 };
	function_bdf(kind, index, fn->bdf);
	if (kind == FUNCTION_HOTPLUG)
		hotplug_place(fn);
	else
		snprintf(fn->dir, sizeof(fn->dir), PORT "/%s", fn->bdf);
}

static void init_functions(struct host *h)
{
	const struct sim_options *o = h->fabric->options;
	size_t i = 0;

	h->n = 1 + o->vfs + o->hotplug_slots;
	h->functions = xcalloc(h->n, sizeof(*h->functions));
	init_function(h, &h->functions[i++], FUNCTION_PF, 0);
	for (unsigned k = 0; k < o->vfs; k++)
		init_function(h, &h->functions[i++], FUNCTION_VF, k);
	for (unsigned k = 0; k < o->hotplug_slots; k++)
		init_function(h, &h->functions[i++], FUNCTION_HOTPLUG, k);
}

/* The PF and, without --no-vfs, its VFs. */
static int add_functions(struct host *h, struct err *err)
{
	const struct sim_options *o = h->fabric->options;

	for (size_t i = 0; i <= (o->no_vfs ? 0 : o->vfs); i++) {
		struct function *fn = &h->functions[i];

		if (function_appear(fn, err) || ((i == 0 || o->bind_vfs) && function_bind(fn, err)))
			return -1;
		host_watch_function(fn);
	}
	return 0;
}

static int add_host(struct fabric *f, const char *name, struct err *err)
{
	struct host *h = xcalloc(1, sizeof(*h));

	h->fabric = f;
	h->name = xstrdup(name);
	h->root = xasprintf("%s/%s", f->state.path, name);
	h->nvme = h->virtio = (struct driver_files) { .bind_fd = -1, .unbind_fd = -1 };
	h->probe_fd = h->virtiofs_fd = -1;
	h->next = f->hosts;
	f->hosts = h;
	init_functions(h);
	if (host_build(h, err) || hotplug_build(h, f->options->hotplug_slots, err) ||
	    add_functions(h, err) || host_listen(h, err))
		return err_wrap(err, "the devices of node %s", name);
	return 0;
}

static int set_up(struct fabric *f, struct err *err)
{
	if (geteuid())
		return err_set(
			err, ERR_PRECONDITION,
			"devices need root (loop devices, device nodes); --no-fabric runs without devices");
	f->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	f->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (f->inotify_fd < 0 || f->wake_fd < 0)
		return err_sys(err, errno, "set up inotify and eventfd");
	if (state_dir_open(f->options->state, &f->state, err))
		return -1;
	for (size_t i = 0; i < f->options->nodes.n; i++)
		if (add_host(f, f->options->nodes.v[i], err))
			return -1;
	return host_writes_start(f, err);
}

int fabric_new(const struct sim_options *o, struct faults *faults, struct fabric **ret,
               struct err *err)
{
	struct fabric *f = xcalloc(1, sizeof(*f));

	pthread_mutex_init(&f->lock, NULL);
	f->options = o;
	f->faults = faults;
	f->inotify_fd = f->wake_fd = f->state.lock_fd = -1;
	if (set_up(f, err)) {
		fabric_free(f);
		return -1;
	}
	*ret = f;
	return 0;
}

const char *fabric_path(const struct fabric *f)
{
	return f->state.path;
}

static void disk_free(struct disk *k)
{
	free(k->ns);
	free(k->volume);
	free(k);
}

/*
 * The disk of an unplugged function was already detached, and its loop device may now belong to
 * another user.
 */
static int detach_disk(const struct disk *k, bool *ret_busy, struct err *err)
{
	*ret_busy = false;
	return k->lost ? 0 : loopdev_detach(&k->loop, ret_busy, err);
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void host_free(struct host *h)
{
	for (size_t i = 0; i < h->n; i++) {
		struct function *fn = &h->functions[i];

		function_unbind(fn);
		virtiofs_free(fn);
		while (fn->disks) {
			struct disk *k = fn->disks;
			struct err err = ERR_INIT;
			bool busy = false;

			if (detach_disk(k, &busy, &err))
				log_msg(LOG_WARNING, "%s: %s", k->volume, err.msg);
			else if (busy)
				log_msg(LOG_WARNING,
				        "volume %s is still in use: /dev/loop%u stays until it is unmounted and closed",
				        k->volume, k->loop.number);
			fn->disks = k->next;
			disk_free(k);
		}
	}
	close_fd(h->nvme.bind_fd);
	close_fd(h->nvme.unbind_fd);
	close_fd(h->virtio.bind_fd);
	close_fd(h->virtio.unbind_fd);
	close_fd(h->probe_fd);
	close_fd(h->virtiofs_fd);
	free(h->functions);
	free(h->name);
	free(h->root);
	free(h);
}

struct fabric *fabric_free(struct fabric *f)
{
	if (!f)
		return NULL;
	host_writes_stop(f);
	while (f->hosts) {
		struct host *h = f->hosts;

		f->hosts = h->next;
		host_free(h);
	}
	state_dir_close(&f->state);
	close_fd(f->inotify_fd);
	close_fd(f->wake_fd);
	pthread_mutex_destroy(&f->lock);
	free(f);
	return NULL;
}

static struct function *find_function(const struct fabric *f, const struct fabric_namespace *n)
{
	for (const struct host *h = f->hosts; h; h = h->next) {
		if (!str_eq(h->name, n->node))
			continue;
		for (size_t i = 0; i < h->n; i++)
			if (h->functions[i].kind == n->kind && h->functions[i].index == n->index)
				return &h->functions[i];
	}
	return NULL;
}

static struct disk **find_disk(struct function *fn, const struct fabric_namespace *n)
{
	struct disk **at = &fn->disks;

	while (*at && !(str_eq((*at)->ns, n->ns) && str_eq((*at)->volume, n->volume)))
		at = &(*at)->next;
	return at;
}

static struct disk *disk_new(const struct fabric_namespace *n, const struct loopdev *loop)
{
	struct disk *k = xcalloc(1, sizeof(*k));

	k->nsid = n->nsid;
	k->key_value = n->key_value;
	snprintf(k->uuid, sizeof(k->uuid), "%s", n->uuid);
	k->ns = xstrdup(n->ns);
	k->volume = xstrdup(n->volume);
	k->bytes = n->bytes;
	k->loop = *loop;
	return k;
}

static int remove_disk(struct function *fn, struct disk **at, struct err *err)
{
	struct disk *k = *at;
	bool busy = false;

	assert_locked(&fn->host->fabric->lock);
	disk_vanish(fn, k);
	if (detach_disk(k, &busy, err))
		return -1;
	if (busy)
		log_msg(LOG_WARNING,
		        "volume %s was detached while in use: /dev/loop%u stays until it is unmounted and closed",
		        k->volume, k->loop.number);
	*at = k->next;
	disk_free(k);
	if (fn->kind == FUNCTION_HOTPLUG && !fn->disks) {
		function_vanish(fn);
		hotplug_settle(fn);
	}
	return 0;
}

static void remove_folder(struct function *fn)
{
	function_vanish(fn);
	virtiofs_free(fn);
	hotplug_settle(fn);
}

static bool image_is_attached(const struct fabric *f, const char *ns, const char *volume)
{
	for (const struct host *h = f->hosts; h; h = h->next)
		for (size_t i = 0; i < h->n; i++)
			for (const struct disk *k = h->functions[i].disks; k; k = k->next)
				if (str_eq(k->ns, ns) && str_eq(k->volume, volume))
					return true;
	return false;
}

/* Prepares the image for an attachment; *ret is its path, malloc'ed. */
static int prepare_image(struct fabric *f, const struct fabric_namespace *n, char **ret,
                         struct err *err)
{
	char *image AUTO(free) = state_dir_image(&f->state, n->ns, n->volume);

	if (!image_is_attached(f, n->ns, n->volume) && loopdev_is_over(image))
		return err_set(
			err, ERR_UNAVAILABLE,
			"the device of the last attachment of volume %s is still in use (mounted or open)",
			n->volume);
	if (image_prepare(image, n->bytes, f->faults, n->volume, err))
		return -1;
	*ret = TAKE(image);
	return 0;
}

static int show_folder(struct function *fn, const struct fabric_namespace *n, struct err *err)
{
	if (fn->kind != FUNCTION_HOTPLUG || fn->fs)
		return 0;
	virtiofs_new(fn, n);
	if (hotplug_appear(fn, err)) {
		remove_folder(fn);
		return -1;
	}
	sim_log("%s: volume %s is on %s with the tag %s%s", n->node, n->volume, fn->bdf, n->tag,
	        fn->bound ? "" : ", to be seen when it is bound");
	return 0;
}

static int show_disk(struct fabric *f, struct function *fn, const struct fabric_namespace *n,
                     struct err *err)
{
	char *image AUTO(free) = NULL;
	struct disk *k;
	struct loopdev loop;

	if (*find_disk(fn, n))
		return 0;
	if (prepare_image(f, n, &image, err) ||
	    loopdev_attach(image, f->options->sector_size, &loop, err))
		return -1;
	k = disk_new(n, &loop);
	k->next = fn->disks;
	fn->disks = k;
	if (hotplug_appear(fn, err) || disk_appear(fn, k, err)) {
		struct err ignored = ERR_INIT;

		IGNORE_RESULT(remove_disk(fn, &fn->disks, &ignored));
		return -1;
	}
	sim_log("%s: namespace %" PRIu32 " of volume %s is on %s (/dev/loop%u)%s", n->node, n->nsid,
	        n->volume, fn->bdf, k->loop.number,
	        k->visible ? "" : ", to be seen when it is bound");
	return 0;
}

int fabric_show(struct fabric *f, const struct fabric_namespace *n, struct err *err)
{
	WITH_LOCK(&f->lock);
	struct function *fn = find_function(f, n);

	if (!fn)
		return 0;
	return n->tag ? show_folder(fn, n, err) : show_disk(f, fn, n, err);
}

int fabric_hide(struct fabric *f, const struct fabric_namespace *n, struct err *err)
{
	WITH_LOCK(&f->lock);
	struct function *fn = find_function(f, n);
	struct disk **at = fn ? find_disk(fn, n) : NULL;

	if (fn && fn->fs)
		remove_folder(fn);
	return at && *at ? remove_disk(fn, at, err) : 0;
}

static int grow_disk(struct function *fn, struct disk *k, uint64_t bytes, struct err *err)
{
	k->bytes = bytes;
	if (k->lost)
		return 0;
	if (loopdev_grow(&k->loop, err))
		return -1;
	return disk_resized(fn, k, err);
}

int fabric_grow(struct fabric *f, const char *ns, const char *volume, uint64_t bytes,
                struct err *err)
{
	WITH_LOCK(&f->lock);
	char *image AUTO(free) = state_dir_image(&f->state, ns, volume);

	/* The first attachment creates the image. */
	if (path_exists(image) && image_make(image, bytes, err))
		return -1;
	for (struct host *h = f->hosts; h; h = h->next)
		for (size_t i = 0; i < h->n; i++)
			for (struct disk *k = h->functions[i].disks; k; k = k->next)
				if (str_eq(k->ns, ns) && str_eq(k->volume, volume) &&
				    grow_disk(&h->functions[i], k, bytes, err))
					return -1;
	return 0;
}

int fabric_remove_image(struct fabric *f, const char *ns, const char *volume, struct err *err)
{
	WITH_LOCK(&f->lock);
	char *image AUTO(free) = state_dir_image(&f->state, ns, volume);
	char *folder AUTO(free) = virtiofs_folder(f, ns, volume);

	if (path_exists(folder)) {
		devtree_clear(folder, NULL);
		if (rmdir(folder))
			return err_sys(err, errno, "remove %s", folder);
	}
	return file_remove(image, err);
}

void fabric_poke(struct fabric *f)
{
	host_writes_wake(f);
}
