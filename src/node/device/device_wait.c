/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits for a device, and binds its function to the kernel driver.
 *
 * Probes the device, binds the function if it has no driver, and probes again at each uevent, or at
 * growing intervals without uevents. A failed wait unbinds the function that it has bound, but only
 * if the kind proves that nothing below the function is in use (hold() of struct device_kind). Runs
 * on the calling thread.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/device/device_hold.h"
#include "node/device/device_kind.h"
#include "node/device/device_users.h"
#include "node/device/uevent.h"

enum {
	WHY_MAX = 500,
	BIND_FAILURE_MAX = 300,
	/*
	 * Interval of probes without uevents. The first probes follow quickly, because a namespace
	 * often appears right after its function is bound.
	 */
	CHECK_MS_MIN = 10,
	CHECK_MS_MAX = 1000,
	/* Interval of binds, so that a driver probe that fails at once is not retried at once. */
	BIND_MS_MIN = 250,
	BIND_MS_MAX = 2000,
};

struct wait {
	const struct device_world *world;
	const struct device_want *want;
	struct device_sight sight;
	struct device_user user;
	struct str why;          /* the item that the last probe did not find */
	struct str bind_failure; /* why the last bind failed */
	struct str undone; /* the part of a bound function that complete() could not complete */
	int64_t bind_at;   /* time of the next bind, CLOCK_MONOTONIC ns */
	int bind_ms;
};

static void wait_clear_p(struct wait *w)
{
	str_clear(&w->why);
	str_clear(&w->bind_failure);
	str_clear(&w->undone);
}

/* ---- release ---- */

/* Appends to the error, so that the first failure comes before failures of the undo. */
static void add_behind(struct err *err, const char *text)
{
	struct err first = *err;

	err_clear(err);
	err_set(err, first.code, "%s; %s", first.msg, text);
	err->sys = first.sys;
	err_set_kind(err, first.kind);
}

static void add_stays(struct err *err, const struct pci_change *c, const struct err *used)
{
	char *text AUTO(free) =
		xasprintf("PCI function %s stays bound to driver %s because it may be in use (%s)",
	                  c->pci, c->driver, used->msg);

	add_behind(err, text);
}

/* Undoes the changes, and appends failures of the undo to *err. */
static void device_wait_give_back(struct wait *w, struct err *err)
{
	struct device_hold held AUTO(device_hold_release) = { .n = 0 };
	const struct device_kind *kind = w->sight.kind;
	const struct pci_change *c = &w->user.change;
	struct err used = ERR_INIT, undo = ERR_INIT;
	bool unused;

	assert(kind && *c->pci); /* only a function that was found is changed */
	unused = kind->hold(kind, w->world, c->pci, NULL, &held, &used) == 0;

	if (!unused)
		add_stays(err, c, &used);
	if (pci_give_back(w->world, c, unused, &undo))
		add_behind(err, undo.msg);
}

/* Ends a failed wait, whose error is *err. Returns -1. */
static int fail(struct wait *w, struct err *err)
{
	if (device_user_fail(&w->user)) {
		device_wait_give_back(w, err);
		device_user_left(&w->user);
	}
	return str_empty(w->want->volume_id) ? -1 : err_wrap(err, "volume %s", w->want->volume_id);
}

/* ---- one round ---- */

/* Delays the next attempt. */
static void pace(struct wait *w, int64_t now)
{
	w->bind_at = now + w->bind_ms * INT64_C(1000000);
	w->bind_ms = w->bind_ms * 2 < BIND_MS_MAX ? w->bind_ms * 2 : BIND_MS_MAX;
}

enum { BOUND_NOW = 1 };

/* Binds the function if it has no driver. Returns 0 if it changed nothing, BOUND_NOW or -1. */
static int bind_if_needed(struct wait *w, struct err *err)
{
	struct pci_change change = { 0 };
	int64_t now = monotonic_ns();
	int rc;

	if (w->sight.stage != DEVICE_NO_DRIVER && w->sight.stage != DEVICE_PARKED)
		return 0;
	if (now < w->bind_at || !device_user_begin_change(&w->user))
		return 0;
	pace(w, now);
	str_reset(&w->bind_failure);
	rc = pci_give(w->world, w->sight.pci, w->sight.kind->driver, &change, &w->bind_failure,
	              err);
	if (rc == 0 && *change.pci) {
		device_user_changed(&w->user, &change);
		/* Shown only if a later probe finds the function unbound again. */
		str_addf(&w->bind_failure,
		         "driver %s bound it and released it again (its probe failed: see dmesg)",
		         w->sight.kind->driver);
	}
	device_user_end_change(&w->user);
	if (rc < 0)
		return -1;
	return rc == PCI_NOT_NOW ? 0 : BOUND_NOW;
}

/* Lets the kind do what the kernel has omitted below a function that is bound to its driver. */
static void complete_if_needed(struct wait *w)
{
	int64_t now = monotonic_ns();

	if (w->sight.stage != DEVICE_BOUND || !w->sight.kind->complete || now < w->bind_at ||
	    !device_user_begin_change(&w->user))
		return;
	pace(w, now);
	str_reset(&w->undone);
	w->sight.kind->complete(w->world, w->sight.pci, &w->undone);
	/* complete() may have unbound the function, so the driver's probe has not failed. */
	if (w->undone.len) {
		str_reset(&w->bind_failure);
		str_add(&w->bind_failure, w->undone.ptr);
	}
	device_user_end_change(&w->user);
}

/*
 * Checks the device node, because the kernel shows a disk in sysfs a moment before its node exists
 * in /dev.
 */
static int check_device_node(struct wait *w, const struct device *dev)
{
	if (!*dev->path || access(dev->path, F_OK) == 0 || errno != ENOENT)
		return 0;
	str_addf(&w->why,
	         "%s is missing for the disk %s that sysfs shows (the driver's pod needs the "
	         "host's /dev)",
	         dev->path, dev->name);
	return DEVICE_ABSENT;
}

/* Calls device_probe(), and joins the users of the function once the function is known. */
static int probe_and_join(struct wait *w, struct device *ret, struct err *err)
{
	int rc;

	str_reset(&w->why);
	rc = device_probe(w->world, w->want, ret, &w->sight, &w->why, err);
	if (rc < 0 || !*w->sight.pci || str_eq(w->sight.pci, w->user.pci))
		return rc ? rc : check_device_node(w, ret);
	if (*w->user.pci)
		return err_set(err, ERR_ABORTED,
		               "the device's function changed from %s to %s during the wait",
		               w->user.pci, w->sight.pci);
	str_reset(&w->why);
	if (!device_user_join(&w->user, w->world->sysfs, w->sight.pci)) {
		str_addf(&w->why, "PCI function %s is being released by another call",
		         w->sight.pci);
		/* Prevents bind_if_needed() from changing the function until then. */
		w->sight.stage = DEVICE_NO_FUNCTION;
		return DEVICE_ABSENT;
	}
	/*
	 * Another user may have released the function just before this one joined, so repeats the
	 * part of the probe that a release affects.
	 */
	rc = device_probe_below(w->world, w->want, ret, &w->sight, &w->why, err);
	return rc ? rc : check_device_node(w, ret);
}

static int check_time(struct wait *w, struct deadline d, struct err *err)
{
	bool unbound = w->sight.stage == DEVICE_NO_DRIVER || w->sight.stage == DEVICE_PARKED;
	bool bound = w->sight.stage == DEVICE_BOUND;
	const char *failure = unbound ? w->bind_failure.ptr : bound ? w->undone.ptr : "";
	struct err end = ERR_INIT;

	if (deadline_check(d, &end, "wait") == 0)
		return 0;
	device_explain(w->world, w->want, &w->sight, &w->why);
	return err_set(err, end.code, "%s while waiting for the device: %s%s%s",
	               end.code == ERR_DEADLINE ? "time ran out" : "the caller cancelled the call",
	               w->why.ptr, *failure ? "; " : "", failure);
}

static int wait_for(struct wait *w, struct deadline d, struct device *ret, struct err *err)
{
	struct uevent *events AUTO(uevent_close) = uevent_open(w->sight.kind->subsystems);
	int ms = CHECK_MS_MIN;

	for (;;) {
		/* The subscription began before this probe, so any later change ends the wait. */
		int rc = probe_and_join(w, ret, err);

		if (rc != DEVICE_ABSENT)
			return rc;
		if (w->want->seen)
			return err_set(err, ERR_UNAVAILABLE,
			               "the device existed when this call began but was removed "
			               "(%s); retry to search for it again",
			               w->why.ptr);
		if (check_time(w, d, err))
			return -1;
		rc = bind_if_needed(w, err);
		if (rc < 0)
			return -1;
		if (rc == BOUND_NOW)
			ms = CHECK_MS_MIN;
		else
			complete_if_needed(w);
		if (uevent_wait(events, ms, d))
			ms = CHECK_MS_MIN;
		else
			ms = ms * 2 < CHECK_MS_MAX ? ms * 2 : CHECK_MS_MAX;
	}
}

static struct device_binding binding_of(const struct pci_change *c)
{
	struct device_binding b = { .done = *c->pci != '\0' };

	snprintf(b.override_before, sizeof(b.override_before), "%s", c->override_before);
	snprintf(b.parked_by, sizeof(b.parked_by), "%s", c->unbound_from);
	return b;
}

int device_wait(const struct device_world *world, const struct device_want *want, struct deadline d,
                struct device *ret, struct err *err)
{
	struct wait w AUTO(wait_clear) = { .world = world,
		                           .want = want,
		                           .why = STR_INIT(WHY_MAX),
		                           .bind_failure = STR_INIT(BIND_FAILURE_MAX),
		                           .undone = STR_INIT(BIND_FAILURE_MAX),
		                           .bind_ms = BIND_MS_MIN };
	struct err ignored = ERR_INIT;
	struct device found;
	int rc = probe_and_join(&w, &found, err);

	if (rc == DEVICE_ABSENT)
		rc = wait_for(&w, d, &found, err);
	if (rc < 0)
		return fail(&w, err);
	/*
	 * driver_override is no longer needed, even if another program has written it. It must be
	 * cleared now, because once the disk is removed, the function can no longer be found from
	 * it. If this fails, device_release() retries.
	 */
	if (*w.sight.pci)
		IGNORE_RESULT(pci_forget(world, w.sight.pci, w.sight.kind->driver, &ignored));
	device_user_succeed(&w.user);
	*ret = found;
	ret->binding = binding_of(&w.user.change);
	return 0;
}

static struct pci_change change_of(const struct device *dev)
{
	struct pci_change c = { .override_set = true };

	snprintf(c.pci, sizeof(c.pci), "%s", dev->pci);
	snprintf(c.driver, sizeof(c.driver), "%s", dev->kind->driver);
	snprintf(c.override_before, sizeof(c.override_before), "%s", dev->binding.override_before);
	snprintf(c.unbound_from, sizeof(c.unbound_from), "%s", dev->binding.parked_by);
	return c;
}

static int abandon(const struct device_world *world, const struct device *dev,
                   const struct pci_change *c, struct err *err)
{
	struct device_hold held AUTO(device_hold_release) = { .n = 0 };
	struct err used = ERR_INIT;
	bool unused = dev->kind->hold(dev->kind, world, dev->pci, dev, &held, &used) == 0;

	if (pci_give_back(world, c, unused, err))
		return -1;
	return unused ? 0
	              : err_set(err, ERR_PRECONDITION,
	                        "PCI function %s stays bound to driver %s because it may be in "
	                        "use (%s)",
	                        c->pci, c->driver, used.msg);
}

int device_abandon(const struct device_world *world, const struct device *dev, struct err *err)
{
	struct device_user user = { 0 };
	struct pci_change change;
	int rc;

	/* Ends like a failed wait, so that another call that waits for the function takes over. */
	if (!dev->binding.done || !device_user_join(&user, world->sysfs, dev->pci))
		return 0;
	assert(dev->kind);
	change = change_of(dev);
	device_user_changed(&user, &change);
	if (!device_user_fail(&user))
		return 0;
	rc = abandon(world, dev, &change, err);
	device_user_left(&user);
	return rc;
}
