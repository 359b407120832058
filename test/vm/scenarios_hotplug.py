# SPDX-License-Identifier: Apache-2.0
"""Whole controllers that QEMU plugs into the ports of a PCIe switch and takes away again, as a DPU does with its hot-plug functions.

Beside them stand a static PF with VFs, and a controller of the same vendor and device id that nobody has plugged. QEMU's controllers
have no VPD, and one whose namespace is plugged together with it no UUID, so the published address leads to them.
"""
import threading
import time

from kubelet import Volume
from scenario import scenario
from scenarios_faults import clean, writer, writer_ends
from vm import GuestError
from world import MIB

PF = {"functionType": "pf", "hotplugFunction": "true"}
# The DPU's switch: below a root port of the host an upstream port, below that ports with slots.
SWITCH = ["-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off", "-device", "pcie-root-port,id=dpu,bus=pcie.0,chassis=20,slot=20",
          "-device", "x3130-upstream,id=up,bus=dpu"]
SLOTS = 3
for port in range(SLOTS):
    SWITCH += ["-device", f"xio3130-downstream,id=port{port},bus=up,chassis={21 + port},slot={21 + port},addr={port}"]


class Plugged:
    """A volume whose function is plugged in. QEMU keeps its disk, so that each needs a name of its own."""

    def __init__(self, w, name, mib):
        self.w, self.name, self.mib = w, name, mib
        self.path = f"{w.vm.dir}/{name}.img"
        with open(self.path, "wb") as f:
            f.truncate(mib * MIB)
        w.vm.qmp("blockdev-add", driver="raw", **{"node-name": f"disk-{name}", "file": {"driver": "file", "filename": self.path}})

    def ask(self, command, not_yet, **arguments):
        """Asks QEMU, again while it says that it is not ready for it."""
        for again in reversed(range(300)):
            try:
                return self.w.vm.qmp(command, id=f"plug-{self.name}", **arguments)
            except GuestError as error:
                if not again or not any(text in str(error) for text in not_yet):
                    raise
            time.sleep(0.1)

    def plug(self, port):
        """The disk of a function that was unplugged is free a moment after the function has gone."""
        self.ask("device_add", ("Permission conflict", "Duplicate"), driver="nvme", bus=f"port{port}", serial=f"SNAP{self.name}", drive=f"disk-{self.name}")

    def unplug(self, address):
        """The guest is asked and lets the function go, whoever uses it; five seconds, which the attention button has.
        A slot that the guest has not switched on yet refuses."""
        self.ask("device_del", ("guest is busy",))
        self.w.vm.sh(f"i=0; while [ -e /sys/bus/pci/devices/{address} ]; do i=$((i+1)); [ $i -lt 400 ] || exit 1; sleep 0.1; done", timeout=90)
        for _ in range(100):
            if not any(d["name"] == f"plug-{self.name}" for d in self.w.vm.qmp("qom-list", path="/machine/peripheral")):
                return
            time.sleep(0.1)
        raise TimeoutError(f"plug-{self.name} is still there")

    def volume(self, address, **options):
        context = {"nv-volumeName": "v", "nv-pciDeviceAddress": address, "nv-nvmeNsID": "1", "csi.snap.nvidia.com/capacityBytes": str(self.mib * MIB)}
        return Volume(self.w.kubelet, f"pvc-{self.name}", context, volume_context=PF, **options)


def addresses(w):
    """The addresses of functions in the slots of the ports, in their order."""
    found = w.vm.sh("for p in $(ls -d /sys/bus/pci/devices/* | sort); do [ $(cat $p/vendor) = 0x104c ] && [ $(cat $p/device) = 0x8233 ] &&"
                    " printf '0000:%02x:00.0\\n' $(cat $p/secondary_bus_number); done; true").split()
    w.check(len(found) == SLOTS, f"ports of the switch: {found}")
    return found


@scenario("hotplug")
def plugged_while_it_is_waited_for(w):
    """a function is plugged in before and while its volume is staged; each slot is room for a volume"""
    slots = addresses(w)
    room = w.kubelet.node("NodeGetInfo").max_volumes_per_node
    w.check(room == 2 + SLOTS, f"{room} volumes per node instead of 2 VFs and {SLOTS} slots")
    disk = Plugged(w, "late", 64)
    fault = w.fault("a function that the DPU has not plugged in yet")
    fault.ask("NodeStageVolume", lambda: disk.volume(slots[1]).stage(timeout=3), "DEADLINE_EXCEEDED", "no PCI function", slots[1])
    threading.Timer(2, disk.plug, (1,)).start()
    volume = disk.volume(slots[1])
    volume.stage()
    fault.then("staged as soon as it is there")
    volume.publish()
    w.vm.sh(f"echo kept >{volume.target('pod-1')}/kept; sync")
    room = w.kubelet.node("NodeGetInfo").max_volumes_per_node
    w.check(room == 2 + SLOTS, f"{room} volumes per node while one is plugged in")
    clean(w, volume)
    disk.unplug(slots[1])
    disk.plug(2)
    again = disk.volume(slots[2], block=False)
    again.stage()
    again.publish()
    w.check(w.vm.sh(f"cat {again.target('pod-1')}/kept") == "kept", "the data is lost")
    clean(w, again)
    disk.unplug(slots[2])


@scenario("hotplug")
def unplugged_under_a_writer(w):
    """a function is unplugged under a writer and under raw block, the driver restarted: torn down, works again in another slot"""
    slots = addresses(w)
    for kind, options in (("ext4", {"fs": "ext4"}), ("xfs", {"fs": "xfs"}), ("raw block", {"block": True})):
        disk = Plugged(w, kind[:3], 400)
        disk.plug(0)
        volume = disk.volume(slots[0], **options)
        volume.stage()
        volume.publish()
        target = volume.target("pod-1")
        if "fs" in options:
            w.vm.sh(f"echo kept >{target}/kept; sync")
            writer(w, target + "/log")
        else:
            w.vm.sh(f"echo kept | dd of={target} conv=fsync,notrunc 2>/dev/null; exec 9<{target}; sleep 600 </dev/null >/dev/null 2>&1 & echo $! >/tmp/holder.pid")
        disk.unplug(slots[0])
        if "fs" in options:
            writer_ends(w)
        fault = w.fault(f"function unplugged under a pod, {kind}")
        fault.ask("NodeGetVolumeStats", volume.stats, "UNAVAILABLE", "gone")
        fault.ask("NodePublishVolume", lambda v=volume: v.publish("pod-2"), "UNAVAILABLE", "gone")
        w.kill_driver()
        w.start_driver()
        volume.k = w.kubelet
        if "fs" not in options:
            w.vm.sh("kill $(cat /tmp/holder.pid); true")
        # Once the function comes back while the pod still lives: its mounts stay dead, and nobody gets the new disk by them.
        alive = kind == "xfs"
        if alive:
            disk.plug(2)
            w.vm.sh(f"i=0; until [ -e /sys/bus/pci/devices/{slots[2]}/driver ]; do i=$((i+1)); [ $i -lt 200 ] || exit 1; sleep 0.1; done; sleep 1")
            moved = disk.volume(slots[2], **options)
            fault.ask("NodePublishVolume, while it is back", lambda v=moved: v.publish("pod-2"), "UNAVAILABLE|FAILED_PRECONDITION", "gone")
            fault.ask("NodeGetVolumeStats, while it is back", volume.stats, "UNAVAILABLE", "gone")
        clean(w, volume, fault)
        if not alive:
            disk.plug(2)
        volume = disk.volume(slots[2], **options)
        volume.stage()
        volume.publish()
        read = f"cat {target}/kept" if "fs" in options else f"head -c 4 {target}"
        w.check(w.vm.sh(read) == "kept", "the data is lost")
        fault.then("plugged in again in another slot: staged and published, the data is there")
        clean(w, volume)
        disk.unplug(slots[2])


@scenario("hotplug")
def what_nobody_has_plugged(w):
    """a static PF, a controller of the same vendor and id outside the slots: never taken for a hot-plugged function"""
    disk = Plugged(w, "own", 64)
    disk.plug(0)
    before = w.vm.sh("for d in /sys/bus/pci/devices/*; do echo $d $(readlink $d/driver) $(cat $d/driver_override); done")
    for what, address, words in (("the static PF", w.pf[0], "static PF"), ("a local disk of the same vendor", w.pf[1], "hot-plug slots"),
                                 ("a VF", w.vf(0), "is a VF of")):
        fault = w.fault(f"functionType: pf, and the published address is of {what}")
        for block in (False, True):
            fault.ask(f"NodeStageVolume{', raw block' * block}", disk.volume(address, block=block).stage, "FAILED_PRECONDITION", address, words)
        fault.then("untouched")
    after = w.vm.sh("for d in /sys/bus/pci/devices/*; do echo $d $(readlink $d/driver) $(cat $d/driver_override); done")
    w.check(before == after, f"something changed:\n{before}\n--\n{after}")
    disk.unplug(addresses(w)[0])
