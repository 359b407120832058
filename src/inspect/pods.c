/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds volumes whose pods no longer run. A node has no account at the API server, and kubelet's
 * directories outlive pods. So pods are identified by the cgroups of the host's processes, whose
 * names have the pod's UID.
 */
#include "inspect/inspect.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"

#define YOUNG_S 300
#define UID_MIN 32 /* minimum length of a UID; a static pod's UID has no dashes */
#define UID_MAX 36
#define CGROUP_MAX (64 * 1024)

/* Adds the UID that follows "pod". In names of systemd, its dashes are underscores. */
static void add_uid(const char *at, struct strs *seen)
{
	char uid[UID_MAX + 1];
	size_t n = 0;

	for (; n < UID_MAX && (isxdigit((unsigned char)at[n]) || at[n] == '_' || at[n] == '-'); n++)
		uid[n] = at[n] == '_' ? '-' : at[n];
	uid[n] = '\0';
	if (n >= UID_MIN && !strs_has(seen, uid))
		strs_add(seen, uid);
}

static void pods_read_process(const char *proc_root, const char *pid, struct strs *seen)
{
	char *path AUTO(free) = xasprintf("%s/%s/cgroup", proc_root, pid);
	char *text AUTO(free) = NULL;
	struct err ignored = ERR_INIT;

	/* A process that has ended in the meantime does not count. */
	if (file_read(path, CGROUP_MAX, &text, NULL, &ignored))
		return;
	for (const char *at = strstr(text, "pod"); at; at = strstr(at, "pod")) {
		at += strlen("pod");
		add_uid(at, seen);
	}
}

static void pods_read_all(const char *proc_root, struct strs *seen)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err ignored = ERR_INIT;

	if (dir_list(proc_root, &names, &ignored))
		return;
	for (size_t i = 0; i < names.n; i++)
		if (isdigit((unsigned char)*names.v[i]))
			pods_read_process(proc_root, names.v[i], seen);
}

static void pods_report(struct inspect_report *r, const char *id, const struct json *target,
                        int64_t since)
{
	const char *pod = json_str(target, "pod"), *path = json_str(target, "path");
	char *object AUTO(free) = xasprintf("volume %s", id);
	char *next AUTO(free) = xasprintf(
		"if the pod is only about to start, kubectl get pods -A -o "
		"jsonpath='{.items[?(@.metadata.uid==\"%s\")].metadata.name}' prints its name. "
		"Otherwise kubelet must clean up: its log shows why it does not (\"orphaned "
		"pod\"). Until then the volume stays attached; unmount nothing but %s",
		pod, path);
	char buf[64];

	inspect_finding(r, object, next,
	                "%s is published to pod %s, of which no process runs on this host; for %s",
	                path, pod, inspect_age(since, buf));
}

static void pods_check_target(struct inspect_report *r, const struct strs *seen, const char *id,
                              const struct json *target)
{
	const char *pod = json_str(target, "pod");
	struct err ignored = ERR_INIT;
	int64_t since;

	if (!pod || strlen(pod) < UID_MIN || strs_has(seen, pod) ||
	    json_get_i64(target, "since", &since, &ignored) || since < YOUNG_S)
		return;
	pods_report(r, id, target, since);
}

void inspect_find_podless(struct inspect_report *r, const char *proc_root)
{
	struct strs seen AUTO(strs_clear) = STRS_INIT;

	pods_read_all(proc_root, &seen);
	/*
	 * If at most one pod is visible, it is the observer's own, and the visible processes are
	 * not those of the host.
	 */
	if (seen.n < 2)
		return;
	json_foreach (v, json_member(r->tree, "volumes"))
		json_foreach (target, json_at(v, "node.published"))
			pods_check_target(r, &seen, json_str(v, "id"), target);
}
