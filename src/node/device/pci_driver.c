/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes bind, unbind and driver_override of one PCI function. A partial change is undone before
 * the call returns. The callers decide whether the driver may use a function, and whether the
 * function is in use. Sources: Documentation/ABI/testing/sysfs-bus-pci; drivers/base/dd.c for the
 * errnos.
 */
#include "node/device/pci_driver.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/kill_point.h"
#include "common/mem.h"
#include "common/wait_queue.h"
#include "node/device/sysfs.h"

/* ---- turns ---- */

/* On the stack of the thread whose turn it is. */
struct turn {
	struct turn *next;
	const char *sysfs, *pci, *driver;
	int64_t since; /* monotonic ns */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct wait_queue changed;
static struct turn *turns; /* protected by the lock */

static const struct turn *other_locked(const struct device_world *w, const char *pci)
{
	const struct turn *t = turns;

	assert_locked(&lock);
	while (t && !(str_eq(t->pci, pci) && str_eq(t->sysfs, w->sysfs)))
		t = t->next;
	return t;
}

static int refuse_hung_function(const struct turn *t, struct err *err)
{
	return err_set(err, ERR_UNAVAILABLE,
	               "PCI function %s does not answer: a removal or probe has been hanging in "
	               "the kernel for %.0f s; see dmesg of the node; a reboot ends it at the "
	               "latest",
	               t->pci, (double)(monotonic_ns() - t->since) / 1e9);
}

static bool turn_hangs(const struct device_world *w, const struct turn *t)
{
	return monotonic_ns() - t->since >= device_hang_ms(w) * NS_PER_MS;
}

static int turn_begin(struct turn *t, const struct device_world *w, const char *pci,
                      const char *driver, struct err *err)
{
	const struct turn *other;

	WITH_LOCK(&lock);
	while ((other = other_locked(w, pci))) {
		struct deadline until = { other->since + device_hang_ms(w) * NS_PER_MS, NULL };

		if (turn_hangs(w, other))
			return refuse_hung_function(other, err);
		IGNORE_RESULT(wait_queue_wait(&changed, &lock, until));
	}
	*t = (struct turn) { turns, w->sysfs, pci, driver, monotonic_ns() };
	turns = t;
	return 0;
}

static void turn_end(const struct turn *t)
{
	struct turn **p = &turns;

	WITH_LOCK(&lock);
	while (*p != t)
		p = &(*p)->next;
	*p = t->next;
	wait_queue_wake(&changed);
}

int pci_driver_answers(const struct device_world *w, const char *driver, struct err *err)
{
	WITH_LOCK(&lock);
	for (const struct turn *t = turns; t; t = t->next)
		if (str_eq(t->driver, driver) && str_eq(t->sysfs, w->sysfs) && turn_hangs(w, t))
			return refuse_hung_function(t, err);
	return 0;
}

bool pci_driver_parks(const char *driver)
{
	return str_eq(driver, "pci-stub");
}

int pci_refuse_held(const struct device_world *w, const char *pci, const char *driver,
                    struct err *err)
{
	return err_set(err, ERR_PRECONDITION,
	               "PCI function %s is held by driver %s and is not unbound from it; if "
	               "nothing uses it: echo %s > %s/bus/pci/drivers/%s/unbind",
	               pci, driver, pci, w->sysfs, driver);
}

/* ---- single writes, 0 or an errno ---- */

static int write_override(const struct device_world *w, const char *pci, const char *driver)
{
	char *dir AUTO(free) = pci_dir(w, pci);
	char *path AUTO(free) = xasprintf("%s/driver_override", dir);
	char *text AUTO(free) = xasprintf("%s\n", driver);

	return sysfs_write(w->writer, path, text);
}

static int write_to_driver(const struct device_world *w, const char *driver, const char *what,
                           const char *pci)
{
	char *path AUTO(free) = xasprintf("%s/bus/pci/drivers/%s/%s", w->sysfs, driver, what);

	return sysfs_write(w->writer, path, pci);
}

/* ---- errors ---- */

/* Returns true for errors that last until an administrator removes their cause. */
static bool is_lasting(int errnum)
{
	return errnum == EACCES || errnum == EPERM || errnum == EROFS;
}

static int write_failed(int errnum, const char *what, const char *pci, const char *driver,
                        struct str *why, struct err *err)
{
	struct err text = ERR_INIT;

	err_sys(&text, errnum, "%s of PCI function %s for driver %s", what, pci, driver);
	if (is_lasting(errnum)) {
		err_set(err, ERR_PRECONDITION,
		        "%s (the driver needs a writable /sys: its container must be privileged)",
		        text.msg);
		return -1;
	}
	str_addf(why, "%s%s", text.msg,
	         errnum == ENODEV   ? " (the driver refused it or its probe failed: see dmesg)"
	         : errnum == ENOENT ? " (the driver is not loaded: modprobe loads it)"
	         : errnum == EIO    ? " (its probe failed: see dmesg)"
	                            : "");
	return PCI_NOT_NOW;
}

/* ---- unbind ---- */

/* Records a failure; keeps the first error. A removed function is not an error. */
static void note_failure(int e, const char *what, const struct pci_change *c, struct err *err)
{
	if (e && !sysfs_gone(e) && !err->code)
		err_sys(err, e, "restore %s of PCI function %s", what, c->pci);
}

static int pci_driver_give_back(const struct device_world *w, const struct pci_change *c,
                                bool unbind, struct err *err)
{
	char *holder AUTO(free) = NULL;
	struct err failed = ERR_INIT;
	bool held;

	if (pci_driver(w, c->pci, &holder, err) < 0)
		return -1;
	held = str_eq(holder, c->driver);
	if (held && unbind) {
		int e = write_to_driver(w, c->driver, "unbind", c->pci);

		note_failure(e, "the unbound state", c, &failed);
		held = e && !sysfs_gone(e);
		kill_point("release: function unbound");
	}
	if (c->override_set) {
		note_failure(write_override(w, c->pci, c->override_before), "driver_override", c,
		             &failed);
		kill_point("release: driver_override restored");
	}
	if (*c->unbound_from && !held)
		note_failure(write_to_driver(w, c->unbound_from, "bind", c->pci), "the driver", c,
		             &failed);
	if (!failed.code)
		return 0;
	*err = failed;
	return -1;
}

/* ---- bind ---- */

/*
 * Reads driver_override; "" if it is not set (the kernel then shows "(null)"). PCI_ABSENT: the
 * function was removed.
 */
static int read_override(const struct device_world *w, const char *pci,
                         char ret[PCI_DRIVER_NAME_MAX], struct err *err)
{
	char *dir AUTO(free) = pci_dir(w, pci);
	char *text AUTO(free) = NULL;
	int rc = sysfs_attr(dir, "driver_override", &text, err);

	if (rc)
		return rc;
	if (strlen(text) >= PCI_DRIVER_NAME_MAX)
		return err_set(err, ERR_PRECONDITION, "%s/driver_override is \"%.80s\"", dir, text);
	snprintf(ret, PCI_DRIVER_NAME_MAX, "%s", str_eq(text, "(null)") ? "" : text);
	return 0;
}

enum { HELD_ALREADY = PCI_ABSENT + 1 };

/*
 * Checks whether the function can be bound now. Returns 0, PCI_ABSENT, HELD_ALREADY if it is
 * already bound to that driver, or -1.
 */
static int check_before_bind(const struct device_world *w, const char *pci, const char *driver,
                             struct pci_change *c, char parked_by[PCI_DRIVER_NAME_MAX],
                             struct err *err)
{
	char *holder AUTO(free) = NULL;
	int rc = pci_driver(w, pci, &holder, err);

	if (rc < 0)
		return -1;
	if (str_eq(holder, driver))
		return HELD_ALREADY;
	if (holder && !pci_driver_parks(holder))
		return pci_refuse_held(w, pci, holder, err);
	if (holder)
		snprintf(parked_by, PCI_DRIVER_NAME_MAX, "%s", holder);
	rc = read_override(w, pci, c->override_before, err);
	if (rc)
		return rc;
	if (*c->override_before && !str_eq(c->override_before, driver) &&
	    !pci_driver_parks(c->override_before))
		return err_set(err, ERR_PRECONDITION,
		               "PCI function %s is reserved for driver %s by its "
		               "driver_override; if that is not intended: echo > "
		               "%s/bus/pci/devices/%s/driver_override",
		               pci, c->override_before, w->sysfs, pci);
	/* A killed process has left this value, which must not be restored. */
	if (str_eq(c->override_before, driver))
		*c->override_before = '\0';
	return 0;
}

/*
 * Does the writes in order, and records them in c. Returns 0, or the errno of the write that
 * failed.
 */
static int write_changes(const struct device_world *w, struct pci_change *c, const char *parked_by,
                         const char **ret_what)
{
	int e;

	if (*parked_by) {
		*ret_what = "unbind";
		e = write_to_driver(w, parked_by, "unbind", c->pci);
		if (e)
			return e;
		snprintf(c->unbound_from, sizeof(c->unbound_from), "%s", parked_by);
		kill_point("bind: function taken from pci-stub");
	}
	*ret_what = "driver_override";
	e = write_override(w, c->pci, c->driver);
	if (e)
		return e;
	c->override_set = true;
	kill_point("bind: driver_override written");
	*ret_what = "bind";
	e = write_to_driver(w, c->driver, "bind", c->pci);
	kill_point("bind: function bound");
	return e;
}

static int pci_driver_give(const struct device_world *w, const char *pci, const char *driver,
                           struct pci_change *ret, struct str *why, struct err *err)
{
	char parked_by[PCI_DRIVER_NAME_MAX] = "";
	struct pci_change c = { 0 };
	struct err undo = ERR_INIT;
	const char *what = "";
	int rc = check_before_bind(w, pci, driver, &c, parked_by, err), e;

	if (rc == HELD_ALREADY)
		return 0;
	if (rc == PCI_ABSENT) {
		str_addf(why, "PCI function %s no longer exists", pci);
		return PCI_NOT_NOW;
	}
	if (rc)
		return -1;
	snprintf(c.pci, sizeof(c.pci), "%s", pci);
	snprintf(c.driver, sizeof(c.driver), "%s", driver);
	e = write_changes(w, &c, parked_by, &what);
	if (!e) {
		*ret = c;
		return 0;
	}
	rc = write_failed(e, what, pci, driver, why, err);
	if (pci_driver_give_back(w, &c, false, &undo) && rc < 0)
		return err_wrap(err, "%s", undo.msg);
	/* The next attempt restores a state that could not be restored now. */
	if (undo.code)
		str_addf(why, "; %s", undo.msg);
	return rc;
}

int pci_give(const struct device_world *w, const char *pci, const char *driver,
             struct pci_change *ret, struct str *why, struct err *err)
{
	struct turn turn;
	int rc;

	if (turn_begin(&turn, w, pci, driver, err))
		return -1;
	rc = pci_driver_give(w, pci, driver, ret, why, err);
	turn_end(&turn);
	return rc;
}

int pci_give_back(const struct device_world *w, const struct pci_change *c, bool unbind,
                  struct err *err)
{
	struct turn turn;
	int rc;

	if (!*c->pci)
		return 0;
	assert(*c->driver);
	if (turn_begin(&turn, w, c->pci, c->driver, err))
		return -1;
	rc = pci_driver_give_back(w, c, unbind, err);
	turn_end(&turn);
	return rc;
}

/* ---- clear driver_override ---- */

static int pci_driver_forget(const struct device_world *w, const char *pci, const char *driver,
                             struct err *err)
{
	char now[PCI_DRIVER_NAME_MAX];
	int rc = read_override(w, pci, now, err), e;

	if (rc < 0)
		return -1;
	if (rc == PCI_ABSENT || !str_eq(now, driver))
		return PCI_NOT_SET;
	e = write_override(w, pci, "");
	kill_point("forget: driver_override cleared");
	if (e && !sysfs_gone(e))
		return err_sys(err, e, "clear driver_override of PCI function %s", pci);
	return 0;
}

int pci_forget(const struct device_world *w, const char *pci, const char *driver, struct err *err)
{
	struct turn turn;
	int rc;

	if (turn_begin(&turn, w, pci, driver, err))
		return -1;
	rc = pci_driver_forget(w, pci, driver, err);
	turn_end(&turn);
	return rc;
}
