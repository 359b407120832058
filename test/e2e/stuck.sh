#!/usr/bin/env bash
# Three volumes of one node hang in three calls at once, on images of a frozen filesystem: one in umount, one in fsync of raw
# block, one in mkfs. A fourth works normally during that time. The driver ends at SIGTERM, the next one reports nothing that
# is untrue, and after the thaw all calls complete and no data are lost. run.sh runs it next to its other cases, since most of
# its time is the 25 s of a SIGTERM. Needs root and four loop devices. Prints errors, and fails if there are any.
set -u
cd "$(dirname "$0")/../.." || exit 1
. test/lib/world.sh
. test/lib/requests.sh
world_need_root 'e2e (stuck)'
world_begin
CALL_TIMEOUT=10
slow=$WORLD/slow

thaw() {
	fsfreeze --unfreeze "$slow" 2>/dev/null
}
clean_up() {
	local status=$?
	thaw
	sleep 1
	(exit "$status")
	world_end
}
trap clean_up EXIT

fail() {
	printf 'stuck: %s\n' "$1"
	tail -n 20 "$WORLD/node.log"
	exit 1
}
ask() { # METHOD JSON
	csi_ask "$1" "$2"
	[ "$code" = OK ] || fail "$1: $answer"
}
# The volume of the next calls; its image is on the filesystem that freezes, or not.
volume() { # NAME TYPE
	id=$1 type=$2 fs=
	[ "$type" = block ] || fs=ext4
	volume_paths
	context='{}' publish=$(cat "$WORLD/publish.$id" 2>/dev/null)
}
attach() { # NAME TYPE
	volume "$1" "$2"
	ask CreateVolume "$(create_request "$id")"
	ask ControllerPublishVolume "$(attach_request)"
	jq -c .reply.publish_context <<<"$answer" >"$WORLD/publish.$id"
	volume "$1" "$2"
}
attach_slow() {
	: >"$slow/$1"
	ln -s "$slow/$1" "$WORLD/sim/images/$NAMESPACE.$1"
	attach "$@"
}
# A life of the healthy volume, each call within CALL_TIMEOUT seconds.
live() { # WHEN
	volume healthy mount
	ask NodeStageVolume "$(stage_request)"
	ask NodePublishVolume "$(publish_request)"
	[ ! -e "$target/file" ] || [ "$(cat "$target/file")" = "$last" ] || fail "$1: the healthy volume has lost its file"
	last=$1
	echo "$last" >"$target/file"
	ask NodeGetVolumeStats "{\"volume_id\":\"$id\",\"volume_path\":\"$target\"}"
	ask NodeUnpublishVolume "$(unpublish_request)"
	ask NodeUnstageVolume "$(unstage_request)"
}
# A call that is not answered in time, in the background.
stick() { # METHOD JSON
	"$CSI_CALL" -e "$ENDPOINT" -t 3 "$1" "$2" >"$WORLD/answer.$id" 2>&1 &
	sticking+=("$!")
}
# The next driver's answer for a volume that still hangs: neither OK nor final.
still_stuck() { # METHOD JSON
	csi_ask "$1" "$2"
	case $code in
	UNAVAILABLE | ABORTED | DEADLINE_EXCEEDED) ;;
	*) fail "$1 of $id while its disk hangs: $answer" ;;
	esac
}
ended() {
	grep -q "not stopped 25 s after the signal" "$WORLD/node.log" || ! child_runs "$DRIVER_PID"
}
until_ok() { # METHOD JSON
	local end=$((SECONDS + 400))
	while csi_ask "$1" "$2" && [ "$code" != OK ]; do
		[ "$SECONDS" -lt "$end" ] || fail "$1 of $id after the thaw: $answer"
		sleep 0.2
	done
}

mkdir "$slow"
truncate -s 5G "$WORLD/backend"
if ! mkfs.ext4 -q "$WORLD/backend" || ! mount -o loop "$WORLD/backend" "$slow"; then
	fail 'there is no filesystem to freeze'
fi
world_sim --seed || exit 1
world_driver all || exit 1
world_stream
attach_slow in-umount mount
ask NodeStageVolume "$(stage_request)"
attach_slow in-fsync block
ask NodeStageVolume "$(stage_request)"
ask NodePublishVolume "$(publish_request)"
head -c 1M /dev/urandom >"$WORLD/data"
# Open by another way than the pod's, so that the kernel does not write back already when the writer closes.
mknod "$WORLD/kept" b $(("0x$(stat -c %t "$target")")) $(("0x$(stat -c %T "$target")"))
exec {kept}<"$WORLD/kept"
attach_slow in-mkfs mount
attach healthy mount
world_stream_end # from here on it is a node's driver
world_stop "$DRIVER_PID"
world_driver node || exit 1
world_stream
last=
live idle

sync --file-system "$slow"
volume in-umount mount
cp "$WORLD/data" "$staging/file"
volume in-fsync block
fsfreeze --freeze "$slow" || fail 'the filesystem cannot be frozen'
dd if="$WORLD/data" of="$target" bs=1M conv=notrunc status=none || fail 'the raw block volume cannot be written'
ask NodeUnpublishVolume "$(unpublish_request)"
sticking=()
stick NodeUnstageVolume "$(unstage_request)"
volume in-umount mount
stick NodeUnstageVolume "$(unstage_request)"
volume in-mkfs mount
stick NodeStageVolume "$(stage_request)"
live 'all three stick'
wait "${sticking[@]}"
for id in in-umount in-fsync in-mkfs; do
	grep -q '^DEADLINE_EXCEEDED' "$WORLD/answer.$id" || fail "$id does not stick: $(cat "$WORLD/answer.$id")"
done
live 'their callers have gone'

child_signal TERM "$DRIVER_PID"
world_stream_end
world_until 40 ended || fail 'the driver does not end'
for id in in-umount in-fsync; do
	grep 'cut at the end of the process' "$WORLD/node.log" | grep -q "$id" || fail "the log does not say that a call of $id was cut"
done
world_driver node || exit 1
world_stream
live 'the next driver has begun'
volume in-umount mount
still_stuck NodeUnstageVolume "$(unstage_request)"
volume in-mkfs mount
still_stuck NodeStageVolume "$(stage_request)"
volume in-fsync block
stick NodeUnstageVolume "$(unstage_request)"
wait "${sticking[-1]}"
grep -q '^DEADLINE_EXCEEDED' "$WORLD/answer.$id" || fail "in-fsync, the next driver: $(cat "$WORLD/answer.$id")"

thaw
exec {kept}<&-
volume in-umount mount
until_ok NodeUnstageVolume "$(unstage_request)"
until_ok NodeStageVolume "$(stage_request)"
cmp "$WORLD/data" "$staging/file" || fail 'the file of before the freeze is lost'
until_ok NodeUnstageVolume "$(unstage_request)"
volume in-fsync block
until_ok NodeUnstageVolume "$(unstage_request)"
cmp -n 1048576 "$WORLD/data" "$slow/in-fsync" || fail 'what was written to the raw block volume is lost'
volume in-mkfs mount
until_ok NodeStageVolume "$(stage_request)"
until_ok NodeUnstageVolume "$(unstage_request)"
live 'after the thaw'
world_stream_end
