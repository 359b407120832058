#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the scenarios in the guests that they need and prints the table.

Usage: run.py --images DIR --binary FILE --out DIR [--only WORD] [--world NAME]
Ends with "e2e-vm: N passed, N failed, N skipped".
"""
import argparse
import os
import sys
import time
import traceback

import scenarios_faults  # noqa: F401  pylint: disable=unused-import
import scenarios_health  # noqa: F401  pylint: disable=unused-import
import scenarios_life  # noqa: F401  pylint: disable=unused-import
from kubelet import load_messages
from scenario import SCENARIOS
from vm import Namespace
from world import World

UUID = "{0}{0}{0}{0}{0}{0}{0}{0}-aaaa-4bbb-8ccc-00000000000{0}"


def one_pf():
    return {"a": Namespace(0, 1, 400, UUID.format(1)), "b": Namespace(0, 2, 64, UUID.format(2)),
            "big": Namespace(0, 3, 512, UUID.format(3)), "shared": Namespace(0, 4, 64, UUID.format(4), shared=True)}


def two_pfs():
    return {"a": Namespace(0, 1, 64, UUID.format(1)), "b": Namespace(0, 2, 64, UUID.format(2)),
            "e": Namespace(1, 1, 96, UUID.format(5)), "f": Namespace(1, 2, 96, UUID.format(6))}


# name: kernel suite, namespaces, options of the guest
WORLDS = {
    "multipath": ("stable", one_pf, {}),
    "plain": ("stable", one_pf, {"append": "nvme_core.multipath=N"}),
    "newer": ("backports", one_pf, {}),
    "two-pfs": ("stable", two_pfs, {"vfs": (3, 2)}),
    "two-pfs-plain": ("stable", two_pfs, {"vfs": (3, 2), "append": "nvme_core.multipath=N"}),
}


class Table:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def row(self, name, world, kernel, result, seconds):
        print(f"{result:4}  {name:86.86}  {world:13}  {kernel:20}  {seconds:5.1f} s", flush=True)
        setattr(self, {"ok": "passed", "FAIL": "failed", "SKIP": "skipped"}[result],
                getattr(self, {"ok": "passed", "FAIL": "failed", "SKIP": "skipped"}[result]) + 1)


def run_world(name, scenarios, options, messages, table):
    suite, namespaces, extra = WORLDS[name]
    image = os.path.join(options.images, suite)
    if not os.path.exists(image + "/release"):
        for function in scenarios:
            table.row(function.__doc__, name, suite + " kernel: not to be had", "SKIP", 0)
        return
    with open(image + "/release", encoding="utf-8") as f:
        kernel = f.read().strip()
    named = namespaces()
    began = time.monotonic()
    with World(image, options.binary, messages, list(named.values()), **extra) as world:
        world.ns = named
        print(f"      {name}: booted in {world.vm.boot_seconds:.1f} s, ready in {time.monotonic() - began:.1f} s")
        for function in scenarios:
            began = time.monotonic()
            try:
                function(world)
                table.row(function.__doc__, name, kernel, "ok", time.monotonic() - began)
            except Exception:  # pylint: disable=broad-except
                table.row(function.__doc__, name, kernel, "FAIL", time.monotonic() - began)
                traceback.print_exc()
                print("driver's log:\n" + "\n".join(world.log().splitlines()[-25:]), flush=True)
                world.reset()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", required=True)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--world", default="")
    options = parser.parse_args()
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    messages = load_messages(options.out, root)
    table = Table()
    for name in WORLDS:
        chosen = [f for f, worlds in SCENARIOS if name in worlds and options.only in f.__doc__ + f.__name__]
        if chosen and options.world in ("", name):
            run_world(name, chosen, options, messages, table)
    print(f"e2e-vm: {table.passed} passed, {table.failed} failed, {table.skipped} skipped")
    return 1 if table.failed or not table.passed else 0


if __name__ == "__main__":
    sys.exit(main())
