#!/usr/bin/env bash
# What is packaged beside the program says what the program says: the options in the man page and in the completion, and
# the values that the completion knows. The man page has no mistakes, the completion completes. PROGRAM is the program.
# The units keep each capability without which a call of the driver fails on a host.
set -u
cd "$(dirname "$0")/../.." || exit 1
program=${PROGRAM:-build/debug/snap-csi-plugin}
completion=packaging/completion.bash
bad=0

packaging/tables.sh "$program" || bad=1
sed 's/@DATE@/2000-01-01/; s/@VERSION@/1.0.0/' packaging/snap-csi-plugin.8 | mandoc -T lint -W warning |
	sed 's,^mandoc: <stdin>:,packaging/snap-csi-plugin.8:,' | grep . && bad=1

# In a separate bash: the completions of the last word of the line, sorted, in one line.
completes() { # WORD...
	bash --norc -c '. "$0" && COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) && _snap_csi_plugin && printf "%s\n" "${COMPREPLY[@]}"' \
		"$completion" "$@" | sort | paste -sd' '
}
expect() { # RESULT WORD...
	local want=$1 got
	shift
	got=$(completes "$@")
	[ "$got" = "$want" ] || { echo "$completion:1: \"$*\" becomes \"$got\", not \"$want\""; bad=1; }
}
expect 'help host inspect log-level version' snap-csi-plugin ''
expect 'host' snap-csi-plugin ho
expect 'log-level' snap-csi-plugin log
expect '--mode' snap-csi-plugin --mod
expect 'all controller node' snap-csi-plugin --mode = ''
expect 'node' snap-csi-plugin --mode = n
expect 'node' snap-csi-plugin --mode n
expect 'false' snap-csi-plugin --node-nvme-load-driver = f
expect '--node-nvme-create-vfs --node-nvme-load-driver' snap-csi-plugin --mode = node --node-nv
expect 'attach' snap-csi-plugin host a
expect '--mount' snap-csi-plugin host attach --mo
expect '' snap-csi-plugin host check --mo
expect '--output' snap-csi-plugin host list --out
expect 'json' snap-csi-plugin host list -o ''
expect 'blank unformatted' snap-csi-plugin host attach --format ''
expect 'xfs' snap-csi-plugin host attach --mount /srv --fstype x
expect 'LICENSE' snap-csi-plugin host attach -f LICE
expect 'packaging' snap-csi-plugin host attach --mount packag
expect '' snap-csi-plugin host attach --mount LICE
expect 'volume' snap-csi-plugin inspect vol
expect '--bundle' snap-csi-plugin inspect node --bun
expect '--kubeconfig' snap-csi-plugin inspect --kubec
expect '' snap-csi-plugin host attach --options ''

# Each word that may follow an option appears in the --help text of an option.
help=$("$program" --help; "$program" host --help; "$program" inspect --help)
while read -r value; do
	grep -qw -- "$value" <<<"$help" || { echo "$completion:1: $value is in no --help"; bad=1; }
done < <(sed -n '/^_snap_csi_plugin_values/,/^}/s/.*) echo \(.*\) ;;/\1/p' "$completion" | tr ' ' '\n')

# mount(2); growing a mounted ext4 (EXT4_IOC_RESIZE_FS); drivers of a function; files of other users; /proc/PID/fd.
for unit in packaging/systemd/*.service; do
	for needed in SYS_ADMIN SYS_RESOURCE SYS_MODULE DAC_OVERRIDE DAC_READ_SEARCH SYS_PTRACE; do
		grep -qE "^CapabilityBoundingSet=[^~]*\bCAP_$needed\b" "$unit" || { echo "$unit:1: it drops CAP_$needed"; bad=1; }
	done
done
exit $bad
