#!/usr/bin/env bash
# Fetches the Go modules that tests need (csi-sanity, the official csi.proto), in the versions that go.mod and go.sum
# of their folders pin. The driver itself contains no Go.
set -eu
cd "$(dirname "$0")/../.."
if ! command -v go >/dev/null; then
	echo 'deps: there is no go; the tests need Go 1.25 or newer: https://go.dev/dl' >&2
	exit 1
fi
for folder in test/*/go.mod; do
	[ -e "$folder" ] || continue
	folder=$(dirname "$folder")
	echo "deps: Go modules of $folder"
	(cd "$folder" && go mod download)
done
