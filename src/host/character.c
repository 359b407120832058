/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds, checks and releases the character device of a key/value namespace. The rules of
 * identification are those of node/device; a character device cannot be opened exclusively, so the
 * open files of all processes are searched before a detach.
 */
#include "host/character.h"

#include <stdlib.h>

#include "common/cleanup.h"
#include "node/holders/holders.h"

int host_character_find(struct node *n, const char *volume, const struct device_want *want,
                        struct deadline d, struct device *ret, struct err *err)
{
	struct device_want w = *want;
	struct device dev;

	if (!device_wants_key_value(want))
		return HOST_NOT_CHARACTER;
	w.volume_id = volume;
	w.character = true;
	if (device_wait(&n->o.world, &w, d, &dev, err))
		return -1;
	if (!dev.character)
		return HOST_NOT_CHARACTER;
	if (device_check_character(&dev, err))
		return err_wrap(err, "volume %s", volume);
	*ret = dev;
	return 0;
}

/* Searches for the attached device, which is found by what attach has verified. */
static int character_find_again(struct node *n, const struct host_state *is, struct device *ret,
                                struct str *why, struct err *err)
{
	const struct device_want want = { .volume_id = is->volume,
		                          .pci = is->pci,
		                          .nsid = (uint32_t)is->nsid,
		                          .uuid = is->uuid,
		                          .character = true };

	return device_find_again(&n->o.world, is->pci, &want, ret, why, err);
}

static int refuse_open_device(const struct host_state *is, const struct device *dev,
                              const struct holders *h, const struct holders_query *q,
                              struct err *err)
{
	struct str by AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);

	holders_describe(h, q, dev->path, &by);
	return err_set(err, ERR_PRECONDITION, "volume %s: %s may be in use: %s", is->volume,
	               dev->path, by.ptr);
}

static int character_check_unused(const struct node *n, const struct host_state *is,
                                  const struct device *dev, struct deadline d, struct err *err)
{
	const struct holders_query q = { .proc_root = n->o.proc_root,
		                         .disk = dev->devno,
		                         .character = true,
		                         .exhaustive = true };
	struct holders h AUTO(holders_clear) = { 0 };

	holders_find(&q, d, &h);
	return h.n || !holders_saw_all(&h) ? refuse_open_device(is, dev, &h, &q, err) : 0;
}

int host_character_release(struct node *n, const struct host_state *is, struct deadline d,
                           struct err *err)
{
	struct str why AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	struct device dev;
	struct err other = ERR_INIT;
	int rc = character_find_again(n, is, &dev, &why, &other);

	if (rc < 0 && other.code != ERR_PRECONDITION) {
		*err = other;
		return -1;
	}
	if (rc)
		return 0;
	return character_check_unused(n, is, &dev, d, err) || device_release(&n->o.world, &dev, err)
	               ? -1
	               : 0;
}

int host_volume_health(struct node *n, const struct host_args *a, const struct host_state *is,
                       struct health *ret, struct err *err)
{
	struct str why AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	char *path AUTO(free) = host_staging_path(a, is->mount);
	struct err other = ERR_INIT;
	struct device dev;
	int rc;

	if (!is->key_value)
		return node_volume_health(n, is->volume, NULL, path, ret, err);
	rc = character_find_again(n, is, &dev, &why, &other);
	if (rc < 0 && other.code != ERR_PRECONDITION) {
		*err = other;
		return -1;
	}
	*ret = (struct health) { .n = rc ? 1 : 0 };
	if (!rc)
		return 0;
	ret->v[0] = (struct health_fault) { .status = HEALTH_INACCESSIBLE, .reason = "DeviceGone" };
	snprintf(ret->v[0].message, sizeof(ret->v[0].message), "the device %s is gone: %.200s",
	         is->device, rc < 0 ? other.msg : why.ptr);
	return 0;
}
