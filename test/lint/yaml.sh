#!/usr/bin/env bash
# yamllint over the manifests and every other YAML file.
set -u
cd "$(dirname "$0")/../.." || exit 1
find manifests test -name '*.yaml' ! -path '*/data/*' -print0 | xargs -0 -r yamllint --strict -c .yamllint
