#!/usr/bin/env bash
# snap-csi-plugin host watch: from a DPUVolume made by hand to a file on the host and back, through outages of the API server,
# kills at any moment, a reboot, a function that is taken away and a key file. snap-sim is the cluster and the DPU.
# run.sh runs it beside its other cases. Needs root. Prints what is wrong, and fails then.
set -u
cd "$(dirname "$0")/../.." || exit 1
. test/lib/world.sh
. test/e2e/host-lib.sh
world_need_root 'e2e (host watch)'
world_begin
world_mount_helper || exit 1
world_sim --seed --hotplug-slots=4 --node=elsewhere || exit 1
host_begin 'host watch'
WATCH_PID=

cat >"$WORLD/host.yaml" <<END
default: {below: $WORLD/srv, fstype: ext4, format: blank}
volumes:
  raw: {device: true}
  none: {ignore: true}
  shared: {mount: $WORLD/srv/of-all}
  sealed: {mount: $WORLD/srv/sealed, encryption: luks2, key-file: $WORLD/sealed.key}
END

# ---- the watch ----

watch_start() {
	SNAP_SIM_TAGS=$WORLD/sim/$NODE/tags "$driver" host watch --sysfs-root="$WORLD/sim/$NODE/sys" --dev-root="$DEV" --proc-root="${PROC:-/proc}" \
		--state-dir="$WORLD/state" --node-virtiofs-filesystem-type=snapsim --kubeconfig="$KUBECONFIG_FILE" --node="$NODE" \
		--config="$WORLD/host.yaml" >>"$WORLD/watch.log" 2>&1 &
	WATCH_PID=$!
	# The end of this world stops it first: it would mount again what is unmounted.
	# shellcheck disable=SC2034
	DRIVER_PID=$WATCH_PID
	WORLD_PIDS+=("$WATCH_PID")
}

watch_stop() {
	child_signal TERM "$WATCH_PID"
	world_until 30 world_is_gone "$WATCH_PID" || fail 'SIGTERM does not end it'
	wait "$WATCH_PID" || fail "it ends with status $? after SIGTERM"
}

watch_kill() {
	child_signal KILL "$WATCH_PID"
	wait "$WATCH_PID" 2>/dev/null
}

is_mounted() { # DIR
	[ "$(mounted "$1")" = 1 ]
}

is_unmounted() {
	[ "$(mounted "$1")" = 0 ]
}

until_mounted() { # NAME [WHEN]
	world_until 60 is_mounted "$WORLD/srv/$1" || { tail -n 20 "$WORLD/watch.log"; fail "$1 is not mounted${2:+ $2}"; }
}

until_unmounted() {
	world_until 60 is_unmounted "$WORLD/srv/$1" || { tail -n 20 "$WORLD/watch.log"; fail "$1 stays mounted${2:+ $2}"; }
}

log_lines() {
	wc -l <"$WORLD/watch.log"
}

said_since() { # LINE WORDS: in the log behind that line
	tail -n "+$(($1 + 1))" "$WORLD/watch.log" | grep -qF -- "$2"
}

until_said() { # LINE WORDS
	world_until 60 said_since "$1" "$2" || { tail -n 20 "$WORLD/watch.log"; fail "it does not say \"$2\""; }
}

fault() {
	world_switch POST /sim/faults "$1" >"$WORLD/switched"
}

heal() {
	world_switch DELETE /sim/faults >"$WORLD/switched"
}

stream_is_asked_for() {
	world_switch GET /sim/requests | jq -e '.watch.dpuvolumeattachments >= 1' >"$WORLD/jq"
}

# As gone() does, but the attachment's end may take as long as the host needs.
ask_for_end() { # NAME
	world_curl --fail --output /dev/null --request DELETE "$(world_api_url "dpuvolumeattachments/$NODE-$1")" || fail "$1 cannot be deleted"
}

# ---- what it must do ----

# Made by hand, attached, written; the API server goes, comes back, forgets; removed, detached.
life() {
	volume one Block vf false
	until_mounted one
	echo "written on the host" >"$WORLD/srv/one/file"
	volume raw Block vf false
	world_until 60 test -b "$DEV/snap-csi/raw" || fail 'raw is no device'
	volume shared Filesystem pf true
	until_mounted of-all
	volume none Block vf false
	kubectl apply -f <(sed "s/\"$NODE/\"elsewhere/g; s/\"one\"/\"other\"/g" "$WORLD/one.yaml") || fail 'other'
	grep -q curl "/proc/$WATCH_PID/maps" || fail 'a look for libcurl in maps would not find it'
	host list -o json
	[ "$(jq -c '[.[].volume]' <<<"$said")" = '["one","raw","shared"]' ] || fail "attached is $said"
	fault '{"resource":"dpuvolumeattachments","verb":"watch","expireWatch":true,"times":1}'
	fault '{"resource":"dpuvolumeattachments","status":401,"times":4}'
	fault '{"resource":"dpuvolumeattachments","status":403,"times":4}'
	world_switch POST /sim/expire >"$WORLD/switched"
	sleep 1
	heal
	grep -q "written on the host" "$WORLD/srv/one/file" || fail 'the file is lost'
	# No stream that is requested after this point is answered; everything else is.
	world_switch DELETE /sim/requests >"$WORLD/switched"
	fault '[{"resource":"dpuvolumeattachments","verb":"watch","hang":true},{"resource":"dpuvolumeattachments","dropWatch":true,"times":1}]'
	world_until 60 stream_is_asked_for || fail 'no stream is asked for'
	is_mounted "$WORLD/srv/one" || fail 'an outage unmounts'
	# The DPU removes the function only after the host has released it, so that the host's actions are visible.
	fault '{"dpf":"attachment-finalizer-stuck"}'
	exec 7>"$WORLD/srv/one/held"
	local line
	line=$(log_lines)
	ask_for_end one
	until_said "$line" "pid $$"
	is_mounted "$WORLD/srv/one" || fail 'a held volume was unmounted'
	exec 7>&-
	until_unmounted one 'although nobody holds it any more'
	heal
	# What is new is left to the stream, and a new watch has a new one.
	watch_kill
	watch_start
	volume_again one
	until_mounted one 'a second time'
	grep -q "written on the host" "$WORLD/srv/one/file" || fail 'the file is lost'
	gone one raw shared none
	until_unmounted one
	until_unmounted of-all
	[ ! -e "$DEV/snap-csi/raw" ] || world_until 60 test ! -e "$DEV/snap-csi/raw" || fail 'the link is left'
	nothing_is_left 'life'
}

# A manual detach has precedence until the user reverts it.
by_hand() {
	volume two Block vf false
	until_mounted two
	host detach two
	[[ $said == *'host resume'* ]] || fail "detach says $said"
	watch_kill
	local line
	line=$(log_lines)
	watch_start
	until_said "$line" 'was detached by hand'
	is_unmounted "$WORLD/srv/two" || fail 'it is attached again'
	host resume two
	until_mounted two 'after host resume'
	host detach two
	host attach -f "$WORLD/two.json" --mount "$WORLD/srv/elsewhere"
	host detach two
	host resume two
	until_mounted two
	# Unmounted behind its back.
	umount "$WORLD/srv/two"
	until_mounted two 'after umount'
	# Two of them would only interfere with each other.
	refused 1 'another command works on the attachments' watch --kubeconfig "$KUBECONFIG_FILE" --node "$NODE"
	gone two
	until_unmounted two
	nothing_is_left 'by hand'
}

# An encrypted volume, as far as it gets without device-mapper: its key file is checked as host attach does, and read at each attach.
encrypted() {
	local line
	line=$(log_lines)
	(umask 022; echo 'the words of the tenant' >"$WORLD/sealed.key")
	volume sealed Block vf false
	until_said "$line" "sealed.key is accessible to other users (mode 0644"
	line=$(log_lines)
	chmod 600 "$WORLD/sealed.key"
	until_said "$line" 'has no filesystem, and without --format no filesystem is created'
	line=$(log_lines)
	rm "$WORLD/sealed.key"
	until_said "$line" 'sealed.key: No such file'
	said_since 0 'words of the tenant' && fail 'a passphrase is in the log'
	is_unmounted "$WORLD/srv/sealed" || fail 'a volume without its key is mounted'
	gone sealed
	nothing_is_left 'encrypted'
}

# Its function vanishes; it is attached again when it is back, in another slot.
surprise() {
	local line
	line=$(log_lines)
	volume hot Block pf true
	until_mounted hot
	echo data >"$WORLD/srv/hot/file"
	sync "$WORLD/srv/hot/file"
	world_switch POST /sim/unplug '{"volume":"hot"}' >"$WORLD/switched"
	until_said "$line" DeviceGone
	host list -o json
	jq -e '.[0].faults[0].status == "inaccessible"' <<<"$said" >"$WORLD/jq" || fail "an unplugged volume is listed as $said"
	# snap-sim gives the disk no other loop device while the last one is mounted.
	umount "$WORLD/srv/hot"
	world_switch POST /sim/plug '{"volume":"hot","slot":2}' >"$WORLD/switched"
	until_mounted hot 'although its function is back'
	[ "$(cat "$WORLD/srv/hot/file")" = data ] || fail 'the data are lost'
	gone hot
	until_unmounted hot
	nothing_is_left 'surprise'
}

# Deleted while no watch runs, and while the API server is unreachable; an earlier attachment under the same name.
unwatched() {
	volume three Block vf false
	until_mounted three
	watch_stop
	is_mounted "$WORLD/srv/three" || fail 'SIGTERM unmounts'
	gone three
	is_mounted "$WORLD/srv/three" || fail 'it was unmounted by nobody'
	fault '{"resource":"dpuvolumeattachments","status":503}'
	watch_start
	sleep 1
	is_mounted "$WORLD/srv/three" || fail 'what cannot be asked for counts as gone'
	heal
	until_unmounted three 'although its attachment has gone'
	nothing_is_left 'unwatched'
}

# Another boot: its records are void, nothing is mounted, and everything comes back.
reboot() {
	volume four Block vf false
	until_mounted four
	echo data >"$WORLD/srv/four/file"
	watch_kill
	umount "$WORLD/srv/four"
	mkdir -p "$WORLD/proc/sys/kernel/random"
	for what in self mounts filesystems modules cmdline; do
		ln -sfn "/proc/$what" "$WORLD/proc/$what"
	done
	echo 11111111-2222-4333-8444-555555555555 >"$WORLD/proc/sys/kernel/random/boot_id"
	sed -i "s/$(cat /proc/sys/kernel/random/boot_id)/00000000-2222-4333-8444-555555555555/" "$WORLD/state/volumes/four.json"
	sed 's/"four"/"stale"/' "$WORLD/state/volumes/four.json" >"$WORLD/state/volumes/stale.json"
	watch_start
	until_mounted four 'after a reboot'
	[ "$(cat "$WORLD/srv/four/file")" = data ] || fail 'the data are lost'
	world_until 30 test ! -e "$WORLD/state/volumes/stale.json" || fail 'a record of another boot is left'
	gone four
	until_unmounted four
	nothing_is_left 'reboot'
}

# NVMe on a static PF, which no StorageClass selects: attached, found by host check, taken back, and attached again.
static_pf() {
	local line
	volume static Block pf false
	until_mounted static
	echo "on a static PF" >"$WORLD/srv/static/file"
	host list -o json
	jq -e --arg pci "$(jq -r .status.dpu.pciAddress "$WORLD/static.json")" '.[0].pciAddress == $pci and .[0].faults == []' <<<"$said" >"$WORLD/jq" ||
		fail "a static PF is listed as $said"
	host check -f "$WORLD/static.json"
	[[ $said == *'1 static PFs of the DPU'* && $said == *"of attachment $NODE-static is present"* ]] || fail "host check of a static PF: $said"
	ask_for_end static
	until_unmounted static
	volume_again static
	until_mounted static 'a second time'
	grep -q 'on a static PF' "$WORLD/srv/static/file" || fail 'the file is lost'
	gone static
	until_unmounted static
	# Only the UUID proves what a static PF has.
	line=$(log_lines)
	fault '{"dpf":"missing","name":"^unproven$","value":"dpu.nvmeAttrs.namespaceUUID"}'
	volume unproven Block pf false
	until_said "$line" 'has no namespaceUUID'
	is_unmounted "$WORLD/srv/unproven" || fail 'a static PF is attached without a proof'
	heal
	gone unproven
	nothing_is_left 'a static PF'
}

# A key/value namespace as its character device; it vanishes, and comes back in another slot.
key_value() {
	local line
	volume raw Block pf true '{"memos_subsystem_nqn": "nqn.2024-01.example:pairs"}'
	world_until 60 test -c "$DEV/snap-csi/raw" || { tail -n 20 "$WORLD/watch.log"; fail 'a key/value namespace is no character device'; }
	line=$(log_lines)
	world_switch POST /sim/unplug '{"volume":"raw"}' >"$WORLD/switched"
	until_said "$line" DeviceGone
	world_switch POST /sim/plug '{"volume":"raw","slot":2}' >"$WORLD/switched"
	world_until 60 is_sound || fail "a key/value namespace that has come back is listed as $said"
	exec 7<>"$DEV/snap-csi/raw"
	line=$(log_lines)
	fault '{"dpf":"attachment-finalizer-stuck"}'
	ask_for_end raw
	until_said "$line" "pid $$"
	exec 7>&-
	world_until 60 test ! -L "$DEV/snap-csi/raw" || fail 'the link is left although nobody has it open'
	heal
	world_until 60 is_gone "dpuvolumeattachments/$NODE-raw" || fail 'its attachment stays'
	kubectl delete -f <(sed '/^---$/,$d' "$WORLD/raw.yaml") || fail 'raw cannot be deleted'
	nothing_is_left 'a key/value namespace'
}

is_sound() {
	host list -o json
	jq -e '.[0].faults == []' <<<"$said" >"$WORLD/jq"
}

# Killed at any moment of attach and detach.
kills() {
	local after
	volume five Block vf false
	for after in 0.01 0.1 0.3; do
		ask_for_end five
		world_until 60 is_gone "dpuvolumeattachments/$NODE-five" || fail 'its attachment stays'
		until_unmounted five
		watch_kill
		volume_again five
		watch_start
		sleep "$after"
		watch_kill
		watch_start
		until_mounted five "after a kill at $after"
		[ "$after" = 0.01 ] || [ "$(cat "$WORLD/srv/five/file")" = data ] || fail "the data are lost after a kill at $after"
		echo data >"$WORLD/srv/five/file"
		ask_for_end five
		sleep "$after"
		watch_kill
		watch_start
		until_unmounted five "after a kill at $after"
		volume_again five
		until_mounted five "again, after a kill at $after"
	done
	gone five
	until_unmounted five
	nothing_is_left 'kills'
}

# A volume that never comes keeps no other waiting, nor SIGTERM.
stuck() {
	fault '{"dpf":"device-late","name":"^late","ms":600000}'
	for name in late-1 late-2; do
		volume "$name" Block vf false
	done
	volume six Block vf false
	until_mounted six 'beside what does not come'
	# Deleted while an attach for it waits for its device.
	ask_for_end late-2
	world_until 60 is_gone "dpuvolumeattachments/$NODE-late-2" || fail 'its attachment stays'
	watch_stop
	watch_start
	heal
	gone six late-1
	kubectl delete -f <(sed '/^---$/,$d' "$WORLD/late-2.yaml") || fail 'late-2 cannot be deleted'
	until_unmounted six
	nothing_is_left 'stuck'
}

# The messages to a service manager.
notifies() {
	python3 - "$WORLD/notify" >"$WORLD/notified" <<-'END' &
		import socket, sys
		s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
		s.bind(sys.argv[1])
		s.settimeout(60)
		while True:
		    text = s.recv(4096).decode()
		    print(text, flush=True)
		    if text.startswith("STOPPING=1"):
		        break
	END
	local pid=$!
	WORLD_PIDS+=("$pid")
	world_until 30 test -S "$WORLD/notify" || fail 'nobody listens'
	volume seven Block vf false
	NOTIFY_SOCKET=$WORLD/notify WATCHDOG_USEC=2000000 watch_start
	until_mounted seven
	world_until 30 grep -q '^READY=1$' "$WORLD/notified" || fail "READY=1 is missing: $(cat "$WORLD/notified")"
	world_until 30 grep -q '^STATUS=1 attached, 0 not$' "$WORLD/notified" || fail "the status is missing: $(cat "$WORLD/notified")"
	world_until 30 grep -q '^WATCHDOG=1$' "$WORLD/notified" || fail 'the watchdog is not told'
	gone seven
	until_unmounted seven
	watch_stop
	wait "$pid" || fail 'STOPPING=1 is missing'
}

refused 1 'line 2: "mounts" is not a key' watch --kubeconfig "$KUBECONFIG_FILE" --node "$NODE" --config <(printf 'volumes:\n  a: {mounts: /x}\n')
watch_start
life
by_hand
encrypted
surprise
static_pf
key_value
unwatched
reboot
kills
stuck
watch_stop
notifies
grep -hE -A30 'ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|runtime error:' "$WORLD"/*.log "$WORLD/stderr" && fail 'a sanitizer has found something'
echo 'host watch: lives, outages, kills, a reboot, functions that vanish'
