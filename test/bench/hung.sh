#!/usr/bin/env bash
# A node on which all volumes except one have a dead backend: HUNG (249) volumes on images of a frozen filesystem (fsfreeze),
# each with an unmount that blocks in the kernel, and one volume elsewhere. Prints the duration of that volume's calls before
# and during the hang, and the memory of the node's driver before, during and after it. Needs root and as many loop devices;
# runs in its own mount namespace. No number makes it fail.
set -u
cd "$(dirname "$0")/../.." || exit 1
HUNG=${HUNG:-249} ROUNDS=${ROUNDS:-9}
export FUNCTIONS=$((HUNG + 1))
. test/lib/world.sh
. test/lib/requests.sh
GLIBC_TUNABLES=$(sed -n 's/^ENV GLIBC_TUNABLES=//p' Dockerfile)
export GLIBC_TUNABLES # as in the image
world_need_root bench-hung
world_begin

thaw() {
	fsfreeze --unfreeze "$WORLD/sim" 2>/dev/null
	sleep 3
}
clean_up() {
	thaw
	grep -o " $WORLD/kubelet/[^ ]*" /proc/mounts | sort -r | xargs -r -n 1 umount
	world_stop "$DRIVER_PID"
	world_stop "$SIM_PID"
	umount "$WORLD/sim" "$WORLD/kubelet"
	world_end
}
trap clean_up EXIT

row() {
	printf '%-44s %12s   %s\n' "$1" "$2" "${3:-}"
}
ask() {
	csi_ask "$1" "$2"
	[ "$code" = OK ] && return 0
	printf 'bench-hung: %s\n' "$answer" >&2
	exit 1
}
memory_row() { # WHEN
	row "memory (PSS), $1" "$(awk '/^Pss:/ {print $2}' "/proc/$DRIVER_PID/smaps_rollup") kB" "${2:-}"
	row '  of it anonymous' "$(awk '/^Anonymous:/ {print $2}' "/proc/$DRIVER_PID/smaps_rollup") kB"
	row '  threads' "$(awk '/^Threads:/ {print $2}' "/proc/$DRIVER_PID/status")"
}
attach() { # NAME
	id=$1
	ask CreateVolume "$(create_request "$id")"
	context=$(jq -c '.reply.volume.volume_context // {}' <<<"$answer")
	volume_paths
	ask ControllerPublishVolume "$(attach_request)"
	publish=$(jq -c .reply.publish_context <<<"$answer")
}
# Adds the time of each call of the healthy volume to FILE.<call>.
timed() { # FILE METHOD JSON
	ask "$2" "$3"
	jq -r .ms <<<"$answer" >>"$1.$2"
}
live() { # FILE
	timed "$1" NodeStageVolume "$(stage_request)"
	timed "$1" NodePublishVolume "$(publish_request)"
	timed "$1" NodeGetVolumeStats "{\"volume_id\":\"$id\",\"volume_path\":\"$target\"}"
	timed "$1" NodeUnpublishVolume "$(unpublish_request)"
	timed "$1" NodeUnstageVolume "$(unstage_request)"
}
median() {
	sort -g "$1" | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'
}

mkdir "$WORLD/kubelet" "$WORLD/sim"
mount --bind "$WORLD/kubelet" "$WORLD/kubelet" && mount --make-shared "$WORLD/kubelet" || exit 1
truncate -s 12G "$WORLD/backend"
mkfs.ext4 -q "$WORLD/backend" && mount -o loop "$WORLD/backend" "$WORLD/sim" && rmdir "$WORLD/sim/lost+found" || exit 1
type=mount fs=ext4
world_sim --seed || exit 1
world_driver all "--kubelet-dir=$WORLD/kubelet" || exit 1
world_stream
for ((i = 0; i < HUNG; i++)); do
	attach "hung-$i"
	ask NodeStageVolume "$(stage_request)"
done
: >"$WORLD/healthy"
ln -s "$WORLD/healthy" "$WORLD/sim/images/$NAMESPACE.healthy"
attach healthy
world_stream_end # from here on it is a node's driver, without the controller's libraries
world_stop "$DRIVER_PID"
world_driver node "--kubelet-dir=$WORLD/kubelet" || exit 1
world_stream
for ((i = 0; i < ROUNDS; i++)); do
	live "$WORLD/idle"
done
sleep 40
memory_row idle
sync --file-system "$WORLD/sim"
for ((i = 0; i < HUNG; i++)); do # so that each unmount has something to write
	echo written >"$WORLD/kubelet/plugins/hung-$i/globalmount/file"
done
fsfreeze --freeze "$WORLD/sim" || exit 1
"$CSI_CALL" -e "$ENDPOINT" -t 10 --at-once="$HUNG" NodeUnstageVolume \
	"{\"volume_id\":\"hung-%d\",\"staging_target_path\":\"$WORLD/kubelet/plugins/hung-%d/globalmount\"}" >/dev/null
for ((i = 0; i < ROUNDS; i++)); do
	live "$WORLD/hung"
done
sleep 5 # what was freed is given back
memory_row "$HUNG of $FUNCTIONS hang" '<= 14336 kB'
row '  in the kernel for good' "$(awk '$3 == "D"' "/proc/$DRIVER_PID/task/"*/stat | wc -l)"
for call in NodeStageVolume NodePublishVolume NodeGetVolumeStats NodeUnpublishVolume NodeUnstageVolume; do
	row "$call of the healthy one, p50" "$(median "$WORLD/hung.$call") ms" "<= 2 x $(median "$WORLD/idle.$call") ms"
done
thaw
sleep 45
memory_row 'after the thaw and 45 s idle'
world_stream_end
echo 'bench-hung: done'
