/* SPDX-License-Identifier: Apache-2.0 */
/* host attach. No state, any thread. */
#pragma once

#include "common/deadline.h"
#include "host/args.h"
#include "host/attachment_file.h"

/*
 * 0: the volume of the file is available, and `said` is the path where it is. A positive return is
 * HOST_NOT_READY, and `said` what is missing. -1: it is not available; what was changed is undone
 * as a failed stage undoes it.
 */
int host_attach(const struct host_args *a, struct str *said, struct err *err) MUST_CHECK;
/*
 * The same of an attachment that was read already, until the deadline; for `host watch`, whose
 * threads each attach one volume. a->file does not count.
 */
int host_attach_object(const struct host_args *a, const struct attachment_file *f,
                       struct deadline d, struct str *said, struct err *err) MUST_CHECK;
