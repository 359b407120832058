# SPDX-License-Identifier: Apache-2.0
"""Addresses that lead to somebody else's function, and functions that others hold: nothing of them is ever touched.

World "crowded" has one function of every class that a host may have; all of them are in use.
"""
from scenario import scenario
from world import MIB

# Of every function: its driver, its expected driver, and the entries below it.
STATE = """cd /sys/bus/pci/devices; grep -Hs . */class */vendor */device */driver_override */enable */sriov_numvfs\
 */sriov_drivers_autoprobe; ls -l */driver | sed 's/^.* \\([^ ]* -> \\)/\\1/'; ls -d */nvme/* */net/* */usb* */ata* */virtio*; true"""
CLASSES = {"0x0600": "a host bridge", "0x0601": "an ISA bridge", "0x0604": "a PCI bridge", "0x0106": "a SATA controller", "0x0c05": "an SMBus",
           "0x0100": "a virtio disk", "0x0200": "a network card", "0x0002": "a virtio device", "0x0c03": "a USB controller",
           "0x0108": "another vendor's NVMe"}


def crowd_in_use(w):
    """Mounts the disks of the AHCI, USB, virtio and foreign NVMe controllers and brings the network card up, as on a host that works."""
    w.attach(w.ns["foreign"], 0)
    w.bind(0, pf=1)
    w.vm.sh(f"attach {w.pf[0]} {w.ns['of-pf'].nsid} 0; echo 1 >/sys/class/nvme/$(controller_of {w.pf[0]})/rescan_controller; sleep 0.5")
    w.vm.sh("""modprobe ahci; modprobe sd_mod; modprobe xhci_pci; modprobe usb_storage; modprobe e1000e; modprobe virtio_blk
        i=0; until [ -e /dev/sda ] && [ -e /dev/sdb ] && [ -e /dev/vda ]; do i=$((i+1)); [ $i -lt 200 ] || exit 1; sleep 0.1; done
        for n in eth1; do ifconfig $n 10.9.9.9 up; done
        for disk in sda sdb vda %s; do
            [ -e /mnt/$disk ] || { mkfs.ext4 -q /dev/$disk && mkdir -p /mnt/$disk && /sbin/mount /dev/$disk /mnt/$disk && echo mine >/mnt/$disk/mine; }
        done; sync""" % w.device_of(w.ns["foreign"])[5:], timeout=120)


def crowd_works(w):
    """Everything that was in use can still be read and written."""
    said = w.vm.sh("""echo 3 >/proc/sys/vm/drop_caches; n=0
        for d in /mnt/sda /mnt/sdb /mnt/vda /mnt/nvme*; do [ "$(cat $d/mine)" = mine ] && echo more >>$d/log && sync $d/log && n=$((n+1)); done
        ifconfig eth1 | grep -q 10.9.9.9 && echo $n""")
    w.check(said.strip() == "4", "a disk or a card of the host is gone: " + said)


def crowd_ends(w):
    w.vm.sh("for d in /mnt/sda /mnt/sdb /mnt/vda /mnt/nvme*; do umount $d; rmdir $d; done")
    w.unbind(0, pf=1)
    w.detach(w.ns["foreign"], 0)
    w.vm.sh(f"detach {w.pf[0]} {w.ns['of-pf'].nsid} 0")


@scenario("crowded")
def wrong_address(w):
    """a wrong address costs nobody a disk or a card: every class of function, all in use"""
    crowd_in_use(w)
    before, seen = w.vm.sh(STATE), set()
    functions = [line.split() for line in w.vm.sh("cd /sys/bus/pci/devices; for d in *; do read c <$d/class; read v <$d/vendor; echo $d $c $v; done")
                 .splitlines()]
    for address, class_bits, vendor in functions:
        if class_bits == "0x010802" and vendor == "0x1b36":
            continue
        kind = CLASSES[class_bits[:6]]
        bridge = address == "0000:00:00.0"
        volume = w.volume("pvc-w", w.ns["a"], 0, context={"nv-pciDeviceAddress": address})
        fault = w.fault(f"a wrong address: {kind}{', 00:00.0' if bridge else ''}")
        fault.ask("NodeStageVolume", volume.stage, "INVALID_ARGUMENT" if bridge else "FAILED_PRECONDITION", address)
        after = w.vm.sh(STATE)
        w.check(after == before, f"something changed after {address}:\n{before}\n--\n{after}")
        if kind not in seen:
            fault.then("untouched, in use all the time")
        seen.add(kind)
    w.check(seen >= set(CLASSES.values()), f"this guest has no {set(CLASSES.values()) - seen}")
    crowd_works(w)
    crowd_ends(w)


@scenario("crowded")
def not_this_volumes_function(w):
    """the PF itself, VFs of a PF that is none of SNAP's: refused, naming both sides, nothing touched"""
    w.attach(w.ns["foreign"], 0)
    w.bind(0, pf=1)
    mine, own = w.ns["of-pf"], w.ns["a"]
    w.vm.sh(f"attach {w.pf[0]} {mine.nsid} 0; echo 1 >/sys/class/nvme/$(controller_of {w.pf[0]})/rescan_controller; sleep 0.5")
    before = w.vm.sh(STATE)
    fault = w.fault("the address of the PF instead of its VF, with a disk of the host below it")
    wrong = {"nv-pciDeviceAddress": w.pf[0], "nv-nvmeNsID": str(mine.nsid)}
    fault.ask("NodeStageVolume", w.volume("pvc-w", own, 0, context=wrong).stage, "FAILED_PRECONDITION", w.pf[0], "static PF")
    fault.ask("NodeStageVolume, raw block", w.volume("pvc-w", own, 0, context=wrong, block=True).stage, "FAILED_PRECONDITION",
              w.pf[0], "static PF")
    blind = w.volume("pvc-w", own, 0, context={**wrong, "nv-nvmeUUID": None}, volume_context={"functionType": "vf"})
    fault.ask("NodeStageVolume, UUID unknown, functionType: vf", blind.stage, "FAILED_PRECONDITION", w.pf[0], "functionType")
    w.check(w.vm.sh(STATE) == before, "something changed")
    fault.then("untouched")
    # Another vendor's VF passes as one of ours when its vendor is accepted: its PF is not SNAP's.
    w.stop_driver()
    w.start_driver("--node-pci-vendor=8086")
    fault = w.fault("a VF whose PF is not a SNAP PF, of an accepted vendor")
    for vf in (0, 1):
        address = w.vf(vf, 1)
        volume = w.volume("pvc-w", own, 0, context={"nv-pciDeviceAddress": address})
        fault.ask(f"NodeStageVolume, {'bound' if vf == 0 else 'unbound'}", volume.stage, "FAILED_PRECONDITION", address, w.pf[1], "5845", "0010")
    w.check(w.vm.sh(STATE) == before, "something changed")
    fault.then("untouched")
    w.stop_driver()
    w.start_driver()
    w.unbind(0, pf=1)
    w.detach(w.ns["foreign"], 0)
    w.vm.sh(f"detach {w.pf[0]} {mine.nsid} 0")


@scenario("crowded")
def held_by_a_virtual_machine(w):
    """a VF that vfio-pci holds: never taken away; used once vfio has let it go"""
    own, vf = w.ns["a"], w.vf(0)
    w.unbind(0)
    w.attach(own, 0)
    w.vm.sh(f"modprobe vfio-pci; d=/sys/bus/pci/devices/{vf}; echo vfio-pci >$d/driver_override; echo {vf} >/sys/bus/pci/drivers/vfio-pci/bind")
    before = w.vm.sh(STATE)
    fault = w.fault("the VF is bound to vfio-pci (a virtual machine has it)")
    fault.ask("NodeStageVolume", w.volume("pvc-v", own, 0).stage, "FAILED_PRECONDITION", vf, "vfio-pci")
    w.check(w.vm.sh(STATE) == before, "something changed")
    w.vm.sh(f"echo {vf} >/sys/bus/pci/drivers/vfio-pci/unbind")
    before = w.vm.sh(STATE)
    fault.ask("NodeStageVolume, unbound but still reserved by driver_override", w.volume("pvc-v", own, 0).stage,
              "FAILED_PRECONDITION", vf, "vfio-pci", "driver_override")
    w.check(w.vm.sh(STATE) == before, "something changed")
    w.vm.sh(f"echo >/sys/bus/pci/devices/{vf}/driver_override")
    volume = w.volume("pvc-v", own, 0)
    volume.stage()
    volume.unstage()
    fault.then("staged by the retry, once the VF is free")
    w.detach(own, 0)
    w.blank("a")


@scenario("multipath", "plain")
def mounted_by_somebody_else(w):
    """a VF whose disk somebody else has mounted: its neighbour's volume, and its own, leave it alone"""
    theirs, own = w.ns["b"], w.ns["a"]
    w.attach(theirs, 1)
    w.bind(1)
    device = w.device_of(theirs)
    w.vm.sh(f"mkfs.ext4 -q {device} && mkdir -p /mnt/theirs && /sbin/mount {device} /mnt/theirs && echo theirs >/mnt/theirs/x && sync")
    before = w.vm.sh(STATE)
    fault = w.fault("another program has mounted the disk of the VF")
    wrong = {"nv-nvmeUUID": own.uuid}
    fault.ask("NodeStageVolume of another volume (UUID differs)", w.volume("pvc-m", theirs, 1, context=wrong).stage,
              "FAILED_PRECONDITION", own.uuid, theirs.uuid)
    larger = {"csi.snap.nvidia.com/capacityBytes": str(4096 * MIB), "nv-nvmeUUID": None}
    fault.ask("NodeStageVolume of another volume (larger, no UUID known)", w.volume("pvc-m", theirs, 1, context=larger).stage,
              "FAILED_PRECONDITION", str(4096 * MIB), str(theirs.mib * MIB))
    fault.ask("NodeStageVolume as raw block", w.volume("pvc-m", theirs, 1, block=True).stage, "FAILED_PRECONDITION", device)
    fault.ask("NodeStageVolume as xfs", w.volume("pvc-m", theirs, 1, fs="xfs").stage, "FAILED_PRECONDITION", "ext4")
    w.check(w.vm.sh(STATE) == before, "something changed")
    w.check(w.vm.sh("echo 3 >/proc/sys/vm/drop_caches; cat /mnt/theirs/x; echo y >/mnt/theirs/y && sync") == "theirs", "their data is gone")
    w.vm.sh("umount /mnt/theirs")
    fault.then("untouched, still mounted there")
    w.detach(theirs, 1)
    w.blank("b")
