/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the names of kubelet's directories, and its vol_data.json. Opens only regular files of
 * kubelet's own filesystem; caches nothing.
 */
#include "node/target/kubelet.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/json.h"
#include "common/mem.h"

#define VOL_DATA_MAX 65536
#define CSI_DIR "plugins/kubernetes.io/csi/"
#define GLOBAL_MOUNT "/globalmount"
#define PARTS_MAX 7

void kubelet_volume_dir_clear(struct kubelet_volume_dir *p)
{
	free(p->volume_id);
	free(p->persistent_volume);
	free(p->attachment);
	free(p->pod);
	*p = (struct kubelet_volume_dir) { .since = -1 };
}

/* ---- vol_data.json ---- */

/*
 * Sets the time since the file was written. It is never negative, which would mean "no file", even
 * if a clock was set back or time() lags behind a timestamp.
 */
static void age_of(const char *path, struct kubelet_volume_dir *ret)
{
	struct stat st;
	time_t now = time(NULL);

	if (lstat(path, &st) == 0)
		ret->since = now > st.st_mtime ? now - st.st_mtime : 0;
}

/* Reads vol_data.json in `dir`; a missing file is not an error. */
static void read_vol_data(const char *dir, const char *driver, struct kubelet_volume_dir *ret)
{
	char *path AUTO(free) = xasprintf("%s/vol_data.json", dir);
	struct json *tree AUTO(json_free) = NULL;
	struct err ignored = ERR_INIT;
	char *text AUTO(free) = NULL;
	const char *pv;
	size_t n;

	if (file_read(path, VOL_DATA_MAX, &text, &n, &ignored) ||
	    json_parse(path, text, n, &tree, &ignored))
		return;
	ret->foreign = !str_eq(json_str(tree, "driverName"), driver);
	free(ret->volume_id);
	ret->volume_id = xstrdup_or_null(json_str(tree, "volumeHandle"));
	ret->attachment = xstrdup_or_null(json_str(tree, "attachmentID"));
	pv = json_str(tree, "specVolID");
	if (pv && !ret->persistent_volume)
		ret->persistent_volume = xstrdup(pv);
	age_of(path, ret);
}

/* ---- names ---- */

/* Splits a relative path; returns false if it has more than `PARTS_MAX` parts. */
static bool kubelet_split(const char *path, struct strs *ret)
{
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n && ret->n == PARTS_MAX)
			return false;
		if (n)
			strs_addf(ret, "%.*s", (int)n, path);
		path += n + (path[n] == '/');
	}
	return true;
}

/* Returns true if part i has this name. */
static bool is(const struct strs *parts, size_t i, const char *name)
{
	return i < parts->n && str_eq(parts->v[i], name);
}

/*
 * Parses pods/UID/volumes/kubernetes.io~csi/PV/mount and
 * pods/UID/volumeDevices/kubernetes.io~csi/PV.
 */
static void read_pod_dir(const char *kubelet_dir, const char *driver, const struct strs *parts,
                         struct kubelet_volume_dir *ret)
{
	char *dir AUTO(free) = NULL;
	bool block = is(parts, 2, "volumeDevices");

	if (parts->n != (block ? 5 : 6) || !is(parts, 3, "kubernetes.io~csi") ||
	    !(block || (is(parts, 2, "volumes") && is(parts, 5, "mount"))))
		return;
	ret->role = KUBELET_PUBLISHED;
	ret->block = block;
	ret->pod = xstrdup(parts->v[1]);
	ret->persistent_volume = xstrdup(parts->v[4]);
	dir = block ? xasprintf("%s/" CSI_DIR "volumeDevices/%s/data", kubelet_dir, parts->v[4])
	            : xasprintf("%s/pods/%s/volumes/kubernetes.io~csi/%s", kubelet_dir, parts->v[1],
	                        parts->v[4]);
	read_vol_data(dir, driver, ret);
}

/* Parses staging/PV/ID, publish/PV/UID and PV/dev/UID. */
static void read_block_dir(const char *kubelet_dir, const char *driver, const struct strs *parts,
                           struct kubelet_volume_dir *ret)
{
	bool staged = is(parts, 4, "staging"), mapped = is(parts, 5, "dev");
	char *dir AUTO(free) = NULL;

	if (parts->n != 7 || !(staged || mapped || is(parts, 4, "publish")))
		return;
	ret->block = true;
	ret->role = staged ? KUBELET_STAGED : KUBELET_PUBLISHED;
	ret->persistent_volume = xstrdup(parts->v[mapped ? 4 : 5]);
	if (staged)
		ret->volume_id = xstrdup(parts->v[6]);
	else
		ret->pod = xstrdup(parts->v[6]);
	dir = xasprintf("%s/" CSI_DIR "volumeDevices/%s/data", kubelet_dir, ret->persistent_volume);
	read_vol_data(dir, driver, ret);
}

void kubelet_volume_dir_read(const char *kubelet_dir, const char *driver, const char *path,
                             struct kubelet_volume_dir *ret)
{
	struct strs parts AUTO(strs_clear) = STRS_INIT;
	size_t n = strlen(kubelet_dir);

	*ret = (struct kubelet_volume_dir) { .since = -1 };
	while (n && kubelet_dir[n - 1] == '/')
		n--;
	if (strncmp(path, kubelet_dir, n) != 0 || path[n] != '/' ||
	    !kubelet_split(path + n + 1, &parts))
		return;
	if (is(&parts, 0, "pods")) {
		read_pod_dir(kubelet_dir, driver, &parts, ret);
	} else if (str_has_prefix(path + n + 1, CSI_DIR) && is(&parts, 3, "volumeDevices")) {
		read_block_dir(kubelet_dir, driver, &parts, ret);
	} else if (str_has_prefix(path + n + 1, CSI_DIR) && str_has_suffix(path, GLOBAL_MOUNT)) {
		char *dir AUTO(free) =
			xasprintf("%.*s", (int)(strlen(path) - strlen(GLOBAL_MOUNT)), path);

		ret->role = KUBELET_STAGED;
		read_vol_data(dir, driver, ret);
	}
}

int kubelet_check_volume(const char *kubelet_dir, const struct mountpoint *p, const char *volume_id,
                         struct err *err)
{
	struct kubelet_volume_dir k AUTO(kubelet_volume_dir_clear) = { .since = -1 };
	bool staged;

	if (p->kind == MOUNTPOINT_NONE)
		return 0;
	kubelet_volume_dir_read(kubelet_dir, "", p->path, &k);
	if (!k.volume_id || str_eq(k.volume_id, volume_id))
		return 0;
	staged = k.role == KUBELET_STAGED;
	return err_set(err, ERR_PRECONDITION,
	               "%s: volume %s is %s there (vol_data.json of kubelet), expected %s; nothing "
	               "is unmounted; next: %s volume %s",
	               p->path, k.volume_id, staged ? "staged" : "published", volume_id,
	               staged ? "unstage" : "unpublish", k.volume_id);
}

/* ---- wanted paths ---- */

/* Adds <dir>/<name>/<rest> for each name in the directory. */
static void add_each(const char *dir, const char *rest, struct strs *ret)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err ignored = ERR_INIT;

	if (dir_list(dir, &names, &ignored))
		return;
	for (size_t i = 0; i < names.n; i++)
		strs_addf(ret, "%s/%s/%s", dir, names.v[i], rest);
}

void kubelet_wanted(const char *kubelet_dir, const char *driver, struct strs *ret)
{
	char *staging AUTO(free) = xasprintf("%s/" CSI_DIR "%s", kubelet_dir, driver);
	char *pods AUTO(free) = xasprintf("%s/pods", kubelet_dir);
	struct strs volumes AUTO(strs_clear) = STRS_INIT;
	struct strs targets AUTO(strs_clear) = STRS_INIT;

	add_each(staging, "globalmount", &targets);
	add_each(pods, "volumes/kubernetes.io~csi", &volumes);
	for (size_t i = 0; i < volumes.n; i++)
		add_each(volumes.v[i], "mount", &targets);
	for (size_t i = 0; i < targets.n; i++) {
		struct kubelet_volume_dir p AUTO(kubelet_volume_dir_clear) = { .since = -1 };

		kubelet_volume_dir_read(kubelet_dir, driver, targets.v[i], &p);
		if (p.volume_id && !p.foreign)
			strs_add(ret, targets.v[i]);
	}
}
