/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads from mountinfo whether the mount that contains a path is shared ("shared:N"). Owns nothing.
 * mountinfo does not show whether the host belongs to the peer group; with mountPropagation:
 * Bidirectional the container runtime has ensured that it does.
 */
#include "node/target/propagation.h"

#include <libgen.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "node/node.h"
#include "node/target/paths.h"

/* The directories below kubelet's root directory in which volumes are mounted. */
static const char *const kubelet_dirs[] = { "pods", "plugins/kubernetes.io/csi" };

static char *link_of(const char *proc_root, const char *name)
{
	char *path AUTO(free) = xasprintf("%s/%s", proc_root, name), *text = NULL;
	struct err ignored = ERR_INIT;

	return link_basename(path, &text, &ignored) == 0 ? text : NULL;
}

bool propagation_matters(const char *proc_root)
{
	char *self AUTO(free) = link_of(proc_root, "self");
	char *ours AUTO(free) = link_of(proc_root, "self/ns/mnt");
	char *first AUTO(free) = link_of(proc_root, "1/ns/mnt");

	return (self && str_eq(self, "1")) || (ours && first && !str_eq(ours, first));
}

/* Returns the part of `path` that needs a volumeMount: up to one of kubelet_dirs. */
static char *kubelet_dir_of(const char *path)
{
	char *copy AUTO(free) = xstrdup(path);

	for (size_t i = 0; i < ARRAY_LEN(kubelet_dirs); i++) {
		char *part AUTO(free) = xasprintf("/%s/", kubelet_dirs[i]);
		const char *found = strstr(path, part);

		if (found)
			return xstrndup(path, (size_t)(found - path) + strlen(part) - 1);
	}
	return xstrdup(dirname(copy));
}

static int refuse_unshared_mount(const struct mount *m, const char *path, struct err *err)
{
	char *dir AUTO(free) = kubelet_dir_of(path);

	if (!m || str_eq(m->target, "/"))
		return err_set(
			err, ERR_PRECONDITION,
			"%s is not a mount of this container: no pod would see mounts at %s. The "
			"container needs a volumeMount with mountPath: %s and mountPropagation: "
			"Bidirectional, of a hostPath volume of the same path",
			dir, path, dir);
	return err_set(
		err, ERR_PRECONDITION,
		"%s is not a shared mount (it %s): no pod would see mounts at %s. The "
		"container's volumeMount with mountPath: %s needs mountPropagation: Bidirectional",
		m->target,
		m->slave ? "has mountPropagation: HostToContainer, which propagates nothing to "
			   "the host"
			 : "has mountPropagation: None",
		path, m->target);
}

static int check(const struct mount_table *t, const char *path, struct err *err)
{
	char *dir AUTO(free) = paths_directory(path, NULL);
	const struct mount *m = mount_containing(t, dir ? dir : path);

	return m && m->shared ? 0 : refuse_unshared_mount(m, path, err);
}

int propagation_check(const struct node_options *o, const struct mount_table *t, const char *path,
                      struct err *err)
{
	struct mount_table own AUTO(mount_table_clear) = MOUNT_TABLE_INIT;

	if (!o->own_mounts)
		return 0;
	if (!t && mount_table_read(o->proc_root, &own, err))
		return -1;
	return check(t ? t : &own, path, err);
}

static bool is_first_process_hidden(const char *proc_root)
{
	char *first AUTO(free) = link_of(proc_root, "1/ns/mnt");

	return !first;
}

/*
 * Reports mounts that are not shared if the driver runs directly on the host. Pods then see its
 * mounts whatever their propagation, but not the mounts of drivers in pods. Whether this process
 * runs on the host cannot always be determined.
 */
static void scan_host_mount(const struct node_options *o, const struct mount_table *t,
                            const char *dir, struct strs *warnings)
{
	char *real AUTO(free) = realpath(dir, NULL);
	const struct mount *m = real ? mount_containing(t, real) : NULL;

	if (!m || m->shared)
		return;
	if (is_first_process_hidden(o->proc_root))
		strs_addf(warnings,
		          "%s is on the mount %s, which is not shared. Process 1 may not be "
		          "inspected, so the driver cannot determine whether it runs in a "
		          "container, and refuses nothing; in a container, no pod will see its "
		          "volume: the volumeMount with mountPath: %s needs mountPropagation: "
		          "Bidirectional",
		          dir, m->target, dir);
	else
		strs_addf(warnings,
		          "%s is on the mount %s, which is not shared: volumes of this driver "
		          "are visible anyway, since it runs beside kubelet, but a driver in a "
		          "pod and pods with mountPropagation need \"mount --make-rshared %s\"",
		          dir, m->target, m->target);
}

int propagation_scan(const struct node_options *o, struct strs *errors, struct strs *warnings,
                     struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;

	if (mount_table_read(o->proc_root, &t, err))
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(kubelet_dirs); i++) {
		char *dir AUTO(free) = xasprintf("%s/%s", o->kubelet_dir, kubelet_dirs[i]);
		char *below AUTO(free) = xasprintf("%s/VOLUME", dir);
		struct err missing = ERR_INIT;

		if (!o->own_mounts)
			scan_host_mount(o, &t, dir, warnings);
		else if (check(&t, below, &missing))
			strs_add(errors, missing.msg);
	}
	return 0;
}
