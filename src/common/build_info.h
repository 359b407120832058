/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this program was built from, as recorded by the Makefile and printed by --version. The
 * results are constant.
 */
#pragma once

const char *build_commit(void); /* "" if built outside a clone */
const char *build_kind(void);   /* the flavour, the machine and the compiler, in readable form */
