/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See kernel.h. Owns the list of writes and changes only the given tree. PCI functions are bound as
 * in drivers/base/bus.c.
 */
#include "test/lib/kernel.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"

/* ---- bind and unbind ---- */

static char *function_path(const char *pci, const char *name)
{
	return xasprintf("/sys/bus/pci/devices/%s/%s", pci, name);
}

/* Name of the driver, malloc'ed, or NULL. */
static char *driver_of(const struct kernel *k, const char *pci)
{
	char *path AUTO(free) = function_path(pci, "driver");
	char *whole AUTO(free) = tree_path(k->tree, path);
	struct err err = ERR_INIT;
	char *name;

	return link_basename(whole, &name, &err) == 0 ? name : NULL;
}

/* Whether the driver accepts the function: with autoprobe off, only by driver_override. */
static bool matches(const struct kernel *k, const char *pci, const char *driver)
{
	char *override_path AUTO(free) = function_path(pci, "driver_override");
	char *override AUTO(free) = tree_read(k->tree, override_path);
	char *probe_path AUTO(free) = function_path(pci, "physfn/sriov_drivers_autoprobe");
	char *autoprobe AUTO(free) = tree_read(k->tree, probe_path);

	if (override && *override && strcmp(override, "(null)") != 0)
		return strcmp(override, driver) == 0;
	return !autoprobe || strcmp(autoprobe, "1") == 0;
}

static int apply_bind(const struct kernel *k, const char *driver, const char *pci)
{
	char *function AUTO(free) = function_path(pci, "vendor");
	char *link AUTO(free) = function_path(pci, "driver");
	char *holder AUTO(free) = driver_of(k, pci);
	char *present AUTO(free) = tree_read(k->tree, function);
	char *target AUTO(free) = xasprintf("../../../../bus/pci/drivers/%s", driver);

	if (!present || !matches(k, pci, driver))
		return ENODEV;
	if (holder)
		return EBUSY;
	tree_link(k->tree, link, target);
	return 0;
}

/* 3 of "virtio3". */
static unsigned number_of(const char *virtio)
{
	return (unsigned)strtoul(virtio + strlen("virtio"), NULL, 10);
}

/* The virtio devices of a function are removed with its driver. */
static void remove_children(const struct kernel *k, const char *pci)
{
	char *function AUTO(free) = function_path(pci, "");
	char *whole AUTO(free) = tree_path(k->tree, function);
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err ignored = ERR_INIT;

	IGNORE_RESULT(dir_list(whole, &names, &ignored));
	for (size_t i = 0; i < names.n; i++)
		if (str_has_prefix(names.v[i], "virtio"))
			kernel_remove_virtio(k->tree, number_of(names.v[i]));
}

static int apply_unbind(const struct kernel *k, const char *driver, const char *pci)
{
	char *holder AUTO(free) = driver_of(k, pci);
	char *link AUTO(free) = function_path(pci, "driver");
	char *controllers AUTO(free) = function_path(pci, "nvme");
	char *whole AUTO(free) = tree_path(k->tree, controllers);

	if (!holder || strcmp(holder, driver) != 0)
		return ENODEV;
	if (path_exists(whole))
		tree_remove(k->tree, controllers);
	remove_children(k, pci);
	tree_remove(k->tree, link);
	return 0;
}

static int apply_override(const struct kernel *k, const char *path, const char *text)
{
	const char *in_tree = path + strlen(k->tree->root);

	if (!path_exists(path))
		return ENOENT;
	tree_write(k->tree, in_tree, strcmp(text, "\n") == 0 ? "(null)\n" : text);
	return 0;
}

/* ---- the writer ---- */

static struct kernel_fault *fault_for(struct kernel *k, const char *attribute)
{
	for (size_t i = 0; i < ARRAY_LEN(k->faults); i++) {
		struct kernel_fault *f = &k->faults[i];

		if (f->attribute && f->times > 0 && strcmp(f->attribute, attribute) == 0)
			return f;
	}
	return NULL;
}

static int apply(struct kernel *k, const char *path, const char *attribute, const char *text)
{
	/* <root>/sys/bus/pci/drivers/<driver>/bind */
	char *dir AUTO(free) = xstrndup(path, (size_t)(attribute - 1 - path));
	const char *driver = strrchr(dir, '/') + 1;

	if (strstr(path, "/bus/virtio/drivers/virtiofs/bind"))
		return kernel_bind_virtio(k->tree, number_of(text));
	if (strcmp(attribute, "bind") == 0)
		return apply_bind(k, driver, text);
	if (strcmp(attribute, "unbind") == 0)
		return apply_unbind(k, driver, text);
	if (strcmp(attribute, "driver_override") == 0)
		return apply_override(k, path, text);
	return EACCES;
}

static int write_locked(struct kernel *k, const char *path, const char *text)
{
	const char *attribute = strrchr(path, '/') + 1;
	struct kernel_fault *fault = fault_for(k, attribute);

	strs_addf(&k->writes, "%s %.*s", attribute, (int)strcspn(text, "\n"), text);
	if (!fault)
		return apply(k, path, attribute, text);
	fault->times--;
	if (fault->applied)
		apply(k, path, attribute, text);
	return fault->errnum;
}

static int write_attribute(void *arg, const char *path, const char *text)
{
	struct kernel *k = arg;
	bool binds = str_has_suffix(path, "/bind") && strstr(path, "/bus/pci/");
	int e;

	if (binds)
		usleep(k->bind_ms * 1000);
	{
		WITH_LOCK(&k->lock);
		e = write_locked(k, path, text);
	}
	if (e == 0 && binds && k->on_bind)
		k->on_bind(k, text);
	return e;
}

void kernel_init(struct kernel *k, const struct tree *t)
{
	*k = (struct kernel) { .tree = t, .lock = PTHREAD_MUTEX_INITIALIZER, .writes = STRS_INIT };
	k->writer = (struct sysfs_writer) { .write = write_attribute, .arg = k };
}

void kernel_clear(struct kernel *k)
{
	strs_clear(&k->writes);
}

char *kernel_writes(struct kernel *k)
{
	WITH_LOCK(&k->lock);
	return strs_join(&k->writes, "; ");
}

/* ---- namespaces ---- */

static void write_attr(const struct tree *t, const char *dir, const char *name, const char *fmt,
                       ...) PRINTF_(4, 5);
static void write_attr(const struct tree *t, const char *dir, const char *name, const char *fmt,
                       ...)
{
	char *path AUTO(free) = xasprintf("%s/%s", dir, name);
	char text[100];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	tree_write(t, path, text);
}

static void add_disk(const struct tree *t, const char *dir, const char *name,
                     const struct kernel_namespace *n, bool hidden)
{
	char *made AUTO(free) = xasprintf("%s/.%s", dir, name);
	char *final AUTO(free) = xasprintf("%s/%s", dir, name);
	char *link AUTO(free) = xasprintf("/sys/class/block/%s", name);
	char *target AUTO(free) = xasprintf("../../%s", final + strlen("/sys/"));

	write_attr(t, made, "nsid", "%u\n", n->nsid);
	write_attr(t, made, "size", "%ju\n", (uintmax_t)n->size / 512);
	write_attr(t, made, "ro", "0\n");
	write_attr(t, made, "hidden", "%d\n", hidden);
	if (n->diskseq)
		write_attr(t, made, "diskseq", "%ju\n", (uintmax_t)n->diskseq);
	if (n->uuid) {
		write_attr(t, made, "uuid", "%s\n", n->uuid);
		write_attr(t, made, "wwid", "uuid.%s\n", n->uuid);
	}
	if (!hidden)
		write_attr(t, made, "dev", "%s\n", n->dev);
	tree_rename(t, made, final);
	tree_link(t, link, target);
}

void kernel_add_namespace(const struct tree *t, const struct kernel_namespace *n)
{
	char *controller AUTO(free) = xasprintf("%s/nvme/nvme%u", n->function, n->controller);
	char *path AUTO(free) = xasprintf("nvme%uc%un%u", n->subsystem, n->controller, n->instance);
	char *head AUTO(free) = xasprintf("nvme%un%u", n->subsystem, n->instance);
	char *subsystem AUTO(free) =
		xasprintf("/sys/devices/virtual/nvme-subsystem/nvme-subsys%u", n->subsystem);
	char *number AUTO(free) = xasprintf("/sys/dev/block/%s", n->dev);
	char *target AUTO(free) = xasprintf("../../%s/%s", subsystem + strlen("/sys/"), head);

	write_attr(t, controller, "state", "live\n");
	add_disk(t, controller, path, n, true);
	add_disk(t, subsystem, head, n, false);
	tree_link(t, number, target);
}

/* ---- shares ---- */

/* "/sys/bus/virtio/devices/virtio3/<name>"; "" is the link itself. */
static char *virtio_path(unsigned n, const char *name)
{
	return xasprintf("/sys/bus/virtio/devices/virtio%u%s%s", n, *name ? "/" : "", name);
}

void kernel_add_virtio(const struct tree *t, const struct kernel_share *s)
{
	char *made AUTO(free) = xasprintf("/sys/bus/pci/devices/%s/.new", s->pci);
	char *final AUTO(free) = xasprintf("/sys/bus/pci/devices/%s/virtio%u", s->pci, s->n);
	char *link AUTO(free) = virtio_path(s->n, "");
	char *target AUTO(free) = xasprintf("../../pci/devices/%s/virtio%u", s->pci, s->n);

	write_attr(t, made, "device", "0x001a\n");
	write_attr(t, made, "vendor", "0x1af4\n");
	write_attr(t, made, "status", "0x00000001\n");
	/* Attributes that only this simulated kernel reads: the tag, and whether it is shown. */
	write_attr(t, made, ".tag", "%s", s->tag);
	write_attr(t, made, ".shown", "%d", s->shown);
	tree_rename(t, made, final);
	tree_link(t, link, target);
}

static char *tag_of(const struct tree *t, unsigned n)
{
	char *path AUTO(free) = virtio_path(n, ".tag");

	return tree_read(t, path);
}

static bool tag_is_taken(const struct tree *t, const char *tag)
{
	char *dir AUTO(free) = tree_path(t, "/sys/bus/virtio/drivers/virtiofs");
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err ignored = ERR_INIT;

	IGNORE_RESULT(dir_list(dir, &names, &ignored));
	for (size_t i = 0; i < names.n; i++) {
		char *has AUTO(free) = str_has_prefix(names.v[i], "virtio")
		                               ? tag_of(t, number_of(names.v[i]))
		                               : NULL;

		if (has && strcmp(has, tag) == 0)
			return true;
	}
	return false;
}

int kernel_bind_virtio(const struct tree *t, unsigned n)
{
	char *device AUTO(free) = virtio_path(n, "");
	char *driver AUTO(free) = virtio_path(n, "driver");
	char *status AUTO(free) = virtio_path(n, "status");
	char *shown_path AUTO(free) = virtio_path(n, ".shown");
	char *holds AUTO(free) = xasprintf("/sys/bus/virtio/drivers/virtiofs/virtio%u", n);
	char *tag AUTO(free) = tag_of(t, n);
	char *shown AUTO(free) = tree_read(t, shown_path);
	char *before AUTO(free) = tree_read(t, status);
	char *dir AUTO(free) = xasprintf("/sys/fs/virtiofs/%u", n);
	char *back AUTO(free) = xasprintf("%s/device", dir);
	char *target AUTO(free) = xasprintf("../../../bus/virtio/devices/virtio%u", n);
	bool has_failed;

	if (!tag)
		return ENODEV;
	/* A failed device stays failed until its function is bound again. */
	has_failed = strcmp(before, "0x00000080") == 0;
	if (tag_is_taken(t, tag)) {
		tree_write(t, status, "0x00000080\n");
		return EEXIST;
	}
	tree_write(t, status, has_failed ? "0x0000008e\n" : "0x0000000f\n");
	tree_link(t, driver, "../../../../virtio/drivers/virtiofs");
	tree_link(t, holds, device + strlen("/sys/bus"));
	if (strcmp(shown, "1") == 0) {
		write_attr(t, dir, "tag", "%s\n", tag);
		tree_link(t, back, target);
	}
	return 0;
}

void kernel_remove_virtio(const struct tree *t, unsigned n)
{
	char *device AUTO(free) = virtio_path(n, "");
	char *link AUTO(free) = tree_path(t, device);
	char *real AUTO(free) = realpath(link, NULL);
	char *gone[] = { real ? xstrdup(real + strlen(t->root)) : NULL, xstrdup(device),
		         xasprintf("/sys/bus/virtio/drivers/virtiofs/virtio%u", n),
		         xasprintf("/sys/fs/virtiofs/%u", n) };

	for (size_t i = 0; i < ARRAY_LEN(gone); i++) {
		char *whole AUTO(free) = gone[i] ? tree_path(t, gone[i]) : NULL;

		if (whole && path_exists(whole))
			tree_remove(t, gone[i]);
		free(gone[i]);
	}
}
