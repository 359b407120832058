# SPDX-License-Identifier: Apache-2.0
"""A host that is not prepared: no VFs, SR-IOV that is off, a driver that is absent or refused."""
from scenario import scenario

PREPARE = "--node-nvme-load-driver=true --node-nvme-create-vfs=true"


def said(w, text, word):
    """Waits for the log line with the word: the driver prepares the host while it serves already."""
    w.vm.sh(f"i=0; until tail -n +$(cat /tmp/log.from) /tmp/driver.log | grep -q '{word}'; do i=$((i+1)); [ $i -lt 1200 ] ||"
            " { tail -n 20 /tmp/driver.log; exit 1; }; sleep 0.1; done")
    line = w.vm.sh(f"tail -n +$(cat /tmp/log.from) /tmp/driver.log | grep '{word}' | head -n 1")
    w.check(text in line, f"the log says {line!r}, not {text!r}")
    return line


def start(w, flags):
    w.vm.sh("echo $(($(wc -l </tmp/driver.log) + 1)) >/tmp/log.from")
    w.start_driver(flags)


def stop(w):
    """Stops the driver, which finishes its preparation first, and returns its log lines about it."""
    w.stop_driver()
    return w.vm.sh("tail -n +$(cat /tmp/log.from) /tmp/driver.log | grep -E 'prepared|not ready'; true")


def cannot_count(w):
    """It registers anyway, and its health says that the number was counted earlier or is a guess."""
    w.check(w.kubelet.node("NodeGetInfo").max_volumes_per_node > 0, "a node without a limit")
    reasons = [h.reason for h in w.kubelet.node("NodeGetStorageHealth").backend_health]
    w.check(reasons in (["NoFunctions", "VolumeLimitLastKnown"], ["NoFunctions", "VolumeLimitGuessed"]), str(reasons))


def numvfs(w, pf=0):
    return int(w.vm.sh(f"cat /sys/bus/pci/devices/{w.pf[pf]}/sriov_numvfs"))


@scenario("multipath", "newer")
def vfs_are_made(w):
    """prepared at start: VFs made where there are none, kept where there are some, left alone when told so"""
    ns, pf = w.ns["a"], f"/sys/bus/pci/devices/{w.pf[0]}"
    w.stop_driver()
    w.vm.sh(f"echo 0 >{pf}/sriov_numvfs")
    start(w, "")
    fault = w.fault("no VFs, --node-nvme-create-vfs=false")
    fault.ask("NodeGetInfo", lambda: w.kubelet.node("NodeGetInfo"), "OK")
    cannot_count(w)
    w.check(not stop(w) and numvfs(w) == 0, "VFs were made though --node-nvme-create-vfs=false")
    w.vm.sh(f"echo 1 >{pf}/sriov_drivers_autoprobe")
    start(w, PREPARE)
    said(w, f"4 VFs on {w.pf[0]}", "prepared this host")
    w.check(numvfs(w) == 4 and w.vm.sh(f"cat {pf}/sriov_drivers_autoprobe") == "0", "4 VFs without autoprobe")
    w.check(w.kubelet.node("NodeGetInfo").max_volumes_per_node == 4, "4 volumes per node")
    fault.then("4 volumes per node, once the driver may create VFs")
    w.vm.sh(f"vf_online {w.pf[0]} 4")
    w.attach(ns, 0)
    volume = w.volume("pvc-new", ns, 0)
    volume.stage()
    volume.publish()
    # Again, with a volume in use: nothing is written.
    w.kill_driver()
    start(w, PREPARE)
    w.check(not stop(w) and numvfs(w) == 4, "it was prepared again")
    start(w, PREPARE)
    volume = w.volume("pvc-new", ns, 0)
    w.check(w.vm.sh(f"echo x >{volume.target('pod-1')}/x && sync && cat {volume.target('pod-1')}/x") == "x", "the volume has gone")
    volume.unpublish()
    volume.unstage()
    w.detach(ns, 0)
    # Fewer VFs than possible: an administrator chose that number.
    w.stop_driver()
    w.vm.sh(f"echo 0 >{pf}/sriov_numvfs; echo 2 >{pf}/sriov_numvfs")
    start(w, PREPARE)
    w.check(w.kubelet.node("NodeGetInfo").max_volumes_per_node == 2, "2 volumes per node")
    w.check(not stop(w) and numvfs(w) == 2, "another number of VFs than was there")
    w.vm.sh(f"echo 0 >{pf}/sriov_numvfs; vf_up {w.pf[0]} 4")
    start(w, "")
    w.blank("a")


@scenario("crowded")
def sriov_off(w):
    """prepared at start: a PF without SR-IOV is told, and is no failure beside one that has VFs"""
    w.stop_driver()
    start(w, PREPARE)
    w.check(not stop(w) and numvfs(w) == 2, "a PF without SR-IOV beside another one with VFs is no failure")
    # Only that PF: the other one was removed from the bus.
    w.vm.sh(f"echo 0 >/sys/bus/pci/devices/{w.pf[0]}/sriov_numvfs; echo 1 >/sys/bus/pci/devices/{w.pf[0]}/remove")
    fault = w.fault("the only SNAP PF has no SR-IOV")
    start(w, PREPARE)
    line = said(w, "create VFs: SR-IOV is off", "not ready for new volumes")
    w.check(w.pf[2] in line and "sriov_totalvfs is missing" in line and "--node-nvme-create-vfs=false" in line, line)
    fault.ask("NodeGetInfo", lambda: w.kubelet.node("NodeGetInfo"), "OK")
    cannot_count(w)
    w.stop_driver()
    w.vm.sh(f"echo 1 >/sys/bus/pci/rescan; [ -e /sys/bus/pci/devices/{w.pf[0]}/driver ] || exit 1; vf_up {w.pf[0]} 2")
    start(w, PREPARE)
    w.check(w.kubelet.node("NodeGetInfo").max_volumes_per_node == 2, "2 volumes per node")
    fault.then("2 volumes per node, once a PF with VFs exists")
    w.stop_driver()
    start(w, "")


@scenario("multipath")
def driver_absent(w):
    """the kernel's nvme driver is not loaded: told, staged once it is; loaded at start when allowed"""
    ns = w.ns["a"]
    w.attach(ns, 0)
    w.vm.sh("rmmod nvme")
    fault = w.fault("the kernel module nvme is not loaded")
    fault.ask("NodeStageVolume", lambda: w.volume("pvc-abs", ns, 0).stage(timeout=5), "DEADLINE_EXCEEDED", "the driver is not loaded: modprobe loads it")
    w.stop_driver()
    start(w, PREPARE)
    said(w, "loaded nvme", "prepared this host")
    w.vm.sh(f"i=0; until [ -n \"$(controller_of {w.pf[0]})\" ]; do i=$((i+1)); [ $i -lt 100 ] || exit 1; sleep 0.1; done; show_uuids; vf_online {w.pf[0]} 4")
    volume = w.volume("pvc-abs", ns, 0)
    volume.stage()
    volume.unstage()
    fault.then("staged by the retry; a driver that starts loads the module")
    # A module that cannot be loaded.
    w.vm.sh("rmmod nvme; mkdir -p /etc/modprobe.d; echo 'install nvme /bin/false' >/etc/modprobe.d/no.conf")
    w.stop_driver()
    fault = w.fault("the kernel module nvme cannot be loaded")
    start(w, PREPARE)
    said(w, "load the kernel module nvme: modprobe exited with 1", "not ready for new volumes")
    fault.ask("NodeStageVolume", lambda: w.volume("pvc-abs", ns, 0).stage(timeout=5), "DEADLINE_EXCEEDED", "the driver is not loaded: modprobe loads it")
    w.vm.sh(f"rm /etc/modprobe.d/no.conf; modprobe nvme; i=0; until [ -n \"$(controller_of {w.pf[0]})\" ]; do i=$((i+1)); [ $i -lt 100 ] || exit 1;"
            f" sleep 0.1; done; show_uuids; vf_online {w.pf[0]} 4")
    volume = w.volume("pvc-abs", ns, 0)
    volume.stage()
    volume.unstage()
    fault.then("staged by the retry, once the module exists")
    w.stop_driver()
    start(w, "")
    w.detach(ns, 0)
    w.blank("a")


@scenario("multipath", "plain", "newer")
def bind_refused(w):
    """no driver holds the function, and the bind fails: the reason is told, the retry binds it"""
    ns, vf = w.ns["a"], w.vf(0)
    w.attach(ns, 0)
    w.unbind(0)
    # The DPU has not put the controller online: the probe fails.
    w.vm.sh(f"nvme virt-mgmt /dev/$(controller_of {w.pf[0]}) -c 1 -r 0 -a 7 -n 0")
    fault = w.fault("the VF's controller does not come online (the probe fails)")
    fault.ask("NodeStageVolume", lambda: w.volume("pvc-bind", ns, 0).stage(timeout=8), "DEADLINE_EXCEEDED", vf, varies=True)
    w.vm.sh(f"vf_online {w.pf[0]} 1")
    volume = w.volume("pvc-bind", ns, 0)
    volume.stage()
    volume.unstage()
    fault.then("staged by the retry, once the controller is online")
    # driver_override names another driver, whose module does not exist.
    w.unbind(0)
    w.vm.sh(f"echo uio_pci_generic >/sys/bus/pci/devices/{vf}/driver_override")
    fault = w.fault("driver_override names another driver")
    fault.ask("NodeStageVolume", w.volume("pvc-bind", ns, 0).stage, "FAILED_PRECONDITION", vf, "uio_pci_generic", "driver_override")
    w.check(w.vm.sh(f"cat /sys/bus/pci/devices/{vf}/driver_override") == "uio_pci_generic", "driver_override was changed")
    w.vm.sh(f"echo >/sys/bus/pci/devices/{vf}/driver_override")
    volume = w.volume("pvc-bind", ns, 0)
    volume.stage()
    volume.unstage()
    fault.then("untouched until driver_override is cleared, then staged by the retry")
    w.detach(ns, 0)
    w.blank("a")
