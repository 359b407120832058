#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the scenarios in the guests that they need and prints the table.

Usage: run.py --images DIR --binary FILE --out DIR [--only WORD] [--world NAME]
Ends with the table of all scenarios and "e2e-vm: N passed, N failed, N skipped".

What the scenarios record of faults and answers is compared with test/reports/faults.md; UPDATE_DOCS=1 writes that file instead.
"""
import argparse
import os
import signal
import sys
import threading
import time
import traceback

import faults
import plugged
import scenarios_address  # noqa: F401  pylint: disable=unused-import
import scenarios_domain  # noqa: F401  pylint: disable=unused-import
import scenarios_encryption  # noqa: F401  pylint: disable=unused-import
import scenarios_faults  # noqa: F401  pylint: disable=unused-import
import scenarios_growth  # noqa: F401  pylint: disable=unused-import
import scenarios_health  # noqa: F401  pylint: disable=unused-import
import scenarios_host  # noqa: F401  pylint: disable=unused-import
import scenarios_hotplug  # noqa: F401  pylint: disable=unused-import
import scenarios_kill  # noqa: F401  pylint: disable=unused-import
import scenarios_life  # noqa: F401  pylint: disable=unused-import
import scenarios_prepare  # noqa: F401  pylint: disable=unused-import
import scenarios_queue  # noqa: F401  pylint: disable=unused-import
import scenarios_readonly  # noqa: F401  pylint: disable=unused-import
import scenarios_share  # noqa: F401  pylint: disable=unused-import
import scenarios_share_faults  # noqa: F401  pylint: disable=unused-import
from kubelet import load_messages
from scenario import SCENARIOS
from vm import VM, GuestError, Namespace
from world import World

UUID = "{0}{0}{0}{0}{0}{0}{0}{0}-aaaa-4bbb-8ccc-00000000000{0}"


def one_pf():
    return {"a": Namespace(0, 1, 400, UUID.format(1)), "b": Namespace(0, 2, 64, UUID.format(2)),
            "big": Namespace(0, 3, 512, UUID.format(3)), "shared": Namespace(0, 4, 64, UUID.format(4), shared=True)}


def two_pfs():
    return {"a": Namespace(0, 1, 64, UUID.format(1)), "b": Namespace(0, 2, 64, UUID.format(2)),
            "e": Namespace(1, 1, 96, UUID.format(5)), "f": Namespace(1, 2, 96, UUID.format(6))}


def six():
    return {f"n{i}": Namespace(0, i, 64 * i, UUID.format(i)) for i in range(1, 7)}


def crowded():
    return {"a": Namespace(0, 1, 64, UUID.format(1)), "b": Namespace(0, 2, 96, UUID.format(2)),
            "foreign": Namespace(1, 1, 72, UUID.format(5)), "of-pf": Namespace(0, 3, 80, UUID.format(3))}


def beside_slots():
    return {"a": Namespace(0, 1, 64, UUID.format(1)), "local": Namespace(1, 1, 64, UUID.format(5))}


def for_shares():
    return {"a": Namespace(0, 1, 64, UUID.format(1))}


# Everything else that a host has on its PCI bus: none of it is the driver's to touch.
CROWD = ["-device", "ahci,id=ahci", "-drive", "file={dir}/boot.img,if=none,id=boot,format=raw", "-device", "ide-hd,bus=ahci.0,drive=boot",
         "-drive", "file={dir}/vblk.img,if=none,id=vblk,format=raw", "-device", "virtio-blk-pci,drive=vblk",
         "-netdev", "user,id=n1,restrict=on", "-device", "e1000e,netdev=n1,romfile=",
         "-device", "qemu-xhci,id=xhci", "-drive", "file={dir}/stick.img,if=none,id=stick,format=raw",
         "-device", "usb-storage,bus=xhci.0,drive=stick"]

SHARES = {"vfs": (2,), "extra": plugged.SWITCH + plugged.SLOT_OUTSIDE, "driver_flags": "--node-pci-vendor=104c", "virtio": False,
          "append": "modprobe.blacklist=virtio_pci"}

# name: kernel suite, namespaces, options of the guest
WORLDS = {
    "multipath": ("stable", one_pf, {}),
    "plain": ("stable", one_pf, {"append": "nvme_core.multipath=N"}),
    "newer": ("backports", one_pf, {}),
    "six-vfs": ("stable", six, {"vfs": (6,)}),
    "two-pfs": ("stable", two_pfs, {"vfs": (3, 2)}),
    "two-pfs-plain": ("stable", two_pfs, {"vfs": (3, 2), "append": "nvme_core.multipath=N"}),
    # A SNAP PF, another vendor's PF with VFs, a SNAP PF without SR-IOV, and the crowd.
    "crowded": ("stable", crowded, {"vfs": (2, 2, 0), "pf_options": {1: ",use-intel-id=on"}, "append": "intel_iommu=on",
                                    "extra": CROWD, "disks": ("boot", "vblk", "stick"), "iommu": True}),
    # A static PF with VFs, a controller outside the slots, and the DPU's switch, whose ports are Texas Instruments'.
    "hotplug": ("stable", beside_slots, {"vfs": (2, 0), "extra": plugged.SWITCH, "driver_flags": "--node-pci-vendor=104c"}),
    "no-pciehp": ("stable", for_shares, {"vfs": (2,), "extra": plugged.SWITCH, "driver_flags": "--node-pci-vendor=104c", "append": "pcie_ports=compat"}),
    # A static PF with VFs, the DPU's switch, a slot of the host itself; no module of virtio is loaded, and udev must not load virtio_pci.
    "shares": ("stable", for_shares, SHARES),
    "shares-newer": ("backports", for_shares, SHARES),
}


# These run beside the others, see Lane; so that both lanes take the same time.
BESIDE = ("newer", "hotplug", "no-pciehp", "shares", "shares-newer")

# As test/reports/faults.md names them: backports moves on.
KERNELS = {"stable": "6.1", "backports": "backports"}


def multipath(world):
    return "N" if "multipath=N" in WORLDS[world][2].get("append", "") else "Y"


class Table:
    def __init__(self):
        self.rows = []

    def row(self, name, world, kernel, result, seconds):
        self.rows.append((result, name, world, kernel, multipath(world), seconds))
        print(self.text(self.rows[-1]), flush=True)

    @staticmethod
    def text(row):
        result, name, world, kernel, has_multipath, seconds = row
        return f"{result:4}  {name:92.92}  {world:13}  {kernel:20}  {has_multipath:9}  {seconds:7.1f}"

    def count(self, result):
        return sum(row[0] == result for row in self.rows)

    def print(self):
        """All rows together: those printed on the way are between other lines."""
        print(f"\n      {'scenario':92}  {'world':13}  {'kernel':20}  multipath  seconds")
        for row in self.rows:
            print(self.text(row))


def run_world(name, scenarios, options, messages, table):
    suite, namespaces, extra = WORLDS[name]
    image = os.path.join(options.images, suite)
    if not os.path.exists(image + "/release"):
        for function in scenarios:
            table.row(function.__doc__, name, suite + " kernel: not to be had", "SKIP", 0)
        return
    with open(image + "/release", encoding="utf-8") as f:
        kernel = f.read().strip()
    world_run = WorldRun(name, kernel, options, messages, table)
    while scenarios:
        scenarios = world_run.run(image, namespaces(), extra, scenarios)


class WorldRun:
    """Runs the scenarios of one world. A scenario that fails may leave anything behind, so a new guest runs the rest."""

    def __init__(self, name, kernel, options, messages, table):
        self.name, self.kernel, self.options, self.messages, self.table = name, kernel, options, messages, table
        self.repeated, self.failed_after, self.why = set(), 0, ""

    def run(self, image, named, extra, scenarios):
        """Boots a guest and runs scenarios until one fails; the scenarios that are left."""
        began = time.monotonic()
        with World(image, self.options.binary, self.messages, list(named.values()), **extra) as world:
            world.ns = named
            print(f"      {self.name}: booted in {world.vm.boot_seconds:.1f} s, ready in {time.monotonic() - began:.1f} s")
            for i, function in enumerate(scenarios):
                if not self.passes(world, function):
                    return scenarios[i + self.is_done(world, function):]
        return []

    def passes(self, world, function):
        began = time.monotonic()
        world.faults = faults.Recorder(self.options.faults, KERNELS[WORLDS[self.name][0]], multipath(self.name))
        try:
            function(world)
            world.verify()
        except Exception as failure:  # pylint: disable=broad-except
            traceback.print_exc()
            self.failed_after, self.why = time.monotonic() - began, f"{type(failure).__name__}: {failure}".splitlines()[0]
            return False
        self.table.row(function.__doc__, self.name, self.kernel, "ok", time.monotonic() - began)
        return True

    def is_done(self, world, function):
        """After a failure. False: the guest's own kernel was at fault, and the scenario runs again."""
        deadlock = ""
        try:
            print("guest's state:\n" + world.vm.sh("state", check=False)[1], flush=True)
            print("driver's log:\n" + "\n".join(world.log().splitlines()[-25:]), flush=True)
            deadlock = world.vm.kernel_deadlock()
        except (OSError, GuestError) as error:
            print(f"the guest does not answer: {error}\n{world.vm.last_words()}", flush=True)
        if deadlock and function not in self.repeated:
            self.repeated.add(function)
            print(f"      {self.name}: once more in a new guest: {deadlock}", flush=True)
            return False
        self.table.row(function.__doc__, self.name, self.kernel, "FAIL", self.failed_after)
        print("      " + self.why, flush=True)
        return True


class Lane:
    """Worlds one after the other. The lanes run beside each other: guests that wait leave the machine to those that compute."""

    def __init__(self, worlds, options, messages, doc):
        self.worlds, self.messages, self.table, self.failure = worlds, messages, Table(), None
        self.options = argparse.Namespace(**vars(options), faults=faults.Answers(doc))
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            for name in self.worlds:
                chosen = [f for f, worlds in SCENARIOS if name in worlds and self.options.only in f.__doc__ + f.__name__]
                if chosen and self.options.world in ("", name):
                    run_world(name, chosen, self.options, self.messages, self.table)
        except BaseException as failure:  # pylint: disable=broad-except
            self.failure = failure

    def join(self):
        self.thread.join()
        if self.failure:
            raise self.failure


def run_lanes(options, doc, messages):
    """All lanes to their end; their table and answers as if the worlds had run one after the other."""
    lanes = [Lane([n for n in WORLDS if (n in BESIDE) == beside], options, messages, doc) for beside in (False, True)]
    table, answers = Table(), faults.Answers(doc)
    try:
        for lane in lanes:
            lane.join()
            table.rows += lane.table.rows
            answers.take(lane.options.faults)
    finally:
        VM.stop_all()
    return table, answers


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the guest ends with us
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", required=True)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--world", default="")
    options = parser.parse_args()
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    messages = load_messages(options.out, root)
    table, answers = run_lanes(options, os.path.join(root, "test/reports/faults.md"), messages)
    table.print()
    whole = not options.only and not options.world and not table.count("SKIP") and not table.count("FAIL")
    differences = answers.write(whole) if os.environ.get("UPDATE_DOCS") else answers.differences(whole)
    for line in differences:
        print(line)
    failed = table.count("FAIL") + bool(differences)
    print(f"e2e-vm: {table.count('ok')} passed, {failed} failed, {table.count('SKIP')} skipped")
    return 1 if failed or not table.count("ok") else 0


if __name__ == "__main__":
    sys.exit(main())
