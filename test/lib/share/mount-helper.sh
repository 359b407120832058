#!/usr/bin/env bash
# Keeps mount.snapsim in /sbin, where mount(8) and libmount look for it, until stdin ends. Several suites may do so at once:
# each holds a shared lock, and the last one to end removes the file. A suite that is killed closes its pipe, and a killed
# mount-helper.sh loses its lock, so nothing stays permanently. Prints "installed" when the file is in place. $SNAP_SIM_SBIN
# replaces /sbin in tests of this script.
set -u
script=$(dirname "$(readlink -f "$0")")/mount.snapsim
installed=${SNAP_SIM_SBIN:-/sbin}/mount.snapsim
lock=${installed%/*}/.mount.snapsim.lock

trap '' INT HUP # of the suite's terminal: its pipe says when it has ended
exec 9>>"$lock" || exit 1
# The process that removes it holds the exclusive lock. It removes the lock's file, too, so the locked file must still be the
# current one.
while flock --shared 9 && ! [ "$lock" -ef /dev/fd/9 ]; do
	exec 9>>"$lock"
done
if ! cmp -s "$script" "$installed"; then
	install -m 755 "$script" "$installed.$$" && mv "$installed.$$" "$installed" || exit 1
fi
echo installed
exec >&-
cat >/dev/null
flock --exclusive --nonblock 9 && rm -f "$installed" "$lock"
exit 0
