/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the sysfs attributes of a block device. The kernel reuses names and device numbers at once,
 * so the disk's sequence number is read before and after the other attributes. Opens no device.
 */
#include "node/device/block.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "common/mem.h"
#include "node/device/sysfs.h"

#define SECTOR 512 /* bytes; the unit of the size attribute, whatever the logical block size */

/* ---- UUIDs ---- */

/* Returns the next digit in lower case, '\0' at the end. */
static int next_digit(const char **p)
{
	while (**p == '-')
		++*p;
	return **p ? tolower((unsigned char)*(*p)++) : '\0';
}

bool uuid_equal(const char *a, const char *b)
{
	int x, y;

	do {
		x = next_digit(&a);
		y = next_digit(&b);
	} while (x && x == y);
	return x == y;
}

bool uuid_known(const char *uuid)
{
	return uuid && uuid[strspn(uuid, "0-")] != '\0';
}

int block_uuid(const char *dir, char ret[40], struct err *err)
{
	char *uuid AUTO(free) = NULL;
	char *wwid AUTO(free) = NULL;

	*ret = '\0';
	if (sysfs_attr(dir, "wwid", &wwid, err) < 0 || sysfs_attr(dir, "uuid", &uuid, err) < 0)
		return -1;
	/*
	 * If the namespace has no UUID, the kernel shows the NGUID as uuid. wwid begins with the
	 * name of the identifier on which it is based.
	 */
	if (uuid && uuid_known(uuid) && (!wwid || str_has_prefix(wwid, "uuid.")))
		snprintf(ret, 40, "%.39s", uuid);
	return 0;
}

/* ---- one device ---- */

int block_read_devno(const char *dir, dev_t *ret, struct err *err)
{
	char *text AUTO(free) = NULL;
	unsigned major_no, minor_no;
	char end;
	int rc = sysfs_attr(dir, "dev", &text, err);

	if (rc)
		return rc;
	if (sscanf(text, "%u:%u%c", &major_no, &minor_no, &end) != 2)
		return err_set(err, ERR_PRECONDITION, "%s/dev is \"%.40s\"", dir, text);
	*ret = makedev(major_no, minor_no);
	return 0;
}

/* Reads a number; if the attribute is missing, *ret is `otherwise`. */
static int read_u64_or(const char *dir, const char *name, uint64_t otherwise, uint64_t *ret,
                       struct err *err)
{
	int rc = sysfs_attr_u64(dir, name, ret, err);

	if (rc == SYSFS_ABSENT)
		*ret = otherwise;
	return rc < 0 ? -1 : 0;
}

static int read_once(const struct device_world *w, const char *dir, const char *name,
                     struct device *d, struct err *err)
{
	uint64_t hidden, sectors, read_only, nsid, diskseq;
	int rc = block_read_devno(dir, &d->devno, err);

	if (rc)
		return rc;
	if (read_u64_or(dir, "diskseq", 0, &d->diskseq, err) ||
	    read_u64_or(dir, "hidden", 0, &hidden, err) ||
	    read_u64_or(dir, "size", 0, &sectors, err) ||
	    read_u64_or(dir, "ro", 0, &read_only, err) || read_u64_or(dir, "nsid", 0, &nsid, err) ||
	    block_uuid(dir, d->uuid, err) || read_u64_or(dir, "diskseq", 0, &diskseq, err))
		return -1;
	if (hidden || diskseq != d->diskseq)
		return BLOCK_ABSENT;
	if (sectors > UINT64_MAX / SECTOR || nsid > UINT32_MAX)
		return err_set(err, ERR_PRECONDITION, "%s: size %ju or nsid %ju is impossible", dir,
		               (uintmax_t)sectors, (uintmax_t)nsid);
	d->size = sectors * SECTOR;
	d->nsid = (uint32_t)nsid;
	d->read_only = read_only != 0;
	snprintf(d->name, sizeof(d->name), "%s", name);
	if ((size_t)snprintf(d->path, sizeof(d->path), "%s/%s", w->dev, name) >= sizeof(d->path))
		return err_set(err, ERR_PRECONDITION, "the path of device %s is too long", name);
	return 0;
}

int block_read(const struct device_world *w, const char *name, struct device *ret, struct err *err)
{
	char *dir AUTO(free) = xasprintf("%s/class/block/%s", w->sysfs, name);
	struct device d = { 0 };
	int rc;

	if (strlen(name) >= sizeof(d.name))
		return err_set(err, ERR_PRECONDITION, "the device name %.80s is too long", name);
	rc = read_once(w, dir, name, &d, err);
	if (rc == 0)
		*ret = d;
	return rc;
}
