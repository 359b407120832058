/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snap-share --tag TAG FOLDER MOUNTPOINT: replaces a virtio-fs device on machines without one. It
 * serves FOLDER at MOUNTPOINT by FUSE, the protocol that virtio-fs also uses: mountinfo shows the
 * type fuse.virtiofs and the source TAG, several daemons may serve one folder (as several nodes
 * do), SIGSTOP makes the mount hang, and after SIGKILL it answers ENOTCONN.
 *
 * It prints "mounted" once the mount exists, and unmounts on SIGTERM, SIGINT or SIGHUP. One thread;
 * locks are the kernel's, so they hold only within one mount; nothing is cached beyond an open
 * file's pages, so that the next open sees another daemon's writes.
 */
#define FUSE_USE_VERSION 31

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define TAG_MAX 36 /* bytes of a virtio-fs device's tag */
#define BUCKETS 1024

/* A file that the kernel knows; its descriptor keeps the inode number from being reused. */
struct node {
	int fd; /* O_PATH */
	dev_t dev;
	ino_t ino;
	uint64_t lookups;
	struct node *next;
};

static struct node root;
static struct node *nodes[BUCKETS];

struct path {
	char text[64];
};

static struct node *node_of(fuse_ino_t ino)
{
	return ino == FUSE_ROOT_ID ? &root : (struct node *)(uintptr_t)ino;
}

static int fd_of(fuse_ino_t ino)
{
	return node_of(ino)->fd;
}

/* A path to the file for calls that do not accept an O_PATH descriptor. */
static struct path path_of(fuse_ino_t ino)
{
	struct path p;

	snprintf(p.text, sizeof(p.text), "/proc/self/fd/%d", fd_of(ino));
	return p;
}

static void reply_rc(fuse_req_t req, int rc)
{
	fuse_reply_err(req, rc ? errno : 0);
}

static int stat_fd(int fd, struct stat *st)
{
	return fstatat(fd, "", st, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW);
}

/* ---- nodes ---- */

static struct node **bucket_of(ino_t ino)
{
	return &nodes[ino % BUCKETS];
}

/* Takes the descriptor. */
static struct node *node_get(int fd, const struct stat *st)
{
	struct node *n = *bucket_of(st->st_ino);

	while (n && (n->ino != st->st_ino || n->dev != st->st_dev))
		n = n->next;
	if (n) {
		close(fd);
	} else {
		n = calloc(1, sizeof(*n));
		if (!n)
			abort();
		*n = (struct node) { .fd = fd, .dev = st->st_dev, .ino = st->st_ino };
		n->next = *bucket_of(n->ino);
		*bucket_of(n->ino) = n;
	}
	n->lookups++;
	return n;
}

static void node_forget(fuse_ino_t ino, uint64_t lookups)
{
	struct node *n = node_of(ino), **at;

	if (n == &root)
		return;
	n->lookups -= lookups;
	if (n->lookups)
		return;
	at = bucket_of(n->ino);
	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	close(n->fd);
	free(n);
}

/* 0, or -1 and errno. */
static int find(fuse_ino_t parent, const char *name, struct fuse_entry_param *ret)
{
	int fd = openat(fd_of(parent), name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	*ret = (struct fuse_entry_param) { 0 };
	if (fd < 0)
		return -1;
	if (stat_fd(fd, &ret->attr)) {
		close(fd);
		return -1;
	}
	ret->ino = (uintptr_t)node_get(fd, &ret->attr);
	return 0;
}

static void do_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e;

	if (find(parent, name, &e))
		fuse_reply_err(req, errno);
	else
		fuse_reply_entry(req, &e);
}

static void do_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups)
{
	node_forget(ino, lookups);
	fuse_reply_none(req);
}

static void do_forget_multi(fuse_req_t req, size_t n, struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < n; i++)
		node_forget(forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

/* ---- attributes ---- */

static void do_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st;

	if (stat_fd(fi ? (int)fi->fh : fd_of(ino), &st))
		fuse_reply_err(req, errno);
	else
		fuse_reply_attr(req, &st, 0);
}

static struct timespec time_to_set(int set, int valid, int now, struct timespec at)
{
	if (valid & now)
		return (struct timespec) { .tv_nsec = UTIME_NOW };
	return valid & set ? at : (struct timespec) { .tv_nsec = UTIME_OMIT };
}

static int set_attributes(fuse_ino_t ino, const struct stat *attr, int valid)
{
	struct path path = path_of(ino);

	if ((valid & FUSE_SET_ATTR_MODE) && chmod(path.text, attr->st_mode))
		return -1;
	if ((valid & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) &&
	    fchownat(fd_of(ino), "", valid & FUSE_SET_ATTR_UID ? attr->st_uid : (uid_t)-1,
	             valid & FUSE_SET_ATTR_GID ? attr->st_gid : (gid_t)-1,
	             AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW))
		return -1;
	if ((valid & FUSE_SET_ATTR_SIZE) && truncate(path.text, attr->st_size))
		return -1;
	if (valid & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME)) {
		const struct timespec times[2] = {
			time_to_set(FUSE_SET_ATTR_ATIME, valid, FUSE_SET_ATTR_ATIME_NOW,
			            attr->st_atim),
			time_to_set(FUSE_SET_ATTR_MTIME, valid, FUSE_SET_ATTR_MTIME_NOW,
			            attr->st_mtim),
		};

		return utimensat(AT_FDCWD, path.text, times, 0);
	}
	return 0;
}

static void do_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int valid,
                       struct fuse_file_info *fi)
{
	if (set_attributes(ino, attr, valid))
		fuse_reply_err(req, errno);
	else
		do_getattr(req, ino, fi);
}

static void do_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value,
                        size_t size, int flags)
{
	reply_rc(req, setxattr(path_of(ino).text, name, value, size, flags));
}

static void do_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	reply_rc(req, removexattr(path_of(ino).text, name));
}

/* Size 0 asks for the length. */
static void reply_xattr(fuse_req_t req, const char *value, size_t size, ssize_t n)
{
	if (n < 0)
		fuse_reply_err(req, errno);
	else if (!size)
		fuse_reply_xattr(req, (size_t)n);
	else
		fuse_reply_buf(req, value, (size_t)n);
}

static void do_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	static char value[XATTR_SIZE_MAX];

	size = size < sizeof(value) ? size : sizeof(value);
	reply_xattr(req, value, size, getxattr(path_of(ino).text, name, value, size));
}

static void do_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	static char names[XATTR_LIST_MAX];

	size = size < sizeof(names) ? size : sizeof(names);
	reply_xattr(req, names, size, listxattr(path_of(ino).text, names, size));
}

static void do_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct statvfs st;

	if (fstatvfs(fd_of(ino), &st))
		fuse_reply_err(req, errno);
	else
		fuse_reply_statfs(req, &st);
}

/* ---- names ---- */

/* Gives a new file to the caller; in a directory with the set-group-ID bit, its group stays. */
static int give(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	const struct fuse_ctx *who = fuse_req_ctx(req);
	struct stat st;

	if (stat_fd(fd_of(parent), &st))
		return -1;
	return fchownat(fd_of(parent), name, who->uid, st.st_mode & S_ISGID ? (gid_t)-1 : who->gid,
	                AT_SYMLINK_NOFOLLOW);
}

static void reply_made(fuse_req_t req, fuse_ino_t parent, const char *name, int rc)
{
	struct fuse_entry_param e;

	if (rc || give(req, parent, name) || find(parent, name, &e))
		fuse_reply_err(req, errno);
	else
		fuse_reply_entry(req, &e);
}

static void do_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t dev)
{
	reply_made(req, parent, name, mknodat(fd_of(parent), name, mode, dev));
}

static void do_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	reply_made(req, parent, name, mkdirat(fd_of(parent), name, mode));
}

static void do_symlink(fuse_req_t req, const char *to, fuse_ino_t parent, const char *name)
{
	reply_made(req, parent, name, symlinkat(to, fd_of(parent), name));
}

static void do_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e;

	if (linkat(AT_FDCWD, path_of(ino).text, fd_of(parent), name, AT_SYMLINK_FOLLOW) ||
	    find(parent, name, &e))
		fuse_reply_err(req, errno);
	else
		fuse_reply_entry(req, &e);
}

static void do_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	reply_rc(req, unlinkat(fd_of(parent), name, 0));
}

static void do_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	reply_rc(req, unlinkat(fd_of(parent), name, AT_REMOVEDIR));
}

static void do_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t to,
                      const char *new_name, unsigned flags)
{
	reply_rc(req, renameat2(fd_of(parent), name, fd_of(to), new_name, flags));
}

static void do_readlink(fuse_req_t req, fuse_ino_t ino)
{
	char to[PATH_MAX + 1];
	ssize_t n = readlinkat(fd_of(ino), "", to, sizeof(to) - 1);

	if (n < 0) {
		fuse_reply_err(req, errno);
		return;
	}
	to[n] = '\0';
	fuse_reply_readlink(req, to);
}

/* ---- directories ---- */

static DIR *dir_of(const struct fuse_file_info *fi)
{
	return (DIR *)(uintptr_t)fi->fh;
}

static void do_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	int fd = openat(fd_of(ino), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		int rc = errno;

		if (fd >= 0)
			close(fd);
		fuse_reply_err(req, rc);
		return;
	}
	fi->fh = (uintptr_t)dir;
	fuse_reply_open(req, fi);
}

static void do_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                       struct fuse_file_info *fi)
{
	static char out[64 * 1024];
	DIR *dir = dir_of(fi);
	size_t used = 0;
	const struct dirent *e;

	(void)ino;
	size = size < sizeof(out) ? size : sizeof(out);
	if (telldir(dir) != offset)
		seekdir(dir, offset);
	for (errno = 0; (e = readdir(dir)); errno = 0) {
		const struct stat st = { .st_ino = e->d_ino, .st_mode = DTTOIF(e->d_type) };
		size_t n = fuse_add_direntry(req, out + used, size - used, e->d_name, &st,
		                             telldir(dir));

		if (n > size - used)
			break; /* the next call begins with it */
		used += n;
	}
	if (errno && !used)
		fuse_reply_err(req, errno);
	else
		fuse_reply_buf(req, out, used);
}

static void do_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	closedir(dir_of(fi));
	fuse_reply_err(req, 0);
}

static void do_fsyncdir(fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *fi)
{
	int fd = dirfd(dir_of(fi));

	(void)ino;
	reply_rc(req, data_only ? fdatasync(fd) : fsync(fd));
}

/* ---- files ---- */

/* The client's page cache is in front, so the underlying file is never opened with O_DIRECT. */
static int open_flags(const struct fuse_file_info *fi)
{
	return (fi->flags & ~(O_NOFOLLOW | O_DIRECT | O_CREAT | O_EXCL)) | O_CLOEXEC;
}

static void do_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	int fd = open(path_of(ino).text, open_flags(fi));

	if (fd < 0) {
		fuse_reply_err(req, errno);
		return;
	}
	fi->fh = (uint64_t)fd;
	fuse_reply_open(req, fi);
}

static void do_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
                      struct fuse_file_info *fi)
{
	struct fuse_entry_param e;
	int fd = openat(fd_of(parent), name, open_flags(fi) | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
	bool made = fd >= 0;

	if (!made && errno == EEXIST && !(fi->flags & O_EXCL))
		fd = openat(fd_of(parent), name, open_flags(fi) | O_NOFOLLOW);
	if (fd < 0) {
		fuse_reply_err(req, errno);
		return;
	}
	if ((made && give(req, parent, name)) || find(parent, name, &e)) {
		fuse_reply_err(req, errno);
		close(fd);
		return;
	}
	fi->fh = (uint64_t)fd;
	fuse_reply_create(req, &e, fi);
}

static void do_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                    struct fuse_file_info *fi)
{
	struct fuse_bufvec data = FUSE_BUFVEC_INIT(size);

	(void)ino;
	data.buf[0].flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK;
	data.buf[0].fd = (int)fi->fh;
	data.buf[0].pos = offset;
	fuse_reply_data(req, &data, 0);
}

/* With O_APPEND, which the underlying file has too, Linux appends regardless of the offset. */
static void do_write(fuse_req_t req, fuse_ino_t ino, struct fuse_bufvec *in, off_t offset,
                     struct fuse_file_info *fi)
{
	struct fuse_bufvec out = FUSE_BUFVEC_INIT(fuse_buf_size(in));
	ssize_t n;

	(void)ino;
	out.buf[0].flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK;
	out.buf[0].fd = (int)fi->fh;
	out.buf[0].pos = offset;
	n = fuse_buf_copy(&out, in, 0);
	if (n < 0)
		fuse_reply_err(req, (int)-n);
	else
		fuse_reply_write(req, (size_t)n);
}

/* Some filesystems report a failed write only at close(). */
static void do_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	reply_rc(req, close(dup((int)fi->fh)));
}

static void do_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	close((int)fi->fh);
	fuse_reply_err(req, 0);
}

static void do_fsync(fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *fi)
{
	(void)ino;
	reply_rc(req, data_only ? fdatasync((int)fi->fh) : fsync((int)fi->fh));
}

static void do_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
                         struct fuse_file_info *fi)
{
	(void)ino;
	reply_rc(req, fallocate((int)fi->fh, mode, offset, length));
}

static void do_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence,
                     struct fuse_file_info *fi)
{
	off_t at = lseek((int)fi->fh, offset, whence);

	(void)ino;
	if (at < 0)
		fuse_reply_err(req, errno);
	else
		fuse_reply_lseek(req, at);
}

/* The kernel clears set-user-ID bits on a write: a daemon run by root would not. */
static void do_init(void *data, struct fuse_conn_info *connection)
{
	(void)data;
	connection->want &= ~(unsigned)FUSE_CAP_HANDLE_KILLPRIV;
}

static const struct fuse_lowlevel_ops operations = {
	.init = do_init,
	.lookup = do_lookup,
	.forget = do_forget,
	.forget_multi = do_forget_multi,
	.getattr = do_getattr,
	.setattr = do_setattr,
	.setxattr = do_setxattr,
	.getxattr = do_getxattr,
	.listxattr = do_listxattr,
	.removexattr = do_removexattr,
	.statfs = do_statfs,
	.mknod = do_mknod,
	.mkdir = do_mkdir,
	.symlink = do_symlink,
	.link = do_link,
	.unlink = do_unlink,
	.rmdir = do_rmdir,
	.rename = do_rename,
	.readlink = do_readlink,
	.opendir = do_opendir,
	.readdir = do_readdir,
	.releasedir = do_releasedir,
	.fsyncdir = do_fsyncdir,
	.open = do_open,
	.create = do_create,
	.read = do_read,
	.write_buf = do_write,
	.flush = do_flush,
	.release = do_release,
	.fsync = do_fsync,
	.fallocate = do_fallocate,
	.lseek = do_lseek,
};

/* ---- the program ---- */

static struct fuse_session *session_new(const char *tag)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	struct fuse_session *session = NULL;
	char *options = NULL;
	char name[sizeof("fsname=") + TAG_MAX];

	snprintf(name, sizeof(name), "fsname=%s", tag);
	/* The kernel checks permissions, by the modes of the files. */
	if (fuse_opt_add_opt(&options,
	                     "subtype=virtiofs,allow_other,default_permissions,dev,suid") == 0 &&
	    fuse_opt_add_opt_escaped(&options, name) == 0 &&
	    fuse_opt_add_arg(&args, "snap-share") == 0 && fuse_opt_add_arg(&args, "-o") == 0 &&
	    fuse_opt_add_arg(&args, options) == 0)
		session = fuse_session_new(&args, &operations, sizeof(operations), NULL);
	free(options);
	fuse_opt_free_args(&args);
	return session;
}

/*
 * After that a process that reads the output of this daemon's starter does not have to wait for its
 * end.
 */
static void announce(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	puts("mounted");
	fflush(stdout);
	for (int fd = 0; fd <= 2 && null >= 0; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
}

/*
 * Descriptor that becomes readable when this process receives a termination signal; no handler
 * runs.
 */
static int end_fd(void)
{
	sigset_t ends;

	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &ends, NULL))
		return -1;
	return signalfd(-1, &ends, SFD_CLOEXEC);
}

/* Serves one request, if one is pending. False: the mount was removed (0) or fails (below 0). */
static bool serve_request(struct fuse_session *session, struct fuse_buf *buf, int *rc)
{
	*rc = fuse_session_receive_buf(session, buf);
	if (*rc == -EINTR || *rc == -EAGAIN)
		return true;
	if (*rc <= 0)
		return false;
	fuse_session_process_buf(session, buf);
	return !fuse_session_exited(session);
}

/*
 * Serves until the mount is removed or the process receives a termination signal; 0, or below 0.
 * libfuse's own loop checks a flag set by its signal handler and then sleeps in read(): a signal
 * between the two is noticed only at the next request, which may never come.
 */
static int serve_requests(struct fuse_session *session, int end)
{
	struct pollfd fds[] = { { .fd = fuse_session_fd(session), .events = POLLIN },
		                { .fd = end, .events = POLLIN } };
	struct fuse_buf buf = { 0 };
	int rc = fcntl(fds[0].fd, F_SETFL, O_NONBLOCK);

	while (rc >= 0) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			rc = -errno;
		else if (fds[1].revents || (fds[0].revents && !serve_request(session, &buf, &rc)))
			break;
	}
	free(buf.mem);
	return rc;
}

static int serve(const char *tag, const char *mountpoint)
{
	struct fuse_session *session = session_new(tag);
	int end = end_fd();
	int rc = -1;

	if (session && end >= 0 && fuse_session_mount(session, mountpoint) == 0) {
		announce();
		rc = serve_requests(session, end);
		fuse_session_unmount(session);
	}
	if (session)
		fuse_session_destroy(session);
	return rc < 0;
}

static int usage(void)
{
	fprintf(stderr,
	        "usage: snap-share --tag TAG FOLDER MOUNTPOINT\n"
	        "Serves FOLDER at MOUNTPOINT as the virtio-fs device with this tag, of 1 to %d bytes.\n",
	        TAG_MAX);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "tag", required_argument, NULL, 't' }, { 0 } };
	const char *tag = NULL;
	struct stat st;

	for (int c; (c = getopt_long(argc, argv, "t:", options, NULL)) != -1;) {
		if (c != 't')
			return usage();
		tag = optarg;
	}
	if (!tag || !*tag || strlen(tag) > TAG_MAX || argc - optind != 2)
		return usage();
	root.fd = open(argv[optind], O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root.fd < 0 || stat_fd(root.fd, &st)) {
		fprintf(stderr, "snap-share: %s: %s\n", argv[optind], strerror(errno));
		return 1;
	}
	root.dev = st.st_dev;
	root.ino = st.st_ino;
	umask(0); /* the client has applied its own */
	return serve(tag, argv[optind + 1]);
}
