#!/usr/bin/env bash
# Usage: run-limited.sh SECONDS COMMAND...
# Runs a command that must end within SECONDS. A command that does not is hung: the script prints the command's processes
# and where in the kernel each one waits, sends SIGTERM to them, a minute later SIGKILL, and ends with exit status 124.
# Otherwise the exit status is the command's.
set -u
cd "$(dirname "$0")/../.." || exit 1
. test/lib/children.sh
limit=$1
shift

# The processes below one, and those of its session whose parents have ended.
below() { # PID
	ps -eo pid=,ppid=,sess= | awk -v root="$1" -v self="$$" -v session="$(ps -o sess= -p $$)" '
		{parent[$1] = $2; if ($3 == session + 0) in_session[$1] = 1}
		END {
			for (pid in parent) {
				for (p = pid; p in parent && p != root; p = parent[p])
					;
				if (p == root || (in_session[pid] && parent[pid] == 1 && pid != self))
					print pid
			}
		}'
}

"$@" &
command=$!
trap 'child_signal TERM "$command"' TERM INT
# tail polls without starting a process.
timeout --foreground "$limit" tail --pid="$command" --sleep-interval=0.1 --follow /dev/null
if [ $? -ne 124 ] || ! child_runs "$command"; then
	wait "$command"
	exit
fi
mapfile -t hung < <(below "$command")
printf 'FAIL: not ended after %s s: %s\n' "$limit" "$*"
ps -o pid,ppid,etimes,stat,wchan:24,args -p "$(IFS=,; echo "${hung[*]}")" | cut -c1-200
for pid in "${hung[@]}"; do
	[ ! -s "/proc/$pid/stack" ] || printf 'kernel stack of %s: %s\n' "$pid" "$(head -n 4 "/proc/$pid/stack" | cut -d' ' -f2 | tr '\n' ' ')"
done 2>/dev/null
kill -s TERM "${hung[@]}" 2>/dev/null
timeout --foreground 60 tail --pid="$command" --sleep-interval=0.1 --follow /dev/null
mapfile -t hung < <(below "$command")
[ "${#hung[@]}" -eq 0 ] || kill -s KILL "${hung[@]}" 2>/dev/null
wait "$command" 2>/dev/null
exit 124
