/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the mounts from mountinfo, and their volumes from kubelet's directories. A pod is running
 * if a process is in a control group whose name contains the pod's UID. Accesses no mount.
 */
#include "node/host/pre_stop.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "node/target/kubelet.h"
#include "node/mount/mountinfo.h"

#define CGROUP_MAX 65536
#define LOOK_AGAIN_MS 250

/* A volume directory of this driver. */
struct spot {
	char *path, *pod, *volume; /* pod NULL: the volume is staged there */
	bool lives;                /* the pod is running */
};

struct spots {
	struct spot *v;
	size_t n;
};

static void spots_clear(struct spots *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].path);
		free(s->v[i].pod);
		free(s->v[i].volume);
	}
	free(s->v);
}
DEFINE_AUTO_VALUE(struct spots, spots_clear);

/* Returns the name of a volume, which is the same for all its directories. */
static const char *name_of(const struct kubelet_volume_dir *p)
{
	return p->persistent_volume ? p->persistent_volume : p->volume_id;
}

static int pre_stop_find_spots(const struct pre_stop_options *o, struct spots *ret, struct err *err)
{
	struct mount_table table AUTO(mount_table_clear) = MOUNT_TABLE_INIT;

	if (mount_table_read(o->proc_root, &table, err))
		return -1;
	ret->v = xcalloc(table.n + 1, sizeof(*ret->v));
	for (size_t i = 0; i < table.n; i++) {
		struct kubelet_volume_dir p AUTO(kubelet_volume_dir_clear) = { .since = -1 };

		kubelet_volume_dir_read(o->kubelet_dir, o->driver, table.v[i].target, &p);
		/*
		 * Without vol_data.json the volume's driver is unknown, so there is no wait for it.
		 */
		if (p.role == KUBELET_OTHER || p.foreign || !p.volume_id || p.since < 0)
			continue;
		ret->v[ret->n++] = (struct spot) {
			.path = xstrdup(table.v[i].target),
			.pod = p.role == KUBELET_PUBLISHED ? xstrdup_or_null(p.pod) : NULL,
			.volume = xstrdup(name_of(&p)),
		};
	}
	return 0;
}

/* ---- running pods ---- */

/*
 * Returns true if a control group in the text has the UID and was not removed. A process that has
 * ended and was not yet reaped stays in a removed group.
 */
static bool names_a_living_group(const char *text, const char *uid)
{
	for (const char *at = text; (at = strstr(at, uid)); at++) {
		const char *end = at + strcspn(at, "\n");

		if ((size_t)(end - at) < strlen(" (deleted)") ||
		    strncmp(end - strlen(" (deleted)"), " (deleted)", strlen(" (deleted)")) != 0)
			return true;
	}
	return false;
}

/*
 * Marks the pod of this process. kubelet writes a UID with dashes or, for systemd, whose slices use
 * a dash as separator, with underscores.
 */
static void pre_stop_scan_process(struct spots *s, const char *cgroup)
{
	for (size_t i = 0; i < s->n; i++) {
		char *other AUTO(free) = NULL;

		if (!s->v[i].pod || s->v[i].lives)
			continue;
		other = xstrdup(s->v[i].pod);
		for (char *at = other; *at; at++)
			if (*at == '-')
				*at = '_';
		s->v[i].lives = names_a_living_group(cgroup, s->v[i].pod) ||
		                names_a_living_group(cgroup, other);
	}
}

static int pre_stop_scan_processes(const struct pre_stop_options *o, struct spots *s,
                                   struct err *err)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;

	if (dir_list(o->proc_root, &names, err))
		return -1;
	for (size_t i = 0; i < names.n; i++) {
		char *path AUTO(free) = NULL, *text AUTO(free) = NULL;
		struct err ignored = ERR_INIT;
		size_t n;

		if (!isdigit((unsigned char)*names.v[i]))
			continue;
		path = xasprintf("%s/%s/cgroup", o->proc_root, names.v[i]);
		if (file_read(path, CGROUP_MAX, &text, &n, &ignored) == 0)
			pre_stop_scan_process(s, text);
	}
	return 0;
}

static char *program_of(const struct pre_stop_options *o, const char *process)
{
	char *path AUTO(free) = xasprintf("%s/%s/exe", o->proc_root, process), *name = NULL;
	struct err ignored = ERR_INIT;

	return link_basename(path, &name, &ignored) == 0 ? name : NULL;
}

/*
 * Returns true if the first visible process is the driver itself, that is, if the driver has its
 * own PID namespace.
 */
static bool is_blind(const struct pre_stop_options *o)
{
	char *first AUTO(free) = program_of(o, "1"), *own AUTO(free) = program_of(o, "self");

	return first && own && str_eq(first, own);
}

/* ---- volumes to wait for ---- */

static bool lives_somewhere(const struct spots *s, const char *volume)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].lives && str_eq(s->v[i].volume, volume))
			return true;
	return false;
}

int pre_stop_scan(const struct pre_stop_options *o, struct strs *ret, struct err *err)
{
	struct spots s AUTO(spots_clear) = { .n = 0 };

	if (pre_stop_find_spots(o, &s, err))
		return -1;
	if (!s.n)
		return 0;
	if (is_blind(o))
		return PRE_STOP_BLIND;
	if (pre_stop_scan_processes(o, &s, err))
		return -1;
	for (size_t i = 0; i < s.n; i++)
		if (s.v[i].pod ? !s.v[i].lives : !lives_somewhere(&s, s.v[i].volume))
			strs_add(ret, s.v[i].path);
	return 0;
}

int pre_stop_wait(const struct pre_stop_options *o, struct deadline d, struct strs *left,
                  struct err *err)
{
	for (;;) {
		struct err over = ERR_INIT;
		int rc;

		strs_clear(left);
		*left = (struct strs)STRS_INIT;
		rc = pre_stop_scan(o, left, err);
		if (rc || !left->n)
			return rc;
		if (deadline_sleep(d, LOOK_AGAIN_MS, &over, "waiting for unmounts"))
			return PRE_STOP_LEFT;
	}
}
