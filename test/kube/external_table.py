#!/usr/bin/env python3
"""external_table.py [DRIVER] JUNIT...: the results of Kubernetes' own storage suite for the driver, as Markdown: first a line
of numbers for each group of specs, then every spec that ran, the reasons for those that did not, and those that
external-skip.txt omits. Of several reports of a spec the last one counts, so that the suite can run in slices. DRIVER: only
specs of this test driver. The last line has the numbers: N passed, N failed, N skipped."""
import collections
import os
import re
import sys
import xml.etree.ElementTree as ET

SPEC = re.compile(r"External Storage.*?\[Driver: ([^]]*)\] \[Testpattern: ([^]]*)\](.*)")
KINDS = {"csi.snap.nvidia.com": "disk", "virtiofs": "virtio-fs"}  # names in testdriver.yaml and testdriver-virtiofs.yaml
LABELS = re.compile(r"\s*\[[^]]*\]")


def left_out():
    """The patterns of external-skip.txt and their reasons."""
    with open(os.path.join(os.path.dirname(__file__), "external-skip.txt"), encoding="utf-8") as lines:
        rows = [line.strip().partition("#") for line in lines if line.strip() and not line.startswith("#")]
    return [(pattern.strip(), reason.strip()) for pattern, _, reason in rows]


def specs(reports, drivers):
    found = {}
    skip = re.compile("|".join(pattern for pattern, _ in left_out()))
    for report in reports:
        for case in ET.parse(report).iter("testcase"):
            match = SPEC.search(case.get("name"))
            if not match or skip.search(case.get("name")):
                continue
            if match.group(1) not in drivers:
                continue
            pattern, rest = match.group(2), LABELS.sub("", match.group(3)).strip()
            if len(drivers) > 1:
                pattern = f"{KINDS[match.group(1)]}: {pattern}"
            suite, _, title = rest.partition(" ")
            skipped, failed = case.find("skipped"), case.find("failure")
            failed = failed if failed is not None else case.find("error")
            if failed is not None:
                outcome, why = "failed", failed.get("message") or ""
            elif skipped is not None:
                outcome, why = "skipped", (skipped.get("message") or "").removeprefix("skipped - ")
            else:
                outcome, why = "passed", ""
            # A spec outside of the focus was not run.
            if outcome == "skipped" and why in ("", "skipped"):
                continue
            found[(suite, title, pattern)] = (outcome, float(case.get("time", 0)), why.splitlines()[0] if why else "")
    return found


def cell(text):
    return text.replace("|", "\\|")


def main(reports):
    drivers = set(KINDS)
    if reports[0] in KINDS:
        drivers = {reports.pop(0)}
    found = specs(reports, drivers)
    total = collections.Counter(outcome for outcome, _, _ in found.values())
    groups = collections.defaultdict(collections.Counter)
    for (suite, _, _), (outcome, _, _) in found.items():
        groups[suite][outcome] += 1
    print("| specs about | passed | failed | skipped |\n| --- | --- | --- | --- |")
    for suite, count in sorted(groups.items()):
        print(f"| {suite} | {count['passed']} | {count['failed']} | {count['skipped']} |")
    print("\n| spec | volume | outcome | seconds |\n| --- | --- | --- | --- |")
    for (suite, title, pattern), (outcome, seconds, why) in sorted(found.items()):
        if outcome != "skipped":
            print(f"| {suite} {cell(title)} | {cell(pattern)} | {outcome}{': ' + cell(why) if why else ''} | {seconds:.0f} |")
    print("\n| skipped, because the suite says | specs |\n| --- | --- |")
    reasons = collections.Counter(why for outcome, _, why in found.values() if outcome == "skipped")
    for why, count in sorted(reasons.items()):
        print(f"| {cell(why)} | {count} |")
    print("\n| left out (external-skip.txt) | because |\n| --- | --- |")
    for pattern, reason in left_out():
        print(f"| `{cell(pattern)}` | {cell(reason)} |")
    print(f"\n{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")


main(sys.argv[1:])
