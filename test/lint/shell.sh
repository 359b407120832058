#!/usr/bin/env bash
# Every shell script goes through shellcheck. Switched off: SC1091 (sourced files are checked on their own), SC2016 (awk
# programs are in single quotes). In addition, a return of a function names its status: in a trap, "cmd || return" returns the
# status that the script had before the trap, not that of cmd.
set -u
cd "$(dirname "$0")/../.." || exit 1
mapfile -t scripts < <({
	find test .ci packaging -type f \( -name '*.sh' -o -name '*.bash' \) 2>/dev/null
	# Only a first line counts: a Python file may hold a script for the guest.
	find test .ci packaging -type f ! -name '*.sh' -exec awk 'FNR == 1 && /^#!.*[\/ ](ba|da)?sh$/ { print FILENAME } { nextfile }' {} +
} | grep -v '/data/' | sort -u)
status=0
shellcheck --severity=style --exclude=SC1091,SC2016 "${scripts[@]}" || status=1
if grep -nE '(\|\||&&|;|^)[[:space:]]*return[[:space:]]*(;|\}|#|$)' "${scripts[@]}"; then
	echo 'a return without a status; write: return 0, return 1, return "$?"'
	status=1
fi
exit "$status"
