#!/usr/bin/env bash
# snap-csi-plugin host on a host without kubelet: the commands of docs/hosts/zero-trust.md in their order, then what they must
# refuse. snap-sim is the cluster and the DPU; the attachments are its objects, as kubectl would print them.
# run.sh runs it beside its other cases. Needs root. Prints what is wrong, and fails then.
set -u
cd "$(dirname "$0")/../.." || exit 1
. test/lib/world.sh
. test/e2e/host-lib.sh
. test/e2e/scenarios.sh
world_need_root 'e2e (host)'
world_begin
world_mount_helper || exit 1
world_sim --seed --hotplug-slots=4 || exit 1
host_begin host
mkdir "$WORLD/cwd"
steps=0

# ---- the document ----

# Its commands, one after the other: each must succeed. The host's directories are those of this world. Not as a part of a
# condition, where bash ignores set -e.
story() {
	local status
	sed -n '/^```sh$/,/^```$/{/^```/d;p}' docs/hosts/zero-trust.md |
		sed "s,/srv/,$WORLD/srv/,g" >"$WORLD/story.sh"
	steps=$(grep -cE 'snap-csi-plugin|kubectl' "$WORLD/story.sh")
	(
		cd "$WORLD/cwd" || exit
		# What the document starts as a service ends with it, whatever fails.
		trap 'kill $(jobs -p) 2>/dev/null || :' EXIT
		HOST_SHELL=$BASHPID
		set -e -o pipefail
		# shellcheck disable=SC1091 # made above
		. "$WORLD/story.sh"
	) >"$WORLD/story.log" 2>&1
	status=$?
	[ "$status" = 0 ] || { cat "$WORLD/story.log"; fail 'a command of docs/hosts/zero-trust.md'; }
}

# ---- what else it must do, and refuse ----

one_mount() {
	local dir=$WORLD/srv/one pids=() pid
	volume one Block vf false
	volume two Block vf false
	refused 1 'without --format no filesystem is created; a new volume needs --format=blank' attach -f "$WORLD/one.json" --mount "$dir"
	for _ in 1 2 3; do
		snap-csi-plugin host attach -f - --mount "$dir/" --fstype xfs --format blank --options noatime <"$WORLD/one.json" >"$WORLD/said.$_" 2>&1 &
		pids+=("$!")
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || { cat "$WORLD"/said.*; fail 'one of three at once'; }
	done
	[ "$(mounted "$dir")" = 1 ] || fail "$(mounted "$dir") mounts, not one"
	refused 1 'other options' attach -f "$WORLD/one.json" --mount "$dir"
	refused 1 'detach it first' attach -f "$WORLD/one.json" --mount "$dir/below" --options noatime
	refused 1 'detach it first' attach -f "$WORLD/one.json"
	refused 1 'is the mount point of volume one' attach -f "$WORLD/two.json" --mount "$dir" --format blank
	refused 1 'is already attached as volume one' attach -f <(sed 's/"dpuVolumeName": "one"/"dpuVolumeName": "other"/' "$WORLD/one.json") --device
	exec 7>"$dir/held"
	refused 1 "pid $$" detach one
	[ "$(mounted "$dir")" = 1 ] || fail 'a held volume was unmounted'
	exec 7>&-
	mount -t tmpfs over "$dir" || fail 'cannot mount over it'
	refused 1 'is not volume one' detach one
	umount "$dir"
	host detach one
	host detach one
	[[ $said == *'not attached'* ]] || fail "detached twice: $said"
	refused 1 'is not a valid volume name' detach ../one
	# What fails leaves no record, which would keep the volume from any other directory.
	mount -t tmpfs other "$dir" || fail 'cannot mount another filesystem'
	refused 1 'already shows tmpfs' attach -f "$WORLD/one.json" --mount "$dir"
	refused 1 'its last component is not a name' attach -f "$WORLD/one.json" --mount "$dir/."
	host attach -f "$WORLD/one.json" --mount "$dir-other"
	host detach one
	umount "$dir"
	gone one two
	nothing_is_left 'one mount'
}

disks() {
	local link=$DEV/snap-csi/disk
	volume disk Block pf true
	host attach -f "$WORLD/disk.json" --device
	[[ $said == "$link" && -b $link ]] || fail "no disk at $link: $said"
	exec 7<>"$link"
	refused 1 'open for writing' detach disk --timeout 5
	exec 7>&-
	host attach -f "$WORLD/disk.json"
	rm "$link"
	echo precious >"$link"
	refused 1 'exists and is not a link' attach -f "$WORLD/disk.json"
	refused 1 'exists and is not a link' detach disk
	[ "$(cat "$link")" = precious ] || fail 'a file was taken for a link'
	rm "$link"
	host attach -f "$WORLD/disk.json"
	echo foreign | dd of="$link" conv=fsync,notrunc status=none
	host detach disk
	[ ! -e "$link" ] || fail 'the link is left'
	refused 1 '--format=unformatted formats it anyway' attach -f "$WORLD/disk.json" --mount "$WORLD/srv/disk" --format blank
	host attach -f "$WORLD/disk.json" --mount "$WORLD/srv/disk" --format unformatted
	host list -o json
	[ "$(jq -r '.[0].pciAddress' <<<"$said")" = "$(jq -r .status.dpu.pciAddress "$WORLD/disk.json")" ] || fail "the list does not have the address of the disk: $said"
	world_switch POST /sim/unplug '{"volume":"disk"}' >"$WORLD/switched"
	host list -o json
	jq -e '.[0] | .volume == "disk" and .faults[0].status == "inaccessible"' <<<"$said" >"$WORLD/jq" || fail "an unplugged disk is listed as $said"
	host detach disk
	gone disk
	nothing_is_left 'disks'
}

# The record of a killed mkfs ends when the disk is used for another volume.
handed_out() {
	local mkfs
	mkfs=$(readlink -f "$(PATH=/usr/sbin:/sbin command -v mkfs.ext4)")
	printf '#!/bin/sh\necho half | dd of=/proc/self/fd/3 bs=1 seek=40960 status=none\nkill -9 $$\n' >"$WORLD/mkfs"
	chmod +x "$WORLD/mkfs"
	volume out Block pf true
	# shellcheck disable=SC2016 # for the inner shell
	host_through=(unshare --mount sh -c 'mount --bind "$0" "$1" && shift && exec "$@"' "$WORLD/mkfs" "$mkfs")
	refused 1 'killed by signal 9' attach -f "$WORLD/out.json" --mount "$WORLD/srv/out" --format blank
	host_through=()
	[ "$(find "$WORLD/state/formatting" -type f | wc -l)" = 1 ] || fail 'a killed mkfs has left no record'
	host attach -f "$WORLD/out.json" --device
	echo precious | dd of="$said" bs=1M seek=1 conv=fsync,notrunc status=none
	host detach out
	refused 1 'is not blank' attach -f "$WORLD/out.json" --mount "$WORLD/srv/out" --format blank
	gone out
	nothing_is_left 'a disk that was handed out'
}

# A user's folder: the user replaces a directory on the way by a link while mkfs runs. Nothing is mounted, made or removed
# where the link leads.
exchanged() {
	local mkfs point home=$WORLD/srv/home
	mkfs=$(readlink -f "$(PATH=/usr/sbin:/sbin command -v mkfs.ext4)")
	mkdir -p "$WORLD/real"
	cp "$mkfs" "$WORLD/real/mkfs.ext4"
	printf '#!/bin/sh\n[ ! -e %s/folder ] || mv %s/folder %s/moved\nln -sfn %s/etc %s/folder\nexec %s "$@"\n' "$home" "$home" "$home" "$WORLD/srv" "$home" "$WORLD/real/mkfs.ext4" >"$WORLD/mkfs"
	chmod +x "$WORLD/mkfs"
	for point in point other; do
		volume "$point" Block vf false
		mkdir -p "$home/folder/point" "$WORLD/srv/etc/point"
		# shellcheck disable=SC2016 # for the inner shell
		host_through=(unshare --mount sh -c 'mount --bind "$0" "$1" && shift && exec "$@" 2>&1; status=$?; grep " $SWAPPED" /proc/self/mountinfo && exit 9; exit $status' "$WORLD/mkfs" "$mkfs")
		SWAPPED=$WORLD/srv/etc refused 1 'is a symbolic link' attach -f "$WORLD/$point.json" --mount "$home/folder/$point" --format unformatted
		host_through=()
		[ -d "$WORLD/srv/etc/point" ] || fail 'a directory behind a link was removed'
		[ ! -e "$WORLD/srv/etc/other" ] || fail 'a directory was made behind a link'
		rm -r "$home"
	done
	host attach -f "$WORLD/point.json" --mount "$home/safe"
	grep -q " $home/safe [^ ]*nosuid,nodev" /proc/self/mountinfo || fail 'a host mount is not nosuid,nodev'
	host detach point
	host attach -f "$WORLD/point.json" --mount "$home/safe" --options suid,dev
	! grep -q " $home/safe [^ ]*nosuid" /proc/self/mountinfo || fail 'suid was requested'
	host detach point
	rm -r "$home" "$WORLD/srv/etc"
	gone point other
	nothing_is_left 'a folder that was replaced'
}

shares() {
	volume share Filesystem pf true
	refused 1 'attach it with --mount' attach -f "$WORLD/share.json"
	refused 1 'which is never formatted' attach -f "$WORLD/share.json" --mount "$WORLD/srv/share" --format blank
	for _ in 1 2; do
		host attach -f "$WORLD/share.json" --mount "$WORLD/srv/share"
	done
	[ "$(mounted "$WORLD/srv/share")" = 1 ] || fail 'a share is mounted twice'
	host detach share
	mkdir "$WORLD/srv/home"
	chown 1000 "$WORLD/srv/home"
	refused 1 'users other than root can replace entries' attach -f "$WORLD/share.json" --mount "$WORLD/srv/home/share"
	gone share
	nothing_is_left 'shares'
}

not_ready() {
	local first
	volume late Block vf false
	refused 3 'Ready is not True' attach -f <(jq '(.status.conditions[] | select(.type == "Ready")).status = "False"' "$WORLD/late.json")
	refused 3 'is being deleted' attach -f <(jq '.metadata.deletionTimestamp = "2026-01-01T00:00:00Z"' "$WORLD/late.json")
	refused 1 'is a List of 1 objects' attach -f <(jq '{apiVersion: "v1", kind: "List", items: [.]}' "$WORLD/late.json")
	jq '.status.dpu.pciAddress = "0000:77:0A.1" | del(.status.dpu.funcVUID)' "$WORLD/late.json" >"$WORLD/absent.json"
	snap-csi-plugin host attach --timeout 6 -f "$WORLD/absent.json" --mount "$WORLD/srv/late" --format blank >"$WORLD/late.log" 2>&1 &
	first=$!
	world_until 10 test -e "$WORLD/state/volumes/late.json" || fail 'an attach that waits has no record'
	grep -q libyaml "/proc/$first/maps" || fail 'its libraries cannot be seen'
	! grep -q curl "/proc/$first/maps" || fail 'an attach loads libcurl'
	# The same device under another name, while it is not there: the first one has it.
	refused 1 'is already attached as volume late' attach --timeout 5 \
		-f <(jq '.spec.dpuVolumeName = "later" | .status.dpu.pciAddress = "77:0a.1"' "$WORLD/absent.json") --mount "$WORLD/srv/later" --format blank
	wait "$first"
	grep -q 'no PCI function' "$WORLD/late.log" || { cat "$WORLD/late.log"; fail 'an attach of what never comes'; }
	gone late
	nothing_is_left 'not ready'
}

# The scenarios of DPF's examples for non-trusted hosts, by the names of their folders.
scenarios() {
	local folder mode POLICY function hotplug dir
	scenario_policies || fail 'the policies of the scenarios cannot be made'
	while read -r folder mode POLICY function hotplug; do
		dir=$WORLD/srv/$folder
		volume "$folder" "$mode" "$function" "$hotplug"
		if [ "$mode" = Block ]; then
			host attach -f "$WORLD/$folder.json" --mount "$dir" --fstype ext4 --format blank
		else
			host attach -f "$WORLD/$folder.json" --mount "$dir"
		fi
		echo "$folder" >"$dir/file" || fail "$folder: no file can be written"
		host list
		[[ $said == *"$folder"*ok* ]] || fail "host list of $folder: $said"
		host detach "$folder"
		host attach -f "$WORLD/$folder.json" --mount "$dir"
		[ "$(cat "$dir/file")" = "$folder" ] || fail "$folder: the data are not there"
		host detach "$folder"
		gone "$folder"
	done <<-'END'
		nvme-static-pf Block policy-block pf false
		nvme-vf-on-static-pf Block policy-block vf false
		nvme-hotplug-pf Block policy-block pf true
		virtiofs-hotplug-pf Filesystem policy-fs pf true
	END
	nothing_is_left 'scenarios'
}

# Only the UUID proves what a static PF has.
static_pf() {
	volume static Block pf false
	refused 1 'has no namespaceUUID' attach --timeout 2 -f <(jq 'del(.status.dpu.nvmeAttrs.namespaceUUID)' "$WORLD/static.json")
	refused 1 "not this volume's disk" attach --timeout 2 -f <(jq '.status.dpu.nvmeAttrs.namespaceUUID |= sub("^.";"0") | .status.dpu.nvmeAttrs.namespaceUUID |= sub(".$";"0")' "$WORLD/static.json")
	refused 1 'is a VF of 0000:26:00.0' attach --timeout 2 -f <(jq '.status.dpu.pciAddress = "0000:26:00.1" | del(.status.dpu.funcVUID)' "$WORLD/static.json")
	host attach -f "$WORLD/static.json"
	[ -b "$said" ] || fail "host attach of a static PF: $said"
	host detach static
	gone static
	nothing_is_left 'a static PF'
}

# A key/value namespace has no disk: its character device is made available, identified as a disk is, and never mounted.
key_value() {
	local link=$DEV/snap-csi/pairs node function hotplug parameters='{"memos_subsystem_nqn": "nqn.2024-01.example:pairs"}'
	while read -r function hotplug; do
		volume pairs Block "$function" "$hotplug" "$parameters"
		[[ $(jq -r .status.dpu.nvmeAttrs.namespaceUUID "$WORLD/pairs.json") =~ ^[0-9a-f]{32}$ ]] || fail 'DPF publishes no NGUID'
		refused 1 'is a key/value namespace' attach -f "$WORLD/pairs.json" --mount "$WORLD/srv/pairs" --format blank
		refused 1 "not this volume's disk" attach --timeout 2 --device -f <(jq '.status.dpu.nvmeAttrs.namespaceUUID |= sub("^....";"0000")' "$WORLD/pairs.json")
		refused 1 'has no namespace 7' attach --timeout 2 --device -f <(jq '.status.dpu.nvmeAttrs.namespaceID = 7' "$WORLD/pairs.json")
		refused 1 'cannot be made read-only' attach --device --read-only -f "$WORLD/pairs.json"
		for _ in 1 2; do
			host attach -f "$WORLD/pairs.json" --device
			node=$(readlink "$link")
			[[ $said == "$link" && -c $link && $node == "$DEV"/ng*n1 ]] || fail "no character device at $link: $said"
		done
		refused 1 'detach it first' attach -f "$WORLD/pairs.json" --mount "$WORLD/srv/pairs"
		refused 1 'is already attached as volume pairs' attach --device -f <(sed 's/"dpuVolumeName": "pairs"/"dpuVolumeName": "other"/' "$WORLD/pairs.json")
		host check -f "$WORLD/pairs.json"
		host list
		[[ $said == *"$node"*ok* ]] || fail "host list: $said"
		host list -o json
		jq -e --arg node "$node" '.[0] | .keyValue and .device == $node and .faults == []' <<<"$said" >"$WORLD/jq" || fail "a key/value namespace is listed as $said"
		if [ "$hotplug" = true ]; then
			"$driver" inspect --mode=node --node-id="$NODE" --sysfs-root="$WORLD/sim/$NODE/sys" --dev-root="$DEV" --plugin-dir="$WORLD/state" -o json >"$WORLD/inspect.json"
			jq -e --arg node "${node##*/}" '.node.functions[] | select(.disks == $node)' "$WORLD/inspect.json" >"$WORLD/jq" || fail "inspect does not show $node: $(jq -c .node.functions "$WORLD/inspect.json")"
		fi
		exec 7<>"$link"
		refused 1 "pid $$" detach pairs
		exec 7>&-
		host detach pairs
		[ ! -L "$link" ] || fail 'the link is left'
		host detach pairs
		[[ $said == *'not attached'* ]] || fail "detached twice: $said"
		gone pairs
	done <<-'END'
		pf false
		pf true
	END
	# Unplugged: the link leads nowhere, and detach removes it.
	volume pairs Block pf true "$parameters"
	host attach -f "$WORLD/pairs.json" --device
	world_switch POST /sim/unplug '{"volume":"pairs"}' >"$WORLD/switched"
	host list -o json
	jq -e '.[0].faults[0].reason == "DeviceGone"' <<<"$said" >"$WORLD/jq" || fail "an unplugged namespace is listed as $said"
	host detach pairs
	[ ! -L "$link" ] || fail 'the link is left'
	gone pairs
	nothing_is_left 'a key/value namespace'
}

# Files that name forbidden objects or paths: each is refused by the node's own rule, and nothing is touched.
hostile() {
	local change words
	volume hostile Block vf false
	while IFS='|' read -r words change; do
		refused 1 "$words" attach --timeout 2 -f <(jq "$change" "$WORLD/hostile.json") --mount "$WORLD/srv/hostile" --format blank
	done <<-'END'
		is not a PCI address|.status.dpu.pciAddress = "../../x"
		contains invalid NVME NS ID|.status.dpu.nvmeAttrs.namespaceID = 4294967296
		unsupported value zz|.spec.functionType = "zz"
		but the volume's functionType is pf|.spec.functionType = "pf"
		(expected \u001b[31mred, from the attachment): not this volume's disk|.status.dpu.nvmeAttrs.namespaceUUID = "\u001b[31mred"
		0000:26:00.0 is not a VF|.status.dpu.pciAddress = "0000:26:00.0" | del(.status.dpu.funcVUID)
		which is not a valid object name|.spec.dpuVolumeName = "../hostile"
	END
	refused 1 'is not absolute' attach -f "$WORLD/hostile.json" --mount srv
	refused 1 'component ".."' attach -f "$WORLD/hostile.json" --mount "$WORLD/srv/../x"
	refused 1 'is the root directory of the host' attach -f "$WORLD/hostile.json" --mount /
	refused 1 'unsupported filesystem "ntfs"' attach -f "$WORLD/hostile.json" --mount "$WORLD/srv/hostile" --fstype ntfs
	refused 1 'mount flag "foo" is refused' attach -f "$WORLD/hostile.json" --mount "$WORLD/srv/hostile" --options foo
	[ ! -e "$WORLD/srv/hostile" ] || fail 'a directory was made for what was refused'
	gone hostile
	nothing_is_left 'hostile'
}

# A host without a DPU, whose kernel has no hot-plug.
checks() {
	mkdir -p "$WORLD/bare/sys/bus/pci/devices" "$WORLD/bare/proc/sys/kernel/random"
	echo 'quiet pcie_ports=compat' >"$WORLD/bare/proc/cmdline"
	cat /proc/sys/kernel/random/boot_id >"$WORLD/bare/proc/sys/kernel/random/boot_id"
	refused 1 'bad   the kernel module nvme is missing' check --sysfs-root "$WORLD/bare/sys" --proc-root "$WORLD/bare/proc"
	[[ $said == *'note  the kernel module virtiofs is missing'* && $said == *'note  the kernel'"'"'s argument pcie_ports=compat disables hot-plug'* &&
		$said == *'bad   the DPU has no VFs'* && $said == *'bad   the DPU has no hot-plug slots'* ]] || fail "host check of a bare host: $said"
	host check
	[[ $said == *'ok    the DPU has 4 VFs'* && $said == *'ok    1 static PFs of the DPU'* && $said != *bad* ]] || fail "host check: $said"
	# A power cycle: the attachment stays Ready, and no function is plugged again.
	volume cycled Block pf true
	host check -f "$WORLD/cycled.json"
	[[ $said == *'of attachment '"$NODE"'-cycled is present'* ]] || fail "host check of an attachment: $said"
	world_switch POST /sim/unplug '{"volume":"cycled"}' >"$WORLD/switched"
	refused 1 "attachment $NODE-cycled is Ready, but this host has no PCI function" check -f "$WORLD/cycled.json"
	[[ $said == *'DPF does not plug functions again after a power cycle of the host (its known issue 4734537): after a power cycle drain'* ]] || fail "host check after a power cycle: $said"
	refused 1 'Ready is not True' check -f <(jq '(.status.conditions[] | select(.type == "Ready")).status = "False"' "$WORLD/cycled.json")
	gone cycled
}

# Killed at any point, the same command repeated completes normally; the earlier data are intact.
kills() {
	local after pid
	volume killed Block vf false
	for after in 0.005 0.02 0.05 0.1; do
		snap-csi-plugin host attach -f "$WORLD/killed.json" --mount "$WORLD/srv/killed" --fstype ext4 --format blank >"$WORLD/killed.log" 2>&1 &
		pid=$!
		sleep "$after"
		child_signal KILL "$pid"
		wait "$pid" 2>/dev/null
		host attach -f "$WORLD/killed.json" --mount "$WORLD/srv/killed" --fstype ext4 --format blank
		[ "$after" = 0.005 ] || [ "$(cat "$WORLD/srv/killed/file")" = data ] || fail "the data are lost after a kill at $after"
		echo data >"$WORLD/srv/killed/file"
		host detach killed
	done
	for _ in 1 2; do
		host attach -f "$WORLD/killed.json" --mount "$WORLD/srv/killed" --read-only
	done
	refused 1 'with other options' attach -f "$WORLD/killed.json" --mount "$WORLD/srv/killed"
	[ "$(cat "$WORLD/srv/killed/file")" = data ] || fail 'a reader does not see the data'
	! touch "$WORLD/srv/killed/file" 2>/dev/null || fail 'a reader can write'
	host detach killed
	host attach -f "$WORLD/killed.json" --mount "$WORLD/srv/killed"
	touch "$WORLD/srv/killed/file" || fail 'a writer cannot write after a reader'
	host detach killed
	gone killed
	nothing_is_left 'kills'
}

story
nothing_is_left 'docs/hosts/zero-trust.md'
[ "$(grep -c "^$WORLD/srv/data$" "$WORLD/story.log")" = 3 ] || { cat "$WORLD/story.log"; fail 'attach has not printed the directory'; }
one_mount
disks
handed_out
exchanged
shares
not_ready
hostile
scenarios
static_pf
key_value
checks
kills
grep -hE -A30 'ERROR: (Address|Leak)Sanitizer|runtime error:' "$WORLD"/*.log "$WORLD/stderr" && fail 'a sanitizer has found something'
printf 'host: %d commands of docs/hosts/zero-trust.md, and what they refuse\n' "$steps"
