/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the PCI capabilities of a virtio function to the device's configuration and reads the tag
 * there. The function's data are checked before they are used: each offset against the limits, the
 * list against cycles.
 *
 * The configuration is in a BAR. Mapping the BAR is refused by kernels with CONFIG_IO_STRICT_DEVMEM
 * (Debian's and Red Hat's) while the function is bound to a driver, and returns zeros before that.
 * So it is read through the window VIRTIO_PCI_CAP_PCI_CFG, which each virtio function must have and
 * Linux's driver never uses: an address is written to it, and the bytes are read from it. A lock on
 * the function's config file permits one reader at a time, across processes.
 */
#include "node/device/virtio_tag.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/cleanup.h"
#include "common/mem.h"

/* ---- valid tags ---- */

int device_tag_check(const char *tag, struct err *err)
{
	size_t n = tag ? strlen(tag) : 0;

	if (n == 0)
		return err_set(err, ERR_INVALID, "the virtio-fs tag is empty");
	if (n > DEVICE_TAG_MAX)
		return err_set(err, ERR_INVALID, "\"%.80s\" has %zu bytes (expected at most %d)",
		               tag, n, DEVICE_TAG_MAX);
	if (strchr(tag, '/'))
		return err_set(err, ERR_INVALID, "\"%s\" has a slash", tag);
	if (has_control(tag, n, ""))
		return err_set(err, ERR_INVALID, "\"%s\" has a control character", tag);
	return 0;
}

bool virtio_tag_of(const uint8_t bytes[DEVICE_TAG_MAX], char ret[DEVICE_TAG_MAX + 4])
{
	struct err ignored = ERR_INIT;

	/*
	 * A device that does not respond reads as all zeros or all ones, neither of which is text.
	 */
	if (memchr(bytes, 0xff, DEVICE_TAG_MAX))
		return false;
	memcpy(ret, bytes, DEVICE_TAG_MAX);
	ret[DEVICE_TAG_MAX] = '\0';
	return device_tag_check(ret, &ignored) == 0;
}

/* ---- the capabilities ---- */

enum {
	STATUS = 0x06,
	STATUS_CAPABILITIES = 0x10,
	CAPABILITIES = 0x34,
	CAPABILITY_FIRST = 0x40, /* lower offsets are the header */
	CAPABILITY_MAX = (PCI_CONFIG_MAX - CAPABILITY_FIRST) / 4,
	VENDOR_SPECIFIC = 0x09,
	/* struct virtio_pci_cap */
	CAP_NEXT = 1,
	CAP_LEN = 2,
	CAP_TYPE = 3,
	CAP_BAR = 4,
	CAP_OFFSET = 8,
	CAP_LENGTH = 12,
	CAP_SIZE = 16,
	CAP_DATA = 16, /* data register of the window */
	WINDOW_SIZE = 20,
	TYPE_DEVICE = 4,
	TYPE_WINDOW = 5,
	LAST_BAR = 5,
};

/*
 * Returns the offset of the first virtio capability of this type and at least this size, or 0. Like
 * the kernel, skips a capability with a reserved BAR.
 */
static unsigned find_capability(const uint8_t *config, unsigned type, unsigned size)
{
	unsigned at = config[CAPABILITIES] & 0xfcU;

	if (!(config[STATUS] & STATUS_CAPABILITIES))
		return 0;
	for (int i = 0; i < CAPABILITY_MAX; i++, at = config[at + CAP_NEXT] & 0xfcU) {
		const uint8_t *c = config + at;

		if (at < CAPABILITY_FIRST)
			return 0; /* the end of the list, or an invalid offset */
		if (c[0] != VENDOR_SPECIFIC || at + size > PCI_CONFIG_MAX || c[CAP_TYPE] != type ||
		    (type != TYPE_WINDOW && c[CAP_BAR] > LAST_BAR))
			continue;
		return c[CAP_LEN] >= size ? at : 0;
	}
	return 0;
}

bool virtio_find_config(const uint8_t *config, size_t n, struct virtio_cap_window *ret)
{
	struct virtio_cap_window cap;
	const uint8_t *c;
	unsigned at;

	if (n < PCI_CONFIG_MAX)
		return false;
	at = find_capability(config, TYPE_DEVICE, CAP_SIZE);
	if (!at)
		return false;
	c = config + at;
	cap.bar = c[CAP_BAR];
	cap.offset = le32(c + CAP_OFFSET);
	cap.window = find_capability(config, TYPE_WINDOW, WINDOW_SIZE);
	if (!cap.window || le32(c + CAP_LENGTH) < DEVICE_TAG_MAX || cap.offset % 4 ||
	    cap.offset > UINT32_MAX - DEVICE_TAG_MAX)
		return false;
	*ret = cap;
	return true;
}

/* ---- reading ---- */

/* Longest wait for another reader, which takes well below one millisecond on most devices. */
enum { LOCK_TRIES = 50, LOCK_PAUSE_MS = 10 };

static int config_write(int fd, unsigned at, const uint8_t *bytes, size_t n)
{
	ssize_t done = pwrite(fd, bytes, n, (off_t)at);

	if (done < 0)
		return errno;
	return (size_t)done == n ? 0 : EIO;
}

static int config_read(int fd, unsigned at, uint8_t *bytes, size_t n)
{
	ssize_t done = pread(fd, bytes, n, (off_t)at);

	if (done < 0)
		return errno;
	return (size_t)done == n ? 0 : EIO;
}

/* Reads four bytes of a BAR. Returns 0 or an errno. */
static int read_through(int fd, const struct virtio_cap_window *cap, uint32_t offset, uint8_t *ret)
{
	const uint8_t four[4] = { 4, 0, 0, 0 }, bar = (uint8_t)cap->bar;
	const uint8_t at[4] = { (uint8_t)offset, (uint8_t)(offset >> 8), (uint8_t)(offset >> 16),
		                (uint8_t)(offset >> 24) };
	uint8_t then[4];
	int e = config_write(fd, cap->window + CAP_BAR, &bar, 1);

	if (!e)
		e = config_write(fd, cap->window + CAP_LENGTH, four, 4);
	if (!e)
		e = config_write(fd, cap->window + CAP_OFFSET, at, 4);
	if (!e)
		e = config_read(fd, cap->window + CAP_DATA, ret, 4);
	/*
	 * Checks the window again, because a program that does not take the lock may have used it
	 * at the same time.
	 */
	if (!e)
		e = config_read(fd, cap->window + CAP_OFFSET, then, 4);
	return e ? e : memcmp(at, then, 4) ? EBUSY : 0;
}

static int lock_window(int fd)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		struct err never = ERR_INIT;

		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return 0;
		if (errno != EWOULDBLOCK)
			return errno;
		IGNORE_RESULT(deadline_sleep(deadline_never(), LOCK_PAUSE_MS, &never, ""));
	}
	return EBUSY;
}

static int read_bytes(int fd, const struct virtio_cap_window *cap, uint8_t ret[DEVICE_TAG_MAX])
{
	int e = lock_window(fd);

	for (uint32_t i = 0; i < DEVICE_TAG_MAX && !e; i += 4)
		e = read_through(fd, cap, cap->offset + i, ret + i);
	return e; /* closing the descriptor releases the lock */
}

/* Returns true if the errno means that this process lacks resources. */
static bool is_short(int errnum)
{
	return errnum == EMFILE || errnum == ENFILE || errnum == ENOMEM;
}

int virtio_tag_read(const char *dir, char ret[DEVICE_TAG_MAX + 4], struct str *why, struct err *err)
{
	char *path AUTO(free) = xasprintf("%s/config", dir);
	int fd AUTO(fd) = open(path, O_RDWR | O_CLOEXEC);
	uint8_t config[PCI_CONFIG_MAX], bytes[DEVICE_TAG_MAX];
	struct virtio_cap_window cap;
	ssize_t n = -1;
	int e;

	if (fd >= 0)
		n = pread(fd, config, sizeof(config), 0);
	if (n >= 0 && !virtio_find_config(config, (size_t)n, &cap)) {
		str_addf(why, "%s has no entry for the location of the function's tag", path);
		return VIRTIO_TAG_UNKNOWN;
	}
	e = n < 0 ? errno : read_bytes(fd, &cap, bytes);
	if (!e && virtio_tag_of(bytes, ret))
		return 0;
	if (is_short(e)) {
		err_sys(err, e, "open %s", path);
		return err_recode(err, ERR_UNAVAILABLE);
	}
	if (e)
		str_addf(why, "the function's tag cannot be read by %s: %s", path,
		         strerrordesc_np(e));
	else
		str_addf(why, "the function shows no tag (%s)", path);
	return VIRTIO_TAG_UNKNOWN;
}
