# SPDX-License-Identifier: Apache-2.0
"""Whole controllers that QEMU plugs into the ports of a PCIe switch and takes away again, as a DPU does with its hot-plug functions.

Beside them stand a static PF with VFs, and a controller of the same vendor and device id that nobody has plugged. QEMU's controllers
have no VPD, and one whose namespace is plugged together with it no UUID, so the published address leads to them.
"""
import threading

from plugged import SLOTS, PluggedDisk, PluggedShare, addresses
from scenario import scenario
from scenarios_faults import clean, swallow, writer, writer_ends
from scenarios_kill import killable

@scenario("hotplug")
def plugged_while_it_is_waited_for(w):
    """a function is plugged in before and while its volume is staged; each slot is room for a volume"""
    slots = addresses(w)
    room = w.kubelet.node("NodeGetInfo").max_volumes_per_node
    w.check(room == 2 + SLOTS, f"{room} volumes per node instead of 2 VFs and {SLOTS} slots")
    disk = PluggedDisk(w, "late", 64)
    fault = w.fault("a function that the DPU has not plugged in yet")
    fault.ask("NodeStageVolume", lambda: disk.volume(slots[1]).stage(timeout=3), "DEADLINE_EXCEEDED", "no PCI function", slots[1])
    threading.Timer(2, disk.plug, (1,)).start()
    volume = disk.volume(slots[1])
    volume.stage()
    fault.then("staged as soon as the function appears")
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
        disk = PluggedDisk(w, kind[:3], 400)
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
        disk.unplug(slots[0], button=True)
        if "fs" in options:
            writer_ends(w)
        fault = w.fault(f"function unplugged under a pod, {kind}")
        fault.ask("NodeGetVolumeStats", volume.stats, "UNAVAILABLE", "no longer exists")
        fault.ask("NodePublishVolume", lambda v=volume: v.publish("pod-2"), "UNAVAILABLE", "no longer exists")
        w.kill_driver()
        w.start_driver()
        volume.k = w.kubelet
        if "fs" not in options:
            w.vm.sh("kill $(cat /tmp/holder.pid); true")
        # Once, the function returns while the pod still runs: its mounts stay dead, and do not lead to the new disk.
        alive = kind != "ext4"
        if alive:
            disk.plug(2)
            moved = disk.volume(slots[2], **options)
            fault.ask("NodePublishVolume, after the function has returned", lambda v=moved: v.publish("pod-2"), "UNAVAILABLE|FAILED_PRECONDITION", "no longer exists")
            fault.ask("NodeGetVolumeStats, after the function has returned", volume.stats, "UNAVAILABLE", "no longer exists")
        clean(w, volume, fault)
        if not alive:
            disk.plug(2)
        volume = disk.volume(slots[2], **options)
        volume.stage()
        volume.publish()
        read = f"cat {target}/kept" if "fs" in options else f"head -c 4 {target}"
        w.check(w.vm.sh(read) == "kept", "the data is lost")
        fault.then("plugged in again in another slot: staged and published, the data are intact")
        clean(w, volume)
        disk.unplug(slots[2])


@scenario("hotplug")
def what_nobody_has_plugged(w):
    """a static PF, a controller of the same vendor and id outside the slots: never taken for a hot-plugged function"""
    disk = PluggedDisk(w, "own", 64)
    disk.plug(0)
    before = w.vm.sh("for d in /sys/bus/pci/devices/*; do echo $d $(readlink $d/driver) $(cat $d/driver_override); done")
    for what, address, words in (("the static PF", w.pf[0], "static PF"), ("a local disk of the same vendor", w.pf[1], "hot-plug slots"),
                                 ("a VF", w.vf(0), "is a VF of")):
        fault = w.fault(f"functionType: pf, and the published address is that of {what}")
        for block in (False, True):
            fault.ask(f"NodeStageVolume{', raw block' * block}", disk.volume(address, block=block).stage, "FAILED_PRECONDITION", address, words)
        fault.then("untouched")
    after = w.vm.sh("for d in /sys/bus/pci/devices/*; do echo $d $(readlink $d/driver) $(cat $d/driver_override); done")
    w.check(before == after, f"something changed:\n{before}\n--\n{after}")
    disk.unplug(addresses(w)[0])


@scenario("hotplug")
def killed_between_calls(w):
    """a hot-plugged function, driver killed -9 between all calls and while it binds: kubelet's retries find everything as it was"""
    slots = addresses(w)
    disk = PluggedDisk(w, "killed", 64)
    disk.plug(0)
    points = ("bind: driver_override written", "bind: function bound", "forget: driver_override cleared")
    for step in (*points, "stage", "publish", "unpublish", "unstage"):
        volume = disk.volume(slots[0])
        if step in points:
            w.vm.sh(f"d=/sys/bus/pci/devices/{slots[0]}/driver; [ ! -e $d ] || echo {slots[0]} >$d/unbind")
            killable(w, SNAP_CSI_KILL_AT=step)
            swallow(disk.volume(slots[0]).stage)
        else:
            getattr(volume, step)()
            w.kill_driver()
        w.start_driver()
        volume = disk.volume(slots[0])
        getattr(volume, "stage" if step in points else step)()
        w.check(len(w.mounts()) <= 2, "a double mount: " + "\n".join(w.mounts()))
        if step == "publish":
            w.vm.sh(f"echo kept >{volume.target('pod-1')}/kept; sync")
        if step in points:
            volume.unstage()
    volume.stage()
    volume.publish()
    w.check(w.vm.sh(f"cat {volume.target('pod-1')}/kept") == "kept", "the data is lost")
    clean(w, volume)
    disk.unplug(slots[0])


@scenario("no-pciehp")
def without_pciehp(w):
    """the kernel's pciehp is off: no slot is room for a volume, and who waits for a function is told so"""
    room = w.kubelet.node("NodeGetInfo").max_volumes_per_node
    w.check(room == 2, f"{room} volumes per node instead of 2 VFs")
    fault = w.fault("pciehp is off (pcie_ports=compat)")
    for kind, volume in (("NVMe", PluggedDisk(w, "off", 64).volume("0000:05:00.0")), ("virtio-fs", PluggedShare(w, "off-share").volume("0000:05:00.0"))):
        fault.ask("NodeStageVolume, " + kind, lambda v=volume: v.stage(timeout=3), "DEADLINE_EXCEEDED", "no PCI function 0000:05:00.0", "pciehp off")
    fault.then("no room for volumes on hot-plugged functions")
