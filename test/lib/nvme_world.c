/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated host. It has the directories and links of the recorded trees of QEMU's NVMe that
 * discovery reads; disk sequence numbers are those of the loop devices. The kernel frees the loop
 * devices (autoclear), even if the test is killed.
 */
#include "test/lib/nvme_world.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/blkpg.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "test/lib/wait.h"

#define PF "0000:26:00.0"

/* Check ends a failing test with _exit(), so the program that started it removes the folder. */
static pid_t program;

__attribute__((constructor)) static void remember_program(void)
{
	program = getpid();
}

__attribute__((destructor)) static void remove_leftovers(void)
{
	if (program == getpid() && geteuid() == 0)
		run_tool("rm -rf --one-file-system /var/tmp/snap-csi-test-%d-*", program);
}

static void need(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "nvme_world: %s: %s\n", what, strerrordesc_np(errno));
	abort();
}

static void make_dir(const char *path)
{
	struct err err = ERR_INIT;

	need(dir_make(path, 0755, &err) == 0, path);
}

static void write_attr(const char *dir, const char *name, const char *text)
{
	char *path AUTO(free) = xasprintf("%s/%s", dir, name);
	FILE *f = fopen(path, "w");

	need(f && fprintf(f, "%s\n", text) > 0 && fclose(f) == 0, path);
}

static void make_link(const char *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void make_link(const char *to, const char *fmt, ...)
{
	char path[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	unlink(path);
	need(symlink(to, path) == 0, path);
}

void private_mounts(void)
{
	if (geteuid() != 0)
		return;
	need(unshare(CLONE_NEWNS) == 0, "unshare");
	need(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "make / private");
}

void run_tool(const char *fmt, ...)
{
	struct strs argv AUTO(strs_clear) = STRS_INIT;
	struct str out AUTO(str_clear) = STR_INIT(4096);
	struct err err = ERR_INIT;
	char line[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	strs_add(&argv, "sh");
	strs_add(&argv, "-c");
	strs_add(&argv, line);
	if (spawn_run(&argv, wait_limit(), &out, &err) == 0)
		return;
	fprintf(stderr, "%s: %s%s\n", line, err.msg, out.ptr);
	abort();
}

/* ---- functions ---- */

static char *function_dir(const struct nvme_world *w, const char *pci)
{
	return xasprintf("%s/devices/pci0000:00/%s", w->sysfs, pci);
}

static void add_function(const struct nvme_world *w, const char *pci)
{
	char *dir AUTO(free) = function_dir(w, pci);
	char *to AUTO(free) = xasprintf("../../../devices/pci0000:00/%s", pci);

	make_dir(dir);
	write_attr(dir, "vendor", "0x15b3");
	write_attr(dir, "device", "0x6001");
	write_attr(dir, "class", "0x010802");
	write_attr(dir, "driver_override", "(null)");
	make_link(to, "%s/bus/pci/devices/%s", w->sysfs, pci);
	make_link("../../../bus/pci/drivers/nvme", "%s/driver", dir);
}

static void count_vfs(const struct nvme_world *w)
{
	char *dir AUTO(free) = function_dir(w, PF);
	char n[16];

	snprintf(n, sizeof(n), "%zu", w->n);
	write_attr(dir, "sriov_numvfs", n);
	write_attr(dir, "sriov_totalvfs", n);
}

/* Entries that a function has only while a driver is bound are moved aside until then. */
static void set_bound(const struct nvme_world *w, const char *pci, bool bound)
{
	char *dir AUTO(free) = function_dir(w, pci);

	if (bound)
		run_tool("ln -sfn ../../../bus/pci/drivers/nvme %s/driver && mv %s/.nvme %s/nvme",
		         dir, dir, dir);
	else
		run_tool("rm %s/driver && mv %s/nvme %s/.nvme", dir, dir, dir);
}

void nvme_world_unbind(struct nvme_world *w, struct nvme_disk *d)
{
	set_bound(w, d->pci, false);
}

/* The disk has the schedulers none and mq-deadline, 1023 requests at most, and pages of 4 KiB. */
static int write_queue(const char *path, const char *text)
{
	char *dir AUTO(free) = xstrndup(path, (size_t)(strrchr(path, '/') - path));
	const char *name = strrchr(path, '/') + 1;
	const unsigned long number = strtoul(text, NULL, 10);

	if (str_eq(name, "scheduler") && str_eq(text, "none"))
		run_tool("echo '[none] mq-deadline' > %s; echo 1023 > %s/nr_requests", path, dir);
	else if (str_eq(name, "scheduler") && str_eq(text, "mq-deadline"))
		run_tool("echo 'none [mq-deadline]' > %s; echo 256 > %s/nr_requests", path, dir);
	else if (str_eq(name, "scheduler") || number > 131072 ||
	         (str_eq(name, "nr_requests") && number > 1023))
		return EINVAL;
	else
		run_tool("echo %s > %s", text, path);
	return 0;
}

static int write_as_kernel(void *arg, const char *path, const char *text)
{
	const struct nvme_world *w = arg;
	char pci[16];

	if (strstr(path, "/queue/"))
		return write_queue(path, text);
	snprintf(pci, sizeof(pci), "%.15s", text);
	pci[strcspn(pci, "\n")] = '\0';
	if (str_has_suffix(path, "/drivers/nvme/bind"))
		set_bound(w, pci, true);
	else if (str_has_suffix(path, "/unbind"))
		set_bound(w, pci, false);
	else /* an empty override reads as "(null)" */
		run_tool("echo '%s' > %s", *pci ? pci : "(null)", path);
	return 0;
}

static char *below(const char *dir, const char *name)
{
	char *path = xasprintf("%s/%s", dir, name);

	make_dir(path);
	return path;
}

void nvme_world_init(struct nvme_world *w)
{
	static const char *const dirs[] = { "bus/pci/devices", "bus/pci/drivers/nvme",
		                            "class/block", "dev/block" };
	char template[64];

	memset(w, 0, sizeof(*w));
	snprintf(template, sizeof(template), "/var/tmp/snap-csi-test-%d-XXXXXX", program);
	need(mkdtemp(template) != NULL, template);
	w->root = xstrdup(template);
	w->sysfs = below(w->root, "sys");
	w->dev = below(w->root, "dev");
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		free(below(w->sysfs, dirs[i]));
	strs_add(&w->vendors, "15b3");
	w->writer = (struct sysfs_writer) { write_as_kernel, w };
	w->world = (struct device_world) { .writer = &w->writer,
		                           .sysfs = w->sysfs,
		                           .dev = w->dev,
		                           .vendors = &w->vendors,
		                           .snap_device_id = "6001" };
	add_function(w, PF);
	count_vfs(w);
}

/* ---- disks ---- */

/*
 * Retries: another process may take the free loop device before this one configures it, and for a
 * moment all may be in use.
 */
static void attach_loop(struct nvme_disk *d)
{
	int image AUTO(fd) = open(d->image, O_RDWR | O_CLOEXEC);
	int control AUTO(fd) = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	struct loop_config config = { .fd = (unsigned)image };
	struct deadline limit = wait_limit();
	struct stat st;

	config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
	/* mkfs.btrfs treats loop devices with the same (even empty) name as one device. */
	snprintf((char *)config.info.lo_file_name, sizeof(config.info.lo_file_name), "%s",
	         d->image);
	need(image >= 0 && control >= 0, "open image and loop-control");
	do {
		int n = ioctl(control, LOOP_CTL_GET_FREE);

		snprintf(d->loop, sizeof(d->loop), "/dev/loop%d", n);
		d->fd = n < 0 ? -1 : open(d->loop, O_RDWR | O_CLOEXEC);
		/* An earlier user may have left it read-only. */
		if (d->fd >= 0 && ioctl(d->fd, LOOP_CONFIGURE, &config) == 0 &&
		    ioctl(d->fd, BLKROSET, &(int) { 0 }) == 0) {
			need(fstat(d->fd, &st) == 0, d->loop);
			d->devno = st.st_rdev;
			return;
		}
		if (d->fd >= 0)
			close(d->fd);
	} while (wait_a_moment(limit));
	need(0, "a free loop device in time");
}

static void write_size(const struct nvme_disk *d)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)d->size / 512);
	write_attr(d->dir, "size", text);
}

void nvme_world_attr(const struct nvme_disk *d, const char *name, const char *text)
{
	write_attr(d->dir, name, text);
}

void nvme_world_show(struct nvme_world *w, struct nvme_disk *d)
{
	char *to AUTO(free) =
		xasprintf("../../devices/pci0000:00/%s/nvme/%.5s/%s", d->pci, d->name, d->name);
	char *queue AUTO(free) = xasprintf("%s/queue", d->dir);
	char text[64];
	uint64_t seq = 0;

	make_dir(queue);
	snprintf(text, sizeof(text), "%u:%u", major(d->devno), minor(d->devno));
	write_attr(d->dir, "dev", text);
	make_link(to, "%s/dev/block/%s", w->sysfs, text);
	make_link(to, "%s/class/block/%s", w->sysfs, d->name);
	snprintf(text, sizeof(text), "%u", d->nsid);
	write_attr(d->dir, "nsid", text);
	write_attr(d->dir, "ro", "0");
	write_attr(d->dir, "hidden", "0");
	write_attr(queue, "scheduler", "[none] mq-deadline");
	write_attr(queue, "nr_requests", "1023");
	write_attr(queue, "read_ahead_kb", "128");
	write_attr(queue, "rq_affinity", "1");
	if (ioctl(d->fd, BLKGETDISKSEQ, &seq) == 0) {
		snprintf(text, sizeof(text), "%llu", (unsigned long long)seq);
		write_attr(d->dir, "diskseq", text);
	}
	if (*d->uuid) {
		snprintf(text, sizeof(text), "uuid.%s", d->uuid);
		write_attr(d->dir, "uuid", d->uuid);
		write_attr(d->dir, "wwid", text);
	}
	write_size(d);
	need(mknod(d->node, S_IFBLK | 0600, d->devno) == 0, d->node);
}

void nvme_world_hide(struct nvme_world *w, struct nvme_disk *d)
{
	run_tool("rm -rf %s %s %s/class/block/%s %s/dev/block/%u:%u", d->dir, d->node, w->sysfs,
	         d->name, w->sysfs, major(d->devno), minor(d->devno));
}

void nvme_world_reattach(struct nvme_world *w, struct nvme_disk *d)
{
	nvme_world_hide(w, d);
	close(d->fd);
	attach_loop(d);
	nvme_world_show(w, d);
}

struct nvme_disk *nvme_world_add(struct nvme_world *w, uint32_t nsid, const char *uuid,
                                 uint64_t size)
{
	struct nvme_disk *d = &w->disks[w->n];
	char *function AUTO(free) = NULL, *controller AUTO(free) = NULL, *up AUTO(free) = NULL;
	unsigned vf = (unsigned)w->n + 1;
	int fd;

	need(w->n < NVME_WORLD_DISKS, "too many disks");
	w->n++;
	snprintf(d->name, sizeof(d->name), "nvme%un1", vf);
	snprintf(d->pci, sizeof(d->pci), "0000:26:00.%u", vf);
	snprintf(d->uuid, sizeof(d->uuid), "%s", uuid);
	d->nsid = nsid;
	d->size = size;
	d->node = xasprintf("%s/%s", w->dev, d->name);
	d->image = xasprintf("%s/%s.img", w->root, d->name);
	fd = open(d->image, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	need(fd >= 0 && ftruncate(fd, (off_t)size) == 0 && close(fd) == 0, d->image);
	attach_loop(d);

	add_function(w, d->pci);
	function = function_dir(w, d->pci);
	make_link("../" PF, "%s/physfn", function);
	up = xasprintf("../%s", d->pci);
	make_link(up, "%s/devices/pci0000:00/" PF "/virtfn%u", w->sysfs, vf - 1);
	controller = xasprintf("%s/nvme/nvme%u", function, vf);
	make_dir(controller);
	write_attr(controller, "state", "live");
	d->dir = xasprintf("%s/%s", controller, d->name);
	nvme_world_show(w, d);
	count_vfs(w);
	return d;
}

void nvme_world_resize(struct nvme_disk *d, uint64_t size)
{
	need(truncate(d->image, (off_t)size) == 0, d->image);
	need(ioctl(d->fd, LOOP_SET_CAPACITY, 0) == 0, "LOOP_SET_CAPACITY");
	d->size = size;
	write_size(d);
}

static void change_part(const struct nvme_disk *d, int op)
{
	struct blkpg_partition part = { .start = 1024 * 1024, .length = 8 * 1024 * 1024, .pno = 1 };
	struct blkpg_ioctl_arg arg = { .op = op, .data = &part };

	/* A tool of another test, such as mkfs.btrfs, may open each block device of the machine. */
	for (struct deadline limit = wait_limit(); ioctl(d->fd, BLKPG, &arg) < 0;)
		need(errno == EBUSY && wait_a_moment(limit), "BLKPG");
}

void nvme_part_add(const struct nvme_world *w, const struct nvme_disk *d, struct nvme_part *ret)
{
	struct loop_info64 info;

	/* With this flag the partition is removed with the loop device, even if the test fails. */
	need(ioctl(d->fd, LOOP_GET_STATUS64, &info) == 0, "LOOP_GET_STATUS64");
	info.lo_flags |= LO_FLAGS_PARTSCAN;
	need(ioctl(d->fd, LOOP_SET_STATUS64, &info) == 0, "LOOP_SET_STATUS64");
	change_part(d, BLKPG_ADD_PARTITION);
	snprintf(ret->name, sizeof(ret->name), "%sp1", strrchr(d->loop, '/') + 1);
	ret->node = xasprintf("%s/%s", w->dev, ret->name);
	run_tool("cp -a /dev/%s %s", ret->name, ret->node);
}

void nvme_part_remove(const struct nvme_disk *d, struct nvme_part *p)
{
	change_part(d, BLKPG_DEL_PARTITION);
	free(p->node);
}

void nvme_disk_write(const struct nvme_disk *d, uint64_t offset, const void *bytes, size_t n)
{
	need(pwrite(d->fd, bytes, n, (off_t)offset) == (ssize_t)n && fsync(d->fd) == 0, d->loop);
}

void nvme_world_clear(struct nvme_world *w)
{
	char *root = w->root;

	for (size_t i = 0; i < w->n; i++) {
		struct nvme_disk *d = &w->disks[i];
		int off = 0;

		ioctl(d->fd, BLKROSET, &off);
		close(d->fd);
		free(d->node);
		free(d->image);
		free(d->dir);
	}
	free(w->sysfs);
	free(w->dev);
	strs_clear(&w->vendors);
	/* Nothing may be deleted through a mount that still exists below. */
	run_tool("for m in $(awk '$5 ~ \"^%s/\" {print $5}' /proc/self/mountinfo | sort -r); do "
	         "umount -l $m; done; rm -rf --one-file-system %s",
	         root, root);
	free(root);
	memset(w, 0, sizeof(*w));
}
