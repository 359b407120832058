#!/usr/bin/env bash
# Our image in the Go plugin's deployment (swap/*.yaml), once for each of its two modes, in its own cluster; then swap.py, and
# handbook.py: the named commands of docs. Needs make image-test. KEEP_CLUSTER=1 keeps the cluster, SWAP_ONLY=handbook
# runs only that part.
set -u
cd "$(dirname "$0")/../.." || exit 1
export PYTHONPATH=$PWD/test/lib/py
export CLUSTER_NAME=${CLUSTER_NAME:-snap-csi-swap}
export CLUSTER_STATUS_UPDATE=${CLUSTER_STATUS_UPDATE-2s}
export CLUSTER_DIR=${CLUSTER_DIR:-/var/tmp/$CLUSTER_NAME}
BIN=${KUBE_BIN:-${BUILD:-build}/kube/bin}
KUBELET_DIR=$CLUSTER_DIR/kubelet
host=$CLUSTER_DIR/sim/n1
finish() {
	local status=$?
	trap - EXIT
	trap '' INT TERM HUP
	mkdir -p "${BUILD:-build}/kube/logs/swap" && cp "$CLUSTER_DIR"/log/* "${BUILD:-build}/kube/logs/swap/" 2>/dev/null
	[ "$status" -eq 0 ] || echo "logs are in ${BUILD:-build}/kube/logs/swap"
	[ -n "${KEEP_CLUSTER:-}" ] || test/kube/cluster.sh down
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
die() {
	echo "kube-swap: $*" >&2
	echo 'kube-swap: 0 passed, 1 failed'
	exit 1
}
kubectl() { test/kube/cluster.sh kubectl "$@"; }

# shellcheck source=test/kube/driver-images.sh
. test/kube/driver-images.sh

images() {
	local name
	driver_images "$CLUSTER_DIR" "$BIN/csi-provisioner" "$BIN/csi-attacher" "$BIN/peer" || return 1
	# A release after this one, for handbook.py.
	for name in snap-csi snap-csi-controller; do
		ctr -a "$CLUSTER_DIR/run/containerd.sock" -n k8s.io images tag "localhost/$name:test" "localhost/$name:test-new" >/dev/null || return 1
	done
}

test/kube/cluster.sh up || die 'no cluster'
images || die 'no images; run make image-test'
for what in attacher provisioner driver; do
	test/kube/cluster.sh stop "$what"
done
# Removes the objects of manifests/, so that only the Go plugin's objects exist.
kubectl kustomize manifests/base | python3 test/kube/only.py CSIDriver ServiceAccount Role RoleBinding ClusterRole ClusterRoleBinding |
	kubectl delete -f - >/dev/null || die 'manifests/base is not gone'
# The simulated host's /dev lacks it.
[ -e "$host/dev/null" ] || mknod -m 666 "$host/dev/null" c 1 3 || die 'no /dev/null'
# The Go plugin serves one kind of volume; users with both kinds install it twice, under two names.
deploy() { # RELEASE DRIVER MODE
	local what
	for what in csidriver rbac controller node; do
		sed "s#path: /var/lib/kubelet#path: $KUBELET_DIR#; s#mountPath: /var/lib/kubelet#mountPath: $KUBELET_DIR#; s#=/var/lib/kubelet#=$KUBELET_DIR#
			s#^\( *\)- --node-id=.*#&\n\1- --kubelet-dir=$KUBELET_DIR#; s#path: /sys,#path: $host/sys,#; s#path: /dev,#path: $host/dev,#; s#path: /lib/modules,#path: $host,#
			s#swap-snap-csi-plugin#$1-snap-csi-plugin#; s#instance: swap#instance: $1#; s#csi\.snap\.nvidia\.com#$2#; s#--emulation-mode=nvme#--emulation-mode=$3#" "test/kube/swap/$what.yaml" |
			with_tags "$3" "$what" >"$CLUSTER_DIR/part.yaml"
		{ echo ---; cat "$CLUSTER_DIR/part.yaml"; } >>"$CLUSTER_DIR/$1.yaml"
		kubectl apply -n dpf-operator-system -f "$CLUSTER_DIR/part.yaml" >/dev/null || die "swap/$what.yaml is refused"
	done
}

# The simulated host has its virtio-fs tags in a folder, and mount.snapsim in place of the kernel's filesystem.
with_tags() { # MODE WHAT
	[ "$1-$2" = virtiofs-node ] || { cat; return 0; }
	sed "s#--node-virtiofs-filesystem-type=virtiofs#--node-virtiofs-filesystem-type=snapsim#
		s#^\( *\)env:#&\n\1  - {name: SNAP_SIM_TAGS, value: /tags}#
		s#^\( *\)- {name: sys, mountPath: .*#&\n\1- {name: tags, mountPath: /tags, mountPropagation: HostToContainer}\n\1- {name: helper, mountPath: /usr/sbin/mount.snapsim}#
		s#^\( *\)- {name: sys, hostPath: .*#&\n\1- {name: tags, hostPath: {path: $host/tags, type: DirectoryOrCreate}}\n\1- {name: helper, hostPath: {path: $PWD/test/lib/share/mount.snapsim, type: File}}#"
}

deploy swap csi.snap.nvidia.com nvme
deploy share virtiofs.csi.snap.nvidia.com virtiofs
for release in swap share; do
	for what in "deployment/$release-snap-csi-plugin-controller" "daemonset/$release-snap-csi-plugin-node"; do
		kubectl rollout status -n dpf-operator-system "$what" --timeout=120s >/dev/null && continue
		kubectl get pods -n dpf-operator-system -o wide
		kubectl logs -n dpf-operator-system -l "app.kubernetes.io/instance=$release" -c plugin --prefix
		die "$what does not run"
	done
done
passed=0 failed=0
for suite in ${SWAP_ONLY:-swap handbook}; do
	nsenter --net="/run/netns/$CLUSTER_NAME" python3 "test/kube/$suite.py" | tee "$CLUSTER_DIR/log/$suite"
	read -r good bad < <(sed -nE 's/^.*: ([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$CLUSTER_DIR/log/$suite" | tail -n 1; echo 0 1)
	passed=$((passed + good)) failed=$((failed + bad))
done
echo "kube-swap: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
