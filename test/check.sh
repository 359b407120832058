#!/usr/bin/env bash
# Runs the suites one after the other, some two at a time, each with its log in build/check/, and adds up their closing lines
# ("TITLE: N passed, N failed"; a suite without such a line counts as one). Goes on after a failure.
# Usage: check.sh [SUITE...]; without names all of them. Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
make='make --no-print-directory'
jobs="-j$(nproc)"

# name | description | command. With & behind its name a suite runs beside the next one: both wait more than they work.
suites=$(cat <<END
build-gcc|the driver by gcc, warnings are errors|$make $jobs WERROR=-Werror BUILD=build/strict
build-clang|the driver by clang, warnings are errors|$make $jobs WERROR=-Werror CC=clang FLAVOUR=debug BUILD=build/clang
build|the driver, snap-sim and csi-call|$make $jobs all sim tools
unit-memory&|unit tests that measure the heap, without sanitizers|$make $jobs unit-memory FLAVOUR=debug
unit-asan|unit tests, AddressSanitizer and UBSan|$make $jobs unit FLAVOUR=asan
unit-tsan|unit tests, ThreadSanitizer|$make $jobs unit FLAVOUR=tsan
rpc|the RPC server on a socket|$make $jobs rpc-test
rpc-asan&|the same, AddressSanitizer and UBSan|$make $jobs rpc-test FLAVOUR=asan
rpc-tsan|the same, ThreadSanitizer|$make $jobs rpc-test FLAVOUR=tsan
wire|csi.proto against the official file, secrets in no log|$make $jobs wire-test
kubeclient-asan&|the Kubernetes client over TLS and HTTP/2, AddressSanitizer and UBSan|$make $jobs kubeclient-test FLAVOUR=asan
kubeclient-tsan|the same, ThreadSanitizer|$make $jobs kubeclient-test FLAVOUR=tsan
controller-asan&|the controller against snap-sim and its faults, AddressSanitizer and UBSan|$make $jobs controller-test FLAVOUR=asan
controller-tsan|the same, ThreadSanitizer|$make $jobs controller-test FLAVOUR=tsan
api-faults|every fault of the API server, against docs/api-faults.md|$make $jobs api-faults FLAVOUR=debug
inspect|what inspect says of prepared incidents, AddressSanitizer and UBSan|$make $jobs inspect-test FLAVOUR=asan
sim|snap-sim itself|$make $jobs sim-test FLAVOUR=asan
main|the program from outside|$make $jobs main-test
sanity|csi-sanity, mount and block|$make $jobs sanity
e2e|kills, retries, many volumes|$make $jobs e2e
gate|the gate of --controlled-mode, against a client of grpcio|$make $jobs gate-test
orders&|the calls of Nomad and of Mesos, in their order|$make $jobs orders-test
errors|every error path of create, attach, stage|$make $jobs errors
monitoring|a real Prometheus on a driver under faults: alerts and dashboard|$make $jobs monitoring
demo|the story of make demo, and its picture|$make demo-svg
troubleshooting|each row of docs/troubleshooting.md|$make $jobs troubleshooting
release|a release is made twice the same, in two clones|$make release-test
lint|what can be said without running|$make lint
END
)

log_dir=build/check
mkdir -p "$log_dir"
failures=$log_dir/failures
: >"$failures"
passed=0 failed=0 begin=$EPOCHREALTIME
seconds() { awk "BEGIN {printf \"%.0f\", $EPOCHREALTIME - $1}"; }

report() { # name, the command's exit code, when it began
	local log="$log_dir/$1.log" rc=$2 good bad line
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
	printf '%d passed, %d failed (%s s)\n' "$good" "$bad" "$(seconds "$3")"
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

# The suite that runs beside another one: its process leads a session, so that nothing of it is left after a signal.
beside='' beside_what='' beside_start='' suite=''
trap '[ -z "$beside" ] || kill -- "-$suite"; exit 130' INT TERM

end_beside() {
	if [ -n "$beside" ]; then
		printf '%-15s %s ... ' "$beside" "$beside_what"
		wait "$suite"
		report "$beside" $? "$beside_start"
		beside=''
	fi
}

while IFS='|' read -r name what command; do
	if [ $# -gt 0 ] && [[ " $* " != *" ${name%&} "* ]]; then
		continue
	fi
	read -ra words <<<"$command"
	if [[ $name == *'&' ]]; then
		end_beside
		beside=${name%&} beside_what=$what beside_start=$EPOCHREALTIME
		setsid "${words[@]}" >"$log_dir/$beside.log" 2>&1 </dev/null &
		suite=$!
		continue
	fi
	start=$EPOCHREALTIME
	printf '%-15s %s ... ' "$name" "$what"
	"${words[@]}" >"$log_dir/$name.log" 2>&1 </dev/null
	report "$name" $? "$start"
	end_beside
done <<<"$suites"
end_beside
if [ -s "$failures" ]; then
	echo 'failed:'
	cat "$failures"
fi
echo "check took $(seconds "$begin") s"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
