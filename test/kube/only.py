#!/usr/bin/env python3
"""only.py KIND...: of the YAML documents on stdin those of the given kinds, unchanged. (kustomize prints one top-level
`kind:` line for each document, so no YAML parser is needed.)"""
import re
import sys

for document in re.split(r"^---\n", sys.stdin.read(), flags=re.M):
    kind = re.search(r"^kind: (\S+)$", document, flags=re.M)
    if kind and kind.group(1) in sys.argv[1:]:
        print("---\n" + document, end="")
