/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proves that the disks below a function are unused by opening each disk exclusively, as a mount
 * does. No other process can then start to use it until the descriptors are closed. No state, any
 * thread.
 */
#include "node/device/device_hold.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "node/device/block.h"
#include "node/device/device_kind.h"

enum {
	/* The kernel is still adding or removing one of the disks. */
	CHANGING = 1,
	/* attempts within half a second, for the kernel to complete a disk */
	HOLD_TRIES = 25,
	HOLD_PAUSE_MS = 20,
};

void device_hold_release(struct device_hold *h)
{
	while (h->n > 0)
		close(h->fds[--h->n]);
}

/* Holds every disk below the function. Returns 0, CHANGING, or -1 with the reason. */
static int try_hold_disks(const struct device_world *w, const struct device_kind *kind,
                          const char *pci, struct device_hold *ret, struct err *err)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;

	if (kind->list(w, pci, &names, err))
		return -1;
	if (names.n > DEVICE_HOLD_MAX)
		return err_set(err, ERR_PRECONDITION,
		               "there are %zu disks below it, too many to check", names.n);
	for (size_t i = 0; i < names.n; i++) {
		struct device d;
		int rc = block_read(w, names.v[i], &d, err);

		if (rc == BLOCK_ABSENT)
			return CHANGING;
		if (rc || device_open(&d, O_RDONLY | O_EXCL, &ret->fds[ret->n], NULL, err)) {
			if (err->sys != ENOENT)
				return -1;
			err_clear(err);
			return CHANGING;
		}
		ret->n++;
	}
	return 0;
}

static int hold_only_disk(const struct device_world *w, const struct device_kind *kind,
                          const char *pci, const struct device *only, struct device_hold *ret,
                          struct err *err)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;

	if (kind->list(w, pci, &names, err))
		return -1;
	for (size_t i = 0; i < names.n; i++)
		if (!str_eq(names.v[i], only->name))
			return err_set(err, ERR_PRECONDITION, "%s is also below it", names.v[i]);
	if (names.n == 0)
		return 0;
	if (device_open(only, O_RDONLY | O_EXCL, &ret->fds[0], NULL, err))
		return -1;
	ret->n = 1;
	return 0;
}

int device_hold_disks(const struct device_kind *kind, const struct device_world *w, const char *pci,
                      const struct device *only, struct device_hold *ret, struct err *err)
{
	assert(ret->n == 0);
	if (only)
		return hold_only_disk(w, kind, pci, only, ret, err);
	/*
	 * A wait that fails right after it has bound the function finds disks that the kernel has
	 * not completed yet.
	 */
	for (int i = 0; i < HOLD_TRIES; i++) {
		struct err never = ERR_INIT;
		int rc = try_hold_disks(w, kind, pci, ret, err);

		if (rc != CHANGING)
			return rc;
		device_hold_release(ret);
		IGNORE_RESULT(deadline_sleep(deadline_never(), HOLD_PAUSE_MS, &never, ""));
	}
	return err_set(err, ERR_PRECONDITION, "a disk below it keeps changing");
}
