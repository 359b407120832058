# SPDX-License-Identifier: Apache-2.0
"""A volume's life on real NVMe functions: filesystems, raw block, repetition, identity."""
from scenario import scenario
from world import MIB

EVERY_WORLD = ("multipath", "plain", "newer")


def life(w, volume, ns, vf, write, read):
    """Stage to unstage with every call repeated, then again with the data still there."""
    w.attach(ns, vf)
    for again in (False, True):
        for call in (volume.stage, volume.stage, volume.publish, volume.publish):
            call()
        if not again:
            w.vm.sh(write)
        w.check(read[1] in w.vm.sh(read[0]), "the data is not there")
        w.check(len(w.mounts(volume.target("pod-1"))) == 1, "two publishes make one mount")
        for call in (volume.unpublish, volume.unpublish, volume.unstage, volume.unstage):
            call()
        w.check(not w.mounts(), "nothing stays mounted: " + "\n".join(w.mounts()))
        w.check(w.vm.sh(f"cat /sys/bus/pci/devices/{w.vf(vf, ns.pf)}/driver_override") in ("(null)", ""),
                "driver_override is cleared")
    w.detach(ns, vf)


def filesystem_life(w, fs):
    ns = w.ns["big" if fs == "btrfs" else "a"]
    volume = w.volume(f"pvc-{fs}", ns, 0, fs=fs)
    path = volume.target("pod-1") + "/hello"
    life(w, volume, ns, 0, f"echo written >{path}; sync", (f"cat {path}", "written"))


@scenario(*EVERY_WORLD)
def ext4(w):
    """ext4: formatted once, every call twice, data survives re-staging"""
    filesystem_life(w, "ext4")


@scenario(*EVERY_WORLD)
def xfs(w):
    """xfs: formatted once, every call twice, data survives re-staging"""
    w.blank("a")
    filesystem_life(w, "xfs")


@scenario("multipath")
def ext3(w):
    """ext3: formatted once, every call twice, data survives re-staging"""
    w.blank("a")
    filesystem_life(w, "ext3")


@scenario("multipath")
def btrfs(w):
    """btrfs: formatted once, every call twice, data survives re-staging"""
    filesystem_life(w, "btrfs")


@scenario(*EVERY_WORLD)
def block(w):
    """raw block: the published file is the device, NVMe passthrough works through it"""
    w.blank("a")
    ns = w.ns["a"]
    volume = w.volume("pvc-block", ns, 1, block=True)
    target = volume.target("pod-1")
    life(w, volume, ns, 1, f"echo written | dd of={target} bs=512 conv=sync,fsync 2>/dev/null; nvme id-ns {target} >/dev/null",
         (f"dd if={target} bs=7 count=1 2>/dev/null", "written"))


@scenario("multipath", "plain")
def reader_only_block(w):
    """raw block, reader only: a write through the published file fails"""
    ns = w.ns["b"]
    volume = w.volume("pvc-reader", ns, 1, block=True, mode=2)
    w.attach(ns, 1)
    volume.stage()
    volume.publish()
    rc, _ = w.vm.sh(f"dd if=/dev/zero of={volume.target('pod-1')} bs=4096 count=1 conv=fsync 2>/dev/null", check=False)
    w.check(rc != 0, "the write went through")
    volume.unpublish()
    volume.unstage()
    w.check(w.vm.sh("cat /sys/block/nvme*n*/ro | sort -u").split() == ["0"], "the device is writable again")
    w.detach(ns, 1)


@scenario("multipath", "plain")
def identity(w):
    """wrong uuid, nsid or size: refused naming both sides, nothing left"""
    ns = w.ns["a"]
    w.attach(ns, 0)
    other = "99999999-aaaa-4bbb-8ccc-000000000009"
    fault = w.fault("the DPU publishes a disk of another volume")
    fault.ask("NodeStageVolume, UUID differs", w.volume("pvc-x", ns, 0, context={"nv-nvmeUUID": other}).stage,
              "FAILED_PRECONDITION", other, ns.uuid)
    large = {"csi.snap.nvidia.com/capacityBytes": str(4096 * MIB)}
    for what, options in (("", {}), (", raw block", {"block": True})):
        fault.ask("NodeStageVolume, device smaller than the DPUVolume" + what, w.volume("pvc-x", ns, 0, context=large, **options).stage,
                  "FAILED_PRECONDITION", str(4096 * MIB), str(ns.mib * MIB))
    fault.ask("NodeStageVolume, UUID under another namespace id", w.volume("pvc-x", ns, 0, context={"nv-nvmeNsID": "77"}).stage,
              "FAILED_PRECONDITION", "77", ns.uuid)
    absent = {"nv-nvmeNsID": "77", "nv-nvmeUUID": None}
    fault.ask("NodeStageVolume, no such namespace", lambda: w.volume("pvc-x", ns, 0, context=absent).stage(timeout=6), "DEADLINE_EXCEEDED", "77")
    w.check(not w.mounts(), "nothing is mounted")
    fault.then("untouched, nothing mounted")
    w.detach(ns, 0)


@scenario("multipath", "newer")
def foreign_data(w):
    """foreign signatures and non-zero data: refused with what was found where"""
    ns = w.ns["a"]
    w.attach(ns, 0)
    w.bind(0)
    device = w.device_of(ns)
    for what, write, words in (("another filesystem", f"mkfs.xfs -qf {device}", ("xfs",)),
                         ("data without a signature", f"/sbin/blkdiscard -z {device};"
                          f" printf LIVE | dd of={device} bs=1 seek=3000000 conv=notrunc 2>/dev/null", ("30",)),):
        w.vm.sh(write + "; sync")
        before = ns.digest()
        fault = w.fault(f"the device of a new volume holds {what}")
        fault.ask("NodeStageVolume", w.volume("pvc-f", ns, 0, fs="ext4").stage, "FAILED_PRECONDITION", *words)
        w.check(before == ns.digest(), "the device was written to")
        fault.then("not written to, not mounted")
    w.check(not w.mounts(), "nothing is mounted")
    w.detach(ns, 0)
    w.blank("a")


@scenario("two-pfs", "two-pfs-plain")
def two_pfs(w):
    """two PFs with equal nsids: each volume is on its own disk"""
    a, e = w.ns["a"], w.ns["e"]
    w.attach(a, 0)
    w.attach(e, 0)
    one, two = w.volume("pvc-one", a, 0), w.volume("pvc-two", e, 0)
    for volume in (one, two):
        volume.stage()
        volume.publish()
        w.vm.sh(f"echo {volume.id} >{volume.target('pod-1')}/who; sync")
    for ns, volume in ((a, one), (e, two)):
        size = int(w.vm.sh(f"blockdev --getsize64 $(findmnt -no SOURCE --mountpoint {volume.staging} | head -n 1)"))
        w.check(size == ns.mib * MIB, f"{volume.id} is on a disk of {size} bytes")
        w.expect("FAILED_PRECONDITION", w.volume(volume.id, e if ns is a else a, 0).stage)
        volume.unpublish()
        volume.unstage()
    w.detach(a, 0)
    w.detach(e, 0)


@scenario("multipath", "plain")
def late_namespace(w):
    """a namespace that is 20 s late: staging waits for it and goes on"""
    w.blank("a")
    ns = w.ns["a"]
    w.vm.sh(f"(sleep 20; . /etc/guest-lib.sh; attach {w.pf[0]} {ns.nsid} 1) </dev/null >/dev/null 2>&1 &")
    volume = w.volume("pvc-late", ns, 0, fs="ext4")
    fault = w.fault("the namespace is attached 20 s late")
    fault.ask("NodeStageVolume", lambda: volume.stage(timeout=60), "OK")
    volume.unstage()
    fault.then("staged by the same call")
    w.detach(ns, 0)
    w.blank("a")
