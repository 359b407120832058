/* SPDX-License-Identifier: Apache-2.0 */
/* Leftovers that the start removes, and others that it keeps, on a recorded host. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "node/device/sysfs.h"
#include "node/host/recover.h"
#include "node/service.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

#define VF "0000:01:00.1"

static char root[] = "/tmp/test_recover.XXXXXX";
static struct strs vendors;
static char sysfs[100], proc[100], plugin[100];

static void put(const char *name, const char *text)
{
	struct err err = ERR_INIT;
	char *path = xasprintf("%s/%s", root, name), *dir = xstrdup(path);

	*strrchr(dir, '/') = '\0';
	ck_assert_msg(!dir_make(dir, 0755, &err), "%s", err.msg);
	ck_assert_msg(!file_replace(path, text, strlen(text), 0644, &err), "%s", err.msg);
	free(path);
	free(dir);
}

static void put_function(const char *pci, const char *vendor, const char *override)
{
	const char *const attrs[][2] = { { "vendor", vendor },
		                         { "device", "0x6001\n" },
		                         { "class", "0x010802\n" },
		                         { "driver_override", override } };

	for (size_t i = 0; i < ARRAY_LEN(attrs); i++) {
		char *name = xasprintf("sys/bus/pci/devices/%s/%s", pci, attrs[i][0]);

		put(name, attrs[i][1]);
		free(name);
	}
}

static void set_up(void)
{
	ck_assert_ptr_nonnull(mkdtemp(root));
	snprintf(sysfs, sizeof(sysfs), "%s/sys", root);
	snprintf(proc, sizeof(proc), "%s/proc", root);
	snprintf(plugin, sizeof(plugin), "%s/plugin", root);
	put("proc/sys/kernel/random/boot_id", "this-boot\n");
	ck_assert_int_eq(mkdir(plugin, 0755), 0);
	put("sys/bus/pci/README", "");
	strs_add(&vendors, "15b3");
}

static void tear_down(void)
{
	char *command = xasprintf("rm -rf '%s'", root);

	ck_assert_int_eq(system(command), 0);
	free(command);
	strs_clear(&vendors);
	memcpy(root + strlen(root) - 6, "XXXXXX", 6);
}

static void start(struct node *n, int64_t hang_ms)
{
	node_init(n, &(struct node_options) { .id = "n",
	                                      .proc_root = proc,
	                                      .plugin_dir = plugin,
	                                      .world = { .sysfs = sysfs,
	                                                 .dev = "/dev",
	                                                 .vendors = &vendors,
	                                                 .snap_device_id = "6001",
	                                                 .hang_ms = hang_ms } });
}

static void recover(struct str *did, struct strs *unfinished)
{
	struct err err = ERR_INIT;
	struct node n;

	start(&n, 0);
	ck_assert_msg(node_recover_records(&n, did, unfinished, &err) == 0, "%s", err.msg);
	node_clear(&n);
}

/* ---- concurrently with calls ---- */

static struct strs lines;
static struct node host;

static void keep_line(void *arg, const char *line)
{
	(void)arg;
	strs_add(&lines, line);
}

static void forget_lines(void)
{
	strs_clear(&lines);
	lines = (struct strs)STRS_INIT;
}

static unsigned said(const char *words, const char *about)
{
	unsigned n = 0;

	for (size_t i = 0; i < lines.n; i++)
		n += strstr(lines.v[i], words) && strstr(lines.v[i], about);
	return n;
}

static void recover_host(int64_t hang_ms)
{
	start(&host, hang_ms);
	forget_lines();
	log_redirect(keep_line, NULL);
	node_recover_host(&host);
	log_redirect(NULL, NULL);
}

/* No access hangs any more. */
static void end_host(void)
{
	while (!node_wait_host(&host, deadline_in_ms(0)))
		usleep(1000);
	ck_assert_uint_eq(sysfs_hung(0, NULL), 0);
	node_clear(&host);
	forget_lines();
}

static char *content(const char *name)
{
	struct err err = ERR_INIT;
	char *path = xasprintf("%s/%s", root, name), *text = NULL;

	if (file_read_line(path, 1000, &text, &err))
		text = xstrdup("gone");
	free(path);
	return text;
}

START_TEST(only_our_own_override_of_a_function_for_volumes_is_cleared)
{
	static const struct {
		const char *what, *vendor, *override, *after;
	} rows[] = {
		{ "ours", "0x15b3\n", "nvme\n", "" },
		{ "none", "0x15b3\n", "(null)\n", "(null)" },
		{ "parked by somebody", "0x15b3\n", "pci-stub\n", "pci-stub" },
		{ "given to a virtual machine", "0x15b3\n", "vfio-pci\n", "vfio-pci" },
		{ "another vendor's", "0x8086\n", "nvme\n", "nvme" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *now AUTO(free) = NULL;

		set_up();
		put_function(VF, rows[i].vendor, rows[i].override);
		recover_host(0);
		now = content("sys/bus/pci/devices/" VF "/driver_override");
		ck_assert_msg(str_eq(now, rows[i].after), "%s: %s", rows[i].what, now);
		ck_assert_uint_eq(said("cleaned up", "driver_override of " VF), !*rows[i].after);
		ck_assert_uint_eq(lines.n, !*rows[i].after);
		end_host();
		tear_down();
	}
}
END_TEST

/* Below the root of this test. */
static char *put_fifo(const char *pci, const char *attr)
{
	char *path = xasprintf("%s/bus/pci/devices/%s/%s", sysfs, pci, attr);

	unlink(path);
	ck_assert_int_eq(mkfifo(path, 0644), 0);
	return path;
}

/* Turns the FIFO into a file, and ends the wait of a thread. */
static void answer(const char *path, const char *text)
{
	struct err err = ERR_INIT;
	int fd;

	/* The access is listed before it opens the FIFO. */
	WAIT_UNTIL((fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) >= 0);
	ck_assert_msg(!file_replace(path, text, strlen(text), 0644, &err), "%s", err.msg);
	ck_assert_int_gt(write(fd, text, strlen(text)), 0);
	close(fd);
}

#define OTHER_VF "0000:01:00.2"
#define LAST_VF "0000:01:00.3"

START_TEST(a_function_that_hangs_is_named_and_the_others_are_tidied_up)
{
	static const char *const attrs[] = { "class", "vendor", "driver_override" };

	for (size_t i = 0; i < ARRAY_LEN(attrs); i++) {
		char *fifo AUTO(free) = NULL, *other AUTO(free) = NULL, *now AUTO(free) = NULL;

		set_up();
		put_function(VF, "0x15b3\n", "nvme\n");
		put_function(OTHER_VF, "0x15b3\n", "nvme\n");
		put_function(LAST_VF, "0x15b3\n", "nvme\n");
		fifo = put_fifo(VF, attrs[i]);
		other = put_fifo(OTHER_VF, attrs[i]);
		recover_host(200);
		ck_assert_uint_eq(said("does not answer", "function=" VF), 1);
		ck_assert_uint_eq(said("does not answer", fifo), 1);
		ck_assert_uint_eq(said("does not answer", "function=" OTHER_VF), 1);
		ck_assert(!node_wait_host(&host, deadline_in_ms(0)));
		while (!now || *now) {
			free(now);
			now = content("sys/bus/pci/devices/" LAST_VF "/driver_override");
		}
		answer(fifo, "x\n");
		answer(other, "x\n");
		end_host();
		tear_down();
	}
}
END_TEST

/* Root ports, disks of the host, a virtual machine's devices: a read takes the device's lock. */
START_TEST(nothing_that_may_hang_is_read_of_a_function_that_is_not_ours)
{
	static const char *const attrs[] = { "driver_override", "sriov_numvfs", "config", "vpd",
		                             "enable",          "resource",     "reset" };
	static const char *const vendors_of_others[] = { "0x8086\n", "0x1af4\n" };

	for (size_t i = 0; i < ARRAY_LEN(attrs); i++)
		for (size_t j = 0; j < ARRAY_LEN(vendors_of_others); j++) {
			char *fifo AUTO(free) = NULL;

			set_up();
			put_function(VF, vendors_of_others[j], "nvme\n");
			fifo = put_fifo(VF, attrs[i]);
			recover_host(20000);
			ck_assert_uint_eq(lines.n, 0);
			ck_assert(open(fifo, O_WRONLY | O_NONBLOCK | O_CLOEXEC) < 0 &&
			          errno == ENXIO);
			end_host();
			tear_down();
		}
}
END_TEST

struct record {
	const char *name, *text;
	bool stays;
};

/* The result of a start with these records in a folder of the driver. */
static void recover_records(const char *folder, const struct record *rows, size_t n,
                            struct str *did, struct strs *unfinished)
{
	set_up();
	recover(did, unfinished); /* the folder does not exist yet */
	for (size_t i = 0; i < n; i++) {
		char *name AUTO(free) = xasprintf("plugin/%s/%s", folder, rows[i].name);

		put(name, rows[i].text);
	}
	recover(did, unfinished);
	for (size_t i = 0; i < n; i++) {
		char *path AUTO(free) = xasprintf("%s/%s/%s", plugin, folder, rows[i].name);

		ck_assert_msg(path_exists(path) == rows[i].stays, "%s", rows[i].name);
	}
}

START_TEST(records_of_tools_that_can_match_no_disk_any_more_are_removed)
{
	static const struct record rows[] = {
		{ "this", "volume=a\nfilesystem=ext4\nboot=this-boot\ndiskseq=7\nattachment=\n",
		  true },
		{ "other", "volume=b\nfilesystem=ext4\nboot=that-boot\ndiskseq=7\nattachment=\n",
		  false },
		{ "longer", "volume=c\nfilesystem=ext4\nboot=this-boot-2\ndiskseq=7\nattachment=\n",
		  false },
		{ "attached",
		  "volume=d\nfilesystem=xfs\nboot=that-boot\ndiskseq=7\nattachment=u-1\n", true },
		{ "cut", "volume=e\nfilesystem=xfs\nboot=that-boot\ndiskseq=7\nattachment=u-",
		  false },
		{ "short", "volume=f\nfile", false },
		{ "empty", "", false },
		{ "hash.e2fsck",
		  "volume=g\nfilesystem=ext4\nboot=this-boot\ndiskseq=7\nattachment=\n", true },
	};
	struct strs unfinished AUTO(strs_clear) = STRS_INIT;
	struct str did AUTO(str_clear) = STR_INIT(500);
	char *told AUTO(free) = NULL;

	recover_records("formatting", rows, ARRAY_LEN(rows), &did, &unfinished);
	ck_assert_ptr_nonnull(strstr(did.ptr, "formatting record other"));
	strs_sort(&unfinished);
	told = strs_join(&unfinished, ", ");
	ck_assert_str_eq(told, "check of ext4 of volume g, mkfs.ext4 of volume a, "
	                       "mkfs.xfs of volume d");
	tear_down();
}
END_TEST

START_TEST(a_record_of_an_unstage_before_the_reboot_is_removed)
{
	struct strs unfinished AUTO(strs_clear) = STRS_INIT;
	struct str did AUTO(str_clear) = STR_INIT(500);

	set_up();
	put("plugin/unstaging/other", "device=7:1\nboot=that-boot\n");
	recover(&did, &unfinished);
	ck_assert_str_eq(did.ptr, "unstaging record other");
	ck_assert_uint_eq(unfinished.n, 0);
	tear_down();
}
END_TEST

/* They may be of this boot. */
START_TEST(no_record_is_removed_while_the_boot_is_not_known)
{
	struct strs unfinished AUTO(strs_clear) = STRS_INIT;
	struct str did AUTO(str_clear) = STR_INIT(500);

	set_up();
	put("plugin/unstaging/other", "device=7:1\nboot=that-boot\n");
	put("plugin/formatting/tool",
	    "volume=b\nfilesystem=ext4\nboot=that-boot\ndiskseq=7\nattachment=\n");
	put("proc/sys/kernel/random/boot_id", "\n");
	recover(&did, &unfinished);
	ck_assert_str_eq(did.ptr, "");
	ck_assert_uint_eq(unfinished.n, 1);
	put("proc/sys/kernel/random/boot_id", "this-boot\n");
	recover(&did, &unfinished);
	ck_assert_str_eq(did.ptr, "formatting record tool, unstaging record other");
	tear_down();
}
END_TEST

/* The steps before serving must not access devices. */
START_TEST(before_serving_no_attribute_is_read)
{
	struct strs unfinished AUTO(strs_clear) = STRS_INIT;
	struct str did AUTO(str_clear) = STR_INIT(500);

	set_up();
	snprintf(sysfs, sizeof(sysfs), "/nonexistent");
	put("plugin/formatting/tool",
	    "volume=b\nfilesystem=ext4\nboot=that-boot\ndevice=7:1\ndiskseq=7\nattachment=\n");
	put("plugin/unstaging/other", "device=7:1\nboot=that-boot\n");
	recover(&did, &unfinished);
	ck_assert_str_eq(did.ptr, "formatting record tool, unstaging record other");
	tear_down();
}
END_TEST

/* `plugin` is unchanged; "" is for a result of 0. */
static void check_folder(const char *what, const char *want)
{
	struct strs unfinished AUTO(strs_clear) = STRS_INIT;
	struct str did AUTO(str_clear) = STR_INIT(500);
	struct err err = ERR_INIT;
	struct node n;

	start(&n, 1000);
	ck_assert_msg(node_recover_records(&n, &did, &unfinished, &err) == (*want ? -1 : 0),
	              "%s: %s", what, err.msg);
	ck_assert_msg(strstr(err.msg, want) && (!*want || strstr(err.msg, "(--plugin-dir)")),
	              "%s: %s", what, err.msg);
	node_clear(&n);
}

START_TEST(a_state_directory_that_cannot_be_used_is_named_with_its_purpose)
{
	set_up();
	ck_assert_int_eq(rmdir(plugin), 0);
	check_folder("none yet", "");
	put("plugin/spare/x", "");
	check_folder("a directory", "");
	snprintf(plugin, sizeof(plugin), "%s/file", root);
	put("file", "");
	check_folder("a file", "Not a directory; running formats");
	snprintf(plugin, sizeof(plugin), "%s/loop", root);
	ck_assert_int_eq(symlink("loop", plugin), 0);
	check_folder("a link to itself", "symbolic links");
	tear_down();
}
END_TEST

SUITE("recover", a_state_directory_that_cannot_be_used_is_named_with_its_purpose,
      only_our_own_override_of_a_function_for_volumes_is_cleared,
      a_function_that_hangs_is_named_and_the_others_are_tidied_up,
      nothing_that_may_hang_is_read_of_a_function_that_is_not_ours,
      before_serving_no_attribute_is_read,
      records_of_tools_that_can_match_no_disk_any_more_are_removed,
      a_record_of_an_unstage_before_the_reboot_is_removed,
      no_record_is_removed_while_the_boot_is_not_known);
