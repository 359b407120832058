# shellcheck shell=bash
# A Debian with systemd as its first process, in namespaces of its own and with its own files, but without a kernel of its own:
# devices are this machine's. Source it.
#
#   machine_make          unpacks Debian into $ROOT and mounts what it needs: proc, sys (read-only), this machine's dev
#   machine_run CMD...    runs a command in it, booted or not; the environment is a login's
#   machine_boot          starts systemd and waits until it has started everything
#   machine_poweroff      asks systemd to stop everything, and waits for its end
#   machine_end           kills what is left, unmounts nothing: that goes with the caller's mount namespace
#
# The caller has a mount namespace of its own (unshare --mount) and sets ROOT and BOOT_LOG.

MACHINE_PID='' MACHINE_UNSHARE='' MACHINE_CGROUP=''

machine_make() {
	local tar
	tar=$(test/lib/debian-root.sh) || return 1
	rm -rf --one-file-system "$ROOT"
	mkdir -p "$ROOT" && tar -C "$ROOT" -xf "$tar" &&
		mount --bind "$ROOT" "$ROOT" && mount --make-private "$ROOT" &&
		cp --dereference /etc/resolv.conf "$ROOT/etc/resolv.conf" &&
		mount -t proc proc "$ROOT/proc" && mount -t sysfs -o ro sysfs "$ROOT/sys" && mount --rbind /dev "$ROOT/dev" &&
		# Nothing is to survive a loss of power here, and each file of each package would wait for the disk.
		echo force-unsafe-io >"$ROOT/etc/dpkg/dpkg.cfg.d/fast"
}

machine_env() {
	env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

machine_run() {
	if [ -n "$MACHINE_PID" ]; then
		machine_env nsenter --target "$MACHINE_PID" --all --root --wd "$@"
	else
		machine_env chroot "$ROOT" "$@"
	fi
}

# On this machine's cgroups of version 2, without or next to those of version 1.
machine_cgroup_root() {
	findmnt -rno TARGET -t cgroup2 | head -n 1
}

# In the namespaces already. The root is a mount that passes mounts on, as on any machine with systemd.
machine_inside() {
	mount --make-rprivate / &&
		mount -t proc proc "$ROOT/proc" && mount -t tmpfs -o mode=755 tmpfs "$ROOT/run" && mount -t tmpfs tmpfs "$ROOT/tmp" &&
		mount -t cgroup2 cgroup2 "$ROOT/sys/fs/cgroup" && mount --make-rshared "$ROOT" &&
		cd "$ROOT" && exec env -i container=snap-csi PATH=/usr/sbin:/usr/bin:/sbin:/bin \
		unshare --root="$ROOT" /lib/systemd/systemd --log-target=journal --show-status=0
}

machine_booted() {
	machine_run systemctl is-system-running 2>/dev/null | grep -qE '^(running|degraded)$'
}

machine_has_systemd() {
	MACHINE_PID=$(pgrep -P "$MACHINE_UNSHARE" | head -n 1)
	[ -n "$MACHINE_PID" ] && [ "$(cat "/proc/$MACHINE_PID/comm")" = systemd ]
}

machine_boot() {
	local cgroups
	cgroups=$(machine_cgroup_root)
	MACHINE_CGROUP=$cgroups/snap-csi-deb-test.$$
	mkdir "$MACHINE_CGROUP" || return 1
	export -f machine_inside
	export ROOT
	bash -c 'echo $$ >"$1/cgroup.procs" && exec unshare --cgroup --pid --mount --uts --ipc --fork --kill-child bash -c machine_inside' \
		machine "$MACHINE_CGROUP" >"$BOOT_LOG" 2>&1 </dev/null &
	MACHINE_UNSHARE=$!
	world_until 60 machine_has_systemd && world_until 120 machine_booted
}

machine_gone() {
	! child_runs "$MACHINE_UNSHARE"
}

machine_poweroff() {
	machine_run systemctl --no-block poweroff || return 1
	world_until 120 machine_gone || return 1
	machine_end
}

# Idempotent. With the first process of a PID namespace all others end.
machine_end() {
	if [ -n "$MACHINE_UNSHARE" ]; then
		if child_runs "$MACHINE_UNSHARE"; then
			[ -z "$MACHINE_PID" ] || kill -KILL "$MACHINE_PID" 2>/dev/null
			child_signal KILL "$MACHINE_UNSHARE"
		fi
		wait "$MACHINE_UNSHARE" 2>/dev/null
		MACHINE_UNSHARE='' MACHINE_PID=''
	fi
	if [ -n "$MACHINE_CGROUP" ]; then
		world_until 20 machine_cgroup_empty
		find "$MACHINE_CGROUP" -depth -type d -exec rmdir {} + 2>/dev/null
		MACHINE_CGROUP=''
	fi
}

machine_cgroup_empty() {
	! grep -q 'populated 1' "$MACHINE_CGROUP/cgroup.events" 2>/dev/null
}
