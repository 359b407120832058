#!/usr/bin/env bash
# English: english.txt lists phrases that the documents, the texts of src and block comments do not use, and how many of them
# each of these areas still has; a number may only fall. Arguments, areas or files: prints what is found there.
set -u
cd "$(dirname "$0")/../.." || exit 1
exec python3 test/lint/english.py "$@"
