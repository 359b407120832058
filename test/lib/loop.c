/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See loop.h. Owns the descriptor that keeps a device in use; autoclear frees it. The kernel has
 * few loop devices and other tests run at the same time, so this waits until one is free.
 */
#include "test/lib/loop.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "test/lib/wait.h"

/* The device that was free a moment ago, configured; or -1. */
static int try_attach(int control, int image)
{
	struct loop_config config = { .fd = (unsigned)image,
		                      .info = { .lo_flags = LO_FLAGS_AUTOCLEAR } };
	int n = ioctl(control, LOOP_CTL_GET_FREE);
	int fd AUTO(fd) = -1;
	char path[32];

	snprintf(path, sizeof(path), "/dev/loop%d", n);
	fd = n < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC);
	/* An earlier user may have left it read-only: that setting outlives the image. */
	if (fd < 0 || ioctl(fd, LOOP_CONFIGURE, &config) || ioctl(fd, BLKROSET, &(int) { 0 }))
		return -1;
	return TAKE_FD(fd);
}

void loop_attach(struct loop *l, const struct tree *t, uint64_t size)
{
	int control AUTO(fd) = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int image AUTO(fd) = -1;
	char *path AUTO(free) = tree_path(t, "/image-XXXXXX");
	struct stat st;

	image = mkostemp(path, O_CLOEXEC);
	ck_assert_msg(control >= 0 && image >= 0 && ftruncate(image, (off_t)size) == 0,
	              "image %s: errno %d", path, errno);
	*l = (struct loop) { .fd = -1, .size = size };
	WAIT_UNTIL((l->fd = try_attach(control, image)) >= 0);
	ck_assert_int_eq(fstat(l->fd, &st), 0);
	l->devno = st.st_rdev;
	if (ioctl(l->fd, BLKGETDISKSEQ, &l->diskseq))
		l->diskseq = 0;
}

void loop_detach(struct loop *l)
{
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}

void loop_node(const struct loop *l, const struct tree *t, const char *name)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/%s", t->dev, name);
	unlink(path); /* the recorded tree has a plain file there */
	ck_assert_msg(mknod(path, S_IFBLK | 0600, l->devno) == 0, "mknod %s: errno %d", path,
	              errno);
}
