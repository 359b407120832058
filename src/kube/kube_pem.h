/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that PEM data have the blocks that a kubeconfig needs. The check runs when the file is
 * read, so that an error names the file, and a half-written file does not replace valid
 * credentials. libcurl would report the error for each request, without the file's name.
 */
#pragma once

#include "common/err.h"

enum pem_use { PEM_CERTIFICATE, PEM_KEY };

/*
 * Returns 0, or -1 with INVALID_ARGUMENT, whose message begins with `what`, if there is no block of
 * this use, or if one has no end, is not base64 or is encrypted. Blocks of other uses are ignored,
 * as they are by OpenSSL. The error message contains no byte of a block. Any thread.
 */
int kube_pem_check(const char *what, const char *text, enum pem_use use, struct err *err)
	MUST_CHECK;
