# SPDX-License-Identifier: Apache-2.0
"""Growth. QEMU does not resize a namespace, so the filesystems are made smaller than their device."""
from scenario import scenario
from scenarios_faults import clean, in_use

# Filesystem, the namespace it is on, a filesystem that leaves room behind it, the KiB that it must have at least once it has grown.
SMALL = (("ext4", "a", "mkfs.ext4 -q {0} 100M", 330 << 10), ("xfs", "a", "mkfs.xfs -qf -d size=310m {0}", 330 << 10),
         ("btrfs", "big", "mkfs.btrfs -q -b 200M {0}", 400 << 10))


def kib(w, path):
    return int(w.vm.sh(f"df -k {path} | awk 'END {{print $2}}'"))


def made_small(w, name, make):
    w.attach(w.ns[name], 0)
    w.bind(0)
    w.vm.sh(make.format(w.device_of(w.ns[name])))
    return w.ns[name]


@scenario("multipath")
def grown_on_stage(w):
    """a filesystem smaller than its device grows when it is staged (ext4, xfs, btrfs)"""
    for fs, name, make, least in SMALL:
        ns = made_small(w, name, make)
        volume = w.volume(f"pvc-{fs}", ns, 0, fs=fs)
        volume.stage()
        volume.publish()
        w.check(kib(w, volume.staging) >= least, f"{fs} has {kib(w, volume.staging)} KiB")
        clean(w, volume)
        w.detach(ns, 0)
        w.blank(name)


@scenario("multipath", "newer")
def expanded_online(w):
    """NodeExpandVolume grows ext4, xfs, btrfs online by publish path, as kubelet calls it; never beyond the device"""
    fault = w.fault("the DPU has not grown the device")
    for fs, name, make, least in SMALL:
        ns = made_small(w, name, make)
        volume = w.volume(f"pvc-{fs}", ns, 0, fs=fs)
        w.vm.sh(f"mkdir -p {volume.staging}; /sbin/mount {w.device_of(ns)} {volume.staging}")
        volume.publish()
        w.vm.sh(f"echo kept >{volume.target('pod-1')}/kept")
        w.check(kib(w, volume.target("pod-1")) < least, f"{fs} has grown already")
        fault.ask(f"NodeExpandVolume, {fs}", lambda v=volume: v.expand(required=1 << 40), "OUT_OF_RANGE", str(1 << 40), str(ns.mib << 20))
        w.check(kib(w, volume.target("pod-1")) < least, f"{fs} has grown though that was refused")
        for _ in range(2):
            w.check(volume.expand(required=ns.mib << 20).capacity_bytes == ns.mib << 20, "another size than the device's")
            w.check(kib(w, volume.target("pod-1")) >= least, f"{fs} has {kib(w, volume.target('pod-1'))} KiB")
        w.check(w.vm.sh(f"cat {volume.target('pod-1')}/kept") == "kept", "the data is lost")
        clean(w, volume)
        w.detach(ns, 0)
        w.blank(name)
    ns = w.ns["b"]
    volume = in_use(w, "pvc-raw", ns, 1, block=True)
    w.check(volume.expand(required=ns.mib << 20).capacity_bytes == ns.mib << 20, "another size than the device's")
    fault.ask("NodeExpandVolume, raw block", lambda: volume.expand(required=1 << 40), "OUT_OF_RANGE", str(1 << 40), str(ns.mib << 20))
    fault.then("unchanged; grown once the device is large enough")
    clean(w, volume)
    w.detach(ns, 1)
