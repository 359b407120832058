#!/usr/bin/env bash
# Prints a .proto file as sorted lines "path attribute: value": everything that affects the wire format, nothing else.
# Usage: describe.sh FILE.proto          names, numbers, labels, types, oneofs, reserved ranges, methods, streaming
#        describe.sh --secrets FILE.proto    message and name of each field with csi_secret (option 1059)
# Left out: comments, order, imports, custom options and their declarations, file options.
set -eu
what=wire
if [ "$1" = --secrets ]; then
	what=secrets
	shift
fi
set_file=$(mktemp)
trap 'rm -f "$set_file"' EXIT
protoc -I "$(dirname "$1")" -I /usr/include --descriptor_set_out="$set_file" "$(basename "$1")"
protoc -I /usr/include --decode=google.protobuf.FileDescriptorSet google/protobuf/descriptor.proto <"$set_file" |
	awk -v what="$what" '
	# kind[d], name[d]: the open blocks; the name is the first line of a block.
	function path(   d, p) {
		for (d = 2; d <= depth; d++)
			p = p "/" kind[d] (name[d] == "" ? "" : ":" name[d])
		return p
	}
	function owner(   d, p) {
		p = package
		for (d = 2; d < depth - 1; d++) p = p "." name[d]
		return p
	}
	/\{$/ { depth++; kind[depth] = $1; name[depth] = ""; next }
	/^ *\}$/ { depth--; next }
	{
		key = $1; sub(/:$/, "", key)
		value = $0; sub(/^ *[^:]*: /, "", value)
		bare = value; gsub(/"/, "", bare)
	}
	depth == 1 && key == "package" { package = bare }
	key == "name" && depth > 1 && kind[depth] != "options" { name[depth] = bare }
	kind[depth] == "options" && key == "1059" && kind[depth - 1] == "field" && what == "secrets" {
		print owner(), name[depth - 1]
	}
	what != "wire" { next }
	depth == 1 && key != "package" && key != "syntax" { next }
	depth > 1 && kind[2] == "extension" { next }
	kind[depth] == "options" && key != "map_entry" { next }
	key == "json_name" { next }
	{ print path(), key ": " value }' | LC_ALL=C sort
