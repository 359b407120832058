/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acts on the host's writes to its sysfs.
 *
 * bind, unbind and drivers_probe are FIFOs: each write arrives whole and in order, as in the
 * kernel, even when two volumes are staged at once. In a regular file the second writer would
 * overwrite the first before the thread has read it. driver_override and sriov_numvfs are read
 * back, so they are regular files, and inotify reports when a writer closes them. Unlike in the
 * kernel, a refused write does not fail: the function just stays unchanged.
 */
#include "test/sim/fabric/host_writes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "test/sim/base/sim.h"
#include "test/sim/fabric/devtree.h"
#include "test/sim/fabric/tree.h"

#define HOSTS_MAX 64
#define FIFOS 6
#define DRIVERS "sys/bus/pci/drivers/"

static char *path_of(const struct host *h, const char *below)
{
	return xasprintf("%s/%s", h->root, below);
}

/*
 * snap-sim holds both ends, so that a write never waits for a reader and a read never sees the end.
 */
static int open_fifo(const struct host *h, const char *below, int *ret, struct err *err)
{
	char *path AUTO(free) = path_of(h, below);

	*ret = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	return *ret < 0 ? err_sys(err, errno, "open %s", path) : 0;
}

static int watch(const struct host *h, const char *dir, const char *name)
{
	char *path AUTO(free) = xasprintf("%s/sys/%s/%s", h->root, dir, name);

	return inotify_add_watch(h->fabric->inotify_fd, path, IN_CLOSE_WRITE);
}

void host_watch_function(struct function *fn)
{
	fn->watch = watch(fn->host, fn->dir, "driver_override");
}

int host_listen(struct host *h, struct err *err)
{
	if (open_fifo(h, DRIVERS "nvme/bind", &h->nvme.bind_fd, err) ||
	    open_fifo(h, DRIVERS "nvme/unbind", &h->nvme.unbind_fd, err) ||
	    open_fifo(h, DRIVERS "virtio-pci/bind", &h->virtio.bind_fd, err) ||
	    open_fifo(h, DRIVERS "virtio-pci/unbind", &h->virtio.unbind_fd, err) ||
	    open_fifo(h, "sys/bus/virtio/drivers/virtiofs/bind", &h->virtiofs_fd, err) ||
	    open_fifo(h, "sys/bus/pci/drivers_probe", &h->probe_fd, err))
		return -1;
	h->numvfs_watch = watch(h, h->functions[0].dir, "sriov_numvfs");
	return 0;
}

static struct function *function_by_bdf(const struct host *h, const char *bdf)
{
	for (size_t i = 0; i < h->n; i++)
		if (h->functions[i].present && strncmp(h->functions[i].bdf, bdf, BDF_LENGTH) == 0)
			return &h->functions[i];
	return NULL;
}

static void log_host(const struct host *h, const char *what, const char *bdf, const char *answer)
{
	sim_log("%s: %s %.*s: %s", h->name, what, BDF_LENGTH, bdf, answer);
}

/*
 * Without a driver_override a driver may bind a VF only if the PF's sriov_drivers_autoprobe is 1.
 */
static bool may_bind(const struct function *fn)
{
	char *override AUTO(free) = function_override(fn);

	if (*override)
		return str_eq(override, function_driver(fn));
	return fn->kind != FUNCTION_VF || host_autoprobe(fn->host);
}

bool host_ignores_bind(const struct function *fn)
{
	const char *volume = fn->fs ? fn->fs->volume : fn->disks ? fn->disks->volume : NULL;

	return faults_dpf(fn->host->fabric->faults, FAULT_BIND_IGNORED, fn->bdf, volume, NULL);
}

/* driver NULL: the matching one. */
static void on_bind(struct host *h, const char *driver, const char *bdf)
{
	struct function *fn = function_by_bdf(h, bdf);
	struct err err = ERR_INIT;

	if (!fn)
		log_host(h, "bind", bdf, "no such function");
	else if (fn->bound)
		log_host(h, "bind", bdf, "is bound already (EBUSY)");
	else if (driver && !str_eq(driver, function_driver(fn)))
		log_host(h, "bind", bdf, "is no function of this driver (ENODEV)");
	else if (!may_bind(fn))
		log_host(
			h, "bind", bdf,
			"driver_override is another driver, or none and sriov_drivers_autoprobe is 0 (ENODEV)");
	else if (host_ignores_bind(fn))
		log_host(h, "bind", bdf, "ignored, as a fault says");
	else if (function_bind(fn, &err))
		log_msg(LOG_ERROR, "%s: bind %s: %s", h->name, fn->bdf, err.msg);
	else
		log_host(h, "bind", bdf, "done");
}

static void on_unbind(struct host *h, const char *driver, const char *bdf)
{
	struct function *fn = function_by_bdf(h, bdf);

	if (!fn || !fn->bound || !str_eq(driver, function_driver(fn))) {
		log_host(h, "unbind", bdf, "not bound to this driver (ENODEV)");
		return;
	}
	function_unbind(fn);
	log_host(h, "unbind", bdf, "done");
}

/*
 * Writers may omit the newline, so that two writes arrive as one read. Addresses all have the same
 * length.
 */
static void read_fifo(struct host *h, int fd, const char *driver,
                      void (*act)(struct host *h, const char *driver, const char *bdf))
{
	char text[4096];
	ssize_t n = read(fd, text, sizeof(text) - 1);
	const char *at = text;

	if (n <= 0)
		return;
	text[n] = '\0';
	for (;;) {
		at += strspn(at, " \t\r\n");
		if (strlen(at) < BDF_LENGTH)
			break;
		act(h, driver, at);
		at += BDF_LENGTH;
	}
	if (*at)
		log_msg(LOG_WARNING, "%s: \"%s\" is no PCI address", h->name, at);
}

/* Names of virtio devices vary in length, so each needs its newline, or its own read. */
static void read_virtio_names(struct host *h)
{
	char text[4096];
	ssize_t n = read(h->virtiofs_fd, text, sizeof(text) - 1);
	unsigned number;

	text[n > 0 ? n : 0] = '\0';
	for (char *at = strstr(text, "virtio"); at; at = strstr(at + 1, "virtio")) {
		for (size_t i = 0; i < h->n && sscanf(at, "virtio%u", &number) == 1; i++) {
			struct function *fn = &h->functions[i];
			struct err err = ERR_INIT;

			if (fn->fs && fn->fs->there && fn->fs->instance == number &&
			    function_take_virtio(fn, &err))
				log_msg(LOG_ERROR, "%s: %s: %s", h->name, fn->bdf, err.msg);
		}
	}
}

/* ---- attributes ---- */

static void on_sigio(int number)
{
	(void)number;
}

/* Whether the attribute is empty; false if it cannot be read. */
static bool override_is_empty(int fd)
{
	char text[64];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	if (n < 0)
		return false;
	text[n] = '\0';
	return !text[strspn(text, " \n")];
}

/*
 * An empty write means "no override" and must read back as "(null)". The file is rewritten under a
 * write lease, which is granted only while no process has the file open and makes others wait to
 * open it, so that no write of the host is overwritten. It is opened for writing only if it must be
 * written, because closing it is then an event, too.
 */
static void normalize_override(const struct function *fn)
{
	char *path AUTO(free) = xasprintf("%s/sys/%s/driver_override", fn->host->root, fn->dir);
	int look AUTO(fd) = open(path, O_RDONLY | O_CLOEXEC);
	int fd AUTO(fd) = -1;

	if (look < 0 || !override_is_empty(look))
		return;
	close(TAKE_FD(look));
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fcntl(fd, F_SETLEASE, F_WRLCK))
		return;
	if (override_is_empty(fd) && ftruncate(fd, 0) == 0)
		IGNORE_RESULT(pwrite(fd, "(null)\n", strlen("(null)\n"), 0));
	fcntl(fd, F_SETLEASE, F_UNLCK);
}

/* sriov_numvfs was written: creates or removes VFs. */
static void on_numvfs(struct host *h)
{
	const struct sim_options *o = h->fabric->options;
	char *path AUTO(free) = xasprintf("%s/sys/%s/sriov_numvfs", h->root, h->functions[0].dir);
	char *text AUTO(free) = NULL;
	struct err err = ERR_INIT;
	uint64_t wanted = 0;

	if (file_read_line(path, 64, &text, &err) ||
	    parse_u64("sriov_numvfs", text, &wanted, &err)) {
		err_clear(&err); /* not yet written after the truncation, or not a number */
		return;
	}
	sim_log("%s: sriov_numvfs is now %s", h->name, text);
	for (size_t i = 1; i <= o->vfs; i++) {
		struct function *fn = &h->functions[i];

		if (fn->present && fn->index >= wanted) {
			function_vanish(fn);
		} else if (!fn->present && fn->index < wanted) {
			if (function_appear(fn, &err) ||
			    (host_autoprobe(h) && function_bind(fn, &err))) {
				log_msg(LOG_ERROR, "%s: VF %s: %s", h->name, fn->bdf, err.msg);
				return;
			}
			host_watch_function(fn);
		}
	}
}

static void on_attribute(struct fabric *f, int watch_id)
{
	for (struct host *h = f->hosts; h; h = h->next) {
		if (watch_id == h->numvfs_watch) {
			on_numvfs(h);
			return;
		}
		for (size_t i = 0; i < h->n; i++) {
			if (h->functions[i].present && h->functions[i].watch == watch_id) {
				normalize_override(&h->functions[i]);
				return;
			}
		}
	}
}

static void read_inotify(struct fabric *f)
{
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t n = read(f->inotify_fd, events, sizeof(events));

	for (ssize_t at = 0; at < n;) {
		struct inotify_event e;

		memcpy(&e, events + at, sizeof(e));
		if (e.mask & IN_CLOSE_WRITE)
			on_attribute(f, e.wd);
		at += (ssize_t)(sizeof(e) + e.len);
	}
}

/* ---- faults ---- */

/* Replaces the FIFO by a device node without a driver, so that open() fails with ENXIO. */
static void refuse_bind(struct host *h, const char *bind, int *fd)
{
	char *node AUTO(free) = path_of(h, "new/bind");
	struct devtree t = DEVTREE_INIT(h->root);
	struct err err = ERR_INIT;

	if (mknod(node, S_IFCHR | 0200, makedev(0, 0))) {
		log_msg(LOG_ERROR, "%s: cannot put a refusing node in place of %s", h->name, bind);
		return;
	}
	devtree_rename(&t, "new/bind", bind);
	if (devtree_end(&t, &err))
		log_msg(LOG_ERROR, "%s: %s", h->name, err.msg);
	close(TAKE_FD(*fd));
}

static void accept_bind(struct host *h, const char *bind, int *fd)
{
	struct devtree t = DEVTREE_INIT(h->root);
	struct err err = ERR_INIT;

	devtree_fifo(&t, "new", "bind");
	devtree_rename(&t, "new/bind", bind);
	if (devtree_end(&t, &err) || open_fifo(h, bind, fd, &err))
		log_msg(LOG_ERROR, "%s: %s", h->name, err.msg);
}

static void apply_fault(struct host *h, bool refuse, const char *bind, int *fd)
{
	if (refuse && *fd >= 0)
		refuse_bind(h, bind, fd);
	else if (!refuse && *fd < 0)
		accept_bind(h, bind, fd);
}

static void apply_faults(struct fabric *f)
{
	for (struct host *h = f->hosts; h; h = h->next) {
		bool refuse = faults_dpf(f->faults, FAULT_BIND_REFUSED, h->name, NULL, NULL);

		apply_fault(h, refuse, DRIVERS "nvme/bind", &h->nvme.bind_fd);
		apply_fault(h, refuse, DRIVERS "virtio-pci/bind", &h->virtio.bind_fd);
	}
}

void host_writes_wake(struct fabric *f)
{
	IGNORE_RESULT(eventfd_write(f->wake_fd, 1));
}

/* ---- the thread ---- */

static nfds_t collect(const struct fabric *f, struct pollfd *fds)
{
	nfds_t n = 0;

	fds[n++] = (struct pollfd) { .fd = f->wake_fd, .events = POLLIN };
	fds[n++] = (struct pollfd) { .fd = f->inotify_fd, .events = POLLIN };
	for (const struct host *h = f->hosts; h; h = h->next) {
		fds[n++] = (struct pollfd) { .fd = h->nvme.bind_fd, .events = POLLIN };
		fds[n++] = (struct pollfd) { .fd = h->nvme.unbind_fd, .events = POLLIN };
		fds[n++] = (struct pollfd) { .fd = h->virtio.bind_fd, .events = POLLIN };
		fds[n++] = (struct pollfd) { .fd = h->virtio.unbind_fd, .events = POLLIN };
		fds[n++] = (struct pollfd) { .fd = h->probe_fd, .events = POLLIN };
		fds[n++] = (struct pollfd) { .fd = h->virtiofs_fd, .events = POLLIN };
	}
	return n;
}

static void obey(struct fabric *f, const struct pollfd *fds)
{
	const struct pollfd *at = fds + 2;

	if (fds[1].revents)
		read_inotify(f);
	for (struct host *h = f->hosts; h; h = h->next, at += FIFOS) {
		if (at[1].revents)
			read_fifo(h, h->nvme.unbind_fd, "nvme", on_unbind);
		if (at[0].revents)
			read_fifo(h, h->nvme.bind_fd, "nvme", on_bind);
		if (at[3].revents)
			read_fifo(h, h->virtio.unbind_fd, "virtio-pci", on_unbind);
		if (at[2].revents)
			read_fifo(h, h->virtio.bind_fd, "virtio-pci", on_bind);
		if (at[4].revents)
			read_fifo(h, h->probe_fd, NULL, on_bind);
		if (at[5].revents)
			read_virtio_names(h);
	}
	if (fds[0].revents)
		apply_faults(f);
}

static void *run(void *arg)
{
	struct fabric *f = arg;
	struct pollfd fds[2 + FIFOS * HOSTS_MAX];
	nfds_t n;
	eventfd_t ignored;

	for (;;) {
		{
			WITH_LOCK(&f->lock);
			if (f->stop)
				return NULL;
			n = collect(f, fds);
		}
		if (poll(fds, n, -1) < 0 && errno != EINTR)
			abort();
		if (fds[0].revents)
			IGNORE_RESULT(eventfd_read(f->wake_fd, &ignored));
		WITH_LOCK(&f->lock);
		obey(f, fds);
	}
}

int host_writes_start(struct fabric *f, struct err *err)
{
	/*
	 * The kernel sends SIGIO when a process waits for a lease to end; the signal must not end
	 * this process.
	 */
	struct sigaction act = { .sa_handler = on_sigio, .sa_flags = SA_RESTART };
	int rc;

	sigaction(SIGIO, &act, NULL);
	rc = pthread_create(&f->thread, NULL, run, f);
	if (rc)
		return err_sys(err, rc, "start the fabric's thread");
	f->thread_runs = true;
	return 0;
}

void host_writes_stop(struct fabric *f)
{
	if (!f->thread_runs)
		return;
	{
		WITH_LOCK(&f->lock);
		f->stop = true;
	}
	host_writes_wake(f);
	pthread_join(f->thread, NULL);
	f->thread_runs = false;
}
