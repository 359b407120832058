#!/usr/bin/env bash
# Checks that csi/csi.proto is the interface of CSI v1.13.0, and that secrets stay out of logs and errors.
# Usage: wire.sh MARKERS_PROGRAM [DRIVER SNAP_SIM]. Ends with "wire: N passed, N failed".
set -u
cd "$(dirname "$0")/../.." || exit 1
markers=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
result() { # exit-status text
	if [ "$1" -eq 0 ]; then
		passed=$((passed + 1))
		printf 'ok   %s\n' "$2"
	else
		failed=$((failed + 1))
		printf 'FAIL %s\n' "$2"
	fi
}

official=$(test/wire/official.sh) || { echo 'wire: 0 passed, 1 failed'; exit 1; }
test/wire/describe.sh "$official" >"$work/official" && test/wire/describe.sh csi/csi.proto >"$work/ours"
diff -u "$work/official" "$work/ours"
result $? "csi/csi.proto is wire-identical to the official file ($(wc -l <"$work/official") facts)"

# The comparison must be able to fail: each of these changes must make a difference.
try() { # what sed-expression
	mkdir -p "$work/try" && sed -E "$2" csi/csi.proto >"$work/try/csi.proto"
	test/wire/describe.sh "$work/try/csi.proto" >"$work/changed" && ! cmp -s "$work/official" "$work/changed"
	result $? "the comparison sees $1"
}
try 'a changed field number' 's/(string staging_target_path =) 3;/\1 13;/'
try 'a changed type' 's/int64 required_bytes/int32 required_bytes/'
try 'a renamed method' 's/rpc NodeGetInfo\(/rpc NodeInfo(/'
try 'a lost field' '/bool readonly = 4;/d'

test/wire/describe.sh --secrets "$official" >"$work/secrets"
[ "$(wc -l <"$work/secrets")" -eq 22 ]
result $? 'the official file marks 22 fields as secret'
CK_FORK=no "$markers" "$work/secrets" "$@" >"$work/log" 2>&1
result $? 'no secret and no value of a sensitive key is in a log line or an error'
grep -E '^(sent|FAIL|[0-9]+%|.*:[FE]:)' "$work/log" || tail -n 50 "$work/log"
printf 'wire: %d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
