#!/usr/bin/env bash
# Measures the driver in one run and prints a table: subject, measured value, target, and the value of the Go plugin where it
# is known (measured once, on two cores, against a real API server). Needs root. Numbers are medians; a busy machine changes
# them, so no number makes it fail.
# Variables: RUNS (of each start, 15), CREATES (100), STAGES (50), PUBLISHES (20, of each crowd), PROBE_SECONDS (3), KINDS (30
# stages of each kind of volume), VOLUMES (100000, the number of other volumes for the controller's memory), WAITING (2000
# creates that wait at once), WRITERS (5, which change foreign objects during those and 1000 further creates), CYCLES (200
# whole lives of a volume, then 60 s of idleness; 10000 take a quarter of an hour).
set -u
cd "$(dirname "$0")/../.." || exit 1
. test/lib/world.sh
. test/lib/requests.sh

RUNS=${RUNS:-15} CREATES=${CREATES:-100} STAGES=${STAGES:-50} PROBE_SECONDS=${PROBE_SECONDS:-3} PUBLISHES=${PUBLISHES:-20} VOLUMES=${VOLUMES:-100000}
KINDS=${KINDS:-30} WAITING=${WAITING:-2000} WRITERS=${WRITERS:-5} CYCLES=${CYCLES:-200}

GLIBC_TUNABLES=$(sed -n 's/^ENV GLIBC_TUNABLES=//p' Dockerfile)
export GLIBC_TUNABLES # as in the image
DRIVER_LIBRARIES=$(realpath -m "$OUT")/stripped # its libcurl, too
world_need_root bench
world_begin

row() {
	printf '%-50s %12s   %-18s %s\n' "$1" "$2" "${3:-}" "${4:-}"
}

median() {
	sort -g | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'
}

milliseconds() {
	awk -v from="$1" -v to="$2" 'BEGIN {print (to - from) * 1000}'
}

# CPU time of all threads of a process in ms.
cpu_ms() {
	cat "/proc/$1/task/"*/schedstat | awk '{ns += $1} END {print ns / 1e6}'
}

# ---------------------------------------------------------------- calls on one open connection

# ask METHOD JSON: sets $answer; ends the run when the call fails.
ask() {
	csi_ask "$1" "$2"
	if [ "$code" != OK ]; then
		printf 'bench: %s\n' "$answer" >&2
		exit 1
	fi
}

answer_ms() {
	jq -r .ms <<<"$answer"
}

type=mount fs=ext4

create() {
	ask CreateVolume "$(create_request "$1")"
	id=$1
}

delete() {
	ask DeleteVolume "$(delete_request)"
}

# ---------------------------------------------------------------- start and memory

# From exec to the first answer, in ms.
start_ms() {
	local mode=$1 first=$WORLD/first began waiter
	rm -f "$SOCKET"
	"$CSI_CALL" -e "$ENDPOINT" --first Probe >"$first" &
	waiter=$!
	sleep 0.05
	began=$EPOCHREALTIME
	world_spawn_driver "$mode"
	wait "$waiter"
	milliseconds "$began" "$(cat "$first")"
	world_stop "$DRIVER_PID"
}

start_row() {
	local i ms
	for ((i = 0; i < RUNS; i++)); do
		start_ms "$1"
	done >"$WORLD/starts"
	ms=$(median <"$WORLD/starts")
	row "start to first Probe, $1" "$(printf '%.1f ms' "$ms")" '<= 15 ms' "$2"
}

memory_rows() {
	local mode=$1 pss anon threads
	world_driver "$mode" || exit 1
	if [ "$mode" != node ]; then # opens the watch
		world_stream
		create bench-memory
		delete
		world_stream_end
	fi
	sleep 3
	read -r pss anon < <(memory)
	threads=$(awk '/^Threads:/ {print $2}' "/proc/$DRIVER_PID/status")
	row "idle memory (PSS), $mode" "$pss kB" "$2" "$3"
	row "  of it anonymous" "$anon kB" "$4" "$5"
	row "  threads" "$threads" '' "$6"
	world_stop "$DRIVER_PID"
}

# The same driver with --http-endpoint, after its pages have been read; and what a page costs.
page() {
	curl --silent --fail --output "$WORLD/page" --write-out '%{time_total}\n' --unix-socket "$WORLD/http.sock" "http://driver/$1"
}

pages_rows() {
	local mode=$1 pss anon i cpu
	world_driver "$mode" --http-endpoint="unix:$WORLD/http.sock" || exit 1
	if [ "$mode" != node ]; then
		world_stream
		create bench-memory
		delete
		world_stream_end
	fi
	for ((i = 0; i < 10; i++)); do
		page healthz && page readyz && page metrics
	done >"$WORLD/pages"
	sleep 3
	read -r pss anon < <(memory)
	row "  with --http-endpoint, its pages read" "$pss kB" "$2"
	cpu=$(cpu_ms "$DRIVER_PID")
	for ((i = 0; i < 50; i++)); do
		page metrics
	done >"$WORLD/pages"
	cpu=$(awk -v from="$cpu" -v to="$(cpu_ms "$DRIVER_PID")" 'BEGIN {printf "%.2f", (to - from) / 50}')
	row "  /metrics, p50 of 50, $(stat -c %s "$WORLD/page") bytes" "$(median <"$WORLD/pages" | awk '{printf "%.2f", $1 * 1000}') ms" '<= 1 ms'
	row '  CPU of the driver per page' "$cpu ms" '<= 1 ms'
	world_stop "$DRIVER_PID"
}

# PSS and anonymous memory of the driver, in kB.
memory() {
	awk '/^Pss:/ {p = $2} /^Anonymous:/ {a = $2} END {print p, a}' "/proc/$DRIVER_PID/smaps_rollup"
}

# A namespace with many volumes that do not concern the driver, and an open watch on them.
crowd_rows() {
	local pss anon
	jq -nc --arg ns "$NAMESPACE" --argjson n "$VOLUMES" '[range($n) | {apiVersion: "storage.dpu.nvidia.com/v1alpha1",
		kind: "DPUVolume", metadata: {name: "pvc-\(.)", namespace: $ns}, spec: {dpuStoragePolicyName: "p",
		accessModes: ["ReadWriteOnce"], resources: {requests: {storage: "1Gi"}}, volumeMode: "Block"}}]' >"$WORLD/crowd.json"
	world_stop "$SIM_PID"
	rm -f "$WORLD/port" "$KUBECONFIG_FILE"
	world_sim --seed --no-dpf --no-fabric --seed-file="$WORLD/crowd.json" || exit 1
	world_driver controller || exit 1
	CALL_TIMEOUT=2 world_stream
	csi_ask CreateVolume "$(create_request bench-crowd)" # nobody binds it: the watch stays
	world_stream_end
	sleep 3
	read -r pss anon < <(memory)
	row "memory (PSS), controller, among $VOLUMES volumes" "$pss kB" 'as without, +-1 MB' '116.7 MB at 10,000'
	row '  of it anonymous' "$anon kB"
	world_stop "$DRIVER_PID"
}

# How many changes change_others() has made.
changes() {
	cat "$WORLD"/changes.* | grep -cx 200
}

# Changes volumes of others, its part of all, one after the other and round and round.
change_others() { # NUMBER, from 0
	local part=$((VOLUMES / WRITERS))
	while :; do
		curl --silent --rate 1000/s --request PATCH --header @"$WORLD/header" --header 'Content-Type: application/merge-patch+json' \
			--data "{\"metadata\":{\"annotations\":{\"changed\":\"$EPOCHREALTIME\"}}}" --output "$WORLD/changed.$1" --write-out '%{http_code}\n' \
			"$SIM_URL/apis/storage.dpu.nvidia.com/v1alpha1/namespaces/$NAMESPACE/dpuvolumes/pvc-[$(($1 * part))-$(($1 * part + part - 1))]" >>"$WORLD/changes.$1"
	done
}

# RATE and CPU: changes and ms of the driver's CPU per second since the last time.
since_last() {
	local now=$EPOCHREALTIME n cpu
	n=$(changes) cpu=$(cpu_ms "$DRIVER_PID")
	RATE=$(awk -v n="$((n - ${LAST_N:-0}))" -v from="${LAST:-0}" -v to="$now" 'BEGIN {printf "%.0f", n / (to - from)}')
	CPU=$(awk -v from="${LAST_CPU:-0}" -v to="$cpu" -v a="${LAST:-0}" -v b="$now" 'BEGIN {printf "%.1f", (to - from) / (b - a)}')
	LAST=$now LAST_N=$n LAST_CPU=$cpu
}

# All at the same moment, among the volumes of crowd_rows: changes of others, creates that wait, and creates that complete.
storm_rows() {
	local pss anon began callers=() i
	rm -f "$WORLD/port" "$KUBECONFIG_FILE"
	world_sim --seed --no-fabric --seed-file="$WORLD/crowd.json" || exit 1
	world_switch POST /sim/faults '{"dpf": "volume-never-bound", "name": "^(pvc-|bench-wait-)", "text": "it waits"}' >"$WORLD/answer" || exit 1
	world_driver controller || exit 1
	"$CSI_CALL" -e "$ENDPOINT" -t 600 --at-once="$WAITING" CreateVolume "$(create_request 'bench-wait-%d')" >"$WORLD/waiting" 2>&1 &
	callers+=("$!")
	sleep 30 # they have all been asked for
	for ((i = 0; i < WRITERS; i++)); do
		change_others "$i" &
		callers+=("$!")
	done
	WORLD_PIDS+=("${callers[@]}")
	sleep 5
	since_last
	sleep 10
	since_last
	row "among $VOLUMES volumes, while $WAITING creates wait: changes of others" "$RATE per s"
	row '  CPU of the driver meanwhile' "$(awk -v cpu="$CPU" 'BEGIN {print cpu / 10}') %"
	began=$EPOCHREALTIME
	"$CSI_CALL" -e "$ENDPOINT" -t 120 --at-once=1000 CreateVolume "$(create_request 'bench-storm-%d')" >"$WORLD/storm" || exit 1
	row '  1000 creates at once, until the last one is answered' "$(milliseconds "$began" "$EPOCHREALTIME" | xargs printf '%.0f ms')"
	since_last
	row '  changes of others meanwhile' "$RATE per s"
	read -r pss anon < <(memory)
	row '  memory (PSS) then' "$pss kB"
	row '  of it anonymous' "$anon kB"
	for i in "${callers[@]}"; do
		world_stop "$i"
	done
	world_stop "$DRIVER_PID"
	world_stop "$SIM_PID"
}

count_threads() {
	awk '/^Threads:/ {print $2}' "/proc/$DRIVER_PID/status"
}

# Creates of volumes that are never bound: each waits on its own thread. Then their client disconnects.
waiting_rows() {
	local pss anon caller
	rm -f "$WORLD/port" "$KUBECONFIG_FILE"
	world_sim --seed --no-dpf --no-fabric || exit 1
	world_driver controller || exit 1
	"$CSI_CALL" -e "$ENDPOINT" -t 300 --at-once="$WAITING" CreateVolume "$(create_request 'bench-wait-%d')" >/dev/null 2>&1 &
	caller=$!
	WORLD_PIDS+=("$caller")
	sleep 15
	read -r pss anon < <(memory)
	row "memory (PSS), controller, $WAITING creates wait" "$pss kB" '<= 46080 kB'
	row '  of it anonymous' "$anon kB"
	row '  threads' "$(count_threads)"
	world_stream
	ask ControllerGetCapabilities '{}'
	row '  ControllerGetCapabilities meanwhile' "$(answer_ms) ms"
	world_stream_end
	world_stop "$caller"
	sleep 60
	read -r pss anon < <(memory)
	row '  60 s after their caller has gone' "$pss kB"
	row '  threads' "$(count_threads)"
	world_stop "$DRIVER_PID"
	world_stop "$SIM_PID"
}

# Memory left behind by operations: after many lives of a volume, compared with that after one.
after_rows() {
	local i fresh pss anon
	world_driver all || exit 1
	world_stream
	for ((i = 0; i < FUNCTIONS; i++)); do
		by_us "fresh-$i"
	done
	sleep 60
	read -r fresh anon < <(memory)
	row 'memory (PSS), all, idle after the first volumes' "$fresh kB"
	row '  threads' "$(count_threads)"
	for ((i = 0; i < CYCLES; i++)); do
		by_us "after-$i"
	done
	sleep 60
	read -r pss anon < <(memory)
	row "  after $CYCLES lives of a volume and 60 s idle" "$pss kB" "<= $((fresh * 11 / 10)) kB"
	row '  threads' "$(count_threads)"
	world_stream_end
	world_stop "$DRIVER_PID"
}

# The cost of N other attachments in the namespace, with the driver's labels or without, as the Go plugin makes them.
attachments_file() {
	jq -nc --arg ns "$NAMESPACE" --argjson n "$1" --argjson labelled "$2" '[range($n) | "pvc-\(.)" as $v | "node-\(. % 500)" as $node | {
		apiVersion: "storage.dpu.nvidia.com/v1alpha1", kind: "DPUVolumeAttachment",
		metadata: ({name: "\($node)-\($v)", namespace: $ns} + if $labelled then {labels: {
			"app.kubernetes.io/managed-by": "csi.snap.nvidia.com", "csi.snap.nvidia.com/volume": $v,
			"csi.snap.nvidia.com/node": $node}} else {} end),
		spec: {dpuNodeName: $node, dpuVolumeName: $v, functionType: "vf", hotplugFunction: false}}]'
}

publish_row() {
	local n=$1 labelled=$2 what=$3 go=${4:-} i
	attachments_file "$n" "$labelled" >"$WORLD/crowd.json"
	world_stop "$SIM_PID"
	rm -f "$WORLD/port" "$KUBECONFIG_FILE"
	world_sim --seed --no-fabric --vfs=$((PUBLISHES + 4)) --seed-file="$WORLD/crowd.json" || exit 1
	world_driver controller || exit 1
	world_stream
	for ((i = -2; i < PUBLISHES; i++)); do # the first two open the watches
		create "bench-publish-$i"
		ask ControllerPublishVolume "$(attach_request)"
		[ "$i" -lt 0 ] || answer_ms
	done >"$WORLD/publish"
	world_stream_end
	world_stop "$DRIVER_PID"
	row "ControllerPublishVolume, p50, among $what" "$(median <"$WORLD/publish" | xargs printf '%.1f ms')" '' "$go"
}

# ---------------------------------------------------------------- calls

probe_rows() {
	local parallel
	for parallel in 1 8; do
		row "Probe, $parallel connection(s)" \
			"$("$CSI_CALL" -e "$ENDPOINT" --rate="$PROBE_SECONDS" --parallel="$parallel" Probe | jq -r .per_second)/s"
	done
}

create_rows() {
	local i cpu requests
	create bench-warm
	delete
	world_switch DELETE /sim/requests >/dev/null
	cpu=$(cpu_ms "$DRIVER_PID")
	for ((i = 0; i < CREATES; i++)); do
		create "bench-$i"
		answer_ms
	done >"$WORLD/create"
	cpu=$(awk -v from="$cpu" -v to="$(cpu_ms "$DRIVER_PID")" -v n="$CREATES" 'BEGIN {printf "%.2f", (to - from) / n}')
	requests=$(world_switch GET /sim/requests | jq -r --argjson n "$CREATES" '[.[] | add] | add / $n')
	for ((i = 0; i < CREATES; i++)); do
		id=bench-$i
		delete
		answer_ms
	done >"$WORLD/delete"
	row 'CreateVolume, fastest' "$(sort -g "$WORLD/create" | head -n 1 | xargs printf '%.1f ms')" '<= API + 2 ms'
	row 'CreateVolume, p50' "$(median <"$WORLD/create" | xargs printf '%.1f ms')" '<= API + 2 ms' '270.8 ms'
	row '  CPU of the driver per CreateVolume' "$cpu ms" '<= 0.5 ms' '2.0-7.4 ms'
	row '  API requests per CreateVolume' "$requests" '1 write, 0-1 reads' '1'
	row 'DeleteVolume, p50' "$(median <"$WORLD/delete" | xargs printf '%.1f ms')"
}

# Loop devices of stages use direct I/O, both the driver's and the script's: an NVMe namespace has no page cache of an
# underlying file. With buffered loops the blank check, which reads 10 MiB, would first fill that cache with the zeros of a
# sparse file; the script, which reads only signatures, would not.
direct_io() { # DEVICE ...
	local device
	for device; do
		losetup --direct-io=on "$device" || return 1
	done
}

# The loop devices of the simulator: those over files of this world.
loops() {
	losetup --noheadings --output NAME,BACK-FILE | awk -v at="$WORLD/" 'index($2, at) == 1 {print $1}'
}

# The same work by a script: blkid, mkfs as the driver calls it, mount, and the bind mount of a publish. One loop device,
# a new file each time. Adds to by-hand.stage and by-hand.publish.
by_hand() {
	local device began mounted
	rm -f "$WORLD/disk"
	truncate -s 1G "$WORLD/disk"
	device=$(losetup --find --show --direct-io=on "$WORLD/disk") || return 1
	mkdir -p "$WORLD/by-hand"
	began=$EPOCHREALTIME
	blkid --probe "$device" >/dev/null
	mkfs.ext4 -q -m0 -Enodiscard "$device" && mount -t ext4 "$device" "$WORLD/by-hand"
	mounted=$EPOCHREALTIME
	milliseconds "$began" "$mounted" >>"$WORLD/by-hand.stage"
	mkdir -p "$WORLD/by-hand-target" && mount --bind "$WORLD/by-hand" "$WORLD/by-hand-target"
	milliseconds "$mounted" "$EPOCHREALTIME" >>"$WORLD/by-hand.publish"
	umount "$WORLD/by-hand-target" && umount "$WORLD/by-hand"
	losetup --detach "$device"
}

# Adds to by-us.stage and by-us.publish.
by_us() {
	create "bench-stage-$1"
	context=$(jq -c '.reply.volume.volume_context // {}' <<<"$answer")
	volume_paths
	ask ControllerPublishVolume "$(attach_request)"
	publish=$(jq -c .reply.publish_context <<<"$answer")
	mapfile -t devices < <(loops)
	direct_io "${devices[@]}" || exit 1
	ask NodeStageVolume "$(stage_request)"
	answer_ms >>"$WORLD/by-us.stage"
	ask NodePublishVolume "$(publish_request)"
	answer_ms >>"$WORLD/by-us.publish"
	ask NodeUnpublishVolume "$(unpublish_request)"
	ask NodeUnstageVolume "$(unstage_request)"
	ask ControllerUnpublishVolume "$(detach_request)"
	delete
}

# In pairs, so that other load of the machine affects both.
stage_rows() {
	local i
	for ((i = 0; i < FUNCTIONS; i++)); do # each function gets its driver, in the simulator's time
		by_us "warm-$i"
	done
	rm -f "$WORLD"/by-us.*
	for ((i = 0; i < STAGES; i++)); do
		by_us "$i"
		by_hand || exit 1
	done
	pair_rows 'NodeStageVolume with mkfs.ext4, direct I/O' 'a shell script: blkid, mkfs.ext4, mount' stage '<= 3 ms'
	pair_rows 'NodePublishVolume' 'a shell script: mkdir, mount --bind' publish '<= 5 ms'
}

# On a busy machine the fastest run of each says more than the median.
pair_rows() { # OURS SCRIPT KIND TARGET
	local what us hand
	for what in "p50 of $STAGES" fastest; do
		us=$(sort -g "$WORLD/by-us.$3" | of_sorted "$what")
		hand=$(sort -g "$WORLD/by-hand.$3" | of_sorted "$what")
		row "$1, $what" "$(printf '%.1f ms' "$us")"
		row "  $2" "$(printf '%.1f ms' "$hand")"
		row '  the difference' "$(awk -v a="$us" -v b="$hand" 'BEGIN {printf "%.1f ms", a - b}')" "$4"
	done
}

of_sorted() {
	if [ "$1" = fastest ]; then head -n 1; else median; fi
}

# Each kind of volume staged and published by a node that has all of them, and that node's memory afterwards. The volumes
# already have their filesystem: measured are discovery, verification, probing and mounting.
kind_rows() {
	local kind i pss anon
	declare -A publish_of parameters_of=([vf]=$parameters [hot-plugged]=$hotplug_parameters [virtio-fs]=$virtiofs_parameters)
	world_mount_helper && world_driver all || exit 1
	world_stream
	for kind in vf hot-plugged virtio-fs; do
		kind_of "$kind"
		parameters=${parameters_of[$kind]} create "bench-$kind"
		ask ControllerPublishVolume "$(attach_request)"
		publish=$(jq -c .reply.publish_context <<<"$answer")
		publish_of[$kind]=$publish
		ask NodeStageVolume "$(stage_request)"
		ask NodeUnstageVolume "$(unstage_request)"
	done
	world_stream_end
	world_stop "$DRIVER_PID"
	world_driver node || exit 1
	world_stream
	for ((i = 0; i < KINDS; i++)); do
		for kind in vf hot-plugged virtio-fs; do
			kind_of "$kind"
			publish=${publish_of[$kind]}
			ask NodeStageVolume "$(stage_request)"
			answer_ms >>"$WORLD/stage.$kind"
			ask NodePublishVolume "$(publish_request)"
			answer_ms >>"$WORLD/publish.$kind"
			ask NodeUnpublishVolume "$(unpublish_request)"
			ask NodeUnstageVolume "$(unstage_request)"
		done
	done
	world_stream_end
	for kind in vf hot-plugged virtio-fs; do
		row "NodeStageVolume, $kind, p50 of $KINDS" "$(median <"$WORLD/stage.$kind" | xargs printf '%.1f ms')"
		row '  NodePublishVolume' "$(median <"$WORLD/publish.$kind" | xargs printf '%.1f ms')"
	done
	sleep 60
	read -r pss anon < <(memory)
	row 'memory (PSS), node, idle after volumes of all kinds' "$pss kB" '<= 6144 kB'
	row '  of it anonymous' "$anon kB"
	world_stop "$DRIVER_PID"
	world_driver all || exit 1
	world_stream
	for kind in vf hot-plugged virtio-fs; do
		kind_of "$kind"
		ask ControllerUnpublishVolume "$(detach_request)"
		delete
	done
	kind_of vf
	world_stream_end
	world_stop "$DRIVER_PID"
}

# The volume of this kind: its id, capability and paths.
kind_of() {
	id=bench-$1 fs=ext4 access_mode=SINGLE_NODE_WRITER context='{}'
	if [ "$1" = virtio-fs ]; then
		fs='' access_mode=MULTI_NODE_MULTI_WRITER
	fi
	volume_paths
}

world_sim --seed --hotplug-slots=2 || exit 1
echo "load average before: $(cut -d' ' -f1 /proc/loadavg) on $(nproc) processors"
row 'what' 'measured' 'target' 'Go plugin'
row 'binary, stripped' "$(strip -o "$WORLD/stripped" "$DRIVER" && stat -c %s "$WORLD/stripped" | awk '{printf "%.1f MB", $1 / 1e6}')" '' '41.2 MB'
start_row controller '45.7 ms'
start_row node '33.8 ms'
start_row all ''
memory_rows node '<= 6144 kB' '32.8 MB' '<= 3072 kB' '6.5 MB' '7-8'
pages_rows node '<= 6656 kB'
memory_rows controller '<= 15360 kB' '35.8 MB' '<= 3072 kB' '7.3 MB' '7-8'
pages_rows controller ''
memory_rows all '' '' '' '' ''
pages_rows all ''
kind_rows
world_driver all || exit 1
world_stream
probe_rows
create_rows
stage_rows
world_stream_end
world_stop "$DRIVER_PID"
after_rows
world_stop "$SIM_PID"
waiting_rows
for n in 0 5000 50000; do
	publish_row "$n" true "$n attachments"
done
publish_row 5000 false '5000 of the Go plugin'
crowd_rows
world_stop "$SIM_PID"
storm_rows
echo 'bench: done'
