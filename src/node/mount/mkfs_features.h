/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the features that mkfs has to disable for the node's kernel. The image's mkfs may be
 * newer than the kernel, which cannot mount a filesystem with a feature that it does not know.
 */
#pragma once

#include "common/err.h"
#include "common/str.h"

/*
 * Adds to `words` the arguments that disable features unknown to the kernel of that release
 * ("4.18.0-553.el8"): "-O^orphan_file", "-mbigtime=0". An mkfs rejects the name of a feature newer
 * than itself, so `tool` is run to get its version, but only if a feature may have to be disabled.
 * For a release without a version number, nothing is disabled. -1: the tool's version cannot be
 * determined.
 */
int mkfs_features_off(const char *fs_type, const char *tool, const char *release,
                      struct strs *words, struct err *err) MUST_CHECK;
