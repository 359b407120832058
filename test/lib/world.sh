# shellcheck shell=bash
# A small world for shell tests: snap-sim with a fabric of loop devices, and the driver against it. Source it.
#
#   world_need_root NAME      ends the script (exit 77) and says what is missing when this machine cannot run it
#   world_begin               makes $WORLD, and folders of a node below it: $PLUGIN_DIR, $KUBELET and arms the clean-up: also on failure, Ctrl-C and TERM
#   world_sim [ARG...]        starts snap-sim; its API is at $SIM_URL
#   world_mount_helper        puts mount.snapsim into /sbin, so that the driver can mount virtio-fs volumes of snap-sim
#   world_driver MODE [ARG...] starts the driver, waits until it answers Probe; socket $ENDPOINT, log $WORLD/MODE.log
#   world_stream              opens one connection to the driver for csi_ask; world_stream_end closes it
#   csi_ask METHOD JSON       one call on it; sets $answer ({"code","ms","error" or "reply"}) and $code
#   world_api PATH            GET of an object or a list of DPF's storage API
#   world_apply FILE          creates the objects of a JSON list
#   world_register            writes the answer of NodeGetInfo to the API (CSINode), as kubelet does
#   world_switch METHOD PATH [JSON]  snap-sim's own switches: /sim/faults, /sim/requests, ...
#   world_reports             prints sanitizer reports of the driver's log; fails when there are any
#   world_stop PID [SIGNAL]   ends one process that was started here and waits for it
#   world_end                 undoes everything; called by the trap
#
# Takes BUILD and FLAVOUR from the environment as make does. Only what was started or made here is ever touched.

. test/lib/own-mounts.sh
. test/lib/children.sh

BUILD=${BUILD:-build}
FLAVOUR=${FLAVOUR:-release}
OUT=$BUILD/$FLAVOUR
DRIVER=$OUT/snap-csi-plugin
SNAP_SIM=$OUT/snap-sim
CSI_CALL=$OUT/csi-call
NAMESPACE=dpf-operator-system
NODE=dpu-host-1
FUNCTIONS=${FUNCTIONS:-4}
WORLD=
SIM_PID=
SIM_URL=
DRIVER_PID=
MOUNT_HELPER_PID=
WORLD_PIDS=()

world_need_root() {
	local why=
	if [ "$(id -u)" -ne 0 ]; then
		why="needs root: it makes loop devices and mounts. Run it as root, for example: sudo make $1"
	elif [ ! -e /dev/loop-control ]; then
		why='needs loop devices, and there is no /dev/loop-control. Load the module (modprobe loop), or give the
container the host'"'"'s /dev (docker run --privileged -v /dev:/dev ...)'
	elif ! losetup --find >/dev/null 2>&1; then
		why='needs a free loop device. See which are in use with: losetup --list'
	fi
	[ -z "$why" ] && return 0
	printf '%s: this %s\n' "$1" "$why" >&2
	exit 77
}

world_begin() {
	WORLD=$(mktemp -d "${TMPDIR:-/var/tmp}/snap-csi-world.XXXXXX")
	trap world_end EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	PLUGIN_DIR=$WORLD/run KUBELET=$WORLD/kubelet
	mkdir "$PLUGIN_DIR"
	export SOCKET=$PLUGIN_DIR/csi.sock
	export ENDPOINT=unix://$SOCKET
	KUBECONFIG_FILE=$WORLD/kubeconfig
}

# Waits for the command to succeed. $1: seconds that are ample on an idle machine; a loaded one has ten times as many, and no wait
# ends because a machine is slow. Exit status 2 of the command ends the wait as a failure.
world_until() {
	local end=$((SECONDS + 10 * $1)) status
	shift
	while :; do
		"$@"
		status=$?
		[ "$status" -ne 0 ] || return 0
		[ "$status" -ne 2 ] && [ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.02
	done
}

world_sim() {
	local token=marker-of-token-$$
	rm -f "$WORLD/port" # of one that ran before
	"$SNAP_SIM" --state="$WORLD/sim" --write-kubeconfig="$KUBECONFIG_FILE" --port-file="$WORLD/port" --token="$token" \
		--namespace="$NAMESPACE" --node="$NODE" --vfs="$FUNCTIONS" "$@" >"$WORLD/sim.log" 2>&1 &
	SIM_PID=$!
	WORLD_PIDS+=("$SIM_PID")
	if ! world_until 60 world_sim_ready; then
		echo "snap-sim did not start:" >&2
		cat "$WORLD/sim.log" >&2
		return 1
	fi
	SIM_URL=http://127.0.0.1:$(cat "$WORLD/port")
	printf 'Authorization: Bearer %s\n' "$token" >"$WORLD/header"
}

world_sim_ready() {
	child_runs "$SIM_PID" || return 2
	[ -s "$WORLD/port" ] && [ -s "$KUBECONFIG_FILE" ]
}

# Stays until world_end, and longer while another suite needs it (test/lib/share/mount-helper.sh).
world_mount_helper() {
	if [ ! -e /dev/fuse ]; then
		echo 'virtio-fs volumes of snap-sim need /dev/fuse: modprobe fuse, or docker run --device /dev/fuse' >&2
		return 1
	fi
	mkfifo "$WORLD/mount-helper" || return 1
	: >"$WORLD/mount-helper.said"
	test/lib/share/mount-helper.sh <"$WORLD/mount-helper" >"$WORLD/mount-helper.said" &
	MOUNT_HELPER_PID=$!
	exec {WORLD_MOUNT_HELPER}>"$WORLD/mount-helper"
	world_until 30 grep -qs '^installed$' "$WORLD/mount-helper.said"
}

# Ends with its input. A process that was started here and is still running also has that input open; then this one continues,
# and is not awaited.
world_mount_helper_end() {
	[ -n "$MOUNT_HELPER_PID" ] || return 0
	exec {WORLD_MOUNT_HELPER}>&-
	world_until 5 world_is_gone "$MOUNT_HELPER_PID"
}

world_is_gone() {
	! child_runs "$1"
}

# Starts the driver and does not wait. A virtio-fs tag of the node is mounted by mount.snapsim.
world_spawn_driver() {
	local mode=$1
	shift
	SNAP_SIM_TAGS=$WORLD/sim/$NODE/tags LD_LIBRARY_PATH=${DRIVER_LIBRARIES:-} "$DRIVER" --mode="$mode" --bind-address="$ENDPOINT" --namespace="$NAMESPACE" --node-id="$NODE" \
		--kubeconfig="$KUBECONFIG_FILE" --sysfs-root="$WORLD/sim/$NODE/sys" --dev-root="$WORLD/sim/$NODE/dev" \
		--node-nvme-load-driver=false --node-virtiofs-load-driver=false --node-virtiofs-filesystem-type=snapsim \
		--plugin-dir="$PLUGIN_DIR" --kubelet-dir="$KUBELET" "$@" >>"$WORLD/$mode.log" 2>&1 &
	DRIVER_PID=$!
	WORLD_PIDS+=("$DRIVER_PID")
}

world_driver() {
	world_spawn_driver "$@"
	if ! world_until 10 world_driver_ready; then
		echo "the driver did not start:" >&2
		tail -n 20 "$WORLD/$1.log" >&2
		return 1
	fi
}

world_driver_ready() {
	child_runs "$DRIVER_PID" || return 2
	[ -S "$SOCKET" ] && "$CSI_CALL" -e "$ENDPOINT" -t 20 Probe >/dev/null 2>&1
}

world_stream() {
	coproc CSI { exec "$CSI_CALL" --endpoint="$ENDPOINT" --timeout="${CALL_TIMEOUT:-120}" --stream; }
	# shellcheck disable=SC2153 # bash sets CSI_PID
	WORLD_STREAM_PID=$CSI_PID
}

world_stream_end() {
	local out=${CSI[1]}
	exec {out}>&-
	wait "$WORLD_STREAM_PID" 2>/dev/null
}

csi_ask() {
	printf '%s %s\n' "$1" "${2//[$'\n\t']/}" >&"${CSI[1]}"
	read -r answer <&"${CSI[0]}" || return 1
	code=${answer#*'"code":"'} code=${code%%'"'*}
}

# The bearer token stays out of the process list.
world_curl() {
	curl --silent --show-error --max-time 100 --header @"$WORLD/header" "$@"
}

world_api_url() {
	printf '%s/apis/storage.dpu.nvidia.com/v1alpha1/namespaces/%s/%s' "$SIM_URL" "$NAMESPACE" "$1"
}

world_api() {
	world_curl "$(world_api_url "$1")"
}

world_apply() {
	local object resource
	while read -r object; do
		case $(jq -r .kind <<<"$object") in
		DPUStorageVendor) resource=dpustoragevendors ;;
		DPUStoragePolicy) resource=dpustoragepolicies ;;
		DPUVolume) resource=dpuvolumes ;;
		*) return 1 ;;
		esac
		world_curl --fail-with-body --output "$WORLD/applied" --header 'Content-Type: application/json' \
			--data "$object" "$(world_api_url "$resource")" || { cat "$WORLD/applied" >&2; return 1; }
	done < <(jq -c '.[]' "$1")
}

# Needs an open stream.
world_register() {
	local name count
	csi_ask GetPluginInfo '{}'
	name=$(jq -r .reply.name <<<"$answer")
	csi_ask NodeGetInfo '{}'
	count=$(jq -r '.reply.max_volumes_per_node // 0' <<<"$answer")
	world_curl --fail --output /dev/null --header 'Content-Type: application/json' --data @- \
		"$SIM_URL/apis/storage.k8s.io/v1/csinodes" <<-END
			{"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "$NODE"},
			 "spec": {"drivers": [{"name": "$name", "nodeID": "$NODE", "topologyKeys": [], "allocatable": {"count": $count}}]}}
		END
}

world_switch() {
	world_curl --request "$1" ${3:+--data "$3"} "$SIM_URL$2"
}

world_stop() {
	local pid=$1 signal=${2:-TERM} end=$((SECONDS + 100))
	child_signal "$signal" "$pid" || return 0
	while child_runs "$pid"; do
		[ "$SECONDS" -lt "$end" ] || child_signal KILL "$pid"
		sleep 0.02
	done
	wait "$pid" 2>/dev/null
	return 0
}

world_reports() {
	! grep -hE -A30 'ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|runtime error:' "$WORLD"/*.log
}

# Mount points below $WORLD, innermost first.
world_mounts() {
	awk -v at="$WORLD/" 'index($5, at) == 1 {print $5}' /proc/self/mountinfo | tac
}

world_loops() {
	losetup --list --noheadings --raw --output NAME,BACK-FILE | awk -v at="$WORLD/" 'index($2, at) == 1 {print $1}'
}

world_end() {
	local status=$? pid what
	trap - EXIT
	trap '' INT TERM HUP
	[ -n "$DRIVER_PID" ] && world_stop "$DRIVER_PID"
	while read -r what; do
		umount -l "$what"
	done < <(world_mounts)
	for pid in "${WORLD_PIDS[@]}"; do
		world_stop "$pid"
	done
	world_mount_helper_end
	while read -r what; do
		losetup --detach "$what"
	done < <(world_loops)
	if [ "$status" -ne 0 ] && [ -n "${KEEP_LOGS:-}" ]; then
		mkdir -p "$KEEP_LOGS" && cp "$WORLD"/*.log "$KEEP_LOGS/" 2>/dev/null
		echo "logs are in $KEEP_LOGS" >&2
	fi
	rm -rf --one-file-system "$WORLD"
	exit "$status"
}
