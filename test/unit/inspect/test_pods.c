/* SPDX-License-Identifier: Apache-2.0 */
/* Targets of deleted pods, detected by the cgroups of the host's processes. */
#include "test/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"
#include "inspect/inspect.h"

#define UID_A "aaaaaaaa-0000-4000-8000-000000000001"
#define UID_B "bbbbbbbb-0000-4000-8000-000000000002"
#define UID_GONE "cccccccc-0000-4000-8000-000000000003"

/* processes: contents of /proc/PID/cgroup; NULL: absent. */
static const struct {
	const char *what, *pod, *since, *processes[3];
	unsigned findings;
} rows[] = {
	{ "systemd's names",
	  "aaaaaaaa-0000-4000-8000-000000000001",
	  "900",
	  { "0::/kubepods.slice/kubepods-burstable-podaaaaaaaa_0000_4000_8000_000000000001.slice/x",
	    "0::/../kubepods/besteffort/pod" UID_B "/y" },
	  0 },
	{ "cgroupfs' names",
	  UID_B,
	  "900",
	  { "0::/kubepods/podaaaaaaaa_0000_4000_8000_000000000001", "0::/kubepods/pod" UID_B "/y" },
	  0 },
	{ "version 1",
	  UID_A,
	  "900",
	  { "2:cpu:/a\n1:name=systemd:/kubepods/pod" UID_A "/y", "0::/kubepods/pod" UID_B },
	  0 },
	{ "a pod that has gone",
	  UID_GONE,
	  "900",
	  { "0::/kubepods/pod" UID_A, "0::/kubepods/pod" UID_B, "0::/init.scope" },
	  1 },
	{ "a pod that may be about to start",
	  UID_GONE,
	  "200",
	  { "0::/kubepods/pod" UID_A, "0::/kubepods/pod" UID_B },
	  0 },
	{ "the processes of one pod alone",
	  UID_GONE,
	  "900",
	  { "0::/kubepods/pod" UID_A, "0::/" },
	  0 },
	{ "no process", UID_GONE, "900", { NULL }, 0 },
	{ "another orchestrator's path",
	  "alloc-7",
	  "900",
	  { "0::/kubepods/pod" UID_A, "0::/kubepods/pod" UID_B },
	  0 },
};

static void make_process(const char *root, size_t i, const char *cgroup)
{
	char *dir AUTO(free) = xasprintf("%s/%zu", root, i + 1);
	char *path AUTO(free) = xasprintf("%s/cgroup", dir);
	struct err err = ERR_INIT;

	ck_assert_int_eq(dir_make(dir, 0755, &err), 0);
	ck_assert_int_eq(file_write_synced(path, cgroup, strlen(cgroup), 0644, &err), 0);
}

START_TEST(a_target_whose_pod_has_no_process_is_found)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };
	char root[] = "/tmp/test_pods.XXXXXX";
	char *target AUTO(free) = xasprintf("[{\"path\":\"/p\",\"pod\":\"%s\",\"since\":%s}]",
	                                    rows[_i].pod, rows[_i].since);
	char *command AUTO(free) = NULL;
	struct json *list = NULL;
	struct err err = ERR_INIT;

	ck_assert_ptr_nonnull(mkdtemp(root));
	for (size_t i = 0; i < ARRAY_LEN(rows[_i].processes) && rows[_i].processes[i]; i++)
		make_process(root, i, rows[_i].processes[i]);
	ck_assert_int_eq(json_parse("row", target, strlen(target), &list, &err), 0);
	inspect_report_init(&r);
	json_set(json_sub(inspect_volume(&r, "v1"), "node"), "published", list);
	inspect_find_podless(&r, root);
	command = xasprintf("rm -r %s", root);
	ck_assert_int_eq(system(command), 0);
	ck_assert_msg(r.n_findings == rows[_i].findings, "%s: %u findings", rows[_i].what,
	              r.n_findings);
	if (r.n_findings)
		ck_assert_ptr_nonnull(strstr(json_str(r.tree, "findings.0.what"), UID_GONE));
}
END_TEST

SUITE("pods", LOOP(a_target_whose_pod_has_no_process_is_found, ARRAY_LEN(rows)));
