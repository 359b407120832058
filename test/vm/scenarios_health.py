# SPDX-License-Identifier: Apache-2.0
"""The node's reports about volumes whose device, controller or filesystem fails."""
import time

from scenario import scenario
from scenarios_faults import clean, in_use


def reasons(volume, **where):
    return [s.reason for s in volume.health(**where).volume_health.health_statuses]


@scenario("multipath", "plain")
def health_of_sound_volumes(w):
    """health: a sound volume is well by path and by id alone, an unknown one is not known"""
    ns = w.ns["b"]
    for block in (False, True):
        volume = in_use(w, "pvc-well", ns, 1, block=block)
        for where in ({"volume_publish_path": volume.target("pod-1")}, {"staging_target_path": volume.staging}, {}):
            w.check(not reasons(volume, **where), f"{where}: {reasons(volume, **where)}")
        clean(w, volume)
        w.check(not reasons(volume), "a volume that is not here is not known")
        w.detach(ns, 1)
        w.blank("b")


@scenario("multipath", "plain")
def health_of_lost_devices(w):
    """health: device gone under ext4, xfs and raw block; nothing mounted where it should be"""
    ns = w.ns["a"]
    for options in ({"fs": "ext4"}, {"fs": "xfs"}, {"block": True}):
        volume = in_use(w, "pvc-lost", ns, 0, **options)
        where = {"volume_publish_path": volume.target("pod-1")}
        w.detach(ns, 0)
        time.sleep(0.5)
        w.check(reasons(volume, **where) == ["DeviceGone"], str(reasons(volume, **where)))
        clean(w, volume)
        w.check(reasons(volume, **where) == ["NotMounted"], str(reasons(volume, **where)))
        w.blank("a")


@scenario("multipath")
def health_of_broken_filesystems(w):
    """health: xfs shut down, ext4 read-only after an error"""
    ns = w.ns["a"]
    volume = in_use(w, "pvc-shut", ns, 0, fs="xfs")
    w.vm.sh(f"xfs_io -x -c 'shutdown -f' {volume.target('pod-1')}")
    w.check(set(reasons(volume, staging_target_path=volume.staging)) & {"FilesystemShutDown", "FilesystemDead"},
            str(reasons(volume, staging_target_path=volume.staging)))
    clean(w, volume)
    w.blank_attached(ns, 0)
    volume = in_use_again(w, "pvc-error", ns)
    w.vm.sh(f"/sbin/mount -o remount,errors=remount-ro {volume.staging};"
            f"echo 1 >/sys/fs/ext4/$(basename {w.device_of(ns)})/trigger_fs_error; sleep 1")
    w.check(reasons(volume, staging_target_path=volume.staging) in (["ReadOnlyAfterError"], ["FilesystemErrors"]),
            str(reasons(volume, staging_target_path=volume.staging)))
    clean(w, volume)
    w.detach(ns, 0)
    w.blank("a")


def in_use_again(w, name, ns):
    volume = w.volume(name, ns, 0, fs="ext4")
    volume.stage()
    volume.publish()
    return volume


@scenario("multipath")
def health_of_a_dead_controller(w):
    """health: a controller that is offline is told while I/O hangs"""
    ns = w.ns["a"]
    volume = in_use(w, "pvc-hang", ns, 0)
    w.vm.sh(f"nvme virt-mgmt /dev/$(controller_of {w.pf[0]}) -c 1 -r 0 -a 7 -n 0")
    w.vm.sh(f"(dd if=/dev/zero of={volume.target('pod-1')}/x bs=1M count=4 conv=fsync; touch /tmp/writer-ended)"
            " </dev/null >/dev/null 2>&1 &")
    seen, deadline = set(), time.monotonic() + 70
    while time.monotonic() < deadline and not seen & {"ControllerNotLive", "DeviceGone"}:
        seen |= set(reasons(volume, staging_target_path=volume.staging))
        time.sleep(1)
    w.check(seen & {"ControllerNotLive", "DeviceGone"}, str(seen))
    w.vm.sh("i=0; until [ -e /tmp/writer-ended ]; do i=$((i+1)); [ $i -lt 1200 ] || exit 1; sleep 0.1; done;"
            "rm -f /tmp/writer-ended", timeout=130)
    clean(w, volume)
    w.vm.sh(f"detach {w.pf[0]} {ns.nsid} 1", check=False)
    w.vm.sh(f"echo 0 >/sys/bus/pci/devices/{w.pf[0]}/sriov_numvfs; vf_up {w.pf[0]} 4")
    w.blank("a")
