/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this program was built from, as the Makefile says it; --version prints it. Constants.
 */
#pragma once

const char *build_commit(void); /* "" when it was built outside of a clone */
const char *build_kind(void);   /* the flavour, the machine and the compiler, for people */
