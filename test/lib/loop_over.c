/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See loop_over.h. The kernel frees the loop device with its last descriptor; its entries in the
 * world's sysfs are written here.
 */
#include "test/lib/loop_over.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "test/lib/wait.h"

static void need(bool fine, const char *what)
{
	if (fine)
		return;
	perror(what);
	abort();
}

static bool try_attach(struct loop_over *l, int control, int backing)
{
	struct loop_config config = { .fd = (unsigned)backing };
	char path[64];
	int n = ioctl(control, LOOP_CTL_GET_FREE);

	config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
	snprintf(l->name, sizeof(l->name), "loop%d", n);
	snprintf(path, sizeof(path), "/dev/%s", l->name);
	l->fd = n < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC);
	if (l->fd >= 0 && ioctl(l->fd, LOOP_CONFIGURE, &config) == 0)
		return true;
	if (l->fd >= 0)
		close(l->fd);
	return false;
}

void loop_over_attach(struct loop_over *l, const struct nvme_world *w, const char *node)
{
	int backing AUTO(fd) = open(node, O_RDWR | O_CLOEXEC);
	int control AUTO(fd) = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	struct deadline limit = wait_limit();

	need(backing >= 0 && control >= 0, node);
	while (!try_attach(l, control, backing))
		need(wait_a_moment(limit), "a free loop device in time");
	l->node = xasprintf("%s/%s", w->dev, l->name);
	l->sysfs = xasprintf("%s/block/%s", w->sysfs, l->name);
	run_tool("touch %s && mount --bind /dev/%s %s && mkdir -p %s/loop && echo %s > "
	         "%s/loop/backing_file",
	         l->node, l->name, l->node, l->sysfs, node, l->sysfs);
}

void loop_over_detach(struct loop_over *l)
{
	run_tool("umount %s && rm -r %s %s", l->node, l->node, l->sysfs);
	close(l->fd);
	free(l->node);
	free(l->sysfs);
}
