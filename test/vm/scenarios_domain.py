# SPDX-License-Identifier: Apache-2.0
"""Functions with equal bus, device and function number in two PCI domains, told apart by the VUID in the VPD of their PF.

QEMU's functions have no VPD and one domain. So the driver sees /sys through an overlay that adds to it what such a host
has: field VU in the PFs' VPD, and the second PF's function once more under the address of the first one, in domain 1.
The disks behind both are real. The overlay cannot be written to: the functions are bound before.
"""
from scenario import scenario
from world import MIB

VUIDS = ("MT2334XZ0L7FNVMES0D0F0", "MT2334XZ0L7FNVMES1D0F0")


def vpd(vuid):
    """A VPD with an identifier string, fields PN and VU, and its end, as printf writes it."""
    fields = b"PN" + bytes([4]) + b"snap" + b"VU" + bytes([len(vuid)]) + vuid.encode()
    data = b"\x82\x03\x00NIC" + b"\x90" + len(fields).to_bytes(2, "little") + fields + b"\x78"
    return "".join(f"\\{byte:03o}" for byte in data)


def two_domains(w):
    w.vm.sh("modprobe overlay; mkdir -p /tmp/domains/add/bus/pci/devices /tmp/domains/sys")
    for pf, vuid in zip(w.pf, VUIDS):
        w.vm.sh(f"d=/tmp/domains/add$(readlink -f /sys/bus/pci/devices/{pf} | cut -c5-); mkdir -p $d; printf '{vpd(vuid)}' >$d/vpd")
    first, second = w.vf(0, 0), w.vf(0, 1)
    w.vm.sh(f"ln -s $(readlink /sys/bus/pci/devices/{second}) /tmp/domains/add/bus/pci/devices/0001:{first[5:]}")
    w.vm.sh("/sbin/mount -t overlay -o lowerdir=/tmp/domains/add:/sys overlay /tmp/domains/sys")
    w.stop_driver()
    w.start_driver("--sysfs-root=/tmp/domains/sys")


@scenario("two-pfs", "two-pfs-plain")
def told_by_vuid(w):
    """equal addresses in two PCI domains: the VUID in the VPD chooses, nothing else does"""
    a, e = w.ns["a"], w.ns["e"]
    for ns in (a, e):
        w.attach(ns, 0)
        w.bind(0, ns.pf)
    address = w.vf(0, 0)
    two_domains(w)
    for published in (address, address[5:], "0001" + address[4:], address.upper()):
        for ns, vuid in ((a, VUIDS[0]), (e, VUIDS[1])):
            volume = w.volume(f"pvc-{ns.uuid[0]}", ns, 0, context={"nv-pciDeviceAddress": published, "nv-funcVUID": vuid})
            volume.stage()
            size = int(w.vm.sh(f"blockdev --getsize64 $(findmnt -no SOURCE --mountpoint {volume.staging})"))
            w.check(size == ns.mib * MIB, f"{published} with VUID {vuid} led to a disk of {size} bytes")
            volume.unstage()
    fault = w.fault("two PCI domains have the published address")
    for what, published, code, words, vuid in (
            ("NodeStageVolume, no domain, no VUID", address[5:], "FAILED_PRECONDITION", (address, "0001:", "refusing to choose"), None),
            ("NodeStageVolume, an unknown VUID", address, "DEADLINE_EXCEEDED", VUIDS, "MT0000000000")):
        context = {"nv-pciDeviceAddress": published, "nv-funcVUID": vuid}
        fault.ask(what, lambda c=context: w.volume("pvc-x", a, 0, context=c).stage(timeout=5), code, *words)
    fault.then("untouched; with the right VUID the right disk is staged")
    w.stop_driver()
    w.vm.sh("umount /tmp/domains/sys; rm -rf /tmp/domains")
    w.start_driver()
    for ns in (a, e):
        w.detach(ns, 0)
    w.blank("a")
    w.blank("e")
