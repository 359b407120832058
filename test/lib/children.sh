# shellcheck shell=bash
# Sourced. Once a process has ended, another process soon gets its pid: with 32,768 pids, within minutes on a busy machine. So
# a script signals a pid only while it is a child of this shell ($$, even in a subshell).

# In one read: bash seeks back after each line, and then the next one of a process that has changed begins elsewhere.
child_runs() { # PID
	local stat parent
	read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
	read -r _ parent _ <<<"${stat##*) }"
	[ "$parent" = "$$" ]
}

child_signal() { # SIGNAL PID...: fails if one is no longer a child
	local signal=$1 pid status=0
	shift
	for pid; do
		if ! child_runs "$pid" || ! kill -s "$signal" "$pid" 2>/dev/null; then
			status=1
		fi
	done
	return "$status"
}

child_end_groups() { # PID...: of those that are still children, the processes of their groups
	local pid
	for pid; do
		if child_runs "$pid"; then
			kill -- "-$pid"
		fi
	done
}
