#!/usr/bin/env bash
# Runs the suites of another machine's build in QEMU's user mode. Usage: run.sh NAME DEBUG RELEASE PROGRAM...
# DEBUG and RELEASE are folders of a build; of the programs, those of test/unit and of test/rpc are run, and test/main with
# the driver of RELEASE. skip.txt names tests that cannot run this way; at the end they are tried, and those that pass are
# reported. Ends with "NAME: N passed, N failed".
#
# The tests run without root, so those that need mounts or loop devices skip themselves; with CROSS_ROOT=1 they run, too,
# which takes a quarter of an hour. It uses its own namespaces: other processes do not see the tests' mounts, and no process
# outlives this script.
set -u
cd "$(dirname "$0")/../.." || exit 1
name=$1 debug=$2 release=$3
if [ "$(id -u)" -eq 0 ] && [ -z "${OWN_NAMESPACES-}" ]; then
	as=(unshare --user --map-user=65534 --map-group=65534)
	[ -z "${CROSS_ROOT-}" ] || as=()
	OWN_NAMESPACES=1 exec unshare --mount --propagation private --pid --fork --kill-child --mount-proc \
		bash -c 'mount --make-rshared / && exec "$@"' bash "${as[@]}" "$0" "$@"
fi
shift 3
all=("$@")
list=test/cross/skip.txt
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
trap 'exit 130' INT TERM
# Translated code runs at a tenth of the speed, next to other suites.
export CK_TIMEOUT_MULTIPLIER=10 SKIP_LIST=$list
passed=0 failed=0

of() { printf '%s\n' "${all[@]}" | grep -F "$debug/test/$1/"; }
# Counts of a log's last line, into good and bad; a suite that has not come to it is one failure.
counts() { # log
	local line
	line=$(grep -aE '(^|: )[0-9]+ passed, [0-9]+ failed$' "$1" | tail -n 1)
	read -r good bad <<<"$(sed -nE 's/(^|.*: )([0-9]+) passed, ([0-9]+) failed$/\2 \3/p' <<<"$line")"
	good=${good:-0} bad=${bad:-1}
}
show() { tee "$1" | grep --line-buffered -avE '^(ok|SKIP)'; }
suite() { # log, command...
	local to=$log/$1
	shift
	"$@" 2>&1 | show "$to"
	counts "$to"
	passed=$((passed + good)) failed=$((failed + bad))
}
# Runs programs; a failed one is run again, without others beside it: time limits are those of a real processor, and a fault
# of the driver on this architecture fails again.
programs() { # log, title, jobs, program...
	local to=$log/$1 title=$2 jobs=$3 before first
	shift 3
	before=$failed
	RUN_JOBS=$jobs suite "${to##*/}" test/lib/run-suites.sh "$title" "$@"
	mapfile -t once_more < <(sed -nE 's/^FAIL ([^ ]+) \(exit.*/\1/p' "$to")
	first=$((failed - before))
	if [ "$first" -eq 0 ] || [ ${#once_more[@]} -eq 0 ]; then
		return 0
	fi
	echo "$title: ${#once_more[@]} programs once more, one at a time"
	test/lib/run-suites.sh "$title, again" "${once_more[@]}" 2>&1 | show "$to.again"
	counts "$to.again"
	passed=$((passed + first - bad)) failed=$((before + bad))
}

mapfile -t unit < <(of unit)
mapfile -t rpc < <(of rpc | grep '/test_')
programs unit "unit $name" 4 "${unit[@]}"
export STUB_SERVER=$debug/test/rpc/stub_server
CK_FORK=no programs rpc "rpc $name" 1 "${rpc[@]}"
DRIVER=$release/run/snap-csi-plugin DRIVER_ELF=$release/snap-csi-plugin CSI_CALL=$release/csi-call suite main test/main/main.sh

# Runs each skipped test separately, except those that fail by chance because of a slow processor or QEMU. A test that passes
# is not a failure: whether it can pass also depends on the kernel and on QEMU.
again() { # program, test
	local program=$debug/test/$1 ck_fork=yes to=$log/again.$BASHPID
	[ -x "$program" ] || return 0
	[[ $1 != rpc/* ]] || ck_fork=no
	CK_FORK=$ck_fork CK_TIMEOUT_MULTIPLIER=1 SKIP_LIST='' CK_RUN_CASE=$2 \
		timeout --kill-after=5 60 "$program" >"$to" 2>&1 &&
		! grep -q '^SKIP' "$to" && echo "passes by now, its line in $list can go: $1: $2"
}
while IFS= read -r line; do
	while [ "$(jobs -rp | wc -l)" -ge 4 ]; do
		wait -n
	done
	again "${line%%: *}" "${line#*: }" &
done < <(grep -vE 'bound in time|by chance' "$list" >"$log/list"; test/cross/skipped.sh "$log/list" | sed 's/#.*//' | sort -u)
wait
skipped=$(test/cross/skipped.sh "$list" | wc -l)
echo "$skipped tests are skipped by name, for $(sed -nE 's/.* \| //p' "$list" | sort -u | wc -l) reasons: $list"
echo "$name: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
