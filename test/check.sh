#!/usr/bin/env bash
# Builds everything that the suites run, then runs the suites, LANES at a time, each with its log in build/check/, and adds up
# their closing lines ("TITLE: N passed, N failed"; a suite without such a line counts as one). Continues after a failure.
# Usage: check.sh [SUITE...]; with names, runs only these, one after the other, each built when its turn comes. Ends with "N
# passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
. test/lib/children.sh
make='make --no-print-directory'
jobs="-j$(nproc)"
# Suites wait more than they compute.
LANES=${LANES-$((2 * $(nproc)))}
# Several times the duration of the slowest suite on a loaded machine: a hung suite fails, and the others continue.
SUITE_SECONDS=${SUITE_SECONDS-1800}

# name | description | command. Nothing is built while a suite runs, since two makes would write the same files.
builds=$(cat <<END
build|the driver and what runs it; warnings are errors|$make $jobs check-programs WERROR=-Werror
build-clang|the driver by clang, warnings are errors|$make $jobs WERROR=-Werror CC=clang FLAVOUR=debug BUILD=build/clang
build-debug|the programs without sanitizers|$make $jobs check-programs FLAVOUR=debug
build-asan|the programs under AddressSanitizer and UBSan|$make $jobs check-programs FLAVOUR=asan
build-tsan|the programs under ThreadSanitizer|$make $jobs check-programs FLAVOUR=tsan
END
)
# The longest first, so that none of them is the last one running.
suites=$(cat <<END
unit-asan|unit tests, AddressSanitizer and UBSan|$make $jobs unit UNIT_JOBS=4 FLAVOUR=asan
unit-tsan|unit tests, ThreadSanitizer|$make $jobs unit UNIT_JOBS=4 FLAVOUR=tsan
troubleshooting|each row of docs/troubleshoot/by-symptom.md and error-texts.md|$make $jobs troubleshooting
e2e|kills, retries, many volumes|$make $jobs e2e
main|the program from outside|$make $jobs main-test
errors|error paths of create, attach, stage through the program|$make $jobs errors
controller-asan|the controller against snap-sim and its faults, AddressSanitizer and UBSan|$make $jobs controller-test FLAVOUR=asan
controller-tsan|the same, ThreadSanitizer|$make $jobs controller-test FLAVOUR=tsan
demo|the story of make demo, and its picture|$make demo-svg
monitoring|a real Prometheus on a driver under faults: alerts and dashboard|$make $jobs monitoring
api-faults|every fault of the API server, against test/reports/api-faults.md|$make $jobs api-faults FLAVOUR=debug
kubeclient-asan|the Kubernetes client over TLS and HTTP/2, AddressSanitizer and UBSan|$make $jobs kubeclient-test FLAVOUR=asan
kubeclient-tsan|the same, ThreadSanitizer|$make $jobs kubeclient-test FLAVOUR=tsan
rpc-asan|the RPC server on a socket, AddressSanitizer and UBSan|$make $jobs rpc-test FLAVOUR=asan
rpc-tsan|the same, ThreadSanitizer|$make $jobs rpc-test FLAVOUR=tsan
rpc|the same, without sanitizers|$make $jobs rpc-test
orders|the calls of Nomad and of Mesos, in their order|$make $jobs orders-test
lint|what can be said without running|$make lint
unit-memory|unit tests that measure the heap, without sanitizers|$make $jobs unit-memory FLAVOUR=debug
sim|snap-sim itself|$make $jobs sim-test FLAVOUR=asan
gate|the gate of --controlled-mode, against a client of grpcio|$make $jobs gate-test
sanity|csi-sanity, mount and block|$make $jobs sanity
wire|csi.proto against the official file, secrets in no log|$make $jobs wire-test
inspect|what inspect says of prepared incidents, AddressSanitizer and UBSan|$make $jobs inspect-test FLAVOUR=asan
plugin|kubectl snapcsi, against a kubectl that plays a cluster|$make plugin-test
release|a release is made twice the same, in two clones|$make release-test
END
)

log_dir=build/check
rm -rf "$log_dir"
mkdir -p "$log_dir"
failures=$log_dir/failures
: >"$failures"
passed=0 failed=0 begin=$EPOCHREALTIME
seconds() { awk "BEGIN {printf \"%.0f\", $EPOCHREALTIME - $1}"; }

report() { # name, description, the command's exit code, when it began
	local log="$log_dir/$1.log" rc=$3 good bad line cpu
	printf '%-15s %s ... ' "$1" "$2"
	line=$(grep -E '(^|: )[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
	good=$(sed -nE 's/.*(^|[^0-9])([0-9]+) passed.*/\2/p' <<<"$line")
	bad=$(sed -nE 's/.*[^0-9]([0-9]+) failed.*/\1/p' <<<"$line")
	if [ -z "$line" ] && grep -q 'Error 77$' "$log"; then
		# It cannot run here, and names what is missing.
		printf 'skipped\n%s\n' "$(grep -v '^make' "$log" | sed 's/^/    SKIP: /')"
		return 0
	fi
	if [ -z "$line" ]; then
		good=$((rc == 0)) bad=$((rc != 0))
	elif [ "$rc" -ne 0 ] && [ "$bad" -eq 0 ]; then
		bad=1
	fi
	passed=$((passed + good)) failed=$((failed + bad))
	read -r cpu <"$log_dir/$1.cpu"
	printf '%d passed, %d failed (%s s, CPU %s s)\n' "$good" "$bad" "$(seconds "$4")" "$cpu"
	grep -hE '^SKIP' "$log" | sort -u | sed 's/^/    /'
	if [ "$bad" -ne 0 ]; then
		echo "--- what failed in $log:"
		test/lib/failures.sh "$log"
		echo "--- its end:"
		tail -n 60 "$log"
		echo "---"
		{
			printf '    %s: %s\n' "$1" "$log"
			test/lib/failures.sh "$log" | sed 's/^/    /'
		} >>"$failures"
	fi
}

# Runs a suite as the leader of a session, so that nothing of it is left after a signal.
declare -A names=() whats=() starts=() # by process
start() { # name, description, command
	local words pid
	read -ra words <<<"$3"
	# shellcheck disable=SC2016 # for the inner shell
	setsid bash -c 'TIMEFORMAT="%U + %S"; { time test/lib/run-limited.sh "${@:2}" >"$1.log" 2>&1 </dev/null; } 2>"$1.cpu"' suite "$log_dir/$1" "$SUITE_SECONDS" "${words[@]}" &
	pid=$!
	names[$pid]=$1 whats[$pid]=$2 starts[$pid]=$EPOCHREALTIME
}
trap 'child_end_groups "${!names[@]}"; exit 130' INT TERM

# Waits until at most so many suites run.
finish() { # NUMBER
	local pid rc
	while [ "${#names[@]}" -gt "$1" ]; do
		wait -n -p pid
		rc=$?
		report "${names[$pid]}" "${whats[$pid]}" "$rc" "${starts[$pid]}"
		unset "names[$pid]" "whats[$pid]" "starts[$pid]"
	done
}

run() { # suites, how many at a time
	local name what command
	while IFS='|' read -r name what command; do
		if [ $# -eq 2 ] || [[ " ${*:3} " == *" $name "* ]]; then
			finish $(($2 - 1))
			start "$name" "$what" "$command"
		fi
	done <<<"$1"
	finish 0
}

if [ $# -gt 0 ]; then
	run "$builds
$suites" 1 "$@"
else
	run "$builds" 1
	run "$suites" "$LANES"
fi
if [ -s "$failures" ]; then
	echo 'failed:'
	cat "$failures"
fi
echo "check took $(seconds "$begin") s"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
