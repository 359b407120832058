/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the ID of this host's boot. */
#include "node/node.h"

#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/str.h"

static int read_boot_id(const char *proc_root, char ret[BOOT_ID_SIZE], struct err *err)
{
	char *path AUTO(free) = xasprintf("%s/sys/kernel/random/boot_id", proc_root);
	char *id AUTO(free) = NULL;

	if (file_read_line(path, BOOT_ID_SIZE - 1, &id, err))
		return -1;
	if (str_empty(id))
		return err_set(err, ERR_UNAVAILABLE, "%s is empty", path);
	snprintf(ret, BOOT_ID_SIZE, "%s", id);
	return 0;
}

int node_boot_id(const struct node *n, char ret[BOOT_ID_SIZE], struct err *err)
{
	if (*n->boot_id) {
		memcpy(ret, n->boot_id, BOOT_ID_SIZE);
		return 0;
	}
	if (read_boot_id(n->o.proc_root, ret, err) == 0)
		return 0;
	err_wrap(err, "cannot read the boot ID");
	return err_recode(err, ERR_UNAVAILABLE);
}
