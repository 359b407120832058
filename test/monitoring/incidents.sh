# shellcheck shell=bash
# shellcheck disable=SC2154,SC2153 # slow, code, answer, target and http_port are of run.sh, world.sh and requests.sh
# Ten incidents, each with the query of the dashboard and the alert that show it: the rows of docs/troubleshoot/incidents.md. Source it in run.sh
# after prometheus.sh. In a row's query the windows are those of the rules; in the run a minute is a second.
#
#   incidents_prepare   before anything is wrong: the volumes that will suffer
#   incidents_begin     what goes wrong at once; incidents_repeat: what sidecars and kubelet then ask again and again
#   incidents_of_calls  the rows of those; incidents_heal: makes all of them good
#   incident_...        the rows of what run.sh itself provokes
#   incidents_ask       the first commands of the rows so far
#   incidents_end       compares the table with docs/troubleshoot/incidents.md, or writes it

OTHER_NODE=dpu-host-2
ROWS=() FIRST=() TO_ASK=()
first_commands=$BUILD/monitoring/first-commands.txt

has_panel() { # TITLE
	jq -e --arg panel "$1" 'any(.panels[]; .title == $panel)' manifests/monitoring/dashboard.json >/dev/null
}
# Each must show it now, an alert only when its name stands alone. COMMAND is the first command, without the program snap-csi-plugin, or
# a whole one that begins with kubectl (test/kubectl/kubectl): its first ten lines must have REASON, a pattern, and a next step, which
# NEXT replaces where the command names none. It is asked by incidents_ask, when all that ends by itself was seen.
incident() { # TITLE PANEL QUERY ALERT COMMAND REASON [NEXT]
	local query=${3//10m]/30s]} seen labels= # longer than the rules' ten: a busy machine comes here late
	query=${query//5m]/5s]}
	has_panel "$2" || give_up "the dashboard has no panel \"$2\""
	check "$1: its query brings data" world_until 10 brings_data "$query"
	if [[ $4 = *' '* ]]; then
		labels=${4%%,*}
	else
		check "$1: $4 fires, with a node and a runbook" world_until 10 has_labels "$4"
	fi
	# Asked again: between two calls of a sidecar nobody waits, for a moment.
	world_until 10 shows "$query" || seen=
	ROWS+=("| $((${#ROWS[@]} + 1)) | $1 | $4 | $2: \`$3\` | \`$seen\` |")
	first_command "${#ROWS[@]}" "$labels" "$5" "$6" "${7:-}" "$((${#ROWS[@]} - 1))"
}
# An incident that has no ROW of its own needs no more.
first_command() { # TITLE-OR-NUMBER ALERT COMMAND REASON [NEXT] [ROW]
	TO_ASK+=("$1" "$2" "$3" "$4" "${5:-}" "${6:-}")
}
has_labels() { # ALERT: sets labels
	labels=$(labels_of_alert "$1")
	[ -n "$labels" ]
}
# Asks the first commands. All of their ten lines are in $first_commands, the reason in the page.
incidents_ask() {
	local i title command lines took said next
	for ((i = 0; i < ${#TO_ASK[@]}; i += 6)); do
		title=${TO_ASK[i]} command=${TO_ASK[i + 2]} said=
		check "incident $title: the first command has reason and next step in ten lines" world_until 10 first_says "$command" "${TO_ASK[@]:i+3:2}"
		printf '== %s: %s (ten lines after %d ms)\n%s\n' "$title" "$command" "$took" "$lines" >>"$first_commands"
		[[ $command = kubectl* ]] || command="snap-csi-plugin $command"
		FIRST+=("| $title | ${TO_ASK[i + 1]} | \`${command//|/\\|}\` | $said | $next |")
		[ -z "${TO_ASK[i + 5]}" ] || ROWS[TO_ASK[i + 5]]+=" $([[ $command = *inspect* ]] && echo "$said" || echo 'nothing about it') |"
	done
	TO_ASK=()
}
first_ask() { # COMMAND
	if [[ $1 = kubectl* ]]; then
		PATH=$PWD/test/kubectl:$PWD/packaging:$PATH FAKE=$WORLD/cluster timeout 60 bash -c "$1"
	else
		# shellcheck disable=SC2086 # words
		timeout 60 "$DRIVER" $1 --pid "$DRIVER_PID"
	fi
}
labels_of_alert() { # NAME
	curl --silent --max-time 60 "$prometheus_url/api/v1/alerts" | jq -r --arg name "$1" '[.data.alerts[] | select(.labels.alertname == $name and .state == "firing") |
		select(.labels.node and .annotations.runbook_url)][0] // empty |
		"\(.labels.alertname), node \(.labels.node), [runbook](../\(.annotations.runbook_url | ltrimstr("docs/")))"'
}
first_says() { # COMMAND REASON NEXT: sets said, next, lines and took; said and next without what is another one in each run
	local began plain
	began=$(date +%s%N)
	lines=$(head -n 10 < <(first_ask "$1" 2>&1))
	took=$((($(date +%s%N) - began) / 1000000))
	plain=$(sed -E "s|$WORLD||g; s/as it was at [0-9TZ:-]*/as it was at .../g; s/(pid|device|thread) [0-9:]+/\\1 N/g; s|127.0.0.1:[0-9]+|127.0.0.1|g; s/nvme[0-9]+n/nvmeNn/g; s/ \\(failed calls: .*//" <<<"$lines")
	said=$(grep -oE "$2" <<<"$plain" | head -n 1)
	next=$(grep -A1 -E "$2" <<<"$plain" | sed -n 's/^ *next: //p' | head -n 1)
	next=${3:-${next%%. *}}
	[ -n "$said" ] && [ -n "$next" ]
}

shows() { # QUERY: sets seen
	seen=$(labels_of "$1")
	[ -n "$seen" ]
}

# What kubectl finds: the driver's pods, and a claim whose volume is mixed-up. The controller's pod has a --plugin-dir of its own, as in a
# cluster; the alerts name the other pod.
cluster_begin() {
	local cluster=$WORLD/cluster
	mkdir -p "$cluster" "$WORLD/controller"
	printf '%s\n' "controller|dpf|snap-csi-controller-0|$NODE|Running|snap-csi-plugin" "node|dpf|snap-csi-0|$NODE|Running|snap-csi-plugin" >"$cluster/pods"
	echo 'app|data|mixed-up' >"$cluster/claims"
	echo "app|web-0|$NODE|data" >"$cluster/users"
	echo 'mixed-up|mixed-up' >"$cluster/pvs"
	echo "mixed-up|$NODE" >"$cluster/attachments"
	ln -s "$WORLD/all.log" "$cluster/log.snap-csi-0"
	cluster_program snap-csi-0 --pid "$DRIVER_PID"
	cluster_program snap-csi-controller-0 --mode=controller --namespace="$NAMESPACE" --kubeconfig="$KUBECONFIG_FILE" --plugin-dir="$WORLD/controller"
	core_object /api/v1/persistentvolumes '{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "mixed-up"}, "spec": {
		"csi": {"driver": "csi.snap.nvidia.com", "volumeHandle": "mixed-up"}, "claimRef": {"namespace": "app", "name": "data"}}}'
	core_object /api/v1/namespaces '{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "app"}}'
	core_object /api/v1/namespaces/app/persistentvolumeclaims '{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "app"},
		"spec": {"volumeName": "mixed-up"}}'
	core_object /apis/storage.k8s.io/v1/volumeattachments "{\"apiVersion\": \"storage.k8s.io/v1\", \"kind\": \"VolumeAttachment\", \"metadata\": {\"name\": \"csi-mixed-up\"},
		\"spec\": {\"attacher\": \"csi.snap.nvidia.com\", \"nodeName\": \"$NODE\", \"source\": {\"persistentVolumeName\": \"mixed-up\"}}}"
}
cluster_program() { # POD FLAG...
	local pod=$1
	shift
	printf '#!/bin/sh\nexec %s "$@" %s\n' "$DRIVER" "$*" >"$WORLD/cluster/program.$pod"
	chmod +x "$WORLD/cluster/program.$pod"
}
core_object() { # PATH OBJECT
	world_curl --fail-with-body --output "$WORLD/applied" --header 'Content-Type: application/json' --data "$2" "$SIM_URL$1" ||
		give_up "$1: $(cat "$WORLD/applied")"
}
incidents_prepare() {
	mkdir -p "${first_commands%/*}"
	: >"$first_commands"
	cluster_begin
	static=$(parameters='{"policy":"example-policy","functionType":"pf","hotplugFunction":"false"}' create_request static)
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
	nvme_parameters=$parameters parameters=$hotplug_parameters
	stage unplugged
	parameters=$nvme_parameters
	unplugged_url=$(world_api_url "dpuvolumeattachments/$NODE-unplugged")
	unplugged_stats="{\"volume_id\":\"unplugged\",\"volume_path\":\"$target\"}"
	unplugged_unpublish=$(unpublish_request) unplugged_unstage=$(unstage_request) unplugged_gone=$(detach_request)
	type=block stage raw
	raw_unpublish=$(unpublish_request) raw_unstage=$(unstage_request) raw_device=$target
	create orphan
	ask ControllerPublishVolume "$(NODE=$OTHER_NODE attach_request)"
	orphan_attach=$(attach_request) orphan_gone=$(NODE=$OTHER_NODE detach_request)
}

is_deleted() { # URL
	[ "$(world_curl --output /dev/null --write-out '%{http_code}' "$1")" = 404 ]
}
incidents_begin() {
	sleep 1000000 3<"$busy_file" 4<"$raw_device" & # a process of its own, so that no other one inherits the descriptors
	holder=$!
	world_curl --fail --output /dev/null --request DELETE "$unplugged_url" || give_up 'the attachment of unplugged cannot be deleted'
	world_until 10 is_deleted "$unplugged_url" || give_up 'unplugged stays attached'
	parameters=$hotplug_parameters
	attach another # in its place, so that the node is full again
	parameters=$nvme_parameters another_gone=$(detach_request)
	fault '{"dpf": "volume-never-bound", "name": "^waiting$"}'
	waiting=$(create_request waiting)
	until [ -e "$WORLD/healed" ]; do
		"$CSI_CALL" -e "$ENDPOINT" -t 20 CreateVolume "$waiting"
	done >"$WORLD/waiting" 2>&1 &
	waiter=$!
	until [ -e "$WORLD/healed" ]; do
		"$CSI_CALL" -e "$ENDPOINT" -t 20 NodeUnstageVolume "$busy_unstage"
		"$CSI_CALL" -e "$ENDPOINT" -t 20 NodeUnpublishVolume "$raw_unpublish"
		sleep 1
	done >"$WORLD/busy" 2>&1 &
	unstager=$!
	until [ -e "$WORLD/healed" ]; do
		fault '{"resource": "dpuvolumes", "dropWatch": true, "times": 1}'
		sleep 1.1 # a stream that has lived for a second is opened again at once
	done >"$WORLD/cutter" 2>&1 &
	cutter=$!
	WORLD_PIDS+=("$holder" "$waiter" "$unstager" "$cutter")
	echo "$gone_pci" >"$WORLD/sim/$NODE/sys/bus/pci/drivers/nvme/unbind"
	world_until 10 test ! -e "$WORLD/sim/$NODE/sys/bus/pci/devices/$gone_pci/driver" || give_up 'the function does not vanish'
}

refused() { # METHOD JSON
	csi_ask "$1" "$2"
	[ "$code" != OK ] || give_up "$1 in an incident: $answer"
}
incidents_repeat() {
	refused NodeGetVolumeStats "$gone_stats"
	refused NodeGetVolumeStats "$unplugged_stats"
	refused NodeStageVolume "$mixed_stage"
	refused ControllerPublishVolume "$orphan_attach"
	refused CreateVolume "$static"
}
# A host outside the cluster attaches what a StorageClass cannot ask for. In a shell of its own: host-lib.sh has names of this suite.
host_attaches_a_static_pf() (
	. test/e2e/host-lib.sh
	host_begin monitoring
	volume static-pf Block pf false
	host attach -f "$WORLD/static-pf.json"
	[ -b "$said" ] || fail "host attach: $said"
	host detach static-pf
	gone static-pf
)

incidents_of_calls() {
	incident 'a watch breaks again and again' 'Watches' \
		'increase(snap_csi_watch_restarts_total{reason!="ended",reason!="retired"}[10m]) > 5' SnapCsiWatchFlaps \
		'kubectl -n dpf logs -c snap-csi-plugin --since=15m snap-csi-0 | grep "watch "' 'watch dpuvolumes: .*; retrying' \
		'that of the label `reason` in the runbook'
	incident 'all VFs of a node are in use' 'Calls' \
		'increase(snap_csi_operation_duration_seconds_count{code="RESOURCE_EXHAUSTED"}[10m]) > 0' SnapCsiFunctionsExhausted \
		'inspect volume too-many' 'volume too-many: ControllerPublishVolume fails with RESOURCE_EXHAUSTED: node [^ ]* is full'
	incident 'the function of a staged volume has vanished' 'Calls' \
		'increase(snap_csi_operation_duration_seconds_count{method="NodeGetVolumeStats",code!="OK"}[10m]) > 0' SnapCsiVolumeStuck \
		'inspect volume gone' 'volume gone: .* which no longer exists on this host: it was detached while in use'
	incident "the UUID of a disk differs from its volume's, and another disk is not blank" 'Refused for the sake of data' \
		'increase(snap_csi_refusals_total[10m]) > 0' SnapCsiRefusesData \
		'kubectl snapcsi inspect claim app/data' "volume mixed-up on node $NODE .*: NodeStageVolume fails with FAILED_PRECONDITION: .* has UUID"
	first_command 'a disk has the data of another tenant' 'that of 4' 'inspect volume foreign' 'volume foreign: NodeStageVolume fails with FAILED_PRECONDITION: .* is not blank'
	incident 'DPF never makes a volume ready' 'Longest wait' \
		'max by (resource, condition) (snap_csi_waits_oldest_seconds) > 0' SnapCsiVolumeStuck \
		'inspect volume waiting' 'DPUVolume dpf-operator-system/waiting: is not bound \(phase Pending\): Bound=Unknown \(Pending\)'
	incident 'an orphaned attachment to another node' 'Calls' \
		'increase(snap_csi_operation_duration_seconds_count{method="ControllerPublishVolume",code="FAILED_PRECONDITION"}[10m]) > 0' SnapCsiVolumeStuck \
		'inspect volume orphan' 'volume orphan: ControllerPublishVolume fails with FAILED_PRECONDITION'
	incident 'a process holds a volume that is to be unstaged' 'What kept volumes from being unstaged' \
		'increase(snap_csi_unstage_blocked_total[10m]) > 0' SnapCsiVolumeStuck \
		'inspect volume busy' 'pid N \(sleep\) has [^ ]*/busy/globalmount/file open'
	first_command 'a process holds a raw block volume' 'that of 7' 'inspect volume raw' 'volume raw: NodeUnpublishVolume fails with UNAVAILABLE: [^,]*has the device open'
	first_command 'a hot-plugged function was detached under a pod' 'that of 3' 'inspect volume unplugged' \
		'volume unplugged: .* which no longer exists on this host: it was detached while in use'
	first_command 'a name that no volume has' none 'inspect volume bsy' 'volume bsy: is unknown'
	first_command 'a StorageClass asks for a static PF' 'that of 6' 'inspect volume static' \
		'volume static: CreateVolume fails with INVALID_ARGUMENT: .*hosts outside the cluster only: snap-csi-plugin host'
	incidents_ask
	check 'a static PF: host attaches it' host_attaches_a_static_pf
}

incidents_heal() {
	echo "$gone_pci" >"$WORLD/sim/$NODE/sys/bus/pci/drivers/nvme/bind"
	ask NodeUnpublishVolume "$gone_unpublish"
	ask NodeUnstageVolume "$gone_unstage"
	ask NodeUnpublishVolume "$unplugged_unpublish"
	ask NodeUnstageVolume "$unplugged_unstage"
	ask ControllerUnpublishVolume "$unplugged_gone"
	ask ControllerUnpublishVolume "$another_gone"
	: >"$WORLD/healed"
	wait "$waiter" "$unstager" "$cutter"
	child_signal TERM "$holder"
	wait "$holder"
	first_command 'incident 7 after its holder has ended, before kubelet retries' 'that of 7' 'inspect volume busy' \
		'/[^ ]* was in use at the last attempt; no holder is visible now'
	incidents_ask
	ask NodeUnpublishVolume "$raw_unpublish"
	ask NodeUnstageVolume "$raw_unstage"
	ask NodeUnstageVolume "$busy_unstage"
	ask CreateVolume "$waiting"
	ask CreateVolume "$(create_request static)"
	ask ControllerUnpublishVolume "$mixed_gone"
	ask ControllerUnpublishVolume "$orphan_gone"
	ask ControllerPublishVolume "$orphan_attach"
	ask ControllerUnpublishVolume "${orphan_gone/$OTHER_NODE/$NODE}"
}

incident_of_a_hang() {
	incident 'the backend of a volume does not answer' 'Hangs' 'snap_csi_backends_hung > 0' SnapCsiBackendHangs \
		'inspect' 'volume share: NodeGetVolumeStats fails with UNAVAILABLE: stats of volume share: the filesystem on device N'
	first_command 'the kernel holds an unmount' "$(labels_of_alert SnapCsiCallHangs)" 'inspect volume in-umount' 'volume in-umount: NodeUnstageVolume fails with DEADLINE_EXCEEDED: the kernel has held the call'
	incidents_ask
}
incident_of_the_api() {
	incident 'the API server cannot be reached' 'Requests to the API server' \
		'sum by (code) (rate(snap_csi_api_request_duration_seconds_count{code!~"[24].."}[5m])) > 0' SnapCsiApiUnreachable \
		'inspect' 'no answer from [^ ]* in time'
	incidents_ask
}

mkfs_runs() { # of this driver; a process may end while the list is read
	cat /proc/[0-9]*/stat 2>/dev/null | awk -v parent="$DRIVER_PID" '{ sub(/^.*\) /, "") } $2 == parent { found = 1 } END { exit !found }'
}
# The driver is killed while mkfs writes to a device that hangs. mkfs lives on, and the next driver does not take the device from it.
incident_kill_in_a_format() {
	fsfreeze --freeze "$slow" || give_up 'the filesystem cannot be frozen'
	"$CSI_CALL" -e "$ENDPOINT" -t 100 NodeStageVolume "$half_stage" >/dev/null 2>&1 &
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
	incident 'the driver was restarted during a format' 'Calls' \
		'increase(snap_csi_operation_duration_seconds_count{method="NodeStageVolume",code="ABORTED"}[10m]) > 0' 'SnapCsiDown, while it did not run' \
		'inspect volume half' 'volume half: NodeStageVolume fails'
	incidents_ask
	fsfreeze --unfreeze "$slow"
	world_until 20 half_is_staged || give_up "half: $answer"
	world_stream_end
}
half_is_staged() {
	csi_ask NodeStageVolume "$half_stage"
	[ "$code" = OK ]
}

incidents_end() {
	local page=docs/troubleshoot/incidents.md
	{
		sed '/<!-- incidents: begin -->/q' "$page"
		printf '| # | Incident | Alert | Panel and its query | What it shows | What `inspect` says |\n| --- | --- | --- | --- | --- | --- |\n'
		printf '%s\n' "${ROWS[@]}"
		sed -n '/<!-- incidents: end -->/,/<!-- first: begin -->/p' "$page"
		printf '| Incident | Alert | First command | Reason | Next step |\n| --- | --- | --- | --- | --- |\n'
		printf '%s\n' "${FIRST[@]}"
		sed -n '/<!-- first: end -->/,$p' "$page"
	} >"$WORLD/incidents.md"
	[ -z "${UPDATE_DOCS:-}" ] || cp "$WORLD/incidents.md" "$page"
	check 'docs/troubleshoot/incidents.md has these rows (UPDATE_DOCS=1 writes them)' diff "$page" "$WORLD/incidents.md"
}
