#!/usr/bin/env bash
# Prints the path of the official csi.proto of CSI v1.13.0, fetched as a Go module and checked against the sum below.
# It is never copied into the tree, so that the comparison is with the file that its authors published.
set -eu
module=github.com/container-storage-interface/spec
version=v1.13.0
sum='h1:6ja3nYoACisewTPAAZkJ1pbf4+1ehhvt9Z/nYgWGHGw='
field() { sed -nE "s/^\t\"$1\": \"(.*)\",?\$/\1/p"; }

command -v go >/dev/null || { echo 'official.sh: there is no go to fetch the official csi.proto with' >&2; exit 1; }
answer=$(cd / && GOFLAGS=-mod=mod go mod download -json "$module@$version") || {
	echo "official.sh: go mod download: $answer" >&2
	exit 1
}
if [ "$(field Sum <<<"$answer")" != "$sum" ]; then
	echo "official.sh: $module@$version has another content than it had: $(field Sum <<<"$answer")" >&2
	exit 1
fi
echo "$(field Dir <<<"$answer")/csi.proto"
