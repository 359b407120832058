#!/usr/bin/env bash
# Errors of CreateVolume, ControllerPublishVolume and NodeStageVolume from the whole program against snap-sim and its faults,
# as a table: the fault, code, text, and remains. After a code that callers treat as final ("nothing happened, nothing to
# clean up") nothing may remain. One or two rows for each place that answers: test_create_errors.c, test_publish.c,
# test_stage_errors.c and test_against_sim.c have all error paths. Needs root. Ends with "errors: N passed, N failed".
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
	find "$WORLD/kubelet" "$WORLD/run" -mindepth 1 ! -type d ! -name 'csi.sock*' ! -name last-errors.json -printf '%y %p\n' 2>/dev/null
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
world_driver all --v=2 --wait-timeout=3s || exit 1
world_stream

table 'CreateVolume: the request'
create_row 'no name' INVALID_ARGUMENT '.name = ""'
virtiofs='.parameters = {"policy": "example-policy", "csi.snap.nvidia.com/emulation": "virtiofs"}'
create_row 'virtio-fs: raw block' UNIMPLEMENTED "$virtiofs"' | .volume_capabilities = [{"block": {}, "access_mode": {"mode": "SINGLE_NODE_WRITER"}}]'
create_row 'required above limit' OUT_OF_RANGE '.capacity_range.limit_bytes = 1'

table 'CreateVolume: the storage'
create_row 'never bound' DEADLINE_EXCEEDED . '{"dpf":"volume-never-bound"}'
create_row 'the vendor is full' RESOURCE_EXHAUSTED . '{"dpf":"volume-failure"}'
create_row 'the vendor is full and the volume does not go' ABORTED . '[{"dpf":"volume-failure"},{"dpf":"volume-finalizer-stuck"}]'
create_row 'the claim exceeds a quota of the DPU cluster' RESOURCE_EXHAUSTED . '{"dpf":"volume-error"}'
create_row 'the DPU cluster rejects the claim' DEADLINE_EXCEEDED . '{"dpf":"volume-error","text":"denied by a webhook"}'
create_row 'a DPU cluster is unreachable' DEADLINE_EXCEEDED . '{"dpf":"cluster-unreachable"}'

table 'CreateVolume: the API server'
create_row 'over quota' RESOURCE_EXHAUSTED . '{"verb":"create","resource":"dpuvolumes","status":403,"reason":"Forbidden","message":"exceeded quota: storage"}'
create_row 'the answer to the POST is lost' OK . '{"verb":"create","resource":"dpuvolumes","applied":true,"cut":true,"times":1}'

table 'CreateVolume: what is there already'
n=$((n + 1)) type=mount fs=ext4 id=pvc-error-$n
must_create
row 'the same name with another policy' ALREADY_EXISTS CreateVolume "$(edit "$(create_request "$id")" '.parameters.policy = "other"')"
world_switch POST /sim/faults '{"dpf":"volume-finalizer-stuck"}' >/dev/null
world_curl --request DELETE --output /dev/null "$(world_api_url "dpuvolumes/$id")"
row 'the same name while that volume is being deleted' ABORTED CreateVolume "$(create_request "$id")"
sweep

table 'ControllerPublishVolume'
attach_row 'an unknown node' NOT_FOUND '.node_id = "node-none"'
attach_row 'never ready' DEADLINE_EXCEEDED . '{"dpf":"attachment-never-ready","text":"no NVMe controller"}'
attach_row 'the DPU is not ready' DEADLINE_EXCEEDED . '{"dpf":"dpu-not-ready"}'
attach_row 'the DPU cluster is unreachable' DEADLINE_EXCEEDED . '{"dpf":"cluster-unreachable"}'

world_stream_end
CALL_TIMEOUT=3 world_stream
table 'NodeStageVolume: the request'
stage_row 'no staging path' INVALID_ARGUMENT '.staging_target_path = ""'
stage_row 'an unknown mount flag' INVALID_ARGUMENT '.volume_capability.mount.mount_flags = ["no-such-option"]'

table 'NodeStageVolume: the device'
stage_row 'another UUID' FAILED_PRECONDITION . '{"dpf":"wrong-uuid"}'
stage_row 'the kernel refuses to bind' DEADLINE_EXCEEDED . '{"dpf":"bind-refused"}'

table 'NodeStageVolume: what is on the device'
stage_row 'a foreign signature' FAILED_PRECONDITION . '{"dpf":"foreign-data","text":"_BHRfS_M","value":"65600"}'
stage_row 'non-zero data at its end' FAILED_PRECONDITION . '{"dpf":"foreign-data","text":"somebody was here","value":"1073737728"}'

n=$((n + 1)) type=mount fs=ext4 id=pvc-error-$n
must_create
must_attach
must NodeStageVolume "$(stage_request)"
row 'another filesystem than the one it has' ALREADY_EXISTS NodeStageVolume "$(edit "$(stage_request)" '.volume_capability.mount.fs_type = "xfs"')"
csi_ask NodeUnstageVolume "$(unstage_request)"
mount -t tmpfs none "$staging"
row 'something else is mounted there' FAILED_PRECONDITION NodeStageVolume "$(stage_request)"
umount "$staging"
sweep

printf '\nerrors: %d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
