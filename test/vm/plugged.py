# SPDX-License-Identifier: Apache-2.0
"""The DPU's PCIe switch, and functions that QEMU plugs into its ports and takes away again: NVMe controllers and virtio-fs devices.

QEMU's daemon for virtio-fs serves a device once, so that each plug has a daemon of its own over the same folder.
"""
import os
import signal
import subprocess
import time

from expect import check
from kubelet import Volume
from vm import GuestError

MIB = 1 << 20
PF = {"functionType": "pf", "hotplugFunction": "true"}
SLOTS = 3
FIRST_SLOT = 21  # the number of the first port's slot
OUTSIDE, OUTSIDE_SLOT = "outside", 40  # a slot of the host itself, in plug()
# The DPU's switch: below a root port of the host an upstream port, below that ports with slots.
SWITCH = ["-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off", "-device", "pcie-root-port,id=dpu,bus=pcie.0,chassis=20,slot=20",
          "-device", "x3130-upstream,id=up,bus=dpu"]
for port in range(SLOTS):
    SWITCH += ["-device", f"xio3130-downstream,id=port{port},bus=up,chassis={FIRST_SLOT + port},slot={FIRST_SLOT + port},addr={port}"]
SLOT_OUTSIDE = ["-device", f"pcie-root-port,id={OUTSIDE},bus=pcie.0,chassis={OUTSIDE_SLOT},slot={OUTSIDE_SLOT}"]


def addresses(w):
    """The addresses of functions in the slots of the ports, in their order."""
    found = w.vm.sh("for p in $(ls -d /sys/bus/pci/devices/* | sort); do [ $(cat $p/vendor) = 0x104c ] && [ $(cat $p/device) = 0x8233 ] &&"
                    " printf '0000:%02x:00.0\\n' $(cat $p/secondary_bus_number); done; true").split()
    w.check(len(found) == SLOTS, f"ports of the switch: {found}")
    return found


class Plugged:
    """A function and its volume. `name` is unique in the guest."""

    def __init__(self, w, name):
        self.w, self.name = w, name

    def ask(self, command, not_yet, **arguments):
        """Sends a request to QEMU, repeatedly while QEMU reports that it is not ready. The request is about the function
        unless `id` names another object."""
        arguments.setdefault("id", f"plug-{self.name}")
        for again in reversed(range(300)):
            try:
                return self.w.vm.qmp(command, **arguments)
            except GuestError as error:
                if not again or not any(text in str(error) for text in not_yet):
                    raise
            time.sleep(0.1)

    def is_plugged(self):
        return any(d["name"] == f"plug-{self.name}" for d in self.w.vm.qmp("qom-list", path="/machine/peripheral"))

    def switch_on(self, port, found):
        """Switches the slot of a function on that QEMU has put into it; five seconds later it would come on by its attention button.
        Waits until the guest has `found` in the function's folder; the function's address."""
        slot = OUTSIDE_SLOT if port == OUTSIDE else FIRST_SLOT + port
        return self.w.vm.sh(
            f"s=/sys/bus/pci/slots/{slot}; a=$(cat $s/address).0; i=0; echo 1 >$s/power 2>/dev/null;"
            f"until [ -e /sys/bus/pci/devices/$a/{found} ]; do i=$((i+1)); [ $i -lt 1200 ] || exit 1; sleep 0.1; done; echo $a",
            timeout=150).split()[-1]

    def unplug(self, address, button=False):
        """The guest switches the slot off, and QEMU takes the function out. `button`: QEMU presses the slot's attention button, and the
        guest lets the function go five seconds later. The guest does either while the function is used, too; for a virtio-fs function it
        waits for ever when requests are under way that nobody answers."""
        if button:
            self.ask("device_del", ("guest is busy",))
            self.w.vm.sh(f"i=0; while [ -e /sys/bus/pci/devices/{address} ]; do i=$((i+1)); [ $i -lt 400 ] || exit 1; sleep 0.1; done", timeout=90)
        else:
            self.w.vm.sh(f"cd /sys/bus/pci/slots; s=$(grep -lx {address[:-2]} */address); echo 0 >${{s%/address}}/power", timeout=30)
        self.unplugged()

    def unplugged(self):
        for _ in range(600):
            if not self.is_plugged():
                return
            time.sleep(0.1)
        raise TimeoutError(f"plug-{self.name} is still there")


class PluggedDisk(Plugged):
    """An NVMe controller with one namespace. QEMU keeps its disk, so that each needs a name of its own."""

    def __init__(self, w, name, mib):
        super().__init__(w, name)
        self.mib, self.path = mib, f"{w.vm.dir}/{name}.img"
        with open(self.path, "wb") as f:
            f.truncate(mib * MIB)
        w.vm.qmp("blockdev-add", driver="raw", **{"node-name": f"disk-{name}", "file": {"driver": "file", "filename": self.path}})

    def plug(self, port):
        """Returns when the kernel has bound it. The disk of a function that was unplugged is free a moment after the function has gone."""
        self.ask("device_add", ("Permission conflict", "Duplicate"), driver="nvme", bus=f"port{port}", serial=f"SNAP{self.name}", drive=f"disk-{self.name}")
        return self.switch_on(port, "driver")

    def volume(self, address, **options):
        context = {"nv-volumeName": "v", "nv-pciDeviceAddress": address, "nv-nvmeNsID": "1", "csi.snap.nvidia.com/capacityBytes": str(self.mib * MIB)}
        return Volume(self.w.kubelet, f"pvc-{self.name}", context, volume_context=PF, **options)


class PluggedShare(Plugged):
    """A virtio-fs device: a folder of the host behind a tag. The guest must have been started without virtio (vm.py)."""

    def __init__(self, w, name, tag=None, folder=None):
        super().__init__(w, name)
        self.tag, self.folder = tag or f"tag-{name}", folder or f"{w.vm.dir}/share-{name}"
        os.makedirs(self.folder, exist_ok=True)
        self.daemon, self.plugs, self.address = None, 0, None

    def plug(self, port, unbound=False):
        """Into a port of the switch, or OUTSIDE of it. Returns when the guest has the function, whatever driver takes it, if any; `unbound`:
        no driver holds it then. Returns its address."""
        self.plugs += 1
        socket, channel = f"{self.w.vm.dir}/{self.name}-{self.plugs}.sock", f"channel-{self.name}-{self.plugs}"
        self._serve(socket)
        # The socket exists a moment before its daemon listens.
        self.ask("chardev-add", ("Connection refused",), id=channel, backend={"type": "socket", "data": {
            "addr": {"type": "unix", "data": {"path": socket}}, "server": False}})
        bus = OUTSIDE if port == OUTSIDE else f"port{port}"
        self.ask("device_add", ("Duplicate",), driver="vhost-user-fs-pci", bus=bus, chardev=channel, tag=self.tag)
        self.address = self.switch_on(port, "enable")
        if unbound:
            self.unbind()
        return self.address

    def unbind(self):
        """Unbinds the function from its driver. The kernel binds a plugged function to a present driver, regardless of
        drivers_autoprobe."""
        self.w.vm.sh(f"d=/sys/bus/pci/devices/{self.address}/driver; [ ! -e $d ] || echo {self.address} >$d/unbind")

    def _serve(self, socket):
        with open(f"{self.w.vm.dir}/{self.name}.log", "ab") as log:
            self.daemon = subprocess.Popen(  # pylint: disable=consider-using-with
                self.w.vm.on_its_processor(["/usr/lib/qemu/virtiofsd", f"--socket-path={socket}", "-o", f"source={self.folder}", "-o", "cache=auto", "-f"]),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.w.vm.daemons.append(self.daemon)
        for _ in range(500):
            if os.path.exists(socket):
                return
            check(self.daemon.poll() is None, "virtiofsd ended: " + self.w.vm.tail(f"{self.name}.log"))
            time.sleep(0.02)
        raise TimeoutError(f"virtiofsd does not listen on {socket}")

    def signal(self, number):
        """To all processes of the daemon that serves the device now: SIGSTOP and SIGKILL make the guest's calls hang."""
        os.killpg(self.daemon.pid, number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.daemon.wait()

    def unplug(self, address=None, button=False):
        super().unplug(address or self.address, button)

    def context(self, address=None, **changes):
        context = {"nv-volumeName": "v", "nv-pciDeviceAddress": address or self.address, "nv-virtioFsTag": self.tag}
        context.update(changes)
        return context

    def volume(self, address=None, context=None, **options):
        options = {"fs": "", "mode": 5, **options}
        return Volume(self.w.kubelet, f"pvc-{self.name}", self.context(address, **(context or {})), volume_context=PF, **options)
