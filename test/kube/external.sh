#!/usr/bin/env bash
# Kubernetes' own storage suite (k8s.io/kubernetes/test/e2e, "External Storage") against the driver, as
# test/kube/testdriver.yaml (disks) and testdriver-virtiofs.yaml describe it, in a cluster of its own. Closing line:
# e2e-external: N passed, N failed, N skipped.
#
# The suite reads /var/lib/kubelet, and the host through process 1. So the cluster gets its own PID and mount namespaces,
# where process 1 is this script and /var/lib is empty; the machine's own /var/lib is not touched.
#
# Environment: BUILD, FLAVOUR, CLUSTER_NAME, CLUSTER_DIR, CLUSTER_VFS and CLUSTER_SLOTS (8) as for cluster.sh; E2E_FOCUS, a
# regular expression of specs ("Driver: virtiofs" for those); E2E_FOCUS_FILE, a file with one on each line (# begins a
# comment); E2E_PROCS, specs at a time (3);
# E2E_REPORT, where the report is left (BUILD/kube/external). The cluster ends with process 1, it cannot be kept.
set -u
cd "$(dirname "$0")/../.." || exit 1
. test/lib/children.sh
export BUILD
BUILD=$(realpath -m "${BUILD:-build}")
export KUBE_BIN=${KUBE_BIN:-$BUILD/kube/bin}
export CLUSTER_NAME=${CLUSTER_NAME:-snap-csi-external}
export CLUSTER_STATUS_UPDATE=${CLUSTER_STATUS_UPDATE-2s}
export CLUSTER_DIR=${CLUSTER_DIR:-/var/tmp/$CLUSTER_NAME}
report=$(realpath -m "${E2E_REPORT:-$BUILD/kube/external}")

suite= # its process id, while it runs
inside() {
	local status
	mount -t tmpfs -o mode=755 tmpfs /var/lib && mkdir /var/lib/kubelet || exit 1
	export CLUSTER_KUBELET_DIR=/var/lib/kubelet CLUSTER_VFS=${CLUSTER_VFS:-8} CLUSTER_SLOTS=${CLUSTER_SLOTS:-8}
	# The spec of the limit fills the node with volumes on VFs.
	export DRIVER_ARGUMENT=--max-volumes-per-node=$CLUSTER_VFS
	trap finish EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	test/kube/cluster.sh up >"$report/up.log" 2>&1 || { cat "$report/up.log"; exit 1; }
	mkdir "$CLUSTER_DIR/images" && python3 test/kube/external_images.py "$CLUSTER_DIR/images" "$KUBE_BIN" || exit 1
	# For the specs about two nodes. All others look for their volumes where the first one's kubelet has them, so pods go to
	# the second only when a spec says so.
	test/kube/cluster.sh second up >>"$report/up.log" 2>&1 || { cat "$report/up.log"; exit 1; }
	test/kube/cluster.sh kubectl taint node n2 test=second:PreferNoSchedule >/dev/null || exit 1
	for image in "$CLUSTER_DIR"/images/*.tar; do
		for socket in "$CLUSTER_DIR/run/containerd.sock" "$CLUSTER_DIR/n2/run/containerd.sock"; do
			ctr -a "$socket" -n k8s.io images import "$image" >/dev/null || exit 1
		done
	done
	rm -r "$CLUSTER_DIR/images"
	focus=${E2E_FOCUS:-.}
	[ -z "${E2E_FOCUS_FILE:-}" ] || focus=$(sed 's/[[:space:]]*#.*//; /^$/d' "$E2E_FOCUS_FILE" | paste -sd'|')
	nsenter --net="/run/netns/$CLUSTER_NAME" "$KUBE_BIN/ginkgo" run --no-color --timeout=6h \
		--procs="${E2E_PROCS:-3}" --focus="External.Storage.*($focus)" --skip="$(skips)" \
		--output-dir="$report" --junit-report=junit.xml --silence-skips "$KUBE_BIN/e2e.test" -- \
		--kubeconfig="$CLUSTER_DIR/admin.kubeconfig" --kubectl-path="$KUBE_BIN/kubectl" --provider=local \
		--node-os-distro=debian --repo-root="$PWD" --storage.testdriver="$PWD/test/kube/testdriver.yaml" \
		--storage.testdriver="$PWD/test/kube/testdriver-virtiofs.yaml" \
		--disable-log-dump >"$report/suite.log" 2>&1 </dev/null &
	suite=$!
	# In the background: bash handles a signal only after a foreground command has ended.
	wait "$suite"
	status=$?
	suite=
	return "$status"
}

# Reasons are in the file; only its patterns go to ginkgo.
skips() { sed 's/[[:space:]]*#.*//; /^$/d' test/kube/external-skip.txt | paste -sd'|'; }

# shellcheck disable=SC2317 # called by trap
finish() {
	local status=$?
	trap - EXIT
	trap '' INT TERM HUP
	[ -z "$suite" ] || child_signal TERM "$suite"
	cp "$CLUSTER_DIR"/log/*.log "$report/" 2>/dev/null
	test/kube/cluster.sh down
	exit "$status"
}

if [ "${1:-}" = inside ]; then
	inside
	exit
fi
mkdir -p "$report" && rm -f "$report"/*.log "$report/junit.xml"
unshare --mount --pid --fork --mount-proc --kill-child "$0" inside &
unshare=$!
# unshare ignores the signal; the script inside handles it.
trap 'kill -TERM $(cat "/proc/$unshare/task/$unshare/children")' INT TERM HUP
until wait "$unshare"; status=$?; [ ! -e "/proc/$unshare" ]; do :; done
if [ ! -s "$report/junit.xml" ]; then
	tail -n 30 "$report/suite.log" 2>/dev/null
	echo 'e2e-external: 0 passed, 1 failed, 0 skipped'
	exit 1
fi
python3 test/kube/external_table.py "$report/junit.xml" >"$report/table.md"
[ -z "${E2E_FOCUS_FILE:-}" ] || python3 test/kube/external_focus.py "$report/junit.xml" "$E2E_FOCUS_FILE" || status=1
tail -n 1 "$report/table.md" | sed 's/^/e2e-external: /'
exit "$status"
