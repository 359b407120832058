# SPDX-License-Identifier: Apache-2.0
"""Faults of virtio-fs functions: unplugged under a writer, a daemon that hangs or dies, a tag that another volume gets, kills.

A daemon that does not answer makes the guest's calls hang; the guest learns that it has died only when the function goes. The kernel lets
a function go only when no request is under way, so that the last scenario leaves a guest that nothing can repair.
"""
import signal
import time

from expect import Failed
from kubelet import Refused
from plugged import PluggedShare, addresses
from scenario import scenario
from scenarios_faults import clean, writer, writer_ends
from scenarios_health import reasons
from scenarios_kill import killable
from scenarios_share import load, share_of
from world import DRIVER_FLAGS


def in_use(w, name, port=0, **options):
    """A share, plugged in, staged and published, with a file in it."""
    share = PluggedShare(w, name, **options)
    share.plug(port)
    volume = share.volume()
    volume.stage()
    volume.publish()
    w.vm.sh(f"echo kept >{volume.target('pod-1')}/kept; sync {volume.target('pod-1')}/kept")
    return share, volume


def is_kept(w, volume, pod="pod-1"):
    w.check(w.vm.sh(f"cat {volume.target(pod)}/kept") == "kept", "the data is lost")


@scenario("shares", "shares-newer")
def unplugged_under_a_writer(w):
    """virtio-fs: unplugged under a writer, the driver restarted: torn down, works again in another slot while the old mounts live"""
    load(w)
    slots = addresses(w)
    share, volume = in_use(w, "gone")
    writer(w, volume.target("pod-1") + "/log")
    share.unplug(button=True)
    writer_ends(w)
    fault = w.fault("function unplugged under a pod, virtio-fs")
    fault.ask("NodeGetVolumeStats", volume.stats, "UNAVAILABLE")
    fault.ask("NodePublishVolume", lambda: volume.publish("pod-2"), "UNAVAILABLE")
    w.check(reasons(volume, volume_publish_path=volume.target("pod-1")) == ["FilesystemDead"], str(reasons(volume, volume_publish_path=volume.target("pod-1"))))
    fault.ask("NodeStageVolume", lambda: volume.stage(timeout=4), "DEADLINE_EXCEEDED|UNAVAILABLE")
    w.kill_driver()
    w.start_driver()
    share.plug(1)
    moved = share.volume(slots[1])
    fault.ask("NodePublishVolume, after the function has returned", lambda: moved.publish("pod-2"), "UNAVAILABLE|FAILED_PRECONDITION")
    fault.ask("NodeStageVolume, after the function has returned", moved.stage, "OK")
    moved.publish("pod-2")
    is_kept(w, moved, "pod-2")
    moved.unpublish("pod-2")
    volume.k = w.kubelet
    clean(w, volume, fault)
    moved.stage()
    moved.publish()
    is_kept(w, moved)
    fault.then("plugged in again in another slot: staged and published, the data are intact")
    clean(w, moved)
    share.unplug()


@scenario("shares", "shares-newer")
def daemon_dies_and_comes_back(w):
    """virtio-fs: its daemon is killed, the function goes and comes back with a new one: torn down, staged anew, the data are intact"""
    load(w)
    share, volume = in_use(w, "dies")
    share.kill()
    share.unplug()
    fault = w.fault("the DPU's file service died, and the function was removed")
    fault.ask("NodeGetVolumeStats", volume.stats, "UNAVAILABLE")
    share.plug(0)
    fault.ask("NodeGetVolumeStats, after the function has returned", volume.stats, "UNAVAILABLE")
    clean(w, volume, fault)
    volume.stage()
    volume.publish()
    is_kept(w, volume)
    fault.then("served again: staged and published, the data are intact")
    clean(w, volume)
    share.unplug()


@scenario("shares", "shares-newer")
def tag_reused(w):
    """virtio-fs: another volume's function comes under the same tag and address: 'already staged' does not believe it"""
    load(w)
    share, volume = in_use(w, "before", tag="reused")
    share.unplug()
    other = PluggedShare(w, "after", tag="reused")
    with open(other.folder + "/who", "w", encoding="utf-8") as f:
        f.write("after\n")
    w.check(other.plug(0) == share.address, "the address is another one")
    fault = w.fault("another volume's function got the same address and tag")
    fault.ask("NodePublishVolume of the earlier volume", lambda: volume.publish("pod-2"), "UNAVAILABLE|FAILED_PRECONDITION")
    fault.ask("NodeGetVolumeStats of the earlier volume", volume.stats, "UNAVAILABLE")
    new = other.volume()
    fault.ask("NodeStageVolume of the new volume", new.stage, "OK")
    new.publish()
    w.check(w.vm.sh(f"cat {new.target('pod-1')}/who; ls {volume.target('pod-1')} 2>/dev/null || echo dead").split() == ["after", "dead"],
            "the volumes are mixed up")
    volume.unpublish()
    volume.unstage()
    w.check(w.vm.sh(f"cat {new.target('pod-1')}/who") == "after", "the new one's mount went with the old one's")
    clean(w, new)
    fault.then("the dead mounts stay; the new volume has its own folder")
    other.unplug()


@scenario("shares", "shares-newer")
def daemon_hangs(w):
    """virtio-fs: its daemon hangs: calls end in time, others go on, the pod is torn down, and all is well once it answers"""
    load(w)
    share, volume = in_use(w, "hangs")
    ns = w.ns["a"]
    healthy = PluggedShare(w, "well")
    healthy.plug(1)
    w.attach(ns, 0)
    share.signal(signal.SIGSTOP)
    try:
        fault = w.fault("the share's daemon hangs")
        fault.ask("NodeGetVolumeStats", volume.stats, "UNAVAILABLE")
        w.check(reasons(volume, staging_target_path=volume.staging), "health calls it well")
        fault.ask("NodePublishVolume", lambda: volume.publish("pod-2", timeout=20), "UNAVAILABLE|DEADLINE_EXCEEDED", varies=True)
        well, disk = healthy.volume(), w.volume("pvc-disk", ns, 0)
        fault.ask("NodeStageVolume of another share", well.stage, "OK")
        fault.ask("NodeStageVolume of an NVMe volume", disk.stage, "OK")
        fault.ask("NodeUnpublishVolume", volume.unpublish, "OK")
        w.check(not w.mounts(volume.target("pod-1")), "the pod's mount stays")
        fault.ask("NodeUnstageVolume", lambda: volume.unstage(timeout=20), "OK|UNAVAILABLE|DEADLINE_EXCEEDED", varies=True)
        w.kubelet.call("Identity", "Probe")
        clean_one(w, well)
        clean_one(w, disk)
    finally:
        share.signal(signal.SIGCONT)
    w.check(eventually(volume.unstage), "unstage does not go through once the daemon answers")
    w.check(not w.mounts(), "nothing stays mounted: " + "\n".join(w.mounts()))
    again = share.volume()
    again.stage()
    again.publish()
    is_kept(w, again)
    clean(w, again)
    fault.then("the daemon answers again: staged and published, the data are intact")
    w.detach(ns, 0)
    ns.blank()
    share.unplug()
    healthy.unplug()


def clean_one(w, volume):
    volume.unpublish()
    volume.unstage()
    w.check(not w.mounts(volume.staging), "it stays mounted")


def eventually(call, seconds=120):
    end = time.monotonic() + seconds
    while True:
        try:
            call()
            return True
        except Refused:
            if time.monotonic() > end:
                return False
        time.sleep(0.3)


@scenario("shares")
def hangs_while_it_is_mounted(w):
    """virtio-fs: the daemon hangs before the first mount: stage ends in time, leaves nothing, and its retry goes through"""
    load(w)
    share = PluggedShare(w, "early")
    share.plug(0)
    share.signal(signal.SIGSTOP)
    volume = share.volume()
    fault = w.fault("the share's daemon hangs before it is mounted")
    try:
        fault.ask("NodeStageVolume", lambda: volume.stage(timeout=20), "UNAVAILABLE|DEADLINE_EXCEEDED", varies=True)
    finally:
        share.signal(signal.SIGCONT)
    w.check(eventually(volume.stage), "stage does not go through once the daemon answers")
    volume.publish()
    w.check(share_of(w, volume) == ["virtiofs", share.tag], "the share is not mounted")
    clean(w, volume)
    fault.then("the daemon answers again: staged by the retry")
    share.unplug()


@scenario("shares")
def killed_at_every_step(w):
    """virtio-fs: driver killed -9 at every step of stage, publish and their opposites: retried, mounted once, the data are intact"""
    load(w)
    share = PluggedShare(w, "killed")
    share.plug(0, unbound=True)
    points = trace(w, share)
    w.check(len(points) >= 6, f"only {points} were passed")
    for call, point in points:
        if call == "stage":
            share.unbind()
        before = {"stage": (), "publish": ("stage",), "unpublish": ("stage", "publish"), "unstage": ("stage",)}[call]
        for step in before:
            getattr(share.volume(), step)()
        killable(w, SNAP_CSI_KILL_AT=point)
        try:
            getattr(share.volume(), call)()
        except Refused:
            pass
        w.check(w.has_died(), f"{call} did not pass {point}")
        w.start_driver()
        volume = share.volume()
        getattr(volume, call)()
        for step in ("stage", "publish"):
            getattr(volume, step)()
        mounts = sorted(line.split()[4] for line in w.mounts())
        w.check(mounts == sorted([volume.staging, volume.target("pod-1")]), f"killed after {point}: mounted are {mounts}")
        w.vm.sh(f"echo kept >{volume.target('pod-1')}/kept")
        is_kept(w, volume)
        clean(w, volume)
    share.unplug()


def trace(w, share):
    """The points that each call passes, in order."""
    passed = []
    killable(w, SNAP_CSI_KILL_TRACE="/tmp/trace")
    for call in ("stage", "publish", "unpublish", "unstage"):
        w.vm.sh(": >/tmp/trace")
        getattr(share.volume(), call)()
        passed += [(call, point) for point in w.vm.sh("cat /tmp/trace").splitlines()]
    w.kill_driver()
    w.start_driver()
    return passed


def restart_beside_the_dead(w):
    """Kills the driver, of which a thread is in the kernel permanently, and starts another one. The killed one keeps its sockets open, so
    that the proxy must not find the old one."""
    w.vm.sh("kill -9 $(cat /tmp/driver.pid); sleep 1; : >/tmp/driver.log; rm -f /csi.sock")
    w.start_driver()


def is_named(w, address):
    """The log names the function that hangs, as soon as that is certain. Not every kernel keeps the reader of driver_override."""
    for _ in range(400):
        if any("UNAVAILABLE, others are served" in line and address in line for line in w.log().splitlines()):
            return
        time.sleep(0.3)
    raise Failed(f"{address} is not named: {w.log()}")


@scenario("shares", "shares-newer")
def lost_with_a_request(w):
    """virtio-fs: its daemon is killed with a request under way and the function is unplugged, which the kernel cannot finish: other volumes go on, also after a restart of the driver"""
    load(w)
    share, volume = in_use(w, "lost")
    other, ns = PluggedShare(w, "other"), w.ns["a"]
    other.plug(1)
    w.attach(ns, 0)
    disk = w.volume("pvc-disk", ns, 0)
    share.kill()
    fault = w.fault("the share's daemon is killed with a request in flight, and its function unplugged")
    fault.ask("NodeGetVolumeStats", volume.stats, "UNAVAILABLE")
    slot = w.vm.sh(f"cd /sys/bus/pci/slots; s=$(grep -lx {share.address[:-2]} */address); echo ${{s%/address}}")
    w.is_lost = True
    w.vm.sh(f"(echo 0 >/sys/bus/pci/slots/{slot}/power) </dev/null >/dev/null 2>&1 &")
    time.sleep(2)
    fault.ask("NodeGetVolumeStats, while the kernel waits", volume.stats, "UNAVAILABLE")
    fault.ask("NodeStageVolume of an NVMe volume", disk.stage, "OK")
    fault.ask("NodePublishVolume of an NVMe volume", disk.publish, "OK")
    fault.ask("NodeUnpublishVolume", volume.unpublish, "OK")
    fault.ask("NodeUnstageVolume", lambda: volume.unstage(timeout=20), "OK|UNAVAILABLE|DEADLINE_EXCEEDED", varies=True)
    w.check(not w.mounts(volume.target("pod-1")), "the pod's mount stays")
    restart_beside_the_dead(w)
    disk = w.volume("pvc-disk", ns, 0)  # asks that driver
    fault.ask("NodeGetInfo, after a restart of the driver", lambda: w.kubelet.call("Node", "NodeGetInfo"), "OK")
    is_named(w, share.address)
    health = w.kubelet.call("Node", "NodeGetStorageHealth")
    w.check("FunctionsHang" in str(health) and share.address in str(health), f"health does not name {share.address}: {health}")
    inspected = w.vm.sh(f"/host/driver inspect node {DRIVER_FLAGS} {w.driver_flags}; true", timeout=60)
    w.check(f"PCI function {share.address} " in inspected, inspected)
    fault.ask("NodeUnpublishVolume of an NVMe volume, after that restart", disk.unpublish, "OK")
    fault.ask("NodeUnstageVolume of an NVMe volume, after that restart", disk.unstage, "OK")
    fault.ask("NodeStageVolume of an NVMe volume, after that restart", disk.stage, "OK")
    w.expect("UNAVAILABLE", lambda: share.volume().stage(timeout=60), share.address)
    fault.ask("NodeStageVolume of the share, after that restart", lambda: share.volume().stage(timeout=60), "UNAVAILABLE")
    clean_one(w, disk)
    # mount(2) of any tag waits with the kernel; the call stays away from the others, and each retry is told so.
    fault.ask("NodeStageVolume of another share", lambda: other.volume().stage(timeout=6), "ABORTED|UNAVAILABLE|DEADLINE_EXCEEDED", varies=True)
    w.kubelet.call("Identity", "Probe")
    w.detach(ns, 0)
    ns.blank()
    w.vm.sh(f"umount -l {volume.staging} </dev/null >/dev/null 2>&1 & sleep 1")  # it does not return, and the share is mounted nowhere
    fault.then("NVMe volumes are not affected; the kernel waits until the host reboots, and the share stays staged until then")
