# SPDX-License-Identifier: Apache-2.0
"""A guest with the driver in it, and the host's two roles: the DPU (attach, detach) and kubelet (calls)."""
import os
import shutil

from expect import Failed, check
from kubelet import Kubelet, Refused, Volume
from vm import VM

MIB = 1 << 20
DRIVER_FLAGS = ("--mode=node --node-id=snap-guest --bind-address=unix:///csi.sock --node-pci-vendor=1b36 "
                "--node-snap-controller-device-id=0010 --node-nvme-load-driver=false --node-nvme-create-vfs=false "
                "--plugin-dir=/var/lib/kubelet/plugins/csi.snap.nvidia.com --v=4")


class World:
    def __init__(self, image, binary, messages, namespaces, driver_flags="", **vm_options):
        self.vm = VM(image, namespaces, **vm_options)
        self.binary, self.messages, self.kubelet = binary, messages, None
        self.faults, self.driver_flags = None, driver_flags
        self.pf = []
        self.is_lost = False  # the guest's kernel waits permanently for a function, and so do processes that access it

    def __enter__(self):
        shutil.copy(self.binary, self.vm.share + "/driver")
        if not self.vm.virtio:
            self.copy_killable()  # nothing can be put there once the guest runs
        try:
            self.vm.start()
            self.pf = self.vm.sh("pfs").split()
            for i, pf in enumerate(self.pf):
                if self.vm.vfs[i]:
                    self.vm.sh(f"vf_up {pf} {self.vm.vfs[i]}")
            self.start_driver()
        except BaseException:
            self.vm.stop()
            raise
        return self

    def __exit__(self, *_):
        if self.kubelet:
            self.kubelet.close()
        self.vm.stop()

    # -- the driver -----------------------------------------------------------------------------
    def start_driver(self, flags="", program="/host/driver"):
        self.vm.sh(f"(setsid {program} {DRIVER_FLAGS} {self.driver_flags} {flags} >>/tmp/driver.log 2>&1 & echo $! >/tmp/driver.pid)\n"
                   "[ -e /tmp/socat.pid ] || { setsid socat TCP-LISTEN:9000,reuseaddr,fork UNIX-CONNECT:/csi.sock"
                   " >/dev/null 2>&1 & echo $! >/tmp/socat.pid; }\n"
                   "i=0; until [ -S /csi.sock ] && kill -0 $(cat /tmp/driver.pid); do i=$((i + 1)); [ $i -lt 900 ]"
                   " || { cat /tmp/driver.log; exit 1; }; sleep 0.05; done")
        if self.kubelet:
            self.kubelet.close()
        self.kubelet = Kubelet(self.messages, f"127.0.0.1:{self.vm.rpc_port}")
        try:
            self.kubelet.call("Identity", "Probe", wait_for_ready=True)
        except Refused as refused:
            raise Failed(f"{refused}; {self.silence()}") from refused

    def silence(self):
        """One line about a driver that does not answer: is its process alive, where do its threads sleep, what did it log last?"""
        script = ("p=$(cat /tmp/driver.pid); kill -0 $p && echo the driver runs: || echo the driver has ended: ;"
                  " for t in /proc/$p/task/*; do echo $(cat $t/comm $t/wchan); done; tail -n 4 /tmp/driver.log;"
                  " kill -0 $(cat /tmp/socat.pid) || echo socat has ended")
        return " | ".join(self.vm.sh(script, check=False)[1].splitlines())

    def copy_killable(self):
        """Puts the driver that can be told where to die beside the other one; its path in the guest."""
        binary = os.path.join(os.path.dirname(os.path.dirname(self.binary)), "kill", os.path.basename(self.binary))
        if not os.path.exists(self.vm.share + "/killable"):
            shutil.copy(binary, self.vm.share + "/killable")
        return "/host/killable"

    def kill_driver(self):
        self.vm.sh("kill -9 $(cat /tmp/driver.pid); while kill -0 $(cat /tmp/driver.pid) 2>/dev/null; do sleep 0.02; done")

    def has_died(self):
        """Waits for the end of a driver that kills itself: its client sees the end of the connection a moment earlier."""
        return self.vm.sh("i=0; while kill -0 $(cat /tmp/driver.pid) 2>/dev/null; do i=$((i + 1)); [ $i -lt 1200 ] || exit 1; sleep 0.1; done",
                          check=False)[0] == 0

    def stop_driver(self):
        self.vm.sh("kill $(cat /tmp/driver.pid); while kill -0 $(cat /tmp/driver.pid) 2>/dev/null; do sleep 0.02; done")

    def log(self):
        return self.vm.sh("cat /tmp/driver.log")

    def another_guest(self):
        """A guest of the same kernel with the driver in it and the DPU's switch, for `with`."""
        return World(self.vm.image, self.binary, self.messages, [], self.driver_flags, vfs=(), extra=self.vm.extra, virtio=self.vm.virtio,
                     append=self.vm.append)

    # -- the DPU --------------------------------------------------------------------------------
    def vf(self, index, pf=0):
        return self.vm.sh(f"vf {self.pf[pf]} {index}").strip()

    def attach(self, ns, vf, pf=None):
        """The controller of VF n is n + 1."""
        self.vm.sh(f"attach {self.pf[ns.pf if pf is None else pf]} {ns.nsid} {vf + 1}")

    def detach(self, ns, vf):
        self.vm.sh(f"detach {self.pf[ns.pf]} {ns.nsid} {vf + 1}")

    def context(self, ns, vf, **changes):
        context = {"nv-volumeName": "v", "nv-pciDeviceAddress": self.vf(vf, ns.pf), "nv-nvmeNsID": str(ns.nsid),
                   "nv-nvmeUUID": ns.uuid, "csi.snap.nvidia.com/capacityBytes": str(ns.mib * MIB)}
        context.update({k.replace("__", "/"): v for k, v in changes.items()})
        return {k: v for k, v in context.items() if v is not None}

    def volume(self, name, ns, vf, **options):
        return Volume(self.kubelet, name, self.context(ns, vf, **options.pop("context", {})), **options)

    def device_of(self, ns):
        """/dev path of an attached namespace, by its size: the guest's kernel may hide its uuid."""
        return "/dev/" + self.vm.sh("for d in /sys/block/nvme*n*; do [ -e $d/dev ] && [ $(cat $d/size) = "
                                    f"{ns.mib * 2048} ] && basename $d; done").split()[0]

    def bind(self, vf, pf=0):
        """Binds a function to the nvme driver by hand and waits for its namespaces."""
        address = self.vf(vf, pf)
        self.vm.sh(f"d=/sys/bus/pci/devices/{address}; [ -e $d/driver ] || {{ echo nvme >$d/driver_override;"
                   f" echo {address} >/sys/bus/pci/drivers/nvme/bind; echo >$d/driver_override; }}; sleep 1")

    def unbind(self, vf, pf=0):
        """Unbinds the function, as before the first volume."""
        address = self.vf(vf, pf)
        self.vm.sh(f"[ ! -e /sys/bus/pci/devices/{address}/driver ] || echo {address} >/sys/bus/pci/devices/{address}/driver/unbind")

    def other(self, volume):
        """The same volume with another staging path, where nothing is staged."""
        again = Volume(self.kubelet, volume.id, volume.publish_context, fs=volume.fs, block=volume.block)
        again.staging += "-other"
        return again

    def blank(self, name):
        """Fills the volume with zeroes (on the host, while it is attached nowhere), so that it is blank again."""
        self.ns[name].blank()

    def blank_attached(self, ns, vf):
        """The same, and attaches it again."""
        self.detach(ns, vf)
        ns.blank()
        self.attach(ns, vf)

    def verify(self):
        """After every scenario: no mount, no driver_override and no record is left, and the driver serves."""
        self.check(not self.mounts(), "left mounted: " + "\n".join(self.mounts()))
        if self.is_lost:
            return
        overrides = self.vm.sh("cd /sys/bus/pci/devices; for d in *; do o=$(cat $d/driver_override);"
                               " [ -z \"$o\" ] || [ \"$o\" = '(null)' ] || echo $d: $o; done")
        self.check(not overrides, "driver_override is left: " + overrides)
        left = self.vm.sh("cd /var/lib/kubelet/plugins/csi.snap.nvidia.com 2>/dev/null && find formatting unstaging -type f 2>/dev/null; true")
        self.check(not left, "a record is left: " + left)
        self.kubelet.call("Identity", "Probe")

    # -- what the tests ask ---------------------------------------------------------------------
    def fault(self, what):
        """Registers a fault for test/reports/faults.md."""
        return self.faults.fault(what)

    def mounts(self, below="/var/lib/kubelet"):
        return [line for line in self.vm.sh("cat /proc/self/mountinfo").splitlines() if line.split()[4].startswith(below)]

    def expect(self, code, call, *words):
        """The call must be refused with this code (or one of A|B) and a text that has these words; returns the text."""
        try:
            call()
        except Refused as refused:
            if refused.code not in code.split("|"):
                raise Failed(f"wanted {code}, got {refused}") from refused
            for word in words:
                if word not in refused.text:
                    raise Failed(f"{refused} does not say {word!r}") from refused
            return refused.text
        raise Failed(f"wanted {code}, but the call went through")

    check = staticmethod(check)
