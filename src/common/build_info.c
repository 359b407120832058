/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Build information of this program: commit and flavour. It has its own file, so that a new commit
 * recompiles only this file.
 */
#include "common/build_info.h"

/* Tools that read the code without the Makefile define neither macro. */
#ifndef SNAP_CSI_COMMIT
#define SNAP_CSI_COMMIT ""
#endif
#ifndef SNAP_CSI_FLAVOUR
#define SNAP_CSI_FLAVOUR "unknown flavour"
#endif

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

#ifdef __aarch64__
#define MACHINE "arm64"
#elif defined(__x86_64__)
#define MACHINE "amd64"
#else
#define MACHINE "another machine"
#endif

const char *build_commit(void)
{
	return SNAP_CSI_COMMIT;
}

const char *build_kind(void)
{
	return SNAP_CSI_FLAVOUR " for " MACHINE " by " COMPILER;
}
