#!/usr/bin/env bash
# yamllint over the manifests and every other YAML file; templates of the chart are not YAML before they are rendered.
set -u
cd "$(dirname "$0")/../.." || exit 1
find manifests charts test -name '*.yaml' ! -path '*/data/*' ! -path '*/templates/*' ! -type l -print0 | xargs -0 -r yamllint --strict -c .yamllint
