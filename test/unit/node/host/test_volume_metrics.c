/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of --volume-metrics: their volumes, their values, and the values missing during a hang.
 */
#include "test/lib/suite.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/metric.h"
#include "node/target/guard.h"
#include "node/host/volume_metrics.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"

static struct node_world w;
static struct volume_metrics *metrics;
static char *staging; /* as kubelet creates it: .../globalmount */

static void write_stat(const struct nvme_disk *disk, const char *text)
{
	run_tool("echo '%s' >%s/class/block/%s/stat", text, w.nvme.sysfs, disk->name);
}

/* One volume, staged as by kubelet; vol_data NULL: without the file beside it. */
static struct nvme_disk *begin(const char *fs_type, const char *vol_data)
{
	struct stage_request s;
	struct nvme_disk *disk;

	node_world_init(&w);
	metrics = volume_metrics_new();
	staging = xasprintf("%s/plugins/csi/hash/globalmount", w.kubelet_dir);
	run_tool("mkdir -p %s", staging);
	if (vol_data)
		run_tool("echo '%s' >%s/../vol_data.json", vol_data, staging);
	disk = nvme_world_add(&w.nvme, 1, "", 320 * MIB);
	run_tool("mkdir -p %s/class/block/%s", w.nvme.sysfs, disk->name);
	write_stat(disk, "100 0 2048 7 50 0 1024 9 3 20 16 4 0 512 6 5 8");
	s = stage_request(&w, disk, fs_type, MODE_SINGLE_NODE_WRITER);
	s.staging_path = staging;
	node_world_stage(&w, &s);
	return disk;
}

static void end(void)
{
	metrics = volume_metrics_free(metrics);
	node_world_clear(&w);
	free(staging);
}

/* The page after another sample; malloc'ed. */
static char *page(void)
{
	struct str text = STR_INIT(65536);

	volume_metrics_sample(metrics, &w.node);
	volume_metrics_print(metrics, &text);
	return str_take(&text);
}

/* The value of the metric's only line, or -1; the line has these labels. */
static double value(const char *text, const char *name, const char *volume,
                    const struct nvme_disk *disk)
{
	char *line AUTO(free) =
		xasprintf("\n%s{volume=\"%s\",device=\"%s\"} ", name, volume, disk->name);
	const char *at = strstr(text, line);

	if (!at)
		return -1;
	ck_assert_msg(!strstr(at + 1, line), "%s twice in: %s", name, text);
	return strtod(at + strlen(line), NULL);
}

static size_t lines_of(const char *text, const char *what)
{
	size_t n = 0;

	while ((text = strstr(text, what))) {
		n++;
		text++;
	}
	return n;
}

START_TEST(a_volume_has_its_io_and_its_bytes_under_the_name_that_kubelet_gives_it)
{
	struct nvme_disk *disk;
	char *text AUTO(free) = NULL;
	double size, used, available;

	SKIP_UNLESS_LOOP();
	disk = begin("ext4", "{\"volumeHandle\": \"pvc-7\"}");
	text = page();
	ck_assert_double_eq(value(text, "snap_csi_volume_reads_total", "pvc-7", disk), 100);
	ck_assert_double_eq(value(text, "snap_csi_volume_read_bytes_total", "pvc-7", disk),
	                    2048 * 512);
	ck_assert_double_eq(value(text, "snap_csi_volume_writes_total", "pvc-7", disk), 50);
	ck_assert_double_eq(value(text, "snap_csi_volume_written_bytes_total", "pvc-7", disk),
	                    1024 * 512);
	ck_assert_double_eq_tol(value(text, "snap_csi_volume_io_seconds_total", "pvc-7", disk),
	                        0.020, 1e-9);
	ck_assert_double_eq(value(text, "snap_csi_volume_in_flight", "pvc-7", disk), 3);
	size = value(text, "snap_csi_volume_capacity_bytes", "pvc-7", disk);
	used = value(text, "snap_csi_volume_used_bytes", "pvc-7", disk);
	available = value(text, "snap_csi_volume_available_bytes", "pvc-7", disk);
	ck_assert(size > 200.0 * MIB && size <= 320.0 * MIB);
	ck_assert(used >= 0 && available > 100.0 * MIB && used + available <= size);
	end();
}
END_TEST

/* The requests of a kind; -1: the page has no such line. */
static double counted(const char *text, const char *total, const struct nvme_disk *disk)
{
	char *name AUTO(free) = xasprintf("snap_csi_volume_%s_total", total);

	return value(text, name, "pvc-7", disk);
}

/* The mean time of a request, in seconds, between two pages. */
static double mean_latency(const char *before, const char *after, const char *what,
                           const char *total, const struct nvme_disk *disk)
{
	char *time AUTO(free) = xasprintf("snap_csi_volume_%s_seconds_total", what);

	return (value(after, time, "pvc-7", disk) - value(before, time, "pvc-7", disk)) /
	       (counted(after, total, disk) - counted(before, total, disk));
}

/*
 * Lines of /sys/class/block/DEVICE/stat, and the mean latency in ms computed from their difference.
 */
static const struct {
	const char *before, *after;
	double read, write, discard, flush; /* -1: this kernel does not count them */
} stat_lines[] = {
	{ "100 0 2048 7 50 0 1024 9 3 20 16 4 0 512 6 5 8",
	  "107 0 2048 17 53 0 1024 34 0 20 16 5 0 512 9 7 15", 10 / 7.0, 25 / 3.0, 3, 3.5 },
	/* Large totals of a device that has been busy for a year. */
	{ "90071992547 12 720575940379 31536000123 8123456789 3 64987654312 61000000001 128 31536000000 92536000124 10 0 80 1 2 3",
	  "90071993547 12 720575948379 31536000323 8123456989 3 64987655912 61000017001 512 31536000900 92536017324 20 0 160 4 8 45",
	  0.2, 85, 0.3, 7 },
	/* Linux 4.18 to 5.4; older ones. */
	{ "1 0 8 1 1 0 8 1 0 1 2 1 0 8 1", "4 0 32 3 5 0 40 9 0 4 12 3 0 24 2", 2 / 3.0, 2, 0.5,
	  -1 },
	{ "1 0 8 1 1 0 8 1 0 1 2", "4 0 32 3 5 0 40 9 0 4 12", 2 / 3.0, 2, -1, -1 },
	/* A field that a later kernel may add. */
	{ "1 0 8 1 1 0 8 1 0 1 2 1 0 8 1 1 1 77", "4 0 32 3 5 0 40 9 0 4 12 3 0 24 2 2 3 99",
	  2 / 3.0, 2, 0.5, 2 },
};

START_TEST(the_mean_latency_of_a_volume_is_that_of_sysfs_within_one_percent)
{
	char *before AUTO(free) = NULL, *after AUTO(free) = NULL;
	const struct {
		const char *what, *total;
		double ms;
	} rows[] = {
		{ "read", "reads", stat_lines[_i].read },
		{ "write", "writes", stat_lines[_i].write },
		{ "discard", "discards", stat_lines[_i].discard },
		{ "flush", "flushes", stat_lines[_i].flush },
	};
	struct nvme_disk *disk;

	SKIP_UNLESS_LOOP();
	disk = begin("ext4", "{\"volumeHandle\": \"pvc-7\"}");
	write_stat(disk, stat_lines[_i].before);
	before = page();
	write_stat(disk, stat_lines[_i].after);
	after = page();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].ms < 0)
			ck_assert_double_eq(counted(after, rows[i].total, disk), -1);
		else
			ck_assert_double_eq_tol(
				mean_latency(before, after, rows[i].what, rows[i].total, disk),
				rows[i].ms / 1000, rows[i].ms / 1000 / 100);
	end();
}
END_TEST

static const char *const no_stat[] = { "", "1 0 8 1 1 0 8 1 0 1", "1 0 8 x 1 0 8 1 0 1 2" };

START_TEST(a_stat_line_that_is_cut_or_no_numbers_has_no_io)
{
	char *text AUTO(free) = NULL;
	struct nvme_disk *disk;

	SKIP_UNLESS_LOOP();
	disk = begin("ext4", "{\"volumeHandle\": \"pvc-7\"}");
	write_stat(disk, no_stat[_i]);
	text = page();
	ck_assert_double_eq(value(text, "snap_csi_volume_reads_total", "pvc-7", disk), -1);
	ck_assert(value(text, "snap_csi_volume_capacity_bytes", "pvc-7", disk) > 0);
	end();
}
END_TEST

START_TEST(raw_block_has_the_size_of_its_disk_and_no_bytes_in_use)
{
	struct nvme_disk *disk;
	char *text AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	disk = begin(NULL, NULL);
	text = page();
	ck_assert_double_eq(value(text, "snap_csi_volume_capacity_bytes", VOLUME_ID, disk),
	                    320.0 * MIB);
	ck_assert_double_eq(value(text, "snap_csi_volume_used_bytes", VOLUME_ID, disk), -1);
	ck_assert_double_eq(value(text, "snap_csi_volume_reads_total", VOLUME_ID, disk), 100);
	end();
}
END_TEST

START_TEST(a_volume_whose_name_is_not_known_does_not_show)
{
	static const char *const files[] = { NULL, "no json", "{}", "{\"volumeHandle\": 7}" };
	char *text AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	begin("ext4", files[_i]);
	text = page();
	ck_assert_msg(!strstr(text, "{volume="), "%s", text);
	/* The page stays valid for Prometheus. */
	ck_assert_uint_eq(lines_of(text, "# TYPE "), VOLUME_METRICS);
	end();
}
END_TEST

START_TEST(a_volume_that_was_unstaged_shows_no_more)
{
	struct err err = ERR_INIT;
	char *before AUTO(free) = NULL, *after AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	begin("ext4", "{\"volumeHandle\": \"pvc-7\"}");
	before = page();
	ck_assert_ptr_nonnull(strstr(before, "pvc-7"));
	ck_assert_msg(!node_unstage(&w.node, VOLUME_ID, staging, soon(), &err), "%s", err.msg);
	after = page();
	ck_assert_ptr_null(strstr(after, "pvc-7"));
	end();
}
END_TEST

START_TEST(of_two_volumes_with_one_name_the_page_has_one)
{
	struct stage_request s;
	struct nvme_disk *disk;
	char *second AUTO(free) = NULL, *text AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	begin("ext4", "{\"volumeHandle\": \"pvc-7\"}");
	disk = nvme_world_add(&w.nvme, 2, "", 320 * MIB);
	second = xasprintf("%s/plugins/csi/other/globalmount", w.kubelet_dir);
	run_tool("mkdir -p %s && cp %s/../vol_data.json %s/..", second, staging, second);
	s = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);
	s.volume_id = "pvc-8";
	s.staging_path = second;
	node_world_stage(&w, &s);
	text = page();
	ck_assert_uint_eq(lines_of(text, "\nsnap_csi_volume_capacity_bytes{"), 1);
	end();
}
END_TEST

static atomic_bool hangs;
static int hung(const char *path, struct statvfs *ret)
{
	(void)path;
	*ret = (struct statvfs) { .f_blocks = 0 };
	while (hangs)
		usleep(1000);
	return 0;
}

static void *look(void *arg)
{
	volume_metrics_sample(metrics, &w.node);
	return arg;
}

START_TEST(while_a_filesystem_hangs_the_page_has_what_was_seen_before)
{
	struct str during AUTO(str_clear) = STR_INIT(65536);
	char *before AUTO(free) = NULL, *after AUTO(free) = NULL;
	struct nvme_disk *disk;
	double used = -1;
	pthread_t looker;

	SKIP_UNLESS_LOOP();
	disk = begin("ext4", "{\"volumeHandle\": \"pvc-7\"}");
	before = page();
	hangs = true;
	guard_set_statvfs(w.node.guard, hung);
	ck_assert_int_eq(pthread_create(&looker, NULL, look, NULL), 0);
	usleep(100000);
	volume_metrics_print(metrics, &during);
	ck_assert_str_eq(during.ptr, before);
	pthread_join(looker, NULL);
	/* The device is read anyway: sysfs does not hang with a filesystem. */
	str_reset(&during);
	volume_metrics_print(metrics, &during);
	ck_assert_double_eq(value(during.ptr, "snap_csi_volume_reads_total", "pvc-7", disk), 100);
	ck_assert_double_eq(value(during.ptr, "snap_csi_volume_used_bytes", "pvc-7", disk), -1);
	hangs = false;
	guard_set_statvfs(w.node.guard, NULL);
	/* Once the hanging helper has ended. */
	for (int i = 0; used < 0 && i < 2000; i++) {
		usleep(10000);
		free(after);
		after = page();
		used = value(after, "snap_csi_volume_used_bytes", "pvc-7", disk);
	}
	ck_assert(used >= 0);
	end();
}
END_TEST

SUITE("volume_metrics", a_volume_has_its_io_and_its_bytes_under_the_name_that_kubelet_gives_it,
      LOOP(the_mean_latency_of_a_volume_is_that_of_sysfs_within_one_percent, ARRAY_LEN(stat_lines)),
      LOOP(a_stat_line_that_is_cut_or_no_numbers_has_no_io, ARRAY_LEN(no_stat)),
      raw_block_has_the_size_of_its_disk_and_no_bytes_in_use,
      LOOP(a_volume_whose_name_is_not_known_does_not_show, 4),
      a_volume_that_was_unstaged_shows_no_more, of_two_volumes_with_one_name_the_page_has_one,
      while_a_filesystem_hangs_the_page_has_what_was_seen_before);
