/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the bundle, from its first file to its last. Owns the descriptor. The other bundle_*.c
 * files write the parts.
 */
#include "inspect/bundle_priv.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"

#define FOLDER "snap-csi-inspect/"

static const char about[] =
	"Output of `snap-csi-plugin inspect --bundle`, for a support case.\n"
	"\n"
	"report.txt, report.json   the report: findings first\n"
	"version.txt, flags.txt    of the program that wrote this, with the running driver's flags\n"
	"*.jsonl                   the objects, one per line, without managedFields, without\n"
	"                          annotations and labels of other programs, and without the\n"
	"                          values of parameters, contexts and members named like secrets\n"
	"mountinfo.txt             the mounts of the driver's volumes on this host\n"
	"metrics.txt               /metrics of the running driver, if it has --http-endpoint\n"
	"*.error.txt               the error, if a part could not be read\n"
	"\n"
	"The log is not included: kubectl logs -c snap-csi-plugin POD, and again with --previous.\n"
	"Messages of conditions and Events were written by DPF and the vendor: read them before this\n"
	"file is shared.\n";

static int bundle_report(struct bundle *b, struct err *err)
{
	char *json AUTO(free) = json_print_shown(b->r->tree);
	char *table AUTO(free) = NULL;
	size_t n = 0;
	FILE *memory = open_memstream(&table, &n);

	if (!memory)
		return err_sys(err, errno, "keep the table");
	inspect_print(b->r, memory);
	if (fclose(memory))
		return err_sys(err, errno, "keep the table");
	if (bundle_add(b, "report.txt", table, err) || bundle_add(b, "report.json", json, err))
		return -1;
	return 0;
}

static int fill(struct bundle *b, struct err *err)
{
	if (bundle_add(b, "README.txt", about, err) || bundle_report(b, err) ||
	    bundle_add(b, "version.txt", "snap-csi-plugin " SNAP_CSI_VERSION "\n", err) ||
	    bundle_flags(b, err) || bundle_objects(b, err) || bundle_mounts(b, err) ||
	    bundle_metrics(b, err))
		return -1;
	return tar_end(&b->tar, err);
}

/*
 * Creates the file. Never overwrites a file and never follows a symbolic link, because the bundle
 * may be written by root.
 */
static int open_file(const char *path, int *ret, struct err *err)
{
	*ret = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return *ret < 0 ? err_sys(err, errno, "create %s", path) : 0;
}

int inspect_bundle(const struct inspect_report *r, const struct inspect_options *o,
                   struct deadline d, struct err *err)
{
	struct bundle b = {
		.r = r, .o = o, .d = d, .tar = { .folder = FOLDER, .fd = 1, .mtime = time(NULL) }
	};
	bool to_stdout = str_eq(o->bundle, "-");
	int fd AUTO(fd) = -1;

	b.asked_api = json_at(r->tree, "api.namespace") && !json_at(r->tree, "api.error");
	if (to_stdout)
		return fill(&b, err);
	if (open_file(o->bundle, &fd, err))
		return -1;
	b.tar.fd = fd;
	if (fill(&b, err) || (fsync(fd) && errno != EINVAL && err_sys(err, errno, "sync"))) {
		unlink(o->bundle);
		return err_wrap(err, "%s", o->bundle);
	}
	return 0;
}
