# shellcheck shell=bash
# Source it before anything else: the script continues in its own mount namespace, if it runs as root and the kernel permits
# one. Mounts of a suite are then not in the machine's namespace, which other suites copy: the driver correctly treats a copy
# of its mount as a holder.
# OWN_MOUNTS=PID of the script: a script that it starts creates its own namespace again, so two suites that run in parallel do
# not see each other's mounts.
# The outermost one has /var/tmp in memory, where tests keep the images of devices: a disk is slower, and each unmount of a
# volume waits for it to be flushed.
if [ "${OWN_MOUNTS-}" != $$ ] && [ "$(id -u)" -eq 0 ] && unshare --mount true 2>/dev/null; then
	[ -e "$0" ] || cd "$OLDPWD" || exit # the path is relative to the folder before the script's cd
	if [ -n "${OWN_MOUNTS-}" ]; then
		OWN_MOUNTS=$$ exec unshare --mount --propagation private "$0" "$@"
	fi
	# shellcheck disable=SC2016 # for the inner shell
	OWN_MOUNTS=$$ exec unshare --mount --propagation private sh -c 'mount -t tmpfs -o mode=1777 tmpfs /var/tmp && exec "$0" "$@"' "$0" "$@"
fi
