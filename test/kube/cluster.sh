#!/usr/bin/env bash
# A one-node Kubernetes on this machine: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, containerd and
# kubelet, with snap-sim as DPF and DPU, the driver and its sidecars. All of it in one network namespace and one folder.
#
#   cluster.sh up        starts it (after taking down what an earlier run left); ends when the node is Ready
#   cluster.sh driver    starts (again) driver, csi-provisioner and csi-attacher as processes beside kubelet
#   cluster.sh pods      the same as pods of manifests/ with the image of make image-test, in place of the processes
#   cluster.sh reboot    ends every pod, mount, kubelet and the driver at once (halt), and starts them again (boot)
#   cluster.sh second up|down    another node, n2, with a DPU and with the driver's node as a process
#   cluster.sh check     exit 0 when every process runs and the node is Ready
#   cluster.sh stop NAME [SIGNAL] | start NAME   one process: kubelet, driver, provisioner, attacher, sim, apiserver, ...
#   cluster.sh pods-away | pods-again   takes the driver's pods and all of manifests/ away, and brings them back
#   cluster.sh ensure NAME       starts it if it does not run
#   cluster.sh down      ends every process that was started, unmounts, removes the folder and the namespace
#
# Environment: BUILD, FLAVOUR as in make; CLUSTER_NAME (snap-csi-cluster), by which network namespace and cgroup go, so
# that clusters can stand side by side; CLUSTER_DIR, the folder (/var/tmp/<name>); CLUSTER_VFS and CLUSTER_SLOTS, the VFs
# and the hot-plug slots of the DPU (4 and 2);
# KUBE_BIN, the folder of Kubernetes' programs (build/kube/bin); those of 1.37 get the feature gate CSIVolumeHealth;
# CLUSTER_STATUS_UPDATE and CLUSTER_STATUS_REPORT, kubelet's nodeStatusUpdateFrequency and nodeStatusReportFrequency
# (kubelet's own defaults, as on a user's node; the suites set the first to 2s, which saves them four seconds a pod);
# CLUSTER_HEALTH_PERIOD, how often kubelet asks for the health and the statistics of volumes (5s; kubelet's default is 1m);
# CLUSTER_KUBELET_DIR, kubelet's folder when it is not below CLUSTER_DIR (only in a mount namespace of one's own:
# external.sh). Needs root.
# A process is ended only when its id and its start time are those that were noted when it was started, or when it is
# in the cluster's own cgroup (pods).
# shellcheck disable=SC2015 # in `a && b || die` only a failure goes to die
set -u
cd "$(dirname "$0")/../.." || exit 1
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
here=$PWD/test/kube
BUILD=$(realpath -m "${BUILD:-build}")
OUT=$BUILD/${FLAVOUR:-release}
BIN=${KUBE_BIN:-$BUILD/kube/bin}
NETNS=${CLUSTER_NAME:-snap-csi-cluster}
CGROUP=$NETNS
DIR=${CLUSTER_DIR:-/var/tmp/$NETNS}
NODE=n1
ADDRESS=198.51.100.1
SECOND=n2
NAMESPACE=dpf-operator-system
DRIVER_NAME=csi.snap.nvidia.com
ADMIN=$DIR/admin.kubeconfig
KUBELET_DIR=${CLUSTER_KUBELET_DIR:-$DIR/kubelet}
PLUGIN_DIR=$KUBELET_DIR/plugins/$DRIVER_NAME
CSI_SOCKET=$PLUGIN_DIR/csi.sock

say() { printf '%6.1f s  %s\n' "$(awk "BEGIN {print $EPOCHREALTIME - $began}")" "$*"; }
die() {
	printf 'cluster: %s\n' "$*" >&2
	exit 1
}

# The minor version of the programs: 36.
kube_minor() { "$BIN/kube-apiserver" --version | sed -n 's/.* v1\.\([0-9]*\)\..*/\1/p'; }

# VolumeLimitScaling is for preventPodSchedulingIfMissing of the CSIDriver object.
gates() {
	local gates=VolumeLimitScaling=true
	[ "$(kube_minor)" -lt 37 ] || gates+=,CSIVolumeHealth=true
	echo "$gates"
}

# nsenter and not `ip netns exec`, which makes a mount namespace too, so that driver, kubelet and pods would not see each
# other's mounts.
net() { nsenter --net="/run/netns/$NETNS" "$@"; }
kubectl() { net "$BIN/kubectl" --kubeconfig="$ADMIN" "$@"; }

# ---------------------------------------------------------------- processes
start_time() { # PID: the clock tick at which it was started; the name in field 2 may have blanks
	local stat
	stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
	stat=${stat##*) }
	# shellcheck disable=SC2086 # fields
	set -- $stat
	[ "$1" != Z ] && echo "${20}"
}

alive() { # NAME
	local pid began_at
	read -r pid began_at 2>/dev/null <"$DIR/run/$1.pid" || return 1
	[ "$(start_time "$pid")" = "$began_at" ]
}

run() { # NAME COMMAND...
	local name=$1 pid
	shift
	nsenter --net="/run/netns/$NETNS" setsid "$@" </dev/null >>"$DIR/log/$name.log" 2>&1 &
	pid=$!
	echo "$pid $(start_time "$pid")" >"$DIR/run/$name.pid"
}

# The same for a process that ends when its driver does; restarts it then, as kubelet restarts containers.
run_again() {
	local name=$1
	shift
	# shellcheck disable=SC2016 # for the inner shell
	run "$name" bash -c 'while :; do "$@"; sleep 0.5; done' loop "$@"
}

stop() { # NAME [SIGNAL [SECONDS until SIGKILL]]
	local pid end=$((SECONDS + ${3:-10}))
	alive "$1" || return 0
	read -r pid _ <"$DIR/run/$1.pid"
	# With its group, of which it is the leader (setsid): a loop goes with its child.
	kill -s "${2:-TERM}" -- "-$pid" 2>/dev/null
	while alive "$1"; do
		[ "$SECONDS" -lt "$end" ] || kill -s KILL -- "-$pid" 2>/dev/null
		sleep 0.05
	done
	rm -f "$DIR/run/$1.pid"
}

wait_for() { # SECONDS PROCESS COMMAND...: until the command succeeds
	local end=$((SECONDS + $1)) process=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		alive "$process" || { tail -n 15 "$DIR/log/$process.log" >&2; die "$process has ended"; }
		[ "$SECONDS" -lt "$end" ] || { tail -n 15 "$DIR/log/$process.log" >&2; die "timeout: $*"; }
		sleep 0.1
	done
}

# ---------------------------------------------------------------- certificates and configuration
certificate() { # NAME SUBJECT ALTERNATIVE-NAMES
	openssl req -newkey rsa:2048 -nodes -keyout "$1.key" -subj "$2" -out "$1.csr" 2>/dev/null &&
		openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out "$1.crt" -extfile \
			<(printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth' "$3") 2>/dev/null ||
		die "openssl could not make the certificate of $1"
}

kubeconfig() { # FILE then lines of the user
	local file=$1
	shift
	{
		printf '%s\n' 'apiVersion: v1' 'kind: Config' 'current-context: cluster' \
			'clusters:' '- name: cluster' '  cluster:' '    server: https://127.0.0.1:6443' \
			"    certificate-authority: $DIR/pki/ca.crt" \
			'contexts:' '- name: cluster' '  context: {cluster: cluster, user: user}' 'users:' '- name: user' '  user:'
		printf '    %s\n' "$@"
	} >"$file"
	chmod 600 "$file"
}

make_certificates() (
	mkdir -p "$DIR/pki" && cd "$DIR/pki" || exit 1
	openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -subj /CN=cluster-ca -days 2 -out ca.crt 2>/dev/null || exit 1
	certificate apiserver /CN=kube-apiserver "DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:$ADDRESS,IP:10.96.0.1"
	certificate admin /O=system:masters/CN=admin DNS:admin
	openssl genrsa -out sa.key 2048 2>/dev/null && openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null
)

write_configuration() {
	make_certificates || die 'no certificates'
	kubeconfig "$ADMIN" "client-certificate: $DIR/pki/admin.crt" "client-key: $DIR/pki/admin.key"
	# Every request of the driver's and the sidecars' account, for the proof that the role is the minimum.
	cat >"$DIR/audit.yaml" <<-END
		apiVersion: audit.k8s.io/v1
		kind: Policy
		omitStages: [RequestReceived]
		rules:
		- level: Metadata
		  users: ["system:serviceaccount:$NAMESPACE:snap-csi-controller", "system:serviceaccount:$NAMESPACE:swap-snap-csi-plugin-sa"]
		- level: None
	END
	configure_node "$DIR" "$NODE" "$ADDRESS" 10.244.0.0/24 "$KUBELET_DIR" "$CGROUP"
}

# What a driver mounts of virtio-fs: the tags that its host's snap-sim shows, by mount.snapsim (test/lib/share).
virtiofs=(--node-virtiofs-filesystem-type=snapsim --node-virtiofs-load-driver=false)
tags_of() { echo "SNAP_SIM_TAGS=$DIR/sim/$1/tags"; }

# Keeps mount.snapsim installed, and removes it when it is stopped: it ends with its input.
start_helper() {
	run helper bash -c 'sleep infinity | (trap "" TERM; exec test/lib/share/mount-helper.sh)'
	wait_for 10 helper grep -q installed "$DIR/log/helper.log"
}

# What containerd and kubelet of a node read, below HOME; they write there, too.
configure_node() { # HOME NAME ADDRESS SUBNET KUBELET-DIR CGROUP
	mkdir -p "$1/cni" "$1/run"
	(cd "$DIR/pki" && certificate "kubelet-$2" "/O=system:nodes/CN=system:node:$2" "DNS:$2,IP:$3") || exit 1
	kubeconfig "$1/kubelet.kubeconfig" "client-certificate: $DIR/pki/kubelet-$2.crt" "client-key: $DIR/pki/kubelet-$2.key"
	# Without CAP_SYS_RESOURCE runc cannot lower oom_score_adj, and every sandbox would die of it.
	cat >"$1/containerd.toml" <<-END
		version = 2
		root = "$1/containerd/root"
		state = "$1/containerd/state"
		[grpc]
		  address = "$1/run/containerd.sock"
		[plugins."io.containerd.grpc.v1.cri"]
		  sandbox_image = "docker.io/local/pause:1"
		  restrict_oom_score_adj = true
		  netns_mounts_under_state_dir = true
		  [plugins."io.containerd.grpc.v1.cri".cni]
		    bin_dir = "/usr/lib/cni"
		    conf_dir = "$1/cni"
	END
	cat >"$1/cni/10-pods.conflist" <<-END
		{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "ptp", "ipam": {"type": "host-local",
		 "dataDir": "$1/cni-leases", "ranges": [[{"subnet": "$4"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
	END
	cat >"$1/kubelet.yaml" <<-END
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		address: $3
		healthzPort: 0
		authentication: {x509: {clientCAFile: $DIR/pki/ca.crt}, anonymous: {enabled: false}, webhook: {enabled: true}}
		authorization: {mode: Webhook}
		tlsCertFile: $DIR/pki/kubelet-$2.crt
		tlsPrivateKeyFile: $DIR/pki/kubelet-$2.key
		containerRuntimeEndpoint: unix://$1/run/containerd.sock
		cgroupDriver: cgroupfs
		cgroupRoot: /$6
		failCgroupV1: false
		failSwapOn: false
		enforceNodeAllocatable: []
		evictionHard: {nodefs.available: "1%", imagefs.available: "1%", memory.available: "50Mi"}
		clusterDNS: [10.96.0.10]
		resolvConf: /dev/null
		podLogsDir: $1/podlogs
		volumePluginDir: $5/exec
		syncFrequency: 10s
	END
	{
		[ -z "${CLUSTER_STATUS_UPDATE:-}" ] || echo "nodeStatusUpdateFrequency: $CLUSTER_STATUS_UPDATE"
		[ -z "${CLUSTER_STATUS_REPORT:-}" ] || echo "nodeStatusReportFrequency: $CLUSTER_STATUS_REPORT"
		# kubelet asks for the health of volumes as often as for their statistics.
		[ "$(kube_minor)" -lt 37 ] || printf '%s\n' 'featureGates: {CSIVolumeHealth: true}' "volumeStatsAggPeriod: ${CLUSTER_HEALTH_PERIOD:-5s}"
	} >>"$1/kubelet.yaml"
}

# ---------------------------------------------------------------- up
start_etcd() { run etcd "$BIN/etcd" --data-dir="$DIR/etcd" --unsafe-no-fsync; }

start_apiserver() {
	run apiserver "$BIN/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 --bind-address=0.0.0.0 \
		--advertise-address="$ADDRESS" --allow-privileged --authorization-mode=Node,RBAC \
		--tls-cert-file="$DIR/pki/apiserver.crt" --tls-private-key-file="$DIR/pki/apiserver.key" \
		--client-ca-file="$DIR/pki/ca.crt" --kubelet-preferred-address-types=InternalIP \
		--kubelet-client-certificate="$DIR/pki/admin.crt" --kubelet-client-key="$DIR/pki/admin.key" \
		--kubelet-certificate-authority="$DIR/pki/ca.crt" --service-account-key-file="$DIR/pki/sa.pub" \
		--service-account-signing-key-file="$DIR/pki/sa.key" --service-account-issuer=https://kubernetes.default.svc \
		--service-cluster-ip-range=10.96.0.0/16 --audit-policy-file="$DIR/audit.yaml" \
		--audit-log-path="$DIR/log/audit.jsonl" --feature-gates="$(gates)"
}

start_controllers() {
	run controllers "$BIN/kube-controller-manager" --kubeconfig="$ADMIN" --root-ca-file="$DIR/pki/ca.crt" \
		--service-account-private-key-file="$DIR/pki/sa.key" --use-service-account-credentials --leader-elect=false \
		--controllers='*,-node-ipam-controller'
}

start_scheduler() {
	run scheduler "$BIN/kube-scheduler" --kubeconfig="$ADMIN" --leader-elect=false --feature-gates="$(gates)"
}
start_containerd() { run containerd containerd --config "$DIR/containerd.toml"; }

# kubelet refuses to unstage a volume whose filesystem is mounted elsewhere, which a tag of virtio-fs is by its daemon (the
# kernel's virtio-fs has no such mount). So kubelet gets a copy of the mounts without those of snap-sim; mounts of kubelet and
# the driver below kubelet's folder still reach both.
kubelet() { # PROCESS HOME NODE ADDRESS KUBELET-DIR
	# shellcheck disable=SC2016 # for the inner shell
	run "$1" unshare --mount --propagation unchanged bash -c 'mount --make-rprivate "$0" && umount -l "$0" && exec "$@"' \
		"$DIR/sim" "$BIN/kubelet" --config="$2/kubelet.yaml" --kubeconfig="$2/kubelet.kubeconfig" --root-dir="$5" \
		--hostname-override="$3" --node-ip="$4"
}
start_kubelet() { kubelet kubelet "$DIR" "$NODE" "$ADDRESS" "$KUBELET_DIR"; }

start_sim() {
	run sim "$OUT/snap-sim" --kubeconfig="$ADMIN" --namespace="$NAMESPACE" --node="$NODE" --node="$SECOND" --vfs="${CLUSTER_VFS:-4}" \
		--hotplug-slots="${CLUSTER_SLOTS:-2}" --growing-volumes --state="$DIR/sim" --port-file="$DIR/run/sim.port" --v=1
}

node_ready() { # NAME
	[ "$(kubectl get node "$1" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')" = True ]
}

make_network() {
	ip netns add "$NETNS" && ip -n "$NETNS" link set lo up && ip -n "$NETNS" addr add "$ADDRESS/32" dev lo &&
		ip -n "$NETNS" route add default dev lo || die "cannot make the network namespace $NETNS"
}

make_cgroups() { # NAME, of which all above it are there
	local at
	for at in /sys/fs/cgroup/*/; do
		if [ -e "$at/cgroup.procs" ] && [ ! -e /sys/fs/cgroup/cgroup.procs ]; then
			mkdir -p "$at$1"
		fi
	done
	[ ! -e /sys/fs/cgroup/cgroup.procs ] || mkdir -p "/sys/fs/cgroup/$1"
	# A child cpuset is empty until it is configured.
	at=/sys/fs/cgroup/cpuset
	if [ -e "$at/$1/cpuset.cpus" ]; then
		cat "$at/cpuset.cpus" >"$at/$1/cpuset.cpus"
		cat "$at/cpuset.mems" >"$at/$1/cpuset.mems"
	fi
}

import_images() { # PROCESS HOME
	python3 "$here/images.py" "$2/images.tar" && wait_for 20 "$1" ctr -a "$2/run/containerd.sock" version &&
		ctr -a "$2/run/containerd.sock" -n k8s.io images import "$2/images.tar" >/dev/null || die 'no images'
}

need() {
	local what missing=()
	[ "$(id -u)" -eq 0 ] || die 'needs root: network namespace, mounts, loop devices, containers'
	for what in containerd runc ip openssl busybox nsenter python3; do
		command -v "$what" >/dev/null || missing+=("$what")
	done
	[ -x /usr/lib/cni/ptp ] || missing+=(containernetworking-plugins)
	[ ${#missing[@]} -eq 0 ] || die "missing: ${missing[*]}; 'make kube-deps' installs what is needed"
	for what in "$BIN/kube-apiserver" "$OUT/snap-sim" "$OUT/snap-share" "$OUT/snap-csi-plugin"; do
		[ -x "$what" ] || die "$what is not there; run make cluster-up"
	done
}

up() {
	need
	down
	mkdir -p "$DIR"/{log,run} "$KUBELET_DIR"/{plugins_registry,plugins} "$PLUGIN_DIR"
	# What the driver mounts must reach the pods, whatever the folder above is.
	mount --bind "$KUBELET_DIR" "$KUBELET_DIR" && mount --make-rshared "$KUBELET_DIR" || die 'cannot mount'
	# And the tags of virtio-fs the driver's pod.
	mkdir "$DIR/sim" && mount --bind "$DIR/sim" "$DIR/sim" && mount --make-rshared "$DIR/sim" || die 'cannot mount'
	make_network
	make_cgroups "$CGROUP"
	write_configuration
	start_etcd
	start_apiserver
	start_containerd
	import_images containerd "$DIR"
	wait_for 60 apiserver kubectl get --raw /readyz
	say 'API server'
	start_controllers
	start_scheduler
	start_kubelet
	kubectl apply -f "$here/crds" >/dev/null || die 'the CRDs are refused'
	kubectl wait --for=condition=Established --timeout=30s crd --all >/dev/null || die 'the CRDs are not served'
	kubectl apply -f "$here/world.yaml" >/dev/null || die 'test/kube/world.yaml is refused'
	wait_for 60 kubelet node_ready "$NODE"
	say 'node Ready'
	# As DPF's rule of node-feature-discovery does with hosts that have a DPU.
	kubectl label node "$NODE" feature.node.kubernetes.io/dpu-enabled=true >/dev/null
	start_helper
	start_sim
	wait_for 20 sim test -s "$DIR/run/sim.port"
	apply_manifests
	driver
	wait_for 30 controllers kubectl get serviceaccount default -n default
	wait_for 30 driver kubectl get csinode "$NODE" -o "jsonpath={.spec.drivers[0].nodeID}"
	wait_for 30 driver registered
	say 'driver registered with kubelet'
}

registered() {
	kubectl get csinode "$NODE" -o 'jsonpath={.spec.drivers[*].name}' | grep -qw "$DRIVER_NAME"
}

# ---------------------------------------------------------------- the driver
# Applies the parts of manifests/ that make sense without pods, unchanged: the CSIDriver object, accounts and roles.
apply_manifests() {
	kubectl kustomize manifests/base | python3 "$here/only.py" CSIDriver ServiceAccount Role RoleBinding \
		ClusterRole ClusterRoleBinding | kubectl apply -f - >/dev/null || die 'manifests/base is refused'
}

start_driver() {
	run driver env "$(tags_of "$NODE")" "$OUT/snap-csi-plugin" --mode=all --name="$DRIVER_NAME" --bind-address="unix://$CSI_SOCKET" \
		--namespace="$NAMESPACE" --kubeconfig="$DIR/account.kubeconfig" --node-id="$NODE" \
		--sysfs-root="$DIR/sim/$NODE/sys" --dev-root="$DIR/sim/$NODE/dev" --node-nvme-load-driver=false "${virtiofs[@]}" \
		--kubelet-registration-path="$CSI_SOCKET" --plugin-registration-path="$KUBELET_DIR/plugins_registry" --v=2 --kubelet-dir="$KUBELET_DIR" \
		${DRIVER_ARGUMENT:+"$DRIVER_ARGUMENT"} ${DRIVER_GATE:+--controlled-mode --control-socket="$DRIVER_GATE"}
}

# A new leader waits until the lease of a killed one expires, so leases are short.
election=(--leader-election --leader-election-namespace="$NAMESPACE" --leader-election-lease-duration=5s
	--leader-election-renew-deadline=4s --leader-election-retry-period=1s)

start_provisioner() {
	run_again provisioner "$BIN/csi-provisioner" --kubeconfig="$DIR/account.kubeconfig" --csi-address="$CSI_SOCKET" \
		--timeout=120s --extra-create-metadata --default-fstype=ext4 --retry-interval-start=500ms "${election[@]}" --v=2
}

start_attacher() {
	run_again attacher "$BIN/csi-attacher" --kubeconfig="$DIR/account.kubeconfig" --csi-address="$CSI_SOCKET" \
		--timeout=120s --retry-interval-start=500ms "${election[@]}" --v=2 ${ATTACHER_ARGUMENT:+"$ATTACHER_ARGUMENT"}
}

# Not one of the driver's sidecars, because it ends where DPF's CRD forbids growth: a scenario that changes the CRD starts it.
start_resizer() {
	run_again resizer "$BIN/csi-resizer" --kubeconfig="$DIR/account.kubeconfig" --csi-address="$CSI_SOCKET" \
		--timeout=120s --retry-interval-start=500ms "${election[@]}" --v=2
}

driver() {
	stop attacher
	stop provisioner
	stop driver
	kubeconfig "$DIR/account.kubeconfig" "token: $(kubectl create token -n "$NAMESPACE" snap-csi-controller --duration=24h)"
	start_driver
	wait_for 10 driver test -S "$CSI_SOCKET"
	start_provisioner
	start_attacher
}

# shellcheck source=test/kube/driver-images.sh
. "$here/driver-images.sh"

# The same from the pods of manifests/ and the images of `make image-test`; needs both of them.
pods() {
	stop attacher
	stop provisioner
	stop driver
	driver_images "$DIR" "$BIN/csi-provisioner" "$BIN/csi-attacher" || die 'no images; run make image-test'
	say 'images'
	pods_again
	say 'driver in pods registered with kubelet'
}

pods_text() {
	kubectl kustomize --load-restrictor=LoadRestrictionsNone test/kube/pods | sed "s#/var/lib/kubelet#$KUBELET_DIR#g; s#path: /simulated-host#path: $DIR/sim/$NODE#; s#path: /mount-helper#path: $PWD/test/lib/share/mount.snapsim#"
}

pods_again() {
	pods_text | kubectl apply -f - >/dev/null || die 'test/kube/pods is refused'
	kubectl rollout status -n "$NAMESPACE" deployment/snap-csi-controller --timeout=120s &&
		kubectl rollout status -n "$NAMESPACE" daemonset/snap-csi-node --timeout=120s || die 'the pods of the driver do not run'
	wait_for 30 kubelet registered
}

pods_away() {
	pods_text | kubectl delete -f - --wait >/dev/null &&
		kubectl wait --for=delete pod -n "$NAMESPACE" -l app.kubernetes.io/name=snap-csi --timeout=120s >/dev/null ||
		die 'the pods of the driver do not go'
}

# What a reboot does to pods and mounts: all processes and mounts go, folders and devices stay.
halt() {
	stop kubelet
	stop driver KILL
	kill_pods "$CGROUP"
	stop containerd
	kill_shims "$DIR"
	while read -r at; do
		umount -l "$at"
	done < <(awk -v a="$KUBELET_DIR/" -v b="$DIR/containerd/" 'index($5, a) == 1 || index($5, b) == 1 {print $5}' \
		/proc/self/mountinfo | tac)
	rm -rf --one-file-system "$DIR/containerd/state"
}

boot() {
	start_containerd
	wait_for 20 containerd ctr -a "$DIR/run/containerd.sock" version
	start_kubelet
	start_driver
}

# shellcheck source=test/kube/second.sh
. "$here/second.sh"

# ---------------------------------------------------------------- check and down
processes='etcd apiserver controllers scheduler containerd kubelet sim driver provisioner attacher'

check() {
	local name status=0
	for name in $processes; do
		if alive "$name"; then
			printf '%-12s runs\n' "$name"
		else
			printf '%-12s does not run; its log: %s\n' "$name" "$DIR/log/$name.log"
			status=1
		fi
	done
	if [ "$status" -eq 0 ] && node_ready "$NODE"; then
		echo "node $NODE    is Ready"
	else
		status=1
	fi
	return "$status"
}

# Every process in the cluster's own cgroup belongs to its pods.
kill_pods() { # CGROUP
	local end=$((SECONDS + 10)) pids
	while pids=$(find /sys/fs/cgroup -path "*/$1/*" -name cgroup.procs -exec cat {} + 2>/dev/null | sort -u) && [ -n "$pids" ]; do
		# shellcheck disable=SC2086 # a list
		kill -s KILL $pids 2>/dev/null
		[ "$SECONDS" -lt "$end" ] || { echo "cluster: these processes do not end: $pids" >&2; break; }
		sleep 0.1
	done
}

# containerd's shims outlive it; they name our socket on their command line.
kill_shims() { # HOME of their containerd
	local at
	for at in /proc/[0-9]*; do
		if tr '\0' ' ' <"$at/cmdline" 2>/dev/null | grep -q "^[^ ]*containerd-shim.* $1/run/containerd.sock"; then
			kill -s KILL "${at#/proc/}"
		fi
	done 2>/dev/null
}

remove_cgroups() {
	find /sys/fs/cgroup -path "*/$CGROUP*" -type d -name '*' -depth -exec rmdir {} \; 2>/dev/null
}

down() {
	local name file at
	for name in kubelet kubelet2 attacher provisioner driver driver2; do
		stop "$name" TERM 3
	done
	kill_pods "$CGROUP"
	for name in containerd containerd2; do
		stop "$name" TERM 3
	done
	kill_shims "$DIR"
	kill_shims "$DIR/$SECOND"
	while read -r at; do
		umount -l "$at"
	done < <(awk -v at="$DIR/" -v kubelet="$KUBELET_DIR" 'index($5, at) == 1 && index($5 "/", at "sim/") != 1 ||
		index($5 "/", kubelet "/") == 1 {print $5}' /proc/self/mountinfo | tac)
	stop sim TERM 10
	stop helper
	for file in "$DIR"/run/*.pid; do
		[ -e "$file" ] && stop "$(basename "$file" .pid)" KILL
	done
	while read -r at; do
		losetup --detach "$at"
	done < <(losetup --list --noheadings --raw --output NAME,BACK-FILE | awk -v at="$DIR/" 'index($2, at) == 1 {print $1}')
	while read -r at; do
		umount -l "$at"
	done < <(awk -v at="$DIR/" 'index($5, at) == 1 {print $5}' /proc/self/mountinfo | tac)
	[ ! -e "/run/netns/$NETNS" ] || ip netns del "$NETNS"
	remove_cgroups
	rm -rf --one-file-system "$DIR"
}

hint() {
	cat <<-END

		export KUBECONFIG=$ADMIN
		alias kubectl='nsenter --net=/run/netns/$NETNS $BIN/kubectl'     # the cluster is in a network of its own

		Try:
		  kubectl get nodes,csidrivers,csinodes,storageclasses
		  kubectl apply -f test/kube/try.yaml && kubectl get pvc,pods -w
		  kubectl get dpuvolumes,dpuvolumeattachments -n $NAMESPACE
		Logs: $DIR/log/driver.log and its neighbours. The end: make cluster-down
	END
}

began=$EPOCHREALTIME
command=${1:-}
[ $# -eq 0 ] || shift
case $command in
up) up && hint ;;
down) down ;;
check) check ;;
driver) driver ;;
pods) pods ;;
pods-away) pods_away ;;
pods-again) pods_again ;;
halt) halt ;;
boot) boot ;;
reboot) halt && boot ;;
second) "second_${1:?up or down}" ;;
stop) stop "$@" ;;
start) "start_${1:?which}" ;;
ensure) alive "${1:?which}" || "start_$1" ;;
kubectl) kubectl "$@" ;;
*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 2 ;;
esac
