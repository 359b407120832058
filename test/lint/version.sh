#!/usr/bin/env bash
# What repeats the version of the Makefile says the same, and CHANGELOG.md has a section for it.
cd "$(dirname "$0")/../.." && packaging/version.sh check
