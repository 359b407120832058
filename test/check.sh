#!/usr/bin/env bash
# Runs the suites one after the other, each with its log in build/check/, and adds up their closing lines
# ("TITLE: N passed, N failed"; a suite without such a line counts as one). Goes on after a failure.
# Usage: check.sh [SUITE...]; without names all of them. Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
make='make --no-print-directory'
jobs="-j$(nproc)"

# name | description | command
suites=$(cat <<END
build-gcc|the driver by gcc, warnings are errors|$make $jobs WERROR=-Werror BUILD=build/strict
build-clang|the driver by clang, warnings are errors|$make $jobs WERROR=-Werror CC=clang FLAVOUR=debug BUILD=build/clang
build|the driver, snap-sim and csi-call|$make $jobs all sim tools
unit-debug|unit tests|$make $jobs unit FLAVOUR=debug
unit-asan|unit tests, AddressSanitizer and UBSan|$make $jobs unit FLAVOUR=asan
unit-tsan|unit tests, ThreadSanitizer|$make $jobs unit FLAVOUR=tsan
rpc|the RPC server on a socket|$make $jobs rpc-test
rpc-asan|the same, AddressSanitizer and UBSan|$make $jobs rpc-test FLAVOUR=asan
rpc-tsan|the same, ThreadSanitizer|$make $jobs rpc-test FLAVOUR=tsan
wire|csi.proto against the official file, secrets in no log|$make $jobs wire-test
kubeclient-asan|the Kubernetes client over TLS and HTTP/2, AddressSanitizer and UBSan|$make $jobs kubeclient-test FLAVOUR=asan
kubeclient-tsan|the same, ThreadSanitizer|$make $jobs kubeclient-test FLAVOUR=tsan
controller-asan|the controller against snap-sim and its faults, AddressSanitizer and UBSan|$make $jobs controller-test FLAVOUR=asan
controller-tsan|the same, ThreadSanitizer|$make $jobs controller-test FLAVOUR=tsan
api-faults|every fault of the API server, against docs/api-faults.md|$make $jobs api-faults FLAVOUR=debug
sim|snap-sim itself|$make $jobs sim-test FLAVOUR=asan
main|the program from outside|$make $jobs main-test
sanity|csi-sanity, mount and block|$make $jobs sanity
e2e|kills, retries, many volumes|$make $jobs e2e
errors|every error path of create, attach, stage|$make $jobs errors
demo|the story of make demo|$make demo-built
troubleshooting|each row of docs/troubleshooting.md|$make $jobs troubleshooting
lint|what can be said without running|$make lint
END
)

log_dir=build/check
mkdir -p "$log_dir"
failures=$log_dir/failures
: >"$failures"
passed=0 failed=0 begin=$EPOCHREALTIME
seconds() { awk "BEGIN {printf \"%.0f\", $EPOCHREALTIME - $1}"; }

run() { # name what command
	local start=$EPOCHREALTIME log="$log_dir/$1.log" rc good bad line
	printf '%-15s %s ... ' "$1" "$2"
	$3 >"$log" 2>&1 </dev/null
	rc=$?
	line=$(grep -E '(^|: )[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
	good=$(sed -nE 's/.*(^|[^0-9])([0-9]+) passed.*/\2/p' <<<"$line")
	bad=$(sed -nE 's/.*[^0-9]([0-9]+) failed.*/\1/p' <<<"$line")
	if [ -z "$line" ] && grep -q 'Error 77$' "$log"; then
		# It cannot run here, and says what it would need.
		printf 'skipped\n%s\n' "$(grep -v '^make' "$log" | sed 's/^/    SKIP: /')"
		return
	fi
	if [ -z "$line" ]; then
		good=$((rc == 0)) bad=$((rc != 0))
	elif [ "$rc" -ne 0 ] && [ "$bad" -eq 0 ]; then
		bad=1
	fi
	passed=$((passed + good)) failed=$((failed + bad))
	printf '%d passed, %d failed (%s s)\n' "$good" "$bad" "$(seconds "$start")"
	grep -hE '^SKIP' "$log" | sort -u | sed 's/^/    /'
	if [ "$bad" -ne 0 ]; then
		echo "--- the end of $log:"
		tail -n 60 "$log"
		echo "---"
		{
			printf '    %s: %s, in %s\n' "$1" "$2" "$log"
			test/lib/failures.sh "$log" | sed 's/^/    /'
		} >>"$failures"
	fi
}

while IFS='|' read -r name what command; do
	if [ $# -eq 0 ] || [[ " $* " == *" $name "* ]]; then
		run "$name" "$what" "$command"
	fi
done <<<"$suites"
if [ -s "$failures" ]; then
	echo 'failed:'
	cat "$failures"
fi
echo "check took $(seconds "$begin") s"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
