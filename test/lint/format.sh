#!/usr/bin/env bash
# The layout of .clang-format; `make format` applies it.
set -u
cd "$(dirname "$0")/../.." || exit 1
find src test -name '*.[ch]' ! -path '*/data/*' -print0 | xargs -0 -r -P2 -n 16 clang-format --dry-run -Werror
