/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps one list of all calls that wait for a device. Owns a mutex and the links between the
 * entries; the entries belong to their threads. No I/O under the mutex. The list has at most one
 * entry per worker thread.
 */
#include "node/device/device_users.h"

#include <assert.h>
#include <stdio.h>

#include "common/cleanup.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct device_user *users; /* protected by the lock */

static bool same_function(const struct device_user *a, const struct device_user *b)
{
	return a != b && str_eq(a->pci, b->pci) && str_eq(a->sysfs, b->sysfs);
}

static void device_users_unlink_locked(struct device_user *u)
{
	struct device_user **p = &users;

	assert_locked(&lock);
	while (*p && *p != u)
		p = &(*p)->next;
	assert(*p == u);
	*p = u->next;
	*u->pci = '\0';
}

bool device_user_join(struct device_user *u, const char *sysfs, const char *pci)
{
	assert(!*u->pci);
	u->sysfs = sysfs;
	u->in_use = u->changing = u->leaving = false;
	snprintf(u->pci, sizeof(u->pci), "%s", pci);
	WITH_LOCK(&lock);
	for (const struct device_user *other = users; other; other = other->next)
		if (other->leaving && same_function(other, u)) {
			*u->pci = '\0';
			return false;
		}
	u->next = users;
	users = u;
	return true;
}

bool device_user_begin_change(struct device_user *u)
{
	WITH_LOCK(&lock);
	assert(*u->pci && !u->changing);
	for (const struct device_user *other = users; other; other = other->next)
		if (other->changing && same_function(other, u))
			return false;
	u->changing = true;
	return true;
}

void device_user_end_change(struct device_user *u)
{
	WITH_LOCK(&lock);
	assert(u->changing);
	u->changing = false;
}

void device_user_changed(struct device_user *u, const struct pci_change *c)
{
	WITH_LOCK(&lock);
	assert(*u->pci && str_eq(u->pci, c->pci));
	if (!*u->change.pci)
		u->change = *c;
}

void device_user_succeed(struct device_user *u)
{
	if (!*u->pci)
		return;
	WITH_LOCK(&lock);
	for (struct device_user *other = users; other; other = other->next)
		if (same_function(other, u))
			other->in_use = true;
	device_users_unlink_locked(u);
}

/*
 * Moves the duty to release the function from `from` to `to`. If both have changed it, `to` must
 * restore the state that `from` has saved, which is the state before the first change, unless `to`
 * has itself saved a state.
 */
static void hand_over_locked(const struct device_user *from, struct device_user *to)
{
	assert_locked(&lock);
	if (!*to->change.override_before && !*to->change.unbound_from)
		to->change = from->change;
}

bool device_user_fail(struct device_user *u)
{
	struct device_user *other;

	if (!*u->pci)
		return false;
	WITH_LOCK(&lock);
	assert(!u->changing && !u->leaving);
	for (other = users; other && !same_function(other, u);)
		other = other->next;
	if (*u->change.pci && !u->in_use && !other) {
		u->leaving = true;
		return true;
	}
	if (*u->change.pci && !u->in_use)
		hand_over_locked(u, other);
	device_users_unlink_locked(u);
	return false;
}

void device_user_left(struct device_user *u)
{
	WITH_LOCK(&lock);
	assert(u->leaving);
	device_users_unlink_locked(u);
}
