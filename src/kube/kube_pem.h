/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that a PEM text has the blocks that a kubeconfig needs. The check runs when the file is
 * read, so that an error names the file, and a half-written file does not replace valid
 * credentials. libcurl would report the error with each request, without the file's name.
 */
#pragma once

#include "common/err.h"

enum pem_use { PEM_CERTIFICATE, PEM_KEY };

/*
 * INVALID_ARGUMENT, the text begins with `what`: no block of this use, one without an end, one that
 * is not base64, or one that is encrypted. Blocks of other uses are ignored, as OpenSSL does. The
 * error text contains no byte of a block. Any thread.
 */
int kube_pem_check(const char *what, const char *text, enum pem_use use, struct err *err)
	MUST_CHECK;
