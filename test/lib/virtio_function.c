/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See virtio_function.h. The contents of BAR 4 are in the function's file "bar4", which no real one
 * has.
 */
#include "test/lib/virtio_function.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"

/* The list of QEMU 7.2: MSI-X, then the capabilities of virtio. */
enum { WINDOW = 0xc8, NOTIFY = 0xb4, DEVICE = 0xa4, ISR = 0x94, COMMON = 0x84, MSIX = 0xdc };
enum { DEVICE_AT = 0x2000, BAR = 4, TAG = 36 };

static atomic_bool locked_down;
static atomic_uint looks;

void virtio_function_lock_down(bool locked)
{
	locked_down = locked;
}

unsigned virtio_function_looks(void)
{
	return looks;
}

static void write_file(const char *dir, const char *name, const void *bytes, size_t n)
{
	char *path AUTO(free) = xasprintf("%s/%s", dir, name);
	struct err err = ERR_INIT;

	ck_assert_msg(!dir_make(dir, 0755, &err), "%s", err.msg);
	ck_assert_msg(!file_replace(path, bytes, n, 0644, &err), "%s", err.msg);
}

static void write_text(const char *dir, const char *name, const char *text)
{
	write_file(dir, name, text, strlen(text));
}

static void capability(uint8_t *config, unsigned at, unsigned next, unsigned len, unsigned type,
                       unsigned offset)
{
	const uint8_t bytes[] = { 0x09, (uint8_t)next, (uint8_t)len, (uint8_t)type, BAR };
	const uint8_t length[] = { 0, 0x10, 0, 0 };

	memcpy(config + at, bytes, sizeof(bytes));
	config[at + 9] = (uint8_t)(offset >> 8);
	memcpy(config + at + 12, length, sizeof(length));
}

void virtio_function_set_tag(const char *sysfs, const char *pci, const char *tag)
{
	char *dir AUTO(free) = xasprintf("%s/bus/pci/devices/%s", sysfs, pci);
	uint8_t bar[DEVICE_AT + TAG + 4] = { 0 };

	if (tag)
		memcpy(bar + DEVICE_AT, tag, strnlen(tag, TAG));
	bar[DEVICE_AT + TAG] = 1; /* num_request_queues, right behind it */
	write_file(dir, "bar4", bar, sizeof(bar));
}

void virtio_function_add(const char *sysfs, const char *pci, const char *vendor, const char *tag)
{
	char *dir AUTO(free) = xasprintf("%s/bus/pci/devices/%s", sysfs, pci);
	uint8_t config[256] = { 0xf4, 0x1a, 0x5a, 0x10, 0, 0, 0x10 };

	config[0x34] = MSIX;
	config[MSIX] = 0x11;
	config[MSIX + 1] = WINDOW;
	capability(config, WINDOW, NOTIFY, 20, 5, 0);
	memset(config + WINDOW + 8, 0, 8);
	capability(config, NOTIFY, DEVICE, 20, 2, 0x3000);
	capability(config, DEVICE, ISR, 16, 4, DEVICE_AT);
	capability(config, ISR, COMMON, 16, 3, 0x1000);
	capability(config, COMMON, 0, 16, 1, 0);
	write_text(dir, "class", "0x018000\n");
	write_text(dir, "vendor", vendor);
	write_text(dir, "device", "0x105a\n");
	write_text(dir, "driver_override", "(null)\n");
	write_file(dir, "config", config, sizeof(config));
	virtio_function_set_tag(sysfs, pci, tag);
}

/* ---- the window ---- */

/* The directory of the config file behind the descriptor, malloc'ed; NULL: it is another file. */
static char *function_of(int fd)
{
	char link[64], path[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0)
		return NULL;
	path[n] = '\0';
	return str_has_suffix(path, "/config") ? xstrndup(path, (size_t)n - strlen("/config"))
	                                       : NULL;
}

static ssize_t read_at(int fd, void *buf, size_t n, off_t at)
{
	return syscall(SYS_pread64, fd, buf, n, at);
}

/* Copies the bytes that the window points to into its data register. */
static void fill_window(int fd, const char *dir)
{
	char *path AUTO(free) = xasprintf("%s/bar4", dir);
	int bar AUTO(fd) = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t cap[16], data[4] = { 0xff, 0xff, 0xff, 0xff };
	uint32_t offset, length;

	ck_assert_int_eq(read_at(fd, cap, sizeof(cap), WINDOW), sizeof(cap));
	memcpy(&offset, cap + 8, 4);
	memcpy(&length, cap + 12, 4);
	ck_assert_uint_eq(cap[4], BAR);
	ck_assert_uint_eq(length, 4);
	ck_assert_int_eq(read_at(bar, data, 4, offset), 4);
	ck_assert_int_eq(syscall(SYS_pwrite64, fd, data, 4, WINDOW + 16), 4);
}

ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
	char *dir AUTO(free) = function_of(fd);

	if (dir && at == WINDOW + 16)
		fill_window(fd, dir);
	return read_at(fd, buf, n, at);
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
	char *dir AUTO(free) = function_of(fd);

	if (dir && locked_down) {
		errno = EPERM;
		return -1;
	}
	if (dir) { /* an assertion, even one that holds, needs a running test */
		ck_assert_msg(at >= WINDOW + 4 && at + (off_t)n <= WINDOW + 16,
		              "%s/config: write of %zu bytes at 0x%jx, outside the window", dir, n,
		              (uintmax_t)at);
		looks += at == WINDOW + 8;
	}
	return syscall(SYS_pwrite64, fd, buf, n, at);
}
