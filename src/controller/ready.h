/* SPDX-License-Identifier: Apache-2.0 */
/* Checks for /readyz whether the controller can do its work now. Each check costs two requests. */
#pragma once

#include "controller/controller.h"

/*
 * Requests an object that does not exist, of each kind that the driver writes, from the API server.
 * Returns 0 if the server answers, serves both kinds, and permits the driver to read them;
 * otherwise -1 with the server's answer.
 */
int controller_check_api(const struct controller *c, struct deadline d, struct err *err) MUST_CHECK;
/*
 * Returns 0 if attach and delete calls need not wait: all attachments are known, or lists are used
 * because the watch does not work. Returns -1 (DEADLINE) while the attachments are still being
 * read; the message has the number read so far.
 */
int controller_check_attachments(const struct controller *c, struct err *err) MUST_CHECK;
