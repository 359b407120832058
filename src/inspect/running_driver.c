/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the running driver and its flags, from the command lines of processes. Stateless. Does not
 * read environments, which may contain secrets.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "inspect/inspect.h"

#define COMMAND_LINE_MAX (128 * 1024)
#define COMM_MAX 64
#define STATUS_MAX (16 * 1024)
#define PROGRAM "snap-csi-plugin" /* 15 characters, the length to which the kernel cuts names */

/*
 * Returns true if it is the driver's command line, and not that of one of its commands (inspect,
 * host, --probe).
 */
static bool running_is_driver(const char *line, size_t n)
{
	const char *name = strrchr(line, '/');
	const char *first = line + strlen(line) + 1;

	if (!str_eq(name ? name + 1 : line, PROGRAM))
		return false;
	if ((size_t)(first - line) < n && *first != '-')
		return false;
	for (const char *p = line; p < line + n; p += strlen(p) + 1)
		if (str_has_prefix(p, "--probe") || str_has_prefix(p, "-probe"))
			return false;
	return true;
}

/*
 * Reads the process's arguments without its name. Returns false if the process is not a driver, or
 * has ended.
 */
static bool arguments_of(const char *proc_root, const char *pid, struct strs *ret)
{
	char *path AUTO(free) = xasprintf("%s/%s/cmdline", proc_root, pid);
	struct err ignored = ERR_INIT;
	char *line AUTO(free) = NULL;
	size_t n;

	if (file_read(path, COMMAND_LINE_MAX, &line, &n, &ignored) || !running_is_driver(line, n))
		return false;
	for (const char *p = line + strlen(line) + 1; p < line + n; p += strlen(p) + 1)
		strs_add(ret, p);
	return true;
}

/*
 * Returns true if it is a different program, according to the kernel's name for it. This check
 * comes first, because reading a command line accesses the process's memory, which may block
 * permanently if a page is on a hung mount.
 */
static bool is_named_otherwise(const char *proc_root, const char *pid)
{
	char *path AUTO(free) = xasprintf("%s/%s/comm", proc_root, pid);
	char *comm AUTO(free) = NULL;
	struct err ignored = ERR_INIT;

	return file_read_line(path, COMM_MAX, &comm, &ignored) == 0 && !str_eq(comm, PROGRAM);
}

/*
 * Returns true if the process may be trusted, because any user may start a program of this name
 * with any flags. The real user id decides, because the others may be those of a setuid program.
 * Returns false if the user is not known.
 */
static bool is_trusted(const char *proc_root, const char *pid)
{
	char *path AUTO(free) = xasprintf("%s/%s/status", proc_root, pid);
	char *text AUTO(free) = NULL;
	struct err ignored = ERR_INIT;
	const char *line;
	uid_t user;

	if (file_read(path, STATUS_MAX, &text, NULL, &ignored))
		return false;
	line = strstr(text, "\nUid:");
	return line && sscanf(line, " Uid: %u", &user) == 1 && (!user || user == geteuid());
}

static char *mounts_of(const char *proc_root, const char *pid)
{
	char *link AUTO(free) = xasprintf("%s/%s/ns/mnt", proc_root, pid);
	struct err ignored = ERR_INIT;
	char *name = NULL;

	return link_basename(link, &name, &ignored) ? NULL : name;
}

/*
 * Chooses the only driver. `mounts`: only among processes in this mount namespace, because a node's
 * pod may see the host's processes, including a controller. *ret is 0 if none runs.
 */
static int running_choose(const char *proc_root, const struct strs *names, const char *mounts,
                          struct strs *words, pid_t *ret, struct err *err)
{
	for (size_t i = 0; i < names->n; i++) {
		struct strs args AUTO(strs_clear) = STRS_INIT;
		char *others AUTO(free) = NULL;

		if (!isdigit((unsigned char)*names->v[i]) ||
		    is_named_otherwise(proc_root, names->v[i]) ||
		    !is_trusted(proc_root, names->v[i]) ||
		    !arguments_of(proc_root, names->v[i], &args))
			continue;
		others = mounts_of(proc_root, names->v[i]);
		if (mounts && !str_eq(mounts, others))
			continue;
		if (*ret)
			return err_set(
				err, ERR_PRECONDITION,
				"several drivers run here, among them process %d and process %s: "
				"choose one with --pid",
				(int)*ret, names->v[i]);
		*ret = (pid_t)strtol(names->v[i], NULL, 10);
		for (size_t j = 0; j < args.n; j++)
			strs_add(words, args.v[j]);
	}
	return 0;
}

/* Searches for a driver that is not the first process of the container. */
static int running_search(const char *proc_root, struct strs *words, pid_t *ret, struct err *err)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;
	char *own AUTO(free) = mounts_of(proc_root, "self");

	*ret = 0;
	if (dir_list(proc_root, &names, err))
		return -1;
	if (own && running_choose(proc_root, &names, own, words, ret, err))
		return -1;
	return *ret ? 0 : running_choose(proc_root, &names, NULL, words, ret, err);
}

int inspect_running_driver(const char *proc_root, pid_t pid, struct strs *words, pid_t *ret,
                           struct err *err)
{
	char name[16];

	snprintf(name, sizeof(name), "%d", pid ? (int)pid : 1);
	if (arguments_of(proc_root, name, words)) {
		*ret = pid ? pid : 1;
		return 0;
	}
	if (pid)
		return err_set(err, ERR_NOT_FOUND, "process %d is not a serving snap-csi-plugin",
		               (int)pid);
	return running_search(proc_root, words, ret, err);
}
