# SPDX-License-Identifier: Apache-2.0
"""Faults on real functions: the driver's answers while they last, and that nothing remains afterwards."""
import re
import time

from kubelet import Refused
from scenario import scenario


def clean(w, volume, fault=None):
    """kubelet's tear-down after a fault: both calls go through, nothing stays."""
    for name, call in (("NodeUnpublishVolume", volume.unpublish), ("NodeUnstageVolume", volume.unstage)):
        if fault:
            fault.ask(name, call, "OK")
        else:
            call()
    w.check(not w.mounts(), "nothing stays mounted: " + "\n".join(w.mounts()))


def in_use(w, name, ns, vf, **options):
    w.attach(ns, vf)
    volume = w.volume(name, ns, vf, **options)
    volume.stage()
    volume.publish()
    return volume


def writer(w, path):
    w.vm.sh(f"(i=0; while :; do i=$((i+1)); echo $i >>{path} && sync {path} 2>/dev/null || break; sleep 0.05; done; touch /tmp/writer-ended)"
            " </dev/null >/dev/null 2>&1 & echo $! >/tmp/writer.pid")
    time.sleep(1)


def writer_ends(w, seconds=60):
    w.vm.sh(f"i=0; until [ -e /tmp/writer-ended ]; do i=$((i+1)); [ $i -lt {seconds * 10} ] || exit 1; sleep 0.1; done;"
            "rm -f /tmp/writer-ended", timeout=seconds + 20)


def still_hangs(w, who):
    """The writer's I/O has not ended yet, so that nothing has waited for it."""
    w.check(w.vm.sh("[ -e /tmp/writer-ended ] && echo ended; true") == "", f"{who} waited for the hung I/O")


@scenario("multipath", "plain", "newer")
def detached_under_a_mount(w):
    """namespace detached under a writer: torn down cleanly, data there after re-attach"""
    ns = w.ns["a"]
    for fs in ("ext4", "xfs"):
        w.blank("a")
        volume = in_use(w, f"pvc-{fs}", ns, 0, fs=fs)
        w.vm.sh(f"echo kept >{volume.target('pod-1')}/kept; sync")
        writer(w, volume.target("pod-1") + "/log")
        w.detach(ns, 0)
        writer_ends(w)
        fault = w.fault(f"namespace detached under a writer, {fs}")
        fault.ask("NodeStageVolume", lambda v=volume: v.stage(timeout=5), "DEADLINE_EXCEEDED", "has no namespace 1")
        fault.ask("NodePublishVolume", volume.publish, "UNAVAILABLE", "no longer exists")
        fault.ask("NodeGetVolumeStats", volume.stats, "UNAVAILABLE", "no longer exists")
        fault.ask("NodeExpandVolume", lambda v=volume: v.expand(required=ns.mib << 20), "UNAVAILABLE", "no longer exists")
        clean(w, volume, fault)
        volume = in_use(w, f"pvc-{fs}", ns, 0, fs=fs)
        w.check(w.vm.sh(f"cat {volume.target('pod-1')}/kept") == "kept", "the data is lost")
        fault.then("attached again: mounted, the data are intact")
        clean(w, volume)
        w.detach(ns, 0)
    w.blank("a")


@scenario("multipath", "plain")
def stats_of_a_dead_mount(w):
    """statistics of a mount whose device has gone: an error that says so"""
    ns = w.ns["a"]
    volume = in_use(w, "pvc-dead", ns, 0)
    disk = w.device_of(ns)[5:]
    w.detach(ns, 0)
    w.vm.sh(f"i=0; while [ -e /sys/block/{disk} ]; do i=$((i+1)); [ $i -lt 1200 ] || exit 1; sleep 0.1; done", timeout=150)
    fault = w.fault("namespace detached under an idle mount")
    fault.ask("NodeGetVolumeStats", volume.stats, "UNAVAILABLE", "no longer exists")
    clean(w, volume, fault)
    fault.then("no mount is left")
    w.blank("a")


@scenario("multipath")
def functions_gone_under_a_writer(w):
    """sriov_numvfs=0 under a writer: torn down cleanly, works again when they are back"""
    ns = w.ns["a"]
    volume = in_use(w, "pvc-gone", ns, 0)
    w.vm.sh(f"echo kept >{volume.target('pod-1')}/kept; sync")
    writer(w, volume.target("pod-1") + "/log")
    w.vm.sh(f"echo 0 >/sys/bus/pci/devices/{w.pf[0]}/sriov_numvfs")
    writer_ends(w)
    fault = w.fault("all VFs removed (sriov_numvfs=0) during writes")
    fault.ask("NodeStageVolume", lambda: w.other(volume).stage(timeout=5), "DEADLINE_EXCEEDED", "no PCI function")
    fault.ask("NodeGetInfo", lambda: w.kubelet.node("NodeGetInfo"), "OK")
    fault.ask("NodeGetVolumeStats", volume.stats, "UNAVAILABLE", "no longer exists")
    clean(w, volume, fault)
    w.vm.sh(f"vf_up {w.pf[0]} 4")
    volume = in_use(w, "pvc-gone", ns, 0)
    w.check(w.vm.sh(f"cat {volume.target('pod-1')}/kept") == "kept", "the data is lost")
    fault.then("VFs back and attached again: mounted, the data are intact")
    clean(w, volume)
    w.detach(ns, 0)
    w.blank("a")


@scenario("multipath")
def controller_offline(w):
    """controller offline (I/O hangs 30 s): statistics and the calls of another volume end meanwhile"""
    ns, other = w.ns["a"], w.ns["b"]
    volume = in_use(w, "pvc-hang", ns, 0)
    w.vm.sh(f"nvme virt-mgmt /dev/$(controller_of {w.pf[0]}) -c 1 -r 0 -a 7 -n 0")
    w.vm.sh(f"(dd if=/dev/zero of={volume.target('pod-1')}/x bs=1M count=8 conv=fsync; touch /tmp/writer-ended) </dev/null >/dev/null 2>&1 &")
    time.sleep(2)
    fault = w.fault("controller offline under a writer (I/O hangs)")
    fault.ask("NodeGetVolumeStats", lambda: volume.stats(timeout=20), "OK|UNAVAILABLE", varies=True)
    still_hangs(w, "statistics")
    w.kubelet.call("Identity", "Probe")
    w.attach(other, 1)
    healthy = w.volume("pvc-well", other, 1, block=True)
    fault.ask("NodeStageVolume of another volume", healthy.stage, "OK")
    fault.ask("NodePublishVolume of another volume", healthy.publish, "OK")
    still_hangs(w, "another volume")
    clean_block(w, healthy)
    writer_ends(w, 120)
    time.sleep(2)
    clean(w, volume, fault)
    fault.then("the kernel abandons the controller after 30 s; no mount is left")
    w.vm.sh(f"nvme virt-mgmt /dev/$(controller_of {w.pf[0]}) -c 1 -r 0 -a 9 -n 0", check=False)
    w.detach(other, 1)
    w.vm.sh(f"detach {w.pf[0]} {ns.nsid} 1", check=False)
    w.vm.sh(f"echo 0 >/sys/bus/pci/devices/{w.pf[0]}/sriov_numvfs; vf_up {w.pf[0]} 4")
    w.blank("a")
    w.blank("b")


def clean_block(w, volume):
    volume.unpublish()
    volume.unstage()
    w.check(not w.mounts(volume.staging) and not w.mounts(volume.target("pod-1")), "the other volume stays mounted")


@scenario("multipath", "plain")
def another_disk_under_the_name(w):
    """another disk under the same name and number: 'already staged' does not believe it"""
    a, b = w.ns["a"], w.ns["b"]
    for block in (False, True):
        volume = in_use(w, "pvc-a", a, 0, block=block)
        w.detach(a, 0)
        time.sleep(1)  # until the kernel has the number for another disk
        w.attach(b, 0)
        time.sleep(1)
        fault = w.fault(f"another disk got the same name and number, {'raw block' if block else 'ext4'}")
        # As the DPU would say it, were only its namespace id wrong: the UUID is the one of the volume.
        swapped = w.volume("pvc-a", b, 0, block=block, context={"nv-nvmeUUID": a.uuid})
        fault.ask("NodeStageVolume", swapped.stage, "FAILED_PRECONDITION", a.uuid, b.uuid)
        fault.ask("NodePublishVolume", volume.publish, "FAILED_PRECONDITION|UNAVAILABLE")
        clean(w, volume, fault)
        fault.then("no mount is left, neither disk was written to")
        w.detach(b, 0)
        time.sleep(1)
    w.blank("a")
    w.blank("b")


def dies_half_way(w, fs):
    """The next mkfs is killed with the driver once it has written something. Looking for it from outside would come too late at times."""
    w.vm.sh(f"""mkdir -p /tmp/whole; tool=$(command -v mkfs.{fs}); cp -L $tool /tmp/whole/mkfs.{fs}; rm $tool
        cat >$tool <<'END'
#!/bin/sh
/tmp/whole/mkfs.{fs} "$@" &
while grep -qx 'write_bytes: 0' /proc/$!/io 2>/dev/null; do :; done
kill -9 $(cat /tmp/driver.pid) $!
touch /tmp/killed
END
        chmod +x $tool""")


@scenario("multipath", "newer")
def killed_while_formatting(w):
    """driver and mkfs killed half way: the same node finishes, the disk is never mounted half made"""
    ns = w.ns["a"]
    for fs in ("ext4", "xfs"):
        w.blank("a")
        w.attach(ns, 0)
        volume = w.volume(f"pvc-{fs}", ns, 0, fs=fs)
        dies_half_way(w, fs)
        swallow(volume.stage)
        w.vm.sh("i=0; until [ -e /tmp/killed ]; do i=$((i+1)); [ $i -lt 600 ] || exit 1; sleep 0.1; done; rm /tmp/killed")
        w.vm.sh(f"mv /tmp/whole/mkfs.{fs} $(command -v mkfs.{fs})")
        w.check(not w.mounts(), "a half-made filesystem is mounted")
        w.start_driver()
        volume = w.volume(f"pvc-{fs}", ns, 0, fs=fs)
        fault = w.fault(f"driver and mkfs.{fs} killed half way, same node")
        fault.ask("NodeStageVolume", volume.stage, "OK")
        volume.publish()
        w.vm.sh(f"echo fine >{volume.target('pod-1')}/x; sync")
        fault.then("formatted again, mounted, written to")
        clean(w, volume)
        w.detach(ns, 0)
    w.blank("a")


@scenario("multipath", "newer")
def half_made_elsewhere(w):
    """a mkfs that another node did not finish: refused, not touched; the way out of the text works"""
    # What is written last is not there: ext4's superblock; the end of "in progress" of xfs.
    for name, fs, unfinish in (("b", "ext4", "dd if=/dev/zero of={0} bs=4096 count=1 conv=notrunc,fsync 2>/dev/null"),
                               ("a", "xfs", "xfs_db -x -c 'sb 0' -c 'write -d inprogress 1' {0} >/dev/null")):
        ns = w.ns[name]
        w.attach(ns, 0)
        w.bind(0)
        device = w.device_of(ns)
        w.vm.sh(f"mkfs.{fs} -q {device} && {unfinish.format(device)}")
        half = ns.digest()
        fault = w.fault(f"mkfs.{fs} was killed half way on another node")
        volume = w.volume(f"pvc-half-{fs}", ns, 0, fs=fs)
        said = fault.ask("NodeStageVolume", volume.stage, "FAILED_PRECONDITION", device, "blkdiscard -z")
        w.check(not w.mounts() and ns.digest() == half, "the half-made filesystem was touched")
        w.vm.sh("/sbin/" + re.search(r'"(blkdiscard -z)"', said).group(1) + " " + device)
        fault.ask("NodeStageVolume, after blkdiscard -z", volume.stage, "OK")
        volume.unstage()
        fault.then("untouched until an administrator clears it, then formatted")
        w.detach(ns, 0)
        w.blank(name)


def swallow(call):
    try:
        call()
    except Refused:
        pass


@scenario("multipath", "plain")
def killed_between_calls(w):
    """driver killed -9 between all calls: kubelet's retries find everything as it was"""
    ns = w.ns["a"]
    for block in (False, True):
        w.blank("a")
        w.attach(ns, 0)
        for step in ("stage", "publish", "unpublish", "unstage"):
            getattr(w.volume("pvc-k", ns, 0, block=block), step)()
            w.kill_driver()
            w.start_driver()
            getattr(w.volume("pvc-k", ns, 0, block=block), step)()
            w.check(len(w.mounts()) <= 2, "a double mount: " + "\n".join(w.mounts()))
        w.check(not w.mounts(), "nothing stays mounted")
        w.detach(ns, 0)
    w.blank("a")


@scenario("multipath")
def staged_by_the_go_plugin(w):
    """a raw block volume that the Go plugin staged, with stacked binds: published, unpublished, unstaged"""
    ns = w.ns["b"]
    w.attach(ns, 0)
    w.bind(0)
    volume = w.volume("pvc-go", ns, 0, block=True)
    device = w.device_of(ns)
    w.vm.sh(f"mkdir -p {volume.staging}; : >{volume.staging}/pvc-go; mount --bind {device} {volume.staging}/pvc-go;"
            f"mount --bind {device} {volume.staging}/pvc-go")
    volume.stage()
    volume.publish()
    w.vm.sh(f"t={volume.target('pod-1')}; mount --bind {volume.staging}/pvc-go $t")
    clean(w, volume)
    w.check(w.vm.sh(f"ls {volume.staging}") == "", "the staging file stays")
    w.detach(ns, 0)


@scenario("multipath", "plain")
def unstaged_while_in_use(w):
    """unstage of a device that somebody else holds: refused, the holder named, nothing undone"""
    ns = w.ns["a"]
    volume = in_use(w, "pvc-held", ns, 0)
    w.vm.sh(f"mkdir -p /mnt/held; mount --bind {volume.staging} /mnt/held")
    volume.unpublish()
    fault = w.fault("unstaged while the filesystem is mounted elsewhere")
    fault.ask("NodeUnstageVolume", volume.unstage, "FAILED_PRECONDITION", "/mnt/held")
    w.vm.sh("umount /mnt/held")
    fault.ask("NodeUnstageVolume, after the unmount", volume.unstage, "OK")
    fault.then("unstaged by the retry")
    w.check(not w.mounts(), "nothing stays mounted")
    w.detach(ns, 0)
    w.blank("a")


@scenario("plain")  # native multipath makes one disk of both
def one_namespace_on_two_functions(w):
    """raw block RWX: written through one function, read through another"""
    ns = w.ns["shared"]
    w.attach(ns, 0)
    w.attach(ns, 1)
    one, two = w.volume("pvc-one", ns, 0, block=True, mode=5), w.volume("pvc-two", ns, 1, block=True, mode=5)
    for volume in (one, two):
        volume.stage()
        volume.publish()
    w.vm.sh(f"echo across | dd of={one.target('pod-1')} bs=4096 conv=sync oflag=direct 2>/dev/null")
    w.check("across" in w.vm.sh(f"dd if={two.target('pod-1')} bs=4096 count=1 iflag=direct 2>/dev/null"), "not read back")
    for volume in (one, two):
        volume.unpublish()
        volume.unstage()
    w.check(not w.mounts(), "nothing stays mounted")
    w.detach(ns, 0)
    w.detach(ns, 1)
