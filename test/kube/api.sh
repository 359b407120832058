#!/usr/bin/env bash
# api.sh [bench|chart]: the rows of api.py, and the cases of test/sim/cases.json, or the tables of bench.py, or the rows of
# chart.py, against a real kube-apiserver and etcd; no kubelet, no pods.
# Uses its own network, PID and mount namespaces, so that no process outlives it, however it ends. Needs root.
# API_ONLY="token 429" runs only rows with one of the words; the word cases selects all of cases.json.
set -u
cd "$(dirname "$0")/../.." || exit 1
. test/lib/children.sh
export PYTHONPATH=$PWD/test/lib/py
[ "$(id -u)" -eq 0 ] || {
	echo 'kube-api: needs root, for a network namespace' >&2
	exit 1
}
program=${1:-api}
DIR=$(mktemp -d "/var/tmp/${CLUSTER_NAME:-snap-csi}-api-XXXXXX")
finish() {
	local status=$?
	trap '' EXIT INT TERM HUP
	[ -z "${child:-}" ] || child_signal KILL "$child"
	mkdir -p "${BUILD:-build}/kube/logs/$program" && cp "$DIR"/*.log "${BUILD:-build}/kube/logs/$program/" 2>/dev/null
	[ "$status" -eq 0 ] || echo "logs are in ${BUILD:-build}/kube/logs/$program"
	rm -rf --one-file-system "$DIR"
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
unshare --net --mount --pid --mount-proc --fork --kill-child=KILL python3 "test/kube/$program.py" "$DIR" &
child=$!
wait "$child"
