#!/usr/bin/env bash
# pod_start.py in a cluster of its own, once with kubelet's defaults and once with nodeStatusUpdateFrequency 1s and
# nodeStatusReportFrequency 5m; the cluster is taken down at the end, whatever happens. The tables are of test/reports/scale.md.
# Environment: CLUSTER_NAME, CLUSTER_DIR, KUBE_BIN as for cluster.sh; the variables of pod_start.py.
set -u
cd "$(dirname "$0")/../.." || exit 1
export PYTHONPATH=$PWD/test/lib/py
export CLUSTER_NAME=${CLUSTER_NAME:-snap-csi-pod-start}
export CLUSTER_DIR=${CLUSTER_DIR:-/var/tmp/$CLUSTER_NAME}
export CLUSTER_VFS=${CLUSTER_VFS:-128}
finish() {
	local status=$?
	trap - EXIT
	trap '' INT TERM HUP
	test/kube/cluster.sh down
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
measure() { # UPDATE REPORT TITLE
	export CLUSTER_STATUS_UPDATE=$1 CLUSTER_STATUS_REPORT=$2
	test/kube/cluster.sh up >/dev/null && test/kube/cluster.sh second up || return 1
	nsenter --net="/run/netns/$CLUSTER_NAME" python3 test/kube/pod_start.py "$3" || return 1
	test/kube/cluster.sh down
}
measure '' '' "kubelet's defaults (10 s)" && measure 1s 5m '1 s, report 5 m'
