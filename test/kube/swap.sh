#!/usr/bin/env bash
# Our image in the Go plugin's deployment (swap/*.yaml), in a cluster of its own; then swap.py. Needs make image-test.
# KEEP_CLUSTER=1 leaves the cluster.
set -u
cd "$(dirname "$0")/../.." || exit 1
export PYTHONPATH=$PWD/test/lib/py
export CLUSTER_NAME=${CLUSTER_NAME:-snap-csi-swap}
export CLUSTER_DIR=${CLUSTER_DIR:-/var/tmp/$CLUSTER_NAME}
BIN=${BUILD:-build}/kube/bin
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

images() {
	local container what
	export CONTAINERS_STORAGE_CONF=$PWD/build/image/storage.conf BUILDAH_ISOLATION=chroot
	container=$(buildah from --pull-never localhost/snap-csi:test) || return 1
	buildah copy -q "$container" "$BIN/csi-provisioner" "$BIN/csi-attacher" "$BIN/peer" / >/dev/null &&
		buildah config --entrypoint '[]' "$container" && buildah commit -q "$container" localhost/sidecars:test >/dev/null || return 1
	buildah rm "$container" >/dev/null
	for what in snap-csi sidecars; do
		buildah push -q "localhost/$what:test" "docker-archive:$CLUSTER_DIR/$what.tar:localhost/$what:test" &&
			ctr -a "$CLUSTER_DIR/run/containerd.sock" -n k8s.io images import "$CLUSTER_DIR/$what.tar" >/dev/null || return 1
	done
}

test/kube/cluster.sh up || die 'no cluster'
images || die 'no image; run make image-test'
for what in attacher provisioner driver; do
	test/kube/cluster.sh stop "$what"
done
# Removes the objects of manifests/, so that only the Go plugin's objects are there.
kubectl kustomize manifests/base | python3 test/kube/only.py CSIDriver ServiceAccount Role RoleBinding ClusterRole ClusterRoleBinding |
	kubectl delete -f - >/dev/null || die 'manifests/base is not gone'
# The simulated host's /dev lacks it.
[ -e "$host/dev/null" ] || mknod -m 666 "$host/dev/null" c 1 3 || die 'no /dev/null'
for what in csidriver rbac controller node; do
	sed "s#path: /var/lib/kubelet#path: $KUBELET_DIR#; s#mountPath: /var/lib/kubelet#mountPath: $KUBELET_DIR#; s#=/var/lib/kubelet#=$KUBELET_DIR#
		s#^\( *\)- --node-id=.*#&\n\1- --kubelet-dir=$KUBELET_DIR#; s#path: /sys,#path: $host/sys,#; s#path: /dev,#path: $host/dev,#; s#path: /lib/modules,#path: $host,#" "test/kube/swap/$what.yaml" |
		kubectl apply -n dpf-operator-system -f - >/dev/null || die "swap/$what.yaml is refused"
done
for what in deployment/swap-snap-csi-plugin-controller daemonset/swap-snap-csi-plugin-node; do
	kubectl rollout status -n dpf-operator-system "$what" --timeout=120s >/dev/null && continue
	kubectl get pods -n dpf-operator-system -o wide
	kubectl logs -n dpf-operator-system "$what" -c snap-csi-plugin
	die "$what does not run"
done
nsenter --net="/run/netns/$CLUSTER_NAME" python3 test/kube/swap.py
