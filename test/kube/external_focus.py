#!/usr/bin/env python3
"""external_focus.py JUNIT FOCUS: does each pattern of a focus file (one per line, # begins a comment) match a spec that has
passed? Otherwise a pattern that a newer suite no longer has would go unnoticed. Names the others, and exits 1."""
import re
import sys
import xml.etree.ElementTree as ET


def passed(report):
    """The names of the specs that ran and did not fail."""
    bad = ("skipped", "failure", "error")
    cases = ET.parse(report).iter("testcase")
    return [case.get("name") for case in cases if "External Storage" in case.get("name") and all(case.find(kind) is None for kind in bad)]


def patterns(path):
    with open(path, encoding="utf-8") as lines:
        found = [re.sub(r"\s*#.*", "", line.rstrip("\n")) for line in lines]
    return [pattern for pattern in found if pattern]


def main(report, focus):
    names = passed(report)
    lost = [pattern for pattern in patterns(focus) if not any(re.search(pattern, name) for name in names)]
    for pattern in lost:
        print(f"FAIL no spec has passed for this pattern of {focus}: {pattern}")
    return 1 if lost else 0


sys.exit(main(*sys.argv[1:]))
