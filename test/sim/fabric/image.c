/* SPDX-License-Identifier: Apache-2.0 */
/* The sparse files behind the loop devices. No state. */
#include "test/sim/fabric/image.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/str.h"

#define FOREIGN_MAX (64 * 1024 * 1024)

int image_make(const char *path, uint64_t bytes, struct err *err)
{
	int fd AUTO(fd) = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return err_sys(err, errno, "open %s", path);
	if ((uint64_t)st.st_size < bytes && ftruncate(fd, (off_t)bytes))
		return err_sys(err, errno, "make %s %" PRIu64 " bytes large", path, bytes);
	return 0;
}

/* A text "file:PATH" means the contents of that file. */
static int write_foreign(const char *image, const struct dpf_fault *fault, struct err *err)
{
	int fd AUTO(fd) = open(image, O_WRONLY | O_CLOEXEC);
	char *bytes AUTO(free) = NULL;
	size_t n = strlen(fault->text);
	uint64_t offset = 0;

	if (fd < 0)
		return err_sys(err, errno, "open %s", image);
	if (*fault->value && parse_u64("fault foreign-data: value", fault->value, &offset, err))
		return -1;
	if (!str_has_prefix(fault->text, "file:"))
		bytes = xstrdup(fault->text);
	else if (file_read(fault->text + strlen("file:"), FOREIGN_MAX, &bytes, &n, err))
		return -1;
	if (pwrite(fd, bytes, n, (off_t)offset) != (ssize_t)n)
		return err_sys(err, errno, "write foreign data to %s", image);
	return 0;
}

int image_prepare(const char *image, uint64_t bytes, struct faults *faults, const char *volume,
                  struct err *err)
{
	struct dpf_fault fault;

	if (image_make(image, bytes, err))
		return -1;
	if (faults_dpf(faults, FAULT_FOREIGN_DATA, volume, NULL, &fault))
		return write_foreign(image, &fault, err);
	return 0;
}
