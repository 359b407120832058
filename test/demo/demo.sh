#!/usr/bin/env bash
# The lives of a filesystem volume and a raw block volume on VFs, of a volume on a hot-plugged function and of a virtio-fs
# share on two nodes, on simulated DPUs, told step by step: every step is a gRPC call to the real driver, which uses a
# Kubernetes API over HTTP and mounts real block devices (and for virtio-fs a folder, by FUSE). Needs root. Cleans up after
# itself, even after Ctrl-C.
set -u
cd "$(dirname "$0")/../.." || exit 1
. test/lib/world.sh
. test/lib/requests.sh

world_need_root demo
world_begin
began=$EPOCHREALTIME calls=0 refusals=0
OTHER_NODE=dpu-host-2
bold='' dim='' green='' red='' plain=''
[ -t 1 ] && bold=$'\e[1m' dim=$'\e[2m' green=$'\e[32m' red=$'\e[31m' plain=$'\e[0m'

chapter() {
	printf '\n%s%s%s\n' "$bold" "$1" "$plain"
}

# A line of the story with its time in ms, and lines below it that show the state now.
step() {
	printf '%s%9.1f ms%s  %s\n' "$green" "$1" "$plain" "$2"
}
show() { # [COLOUR]
	sed "s/^/              ${1-$dim}/; s/\$/$plain/"
}

# Sets $reply, or ends the demo.
call() {
	local text=$1 method=$2 request=$3
	ask "$method" "$request"
	if [ "$code" != OK ]; then
		printf '\ndemo: %s failed: %s\n' "$method" "$(jq -r '.code + ": " + .error' <<<"$answer")" >&2
		tail -n 5 "$WORLD/all.log" >&2
		exit 1
	fi
	step "$(jq -r .ms <<<"$answer")" "$method: $text"
	reply=$(jq -c .reply <<<"$answer")
}

ask() {
	csi_ask "$1" "$2" || exit 1
	calls=$((calls + 1))
}

# on_other_node CALL-OF-THIS-FILE [ARG...]: the driver of the other node gets its calls.
on_other_node() {
	local NODE=$OTHER_NODE KUBELET=$WORLD/kubelet2 PLUGIN_DIR=$WORLD/run2 staging target
	local SOCKET=$PLUGIN_DIR/csi.sock ENDPOINT=unix://$WORLD/run2/csi.sock
	volume_paths
	"$@"
}
other_driver() {
	mkdir "$WORLD/run2" && on_other_node world_driver node --v=2
}

# Work of the pod, timed like a call.
work() {
	local text=$1 start=$EPOCHREALTIME
	shift
	"$@" || exit 1
	step "$(awk "BEGIN {print ($EPOCHREALTIME - $start) * 1000}")" "$text"
}

# The mounts for pods, without this demo's folder in their paths. A raw block volume is a device file: its "root" is the node.
mounts() {
	awk -v at="$KUBELET/" 'index($5, at) == 1 {
		split($0, half, " - "); split(half[2], fs, " ")
		what = fs[2]; kind = "type " fs[1] " (" $6 ")"
		if ($4 ~ /\/dev\//) { what = $4; kind = "as a device file" }
		sub(/.*\//, "", what)
		printf "%s on %s %s\n", what, substr($5, length(at)), kind
	}' /proc/self/mountinfo
}

objects() {
	world_api "$1" | jq -r "$2"
}

volume_object() {
	objects "dpuvolumes/$1" '"DPUVolume \(.metadata.name): \(.status.phase), " +
		"\(.status.state.volumeInfo.capacity.storage) from vendor \(.status.state.selectedDPUStorageVendorName)"'
}

attachment_object() {
	objects "dpuvolumeattachments/$NODE-$1" '"DPUVolumeAttachment \(.metadata.name): PCI function \(.status.dpu.pciAddress)",
		(.status.dpu.nvmeAttrs // empty | "namespace \(.namespaceID), UUID \(.namespaceUUID)"),
		(.status.dpu.virtioFSAttrs // empty | "virtio-fs tag \(.filesystemTag)")'
}

create() {
	type=$1 fs=
	call "1 GiB, $2" CreateVolume "$(create_request "pvc-$(head -c 8 /proc/sys/kernel/random/uuid)")"
	id=$(jq -r .volume.volume_id <<<"$reply")
	context=$(jq -c '.volume.volume_context // {}' <<<"$reply")
	volume_paths
	volume_object "$id" | show
}

attach() {
	call "${1:-a VF of the DPU gets the volume}" ControllerPublishVolume "$(attach_request)"
	publish=$(jq -c .publish_context <<<"$reply")
	attachment_object "$id" | show
}

stage() {
	call "$1" NodeStageVolume "$(stage_request)"
}

publish() {
	call "the pod's path" NodePublishVolume "$(publish_request)"
	mounts | show
}

release() {
	call 'the pod has gone' NodeUnpublishVolume "$(unpublish_request)"
	call 'flushed, let go' NodeUnstageVolume "$(unstage_request)"
	[ -z "$(mounts)" ] || { mounts; echo 'demo: still mounted' >&2; exit 1; }
	detach "$@"
}

detach() {
	call "${1:-the VF is free again}" ControllerUnpublishVolume "$(detach_request)"
}

delete() {
	call 'gone from the API and from the storage' DeleteVolume "$(delete_request)"
}

write_files() {
	dd if=/dev/urandom of="$target/data" bs=1M count=16 conv=fsync status=none && sha256sum <"$target/data" >"$WORLD/sum"
}
check_files() {
	sha256sum <"$target/data" | cmp -s - "$WORLD/sum" || { echo 'demo: the data has changed' >&2; false; }
}
write_block() {
	dd if=/dev/urandom of="$WORLD/pattern" bs=1M count=16 status=none && dd if="$WORLD/pattern" of="$target" bs=1M conv=fsync status=none
}
check_block() {
	cmp -s -n $((16 << 20)) "$WORLD/pattern" "$target" || { echo 'demo: the data has changed' >&2; false; }
}

# On the other node. Its calls do not use the stream.
other_call() {
	local text=$1 start=$EPOCHREALTIME
	shift
	"$CSI_CALL" -e "$ENDPOINT" -t 60 "$@" >"$WORLD/other" 2>&1 || { cat "$WORLD/other" >&2; exit 1; }
	calls=$((calls + 1))
	step "$(awk "BEGIN {print ($EPOCHREALTIME - $start) * 1000}")" "$1 on $NODE: $text"
}
other_stage_publish() {
	other_call 'mounted there' NodeStageVolume "$(stage_request)"
	other_call "a pod's path there" NodePublishVolume "$(publish_request)"
	mounts | show
}
other_reads() {
	on_other_node same_files "$1"
}
same_files() {
	cmp "$1/data" "$target/data" && echo seen >"$target/answer" && [ "$(cat "$1/answer")" = seen ]
}
other_release() {
	other_call 'the pod has gone' NodeUnpublishVolume "$(unpublish_request)"
	other_call 'let go' NodeUnstageVolume "$(unstage_request)"
	detach 'the function is unplugged'
}

printf '%ssnap-csi demo%s: two hosts with simulated DPUs: %s NVMe functions and 2 hot-plug slots each, on loop devices.\n' "$bold" "$plain" "$FUNCTIONS"

chapter 'The cluster and the driver'
work 'snap-sim: a Kubernetes API with the storage objects of DPF, and the DPUs of two hosts' world_sim --node="$OTHER_NODE" --hotplug-slots=2
work 'mount.snapsim: mounts what snap-sim serves as virtio-fs' world_mount_helper
work 'snap-csi-plugin --mode=all: answers Probe' world_driver all --v=2
world_stream
call 'who are you' GetPluginInfo '{}'
jq -r '"\(.name) \(.vendor_version)"' <<<"$reply" | show
call 'which node is this' NodeGetInfo '{}'
jq -r '"\(.node_id), room for \(.max_volumes_per_node) volumes"' <<<"$reply" | show

chapter "The administrator's part"
work 'DPUStorageVendor example-vendor, DPUStoragePolicy example-policy' world_apply test/demo/storage.json
objects dpustoragepolicies/example-policy '"DPUStoragePolicy \(.metadata.name): vendors \(.spec.dpuStorageVendors | join(", ")), " +
	"Ready=\(.status.conditions // [] | map(select(.type == "Ready"))[0].status // "not yet")"' | show
printf '%12s  StorageClass snap-nvme: %s\n' '' "$(jq -r 'to_entries | map("\(.key)=\(.value)") | join(" ")' <<<"$parameters")"

chapter 'A filesystem volume'
create mount ext4
attach
stage 'found by PCI function, namespace and UUID; blank, so mkfs.ext4; mounted'
publish
work 'the pod writes 16 MiB and syncs' write_files
call 'as kubelet asks for its metrics' NodeGetVolumeStats "{\"volume_id\":\"$id\",\"volume_path\":\"$target\"}"
jq -r '.usage[] | "\(.unit): \(.used) used of \(.total)"' <<<"$reply" | show
release

chapter 'The same volume, attached again'
attach
stage 'has its filesystem: not formatted, mounted'
publish
work 'the data is there, byte for byte' check_files
release
delete

chapter 'A raw block volume'
create block 'raw block'
attach
stage 'found and checked, nothing written'
publish
work 'the pod writes 16 MiB to the device' write_block
release
attach
stage 'the same device again'
publish
work 'the data is there, byte for byte' check_block
release

chapter 'A mistake that would cost data'
attach
type=mount
ask NodeStageVolume "$(stage_request)"
if [ "$code" = OK ]; then
	echo 'demo: a volume with data was formatted' >&2
	exit 1
fi
refusals=$((refusals + 1))
step "$(jq -r .ms <<<"$answer")" 'NodeStageVolume as a filesystem, of the raw volume that has data: refused'
jq -r '.code + ": " + .error' <<<"$answer" | sed "s|$WORLD/sim/$NODE||g" | fold -s -w 100 | show "$red"
detach
delete

chapter 'A volume on a hot-plugged function'
parameters=$hotplug_parameters
create mount 'ext4'
attach 'the DPU plugs a function with the volume into the host'
stage 'found in its slot by its VUID; blank, so mkfs.ext4; mounted'
publish
work 'the pod writes 16 MiB and syncs' write_files
release 'the function is unplugged'
delete

chapter 'A share for many pods on many nodes: virtio-fs'
parameters=$virtiofs_parameters access_mode=MULTI_NODE_MULTI_WRITER
work "snap-csi-plugin --mode=node on $OTHER_NODE: answers Probe" other_driver
create mount 'ReadWriteMany'
attach "the DPU of $NODE plugs a function in that shares the volume"
stage 'its tag is the one that the kernel shows for this function; mounted'
publish
first=$target
on_other_node attach "the DPU of $OTHER_NODE does so, too"
on_other_node other_stage_publish
work "a pod on $NODE writes 16 MiB and syncs" write_files
work "a pod on $OTHER_NODE reads them, byte for byte" other_reads "$first"
on_other_node other_release
release 'the function is unplugged'
delete
access_mode=SINGLE_NODE_WRITER

chapter 'What is left'
left=$(objects dpuvolumes '.items | length')/$(objects dpuvolumeattachments '.items | length')
printf '%12s  DPUVolumes/DPUVolumeAttachments %s, mounts %s, loop devices of volumes %s\n' '' "$left" \
	"$(mounts | wc -l)" "$(world_loops | wc -l)"
printf '\ndemo: 4 volumes, %d calls, %d refused on purpose, %.1f s; everything is cleaned up\n' "$calls" "$refusals" \
	"$(awk "BEGIN {print $EPOCHREALTIME - $began}")"
