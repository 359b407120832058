# shellcheck shell=bash
# Source it before anything else: the script goes on in a mount namespace of its own, as root and where the kernel allows one.
# Nothing that a suite mounts is then in the machine's namespace, of which other suites make private copies: the driver
# rightly takes a copy of its mount for a holder.
# OWN_MOUNTS=PID of the script: a script that it starts makes a namespace of its own again, so two suites that run side by
# side see nothing of each other.
# The outermost has /var/tmp in memory, where tests keep the images of devices: a disk is slower, and each unmount of a
# volume waits for a flush of it.
if [ "${OWN_MOUNTS-}" != $$ ] && [ "$(id -u)" -eq 0 ] && unshare --mount true 2>/dev/null; then
	[ -e "$0" ] || cd "$OLDPWD" || exit # the path is relative to the folder before the script's cd
	if [ -n "${OWN_MOUNTS-}" ]; then
		OWN_MOUNTS=$$ exec unshare --mount --propagation private "$0" "$@"
	fi
	# shellcheck disable=SC2016 # for the inner shell
	OWN_MOUNTS=$$ exec unshare --mount --propagation private sh -c 'mount -t tmpfs -o mode=1777 tmpfs /var/tmp && exec "$0" "$@"' "$0" "$@"
fi
