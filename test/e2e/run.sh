#!/usr/bin/env bash
# The driver and snap-sim together, with failures of real life: the driver is killed in the middle of each step and the
# step is retried, as kubelet and the sidecars do; many volumes compete for few functions.
# Needs root. Ends with "e2e: N passed, N failed".
set -u
cd "$(dirname "$0")/../.." || exit 1
. test/lib/world.sh
. test/lib/requests.sh
. test/e2e/hotplug.sh
. test/e2e/virtiofs.sh
. test/e2e/scenarios.sh

world_need_root e2e
KEEP_LOGS=$BUILD/logs/e2e
world_begin
passed=0 failed=0

# run_case SENTENCE FUNCTION [ARG...]: a case fails when the function returns non-zero or prints a reason on its last line.
run_case() {
	local what=$1 start=$EPOCHREALTIME
	shift
	if "$@" >"$WORLD/case" 2>&1; then
		passed=$((passed + 1))
		printf 'ok   %-76s %5.1f s\n' "$what" "$(awk "BEGIN {print $EPOCHREALTIME - $start}")"
	else
		failed=$((failed + 1))
		access_mode=SINGLE_NODE_WRITER # what a failed case has left must not fail the next one
		printf 'FAIL %s\n' "$what"
		tail -n 5 "$WORLD/case" | sed 's/^/     /'
	fi
}

# Retries until the answer is OK, as callers of a driver do, for at most five minutes.
until_ok() {
	local end=$((SECONDS + 300))
	while :; do
		csi_ask "$1" "$2" || return 1
		[ "$code" != OK ] || return 0
		if [ "$SECONDS" -ge "$end" ]; then
			printf '%s: %s\n' "$1" "$answer"
			return 1
		fi
		sleep 0.1
	done
}

# Like until_ok, but kills the driver so many seconds after the first request.
kill_and_retry() {
	local after=$1 method=$2 request=$3
	printf '%s %s\n' "$method" "$request" >&"${CSI[1]}"
	sleep "$after"
	child_signal KILL "$DRIVER_PID"
	wait "$DRIVER_PID" 2>/dev/null
	world_stream_end
	world_driver all --v=2 || return 1
	world_stream
	until_ok "$method" "$request"
}

take_context() {
	context=$(jq -c '.reply.volume.volume_context // {}' <<<"$answer")
	volume_paths
}

take_publish() {
	publish=$(jq -c .reply.publish_context <<<"$answer")
}

nothing_left() {
	local left
	left=$(world_mounts | grep "^$WORLD/kubelet")
	[ -z "$left" ] || { printf 'still mounted: %s\n' "$left"; return 1; }
	left=$(for what in dpuvolumes dpuvolumeattachments; do
		world_api "$what" | jq -r '.items[] | .kind + " " + .metadata.name'
	done)
	[ -z "$left" ] || { printf 'objects left: %s\n' "$left"; return 1; }
	left=$(find "$WORLD"/kubelet* "$WORLD"/run* -type f -o -type b | grep -Ev 'csi\.sock|/run2?/(spare/[0-9]+|max-volumes|last-errors\.json)$')
	[ -z "$left" ] || { printf 'files left: %s\n' "$left"; return 1; }
}

# Each step is killed once after the given time; the data must survive.
life_with_kills() {
	local after=$1
	type=$2 fs=$3 id=e2e-kill-$2-${after/./-} context='{}'
	kill_and_retry "$after" CreateVolume "$(create_request "$id")" || return 1
	take_context
	kill_and_retry "$after" ControllerPublishVolume "$(attach_request)" || return 1
	take_publish
	kill_and_retry "$after" NodeStageVolume "$(stage_request)" || return 1
	kill_and_retry "$after" NodePublishVolume "$(publish_request)" || return 1
	if [ "$type" = mount ]; then
		head -c 1M /dev/urandom >"$target/data" && cp "$target/data" "$WORLD/data" || return 1
	else
		head -c 1M /dev/urandom >"$WORLD/data" && dd if="$WORLD/data" of="$target" conv=fsync status=none || return 1
	fi
	kill_and_retry "$after" NodeUnpublishVolume "$(unpublish_request)" || return 1
	kill_and_retry "$after" NodeUnstageVolume "$(unstage_request)" || return 1
	kill_and_retry "$after" ControllerUnpublishVolume "$(detach_request)" || return 1
	until_ok ControllerPublishVolume "$(attach_request)" || return 1
	take_publish
	until_ok NodeStageVolume "$(stage_request)" && until_ok NodePublishVolume "$(publish_request)" || return 1
	if [ "$type" = mount ]; then
		cmp "$WORLD/data" "$target/data" || return 1
	else
		cmp -n 1048576 "$WORLD/data" "$target" || return 1
	fi
	until_ok NodeUnpublishVolume "$(unpublish_request)" && until_ok NodeUnstageVolume "$(unstage_request)" &&
		until_ok ControllerUnpublishVolume "$(detach_request)" || return 1
	kill_and_retry "$after" DeleteVolume "$(delete_request)" || return 1
	nothing_left
}

# One volume from creation to deletion, with a file in it.
life() {
	until_ok CreateVolume "$(create_request "$id")" || return 1
	take_context
	until_ok ControllerPublishVolume "$(attach_request)" || return 1
	take_publish
	until_ok NodeStageVolume "$(stage_request)" && until_ok NodePublishVolume "$(publish_request)" || return 1
	echo "$id" >"$target/whose" || return 1
	until_ok NodeUnpublishVolume "$(unpublish_request)" && until_ok NodeUnstageVolume "$(unstage_request)" || return 1
	[ ! -e "$target" ] || { echo "$target is still there"; return 1; }
	until_ok NodeStageVolume "$(stage_request)" && until_ok NodePublishVolume "$(publish_request)" || return 1
	[ "$(cat "$target/whose")" = "$id" ] || { echo "$id has the data of another volume"; return 1; }
	until_ok NodeUnpublishVolume "$(unpublish_request)" && until_ok NodeUnstageVolume "$(unstage_request)" &&
		until_ok ControllerUnpublishVolume "$(detach_request)" && until_ok DeleteVolume "$(delete_request)"
}

# What docs/reference/parameters.md says of volumes for readers: a DPUVolume made by hand is filled by a writer, then only read.
readers() {
	type=mount fs=ext4 id=e2e-readers context='{}'
	cat >"$WORLD/readers.json" <<-END
		[{"apiVersion": "storage.dpu.nvidia.com/v1alpha1", "kind": "DPUVolume", "metadata": {"name": "$id"},
		  "spec": {"dpuStoragePolicyName": "example-policy", "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
		           "volumeMode": "Block", "resources": {"requests": {"storage": "1Gi"}}}}]
	END
	world_apply "$WORLD/readers.json" || return 1
	volume_paths
	until_ok ControllerPublishVolume "$(attach_request)" || return 1
	take_publish
	until_ok NodeStageVolume "$(stage_request)" && until_ok NodePublishVolume "$(publish_request)" || return 1
	echo "$id" >"$target/whose" || return 1
	until_ok NodeUnpublishVolume "$(unpublish_request)" && until_ok NodeUnstageVolume "$(unstage_request)" &&
		until_ok ControllerUnpublishVolume "$(detach_request)" || return 1
	access_mode=MULTI_NODE_READER_ONLY
	until_ok ControllerPublishVolume "$(attach_request)" || return 1
	take_publish
	until_ok NodeStageVolume "$(stage_request)" && until_ok NodePublishVolume "$(publish_request)" || return 1
	[ "$(cat "$target/whose")" = "$id" ] || { echo "$id has lost its data"; return 1; }
	! touch "$target/more" 2>/dev/null || { echo "$id can be written"; return 1; }
	until_ok NodeUnpublishVolume "$(unpublish_request)" && until_ok NodeUnstageVolume "$(unstage_request)" &&
		until_ok ControllerUnpublishVolume "$(detach_request)" && until_ok DeleteVolume "$(delete_request)" || return 1
	csi_ask CreateVolume "$(create_request e2e-only-read)"
	access_mode=SINGLE_NODE_WRITER
	[ "$code" = INVALID_ARGUMENT ] || { echo "a new volume that is only read: $answer"; return 1; }
	nothing_left
}

# A key/value namespace is no raw block volume: the stage is refused at once, and nothing is left.
key_value() {
	local parameters='{"policy":"example-policy","functionType":"pf","hotplugFunction":"true","memos_subsystem_nqn":"nqn.2024-01.example:pairs"}'
	type=block fs='' id=e2e-key-value context='{}'
	until_ok CreateVolume "$(create_request "$id")" || return 1
	take_context
	until_ok ControllerPublishVolume "$(attach_request)" || return 1
	take_publish
	csi_ask NodeStageVolume "$(stage_request)"
	[[ $code == FAILED_PRECONDITION && $answer == *'is a key/value namespace'*'only the character device ng'* ]] || { echo "stage: $answer"; return 1; }
	until_ok NodeUnstageVolume "$(unstage_request)" && until_ok ControllerUnpublishVolume "$(detach_request)" &&
		until_ok DeleteVolume "$(delete_request)" && nothing_left
}

lives() {
	local i
	type=mount fs=$3
	world_stream
	for ((i = 0; i < $2; i++)); do
		id=e2e-many-$1-$i context='{}'
		life || return 1
	done
	world_stream_end
}

# WORKERS lives at once, VOLUMES one after the other in each; with more workers than functions, attaching waits its turn.
many_volumes() {
	local worker pids=() status=0 kinds=(ext4 xfs)
	for ((worker = 0; worker < $1; worker++)); do
		(
			trap - EXIT
			lives "$worker" "$2" "${kinds[worker % 2]}"
		) &
		pids+=("$!")
	done
	for worker in "${pids[@]}"; do
		wait "$worker" || status=1
	done
	[ "$status" -eq 0 ] && nothing_left
}

# The API server is silent for three seconds: liveness answers during that time, and the call continues afterwards.
api_hangs() {
	type=mount fs=ext4 id=e2e-hang context='{}'
	kill -STOP "$SIM_PID"
	printf 'CreateVolume %s\n' "$(create_request "$id")" >&"${CSI[1]}"
	sleep 3
	"$CSI_CALL" -e "$ENDPOINT" -t 60 Probe || { kill -CONT "$SIM_PID"; return 1; }
	kill -CONT "$SIM_PID"
	read -r answer <&"${CSI[0]}"
	echo "$answer"
	until_ok CreateVolume "$(create_request "$id")" && until_ok DeleteVolume "$(delete_request)" && nothing_left
}

# The API server ends, and a new one starts without any objects.
api_restarts() {
	local port
	port=$(cat "$WORLD/port")
	type=mount fs=ext4 id=e2e-restart context='{}'
	world_stop "$SIM_PID"
	csi_ask CreateVolume "$(create_request "$id")"
	[ "$code" = UNAVAILABLE ] || { echo "without an API server: $answer"; return 1; }
	"$CSI_CALL" -e "$ENDPOINT" -t 60 Probe || return 1
	world_sim --seed --listen="127.0.0.1:$port" || return 1
	until_ok CreateVolume "$(create_request "$id")" && take_context && life && nothing_left
}

# A script beside the cases, since it mostly waits. Its exit status is kept in a file: bash forgets a process whose number is
# that of a later one.
beside() { # NAME
	(
		trap 'kill "$pid"; wait "$pid"; exit' TERM
		"test/e2e/$1.sh" >"$WORLD/$1" 2>&1 &
		pid=$!
		wait "$pid"
		echo $? >"$WORLD/$1.status"
	) &
	WORLD_PIDS+=($!)
}

succeeds() { # NAME
	until [ -s "$WORLD/$1.status" ]; do
		sleep 0.1
	done
	[ "$(<"$WORLD/$1.status")" = 0 ] && return 0
	cat "$WORLD/$1"
	return 1
}

beside stuck
beside host
beside host_watch
world_mount_helper || exit 1
world_sim --seed --hotplug-slots=4 --node="$OTHER_NODE" || exit 1
world_driver all --v=2 || exit 1
world_stream
# test/killpoints kills at every step; here, at other moments than between two steps.
for after in 0.003 0.03; do
	run_case "an ext4 volume whose driver is killed $after s into each step" life_with_kills "$after" mount ext4
done
run_case 'an xfs volume whose driver is killed 0.08 s into each step' life_with_kills 0.08 mount xfs
run_case 'a raw block volume whose driver is killed 0.01 s into each step' life_with_kills 0.01 block ''
run_case 'a volume made by hand is filled by one pod and then only read' readers
run_case 'a key/value namespace is no raw block volume' key_value
run_case 'a hot-plugged ext4 volume whose driver is killed 0.01 s into each step' hot_life_with_kills 0.01 mount ext4
run_case 'a hot-plugged raw block volume whose driver is killed 0.05 s into each step' hot_life_with_kills 0.05 block ''
run_case 'address, namespace and function come late' hot_late \
	'[{"dpf":"device-late","ms":1500},{"dpf":"pci-zero-first","ms":500},{"dpf":"late","value":"dpu.nvmeAttrs","ms":800}]'
run_case 'a plugged function whose controller does not get ready' hot_not_ready
run_case 'a filesystem whose function is unplugged comes back in another slot' hot_unplugged mount ext4 ''
run_case 'the driver is restarted while the function is away, raw block' hot_unplugged block '' kill
run_case 'a function moves to another slot while it is waited for' hot_moves
run_case 'a volume whose function is away is taken down and deleted' hot_gone_for_good
run_case 'the published address is that of another function' hot_elsewhere
share_cases
trusted_scenarios || exit 1
run_case 'twenty volumes live in parallel, four at a time' many_volumes 4 5
run_case 'eight at a time compete for four functions' many_volumes 8 1
run_case 'the API server hangs for three seconds' api_hangs
run_case 'the API server is gone and comes back empty' api_restarts
world_stream_end
world_stop "$DRIVER_PID"
run_case 'three volumes stick in umount, fsync and mkfs at once, and a fourth lives' succeeds stuck
run_case 'volumes on a host without Kubernetes, as docs/hosts/zero-trust.md says' succeeds host
run_case 'host watch: a host whose volumes follow the API server' succeeds host_watch
run_case 'no sanitizer has found anything' world_reports
printf 'e2e: %d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
