/* SPDX-License-Identifier: Apache-2.0 */
/* YAML, read into a JSON tree. The only user of libyaml. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "common/json.h"

const char *kube_yaml_library(void); /* version of libyaml */

/*
 * Parses a kubeconfig: the first document of `text`. Every scalar becomes a string, except plain
 * true, false and null. `what` names the source in the error (INVALID_ARGUMENT, with the line).
 */
int kube_yaml_parse(const char *what, const char *text, size_t n, struct json **ret,
                    struct err *err) MUST_CHECK;
/*
 * Parses an object in the format of "kubectl get -o yaml": plain integers also become numbers. A
 * text with more than one document is refused.
 */
int kube_yaml_parse_object(const char *what, const char *text, size_t n, struct json **ret,
                           struct err *err) MUST_CHECK;
/*
 * Parses a hand-written file: scalars as in a kubeconfig, one document, no duplicate keys.
 * *ret_lines is a tree of the same maps, in which the member "" of each key is the number of its
 * line: {"volumes": {"": 3, "data-1": {"": 4}}}. Maps within lists have no line numbers.
 */
int kube_yaml_parse_lined(const char *what, const char *text, size_t n, struct json **ret,
                          struct json **ret_lines, struct err *err) MUST_CHECK;
