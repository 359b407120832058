/* SPDX-License-Identifier: Apache-2.0 */
/* The passphrase of host attach: accepted files, and the bytes that are read. */
#include "host/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "common/secret.h"
#include "node/node.h"
#include "test/lib/suite.h"

#define TEXT(s) s, sizeof(s) - 1

static const struct {
	const char *bytes;
	size_t n;
	mode_t mode;
	const char *error; /* NULL: accepted, without the last `newline` bytes */
	size_t newline;
} files[] = {
	{ TEXT("correct horse\n"), 0600, NULL, 1 },
	{ TEXT("correct horse"), 0400, NULL, 0 },
	{ TEXT("two\nlines\n\n"), 0600, NULL, 1 },
	{ TEXT(""), 0600, "has 0 bytes, expected 1 to 512", 0 },
	{ TEXT("\n"), 0600, "has 0 bytes, expected 1 to 512", 0 },
	{ TEXT("correct horse\n"), 0640, "is accessible to other users (mode 0640", 0 },
	{ TEXT("correct horse\n"), 0604, "is accessible to other users (mode 0604", 0 },
	{ TEXT("a\0binary key"), 0600, "contains a NUL byte, expected text", 0 },
	{ TEXT("\0binary key"), 0600, "contains a NUL byte, expected text", 0 },
	{ TEXT("binary key\0\n"), 0600, "contains a NUL byte, expected text", 0 },
};

static const char share[] =
	"{\"apiVersion\":\"storage.dpu.nvidia.com/v1alpha1\",\"kind\":\"DPUVolumeAttachment\","
	"\"metadata\":{\"name\":\"a\",\"uid\":\"u\"},\"spec\":{\"dpuNodeName\":\"n\","
	"\"dpuVolumeName\":\"pvc-1\",\"functionType\":\"pf\",\"hotplugFunction\":true},\"status\":{"
	"\"dpuAttached\":true,\"dpu\":{\"pciAddress\":\"26:00.1\",\"virtioFSAttrs\":{"
	"\"filesystemTag\":\"t\"}}}}";

START_TEST(a_key_file_is_read_as_text_that_only_its_owner_can_read)
{
	char path[] = "/tmp/snap-csi-key-XXXXXX";
	struct attachment_file f AUTO(attachment_file_clear) = { .tree = NULL };
	struct host_args a = { .key_file = path, .encryption = "luks2", .mount = "" };
	struct host_request q = HOST_REQUEST_INIT;
	struct node n = { .o = { .id = "" } };
	struct err err = ERR_INIT;
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fchmod(fd, files[_i].mode), 0);
	ck_assert_int_eq(file_write_all(fd, path, files[_i].bytes, files[_i].n, &err), 0);
	close(fd);
	a.format = a.options = a.fs_type = "";
	ck_assert_int_eq(attachment_parse("it", share, strlen(share), &f, &err), 0);
	q.a = &a;
	q.f = &f;
	q.mount = xstrdup("");
	/* A later check refuses a share without --mount. */
	ck_assert_int_eq(host_request_make(&q, &n, &err), -1);
	ck_assert_msg((strstr(err.msg, "--key-file") != NULL) == (files[_i].error != NULL) &&
	                      (!files[_i].error || strstr(err.msg, files[_i].error)),
	              "%s", err.msg);
	ck_assert(!strstr(err.msg, "correct horse"));
	if (!files[_i].error) {
		ck_assert_uint_eq(q.keys->current.n, files[_i].n - files[_i].newline);
		ck_assert_mem_eq(q.keys->current.text, files[_i].bytes, q.keys->current.n);
		ck_assert_uint_eq(q.keys->previous.n, 0);
	}
	host_request_clear(&q);
	unlink(path);
}
END_TEST

SUITE("request", LOOP(a_key_file_is_read_as_text_that_only_its_owner_can_read, ARRAY_LEN(files)));
