/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mkfs may be newer than the kernel: the image brings its tools, the node its kernel, and a
 * filesystem with a feature that the kernel does not know cannot be mounted. This file knows which
 * features to leave out for which kernel.
 */
#pragma once

#include "common/err.h"
#include "common/str.h"

/*
 * Adds to `words` the arguments that switch off what the kernel of that release ("4.18.0-553.el8")
 * does not know: "-O^orphan_file", "-mbigtime=0". `tool` refuses words that are newer than itself,
 * so it is run for its version, but only when something may have to be left out. A release without
 * a version number leaves nothing out. -1: the tool does not say its version.
 */
int mkfs_features_off(const char *fs_type, const char *tool, const char *release,
                      struct strs *words, struct err *err) MUST_CHECK;
