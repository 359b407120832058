#!/usr/bin/env bash
# A real Prometheus scrapes a driver against snap-sim while things go wrong: each alert of manifests/monitoring fires and ends
# again, each query of the dashboard brings data, promtool finds nothing to say of the page. So that this takes no hours, a
# minute of the rules is a second here. On the way ten incidents happen, and docs/troubleshoot/incidents.md says what showed them (incidents.sh);
# docs/dashboard.svg is what the dashboard drew of it (picture.py). With UPDATE_DOCS=1 both are written, else the table is compared.
# Needs root and loop devices. Ends with "monitoring: N passed, N failed".
set -u
cd "$(dirname "$0")/../.." || exit 1
export FUNCTIONS=9
. test/lib/world.sh
. test/lib/requests.sh
. test/monitoring/prometheus.sh
. test/monitoring/incidents.sh
world_need_root monitoring
# In a mount namespace of its own (rules.mk): what another suite copies of mounts would hold a volume. Copies that came along would
# keep the devices of that suite.
mount --make-rshared /
awk '$0 ~ / - [^ ]+ \/dev\/loop/ {print $5}' /proc/self/mountinfo | tac | xargs --no-run-if-empty umount -l
world_begin
slow=$WORLD/slow
passed=0 failed=0

clean_up() {
	local status=$?
	fsfreeze --unfreeze "$slow" 2>/dev/null && sleep 1
	(exit "$status")
	world_end
}
trap clean_up EXIT

give_up() {
	printf 'monitoring: %s\n' "$1" >&2
	tail -n 20 "$WORLD"/*.log >&2
	exit 1
}
check() { # WHAT COMMAND...
	local what=$1
	shift
	if "$@"; then
		echo "ok   $what"
		passed=$((passed + 1))
	else
		echo "FAIL $what"
		failed=$((failed + 1))
	fi
}
ask() { # METHOD JSON
	csi_ask "$1" "$2"
	[ "$code" = OK ] || give_up "$1: $answer"
}
fault() {
	world_switch POST /sim/faults "$1" >/dev/null
}
no_faults() {
	world_switch DELETE /sim/faults >/dev/null
}

share_does() { # stop, continue
	world_switch POST /sim/share "{\"volume\": \"share\", \"node\": \"$NODE\", \"do\": \"$1\"}" >/dev/null
}

# ---------------------------------------------------------------- the driver

driver_begin() {
	world_driver all "--http-endpoint=127.0.0.1:$http_port" --wait-timeout=2s --max-volumes-per-node=11 --volume-metrics || give_up 'the driver does not start'
}
# As the kernel has it, in a made sysfs: from time to time 100 reads of 4 ms each and 50 writes of 6 ms.
disks_work() { # HOW OFTEN SO FAR
	local disk
	for disk in "$WORLD/sim/$NODE/sys/class/block"/nvme*; do
		echo "$((100 * $1 + 100)) 0 2048 $((400 * $1 + 7)) $((50 * $1 + 50)) 0 1024 $((300 * $1 + 9)) $(($1 % 4)) $((20 * $1 + 20)) 16 $1 0 8 $1 $1 $1" >"$disk/stat"
	done
}
# As kubelet has them, so that inspect finds whose they are.
volume_paths() {
	staging=$KUBELET/plugins/kubernetes.io/csi/csi.snap.nvidia.com/$id/globalmount
	target=$KUBELET/pods/pod-of-$id/volumes/kubernetes.io~csi/$id/mount
	mkdir -p "$staging" "${target%/*}"
	jq -nc --arg id "$id" '{driverName: "csi.snap.nvidia.com", volumeHandle: $id, specVolID: $id, attachmentID: "csi-\($id)"}' |
		tee "${staging%/*}/vol_data.json" >"${target%/*}/vol_data.json"
}
create() { # NAME
	id=$1
	ask CreateVolume "$(create_request "$id")"
	context=$(jq -c '.reply.volume.volume_context // {}' <<<"$answer")
	volume_paths
}
attach() { # NAME
	create "$1"
	ask ControllerPublishVolume "$(attach_request)"
	publish=$(jq -c .reply.publish_context <<<"$answer")
}
stage() { # NAME
	attach "$1"
	ask NodeStageVolume "$(stage_request)"
	ask NodePublishVolume "$(publish_request)"
	ask NodeGetVolumeStats "{\"volume_id\":\"$id\",\"volume_path\":\"$target\"}"
}
unstage() {
	ask NodeUnpublishVolume "$(unpublish_request)"
	ask NodeUnstageVolume "$(unstage_request)"
	ask ControllerUnpublishVolume "$(detach_request)"
	ask DeleteVolume "$(delete_request)"
}

mkdir "$slow"
truncate -s 2G "$WORLD/backend"
if ! mkfs.ext4 -q "$WORLD/backend" || ! mount -o loop "$WORLD/backend" "$slow"; then
	give_up "there is no filesystem to freeze"
fi
type=mount fs=ext4
http_port=$(free_port)
world_mount_helper || give_up 'there is no /sbin/mount.snapsim'
world_sim --seed --hotplug-slots=3 --node="$OTHER_NODE" || exit 1
driver_begin
world_stream
world_register
prometheus_begin
began=$SECONDS

# A life without faults but one request that is sent twice, and as many volumes as the node takes.
fault '{"verb": "create", "resource": "dpuvolumes", "times": 1, "status": 429}'
stage first
unstage
stage one
disks_work 0
stage two
# shellcheck disable=SC2031 # host_attaches_a_static_pf() has parameters of its own
nvme_parameters=$parameters parameters=$virtiofs_parameters fs=virtiofs
stage share
share_stats="{\"volume_id\":\"$id\",\"volume_path\":\"$target\"}"
parameters=$nvme_parameters fs=ext4
id=in-umount
: >"$slow/$id"
ln -s "$slow/$id" "$WORLD/sim/images/$NAMESPACE.$id"
stage "$id"
ask NodeUnpublishVolume "$(unpublish_request)"
hung_unstage=$(unstage_request)
echo data >"$staging/file"
fault '{"dpf": "foreign-data", "name": "^foreign$", "text": "somebody was here", "value": "65536"}'
attach foreign
foreign_stage=$(stage_request) foreign_gone=$(detach_request)
incidents_prepare
create too-many
too_many=$(attach_request) too_many_gone=$(detach_request)
check 'no alert fires while all is well' eval '[ "$(query "ALERTS{alertstate=\"firing\"}")" = 0 ]'

# The calls of sidecars that repeat what fails.
fault '{"verb": "create", "resource": "dpuvolumes", "name": "^stuck", "status": 422, "reason": "Invalid", "message": "no"}'
incidents_begin
for ((i = 0; i < 10; i++)); do
	disks_work "$i"
	incidents_repeat
	csi_ask CreateVolume "$(create_request stuck)"
	csi_ask ControllerPublishVolume "$too_many"
	[ "$code" = RESOURCE_EXHAUSTED ] || give_up "one volume too many was attached: $answer"
	csi_ask NodeStageVolume "$foreign_stage"
	[ "$code" = FAILED_PRECONDITION ] || give_up "foreign data was staged: $answer"
	sleep 1
done
expect_alert SnapCsiVolumeStuck 'while calls for a volume fail'
expect_alert SnapCsiFunctionsExhausted 'while a volume finds no function'
expect_alert SnapCsiRefusesData 'while a device has foreign data'
expect_alert SnapCsiWatchFlaps 'while a watch breaks again and again'
incidents_of_calls
while IFS=$'\t' read -r title expression; do
	expression=${expression//'$__rate_interval'/10s} expression=${expression//'$__range'/1m}
	check "panel \"$title\" brings data: ${expression:0:60}" brings_data "${expression//'$node'/.*}"
done < <(jq -r '.panels[] | .title as $title | .targets[]? | [$title, .expr] | @tsv' manifests/monitoring/dashboard.json)
staged_are() {
	curl --silent --max-time 60 "http://127.0.0.1:$http_port/metrics" >"$WORLD/page"
	[ "$(sed -n 's/^snap_csi_volumes_staged //p' "$WORLD/page")" = "$1" ]
}
check 'the node counts what is staged' world_until 12 staged_are 6
check 'a volume has its bytes' grep -qE '^snap_csi_volume_available_bytes\{volume="one",device="nvme[0-9]+n[0-9]+"\} [0-9]+$' "$WORLD/page"
check 'and its reads' grep -qE '^snap_csi_volume_read_bytes_total\{volume="one",device="nvme[0-9]+n[0-9]+"\} 1048576$' "$WORLD/page"
check 'promtool has nothing to say of the page' eval 'promtool check metrics <"$WORLD/page"'
no_faults
incidents_heal
ask CreateVolume "$(create_request stuck)"
ask ControllerUnpublishVolume "$too_many_gone"
ask ControllerUnpublishVolume "$foreign_gone"
expect_end SnapCsiVolumeStuck 'with the first good calls'
expect_alert SnapCsiVolumeStalls 'while a request is in flight and none completes'
disks_work 12
expect_end SnapCsiVolumeStalls 'when it has completed'

# A backend that does not answer, under an unmount, and one that is measured.
fsfreeze --freeze "$slow" || give_up 'the filesystem cannot be frozen'
"$CSI_CALL" -e "$ENDPOINT" -t 1 NodeUnstageVolume "$hung_unstage" >/dev/null 2>&1
share_does stop
csi_ask NodeGetVolumeStats "$share_stats"
[ "$code" = UNAVAILABLE ] || give_up "a share whose daemon stands still was measured: $answer"
expect_alert SnapCsiCallHangs 'while the kernel holds an unmount'
expect_alert SnapCsiBackendHangs 'while a filesystem does not answer'
incident_of_a_hang
fsfreeze --unfreeze "$slow"
share_does continue
expect_end SnapCsiBackendHangs 'when it answers again'
expect_end SnapCsiCallHangs 'when the backend answers again'
expect_end SnapCsiRefusesData 'when nobody asks any more'
expect_end SnapCsiFunctionsExhausted 'when nobody asks any more'
expect_end SnapCsiWatchFlaps 'when it stays open'

fault '{"cut": true, "hang": true}'
"$CSI_CALL" -e "$ENDPOINT" -t 20 --at-once=4 DeleteVolume '{"volume_id":"nobody-%d"}' >/dev/null 2>&1 &
caller=$!
WORLD_PIDS+=("$caller")
for ((i = 0; i < 8; i++)); do
	timeout 1 "$CSI_CALL" -e "$ENDPOINT" -t 1 DeleteVolume '{"volume_id":"somebody"}' >/dev/null 2>&1
done
expect_alert SnapCsiApiUnreachable 'while the API server cuts every request'
incident_of_the_api
no_faults
wait "$caller"
for ((i = 0; i < 4; i++)); do
	csi_ask DeleteVolume '{"volume_id":"somebody"}'
	sleep 0.5
done
expect_end SnapCsiApiUnreachable 'when it answers again'

incident_kill_in_a_format
expect_alert SnapCsiDown 'without a driver'
driver_begin
incident_of_a_format
expect_end SnapCsiDown 'when there is one again'
incidents_end
picture=$BUILD/monitoring/dashboard.svg
mkdir -p "${picture%/*}"
check 'a picture of the panels is drawn' python3 test/monitoring/picture.py --prometheus "$prometheus_url" --seconds "$((SECONDS - began))" \
	--dashboard manifests/monitoring/dashboard.json --out "$picture"
[ -z "${UPDATE_DOCS:-}" ] || cp "$picture" docs/dashboard.svg

printf 'monitoring: %d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
