/* SPDX-License-Identifier: Apache-2.0 */
/* The volume of a path, by kubelet's directories. */
#include "test/lib/suite.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"
#include "node/target/kubelet.h"

#define DRIVER "csi.snap.nvidia.com"
#define CSI "plugins/kubernetes.io/csi"
#define DATA(driver)                                                           \
	"{\"volumeHandle\":\"pvc-1\",\"specVolID\":\"pv-1\",\"attachmentID\":" \
	"\"csi-77\",\"driverName\":\"" driver "\"}"

static char root[64];

static void put(const char *dir, const char *text)
{
	char *path AUTO(free) = xasprintf("%s/%s", root, dir);
	char *file AUTO(free) = xasprintf("%s/vol_data.json", path);
	struct err err = ERR_INIT;

	ck_assert_msg(!dir_make(path, 0755, &err), "%s", err.msg);
	ck_assert_msg(!file_replace(file, text, strlen(text), 0644, &err), "%s", err.msg);
}

static void begin(void)
{
	snprintf(root, sizeof(root), "/tmp/test_kubelet.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
}

static void end(void)
{
	char *command AUTO(free) = xasprintf("rm -rf '%s'", root);

	ck_assert_int_eq(system(command), 0);
}

START_TEST(each_of_its_paths_is_known)
{
	static const struct {
		const char *path, *data_dir; /* "": no vol_data.json */
		enum kubelet_role role;
		const char *id, *pv, *pod;
	} rows[] = {
		{ CSI "/" DRIVER "/77/globalmount", CSI "/" DRIVER "/77", KUBELET_STAGED, "pvc-1",
		  "pv-1", NULL },
		{ CSI "/pv/pv-1/globalmount", CSI "/pv/pv-1", KUBELET_STAGED, "pvc-1", "pv-1",
		  NULL },
		{ CSI "/" DRIVER "/77/globalmount", "", KUBELET_STAGED, NULL, NULL, NULL },
		{ CSI "/volumeDevices/staging/pv-1/pvc-1", CSI "/volumeDevices/pv-1/data",
		  KUBELET_STAGED, "pvc-1", "pv-1", NULL },
		{ CSI "/volumeDevices/staging/pv-1/pvc-1", "", KUBELET_STAGED, "pvc-1", "pv-1",
		  NULL },
		{ CSI "/volumeDevices/publish/pv-1/uid-1", CSI "/volumeDevices/pv-1/data",
		  KUBELET_PUBLISHED, "pvc-1", "pv-1", "uid-1" },
		{ CSI "/volumeDevices/pv-1/dev/uid-1", CSI "/volumeDevices/pv-1/data",
		  KUBELET_PUBLISHED, "pvc-1", "pv-1", "uid-1" },
		{ "pods/uid-1/volumes/kubernetes.io~csi/pv-1/mount",
		  "pods/uid-1/volumes/kubernetes.io~csi/pv-1", KUBELET_PUBLISHED, "pvc-1", "pv-1",
		  "uid-1" },
		{ "pods/uid-1/volumeDevices/kubernetes.io~csi/pv-1", CSI "/volumeDevices/pv-1/data",
		  KUBELET_PUBLISHED, "pvc-1", "pv-1", "uid-1" },
		{ "pods/uid-1/volumes/kubernetes.io~empty-dir/pv-1/mount", "", KUBELET_OTHER, NULL,
		  NULL, NULL },
		{ "pods/uid-1/volume-subpaths/pv-1/c/0", "", KUBELET_OTHER, NULL, NULL, NULL },
		{ "staging/pvc-1", "", KUBELET_OTHER, NULL, NULL, NULL },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct kubelet_volume_dir p;
		char *path;

		begin();
		if (*rows[i].data_dir)
			put(rows[i].data_dir, DATA(DRIVER));
		path = xasprintf("%s/%s", root, rows[i].path);
		kubelet_volume_dir_read(root, DRIVER, path, &p);
		ck_assert_msg(p.role == rows[i].role, "%s", rows[i].path);
		ROW_STR_EQ(rows[i].path, p.volume_id ? p.volume_id : "",
		           rows[i].id ? rows[i].id : "");
		ROW_STR_EQ(rows[i].path, p.persistent_volume ? p.persistent_volume : "",
		           rows[i].pv ? rows[i].pv : "");
		ROW_STR_EQ(rows[i].path, p.pod ? p.pod : "", rows[i].pod ? rows[i].pod : "");
		ROW_STR_EQ(rows[i].path, p.attachment ? p.attachment : "",
		           *rows[i].data_dir ? "csi-77" : "");
		ck_assert_msg(p.since == -1 || *rows[i].data_dir, "%s", rows[i].path);
		ck_assert(!p.foreign);
		kubelet_volume_dir_clear(&p);
		free(path);
		end();
	}
}
END_TEST

START_TEST(another_drivers_volume_is_told_apart_and_not_wanted)
{
	struct strs wanted AUTO(strs_clear) = STRS_INIT;
	char *path AUTO(free) = NULL, *slash AUTO(free) = NULL;
	struct kubelet_volume_dir p;

	begin();
	put("pods/u1/volumes/kubernetes.io~csi/pv-1", DATA("ebs.csi.aws.com"));
	put("pods/u2/volumes/kubernetes.io~csi/pv-1", DATA(DRIVER));
	put("pods/u3/volumes/kubernetes.io~csi/pv-1", "no JSON");
	put(CSI "/" DRIVER "/77", DATA(DRIVER));
	path = xasprintf("%s/pods/u1/volumes/kubernetes.io~csi/pv-1/mount", root);
	slash = xasprintf("%s//", root);
	kubelet_volume_dir_read(slash, DRIVER, path, &p);
	ck_assert(p.foreign);
	kubelet_volume_dir_clear(&p);
	kubelet_wanted(root, DRIVER, &wanted);
	ck_assert_uint_eq(wanted.n, 2);
	ck_assert(str_has_suffix(wanted.v[0], "/77/globalmount"));
	ck_assert(str_has_suffix(wanted.v[1], "/u2/volumes/kubernetes.io~csi/pv-1/mount"));
	end();
}
END_TEST

/* The host's clock was set back, or time() has not yet reached the second of the file. */
START_TEST(a_file_of_a_later_second_is_as_old_as_a_new_one)
{
	char *path AUTO(free) = NULL, *file AUTO(free) = NULL;
	struct kubelet_volume_dir p AUTO(kubelet_volume_dir_clear) = { .since = -1 };

	begin();
	put(CSI "/" DRIVER "/77", DATA(DRIVER));
	path = xasprintf("%s/" CSI "/" DRIVER "/77/globalmount", root);
	file = xasprintf("%s/" CSI "/" DRIVER "/77/vol_data.json", root);
	ck_assert_int_eq(utimensat(AT_FDCWD, file,
	                           (const struct timespec[]) { { .tv_nsec = UTIME_NOW },
	                                                       { .tv_sec = time(NULL) + 3600 } },
	                           0),
	                 0);
	kubelet_volume_dir_read(root, DRIVER, path, &p);
	ck_assert_int_eq(p.since, 0);
	end();
}
END_TEST

SUITE("kubelet", each_of_its_paths_is_known, a_file_of_a_later_second_is_as_old_as_a_new_one,
      another_drivers_volume_is_told_apart_and_not_wanted);
