#!/usr/bin/env bash
# Every shell script goes through shellcheck. Not asked: SC1091 (sourced files are looked at on their own), SC2016 (awk programs
# stand in single quotes).
set -u
cd "$(dirname "$0")/../.." || exit 1
{
	find test .ci -type f -name '*.sh' 2>/dev/null
	grep -rlE '^#!.*\b(ba|da)?sh$' test .ci --include='*' -I 2>/dev/null
} | grep -v '/data/' | sort -u | xargs -r shellcheck --severity=style --exclude=SC1091,SC2016
