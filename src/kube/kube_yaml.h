/* SPDX-License-Identifier: Apache-2.0 */
/* YAML, as far as a kubeconfig needs it, read into a JSON tree. The only user of libyaml. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "common/json.h"

/*
 * Parses the first document of the text. Every scalar becomes a string, except plain true, false
 * and null. `what` names the source in the error (INVALID_ARGUMENT, with the line).
 */
int kube_yaml_parse(const char *what, const char *text, size_t n, struct json **ret,
                    struct err *err) MUST_CHECK;
