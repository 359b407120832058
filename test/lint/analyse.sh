#!/usr/bin/env bash
# cppcheck over src and the simulator. cppcheck.txt lists the suppressed checks with reasons. Attributes are hidden from it:
# it reports one behind a function pointer of a struct as a syntax error.
set -u
cd "$(dirname "$0")/../.." || exit 1
mkdir -p build/cppcheck
where=(src)
[ -d test/sim ] && where+=(test/sim)
cppcheck --enable=warning,performance,portability --std=c11 --language=c --quiet --inline-suppr -j2 \
	--cppcheck-build-dir=build/cppcheck --suppressions-list=test/lint/cppcheck.txt --error-exitcode=1 \
	--template='{file}:{line}: {message} [{id}]' -D_GNU_SOURCE '-D__attribute__(x)=' -DSNAP_CSI_VERSION='"x"' \
	-Isrc -I. "${where[@]}"
