/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the functions and slots for volumes, and stores the count. The file is written only when
 * the number changes. A file that cannot be read, or has no number, is treated as absent. If it
 * cannot be written, a warning is logged, and the registration succeeds.
 */
#include "node/host/max_volumes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/detached.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "node/device/sysfs.h"
#include "node/host/prepare.h"

#define FILE_MAX 64

static char *file_path(const struct node *n)
{
	return xasprintf("%s/max-volumes", n->o.plugin_dir);
}

/* Returns the last known count; 0: unknown. */
static int64_t last_known(const struct node *n)
{
	char *path AUTO(free) = file_path(n);
	char *text AUTO(free) = NULL;
	struct err ignored = ERR_INIT;
	uint64_t value = 0;

	if (file_read_line(path, FILE_MAX, &text, &ignored) ||
	    parse_u64(path, text, &value, &ignored) || value > INT32_MAX)
		return 0;
	return (int64_t)value;
}

static void max_volumes_remember(const struct node *n, int64_t value)
{
	char *path AUTO(free) = file_path(n);
	struct err err = ERR_INIT;
	char text[24];

	if (last_known(n) == value)
		return;
	snprintf(text, sizeof(text), "%" PRId64 "\n", value);
	if (dir_make(n->o.plugin_dir, 0755, &err) ||
	    file_replace(path, text, strlen(text), 0644, &err))
		log_event(LOG_WARNING,
		          "the number of volumes is not saved for a start without a "
		          "DPU",
		          "error", err.msg, NULL);
}

/* Counts the functions. Those that cannot be read are treated as absent, and `where` names them. */
static void count_functions(const struct node *n, struct max_volumes *ret)
{
	struct str vfs AUTO(str_clear) = STR_INIT(500), slots AUTO(str_clear) = STR_INIT(400);
	struct err err = ERR_INIT;

	if (device_count_functions(&n->o.world, &ret->vfs, &vfs, &err))
		str_add(&vfs, err.msg);
	err_clear(&err);
	if (device_count_slots(&n->o.world, &ret->slots, &slots, &err))
		str_add(&slots, err.msg);
	snprintf(ret->where, sizeof(ret->where), "%s; %s", vfs.ptr, slots.ptr);
}

static void choose(struct max_volumes *m, enum max_volumes_source source, int64_t value)
{
	if (m->n > 0 || value <= 0)
		return;
	m->source = source;
	m->n = value;
}

/* Sets the number of volumes from the count in ret, or without a count. */
static void choose_all(const struct node *n, struct max_volumes *ret)
{
	int64_t now = (int64_t)ret->vfs + ret->slots, before = last_known(n);

	ret->seen = now > 0 || before > 0;
	choose(ret, MAX_VOLUMES_SET, n->o.max_volumes);
	choose(ret, MAX_VOLUMES_COUNTED, now);
	choose(ret, MAX_VOLUMES_LAST_KNOWN, before);
	choose(ret, MAX_VOLUMES_GUESSED, MAX_VOLUMES_ASSUMED);
}

static void answer_uncounted(const struct node *n, const char *why, struct max_volumes *ret)
{
	*ret = (struct max_volumes) { .uncounted = true };
	snprintf(ret->where, sizeof(ret->where), "%s", why);
	choose_all(n, ret);
}

struct counting {
	const struct node *n;
	struct max_volumes seen;
};

static void count_on_thread(void *box)
{
	struct counting *l = box;

	count_functions(l->n, &l->seen);
}

void max_volumes_count(const struct node *n, struct max_volumes *ret)
{
	struct counting l = { .n = n };
	struct strs at AUTO(strs_clear) = STRS_INIT;
	char *list AUTO(free) = NULL, *why AUTO(free) = NULL;
	struct err err = ERR_INIT;
	int rc = detached_slot_run(n->counter, count_on_thread, &l, sizeof(l),
	                           deadline_in_ms(n->o.tuning.host_wait_ms), &err);

	if (rc == 0) {
		*ret = l.seen;
		choose_all(n, ret);
		return;
	}
	sysfs_hung(n->o.tuning.host_wait_ms / 2, &at);
	list = strs_join(&at, ", ");
	why = rc < 0 ? xstrdup(err.msg)
	             : xasprintf("counting in %s has taken %.1f s and continues%s%s",
	                         n->o.world.sysfs, detached_slot_seconds(n->counter),
	                         at.n ? ": the kernel is in " : "", list);
	answer_uncounted(n, why, ret);
}

static const char *source_text(const struct max_volumes *m)
{
	static const char *const texts[] = {
		[MAX_VOLUMES_SET] = "--max-volumes-per-node",
		[MAX_VOLUMES_COUNTED] = "VFs and hot-plug slots of the DPU",
		[MAX_VOLUMES_LAST_KNOWN] = "last count on this node: the DPU currently offers no "
					   "functions",
		[MAX_VOLUMES_GUESSED] =
			"estimate: the DPU offers no functions, and no earlier count exists",
	};
	static const char *const uncounted[] = {
		[MAX_VOLUMES_SET] = "--max-volumes-per-node",
		[MAX_VOLUMES_LAST_KNOWN] = "last count on this node: the functions cannot be "
					   "counted now",
		[MAX_VOLUMES_GUESSED] = "estimate: the functions cannot be counted now, and no "
					"earlier count exists",
	};

	return m->uncounted ? uncounted[m->source] : texts[m->source];
}

static void log_max_volumes(struct node *n, const struct max_volumes *m, const char *failed)
{
	int64_t logged = m->n * 16 + (int64_t)m->source * 2 + m->uncounted;
	char number[24];

	if (atomic_exchange(&n->logged_max_volumes, logged) == logged)
		return;
	snprintf(number, sizeof(number), "%" PRId64, m->n);
	log_event(m->source >= MAX_VOLUMES_LAST_KNOWN ? LOG_WARNING : LOG_INFO,
	          m->source == MAX_VOLUMES_GUESSED
	                  ? "no function of a DPU is known on this node; limit of volumes"
	                  : "limit of volumes of this node",
	          "n", number, "by", source_text(m), "where", m->where, "error",
	          *failed ? failed : NULL, NULL);
}

/*
 * Counts while no preparation of the host runs, because the kernel creates VFs one by one, and at
 * startup the host is prepared while calls are already served. Counts again if a preparation has
 * begun during the count. While a preparation hangs, nothing is counted, because a count of only
 * some of the VFs would be wrong.
 */
static int max_volumes_when_prepared(struct node *n, struct deadline d, struct max_volumes *ret,
                                     struct err *err)
{
	struct err unfinished = ERR_INIT;
	unsigned seen;

	do {
		int rc = node_prepare_wait(n, n->o.tuning.host_wait_ms, d, &unfinished);

		if (rc < 0) {
			*err = unfinished;
			return -1;
		}
		if (rc == NODE_PREPARES) {
			answer_uncounted(n, unfinished.msg, ret);
			return 0;
		}
		seen = atomic_load(&n->preparations);
		max_volumes_count(n, ret);
	} while (atomic_load(&n->preparations) != seen || detached_slot_seconds(n->preparer) > 0);
	return 0;
}

int max_volumes_answer(struct node *n, struct deadline d, struct max_volumes *ret, struct err *err)
{
	struct err failed = ERR_INIT;

	if (max_volumes_when_prepared(n, d, ret, err))
		return -1;
	if (ret->source != MAX_VOLUMES_SET && !ret->vfs && !ret->uncounted) {
		if (node_prepare_beside(n, false, n->o.tuning.host_wait_ms, &failed) ==
		    NODE_PREPARES)
			answer_uncounted(n, failed.msg, ret);
		else if (max_volumes_when_prepared(n, d, ret, err))
			return -1;
	}
	if (!ret->uncounted && (ret->source == MAX_VOLUMES_COUNTED ||
	                        (n->o.topology_key && ret->vfs + ret->slots > 0)))
		max_volumes_remember(n, (int64_t)ret->vfs + ret->slots);
	log_max_volumes(n, ret, failed.code ? failed.msg : "");
	return 0;
}
