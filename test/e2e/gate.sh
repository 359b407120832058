#!/usr/bin/env bash
# The gate of --controlled-mode (docs/operate/gate.md): the driver on snap-sim, and a daemon that holds the stream, is killed, is
# replaced, or belongs to another node. Needs root. Ends with "gate: N passed, N failed".
# shellcheck disable=SC2034 # some of it stands in single quotes, for eval
set -u
cd "$(dirname "$0")/../.." || exit 1
. test/lib/world.sh
. test/lib/requests.sh

world_need_root gate
KEEP_LOGS=$BUILD/logs/gate
world_begin
passed=0 failed=0
GATE=$WORLD/gate.sock
REGISTRY=$WORLD/registry
REGISTERED=$REGISTRY/csi.snap.nvidia.com-reg.sock
HTTP=$WORLD/http.sock
mkdir "$REGISTRY"

check() { # what, command...
	local what=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
		printf 'ok   %s\n' "$what"
	else
		failed=$((failed + 1))
		printf 'FAIL %s\n' "$what"
		printf '     the last answer: %s\n' "${answer:-none}"
		[ -z "${daemon_log:-}" ] || sed 's/^/     the stream: /' "$daemon_log"
	fi
}
soon() { world_until 10 "$@"; }

# start_daemon NAME NODE GENERATION [SECONDS]: its lines are in $WORLD/NAME, its pid in $daemon.
start_daemon() {
	daemon_log=$WORLD/$1
	: >"$daemon_log"
	/usr/bin/python3 test/lib/py/enable_devices.py "$GATE" "${@:2}" >>"$daemon_log" 2>&1 &
	daemon=$!
	WORLD_PIDS+=("$daemon")
}
# Kills it as a crash does, without a message of the shell.
crash() { # PID...
	child_signal KILL "$@"
	wait "$@" 2>/dev/null
}
told() { # NAME WORDS...: all of them in one of its lines
	local name=$1 line
	shift
	while read -r line; do
		local all=1 word
		for word; do [[ $line == *"$word"* ]] || all=; done
		[ -z "$all" ] || return 0
	done <"$WORLD/$name"
	return 1
}
ask() { csi_ask "$1" "$2"; }
answered() { [ "$code" = "$1" ] && [[ $answer == *"${2:-}"* ]]; }
page() { curl -s --max-time 60 --unix-socket "$HTTP" "http://localhost/$1"; }
shows() { page "$1" >"$WORLD/page" && grep -qF -- "$2" "$WORLD/page"; }
gone() { [ ! -e "$1" ]; }
has_vfs() { [ "$(cat "${numvfs[@]}")" = "$1" ]; }
bound() { find "$WORLD/sim/$NODE/sys/bus/pci/drivers/nvme/" -name '0000:26:00.[1-9]' | grep -q .; }

driver() {
	world_driver all --v=2 --controlled-mode --control-socket="$GATE" --kubelet-registration-path="$SOCKET" \
		--plugin-registration-path="$REGISTRY" --http-endpoint="unix:$HTTP" || exit 1
	world_stream
}
stop_driver() { # SIGNAL
	world_stop "$DRIVER_PID" "$1" 2>/dev/null
	world_stream_end
}

world_sim --seed || exit 1
numvfs=("$WORLD/sim/$NODE"/sys/bus/pci/devices/*/sriov_numvfs)
echo 0 >"${numvfs[0]}"
driver

# ---- closed at the start ----
volume() { # NAME
	id=$1 type=mount fs=ext4 context='{}'
	ask CreateVolume "$(create_request "$1")"
	context=$(jq -c '.reply.volume.volume_context // {}' <<<"$answer")
	volume_paths
	ask ControllerPublishVolume "$(attach_request)"
	publish=$(jq -c .reply.publish_context <<<"$answer")
}
use() { # NAME: a volume that was attached before
	id=$1
	volume_paths
	publish=${publishes[$1]} context=${contexts[$1]}
}
declare -A publishes contexts
for v in gate-1 gate-2; do
	volume "$v"
	publishes[$v]=$publish contexts[$v]=$context
done
use gate-1
ask NodeStageVolume "$(stage_request)"
check 'at the start, a stage is UNAVAILABLE and names the gate' answered UNAVAILABLE 'the gate is closed'
check 'and names the socket' answered UNAVAILABLE "$GATE"
check 'no VFs are made' has_vfs 0
check 'no function is bound' eval '! bound'
check 'nothing is mounted' eval '! world_mounts | grep -q "$KUBELET"'
check 'the driver is not registered with kubelet' gone "$REGISTERED"
ask NodeGetInfo '{}'
check 'nor by a registrar beside it: NodeGetInfo is UNAVAILABLE' answered UNAVAILABLE 'the gate is closed'
check '/readyz says so' shows readyz '[-]gate: the gate is closed: no client holds EnableDevices'
check '/metrics says so' shows metrics 'snap_csi_gate{state="closed"} 1'
check 'the socket is for root alone' eval '[ "$(stat -c %a "$GATE")" = 600 ]'

start_daemon other-node somewhere 1
check 'the stream of another node is refused, with both names' \
	soon told other-node INVALID_ARGUMENT somewhere "$NODE"
start_daemon no-node '' 1
check 'so is one without a name' soon told no-node INVALID_ARGUMENT
check 'and the gate stays closed' shows metrics 'snap_csi_gate{state="closed"} 1'

# ---- open ----
start_daemon five "$NODE" 5
check 'EnableDevices is told INITIALIZING' soon told five INITIALIZING
check 'then SERVING with its generation' soon told five SERVING '"generation": 5'
check 'the driver registers with kubelet' soon test -S "$REGISTERED"
check '/readyz has the gate' shows readyz '[+]gate ok'
check '/metrics has the generation' shows metrics 'snap_csi_gate_generation 5'
ask NodeGetInfo '{}'
check 'NodeGetInfo answers' answered OK
check 'VFs are made' soon has_vfs "$FUNCTIONS"
ask NodeStageVolume "$(stage_request)"
check 'a volume is staged' answered OK
check 'and its function bound' bound
ask NodePublishVolume "$(publish_request)"
check 'and published' answered OK
echo kept >"$target/file"

# ---- the daemon is killed ----
crash "$daemon"
check 'when the daemon is killed, the gate is closed' soon shows metrics 'snap_csi_gate{state="closed"} 1'
use gate-2
ask NodeStageVolume "$(stage_request)"
check 'another volume is UNAVAILABLE' answered UNAVAILABLE 'the stream of generation 5 ended'
use gate-1
ask NodeStageVolume "$(stage_request)"
check 'what is staged stays staged for a kubelet that asks again' answered OK
ask NodeGetVolumeStats "{\"volume_id\":\"$id\",\"volume_path\":\"$target\"}"
check 'it is measured' answered OK
ask NodeGetVolumeHealth "{\"volume_id\":\"$id\",\"volume_publish_path\":\"$target\"}"
check 'its health is told' answered OK
ask NodeUnpublishVolume "$(unpublish_request)"
check 'it is unpublished' answered OK
ask NodePublishVolume "$(publish_request)"
check 'it is published again' answered OK
check 'with its data' grep -q kept "$target/file"
check 'the driver stays registered with something staged' test -S "$REGISTERED"
ask NodeGetInfo '{}'
check 'and kubelet may register it again' answered OK

# ---- the driver restarts, with something staged ----
stop_driver KILL
driver
check 'after a restart the gate is closed' shows metrics 'snap_csi_gate{state="closed"} 1'
check 'and the driver registers, since something is staged' soon test -S "$REGISTERED"
ask NodeUnpublishVolume "$(unpublish_request)"
check 'so kubelet unpublishes' answered OK
ask NodeUnstageVolume "$(unstage_request)"
check 'and unstages' answered OK
check 'then the driver leaves kubelet' soon gone "$REGISTERED"

# ---- a second stream ----
start_daemon six "$NODE" 6
six=$daemon
check 'the gate opens again, SERVING with counts' soon told six SERVING '"pools": 1' "\"devices\": $FUNCTIONS" '"generation": 6'
start_daemon older "$NODE" 5
check 'an older generation is refused, with both' soon told older FAILED_PRECONDITION ' 5 ' ' 6'
check 'and the stream of the newer one stays' eval 'child_runs "$six" && shows metrics "snap_csi_gate_generation 6"'
start_daemon seven "$NODE" 7
seven=$daemon
check 'a newer generation takes the gate' soon told seven SERVING '"generation": 7'
check 'the older one is told STOPPING' soon told six STOPPING '"generation": 6'
check 'and ended' soon told six ABORTED 'took over the gate'
start_daemon again "$NODE" 7
check 'so does one of the same generation, of a daemon that started anew' soon told again SERVING '"generation": 7'
check 'as the one before learns' soon told seven ABORTED
use gate-1
ask NodeStageVolume "$(stage_request)"
check 'all the time the gate was open: a stage works' answered OK
check 'with the data of before' grep -q kept "$staging/file"
ask NodeUnstageVolume "$(unstage_request)"

# ---- a stage that waits when the gate closes ----
crash "$daemon"
start_daemon eight "$NODE" 8
check 'a daemon comes back with a newer generation' soon told eight SERVING '"generation": 8'
late=$(jq -c '."nv-nvmeNsID" = "77" | ."nv-nvmeUUID" = "00000000-0000-4000-8000-000000000077"' <<<"$publish")
kill_then_ask() { # the stage waits for a namespace that does not come
	local saved=$publish
	publish=$late
	printf 'NodeStageVolume %s\n' "$(stage_request)" >&"${CSI[1]}"
	publish=$saved
	sleep 0.5
	crash "$daemon"
	read -r answer <&"${CSI[0]}"
	code=${answer#*'"code":"'} code=${code%%'"'*}
}
kill_then_ask
check 'a stage that waits for its device ends UNAVAILABLE when the gate closes' answered UNAVAILABLE 'the gate was closed'

# ---- deadlines, stops, both at once ----
start_daemon short "$NODE" 9 4 # python takes a while to connect on a busy machine
check 'a stream with a deadline opens the gate' soon told short SERVING
check 'until its deadline' soon shows metrics 'snap_csi_gate{state="closed"} 1'
start_daemon ten "$NODE" 10
soon told ten SERVING
world_stop "$DRIVER_PID"
world_stream_end
check 'a driver that stops tells STOPPING' soon told ten STOPPING '"generation": 10'
check 'and ends the stream' soon told ten UNAVAILABLE 'the driver stops'
check 'and takes its socket away' gone "$GATE"
driver
start_daemon eleven "$NODE" 11
soon told eleven SERVING
crash "$daemon" "$DRIVER_PID"
world_stream_end
driver
check 'after daemon and driver died at once, the gate is closed' shows metrics 'snap_csi_gate{state="closed"} 1'
start_daemon twelve "$NODE" 12
check 'the dead socket was replaced, and the gate opens' soon told twelve SERVING
crash "$daemon"
stop_driver TERM

# ---- somebody else on the socket ----
/usr/bin/python3 -c "
import socket, sys, time
s = socket.socket(socket.AF_UNIX); s.bind('$GATE'); s.listen(); time.sleep(60)" &
squatter=$!
WORLD_PIDS+=("$squatter")
soon test -S "$GATE"
inode=$(stat -c %i "$GATE")
driver
check 'a socket on which another program answers is left alone' eval '[ "$(stat -c %i "$GATE")" = "$inode" ]'
check 'and the log says what to do' soon grep -q 'give one of the two a socket of its own' "$WORLD/all.log"
check 'the driver serves all the same' world_driver_ready
crash "$squatter"
start_daemon thirteen "$NODE" 13
check 'when it has gone, the driver takes the path' soon told thirteen SERVING
crash "$daemon"
stop_driver TERM
check 'no sanitizer has found anything' world_reports
printf 'gate: %d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
