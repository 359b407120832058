/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of `snap-csi-plugin host`. Each adds its output to `said`. -1: the command has
 * failed. A positive return value is an enum host_status.
 */
#pragma once

#include "common/deadline.h"
#include "host/args.h"
#include "host/attachment_file.h"
#include "host/host.h"

/*
 * attach.c. Attaches the volume of the file. Returns 0 if the volume is available; `said` is its
 * path. Returns HOST_NOT_READY if the attachment is not ready; `said` lists what is missing. -1:
 * the volume is not available, and the changes are undone like those of a failed stage.
 */
int host_attach(const struct host_args *a, struct str *said, struct err *err) MUST_CHECK;
/*
 * For `host watch`, on any thread: like host_attach(), but for an attachment from the API server,
 * and until the deadline. Ignores a->file.
 */
int host_attach_object(const struct host_args *a, const struct attachment_file *f,
                       struct deadline d, struct str *said, struct err *err) MUST_CHECK;

/*
 * detach.c. Detaches a volume. Returns 0 if it is not attached to this host (any more).
 * FAILED_PRECONDITION: it is in use, and the message names the holders; or another filesystem is
 * mounted at its mount point and stays there. After that, `host watch` does not attach the volume
 * again (manual_detach.h).
 */
int host_detach(const struct host_args *a, struct str *said, struct err *err) MUST_CHECK;
/*
 * For `host watch`, on any thread: like host_detach(), until the deadline, but only if this
 * attachment has attached the volume. `gone`: the attachment no longer exists, so its marker of a
 * manual detach is removed.
 */
int host_detach_attachment(const struct host_args *a, const char *volume, const char *uid,
                           bool gone, struct deadline d, struct err *err) MUST_CHECK;
/* manual_detach.c. Removes the marker of a manual detach. */
int host_resume(const struct host_args *a, struct str *said, struct err *err) MUST_CHECK;

/* list.c. Lists the attached volumes, as lines or as a JSON array. Changes nothing. */
int host_list(const struct host_args *a, struct str *said, struct err *err) MUST_CHECK;
/*
 * check.c. Prints a line for each finding: "ok", "note" (volumes of one kind cannot be attached) or
 * "bad" (no volume can be attached), with the next step. Returns HOST_FAILED if a finding is bad.
 * Changes nothing.
 */
int host_check(const struct host_args *a, struct str *said, struct err *err) MUST_CHECK;

/*
 * watch.c. Attaches and detaches the volumes of a->node as the API server specifies, until SIGTERM
 * or SIGINT; then returns 0, and attached volumes stay attached. -1: it could not start. Notifies a
 * service manager (NOTIFY_SOCKET) that it is ready once it has tried each attachment that existed
 * at startup, or after one minute. At most one per process.
 */
int host_watch(const struct host_args *a, struct err *err) MUST_CHECK;
