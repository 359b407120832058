#!/usr/bin/env bash
# The scenarios of e2e.py in a cluster of their own, which is taken down at the end, whatever happens.
# E2E_PODS=1 runs driver and sidecars as the pods of manifests/ (after make image-test).
# E2E_REST=1 runs only the scenarios that make no sense in the other form (pods or processes).
# E2E_ONLY=WORDS runs only scenarios whose title has one of the words; KEEP_CLUSTER=1 leaves the cluster.
set -u
cd "$(dirname "$0")/../.." || exit 1
export PYTHONPATH=$PWD/test/lib/py
export CLUSTER_NAME=${CLUSTER_NAME:-snap-csi-cluster}
export CLUSTER_STATUS_UPDATE=${CLUSTER_STATUS_UPDATE-2s}
export CLUSTER_DIR=${CLUSTER_DIR:-/var/tmp/$CLUSTER_NAME}
logs=${BUILD:-build}/kube/logs/$CLUSTER_NAME
finish() {
	local status=$?
	trap - EXIT
	trap '' INT TERM HUP
	if [ "$status" -ne 0 ]; then
		mkdir -p "$logs" && cp "$CLUSTER_DIR"/log/*.log "$logs/" 2>/dev/null
		echo "logs are in $logs"
	fi
	[ -n "${KEEP_CLUSTER:-}" ] || test/kube/cluster.sh down
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
test/kube/cluster.sh up || { echo 'e2e-kube: 0 passed, 1 failed, 0 skipped'; exit 1; }
if [ -n "${E2E_PODS:-}" ] && ! test/kube/cluster.sh pods; then
	echo 'e2e-kube: 0 passed, 1 failed, 0 skipped'
	exit 1
fi
nsenter --net="/run/netns/$CLUSTER_NAME" python3 test/kube/e2e.py
