/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a PEM text what a kubeconfig needs? Checked when the file is read, so that an error names it,
 * and so that the credentials before stay when a file that is half written replaces them. libcurl
 * would say so with each request, without a name.
 */
#pragma once

#include "common/err.h"

enum pem_use { PEM_CERTIFICATE, PEM_KEY };

/*
 * INVALID_ARGUMENT, the text begins with `what`: no block of this use, one without an end, one that
 * is not base64, or one that is encrypted. Blocks of other uses are ignored, as OpenSSL does. No
 * byte of a block enters the text. Any thread.
 */
int kube_pem_check(const char *what, const char *text, enum pem_use use, struct err *err)
	MUST_CHECK;
