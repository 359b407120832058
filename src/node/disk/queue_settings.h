/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets the attributes of a disk's request queue that a StorageClass specifies: written at stage,
 * restored at unstage. The previous values are kept in a record (disk_record.h), so that a driver
 * restarted between stage and unstage can restore them. Any thread; calls for one volume never run
 * concurrently.
 *
 * Sources: Documentation/ABI/stable/sysfs-block, block/{blk-sysfs,blk-mq,elevator}.c.
 */
#pragma once

#include "node/node.h"
#include "volume/volume_params.h"

/*
 * Records the current settings, then writes the requested ones and reads each back. Does nothing if
 * no setting is requested. The caller has the disk open, and must restore the settings if its stage
 * fails. FAILED_PRECONDITION: the kernel rejected a setting or has no such attribute; the message
 * names the key. UNAVAILABLE: the record cannot be written.
 */
int queue_settings_write(struct node *n, const char *volume_id, const struct device *dev,
                         const struct volume_params *p, struct err *err) MUST_CHECK;
/*
 * Restores the settings in this volume's record, if the disk is still present, and removes the
 * record. Does nothing without a record. A setting that cannot be restored is only logged, because
 * it must not keep a volume staged.
 */
void queue_settings_restore(struct node *n, const char *volume_id);
