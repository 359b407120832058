/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mkfs may be newer than the kernel: the image brings its tools, the node its kernel, and a
 * filesystem with a feature that the kernel does not know cannot be mounted. Here is which features
 * are left out for which kernel.
 */
#pragma once

#include "common/err.h"
#include "common/str.h"

/*
 * Adds to `words` what switches off the features that the kernel of that release ("4.18.0-553.el8")
 * does not know: "-O^orphan_file", "-mbigtime=0". `tool` is run once for its version, and only when
 * something may have to be left out: it must not be told words that it does not know. A release
 * that cannot be read leaves nothing out. -1: the tool cannot be asked.
 */
int mkfs_features_off(const char *fs_type, const char *tool, const char *release,
                      struct strs *words, struct err *err) MUST_CHECK;
