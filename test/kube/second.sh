# shellcheck shell=bash
# shellcheck disable=SC2015,SC2154 # as in cluster.sh, whose variables these are
# The second node of cluster.sh: containerd and kubelet with their own folders, addresses and cgroup, and the driver's node as
# a process, even if the first node's is a pod. It does not have DPF's label, so that the DaemonSet ignores it. SECOND_TAINTS:
# a list of taints (YAML) with which kubelet creates its Node; SECOND_LATE=1: the driver is not started.
SECOND_ADDRESS=198.51.100.2
SECOND_HOME=$DIR/$SECOND
SECOND_KUBELET=$SECOND_HOME/kubelet
SECOND_SOCKET=$SECOND_KUBELET/plugins/$DRIVER_NAME/csi.sock

start_driver2() {
	run driver2 env "$(tags_of "$SECOND")" "$OUT/snap-csi-plugin" --mode=node --name="$DRIVER_NAME" --bind-address="unix://$SECOND_SOCKET" \
		--node-id="$SECOND" --sysfs-root="$DIR/sim/$SECOND/sys" --dev-root="$DIR/sim/$SECOND/dev" --node-nvme-load-driver=false \
		--kubelet-registration-path="$SECOND_SOCKET" --plugin-registration-path="$SECOND_KUBELET/plugins_registry" --v=2 \
		--kubelet-dir="$SECOND_KUBELET" "${virtiofs[@]}" ${DRIVER_ARGUMENT:+"$DRIVER_ARGUMENT"}
}

start_kubelet2() { kubelet kubelet2 "$SECOND_HOME" "$SECOND" "$SECOND_ADDRESS" "$SECOND_KUBELET"; }

# The DPUNode and its DPU.
second_dpu() {
	printf '%s\n' 'apiVersion: provisioning.dpu.nvidia.com/v1alpha1' 'kind: DPUNode' "metadata: {name: $SECOND, namespace: $NAMESPACE}" --- \
		'apiVersion: provisioning.dpu.nvidia.com/v1alpha1' 'kind: DPU' \
		"metadata: {name: $SECOND-0000-26-00, namespace: $NAMESPACE, labels: {provisioning.dpu.nvidia.com/dpunode-name: $SECOND}}" \
		"spec: {dpuNodeName: $SECOND, dpuDeviceName: '0000-26-00', serialNumber: MT2329, bfb: bf-bundle, dpuFlavor: flavor," \
		"       cluster: {name: dpu-cplane-tenant1, namespace: $NAMESPACE}}"
}

second_registered() {
	kubectl get csinode "$SECOND" -o 'jsonpath={.spec.drivers[*].name}' | grep -qw "$DRIVER_NAME"
}

second_up() {
	mkdir -p "$SECOND_KUBELET/plugins_registry" "$(dirname "$SECOND_SOCKET")"
	mount --bind "$SECOND_KUBELET" "$SECOND_KUBELET" && mount --make-rshared "$SECOND_KUBELET" || die 'cannot mount'
	ip -n "$NETNS" addr add "$SECOND_ADDRESS/32" dev lo || die "cannot add the address of $SECOND"
	make_cgroups "$CGROUP/$SECOND"
	configure_node "$SECOND_HOME" "$SECOND" "$SECOND_ADDRESS" 10.244.1.0/24 "$SECOND_KUBELET" "$CGROUP/$SECOND"
	run containerd2 containerd --config "$SECOND_HOME/containerd.toml"
	import_images containerd2 "$SECOND_HOME"
	second_dpu | kubectl apply -f - >/dev/null || die "the DPUNode or DPU of $SECOND is refused"
	[ -z "${SECOND_TAINTS:-}" ] || echo "registerWithTaints: $SECOND_TAINTS" >>"$SECOND_HOME/kubelet.yaml"
	start_kubelet2
	[ -n "${SECOND_LATE:-}" ] || start_driver2
	wait_for 60 kubelet2 node_ready "$SECOND"
	[ -n "${SECOND_LATE:-}" ] || wait_for 30 driver2 second_registered
}

# Its pods are gone already, or end with it.
second_down() {
	local at
	stop kubelet2
	stop driver2
	kill_pods "$CGROUP/$SECOND"
	stop containerd2
	kill_shims "$SECOND_HOME"
	while read -r at; do
		umount -l "$at"
	done < <(awk -v at="$SECOND_HOME/" 'index($5, at) == 1 {print $5}' /proc/self/mountinfo | tac)
	ip -n "$NETNS" addr del "$SECOND_ADDRESS/32" dev lo
	second_dpu | kubectl delete -f - >/dev/null
	kubectl delete node "$SECOND" >/dev/null
	rm -rf --one-file-system "$SECOND_HOME"
}
