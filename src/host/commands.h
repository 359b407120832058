/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of `snap-csi-plugin host`. Each adds its result to `said`. -1: it has failed. A
 * positive return is an enum host_status.
 */
#pragma once

#include "common/deadline.h"
#include "host/args.h"
#include "host/attachment_file.h"
#include "host/host.h"

/*
 * attach.c. 0: the volume of the file is available, and `said` is its path. HOST_NOT_READY: `said`
 * is what is missing. -1: it is not available; the changes are undone as those of a failed stage.
 */
int host_attach(const struct host_args *a, struct str *said, struct err *err) MUST_CHECK;
/*
 * For `host watch`, on any thread: the same for an attachment from the API server, until the
 * deadline. Ignores a->file.
 */
int host_attach_object(const struct host_args *a, const struct attachment_file *f,
                       struct deadline d, struct str *said, struct err *err) MUST_CHECK;

/*
 * detach.c. 0: the volume is not attached to this host. FAILED_PRECONDITION: it is in use, and the
 * text names the holders; or another filesystem is mounted in its place and stays there. `host
 * watch` does not attach the volume again (manual_detach.h).
 */
int host_detach(const struct host_args *a, struct str *said, struct err *err) MUST_CHECK;
/*
 * For `host watch`, on any thread: the same until the deadline, if this attachment has attached the
 * volume; else no effect. `gone`: the attachment no longer exists, so its marker of a manual detach
 * is removed.
 */
int host_detach_attachment(const struct host_args *a, const char *volume, const char *uid,
                           bool gone, struct deadline d, struct err *err) MUST_CHECK;
/* manual_detach.c. Removes the marker of a manual detach. */
int host_resume(const struct host_args *a, struct str *said, struct err *err) MUST_CHECK;

/* list.c. The attached volumes, as lines or as a JSON array. Changes nothing. */
int host_list(const struct host_args *a, struct str *said, struct err *err) MUST_CHECK;
/*
 * check.c. A line for each finding: "ok", "note" (volumes of one kind cannot be attached) or "bad"
 * (no volume can), with the next step. HOST_FAILED: one is bad. Changes nothing.
 */
int host_check(const struct host_args *a, struct str *said, struct err *err) MUST_CHECK;

/*
 * watch.c. Attaches and detaches the volumes of a->node as the API server says, until SIGTERM or
 * SIGINT; 0 then, and attached volumes stay attached. -1: it could not start. Notifies a service
 * manager (NOTIFY_SOCKET) that it is ready, after the first try of each attachment of the start, or
 * after one minute. One in a process.
 */
int host_watch(const struct host_args *a, struct err *err) MUST_CHECK;
