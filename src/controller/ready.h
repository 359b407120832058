/* SPDX-License-Identifier: Apache-2.0 */
/* Can the controller do its work at this moment? For /readyz; each question costs two requests. */
#pragma once

#include "controller/controller.h"

/*
 * Asks the API server for an object that does not exist, of each kind that the driver writes. 0: it
 * answers, serves both kinds, and lets the driver read them. -1 says what came instead.
 */
int controller_check_api(const struct controller *c, struct deadline d, struct err *err) MUST_CHECK;
/*
 * 0: attaching and deleting need not wait, because all attachments are known, or lists are used
 * instead of the watch. -1 DEADLINE: they are still being read, the text says how many were.
 */
int controller_check_attachments(const struct controller *c, struct err *err) MUST_CHECK;
