# SPDX-License-Identifier: Apache-2.0
"""One QEMU guest with emulated NVMe physical and virtual functions: start, shell, QMP, stop.

Always TCG: where /dev/kvm exists it may still be slower than that for a stock kernel.
"""
import hashlib
import json
import os
import random
import re
import shutil
import socket
import subprocess
import tempfile
import time

MIB = 1 << 20
RESULT = re.compile(rb"\nRC=\d+\n$")


class GuestError(Exception):
    pass


class Namespace:
    """A private NVMe namespace on a sparse file; attached to one controller at a time."""

    def __init__(self, pf, nsid, mib, uuid, shared=False):
        self.pf, self.nsid, self.mib, self.uuid, self.shared, self.path = pf, nsid, mib, uuid, shared, None

    def digest(self):
        """Digest of all bytes of the file, read on the host."""
        with open(self.path, "rb") as f:
            return hashlib.file_digest(f, "sha1").hexdigest()

    def blank(self):
        with open(self.path, "r+b") as f:
            f.truncate(0)
            f.truncate(self.mib * MIB)


def free_port():
    """A port below those that the kernel hands out (from 32768 on), so that no other process gets it before QEMU binds it."""
    while True:
        port = random.randrange(22000, 32000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class VM:
    def __init__(self, image, namespaces, vfs=(4,), pf_options=None, append="", memory=640, extra=(), disks=(), iommu=False):
        """vfs: of each PF, 0 is one without SR-IOV; disks: empty ones that `extra` names as {dir}/NAME.img."""
        self.image, self.namespaces, self.vfs = image, namespaces, vfs
        self.pf_options, self.disks, self.iommu = pf_options or {}, disks, iommu
        self.append, self.memory, self.extra = append, memory, list(extra)
        self.dir = tempfile.mkdtemp(prefix="snap-vm-")
        self.share = os.path.join(self.dir, "share")
        os.mkdir(self.share)
        self.shell_port, self.rpc_port = free_port(), free_port()
        self.process = None
        self.boot_seconds = 0.0

    # -- arguments ------------------------------------------------------------------------------
    @staticmethod
    def _sriov(vfs):
        return (f",max_ioqpairs={3 * vfs + 6},msix_qsize={3 * vfs + 6},sriov_max_vfs={vfs},sriov_vq_flexible={3 * vfs},"
                f"sriov_vi_flexible={2 * vfs},sriov_max_vq_per_vf=3,sriov_max_vi_per_vf=2")

    def _nvme(self):
        args = []
        for pf, vfs in enumerate(self.vfs):
            args += ["-device", f"pcie-root-port,id=rp{pf},bus=pcie.0,chassis={pf + 1},slot={pf + 1}"]
            args += ["-device", f"nvme-subsys,id=subsys{pf},nqn=snap-{pf}"]
            args += ["-device",
                     f"nvme,id=pf{pf},bus=rp{pf},serial=MT2334XZ0L{pf}F,subsys=subsys{pf}"
                     + self.pf_options.get(pf, "") + (self._sriov(vfs) if vfs else "")]
        for i, ns in enumerate(self.namespaces):
            path = os.path.join(self.dir, f"ns{i}.img")
            with open(path, "wb") as f:
                f.truncate(ns.mib * MIB)
            ns.path = path
            args += ["-drive", f"file={path},if=none,id=d{i},format=raw,discard=unmap"]
            args += ["-device", f"nvme-ns,id=ns{i},bus=pf{ns.pf},drive=d{i},nsid={ns.nsid},uuid={ns.uuid},"
                     f"shared={'on' if ns.shared else 'off'},detached=on"]
        return args

    def _command(self):
        for name in self.disks:
            with open(f"{self.dir}/{name}.img", "wb") as f:
                f.truncate(32 * MIB)
        extra = [argument.format(dir=self.dir) for argument in self.extra]
        forward = (f"hostfwd=tcp:127.0.0.1:{self.shell_port}-:2222,"
                   f"hostfwd=tcp:127.0.0.1:{self.rpc_port}-:9000")
        return ["qemu-system-x86_64", "-M", "q35", "-accel", "tcg", "-cpu", "max", "-smp", "2",
                *(["-device", "intel-iommu"] if self.iommu else []),
                "-m", str(self.memory), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                "-serial", f"file:{self.dir}/serial.log", "-kernel", f"{self.image}/vmlinux",
                "-initrd", f"{self.image}/initramfs.cpio",
                "-append", f"console=ttyS0 panic=-1 quiet nvme_core.io_timeout=30 {self.append}",
                "-fsdev", f"local,id=host,path={self.share},security_model=none",
                "-device", "virtio-9p-pci,fsdev=host,mount_tag=host",
                "-qmp", f"unix:{self.dir}/qmp.sock,server=on,wait=off",
                "-netdev", f"user,id=n0,restrict=on,{forward}", "-device", "virtio-net-pci,netdev=n0,romfile=",
                *self._nvme(), *extra]

    # -- life -----------------------------------------------------------------------------------
    def start(self, timeout=120):
        began = time.monotonic()
        self.log = open(os.path.join(self.dir, "qemu.log"), "wb")
        self.process = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=subprocess.STDOUT)
        while time.monotonic() - began < timeout:
            if self.process.poll() is not None:
                raise GuestError("QEMU ended: " + self.tail("qemu.log"))
            # The forwarded port accepts before the guest listens: only an answer counts.
            try:
                if self.sh("echo up", timeout=5).strip() == "up":
                    self.boot_seconds = time.monotonic() - began
                    return self
            except (OSError, GuestError):
                time.sleep(0.2)
        raise GuestError("the guest did not answer: " + self.tail("serial.log"))

    def tail(self, name, n=30):
        try:
            with open(os.path.join(self.dir, name), errors="replace") as f:
                return "\n".join(f.read().splitlines()[-n:])
        except OSError:
            return ""

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process:
            self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    # -- inside ---------------------------------------------------------------------------------
    def sh(self, script, timeout=60, check=True):
        """Runs a shell script in the guest; its output (stdout and stderr)."""
        with socket.create_connection(("127.0.0.1", self.shell_port), timeout=timeout) as s:
            s.sendall(f". /etc/guest-lib.sh\n{script}\nrc=$?; echo; echo RC=$rc\n".encode())
            s.shutdown(socket.SHUT_WR)
            out = b""
            while True:
                part = s.recv(65536)
                if not part:
                    break
                out += part
                # Not until the end of the stream: a background job may keep it open.
                if RESULT.search(out):
                    break
        text = out.decode(errors="replace")
        at = text.rfind("\nRC=")
        if at < 0:
            raise GuestError("no answer to: " + script[:200] + "\n" + text)
        rc, text = int(text[at + 4:].strip() or 255), text[:at]
        if check and rc != 0:
            raise GuestError(f"exit {rc} of: {script[:300]}\n{text}")
        return text.strip("\n") if check else (rc, text.strip("\n"))

    def kernel_deadlock(self):
        """What the guest's kernel waits for in vain after an NVMe timeout, or "". In Linux 6.1 the timeout's own work
        sometimes waits for ever for a request that only that work could end (blk_mq_tagset_wait_completed_request()
        below nvme_timeout()); nothing in user space ends that."""
        stacks = ("for p in /proc/[0-9]*; do grep -q nvme_timeout $p/stack 2>/dev/null &&"
                  " grep -o blk_mq_tagset_wait_completed_request $p/stack; done; true")
        if not self.sh(stacks):
            return ""
        time.sleep(10)
        return "deadlock in the guest's nvme_timeout()" if self.sh(stacks) else ""

    def qmp(self, command, **arguments):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(os.path.join(self.dir, "qmp.sock"))
            f = s.makefile("rw")
            f.readline()
            for request in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments}):
                f.write(json.dumps(request) + "\n")
                f.flush()
                answer = json.loads(f.readline())
                while "event" in answer:
                    answer = json.loads(f.readline())
        if "error" in answer:
            raise GuestError(f"{command}: {answer['error']}")
        return answer["return"]
