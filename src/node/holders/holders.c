/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans the processes in <proc root>: for each one the open files, then the working directory, root
 * directory and executable, then the mount namespace. Names the first object through which the
 * process holds the volume. Does not scan memory maps without a descriptor and, where kcmp(2) does
 * not work, threads with their own descriptor table. Caches nothing between calls.
 *
 * One process must not delay the result for the volume of another one. A descriptor table that many
 * processes share is read only once. A scan for writers, which has no limit, reads small tables
 * first: a table with more descriptors than the quota of the round is deferred to the next round,
 * whose quota is larger.
 */
#include "node/holders/holders.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "node/device/partitions.h"
#include "node/holders/fd_tables.h"
#include "node/mount/mount.h"

#define PROCESSES_MAX 32768
#define MOUNTINFO_MAX (8 * 1024 * 1024)
#define NAMED 3
/*
 * The quota of the first round, in descriptors per table, and the factor by which it grows in each
 * further round.
 */
#define QUOTA 1024
#define QUOTA_FACTOR 64
/* The PID namespace of the host (PROC_PID_INIT_INO of the kernel). */
#define HOST_PIDS "pid:[4026531836]"

struct walk {
	const struct holders_query *q;
	struct holders *h;
	struct deadline until;
	char *self;                   /* process ID of this process */
	struct strs namespaces;       /* mount namespaces that were already scanned */
	struct partitions partitions; /* partitions of the disk, which are included */
	struct fd_tables tables;
	unsigned round, quota;
	struct strs put_off; /* tasks whose tables are too large for this round */
};

/* One process, or one of its threads. */
struct suspect {
	struct walk *w;
	const char *pid;
	int dir; /* <proc root>/<pid> */
};

static char *read_link(const char *fmt, ...) PRINTF_(1, 2);
static char *read_link(const char *fmt, ...)
{
	char path[PATH_MAX], target[PATH_MAX];
	va_list ap;
	ssize_t n;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	n = readlink(path, target, sizeof(target));
	return n < 0 ? NULL : xstrndup(target, (size_t)n);
}

/* Adds a name chosen by another process, without characters that could start a new line. */
static void add_clean(struct str *text, const char *from, size_t max)
{
	for (size_t i = 0; i < max && from[i]; i++)
		str_addf(text, "%c", isprint((unsigned char)from[i]) ? from[i] : '?');
	if (strlen(from) > max)
		str_add(text, "...");
}

/*
 * Returns true for a scan that decides whether data may be lost; it continues until the deadline.
 */
static bool is_exhaustive(const struct holders_query *q)
{
	return q->writers || q->exhaustive;
}

static bool limit_reached(const struct walk *w)
{
	return deadline_passed(w->until) ||
	       (!is_exhaustive(w->q) &&
	        (w->h->files > (w->q->files ? w->q->files : HOLDERS_FILES) ||
	         w->h->processes >= PROCESSES_MAX));
}

static void keep_unseen(struct walk *w, const char *pid, int errnum)
{
	struct holders *h = w->h;

	if (!*h->unseen)
		snprintf(h->unseen, sizeof(h->unseen), "process %.16s: %s", pid,
		         strerrordesc_np(errnum));
}

/*
 * Records that part of a process could not be scanned, unless the process has ended during the
 * scan. A process that this one may not inspect is treated like one of another PID namespace, which
 * is not visible.
 */
static void note_unseen(struct walk *w, const char *pid, int errnum)
{
	if (errnum == EACCES || errnum == EPERM)
		w->h->everybody = false;
	else if (errnum != ENOENT && errnum != ESRCH)
		keep_unseen(w, pid, errnum);
}

static bool is_disk(const struct walk *w, dev_t devno)
{
	return devno == w->q->disk || partitions_have(&w->partitions, devno);
}

/* ---- one process ---- */

static void found(const struct suspect *s, const char *has, const char *what, const char *end)
{
	struct str text AUTO(str_clear) = STR_INIT(300);
	char *path AUTO(free) = xasprintf("%s/%s/comm", s->w->q->proc_root, s->pid);
	char *comm AUTO(free) = NULL;
	struct err ignored = ERR_INIT;

	if (str_eq(s->pid, s->w->self)) {
		s->w->h->ourselves = true;
		return;
	}
	s->w->h->n++;
	if (s->w->h->first.n == NAMED)
		return;
	str_addf(&text, "pid %s (", s->pid);
	if (file_read_line(path, 64, &comm, &ignored) == 0)
		add_clean(&text, comm, 32);
	else
		str_add(&text, "ended during the scan");
	str_addf(&text, ") %s ", has);
	add_clean(&text, what, 120);
	str_add(&text, end);
	strs_add(&s->w->h->first, text.ptr);
}

enum match { MATCH_NONE, MATCH_FILE, MATCH_DEVICE };

/*
 * Returns true if the file was opened through the mount of the query. Kernels before 5.8 do not
 * report the mount; then this returns true for any file of the filesystem, because a false holder
 * is better than a missed one.
 */
static bool is_of_filesystem(const struct holders_query *q, const struct statx *st)
{
	if (q->mount_id && (st->stx_mask & STATX_MNT_ID))
		return st->stx_mnt_id == (uint64_t)q->mount_id;
	return q->fs && makedev(st->stx_dev_major, st->stx_dev_minor) == q->fs;
}

/*
 * Handles a failed statx(2). If the process has ended or has closed the file (ENOENT), it is not a
 * holder. If the link itself can be read, the error is that of the file's filesystem: a FUSE server
 * of another user denies access, or the filesystem is dead. Neither has a device node of this host,
 * so the file is ignored; otherwise all other volumes would stay staged. Any other error makes the
 * scan fail.
 */
static void holders_stat_failed(const struct suspect *s, int dir, const char *path, int errnum)
{
	bool refused = errnum == EACCES || errnum == EPERM;
	char byte;

	if ((refused || mount_errno_is_dead(errnum)) && readlinkat(dir, path, &byte, 1) >= 0)
		return;
	note_unseen(s->w, s->pid, errnum);
}

/*
 * Uses AT_STATX_DONT_SYNC, because the device numbers are known without a request to a file server.
 */
static enum match match_file(const struct suspect *s, int dir, const char *path)
{
	const struct holders_query *q = s->w->q;
	struct statx st;

	if (statx(dir, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE | STATX_MNT_ID,
	          &st)) {
		holders_stat_failed(s, dir, path, errno);
		return MATCH_NONE;
	}
	if ((q->character ? S_ISCHR(st.stx_mode) : S_ISBLK(st.stx_mode)) &&
	    is_disk(s->w, makedev(st.stx_rdev_major, st.stx_rdev_minor)))
		return !q->mount_id || is_of_filesystem(q, &st) ? MATCH_DEVICE : MATCH_NONE;
	return is_of_filesystem(q, &st) ? MATCH_FILE : MATCH_NONE;
}

/*
 * Reads the permissions of the link, which are the mode in which the file was opened:
 * proc_pid_fd(5).
 */
static bool is_open_for_writing(const struct suspect *s, int fds, const char *fd)
{
	struct stat st;

	if (fstatat(fds, fd, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return st.st_mode & S_IWUSR;
	/* the process has the device open, so an error must not mean "not for writing" */
	if (errno != ENOENT && errno != ESRCH)
		keep_unseen(s->w, s->pid, errno);
	return false;
}

/*
 * Names a descriptor. A path may be longer than readlink(2) can return, because any process can
 * create such a path; the file can still be checked.
 */
static void name_descriptor(int fds, const char *fd, char name[PATH_MAX])
{
	ssize_t n = readlinkat(fds, fd, name, PATH_MAX - 1);

	if (n < 0)
		snprintf(name, PATH_MAX, "%s",
		         errno == ENAMETOOLONG ? "/... (its path is too long to be shown)"
		                               : "a file that it has since closed");
	else
		name[n] = '\0';
}

static bool holds_descriptor(const struct suspect *s, int fds, const char *fd)
{
	const struct holders_query *q = s->w->q;
	enum match match = match_file(s, fds, fd);
	char name[PATH_MAX];

	s->w->h->files++;
	if (match == MATCH_DEVICE)
		s->w->h->device_open = true;
	if (match == MATCH_NONE || (q->writers && match != MATCH_DEVICE))
		return false;
	if (q->writers && !is_open_for_writing(s, fds, fd))
		return false;
	name_descriptor(fds, fd, name);
	found(s, match == MATCH_DEVICE ? "has the device open as" : "has", name,
	      match == MATCH_DEVICE ? "" : " open");
	return true;
}

enum scan_result {
	SCAN_FREE,     /* read completely; no descriptor matches */
	SCAN_HOLDS,    /* `found` was called */
	SCAN_PUT_OFF,  /* too large for this round */
	SCAN_NOT_DONE, /* the process has ended, or an error or a limit has stopped the scan */
};

static enum scan_result read_table(const struct suspect *s)
{
	int fds AUTO(fd) = openat(s->dir, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir AUTO(closedir) = fds < 0 ? NULL : fdopendir(fds);
	const struct dirent *e;
	unsigned n = 0;

	if (!dir) {
		note_unseen(s->w, s->pid, errno);
		return SCAN_NOT_DONE;
	}
	(void)TAKE_FD(fds);
	while (!limit_reached(s->w)) {
		errno = 0;
		e = readdir(dir);
		if (!e && errno)
			note_unseen(s->w, s->pid, errno);
		if (!e)
			return errno ? SCAN_NOT_DONE : SCAN_FREE;
		if (*e->d_name == '.')
			continue;
		if (++n > s->w->quota)
			return SCAN_PUT_OFF;
		if (holds_descriptor(s, dirfd(dir), e->d_name))
			return SCAN_HOLDS;
	}
	return SCAN_NOT_DONE;
}

/* Handles a table that was already read, when an earlier task was scanned. */
static enum scan_result scan_known_table(const struct suspect *s, const struct fd_table *known)
{
	char *task AUTO(free) = NULL;

	if (known->state == FD_TABLE_READ)
		return SCAN_FREE;
	if (known->state == FD_TABLE_PUT_OFF)
		return SCAN_PUT_OFF;
	task = xasprintf("pid %d", (int)known->task);
	found(s, "shares the open files of", task, "");
	return SCAN_HOLDS;
}

static enum scan_result scan_open_files(const struct suspect *s)
{
	struct walk *w = s->w;
	pid_t task = (pid_t)strtol(s->pid, NULL, 10);
	const struct fd_table *known = fd_tables_find(&w->tables, task);
	struct fd_table now = { .task = task, .round = w->round };
	enum scan_result result;

	if (known && (known->state != FD_TABLE_PUT_OFF || known->round == w->round)) {
		result = scan_known_table(s, known);
	} else {
		result = read_table(s);
		now.state = result == SCAN_FREE    ? FD_TABLE_READ
		            : result == SCAN_HOLDS ? FD_TABLE_HOLDS
		                                   : FD_TABLE_PUT_OFF;
		if (result != SCAN_NOT_DONE)
			fd_tables_put(&w->tables, now);
		w->h->tables += result == SCAN_FREE || result == SCAN_HOLDS;
	}
	if (result == SCAN_PUT_OFF)
		strs_add(&w->put_off, s->pid);
	return result;
}

static bool holds_directory(const struct suspect *s)
{
	static const struct {
		const char *link, *has, *end;
	} dirs[] = {
		{ "cwd", "has its working directory in", "" },
		{ "root", "has", " as its root" },
		{ "exe", "runs", "" },
	};
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		char *name AUTO(free) = NULL;

		if (match_file(s, s->dir, dirs[i].link) != MATCH_FILE)
			continue;
		name = read_link("%s/%s/%s", s->w->q->proc_root, s->pid, dirs[i].link);
		found(s, dirs[i].has, name ? name : "a directory of it", dirs[i].end);
		return true;
	}
	return false;
}

/* Fields of a line of mountinfo: proc_pid_mountinfo(5). */
struct mount_line {
	int id, parent;
	dev_t devno;
	char *at;
	bool receives; /* mounts and unmounts propagate to this mount */
};

/* Parses a line; the caller frees ret->at. */
static void parse_mount_line(const char *line, struct mount_line *ret)
{
	char *copy AUTO(free) = xstrndup(line, strcspn(line, "\n")), *rest = copy;
	const char *field[6] = { "", "", "", "", "", "" }, *tag;
	unsigned major = 0, minor = 0;
	char *end = NULL;

	for (size_t i = 0; i < ARRAY_LEN(field) && rest; i++)
		field[i] = strsep(&rest, " ");
	major = (unsigned)strtoul(field[2], &end, 10);
	if (*end == ':')
		minor = (unsigned)strtoul(end + 1, NULL, 10);
	*ret = (struct mount_line) { .id = (int)strtol(field[0], NULL, 10),
		                     .parent = (int)strtol(field[1], NULL, 10),
		                     .devno = makedev(major, minor),
		                     .at = xstrdup(field[4]) };
	while ((tag = strsep(&rest, " ")) && !str_eq(tag, "-"))
		ret->receives |= str_has_prefix(tag, "shared:") || str_has_prefix(tag, "master:");
}

static const char *next_mount_line(const char *line)
{
	line += strcspn(line, "\n");
	return line + (*line == '\n');
}

/*
 * Returns true if mounts propagate to the parent, or if this is unknown, because the parent is not
 * in this table.
 */
static bool parent_receives(const char *mountinfo, int parent)
{
	for (const char *line = mountinfo; *line; line = next_mount_line(line)) {
		struct mount_line m;

		if (strtol(line, NULL, 10) != parent)
			continue;
		parse_mount_line(line, &m);
		free(m.at);
		return m.receives;
	}
	return true;
}

/* Returns the first mount point in this namespace that matches the query, malloc'ed; or NULL. */
static char *find_mount(const struct walk *w, const char *mountinfo)
{
	const struct holders_query *q = w->q;

	for (const char *line = mountinfo; *line; line = next_mount_line(line)) {
		struct mount_line m;

		parse_mount_line(line, &m);
		if ((is_disk(w, m.devno) || (q->fs && m.devno == q->fs)) &&
		    (!q->captured || q->unshared || !parent_receives(mountinfo, m.parent)))
			return m.at;
		free(m.at);
	}
	return NULL;
}

/*
 * Scans each mount namespace once, except that of this process, whose mounts the caller knows.
 * EINVAL is the error for a process that has ended and was not yet reaped.
 */
static bool holds_mount(const struct suspect *s)
{
	const struct holders_query *q = s->w->q;
	char *ns AUTO(free) = read_link("%s/%s/ns/mnt", q->proc_root, s->pid);
	char *path AUTO(free) = NULL, *text AUTO(free) = NULL, *at AUTO(free) = NULL;
	struct err err = ERR_INIT;

	if (!ns)
		note_unseen(s->w, s->pid, errno);
	if (!ns || strs_has(&s->w->namespaces, ns))
		return false;
	path = xasprintf("%s/%s/mountinfo", q->proc_root, s->pid);
	if (file_read(path, MOUNTINFO_MAX, &text, NULL, &err)) {
		if (err.code == ERR_EXHAUSTED)
			strs_add(&s->w->namespaces, ns);
		if (err.sys != EINVAL)
			note_unseen(s->w, s->pid, err.code == ERR_EXHAUSTED ? EFBIG : err.sys);
		return false; /* another process of the namespace will be read instead */
	}
	strs_add(&s->w->namespaces, ns);
	at = find_mount(s->w, text);
	if (at)
		found(s, "has it mounted at", at, " in a mount namespace of its own");
	return at != NULL;
}

/* ---- all processes ---- */

/*
 * Scans threads with their own descriptor table, which exist after unshare(2), or if the leader has
 * ended.
 */
static enum scan_result scan_threads(const struct suspect *leader)
{
	struct walk *w = leader->w;
	char *path AUTO(free) = xasprintf("%s/%s/task", w->q->proc_root, leader->pid);
	pid_t pid = (pid_t)strtol(leader->pid, NULL, 10);
	struct strs tasks AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;

	if (!w->tables.comparable)
		return SCAN_FREE;
	if (dir_list(path, &tasks, &err))
		note_unseen(w, leader->pid, err.sys);
	for (size_t i = 0; i < tasks.n && !limit_reached(w); i++) {
		char *dir AUTO(free) = xasprintf("%s/%s", path, tasks.v[i]);
		pid_t task = (pid_t)strtol(tasks.v[i], NULL, 10);
		int fd AUTO(fd) = -1;

		if (task == pid || fd_tables_same(&w->tables, task, pid))
			continue;
		fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			note_unseen(w, tasks.v[i], errno);
		else if (scan_open_files(&(struct suspect) { w, tasks.v[i], fd }) == SCAN_HOLDS)
			return SCAN_HOLDS;
	}
	return SCAN_FREE;
}

static void scan_process(const struct suspect *s)
{
	const struct holders_query *q = s->w->q;

	if (scan_open_files(s) == SCAN_HOLDS || scan_threads(s) == SCAN_HOLDS || q->writers)
		return;
	if (!holds_directory(s) && q->mounts)
		(void)holds_mount(s);
}

static void visit(struct walk *w, int proc, const char *pid, bool again)
{
	int dir AUTO(fd) = -1;
	struct suspect s = { w, pid, -1 };

	if (!isdigit((unsigned char)*pid) || (w->q->writers && str_eq(pid, w->self)))
		return;
	w->h->processes += !again;
	/* only the namespace, because each unstage of a filesystem runs this */
	if (w->q->captured) {
		(void)holds_mount(&s);
		return;
	}
	dir = openat(proc, pid, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0) {
		note_unseen(w, pid, errno);
		return;
	}
	s.dir = dir;
	if (again)
		(void)scan_open_files(&s);
	else
		scan_process(&s);
}

static void visit_all(struct walk *w, DIR *proc)
{
	while (!limit_reached(w)) {
		const struct dirent *e;

		errno = 0;
		e = readdir(proc);
		if (!e && errno && !*w->h->unseen)
			snprintf(w->h->unseen, sizeof(w->h->unseen), "%.40s: %s", w->q->proc_root,
			         strerrordesc_np(errno));
		if (!e)
			return;
		visit(w, dirfd(proc), e->d_name, false);
	}
}

/* Scans the deferred tables in rounds; the last table is read completely. */
static void visit_put_off(struct walk *w, int proc)
{
	while (w->put_off.n && !limit_reached(w)) {
		struct strs now AUTO(strs_clear) = w->put_off;

		w->put_off = (struct strs)STRS_INIT;
		w->round++;
		w->quota = now.n == 1 ? UINT_MAX : w->quota * QUOTA_FACTOR;
		for (size_t i = 0; i < now.n && !limit_reached(w); i++)
			visit(w, proc, now.v[i], true);
	}
}

static void walk_over(struct walk *w, DIR *proc)
{
	struct err err = ERR_INIT;

	fd_tables_begin(&w->tables, dirfd(proc), w->q->proc_root);
	if (!w->q->character && partitions_read(w->q->proc_root, w->q->disk, &w->partitions, &err))
		snprintf(w->h->unseen, sizeof(w->h->unseen), "%.100s", err.msg);
	visit_all(w, proc);
	visit_put_off(w, dirfd(proc));
	w->h->cut = limit_reached(w);
}

void holders_find(const struct holders_query *q, struct deadline d, struct holders *ret)
{
	char *pids AUTO(free) = read_link("%s/self/ns/pid", q->proc_root);
	char *ours AUTO(free) = read_link("%s/self/ns/mnt", q->proc_root);
	DIR *dir AUTO(closedir) = opendir(q->proc_root);
	struct walk w = { .q = q,
		          .h = ret,
		          .until = is_exhaustive(q) ? d
		                                    : deadline_clamp(d, q->ms ? q->ms : HOLDERS_MS),
		          .self = read_link("%s/self", q->proc_root),
		          .partitions = PARTITIONS_INIT,
		          .quota = q->writers ? QUOTA : UINT_MAX };

	*ret = (struct holders) { .everybody = str_eq(pids, HOST_PIDS) };
	if (ours)
		strs_add(&w.namespaces, ours);
	if (dir)
		walk_over(&w, dir);
	else
		snprintf(ret->unseen, sizeof(ret->unseen), "%.40s: %s", q->proc_root,
		         strerrordesc_np(errno));
	strs_clear(&w.namespaces);
	strs_clear(&w.put_off);
	fd_tables_clear(&w.tables);
	partitions_clear(&w.partitions);
	free(w.self);
}

void holders_clear(struct holders *h)
{
	strs_clear(&h->first);
	*h = (struct holders) { 0 };
}

static void describe_no_holder(const struct holders *h, const struct holders_query *q,
                               const char *device, struct str *text)
{
	if (h->cut && !h->processes)
		str_addf(text, "no time was left to search for its holders (fuser -vm %s)", device);
	else if (h->cut)
		str_addf(text,
		         "the first %u processes do not hold it, and there are more (fuser -vm %s)",
		         h->processes, device);
	else if (*h->unseen)
		str_addf(text, "not every process could be inspected (%s)", h->unseen);
	else if (h->ourselves)
		str_add(text, "only this driver has it open, for statistics or a health check; "
		              "this ends without intervention unless its device hangs");
	else if (h->everybody)
		str_addf(text,
		         "no process holds it, so a kernel component does: RAID, LVM, swap, "
		         "overlay, a loop device or an NFS export (lsblk %s, swapon, losetup -a)",
		         device);
	else
		str_addf(text,
		         "none of the %u processes visible in this container holds it, so another "
		         "process does, or the kernel (a loop device, swap); on the host: fuser "
		         "-vm %s, losetup -a, swapon, and grep -l ' %u:%u ' /proc/*/mountinfo "
		         "(with hostPID: true in the DaemonSet the driver would name the process)",
		         h->processes, device, major(q->fs ? q->fs : q->disk),
		         minor(q->fs ? q->fs : q->disk));
}

void holders_describe(const struct holders *h, const struct holders_query *q, const char *device,
                      struct str *text)
{
	char *names AUTO(free) = NULL;

	if (!h->n) {
		describe_no_holder(h, q, device, text);
		return;
	}
	names = strs_join(&h->first, ", ");
	str_add(text, names);
	if (h->n > h->first.n)
		str_addf(text, " and %u more", h->n - (unsigned)h->first.n);
	str_add(text, h->n == 1 ? "; end it, or wait for it to end"
	                        : "; end them, or wait for them to end");
}
