/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses /proc/partitions. The name of a partition is the disk's name, a "p" if that name ends with
 * a digit, and the partition's number (bdev_partno of %pg, lib/vsprintf.c).
 */
#include "node/device/partitions.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"

/* maximum size of the list in bytes; a line has about 30 */
#define PARTITIONS_MAX (8 * 1024 * 1024)

/* Parses one line: "major minor #blocks name". Returns false for the header or an empty line. */
static bool partitions_parse_line(const char *line, struct partition *ret)
{
	unsigned major_no, minor_no;
	char copy[160];

	snprintf(copy, sizeof(copy), "%.*s", (int)strcspn(line, "\n"), line);
	if (sscanf(copy, "%u %u %*u %63s", &major_no, &minor_no, ret->name) != 3)
		return false;
	ret->devno = makedev(major_no, minor_no);
	return true;
}

static const char *next_partition_line(const char *line)
{
	line += strcspn(line, "\n");
	return line + (*line == '\n');
}

static bool is_partition_of(const char *name, const char *disk)
{
	size_t n = strlen(disk);

	if (strncmp(name, disk, n) != 0)
		return false;
	name += n;
	if (isdigit((unsigned char)disk[n - 1]) && *name++ != 'p')
		return false;
	return *name && strspn(name, "0123456789") == strlen(name);
}

static void add_partitions(const char *text, const char *disk, struct partitions *ret)
{
	struct partition p;

	for (const char *line = text; *line; line = next_partition_line(line)) {
		if (!partitions_parse_line(line, &p) || !is_partition_of(p.name, disk))
			continue;
		ret->v = xrealloc(ret->v, (ret->n + 1) * sizeof(*ret->v));
		ret->v[ret->n++] = p;
	}
}

int partitions_read(const char *proc_root, dev_t disk, struct partitions *ret, struct err *err)
{
	char *path AUTO(free) = xasprintf("%s/partitions", proc_root), *text AUTO(free) = NULL;
	struct partition p;

	*ret = (struct partitions)PARTITIONS_INIT;
	if (file_read(path, PARTITIONS_MAX, &text, NULL, err)) {
		if (err->code != ERR_NOT_FOUND)
			return err_recode(err, ERR_UNAVAILABLE);
		err_clear(err); /* this kernel does not support partitions */
		return 0;
	}
	for (const char *line = text; *line; line = next_partition_line(line))
		if (partitions_parse_line(line, &p) && p.devno == disk) {
			add_partitions(text, p.name, ret);
			break;
		}
	return 0;
}

bool partitions_have(const struct partitions *p, dev_t devno)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].devno == devno)
			return true;
	return false;
}

bool partitions_equal(const struct partitions *a, const struct partitions *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (a->v[i].devno != b->v[i].devno || strcmp(a->v[i].name, b->v[i].name) != 0)
			return false;
	return true;
}

void partitions_clear(struct partitions *p)
{
	free(p->v);
	*p = (struct partitions)PARTITIONS_INIT;
}
