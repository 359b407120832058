# shellcheck shell=bash
# shellcheck disable=SC2154 # slow, code, answer, target and http_port are of run.sh, world.sh and requests.sh
# Ten incidents, each with the query of the dashboard and the alert that show it: the rows of docs/incidents.md. Source it in run.sh
# after prometheus.sh. In a row's query the windows are those of the rules; in the run a minute is a second.
#
#   incidents_prepare   before anything is wrong: the volumes that will suffer
#   incidents_begin     what goes wrong at once; incidents_repeat: what sidecars and kubelet then ask again and again
#   incidents_of_calls  the rows of those; incidents_heal: makes all of them good
#   incident_...        the rows of what run.sh itself provokes
#   incidents_end       compares the table with docs/incidents.md, or writes it

OTHER_NODE=dpu-host-2
ROWS=()

has_panel() { # TITLE
	jq -e --arg panel "$1" 'any(.panels[]; .title == $panel)' manifests/monitoring/dashboard.json >/dev/null
}
# Each must show it now, an alert only when its name stands alone. INSPECT is what `inspect` must say, as a pattern; the first match
# stands in the row. Empty: it sees nothing of it. Behind a =, what it says without being asked here.
incident() { # TITLE PANEL QUERY ALERT INSPECT
	local said query=${3//10m]/30s]} seen # longer than the rules' ten: a busy machine comes here late
	query=${query//5m]/5s]}
	has_panel "$2" || give_up "the dashboard has no panel \"$2\""
	check "$1: its query brings data" world_until 10 brings_data "$query"
	[[ $4 = *' '* ]] || check "$1: $4 fires" world_until 10 fires "$4"
	# Asked again: between two calls of a sidecar nobody waits, for a moment.
	world_until 10 shows "$query" || seen=
	said=
	case $5 in
	'') ;;
	=*) said=${5#=} ;;
	*) check "$1: inspect says so" world_until 10 inspect_says "$5" ;;
	esac
	ROWS+=("| $((${#ROWS[@]} + 1)) | $1 | $4 | $2: \`$3\` | \`$seen\` | ${said:-nothing of it} |")
}

shows() { # QUERY: sets seen
	seen=$(labels_of "$1")
	[ -n "$seen" ]
}

inspect_says() { # PATTERN: sets said, without what is another one in each run
	said=$("$DRIVER" inspect --pid "$DRIVER_PID" 2>&1 | grep -oE "$1" | head -n 1 |
		sed -E "s|$WORLD||g; s/(pid|device) [0-9:]+/\\1 N/g; s|127.0.0.1:[0-9]+|127.0.0.1|g")
	[ -n "$said" ]
}

incidents_prepare() {
	stage gone
	gone_stats="{\"volume_id\":\"gone\",\"volume_path\":\"$target\"}" gone_unpublish=$(unpublish_request) gone_unstage=$(unstage_request)
	gone_pci=$(jq -r '."nv-pciDeviceAddress"' <<<"$publish")
	stage busy
	ask NodeUnpublishVolume "$(unpublish_request)"
	busy_unstage=$(unstage_request) busy_file=$staging/file
	echo data >"$busy_file"
	attach mixed-up
	publish=$(jq -c '."nv-nvmeUUID" = "00000000-0000-4000-8000-000000000001"' <<<"$publish")
	mixed_stage=$(stage_request) mixed_gone=$(detach_request)
	: >"$slow/half"
	truncate -s 1G "$slow/half"
	ln -s "$slow/half" "$WORLD/sim/images/$NAMESPACE.half"
	attach half
	half_stage=$(stage_request)
	create orphan
	ask ControllerPublishVolume "$(NODE=$OTHER_NODE attach_request)"
	orphan_attach=$(attach_request) orphan_gone=$(NODE=$OTHER_NODE detach_request)
}

incidents_begin() {
	exec {busy}<"$busy_file"
	fault '{"dpf": "volume-never-bound", "name": "^waiting$", "text": "the vendor is slow"}'
	waiting=$(create_request waiting)
	until [ -e "$WORLD/healed" ]; do
		"$CSI_CALL" -e "$ENDPOINT" -t 20 CreateVolume "$waiting"
	done >"$WORLD/waiting" 2>&1 &
	waiter=$!
	until [ -e "$WORLD/healed" ]; do
		"$CSI_CALL" -e "$ENDPOINT" -t 20 NodeUnstageVolume "$busy_unstage"
		sleep 1
	done >"$WORLD/busy" 2>&1 &
	unstager=$!
	WORLD_PIDS+=("$waiter" "$unstager")
	echo "$gone_pci" >"$WORLD/sim/$NODE/sys/bus/pci/drivers/nvme/unbind"
	world_until 10 test ! -e "$WORLD/sim/$NODE/sys/bus/pci/devices/$gone_pci/driver" || give_up 'the function does not vanish'
}

refused() { # METHOD JSON
	csi_ask "$1" "$2"
	[ "$code" != OK ] || give_up "$1 in an incident: $answer"
}
incidents_repeat() {
	refused NodeGetVolumeStats "$gone_stats"
	refused NodeStageVolume "$mixed_stage"
	refused ControllerPublishVolume "$orphan_attach"
}

incidents_of_calls() {
	incident 'a watch breaks again and again' 'Watches' \
		'increase(snap_csi_watch_restarts_total{reason!="ended",reason!="retired"}[10m]) > 5' SnapCsiWatchFlaps ''
	incident 'all VFs of a node are in use' 'Calls' \
		'increase(snap_csi_operation_duration_seconds_count{code="RESOURCE_EXHAUSTED"}[10m]) > 0' SnapCsiFunctionsExhausted \
		'dpuVolumeAttachments 10'
	incident 'the function of a staged volume has vanished' 'Calls' \
		'increase(snap_csi_operation_duration_seconds_count{method="NodeGetVolumeStats",code!="OK"}[10m]) > 0' SnapCsiVolumeStuck \
		'volume gone: .* which this host has no more: it was detached while in use'
	incident 'a disk has another UUID than the volume, and one is not blank' 'Refused for the sake of data' \
		'increase(snap_csi_refusals_total[10m]) > 0' SnapCsiRefusesData 'notStaged, persistentVolume mixed-up'
	incident 'DPF never makes a volume ready' 'Longest wait' \
		'max by (resource, condition) (snap_csi_waits_oldest_seconds) > 0' SnapCsiVolumeStuck \
		'DPUVolume dpf-operator-system/waiting: is not bound .*vendor is slow\)'
	incident 'an attachment to another node is left that nobody wants' 'Calls' \
		'increase(snap_csi_operation_duration_seconds_count{method="ControllerPublishVolume",code="FAILED_PRECONDITION"}[10m]) > 0' SnapCsiVolumeStuck \
		'name dpu-host-2-orphan'
	incident 'a process holds a volume that is to be unstaged' 'What kept volumes from being unstaged' \
		'increase(snap_csi_unstage_blocked_total[10m]) > 0' SnapCsiVolumeStuck 'pid [0-9]+ \(bash\) has [^ ]*/busy/globalmount/file open'
}

incidents_heal() {
	echo "$gone_pci" >"$WORLD/sim/$NODE/sys/bus/pci/drivers/nvme/bind"
	ask NodeUnpublishVolume "$gone_unpublish"
	ask NodeUnstageVolume "$gone_unstage"
	exec {busy}<&-
	: >"$WORLD/healed"
	wait "$waiter" "$unstager"
	ask NodeUnstageVolume "$busy_unstage"
	ask CreateVolume "$waiting"
	ask ControllerUnpublishVolume "$mixed_gone"
	ask ControllerUnpublishVolume "$orphan_gone"
	ask ControllerPublishVolume "$orphan_attach"
	ask ControllerUnpublishVolume "${orphan_gone/$OTHER_NODE/$NODE}"
}

incident_of_a_hang() {
	incident 'the backend of a volume does not answer' 'Hangs' 'snap_csi_backends_hung > 0' SnapCsiBackendHangs ''
}
incident_of_the_api() {
	incident 'the API server cannot be reached' 'Requests to the API server' \
		'sum by (code) (rate(snap_csi_api_request_duration_seconds_count{code!~"[24].."}[5m])) > 0' SnapCsiApiUnreachable \
		'=that the API server does not answer; it waits for it, so this run does not'
}

mkfs_runs() { # of this driver; a process may end while the list is read
	cat /proc/[0-9]*/stat 2>/dev/null | awk -v parent="$DRIVER_PID" '{ sub(/^.*\) /, "") } $2 == parent { found = 1 } END { exit !found }'
}
# The driver is killed while mkfs writes to a device that hangs. mkfs lives on, and the next driver does not take the device from it.
incident_kill_in_a_format() {
	fsfreeze --freeze "$slow" || give_up 'the filesystem cannot be frozen'
	"$CSI_CALL" -e "$ENDPOINT" -t 5 NodeStageVolume "$half_stage" >/dev/null 2>&1 &
	world_until 10 mkfs_runs || give_up 'no mkfs runs'
	world_stream_end
	disown "$DRIVER_PID"
	world_stop "$DRIVER_PID" KILL
}
incident_of_a_format() {
	world_stream
	for _ in 1 2 3 4; do
		refused NodeStageVolume "$half_stage"
		sleep 0.5
	done
	incident 'the driver was restarted in the midst of a format' 'Calls' \
		'increase(snap_csi_operation_duration_seconds_count{method="NodeStageVolume",code="ABORTED"}[10m]) > 0' 'SnapCsiDown, while it was away' 'what [^,]*'
	fsfreeze --unfreeze "$slow"
	world_until 20 half_is_staged || give_up "half: $answer"
	world_stream_end
}
half_is_staged() {
	csi_ask NodeStageVolume "$half_stage"
	[ "$code" = OK ]
}

incidents_end() {
	local page=docs/incidents.md
	{
		sed '/<!-- incidents: begin -->/q' "$page"
		printf '| # | Incident | Alert | Panel and its query | What it shows | What `inspect` says |\n| --- | --- | --- | --- | --- | --- |\n'
		printf '%s\n' "${ROWS[@]}"
		sed -n '/<!-- incidents: end -->/,$p' "$page"
	} >"$WORLD/incidents.md"
	[ -z "${UPDATE_DOCS:-}" ] || cp "$WORLD/incidents.md" "$page"
	check 'docs/incidents.md has these rows (UPDATE_DOCS=1 writes them)' diff "$page" "$WORLD/incidents.md"
}
