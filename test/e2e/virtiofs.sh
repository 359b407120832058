# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the variables of a volume are those of test/lib/requests.sh
# Volumes by virtio-fs, for run.sh: shared by two nodes, next to volumes of the other kinds, and the effects when the daemon
# of a share dies or hangs, the function disappears, or the tag belongs to another device. snap-sim needs --node=$OTHER_NODE.

OTHER_NODE=dpu-host-2
OTHER_PID=

share_volume() { # NAME [ACCESS-MODE]
	local parameters=$virtiofs_parameters
	type=mount fs='' id=$1 context='{}' access_mode=${2:-MULTI_NODE_MULTI_WRITER}
	until_ok CreateVolume "$(create_request "$id")" || return 1
	take_context
}

# All of it was removed: including tags, daemons, and the mounts by which the driver reads tags.
share_end() {
	take_down && until_ok ControllerUnpublishVolume "$(detach_request)" && until_ok DeleteVolume "$(delete_request)" || return 1
	access_mode=SINGLE_NODE_WRITER
	no_faults
	nothing_shared
}

nothing_shared() {
	local left
	nothing_left || return 1
	left=$(find "$WORLD"/sim/*/tags "$WORLD"/sim/*/daemons "$WORLD"/sim/shares "$WORLD"/run*/looking -mindepth 1 2>/dev/null)
	[ -z "$left" ] || { printf 'left of shares: %s\n' "$left"; return 1; }
}

daemon() { # WHAT: kill, stop, continue or restart
	world_curl --fail-with-body --data "{\"volume\":\"$id\",\"node\":\"$NODE\",\"do\":\"$1\"}" "$SIM_URL/sim/share" >"$WORLD/switched"
}

share_life_with_kills() { # SECONDS
	local parameters=$virtiofs_parameters
	access_mode=MULTI_NODE_MULTI_WRITER
	life_with_kills "$1" mount ''
	local status=$?
	access_mode=SINGLE_NODE_WRITER
	[ "$status" -eq 0 ] && nothing_shared
}

# ---- two nodes ----

# on_other COMMAND [ARG...]: with the paths, the endpoint and the driver of the other node.
on_other() {
	local NODE=$OTHER_NODE KUBELET=$WORLD/kubelet2 PLUGIN_DIR=$WORLD/run2 staging target DRIVER_PID=$OTHER_PID
	local SOCKET=$PLUGIN_DIR/csi.sock ENDPOINT=unix://$WORLD/run2/csi.sock
	volume_paths
	"$@"
}

# Calls of the other node do not use the stream.
call() { # METHOD JSON
	local end=$((SECONDS + 300)) said
	until said=$("$CSI_CALL" -e "$ENDPOINT" -t 10 "$1" "$2" 2>&1); do
		[ "$SECONDS" -lt "$end" ] || { echo "$1 on $NODE: $said"; return 1; }
		sleep 0.1
	done
}

other_driver() {
	mkdir -p "$WORLD/run2"
	on_other world_driver node --v=2 || return 1
	OTHER_PID=${WORLD_PIDS[-1]}
}

attach_stage_publish_on_other() {
	local publish
	until_ok ControllerPublishVolume "$(attach_request)" || return 1
	take_publish
	call NodeStageVolume "$(stage_request)" && call NodePublishVolume "$(publish_request)"
}

take_down_on_other() {
	call NodeUnpublishVolume "$(unpublish_request)" && call NodeUnstageVolume "$(unstage_request)" &&
		until_ok ControllerUnpublishVolume "$(detach_request)"
}

share_two_nodes() {
	local other i
	share_volume e2e-share-two && attach_stage_publish && on_other attach_stage_publish_on_other || return 1
	other=$WORLD/kubelet2/pods/pod-1/volumes/$id
	for i in 1 2 3; do
		echo "one $i" >>"$target/log" && echo "two $i" >>"$other/log" || return 1
	done
	[ "$(tr '\n' ' ' <"$target/log")" = 'one 1 two 1 one 2 two 2 one 3 two 3 ' ] || { cat "$target/log"; return 1; }
	cmp "$target/log" "$other/log" || return 1
	mkdir "$other/dir" && mv "$target/log" "$target/dir/log" || return 1
	[ -s "$other/dir/log" ] || { echo 'a rename is not seen'; return 1; }
	# The other node's driver is killed, and its share continues.
	child_signal KILL "$OTHER_PID"
	wait "$OTHER_PID" 2>/dev/null
	echo more >>"$other/dir/log" && other_driver || return 1
	[ "$(wc -l <"$target/dir/log")" = 7 ] || { echo 'a line of the other node is missing'; return 1; }
	on_other take_down_on_other || return 1
	[ -s "$target/dir/log" ] || { echo 'the first node has lost the share'; return 1; }
	share_end
}

# ---- access modes ----

share_modes() {
	local context2 second=$KUBELET/pods/pod-2/volumes
	share_volume e2e-share-one SINGLE_NODE_WRITER && attach_stage_publish || return 1
	csi_ask ControllerPublishVolume "$(NODE=$OTHER_NODE attach_request)"
	[ "$code" = FAILED_PRECONDITION ] || { echo "a second node for ReadWriteOnce: $answer"; return 1; }
	# A second pod of the node, which may only read.
	mkdir -p "$second"
	echo seen >"$target/x" || return 1
	until_ok NodePublishVolume "$(target=$second/$id publish_request | sed 's/}$/,"readonly":true}/')" || return 1
	[ "$(cat "$second/$id/x")" = seen ] || { echo 'the second pod sees other files'; return 1; }
	! touch "$second/$id/y" 2>/dev/null || { echo 'a read-only pod can write'; return 1; }
	until_ok NodeUnpublishVolume "$(target=$second/$id unpublish_request)" && share_end || return 1

	share_volume e2e-share-read MULTI_NODE_READER_ONLY && attach_stage_publish || return 1
	! touch "$target/y" 2>/dev/null || { echo 'ReadOnlyMany can be written'; return 1; }
	share_end
}

# ---- a daemon that dies or hangs, a function that goes ----

stats_request() {
	printf '{"volume_id":"%s","volume_path":"%s"}' "$id" "$target"
}

second_pod_request() {
	publish_request | sed s,pods/pod-1,pods/pod-2,
}

# It is dead: nothing works, everything can be unmounted; once it is back the data are intact.
share_daemon_dies() {
	share_volume e2e-share-dies && attach_stage_publish && write_data && daemon kill || return 1
	refused NodePublishVolume "$(second_pod_request)" 20 UNAVAILABLE "$id" || return 1
	refused NodeGetVolumeStats "$(stats_request)" 20 UNAVAILABLE '' || return 1
	take_down && daemon restart || return 1
	until_ok NodeStageVolume "$(stage_request)" && until_ok NodePublishVolume "$(publish_request)" && same_data || return 1
	# The same again, with the retry of NodeStageVolume while the dead mount still exists.
	until_ok NodeUnpublishVolume "$(unpublish_request)" && daemon kill && daemon restart &&
		until_ok NodeStageVolume "$(stage_request)" && until_ok NodePublishVolume "$(publish_request)" && same_data || return 1
	share_end
}

share_while_it_hangs() {
	refused NodeGetVolumeStats "$(stats_request)" 20 UNAVAILABLE '' &&
		until_ok NodeUnpublishVolume "$(unpublish_request)" &&
		refused NodeUnstageVolume "$(unstage_request)" 20 UNAVAILABLE 'would block on its server' &&
		refused NodeStageVolume "$(stage_request)" 20 UNAVAILABLE 'has not answered'
}

# It hangs: calls end in time and report it, and the pod's mount is removed. The last mount of the share is not, because
# removing that would wait for the daemon.
share_daemon_hangs() {
	share_volume e2e-share-hangs && attach_stage_publish && write_data && daemon stop || return 1
	share_while_it_hangs || { daemon continue; return 1; }
	daemon continue && until_ok NodeUnstageVolume "$(unstage_request)" || return 1
	until_ok NodeStageVolume "$(stage_request)" && until_ok NodePublishVolume "$(publish_request)" && same_data && share_end
}

# The function disappears under a writer and returns in another slot. KILL: the driver is restarted while it is absent.
share_unplugged() { # KILL
	local writer
	share_volume "e2e-share-away-${1:-plain}" && attach_stage_publish && write_data || return 1
	(while echo line >>"$target/log"; do sleep 0.01; done 2>/dev/null) &
	writer=$!
	sleep 0.1
	plugging unplug "{\"volume\":\"$id\"}" >"$WORLD/switched" || { child_signal TERM "$writer"; cat "$WORLD/switched"; return 1; }
	wait "$writer"
	if [ "$1" = kill ]; then
		child_signal KILL "$DRIVER_PID"
		wait "$DRIVER_PID" 2>/dev/null
		world_stream_end
		world_driver all --v=2 || return 1
		world_stream
	fi
	refused NodePublishVolume "$(second_pod_request)" 20 UNAVAILABLE "$id" || return 1
	take_down || return 1
	refused NodeStageVolume "$(stage_request)" 2 DEADLINE_EXCEEDED 'no PCI function' || return 1
	plugging plug "{\"volume\":\"$id\",\"slot\":2}" >"$WORLD/switched" || { cat "$WORLD/switched"; return 1; }
	until_ok NodeStageVolume "$(stage_request)" && until_ok NodePublishVolume "$(publish_request)" && same_data || return 1
	[ -s "$target/log" ] || { echo 'the lines of the writer are lost'; return 1; }
	share_end
}

# Its pod ends while it is absent permanently.
share_gone_for_good() {
	share_volume e2e-share-gone && attach_stage_publish && plugging unplug "{\"volume\":\"$id\"}" && share_end
}

# ---- tags ----

share_late() { # FAULTS
	fault "$1" || return 1
	share_volume e2e-share-late && attach_stage_publish && share_end
}

# The status names a tag that is not the device's: nothing is mounted.
share_wrong_tag() {
	fault '{"dpf":"wrong-tag"}' || return 1
	share_volume e2e-share-wrong && until_ok ControllerPublishVolume "$(attach_request)" || return 1
	take_publish
	refused NodeStageVolume "$(stage_request)" 5 FAILED_PRECONDITION another-devices-tag || return 1
	share_end
}

# Two volumes have one tag: the second is never given the first one's files, and is staged once the tag is its own.
share_tag_twice() {
	local first
	fault '{"dpf":"tag","value":"same-tag"}' || return 1
	share_volume e2e-share-tag1 && attach_stage_publish && write_data || return 1
	first=$id
	share_volume e2e-share-tag2 && until_ok ControllerPublishVolume "$(attach_request)" || return 1
	take_publish
	refused NodeStageVolume "$(stage_request)" 5 FAILED_PRECONDITION same-tag || return 1
	id=$first
	volume_paths
	same_data && take_down && until_ok ControllerUnpublishVolume "$(detach_request)" || return 1
	id=e2e-share-tag2
	volume_paths
	until_ok NodeStageVolume "$(stage_request)" && until_ok NodePublishVolume "$(publish_request)" || return 1
	[ -z "$(ls -A "$target")" ] || { echo "files of the first volume: $(ls -A "$target")"; return 1; }
	take_down && until_ok ControllerUnpublishVolume "$(detach_request)" && until_ok DeleteVolume "$(delete_request)" || return 1
	id=$first
	volume_paths
	until_ok ControllerPublishVolume "$(attach_request)" || return 1
	take_publish
	until_ok NodeStageVolume "$(stage_request)" && until_ok NodePublishVolume "$(publish_request)" && same_data && share_end
}

# ---- three kinds in one process ----

# Each of the three exists twice, staged and published, with the function that it is below or with its tag.
three_are_inspected() {
	local seen
	"$DRIVER" inspect node -o json --pid="$DRIVER_PID" >"$WORLD/inspected" 2>&1
	seen=$(jq -r '[.node.unnamedMounts[] | .kind + (if .device.pci // .tag then "+" else "" end)] | sort | join(" ")' "$WORLD/inspected")
	[ "$seen" = 'disk+ disk+ disk+ disk+ share+ share+' ] || { echo "inspect says: $seen $(head -c 3000 "$WORLD/inspected")"; return 1; }
}

share_three_kinds() {
	local kinds=(vf hot share) kind
	life_of_kind() {
		case $1 in
		vf) type=mount fs=xfs id=e2e-kind-vf context='{}' access_mode=SINGLE_NODE_WRITER &&
			until_ok CreateVolume "$(create_request "$id")" && take_context ;;
		hot) access_mode=SINGLE_NODE_WRITER && hot_volume e2e-kind-hot mount ext4 ;;
		share) share_volume e2e-kind-share ;;
		esac
	}
	for kind in "${kinds[@]}"; do
		life_of_kind "$kind" && attach_stage_publish && echo "$kind" >"$target/kind" || return 1
	done
	for kind in "${kinds[@]}"; do
		[ "$(cat "$KUBELET/pods/pod-1/volumes/e2e-kind-$kind/kind")" = "$kind" ] || { echo "$kind has another one's file"; return 1; }
		grep -E " $KUBELET/pods/pod-1/volumes/e2e-kind-$kind " /proc/self/mountinfo | awk '{split($0, half, " - "); print half[2]}'
	done | awk '{print $1}' | tr '\n' ' ' >"$WORLD/types"
	[ "$(cat "$WORLD/types")" = 'xfs ext4 fuse.virtiofs ' ] || { echo "mounted: $(cat "$WORLD/types")"; return 1; }
	three_are_inspected || return 1
	for kind in "${kinds[@]}"; do
		id=e2e-kind-$kind access_mode=SINGLE_NODE_WRITER
		[ "$kind" = share ] && access_mode=MULTI_NODE_MULTI_WRITER
		volume_paths
		take_down && until_ok ControllerUnpublishVolume "$(detach_request)" && until_ok DeleteVolume "$(delete_request)" || return 1
	done
	access_mode=SINGLE_NODE_WRITER
	nothing_shared
}

# ---- kernels that show no tags, hosts that blacklist virtio_pci ----

# Restarts snap-sim with the options, and the driver: the versions of objects restart, too.
other_kernel() {
	local port
	port=$(cat "$WORLD/port")
	world_stream_end
	world_stop "$DRIVER_PID"
	world_stop "$SIM_PID"
	world_sim --seed --listen="127.0.0.1:$port" --hotplug-slots=4 --node="$OTHER_NODE" "$@" && world_driver all --v=2 || return 1
	world_stream
}

# The driver binds the function, after it has verified that no other device has the tag.
share_of_blacklisting_host() {
	other_kernel --blacklist-virtio --no-virtiofs-tags || return 1
	share_volume e2e-share-asked && attach_stage_publish && write_data || return 1
	local first=$id first_publish=$publish
	share_volume e2e-share-asked2 && attach_stage_publish && share_end_but_checks || return 1
	id=$first publish=$first_publish access_mode=MULTI_NODE_MULTI_WRITER
	volume_paths
	same_data && share_end
}

share_end_but_checks() {
	take_down && until_ok ControllerUnpublishVolume "$(detach_request)" && until_ok DeleteVolume "$(delete_request)"
}

# Functions that were bound before, and no tags: a single one is certain, a second one is not.
share_of_old_kernel() {
	other_kernel --no-virtiofs-tags || return 1
	share_volume e2e-share-old && attach_stage_publish && write_data || return 1
	local first=$id first_publish=$publish
	share_volume e2e-share-old2 && until_ok ControllerPublishVolume "$(attach_request)" || return 1
	take_publish
	refused NodeStageVolume "$(stage_request)" 5 FAILED_PRECONDITION 'could not verify' || return 1
	echo 0000:31:00.0 >"$WORLD/sim/$NODE/sys/bus/pci/drivers/virtio-pci/unbind" || return 1
	until_ok NodeStageVolume "$(stage_request)" && until_ok NodePublishVolume "$(publish_request)" && share_end_but_checks || return 1
	id=$first publish=$first_publish access_mode=MULTI_NODE_MULTI_WRITER
	volume_paths
	same_data && share_end
}

share_cases() {
	other_driver || { echo 'the driver of the other node did not start'; return 1; }
	run_case 'a virtio-fs volume whose driver is killed 0.01 s into each step' share_life_with_kills 0.01
	run_case 'two nodes write and read one virtio-fs volume' share_two_nodes
	run_case 'virtio-fs volumes of one node, of readers, and for a pod that only reads' share_modes
	run_case 'a virtio-fs volume, one on a VF and a hot-plugged one live side by side' share_three_kinds
	run_case 'the daemon of a share dies and comes back' share_daemon_dies
	run_case 'the daemon of a share hangs and goes on' share_daemon_hangs
	run_case 'a share is unplugged under a writer and comes back in another slot' share_unplugged ''
	run_case 'the driver is restarted while the share is away' share_unplugged kill
	run_case 'a volume whose share is away is taken down and deleted' share_gone_for_good
	run_case 'the tag of a share comes late, and then its function' share_late \
		'[{"dpf":"late","value":"dpu.virtioFSAttrs","ms":800},{"dpf":"device-late","ms":1500}]'
	run_case 'the address of a share is 00:00.0 at first' share_late '{"dpf":"pci-zero-first","ms":800}'
	run_case 'the address of a share is the one of a VF at first' share_late '{"dpf":"pci-other-first","value":"0000:26:00.1","ms":800}'
	run_case 'a share with another tag than the attachment says is not mounted' share_wrong_tag
	run_case 'a share whose tag another volume has waits until that is gone' share_tag_twice
	run_case 'a share is bound by the driver where virtio_pci is blacklisted' share_of_blacklisting_host
	run_case 'a share that the kernel bound is only certain alone where no tags are shown' share_of_old_kernel
	world_stop "$OTHER_PID"
}
