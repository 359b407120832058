#!/usr/bin/env bash
# Every shell script goes through shellcheck. Switched off: SC1091 (sourced files are checked on their own), SC2016 (awk
# programs stand in single quotes).
set -u
cd "$(dirname "$0")/../.." || exit 1
{
	find test .ci packaging -type f \( -name '*.sh' -o -name '*.bash' \) 2>/dev/null
	# Only a first line counts: a Python file may hold a script for the guest.
	find test .ci packaging -type f ! -name '*.sh' -exec awk 'FNR == 1 && /^#!.*[\/ ](ba|da)?sh$/ { print FILENAME } { nextfile }' {} +
} | grep -v '/data/' | sort -u | xargs -r shellcheck --severity=style --exclude=SC1091,SC2016
