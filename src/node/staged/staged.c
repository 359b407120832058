/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the properties that do not depend on the kind of volume. Changes nothing. */
#include "node/staged/staged.h"

#include <string.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "node/mount/mount_same.h"

void staged_describe_disk(const struct node *n, dev_t disk, struct str *text)
{
	struct err ignored = ERR_INIT;
	struct device dev;
	int rc = device_by_number(&n->o.world, disk, &dev, &ignored);

	str_addf(text, "device %u:%u", major(disk), minor(disk));
	if (rc == 0)
		str_addf(text, " (%s%s%s%s%s)", dev.path, *dev.pci ? " of function " : "", dev.pci,
		         *dev.uuid ? ", UUID " : "", dev.uuid);
}

int staged_refuse_foreign(const struct staged_want *w, const struct mountpoint *p,
                          const char *wanted, struct err *err)
{
	struct str there AUTO(str_clear) = STR_INIT(400);

	if (mount_is_share(p->m))
		str_addf(&there, "the tag %s", p->m->source);
	else
		staged_describe_disk(w->node, p->kind == MOUNTPOINT_OTHER ? p->m->devno : p->disk,
		                     &there);
	return err_set(err, ERR_PRECONDITION,
	               "%s already shows %s of %s, but the volume is on %s: unmount it by hand "
	               "if it is a leftover",
	               p->path, p->kind == MOUNTPOINT_BLOCK ? "raw block" : p->m->fs_type,
	               there.ptr, wanted);
}

int staged_check_read_only(const struct staged_want *w, const struct mountpoint *p, struct err *err)
{
	if (p->m->read_only == w->read_only)
		return 0;
	return err_set(err, ERR_EXISTS, "%s is already staged %s, not %s", p->path,
	               p->m->read_only ? "read-only" : "read-write",
	               w->read_only ? "read-only" : "read-write");
}

int staged_check_flags(const struct mount_asked *asked, const struct mountpoint *p, struct err *err)
{
	const char *what;

	if (!mount_flags_differ(asked, p->m, &what))
		return 0;
	return err_set(err, ERR_EXISTS,
	               "%s is already staged with other mount flags (%s differs, see findmnt %s): "
	               "unpublish and unstage the volume first",
	               p->path, what, p->path);
}

int staged_check_context(const struct strs *options, const struct mount *m, struct err *err)
{
	for (size_t i = 0; i < options->n; i++)
		if (str_has_prefix(options->v[i], "context=") && !strstr(m->fs_options, "context="))
			return err_set(
				err, ERR_PRECONDITION,
				"the mount option %s was requested, but %s is mounted without "
				"it: the driver must see the host's /sys/fs/selinux",
				options->v[i], m->target);
	return 0;
}
