# SPDX-License-Identifier: Apache-2.0
"""Volumes that are only read: nothing is ever written to their device, not even what a journal still holds."""
from scenario import scenario
from scenarios_faults import clean

READER_ONLY = 3  # MULTI_NODE_READER_ONLY


@scenario("multipath", "newer")
def dirty_journal(w):
    """reader only, with a journal to replay (ext4, xfs): mounted without replay, not a byte of the device changes"""
    ns = w.ns["a"]
    for fs in ("ext4", "xfs"):
        w.attach(ns, 0)
        w.bind(0)
        device = w.device_of(ns)
        w.vm.sh(f"mkfs.{fs} -q {device}; mkdir -p /mnt/dirty; /sbin/mount {device} /mnt/dirty; echo kept >/mnt/dirty/kept;"
                f" umount /mnt/dirty; /sbin/mount {device} /mnt/dirty; echo logged >/mnt/dirty/logged; sync /mnt/dirty/logged;"
                " xfs_io -x -c 'shutdown -f' /mnt/dirty; umount /mnt/dirty")
        before = ns.digest()
        volume = w.volume(f"pvc-dirty-{fs}", ns, 0, fs=fs, mode=READER_ONLY)
        fault = w.fault(f"{fs} with a journal to replay, volume is read-only")
        fault.ask("NodeStageVolume", volume.stage, "OK")
        volume.publish()
        w.check(w.vm.sh(f"cat {volume.target('pod-1')}/kept") == "kept", "the data is not there")
        rc, _ = w.vm.sh(f"echo x >{volume.target('pod-1')}/x", check=False)
        w.check(rc != 0, "it can be written to")
        clean(w, volume)
        w.vm.sh(f"sync; blockdev --flushbufs {device}")
        w.check(ns.digest() == before, f"the device of {fs} was written to")
        # A writer replays it.
        volume = w.volume(f"pvc-dirty-{fs}", ns, 0, fs=fs)
        volume.stage()
        volume.publish()
        w.check(w.vm.sh(f"cat {volume.target('pod-1')}/logged") == "logged", "the journal was lost")
        fault.then("the device is unchanged; the next writer replays the journal")
        clean(w, volume)
        w.detach(ns, 0)
        w.blank("a")


@scenario("multipath")
def never_formatted(w):
    """reader only: a blank device is never formatted, as filesystem refused"""
    ns = w.ns["b"]
    w.attach(ns, 0)
    before = ns.digest()
    fault = w.fault("a blank device, volume is read-only")
    fault.ask("NodeStageVolume", w.volume("pvc-ro", ns, 0, mode=READER_ONLY).stage, "FAILED_PRECONDITION", "never formatted")
    w.check(ns.digest() == before, "the device was written to")
    fault.then("not written to")
    w.detach(ns, 0)
