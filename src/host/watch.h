/* SPDX-License-Identifier: Apache-2.0 */
/* host watch. One in a process. */
#pragma once

#include "host/args.h"

/*
 * Follows the attachments of a->node until SIGTERM or SIGINT; 0 then. What is attached stays. -1:
 * it could not begin. Tells a service manager (NOTIFY_SOCKET) that it is ready once what was there
 * at the start has been tried, or after a minute.
 */
int host_watch(const struct host_args *a, struct err *err) MUST_CHECK;
