# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion of snap-csi-plugin for bash. It needs bash alone, not the functions of bash-completion. The table of options
# is written by `make man` from --help.

# COMMANDS OPTION KIND: "serve" is the command line without a word; commands of host follow a colon. Of kind "word" is what
# may follow the command.
_snap_csi_plugin_options='
# begin options
serve host word
serve inspect word
serve log-level word
serve help word
serve version word
serve --mode text
serve --name text
serve --bind-address text
serve --socket-mode text
serve --socket-group text
serve --emulation-mode text
serve --topology none
serve --http-endpoint text
serve --namespace text
serve --kubeconfig file
serve --startup-taint none
serve --wait-timeout text
serve --kube-api-qps text
serve --kube-api-burst text
serve --node-id text
serve --max-volumes-per-node text
serve --max-concurrent-formats text
serve --node-snap-controller-device-id text
serve --node-nvme-load-driver bool
serve --node-nvme-create-vfs bool
serve --node-virtiofs-filesystem-type text
serve --node-virtiofs-load-driver bool
serve --volume-metrics none
serve --plugin-dir dir
serve --kubelet-dir dir
serve --volume-dir text
serve --kubelet-registration-path file
serve --plugin-registration-path dir
serve --controlled-mode none
serve --control-socket file
serve --sysfs-root dir
serve --dev-root dir
serve --proc-root dir
serve --node-pci-vendor text
serve --v text
serve --logging-format text
serve --probe bool
serve --pre-stop text
serve --version none
serve --help none
host attach word
host detach word
host list word
host check word
host watch word
host resume word
host:attach,detach,check -f file
host:attach,detach,check --file file
host:attach --device none
host:attach --mount dir
host:attach --fstype text
host:attach --options text
host:attach --read-only none
host:attach --format text
host:attach --encryption text
host:attach --key-file file
host:list -o text
host:list --output text
host:attach,detach,watch --timeout text
host:watch --kubeconfig file
host:watch --node text
host:watch --namespace text
host:watch --config file
host --state-dir dir
host --sysfs-root dir
host --dev-root dir
host --proc-root dir
host --node-snap-controller-device-id text
host --node-pci-vendor text
host --node-virtiofs-filesystem-type text
host -h none
host --help none
inspect volume word
inspect claim word
inspect pod word
inspect node word
inspect -o text
inspect --bundle file
inspect --node-report file
inspect --pid text
inspect -h none
inspect --help none
# end options
'

# What an option's value may be, where it is one of few words.
_snap_csi_plugin_values() { # OPTION
	case $1 in
	--mode) echo controller node all ;;
	--emulation-mode) echo nvme virtiofs ;;
	--logging-format) echo text json ;;
	--probe) echo registered ;;
	--fstype) echo ext4 ext3 xfs btrfs ;;
	--format) echo blank unformatted ;;
	-o | --output) echo json ;;
	esac
}

# Options of a command, "serve", "inspect" or "host"; of host only those that its command in $2 has. With $3 rows of that
# kind, without it all but words.
_snap_csi_plugin_rows() {
	local where name kind
	while read -r where name kind; do
		[[ ${where%%:*} == "$1" ]] || continue
		[[ ${3-} == "$kind" || (-z ${3-} && $kind != word) ]] || continue
		[[ $where != *:* || -z $2 || ,${where#*:}, == *",$2,"* ]] && echo "$name $kind"
	done <<<"$_snap_csi_plugin_options"
}

_snap_csi_plugin_volumes() {
	local record
	for record in /run/snap-csi/host/volumes/*.json; do
		[[ ! -e $record ]] || basename "$record" .json
	done
}

_snap_csi_plugin() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=serve verb='' words='' option='' i
	# "--mode=node" is three words where COMP_WORDBREAKS has the "=".
	if [[ $cur == = ]]; then
		option=$prev cur=''
	elif [[ $prev == = ]]; then
		option=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	case ${COMP_WORDS[1]} in
	host | inspect) [ "$COMP_CWORD" -eq 1 ] || command=${COMP_WORDS[1]} ;;
	esac
	local name kind kinds verbs
	verbs=$(_snap_csi_plugin_rows "$command" '' word)
	for ((i = 2; i < COMP_CWORD; i++)); do
		if [[ -z $verb && $command != serve && -n ${COMP_WORDS[i]} && $'\n'$verbs$'\n' == *$'\n'"${COMP_WORDS[i]} word"$'\n'* ]]; then
			verb=${COMP_WORDS[i]}
		fi
	done
	kinds=$(_snap_csi_plugin_rows "$command" "$verb")
	# Inspect takes the driver's flags, too.
	[ "$command" != inspect ] || kinds+=$'\n'$(_snap_csi_plugin_rows serve '')
	COMPREPLY=()
	while read -r name kind; do
		[[ $name == "${option:-$prev}" ]] || continue
		case $kind in
		file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return 0 ;;
		dir) mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return 0 ;;
		text) words=$(_snap_csi_plugin_values "$name"); [ -n "$words" ] || return 0 ;;
		bool) [ -z "$option" ] || words="true false $(_snap_csi_plugin_values "$name")" ;;
		none) [ -z "$option" ] || return 0 ;;
		esac
		break
	done <<<"$kinds"
	if [ -z "$words" ] && [[ $cur != -* ]]; then
		case $command:$verb in
		serve:) [ "$COMP_CWORD" -gt 1 ] || words=${verbs// word/} ;;
		host: | inspect:) words=${verbs// word/} ;;
		host:detach) words=$(_snap_csi_plugin_volumes) ;;
		esac
	fi
	# Without a word yet, the options are what is there.
	if [ -z "$words" ] || [[ $cur == -* ]]; then
		words=$(while read -r name kind; do echo "$name"; done <<<"$kinds")
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}

complete -F _snap_csi_plugin snap-csi-plugin
