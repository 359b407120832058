/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks over the processes in <proc root>. Of each it looks at the open files, then at the working
 * directory, root and program, then at the mount namespace, and names the first thing that the
 * process holds. Not looked at: threads with descriptors of their own, and memory maps without a
 * descriptor. Keeps nothing between calls.
 */
#include "node/holders.h"

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

#define PROCESSES_MAX 32768
#define MOUNTINFO_MAX (8 * 1024 * 1024)
#define NAMED 3
/* PROC_PID_INIT_INO of the kernel: the PID namespace of the host. */
#define HOST_PIDS "pid:[4026531836]"

/* Of a look that only names holders. */
static struct holders_limits limits = { .ms = 2000, .files = 256 * 1024 };

struct walk {
	const struct holders_query *q;
	struct holders *h;
	struct deadline until;
	unsigned files;
	char *self;             /* our process id */
	struct strs namespaces; /* mount namespaces that were looked at */
};

/* One process. */
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

/* Adds a name that another process has chosen, without characters that could break a line. */
static void add_clean(struct str *text, const char *from, size_t max)
{
	for (size_t i = 0; i < max && from[i]; i++)
		str_addf(text, "%c", isprint((unsigned char)from[i]) ? from[i] : '?');
	if (strlen(from) > max)
		str_add(text, "...");
}

/* A look for writers decides whether they lose data: it goes on until the deadline. */
static bool limit_reached(const struct walk *w)
{
	return deadline_passed(w->until) ||
	       (!w->q->writers && (w->files > limits.files || w->h->processes >= PROCESSES_MAX));
}

/*
 * Something of a process could not be looked at. That is no failure when the process has ended
 * meanwhile; one that this process may not look at is as invisible as one of another PID namespace.
 */
static void not_seen(struct walk *w, const char *pid, int errnum)
{
	struct holders *h = w->h;

	if (errnum == EACCES || errnum == EPERM)
		h->everybody = false;
	else if (errnum != ENOENT && errnum != ESRCH && !*h->unseen)
		snprintf(h->unseen, sizeof(h->unseen), "process %.16s: %s", pid,
		         strerrordesc_np(errnum));
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
		str_add(&text, "ended meanwhile");
	str_addf(&text, ") %s ", has);
	add_clean(&text, what, 120);
	str_add(&text, end);
	strs_add(&s->w->h->first, text.ptr);
}

enum match { MATCH_NONE, MATCH_FILE, MATCH_DEVICE };

/*
 * Was the file opened through the mount of the query? Kernels before 5.8 do not say: then any file
 * of the filesystem counts, since one holder too many is better than none.
 */
static bool is_of_filesystem(const struct holders_query *q, const struct statx *st)
{
	if (q->mount_id && (st->stx_mask & STATX_MNT_ID))
		return st->stx_mnt_id == (uint64_t)q->mount_id;
	return q->fs && makedev(st->stx_dev_major, st->stx_dev_minor) == q->fs;
}

/*
 * AT_STATX_DONT_SYNC: the device numbers are known without asking a file server. One that refuses
 * all the same (FUSE of another user) has no device nodes of ours.
 */
static enum match look_at(const struct holders_query *q, int dir, const char *path)
{
	struct statx st;

	if (statx(dir, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE | STATX_MNT_ID, &st))
		return MATCH_NONE;
	if (S_ISBLK(st.stx_mode) && makedev(st.stx_rdev_major, st.stx_rdev_minor) == q->disk)
		return !q->mount_id || is_of_filesystem(q, &st) ? MATCH_DEVICE : MATCH_NONE;
	return is_of_filesystem(q, &st) ? MATCH_FILE : MATCH_NONE;
}

/* The permissions of the link are the mode that the file was opened with: proc_pid_fd(5). */
static bool is_open_for_writing(const struct suspect *s, int fds, const char *fd)
{
	struct stat st;

	if (fstatat(fds, fd, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return st.st_mode & S_IWUSR;
	not_seen(s->w, s->pid, errno);
	return false;
}

/* A path may be longer than the kernel says: anybody can make one, and it can be looked at. */
static void name_descriptor(const struct suspect *s, int fds, const char *fd, char name[PATH_MAX])
{
	ssize_t n = readlinkat(fds, fd, name, PATH_MAX - 1);

	if (n < 0 && errno == ENAMETOOLONG) {
		snprintf(name, PATH_MAX, "/... (its path is too long to be shown)");
		return;
	}
	if (n < 0)
		not_seen(s->w, s->pid, errno);
	name[n < 0 ? 0 : n] = '\0';
}

static bool holds_descriptor(const struct suspect *s, int fds, const char *fd)
{
	const struct holders_query *q = s->w->q;
	char name[PATH_MAX];
	enum match match;

	s->w->files++;
	name_descriptor(s, fds, fd, name);
	if (*name != '/') /* socket:[1], pipe:[2], anon_inode:... */
		return false;
	match = look_at(q, fds, fd);
	if (match == MATCH_NONE || (q->writers && match != MATCH_DEVICE))
		return false;
	if (q->writers && !is_open_for_writing(s, fds, fd))
		return false;
	found(s, match == MATCH_DEVICE ? "has the device open as" : "has", name,
	      match == MATCH_DEVICE ? "" : " open");
	return true;
}

static bool holds_open_file(const struct suspect *s)
{
	int fds AUTO(fd) = openat(s->dir, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir AUTO(closedir) = fds < 0 ? NULL : fdopendir(fds);
	const struct dirent *e;

	if (!dir) {
		not_seen(s->w, s->pid, errno);
		return false;
	}
	(void)TAKE_FD(fds);
	while (!limit_reached(s->w)) {
		errno = 0;
		e = readdir(dir);
		if (!e) {
			not_seen(s->w, s->pid, errno ? errno : ENOENT);
			return false;
		}
		if (*e->d_name != '.' && holds_descriptor(s, dirfd(dir), e->d_name))
			return true;
	}
	return false;
}

static bool holds_place(const struct suspect *s)
{
	static const struct {
		const char *link, *has, *end;
	} places[] = {
		{ "cwd", "has its working directory in", "" },
		{ "root", "has", " as its root" },
		{ "exe", "runs", "" },
	};
	const struct holders_query *q = s->w->q;

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		char *name AUTO(free) = NULL;

		if (look_at(q, s->dir, places[i].link) != MATCH_FILE)
			continue;
		name = read_link("%s/%s/%s", q->proc_root, s->pid, places[i].link);
		found(s, places[i].has, name ? name : "a directory of it", places[i].end);
		return true;
	}
	return false;
}

/* What a line of mountinfo says: proc_pid_mountinfo(5). */
struct mount_line {
	int id, parent;
	dev_t devno;
	char *at;
	bool receives; /* mounts and unmounts propagate to it */
};

/* The caller frees ret->at. */
static void read_line(const char *line, struct mount_line *ret)
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

static const char *next_line(const char *line)
{
	line += strcspn(line, "\n");
	return line + (*line == '\n');
}

/* True, too, when the parent is not in this table: it is not known then. */
static bool parent_receives(const char *mountinfo, int parent)
{
	for (const char *line = mountinfo; *line; line = next_line(line)) {
		struct mount_line m;

		if (strtol(line, NULL, 10) != parent)
			continue;
		read_line(line, &m);
		free(m.at);
		return m.receives;
	}
	return true;
}

/* The first mount point in this namespace that the query asks for, malloc'ed; or NULL. */
static char *find_mount(const struct holders_query *q, const char *mountinfo)
{
	for (const char *line = mountinfo; *line; line = next_line(line)) {
		struct mount_line m;

		read_line(line, &m);
		if ((m.devno == q->disk || (q->fs && m.devno == q->fs)) &&
		    (!q->captured || q->unshared || !parent_receives(mountinfo, m.parent)))
			return m.at;
		free(m.at);
	}
	return NULL;
}

/* Each mount namespace is looked at once; ours never, since the caller knows its mounts. */
static bool holds_mount(const struct suspect *s)
{
	const struct holders_query *q = s->w->q;
	char *ns AUTO(free) = read_link("%s/%s/ns/mnt", q->proc_root, s->pid);
	char *path AUTO(free) = NULL, *text AUTO(free) = NULL, *at AUTO(free) = NULL;
	struct err ignored = ERR_INIT;

	if (!ns || strs_has(&s->w->namespaces, ns))
		return false;
	strs_add(&s->w->namespaces, ns);
	path = xasprintf("%s/%s/mountinfo", q->proc_root, s->pid);
	if (file_read(path, MOUNTINFO_MAX, &text, NULL, &ignored))
		return false;
	at = find_mount(q, text);
	if (at)
		found(s, "has it mounted at", at, " in a mount namespace of its own");
	return at != NULL;
}

/* ---- all processes ---- */

static void visit(struct walk *w, int proc, const char *pid)
{
	int dir AUTO(fd) = -1;
	struct suspect s = { w, pid, -1 };

	if (!isdigit((unsigned char)*pid) || (w->q->writers && str_eq(pid, w->self)))
		return;
	w->h->processes++;
	if (w->q->captured) { /* each unstage of a filesystem asks this, so it opens nothing else */
		(void)holds_mount(&s);
		return;
	}
	dir = openat(proc, pid, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0) {
		not_seen(w, pid, errno);
		return;
	}
	s.dir = dir;
	if (holds_open_file(&s) || w->q->writers || holds_place(&s))
		return;
	if (w->q->mounts)
		(void)holds_mount(&s);
}

struct holders_limits holders_limit(struct holders_limits now)
{
	struct holders_limits was = limits;

	limits = now;
	return was;
}

void holders_find(const struct holders_query *q, struct deadline d, struct holders *ret)
{
	char *pids AUTO(free) = read_link("%s/self/ns/pid", q->proc_root);
	char *ours AUTO(free) = read_link("%s/self/ns/mnt", q->proc_root);
	DIR *dir AUTO(closedir) = opendir(q->proc_root);
	struct walk w = { .q = q,
		          .h = ret,
		          .until = q->writers ? d : deadline_clamp(d, limits.ms),
		          .self = read_link("%s/self", q->proc_root) };
	const struct dirent *e;

	*ret = (struct holders) { .everybody = str_eq(pids, HOST_PIDS) };
	if (!dir)
		snprintf(ret->unseen, sizeof(ret->unseen), "%.40s: %s", q->proc_root,
		         strerrordesc_np(errno));
	if (ours)
		strs_add(&w.namespaces, ours);
	while (dir && !limit_reached(&w) && (e = readdir(dir)))
		visit(&w, dirfd(dir), e->d_name);
	ret->cut = limit_reached(&w);
	strs_clear(&w.namespaces);
	free(w.self);
}

void holders_clear(struct holders *h)
{
	strs_clear(&h->first);
	*h = (struct holders) { 0 };
}

static void say_nobody(const struct holders *h, const struct holders_query *q, const char *device,
                       struct str *text)
{
	if (h->cut && !h->processes)
		str_addf(text, "no time was left to see who holds it (fuser -vm %s)", device);
	else if (h->cut)
		str_addf(text,
		         "the first %u processes do not hold it, and there are more (fuser -vm %s)",
		         h->processes, device);
	else if (*h->unseen)
		str_addf(text, "not every process could be looked at (%s)", h->unseen);
	else if (h->ourselves)
		str_add(text, "only this driver has it open, to measure it or to see whether it is "
		              "healthy; that ends by itself, unless its device hangs");
	else if (h->everybody)
		str_addf(text,
		         "no process holds it, so the kernel does: RAID, LVM, swap, a loop device "
		         "or an NFS export (lsblk %s, swapon, losetup -a)",
		         device);
	else
		str_addf(
			text,
			"none of the %u processes that this container sees holds it; on the host: "
			"fuser -vm %s, and grep -l ' %u:%u ' /proc/*/mountinfo (with hostPID: true "
			"in the DaemonSet the driver would name it)",
			h->processes, device, major(q->fs ? q->fs : q->disk),
			minor(q->fs ? q->fs : q->disk));
}

void holders_say(const struct holders *h, const struct holders_query *q, const char *device,
                 struct str *text)
{
	char *names AUTO(free) = NULL;

	if (!h->n) {
		say_nobody(h, q, device, text);
		return;
	}
	names = strs_join(&h->first, ", ");
	str_add(text, names);
	if (h->n > h->first.n)
		str_addf(text, " and %u more", h->n - (unsigned)h->first.n);
	str_add(text, h->n == 1 ? "; end it, or wait until it has ended"
	                        : "; end them, or wait until they have ended");
}
