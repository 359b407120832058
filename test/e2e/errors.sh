#!/usr/bin/env bash
# Walks the error paths of CreateVolume, ControllerPublishVolume and NodeStageVolume against snap-sim and its faults,
# and prints them as a table: what happened, code, text, and what is left behind. A code that callers take as final
# ("nothing happened, nothing to clean up") must leave nothing. Needs root. Ends with "errors: N passed, N failed".
set -u
cd "$(dirname "$0")/../.." || exit 1
. test/lib/world.sh
. test/lib/requests.sh

world_need_root errors
KEEP_LOGS=$BUILD/logs/errors
world_begin
passed=0 failed=0 rows=0

# After these codes the caller retries or undoes; all others are final. RESOURCE_EXHAUSTED is final for CreateVolume only.
is_final() {
	case "$1 $2" in
	*' CANCELLED' | *' DEADLINE_EXCEEDED' | *' UNAVAILABLE' | *' ABORTED') return 1 ;;
	'CreateVolume RESOURCE_EXHAUSTED') return 0 ;;
	*' RESOURCE_EXHAUSTED') return 1 ;;
	esac
}

# Prints objects, mounts, files and bound functions, one per line.
world_state() {
	for what in dpuvolumes dpuvolumeattachments; do
		world_api "$what" | jq -r '.items[] | .kind + " " + .metadata.name +
			if .metadata.deletionTimestamp then " (being deleted)" else "" end'
	done
	awk -v at="$WORLD/kubelet" 'index($5, at) == 1 {print "mount " $5}' /proc/self/mountinfo
	find "$WORLD/kubelet" "$WORLD/run" -mindepth 1 ! -type d ! -name 'csi.sock*' -printf '%y %p\n' 2>/dev/null
	for function in "$WORLD/sim/$NODE"/sys/bus/pci/devices/*; do
		[ -e "$function/physfn" ] || continue
		printf 'function %s driver=%s override=%s\n' "${function##*/}" \
			"$(basename "$(readlink "$function/driver" || echo none)")" "$(cat "$function/driver_override")"
	done
}

# row WHAT CODE METHOD REQUEST [FAULT]: makes the call, prints a line of the table and checks it.
row() {
	local what=$1 want=$2 method=$3 request=$4 fault=${5:-} left text verdict=ok
	world_state | sort >"$WORLD/before"
	if [ -n "$fault" ]; then
		world_switch POST /sim/faults "$fault" | grep -q '"kind":"Status"' && {
			echo "errors: snap-sim does not take $fault" >&2
			exit 1
		}
	fi
	csi_ask "$method" "$request" || exit 1
	left=$(world_state | sort | comm -13 "$WORLD/before" - | sed "s|$WORLD/||" | paste -sd ';')
	world_switch DELETE /sim/faults >/dev/null
	text=$(jq -r '.error // ""' <<<"$answer")
	text=${text//"$WORLD/"/} text=${text//|/\\|}
	[ "$code" = "$want" ] || verdict="wants $want"
	case $text in
	*[\;:,] | *' ') verdict='the text ends in the air' ;;
	esac
	if grep -Eq '(DPUVolume(Attachment)?) ([^ /]+\/)?([^ :/]+)[: ].*\1 ([^ /]+\/)?\4([: ]|$)' <<<"$text"; then
		verdict='the text names the object twice'
	fi
	if [ "$code" != OK ] && is_final "$method" "$code" && [ -n "$left" ]; then
		verdict='final, but leaves something'
	fi
	rows=$((rows + 1))
	if [ "$verdict" = ok ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		code="**$code: $verdict**"
	fi
	printf '| %s | %s | %s | %s |\n' "$what" "$code" "$text" "${left:-nothing}"
}

table() {
	printf '\n### %s\n\n| what | code | text | left behind |\n| --- | --- | --- | --- |\n' "$1"
}

# Removes what a row has left, so that the next one starts with an empty world.
sweep() {
	local name
	while read -r name; do
		umount -l "$name"
	done < <(awk -v at="$WORLD/kubelet" 'index($5, at) == 1 {print $5}' /proc/self/mountinfo | tac)
	while read -r name; do
		world_curl --request DELETE --output /dev/null "$(world_api_url "$name")"
	done < <(world_api dpuvolumeattachments | jq -r '.items[] | "dpuvolumeattachments/" + .metadata.name')
	while read -r name; do
		world_curl --request DELETE --output /dev/null "$(world_api_url "$name")"
	done < <(world_api dpuvolumes | jq -r '.items[] | "dpuvolumes/" + .metadata.name')
	world_until 10 world_is_empty
	free_functions
}

# The driver leaves functions bound; each row starts with unbound ones, as after the host's boot.
free_functions() {
	local function
	for function in "$WORLD/sim/$NODE"/sys/bus/pci/devices/*; do
		if [ ! -e "$function/physfn" ] || [ ! -e "$function/driver" ]; then
			continue
		fi
		basename "$function" >"$WORLD/sim/$NODE/sys/bus/pci/drivers/nvme/unbind"
		echo >"$function/driver_override"
		world_until 5 test ! -e "$function/driver"
	done
}

world_is_empty() {
	[ "$(world_api dpuvolumes | jq '.items | length')" = 0 ] && [ "$(world_api dpuvolumeattachments | jq '.items | length')" = 0 ]
}

# edit REQUEST JQ-FILTER: prints the request, changed by the filter.
edit() {
	jq -c "$2" <<<"$1"
}

n=0
create_row() { # WHAT CODE JQ-FILTER [FAULT]
	n=$((n + 1))
	type=mount fs=ext4 id=pvc-error-$n
	row "$1" "$2" CreateVolume "$(edit "$(create_request "$id")" "$3")" "${4:-}"
	sweep
}

must() {
	csi_ask "$1" "$2"
	[ "$code" = OK ] || { printf 'errors: %s: %s\n' "$1" "$answer" >&2; exit 1; }
}

must_create() {
	must CreateVolume "$(create_request "$id")"
	context=$(jq -c '.reply.volume.volume_context // {}' <<<"$answer")
	volume_paths
}

must_attach() {
	must ControllerPublishVolume "$(attach_request)"
	publish=$(jq -c .reply.publish_context <<<"$answer")
}

attach_row() { # WHAT CODE JQ-FILTER [FAULT]
	n=$((n + 1))
	type=mount fs=ext4 id=pvc-error-$n
	must_create
	row "$1" "$2" ControllerPublishVolume "$(edit "$(attach_request)" "$3")" "${4:-}"
	sweep
}

# The fault is set before the volume is attached.
stage_row() { # WHAT CODE JQ-FILTER [FAULT]
	n=$((n + 1))
	type=mount fs=ext4 id=pvc-error-$n
	[ -z "${4:-}" ] || world_switch POST /sim/faults "$4" >/dev/null
	must_create
	must_attach
	row "$1" "$2" NodeStageVolume "$(edit "$(stage_request)" "$3")"
	csi_ask NodeUnstageVolume "$(unstage_request)"
	sweep
}

world_sim --seed || exit 1
world_driver all --v=2 || exit 1
CALL_TIMEOUT=3 world_stream

table 'CreateVolume: the request'
create_row 'no name' INVALID_ARGUMENT '.name = ""'
create_row 'a name above 253 bytes' INVALID_ARGUMENT '.name = ("a" * 300)'
create_row 'no capabilities' INVALID_ARGUMENT 'del(.volume_capabilities)'
create_row 'a capability without an access mode' INVALID_ARGUMENT 'del(.volume_capabilities[0].access_mode)'
create_row 'several nodes writing one ext4' INVALID_ARGUMENT '.volume_capabilities[0].access_mode.mode = "MULTI_NODE_MULTI_WRITER"'
create_row 'a filesystem that is not made' INVALID_ARGUMENT '.volume_capabilities[0].mount.fs_type = "zfs"'
create_row 'mount and block at once' INVALID_ARGUMENT '.volume_capabilities += [{"block": {}, "access_mode": {"mode": "SINGLE_NODE_WRITER"}}]'
create_row 'a content source' INVALID_ARGUMENT '.volume_content_source = {"snapshot": {"snapshot_id": "s"}}'
create_row 'mutable parameters' INVALID_ARGUMENT '.mutable_parameters = {"iops": "1"}'
create_row 'no policy' INVALID_ARGUMENT 'del(.parameters.policy)'
create_row 'an unknown function type' INVALID_ARGUMENT '.parameters.functionType = "sf"'
create_row 'a hot-plugged VF' INVALID_ARGUMENT '.parameters.hotplugFunction = "true"'
create_row 'hotplugFunction is not a boolean' INVALID_ARGUMENT '.parameters.hotplugFunction = "perhaps"'
create_row 'a typing error in a key of ours' INVALID_ARGUMENT '.parameters["csi.snap.nvidia.com/formatPolcy"] = "never"'
create_row 'a format policy that does not exist' INVALID_ARGUMENT '.parameters["csi.snap.nvidia.com/formatPolicy"] = "always"'
virtiofs='.parameters = {"policy": "example-policy", "csi.snap.nvidia.com/emulation": "virtiofs"}'
create_row 'virtio-fs: raw block' UNIMPLEMENTED "$virtiofs"' | .volume_capabilities = [{"block": {}, "access_mode": {"mode": "SINGLE_NODE_WRITER"}}]'
create_row 'virtio-fs: a filesystem of a disk' INVALID_ARGUMENT "$virtiofs"' | .volume_capabilities[0].mount.fs_type = "xfs"'
create_row 'virtio-fs on a VF' INVALID_ARGUMENT "$virtiofs"' | .parameters.functionType = "vf"'
create_row 'virtio-fs with a key for mkfs' INVALID_ARGUMENT "$virtiofs"' | .parameters["csi.snap.nvidia.com/formatPolicy"] = "never"'
create_row 'required above limit' OUT_OF_RANGE '.capacity_range.limit_bytes = 1'
create_row 'a negative size' INVALID_ARGUMENT '.capacity_range.required_bytes = -1'

table 'CreateVolume: the storage'
create_row 'the policy does not exist' DEADLINE_EXCEEDED '.parameters.policy = "no-such-policy"'
create_row 'never bound' DEADLINE_EXCEEDED . '{"dpf":"volume-never-bound","text":"vendor is slow"}'
create_row 'the vendor is full' RESOURCE_EXHAUSTED . '{"dpf":"volume-failure","text":"no capacity left on vendor example-vendor"}'
create_row 'the vendor refuses for another reason' UNAVAILABLE . '{"dpf":"volume-failure","text":"the array is being serviced"}'
create_row 'the vendor is full and the volume does not go' ABORTED . '[{"dpf":"volume-failure","text":"no capacity left"},{"dpf":"volume-finalizer-stuck"}]'
create_row 'larger than the limit' OUT_OF_RANGE '.capacity_range.limit_bytes = 1073741824' '{"dpf":"volume-capacity","value":"2Gi"}'

table 'CreateVolume: the API server'
create_row 'forbidden' PERMISSION_DENIED . '{"verb":"create","resource":"dpuvolumes","status":403,"reason":"Forbidden","message":"no create"}'
create_row 'over quota' RESOURCE_EXHAUSTED . '{"verb":"create","resource":"dpuvolumes","status":403,"reason":"Forbidden","message":"exceeded quota: storage"}'
create_row 'invalid' INVALID_ARGUMENT . '{"verb":"create","resource":"dpuvolumes","status":422,"reason":"Invalid","message":"spec.x: Invalid value"}'
create_row 'unauthorized' UNAUTHENTICATED . '{"verb":"create","resource":"dpuvolumes","status":401,"reason":"Unauthorized","message":"Unauthorized"}'
create_row 'an internal error, again and again' UNAVAILABLE . '{"verb":"create","resource":"dpuvolumes","status":500,"reason":"InternalError","message":"etcd"}'
create_row 'too many requests, again and again' UNAVAILABLE . '{"verb":"create","resource":"dpuvolumes","status":429,"reason":"TooManyRequests","message":"slow down","retryAfterSeconds":1}'
create_row 'too many requests once' OK . '{"verb":"create","resource":"dpuvolumes","status":429,"retryAfterSeconds":1,"times":1}'
create_row 'the answer to the POST is lost' OK . '{"verb":"create","resource":"dpuvolumes","applied":true,"cut":true,"times":1}'
create_row 'no answer at all' DEADLINE_EXCEEDED . '{"verb":"create","resource":"dpuvolumes","hang":true}'
create_row 'the API group is not served' FAILED_PRECONDITION . '{"verb":"create","resource":"dpuvolumes","unserved":true}'

table 'CreateVolume: what is there already'
n=$((n + 1)) type=mount fs=ext4 id=pvc-error-$n
must_create
row 'the same name with another policy' ALREADY_EXISTS CreateVolume "$(edit "$(create_request "$id")" '.parameters.policy = "other"')"
row 'the same name, twice as large' ALREADY_EXISTS CreateVolume "$(edit "$(create_request "$id")" '.capacity_range = {"required_bytes": 2147483648}')"
row 'the same name as raw block' ALREADY_EXISTS CreateVolume "$(edit "$(create_request "$id")" '.volume_capabilities[0] |= (del(.mount) | .block = {})')"
world_switch POST /sim/faults '{"dpf":"volume-finalizer-stuck"}' >/dev/null
world_curl --request DELETE --output /dev/null "$(world_api_url "dpuvolumes/$id")"
row 'the same name while that volume is being deleted' ABORTED CreateVolume "$(create_request "$id")"
sweep

table 'ControllerPublishVolume'
attach_row 'no node' INVALID_ARGUMENT '.node_id = ""'
attach_row 'an unknown volume' NOT_FOUND '.volume_id = "pvc-none"'
attach_row 'an unknown node' NOT_FOUND '.node_id = "node-none"'
attach_row 'as raw block, but it was made for mount' INVALID_ARGUMENT '.volume_capability |= (del(.mount) | .block = {})'
attach_row 'never ready' DEADLINE_EXCEEDED . '{"dpf":"attachment-never-ready","text":"DPU dpu-1 is not ready"}'
attach_row 'fails' UNAVAILABLE . '{"dpf":"attachment-failure","text":"SNAP refused"}'
attach_row 'the status has no PCI address' DEADLINE_EXCEEDED . '{"dpf":"missing","value":"dpu.pciAddress"}'
attach_row 'the status has no namespace id' DEADLINE_EXCEEDED . '{"dpf":"missing","value":"dpu.nvmeAttrs.namespaceID"}'
attach_row 'the PCI address is 00:00.0 for long' DEADLINE_EXCEEDED . '{"dpf":"pci-zero-first","ms":60000}'
attach_row 'forbidden' PERMISSION_DENIED . '{"verb":"create","resource":"dpuvolumeattachments","status":403,"reason":"Forbidden","message":"no create"}'

table 'NodeStageVolume: the request'
stage_row 'no volume id' INVALID_ARGUMENT '.volume_id = ""'
stage_row 'no staging path' INVALID_ARGUMENT '.staging_target_path = ""'
stage_row 'a relative staging path' INVALID_ARGUMENT '.staging_target_path = "a/b"'
stage_row 'no capability' INVALID_ARGUMENT 'del(.volume_capability)'
stage_row 'a filesystem that is not made' INVALID_ARGUMENT '.volume_capability.mount.fs_type = "zfs"'
stage_row 'an inline volume' INVALID_ARGUMENT '.volume_context["csi.storage.k8s.io/ephemeral"] = "true"'
stage_row 'no PCI address' INVALID_ARGUMENT 'del(.publish_context["nv-pciDeviceAddress"])'
stage_row 'not a PCI address' INVALID_ARGUMENT '.publish_context["nv-pciDeviceAddress"] = "zz:00.0"'
stage_row 'PCI address 00:00.0' INVALID_ARGUMENT '.publish_context["nv-pciDeviceAddress"] = "00:00.0"'
stage_row 'no namespace id' INVALID_ARGUMENT 'del(.publish_context["nv-nvmeNsID"])'
stage_row 'not a namespace id' INVALID_ARGUMENT '.publish_context["nv-nvmeNsID"] = "one"'
stage_row 'an unknown mount flag' INVALID_ARGUMENT '.volume_capability.mount.mount_flags = ["no-such-option"]'

table 'NodeStageVolume: the device'
stage_row 'another namespace id' FAILED_PRECONDITION . '{"dpf":"wrong-nsid"}'
stage_row 'another UUID' FAILED_PRECONDITION . '{"dpf":"wrong-uuid"}'
stage_row 'another size' FAILED_PRECONDITION '.publish_context["csi.snap.nvidia.com/capacityBytes"] = "2147483648"'
stage_row 'no such function' DEADLINE_EXCEEDED '.publish_context["nv-pciDeviceAddress"] = "0000:7f:1f.7"'
stage_row 'the namespace comes too late' DEADLINE_EXCEEDED . '{"dpf":"device-late","ms":60000}'
stage_row 'the kernel refuses to bind' DEADLINE_EXCEEDED . '{"dpf":"bind-refused"}'
stage_row 'the kernel ignores the binding' DEADLINE_EXCEEDED . '{"dpf":"bind-ignored"}'

table 'NodeStageVolume: what is on the device'
stage_row 'a foreign signature' FAILED_PRECONDITION . '{"dpf":"foreign-data","text":"_BHRfS_M","value":"65600"}'
stage_row 'non-zero data at its begin' FAILED_PRECONDITION . '{"dpf":"foreign-data","text":"somebody was here","value":"65536"}'
stage_row 'non-zero data at its end' FAILED_PRECONDITION . '{"dpf":"foreign-data","text":"somebody was here","value":"1073737728"}'
stage_row 'blank, but the policy is never to format' FAILED_PRECONDITION '.volume_context["csi.snap.nvidia.com/formatPolicy"] = "never"'
stage_row 'blank, for a reader' FAILED_PRECONDITION '.volume_capability.access_mode.mode = "SINGLE_NODE_READER_ONLY"'

n=$((n + 1)) type=mount fs=ext4 id=pvc-error-$n
must_create
must_attach
must NodeStageVolume "$(stage_request)"
row 'another filesystem than the one it has' ALREADY_EXISTS NodeStageVolume "$(edit "$(stage_request)" '.volume_capability.mount.fs_type = "xfs"')"
row 'staged for mount, asked for block' ALREADY_EXISTS NodeStageVolume "$(edit "$(stage_request)" '.volume_capability |= (del(.mount) | .block = {})')"
csi_ask NodeUnstageVolume "$(unstage_request)"
row 'xfs wanted, ext4 is on it' FAILED_PRECONDITION NodeStageVolume "$(edit "$(stage_request)" '.volume_capability.mount.fs_type = "xfs"')"
mount -t tmpfs none "$staging"
row 'something else is mounted there' FAILED_PRECONDITION NodeStageVolume "$(stage_request)"
umount "$staging"
sweep

printf '\nerrors: %d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
