# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the variables of a volume are those of test/lib/requests.sh
# Volumes on functions that the DPU hot-plugs, for run.sh: when the function and its address come, that it goes away under
# a pod and comes back elsewhere, and whose functions are left alone. snap-sim needs --hotplug-slots=4.

# fault JSON-OF-FAULTS: adds them.
fault() {
	world_switch POST /sim/faults "$1" >/dev/null
}

no_faults() {
	world_switch DELETE /sim/faults >/dev/null
}

# plugging unplug|plug JSON: fails, and prints the answer, unless snap-sim has done it.
plugging() {
	world_curl --fail-with-body --data "$2" "$SIM_URL/sim/$1"
}

# refused METHOD JSON SECONDS CODE WORDS: the call must end so, with a deadline of so many seconds or more.
refused() {
	local answer seconds=$3
	while :; do
		answer=$("$CSI_CALL" -e "$ENDPOINT" -t "$seconds" "$1" "$2" 2>&1) && { echo "$1 was not refused: $answer"; return 1; }
		# The client's own text, or the call before has not ended: on a busy machine the driver needs more time.
		[[ $answer == *'DEADLINE_EXCEEDED: Deadline Exceeded'* || $answer == *ABORTED* && $4 != ABORTED ]] || break
		[ "$seconds" -lt 100 ] || break
		seconds=$((seconds * 3))
	done
	[[ $answer == *"$4"* && $answer == *"$5"* ]] || { echo "$1 instead of $4 ... $5: $answer"; return 1; }
}

hot_volume() { # NAME TYPE FS
	local parameters=$hotplug_parameters
	type=$2 fs=$3 id=$1 context='{}'
	until_ok CreateVolume "$(create_request "$id")" || return 1
	take_context
}

attach_stage_publish() {
	until_ok ControllerPublishVolume "$(attach_request)" || return 1
	take_publish
	until_ok NodeStageVolume "$(stage_request)" && until_ok NodePublishVolume "$(publish_request)"
}

take_down() {
	until_ok NodeUnpublishVolume "$(unpublish_request)" && until_ok NodeUnstageVolume "$(unstage_request)"
}

hot_end() {
	take_down && until_ok ControllerUnpublishVolume "$(detach_request)" && until_ok DeleteVolume "$(delete_request)" &&
		no_faults && nothing_left
}

# The device and each part of its address come late; every wait succeeds, and no other device is used.
hot_late() { # FAULTS
	fault "$1" || return 1
	hot_volume e2e-hot-late mount ext4 && attach_stage_publish && hot_end
}

hot_life_with_kills() { # SECONDS TYPE FS
	local parameters=$hotplug_parameters
	life_with_kills "$@"
}

# The slot has power and the function exists, but its controller does not get ready.
hot_not_ready() {
	fault '{"dpf":"bind-ignored","name":"^e2e-hot-dead$"}' || return 1
	hot_volume e2e-hot-dead mount ext4 && until_ok ControllerPublishVolume "$(attach_request)" || return 1
	take_publish
	refused NodeStageVolume "$(stage_request)" 2 DEADLINE_EXCEEDED '0000:30:00.0 has no driver' || return 1
	no_faults
	until_ok NodeStageVolume "$(stage_request)" && hot_end
}

write_data() {
	head -c 1M /dev/urandom >"$WORLD/data" || return 1
	case $type in
	mount) cp "$WORLD/data" "$target/data" && sync -f "$target/data" ;;
	block) dd if="$WORLD/data" of="$target" conv=fsync status=none ;;
	esac
}

same_data() {
	case $type in
	mount) cmp "$WORLD/data" "$target/data" ;;
	block) cmp -n 1048576 "$WORLD/data" "$target" ;;
	esac
}

# The function disappears while the pod uses it. Unpublish and unstage succeed without it; when it returns, in another slot,
# the same publish context leads to it, and the data are intact. KILL: the driver is restarted while the function is absent.
hot_unplugged() { # TYPE FS KILL
	hot_volume "e2e-hot-away-$1" "$1" "$2" && attach_stage_publish && write_data || return 1
	plugging unplug "{\"volume\":\"$id\"}" || return 1
	if [ "$3" = kill ]; then
		child_signal KILL "$DRIVER_PID"
		wait "$DRIVER_PID" 2>/dev/null
		world_stream_end
		world_driver all --v=2 || return 1
		world_stream
	fi
	refused NodePublishVolume "$(publish_request | sed s,pods/pod-1,pods/pod-2,)" 20 UNAVAILABLE 'no longer exists' || return 1
	refused NodeGetVolumeStats "{\"volume_id\":\"$id\",\"volume_path\":\"$target\"}" 20 UNAVAILABLE 'no longer exists' || return 1
	take_down || return 1
	refused NodeStageVolume "$(stage_request)" 2 DEADLINE_EXCEEDED 'no PCI function 0000:30:00.0' || return 1
	plugging plug "{\"volume\":\"$id\",\"slot\":2}" || return 1
	until_ok NodeStageVolume "$(stage_request)" && until_ok NodePublishVolume "$(publish_request)" && same_data || return 1
	grep -q " staged volume=$id .* pci=0000:32:00.0 " "$WORLD/all.log" || { echo 'it was not staged from slot 2'; return 1; }
	hot_end
}

# It moves to another slot while a call waits for it in the first one.
hot_moves() {
	local status
	fault '{"dpf":"bind-ignored","name":"^e2e-hot-moves$"}' || return 1
	hot_volume e2e-hot-moves mount ext4 && until_ok ControllerPublishVolume "$(attach_request)" || return 1
	take_publish
	printf 'NodeStageVolume %s\n' "$(stage_request)" >&"${CSI[1]}"
	sleep 0.5
	plugging unplug "{\"volume\":\"$id\"}" && no_faults && plugging plug "{\"volume\":\"$id\",\"slot\":3}"
	status=$?
	read -r answer <&"${CSI[0]}"
	[ "$status" -eq 0 ] || return 1
	[[ $answer == *'"code":"OK"'* || $answer == *'changed from 0000:30:00.0 to 0000:33:00.0 during the wait'* ]] || { echo "$answer"; return 1; }
	until_ok NodeStageVolume "$(stage_request)" && hot_end
}

# It is absent when the pod ends permanently: everything can be unmounted, and the volume deleted.
hot_gone_for_good() {
	hot_volume e2e-hot-gone mount xfs && attach_stage_publish && write_data &&
		plugging unplug "{\"volume\":\"$id\"}" && hot_end
}

# The published address is that of another function: it is never used, whatever it is; the right one is found by its VUID.
hot_elsewhere() {
	local first second own wrong without address
	hot_volume e2e-hot-first mount ext4 && attach_stage_publish || return 1
	first=$id second=e2e-hot-second
	hot_volume "$second" mount ext4 && until_ok ControllerPublishVolume "$(attach_request)" || return 1
	take_publish
	own=$publish
	without=$(jq -c 'del(."nv-funcVUID")' <<<"$own")
	wrong=$(jq -c '."nv-pciDeviceAddress" = "0000:30:00.0"' <<<"$without")
	refused NodeStageVolume "$(publish=$wrong stage_request)" 2 FAILED_PRECONDITION "not this volume's disk" || return 1
	for address in 0000:26:00.0 0000:26:00.1 0000:2f:00.0 0000:00:04.0; do
		wrong=$(jq -c --arg a "$address" '."nv-pciDeviceAddress" = $a' <<<"$without")
		refused NodeStageVolume "$(publish=$wrong stage_request)" 3 FAILED_PRECONDITION "$address" || return 1
	done
	for address in 0000:30:00.0 30:00.0 0000:26:00.0 0000:33:00.0 0003:31:00.0 31:00.0; do
		publish=$(jq -c --arg a "$address" '."nv-pciDeviceAddress" = $a' <<<"$own")
		until_ok NodeStageVolume "$(stage_request)" && until_ok NodeUnstageVolume "$(unstage_request)" || return 1
	done
	publish=$own
	until_ok ControllerUnpublishVolume "$(detach_request)" && until_ok DeleteVolume "$(delete_request)" || return 1
	id=$first
	volume_paths
	hot_end
}
