# shellcheck shell=bash
# A small world for shell tests: snap-sim with a fabric of loop devices, and the driver against it. Source it.
#
#   world_need_root NAME      ends the script (exit 77) with what to do when this machine cannot do it
#   world_begin               makes $WORLD and arms the clean-up: also on failure, Ctrl-C and TERM
#   world_sim [ARG...]        starts snap-sim
#   world_driver MODE [ARG...] starts the driver, waits until it answers Probe; socket $ENDPOINT, log $WORLD/MODE.log
#   world_stop PID [SIGNAL]   ends one process that was started here and waits for it
#   world_end                 undoes everything; called by the trap
#
# Takes BUILD and FLAVOUR from the environment as make does. Only what was started or made here is ever touched.

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
DRIVER_PID=
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
	[ -z "$why" ] && return
	printf '%s: this %s\n' "$1" "$why" >&2
	exit 77
}

world_begin() {
	WORLD=$(mktemp -d "${TMPDIR:-/tmp}/snap-csi-world.XXXXXX")
	trap world_end EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	mkdir "$WORLD/run"
	# Mounts made here stay in this tree when it is unmounted: they must not spread to other namespaces.
	export SOCKET=$WORLD/run/csi.sock
	export ENDPOINT=unix://$SOCKET
	KUBECONFIG_FILE=$WORLD/sim/kubeconfig
}

# Waits up to $1 seconds for the command to succeed.
world_until() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.02
	done
}

world_sim() {
	"$SNAP_SIM" --dir="$WORLD/sim" --namespace="$NAMESPACE" --node="$NODE" --functions="$FUNCTIONS" "$@" \
		>"$WORLD/sim.log" 2>&1 &
	SIM_PID=$!
	WORLD_PIDS+=("$SIM_PID")
	if ! world_until 10 world_sim_ready; then
		echo "snap-sim did not start:" >&2
		cat "$WORLD/sim.log" >&2
		return 1
	fi
}

world_sim_ready() {
	kill -0 "$SIM_PID" 2>/dev/null || return 0
	[ -s "$KUBECONFIG_FILE" ]
}

world_driver() {
	local mode=$1
	shift
	"$DRIVER" --mode="$mode" --bind-address="$ENDPOINT" --namespace="$NAMESPACE" --node-id="$NODE" \
		--kubeconfig="$KUBECONFIG_FILE" --sysfs-root="$WORLD/sim/sys" --dev-root="$WORLD/sim/dev" \
		--node-nvme-load-driver=false --plugin-dir="$WORLD/run" "$@" >>"$WORLD/$mode.log" 2>&1 &
	DRIVER_PID=$!
	WORLD_PIDS+=("$DRIVER_PID")
	if ! world_until 10 world_driver_ready; then
		echo "the driver did not start:" >&2
		tail -n 20 "$WORLD/$mode.log" >&2
		return 1
	fi
}

world_driver_ready() {
	kill -0 "$DRIVER_PID" 2>/dev/null || return 1
	[ -S "$SOCKET" ] && "$CSI_CALL" -e "$ENDPOINT" -t 2 Probe >/dev/null 2>&1
}

world_stop() {
	local pid=$1 signal=${2:-TERM} end=$((SECONDS + 10))
	kill -s "$signal" "$pid" 2>/dev/null || return 0
	while kill -0 "$pid" 2>/dev/null; do
		[ "$SECONDS" -lt "$end" ] || kill -s KILL "$pid" 2>/dev/null
		sleep 0.02
	done
	wait "$pid" 2>/dev/null
	return 0
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
