/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes shares through the guard, because their server may hang, and finds the share of a tag by
 * mounting it. Such a mount is below the driver's own directory. Has no list of the staged volumes.
 */
#include "node/target/share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/kill_point.h"
#include "common/mem.h"
#include "node/target/guard.h"
#include "node/target/paths.h"
#include "node/work/state_file.h"
#include "node/target/target.h"

#define PROBE_DIR "looking"

bool share_errno_is_dead(int errnum)
{
	return errnum == ENOTCONN || errnum == ECONNABORTED || errnum == ENODEV ||
	       errnum == ESHUTDOWN;
}

int share_probe(const struct node *n, dev_t devno, const char *path, struct err *err)
{
	struct statvfs ignored;
	int sys;

	if (guard_read(n->guard, devno, path, &ignored, &sys, err))
		return -1;
	return share_errno_is_dead(sys) ? SHARE_DEAD : 0;
}

const struct mount *share_elsewhere(const struct node *n, const struct mount_table *t,
                                    const struct mountpoint *p, const struct mountpoint *but,
                                    bool whole, const struct mount *after)
{
	const struct mount *m = after;

	while ((m = mountpoint_elsewhere(t, p, but, whole, m)))
		if (str_eq(m->fs_type, "virtiofs") || paths_allowed(&n->o, m->target))
			return m;
	return NULL;
}

/*
 * Returns true if the table has another mount of the same share. An unmount then does not wait for
 * the share's server.
 */
static bool is_shown_elsewhere(const struct mount_table *t, const struct mount *m)
{
	const struct mount *first = mount_of(t, m->devno, NULL, NULL);

	return first != m || mount_of(t, m->devno, NULL, m);
}

/*
 * Unmounts the mounts at `path`, which is as in mountinfo, but not one that hangs, because the last
 * unmount of a share waits for its server. Unmounts lazily, because another process may be scanning
 * all mounts of this host.
 */
static int clear_path(const struct node *n, const char *path, struct err *err)
{
	for (;;) {
		struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
		const struct mount *m;

		if (mount_table_read(n->o.proc_root, &t, err))
			return -1;
		m = mount_at(&t, path);
		if (!m)
			return 0;
		if (!is_shown_elsewhere(&t, m) && share_probe(n, m->devno, path, err) < 0)
			return -1;
		if (mount_remove(path, true, err) < 0)
			return -1;
		kill_point("probe a tag: unmounted");
	}
}

static int share_read_devno(const struct node *n, const char *path, dev_t *ret, struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	const struct mount *m;

	if (mount_table_read(n->o.proc_root, &t, err))
		return -1;
	m = mount_at(&t, path);
	if (!m || !mount_is_share(m))
		return err_set(err, ERR_UNAVAILABLE,
		               "it was mounted at %s for a check, but the path shows %s", path,
		               m ? m->fs_type : "nothing");
	*ret = m->devno;
	return 0;
}

/*
 * Selects the flags for a probe. A superblock that was mounted with a security context can only be
 * mounted again with the same one; for other options, those of the first mount stay in effect.
 */
static void share_probe_options(const struct strs *flags, struct strs *ret)
{
	strs_add(ret, "ro");
	strs_add(ret, "nosuid");
	strs_add(ret, "nodev");
	strs_add(ret, "noexec");
	for (size_t i = 0; i < flags->n; i++)
		if (str_has_prefix(flags->v[i], "context=") || strstr(flags->v[i], "fscontext=") ||
		    strstr(flags->v[i], "defcontext=") || strstr(flags->v[i], "rootcontext="))
			strs_add(ret, flags->v[i]);
}

/* Creates the directory to mount at; removes leftovers of a killed driver. */
static int make_dir(const struct node *n, const char *dir, char **ret_path, struct err *err)
{
	unsigned made = 0;

	if (paths_resolve(dir, ret_path, err) || clear_path(n, *ret_path, err) ||
	    target_make(*ret_path, TARGET_DIR, &made, err))
		return -1;
	kill_point("probe a tag: directory made");
	return 0;
}

static int share_probe_at(const struct node *n, const char *path, const char *tag,
                          const struct strs *flags, dev_t *ret, struct err *err)
{
	struct strs options AUTO(strs_clear) = STRS_INIT;
	struct mount_target at AUTO(mount_target_clear) = MOUNT_TARGET_INIT;
	struct err ignored = ERR_INIT;
	int rc;

	share_probe_options(flags, &options);
	if (mount_target_open(path, &at, err))
		return -1;
	rc = mount_share(tag, &at, n->o.virtiofs_type, &options, err);
	if (rc)
		return rc < 0 ? -1 : SHARE_NO_TAG;
	kill_point("probe a tag: mounted");
	rc = share_read_devno(n, path, ret, err);
	if (clear_path(n, path, rc ? &ignored : err))
		rc = -1;
	return rc;
}

int share_probe_tag(const struct node *n, const char *volume_id, const char *tag,
                    const struct strs *flags, dev_t *ret, struct err *err)
{
	char *dir AUTO(free) = state_file_path(n, PROBE_DIR, volume_id, n->token);
	char *path AUTO(free) = NULL;
	int rc = make_dir(n, dir, &path, err);

	if (!rc)
		rc = share_probe_at(n, path, tag, flags, ret, err);
	if (rc < 0)
		return err_wrap(err, "determine the share of the tag %s", tag);
	rmdir(path);
	return rc;
}

bool share_is_tag_probe(const struct node *n, const char *target)
{
	char *dir AUTO(free) = xasprintf("%s/" PROBE_DIR "/", n->o.plugin_dir);

	return str_has_prefix(target, dir);
}

static int tidy_one(const struct node *n, const char *dir, struct err *err)
{
	char *path AUTO(free) = NULL;
	int rc = mount_resolve_path(dir, &path, err);

	if (rc)
		return rc < 0 ? -1 : 0;
	if (clear_path(n, path, err))
		return -1;
	return target_remove(path, err);
}

int share_tidy(const struct node *n, struct str *did, struct err *err)
{
	char *dir AUTO(free) = xasprintf("%s/" PROBE_DIR, n->o.plugin_dir);
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err first = ERR_INIT;

	if (!path_exists(dir))
		return 0;
	if (dir_list(dir, &names, err))
		return -1;
	for (size_t i = 0; i < names.n; i++) {
		char *one AUTO(free) = xasprintf("%s/%s", dir, names.v[i]);
		struct err failed = ERR_INIT;

		/*
		 * Mounts with this process's token are in use, because calls are already being
		 * served and may probe tags.
		 */
		if (*n->token && str_has_suffix(names.v[i], n->token))
			continue;
		if (tidy_one(n, one, &failed) == 0)
			str_addf(did, "%s%s", did->len ? ", " : "", one);
		else if (!first.code)
			first = failed;
	}
	if (!first.code)
		return 0;
	*err = first;
	return -1;
}
