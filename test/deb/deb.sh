#!/usr/bin/env bash
# The Debian package on a Debian 12 of its own (test/deb/machine.sh) whose volumes are snap-sim's: what apt installs, what
# it says, the tarball of make dist, a volume by hand and by its unit, services that need it, an upgrade and a removal while it is in use, a boot,
# a purge. Needs root. Ends with "deb: N passed, N failed".
# shellcheck disable=SC2317 # functions are called by check
set -u
cd "$(dirname "$0")/../.." || exit 1
. test/lib/world.sh
. test/deb/machine.sh
world_need_root deb-test
MAKE=${MAKE:-make} VERSION=${VERSION:?}
passed=0 failed=0 begin=$EPOCHREALTIME
world_begin
ROOT=$WORLD/root BOOT_LOG=$WORLD/boot.log
end() {
	local status=$?
	machine_end
	(exit "$status")
	world_end
}
trap end EXIT

now() { awk "BEGIN {printf \"%6.2f\", $EPOCHREALTIME - $begin}"; }
check() { # what, command...
	local what=$1 log=$WORLD/check.log
	shift
	if "$@" >"$log" 2>&1 </dev/null; then
		printf '%s s  ok   %s\n' "$(now)" "$what"
		passed=$((passed + 1))
	else
		printf '%s s  FAIL %s\n' "$(now)" "$what"
		tail -n 40 "$log" | sed 's/^/     /'
		failed=$((failed + 1))
		return 1
	fi
}
# Without it the remaining checks cannot run.
need() {
	check "$@" || finish
}
finish() {
	echo "deb: $passed passed, $failed failed"
	[ "$failed" -eq 0 ]
	exit
}
says() { # PATTERN COMMAND...: it succeeds and says so
	local pattern=$1 out
	shift
	out=$("$@" 2>&1) && grep -qE -- "$pattern" <<<"$out" && return 0
	printf '%s\n' "$out"
	return 1
}
refuses() { # PATTERN COMMAND...: it fails and says so
	local pattern=$1 out
	shift
	! out=$("$@" 2>&1) && grep -qE -- "$pattern" <<<"$out" && return 0
	printf '%s\n' "$out"
	return 1
}

# ---- the packages ----

packages=$WORLD/packages
maintainer="A. & B. O'Neil/Co. <packages@localhost>"
make_package() { # DIR VERSION
	$MAKE --no-print-directory FLAVOUR="$FLAVOUR" BUILD="$BUILD" DEB_DIR="$packages/$1" VERSION="$2" MAINTAINER="$maintainer" deb
}
make_packages() {
	local pids=() pid
	make_package next "$VERSION.1" &
	pids+=("$!")
	make_package again "$VERSION" &
	pids+=("$!")
	make_package . "$VERSION" || return 1
	for pid in "${pids[@]}"; do
		wait "$pid" || return 1
	done
	chmod 755 "$WORLD" && this=$(ls "$packages"/*.deb) next=$(ls "$packages"/next/*.deb)
}
two_are_the_same() { cmp "$this" "$packages/again/${this##*/}"; }
lintian_is_content() { lintian --allow-root --tag-display-limit 0 --fail-on error,warning "$this"; }

make_tarballs() {
	local dir
	for dir in one two; do
		$MAKE --no-print-directory FLAVOUR="$FLAVOUR" BUILD="$BUILD" DIST_DIR="$packages/$dir" VERSION="$VERSION" dist || return 1
	done
	tarball=$(ls "$packages"/one/*.tar.gz) && cmp "$tarball" "$packages/two/${tarball##*/}"
}

# ---- the machine ----

apt() {
	machine_run apt-get -qq -y -o Dpkg::Use-Pty=0 -o Acquire::Languages=none --no-install-recommends "$@"
}
# Packages stay for the next run.
prepare_machine() {
	machine_make || return 1
	mkdir -p "$BUILD/deb-test/archives/partial" "$ROOT$WORLD" &&
		mount --bind "$BUILD/deb-test/archives" "$ROOT/var/cache/apt/archives" &&
		mount --rbind "$WORLD" "$ROOT$WORLD" &&
		echo 'APT::Keep-Downloaded-Packages "true";' >"$ROOT/etc/apt/apt.conf.d/keep" &&
		printf '#!/bin/sh\nexit 0\n' >"$ROOT/usr/sbin/update-initramfs" && chmod +x "$ROOT/usr/sbin/update-initramfs" &&
		apt update && apt install systemd man-db xfsprogs libcurl4
}
files_of_the_machine() {
	machine_run find / -xdev \( -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache -o -path /var/log -o -path /tmp -o \
		-path /var/tmp -o -path /run -o -path /dev -o -path /proc -o -path /sys -o -path /var/lib/systemd \) -prune -o -print | sort
}

# ---- volumes ----

# Attached in the cluster; its file is put where its unit looks for it.
volume() { # NAME
	local object resource
	for object in \
		'{"kind": "DPUVolume", "metadata": {"name": "'"$1"'"}, "spec": {"dpuStoragePolicyName": "example-policy",
		  "accessModes": ["ReadWriteOnce"], "volumeMode": "Block", "resources": {"requests": {"storage": "1Gi"}}}}' \
		'{"kind": "DPUVolumeAttachment", "metadata": {"name": "'"$NODE-$1"'"}, "spec": {"dpuNodeName": "'"$NODE"'",
		  "dpuVolumeName": "'"$1"'", "functionType": "vf", "hotplugFunction": false}}'; do
		resource=$(jq -r '.kind | ascii_downcase + "s"' <<<"$object")
		jq '. + {apiVersion: "storage.dpu.nvidia.com/v1alpha1"}' <<<"$object" >"$WORLD/object.json"
		world_curl --fail-with-body --output "$WORLD/made" --header 'Content-Type: application/json' --data @"$WORLD/object.json" "$(world_api_url "$resource")" || { cat "$WORLD/made"; return 1; }
	done
	world_until 60 is_ready "$1" && attachment "$1" >"$ROOT/etc/snap-csi/attachments/$1.yaml"
}
attachment() { world_api "dpuvolumeattachments/$NODE-$1"; }
is_ready() { [ "$(attachment "$1" | jq -r '.status.conditions[]? | select(.type == "Ready").status')" = True ]; }
host() { # COMMAND ARGUMENT...
	local command=$1
	shift
	# shellcheck disable=SC2086 # options
	machine_run snap-csi-plugin host "$command" $options "$@"
}
mounted_at() { machine_run findmnt -rno SOURCE,FSTYPE --mountpoint "$1"; }
not_mounted_at() { ! mounted_at "$1"; }
same_mount() { [ "$(machine_run grep " $1 " /proc/self/mountinfo)" = "$mount_before" ]; }

# A service that needs the directory: it runs only where the file system is, and says so each time.
service() { # NAME DIR DEPENDENCIES
	cat >"$ROOT/etc/systemd/system/$1.service" <<-END
		[Unit]
		$3
		[Service]
		ExecStartPre=/usr/bin/mountpoint $2
		ExecStart=/bin/sh -c 'date >>$2/started; exec sleep infinity'
		ExecStopPost=/bin/sh -c 'mountpoint $2 && echo "stopped with it" >>/root/$1.log || echo "stopped without it" >>/root/$1.log'
		[Install]
		WantedBy=multi-user.target
	END
}
systemctl() { machine_run systemctl "$@"; }
is() { # STATE UNIT
	[ "$(systemctl is-active "$2")" = "$1" ] || { systemctl status --no-pager --full "$2"; return 1; }
}

# ---- what is tested ----

what_apt_installs() {
	local bare
	need 'the packages are made: make deb, three times' make_packages
	check 'two runs make the same bytes' two_are_the_same
	check 'lintian is content' lintian_is_content
	check 'the maintainer is who was given' eval '[ "$(dpkg-deb --field "$this" Maintainer)" = "$maintainer" ]'
	check 'a release candidate is older than its release' eval 'make_package rc "$VERSION-rc1" && dpkg --compare-versions "$(dpkg-deb --field "$packages/rc/snap-csi_$VERSION-rc1_"*.deb Version)" lt "$VERSION"'
	need 'a Debian by debootstrap with systemd' prepare_machine
	files_of_the_machine >"$WORLD/before"
	cp "$ROOT/etc/fstab" "$WORLD/fstab"
	bare=$EPOCHREALTIME
	need 'apt installs the package' apt install "$this"
	check '--version' says "^snap-csi-plugin $VERSION" machine_run snap-csi-plugin --version
	check 'host check' says '^ok    the DPU has 4 VFs' host check
	check 'the man page has no mistakes' eval '[ -z "$(machine_run man --warnings --encoding=UTF-8 --troff-device=utf8 --ditroff 8 snap-csi-plugin 2>&1 >"$WORLD/troff")" ]'
	check 'man 8 snap-csi-plugin' says 'COMMANDS OF HOST' machine_run env MANWIDTH=80 man 8 snap-csi-plugin
	check 'bash completes what host has' says '^attach$' machine_run bash -c "$completes" - snap-csi-plugin host a
	check 'bash completes what attach has' says '^--mount$' machine_run bash -c "$completes" - snap-csi-plugin host attach --mo
	check 'apt has not enabled anything' refuses disabled machine_run systemctl is-enabled snap-csi-host.service
	volume first || return 1
	# The first file, by the command only: from nothing installed to data on the volume.
	check 'a volume is attached by hand' says '^/srv/first$' host attach -f /etc/snap-csi/attachments/first.yaml --mount /srv/first --fstype xfs --format blank
	check 'a file is written on it' machine_run sh -c 'echo data >/srv/first/file && mountpoint /srv/first'
	echo "          from the package to a written file: $(awk "BEGIN {printf \"%.2f\", $EPOCHREALTIME - $bare}") s"
	check 'and detached' host detach first
}
completes='. /usr/share/bash-completion/completions/snap-csi-plugin
	COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _snap_csi_plugin; printf "%s\n" "${COMPREPLY[@]}"'

# The libraries are those that apt has installed.
what_the_tarball_has() {
	local name dir="/opt/some where"
	need 'make dist, twice the same bytes' make_tarballs
	name=${tarball##*/} name=${name%.tar.gz}
	mkdir "$ROOT$dir" && tar -C "$ROOT$dir" -xf "$tarball" || return 1
	check 'the tarball is one folder, of root' eval '[ "$(ls "$ROOT$dir")" = "$name" ] && [ -z "$(find "$ROOT$dir" ! -user root -o ! -group root)" ]'
	check 'its program runs from any folder' says "^snap-csi-plugin $VERSION" machine_run "$dir/$name/bin/snap-csi-plugin" --version
	# shellcheck disable=SC2086 # options
	check 'and does what the package does' says '^ok    the DPU has 4 VFs' machine_run "$dir/$name/bin/snap-csi-plugin" host check $options
	check 'its man page can be read there' says 'COMMANDS OF HOST' machine_run man --local-file "$dir/$name/share/man/man8/snap-csi-plugin.8"
	check 'INSTALL.md names what is there' every_name_is_there "$ROOT$dir/$name"
	rm -rf "${ROOT:?}$dir"
}
every_name_is_there() { # FOLDER
	local name
	sed -nE 's/^\| ([a-z][^ |]*) .*/\1/p' "$1/INSTALL.md" | tr -d , | grep -v '^here$' | while read -r name; do
		[ -e "$1/$name" ] || { echo "$name is not there"; return 1; }
	done
}

what_systemd_says() {
	local unit
	check 'systemd-analyze verify' machine_run sh -c 'out=$(systemd-analyze verify snap-csi-host.service snap-csi-host@db.service 2>&1); echo "$out"; ! echo "$out" | grep snap-csi'
	for unit in snap-csi-host.service snap-csi-host@db.service; do
		check "systemd-analyze security $unit" machine_run systemd-analyze --no-pager --offline=true --threshold="$exposure" security "$unit"
		tail -n 1 "$WORLD/check.log"
	done
}
# systemd rates a service that mounts as root as exposed; with the hardening that is possible, the score is 4.9. A higher
# score means that an option was lost.
exposure=55

units() {
	volume db || return 1
	cat >"$ROOT/etc/snap-csi/attachments/db.env" <<-END
		HOST_OPTIONS=$options
		ATTACH_OPTIONS=--mount /srv/db --format blank
	END
	service app /srv/db $'Requires=snap-csi-host@db.service\nAfter=snap-csi-host@db.service'
	need 'systemd starts' machine_boot
	check 'a service that needs the volume starts' systemctl start app
	check 'and its volume is mounted' says ' ext4$' mounted_at /srv/db
	check 'the unit is active' is active snap-csi-host@db
	check 'what is in use stays when its unit is stopped' in_use_stays
	check 'and the unit can be started again' eval 'systemctl reset-failed snap-csi-host@db; systemctl start snap-csi-host@db && same_mount /srv/db'
	check 'an attachment that is not ready keeps its service from starting' not_ready
}

# By a process of the machine, not by the service, which systemd ends first.
in_use_stays() {
	local holder found=1
	mount_before=$(machine_run grep ' /srv/db ' /proc/self/mountinfo)
	machine_run sh -c 'exec 7>>/srv/db/held; echo $$ >/run/holder; exec sleep 1000' &
	holder=$!
	world_until 20 machine_run test -s /run/holder && systemctl stop snap-csi-host@db
	is failed snap-csi-host@db && is inactive app && same_mount /srv/db &&
		says 'open by|pid [0-9]+' machine_run journalctl --no-pager -u snap-csi-host@db && found=0
	machine_run sh -c 'kill "$(cat /run/holder)"'
	wait "$holder"
	return "$found"
}

not_ready() {
	attachment db | jq '.spec.dpuVolumeName = "late" | (.status.conditions[] | select(.type == "Ready")).status = "False"' \
		>"$ROOT/etc/snap-csi/attachments/late.yaml"
	service late /srv/late $'Requires=snap-csi-host@late.service\nAfter=snap-csi-host@late.service'
	systemctl daemon-reload
	refuses 'dependency' systemctl start late && is failed snap-csi-host@late && is inactive late
}

upgrade() {
	local pid watch mounts
	systemctl start app || return 1
	mounts=$(machine_run grep ' /srv/' /proc/self/mountinfo)
	mount_before=$(machine_run grep ' /srv/db ' /proc/self/mountinfo)
	pid=$(systemctl show --value --property MainPID app)
	watch=$(systemctl show --value --property MainPID snap-csi-host)
	apt install "$next" || return 1
	says "^snap-csi-plugin $VERSION.1" machine_run snap-csi-plugin --version
	is active snap-csi-host@db && is active snap-csi-host && [ "$(systemctl show --value --property MainPID app)" = "$pid" ] &&
		[ "$(systemctl show --value --property MainPID snap-csi-host)" != "$watch" ] &&
		[ "$(machine_run grep ' /srv/' /proc/self/mountinfo)" = "$mounts" ]
}

# For a service that says RequiresMountsFor= and nothing of this package: a line of fstab shows it the volume's directory.
mount_unit() {
	volume files || return 1
	cat >"$ROOT/etc/snap-csi/attachments/files.env" <<-END
		HOST_OPTIONS=$options
		ATTACH_OPTIONS=--mount /mnt/files --format blank
	END
	echo '/mnt/files /srv/files none bind,_netdev,x-systemd.requires=snap-csi-host@files.service 0 0' >>"$ROOT/etc/fstab"
	service reader /srv/files RequiresMountsFor=/srv/files
	systemctl daemon-reload
	check 'a service with RequiresMountsFor starts' systemctl start reader
	check 'the volume is mounted for it' says 'ext4$' mounted_at /srv/files
	check 'stopping the volume stops it' eval 'systemctl stop snap-csi-host@files && is inactive reader && not_mounted_at /srv/files && not_mounted_at /mnt/files'
}

# host watch as a service, and a service that needs one of its volumes.
watched() {
	cp "$KUBECONFIG_FILE" "$ROOT/etc/snap-csi/kubeconfig"
	echo "HOST_OPTIONS=--node $NODE $options" >"$ROOT/etc/snap-csi/host.env"
	printf 'default: {ignore: true}\nvolumes:\n  watched: {mount: /srv/watched, format: blank}\n' >"$ROOT/etc/snap-csi/host.yaml"
	volume watched || return 1
	rm "$ROOT/etc/snap-csi/attachments/watched.yaml"
	service follower /srv/watched $'Requires=snap-csi-host.service\nAfter=snap-csi-host.service\nAssertPathIsMountPoint=/srv/watched'
	systemctl daemon-reload
	check 'a service that needs a volume of host watch starts' systemctl start follower
	check 'its volume is mounted' says 'ext4$' mounted_at /srv/watched
	check 'host watch has not got mounts of its own' same_namespace "$(systemctl show --value --property MainPID snap-csi-host)"
	check 'host watch feeds the watchdog' eval '[ -n "$(systemctl show --value --property WatchdogTimestamp snap-csi-host)" ]'
}
same_namespace() { # PID IN THE MACHINE
	[ "$(machine_run readlink "/proc/$1/ns/mnt")" = "$(machine_run readlink /proc/1/ns/mnt)" ]
}

# Its volume is removed when the cluster requires it.
watched_ends() {
	systemctl stop follower
	check 'host watch detaches what is deleted' eval 'world_curl --fail --request DELETE "$(world_api_url "dpuvolumeattachments/$NODE-watched")" && world_until 60 not_mounted_at /srv/watched'
}

upgrade_and_removal() {
	check 'an upgrade leaves what is attached' upgrade
	check 'a removal is refused while a volume is attached' refuses 'db .*/srv/db|/srv/db' apt remove snap-csi
	check 'and has removed nothing' says '^ii' machine_run dpkg-query --show --showformat '${db:Status-Abbrev}\n' snap-csi
	check 'nor unmounted' same_mount /srv/db
}

boot() {
	check 'units are enabled for the boot' systemctl enable app snap-csi-host@db reader
	rm -f "$ROOT/root/app.log"
	check 'systemd stops everything' machine_poweroff
	# A boot of a machine ends its mounts; here they end with the last process that saw them, a moment later.
	check 'nothing is mounted any more' world_until 60 no_disk_is_mounted
	check 'the service ended before its volume was taken away' says '^stopped with it$' cat "$ROOT/root/app.log"
	need 'systemd starts again' machine_boot
	check 'the service runs again' is active app || machine_run journalctl --no-pager -u snap-csi-host@db | tail -n 20
	check 'and the one with RequiresMountsFor' is active reader
	check 'on the same data' machine_run sh -c 'mountpoint /srv/db && test "$(wc -l </srv/db/started)" -ge 3'
}

no_disk_is_mounted() {
	local loop
	for loop in $(world_loops); do
		[ ! -e "/proc/fs/ext4/${loop##*/}" ] || return 1
	done
}

removal() {
	systemctl stop snap-csi-host@files
	cp "$WORLD/fstab" "$ROOT/etc/fstab"
	# What was attached is detached, whatever the file says by now.
	cp "$ROOT/etc/snap-csi/attachments/files.yaml" "$ROOT/etc/snap-csi/attachments/db.yaml"
	check 'stopping the unit stops the service and detaches' eval 'systemctl stop snap-csi-host@db && is inactive app && not_mounted_at /srv/db'
	rm -f "$ROOT"/etc/systemd/system/{app,late,reader,follower}.service "$ROOT"/etc/systemd/system/multi-user.target.wants/{app,reader}.service
	check 'apt removes it' apt remove snap-csi
	check 'the configuration stays' test -e "$ROOT/etc/snap-csi/host.yaml"
	check 'apt purges it' apt purge --autoremove snap-csi
	rmdir "$ROOT"/srv/* "$ROOT/mnt/files"
	rm -f "$ROOT"/root/*.log
	files_of_the_machine >"$WORLD/after"
	check 'nothing is left' diff "$WORLD/before" "$WORLD/after"
}

world_sim --seed || exit 1
options="--sysfs-root=$WORLD/sim/$NODE/sys --dev-root=$WORLD/sim/$NODE/dev"
what_apt_installs
what_the_tarball_has
what_systemd_says
units
mount_unit
watched
upgrade_and_removal
watched_ends
boot
removal
finish
