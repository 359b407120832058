/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a host ready for volumes: loads the kernel module nvme, and makes VFs where there are none.
 *
 * Both may have been done already, at boot; then nothing is written and no process started. The
 * caller reports a failure and serves nevertheless, because the volumes of running pods must be
 * unpublished also on a host whose DPU is away.
 */
#include "node/prepare.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/spawn.h"

#define MODPROBE_MS 20000

static int load_nvme(const char *sysfs, struct str *did, struct err *err)
{
	char *driver AUTO(free) = xasprintf("%s/bus/pci/drivers/nvme", sysfs);
	struct strs argv AUTO(strs_clear) = STRS_INIT;
	struct str output AUTO(str_clear) = STR_INIT(1000);
	int rc;

	if (path_exists(driver))
		return 0;
	strs_add(&argv, "modprobe");
	strs_add(&argv, "nvme");
	rc = spawn_run(&argv, deadline_in_ms(MODPROBE_MS), &output, err);
	if (rc > 0)
		return err_set(err, ERR_UNAVAILABLE,
		               "load the kernel module nvme: modprobe exited with %d: %s", rc,
		               spawn_last_line(&output));
	if (rc)
		return err_wrap(err, "load the kernel module nvme");
	str_add(did, "loaded nvme");
	return 0;
}

static int prepare(const struct node *n, struct str *did, struct err *err)
{
	const struct node_options *o = &n->o;
	struct str made AUTO(str_clear) = STR_INIT(1000);
	struct err load = ERR_INIT, create = ERR_INIT;
	int rc = 0;

	if (o->load_driver && load_nvme(o->world.sysfs, did, &load))
		rc = -1;
	if (o->create_vfs && device_create_vfs(&o->world, &made, &create))
		rc = -1;
	if (made.len)
		str_addf(did, "%s%s", did->len ? ", " : "", made.ptr);
	if (rc && load.code && create.code)
		return err_set(err, load.code, "%.480s; %.480s", load.msg, create.msg);
	if (rc)
		*err = load.code ? load : create;
	return rc;
}

int node_prepare(struct node *n, struct str *did, struct err *err)
{
	int rc;

	atomic_fetch_add(&n->preparing, 1);
	atomic_fetch_add(&n->preparations, 1);
	rc = prepare(n, did, err);
	atomic_fetch_sub(&n->preparing, 1);
	return rc;
}
