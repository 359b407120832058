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
import signal
import socket
import subprocess
import tempfile
import threading
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
    running = []  # guests that have not been stopped
    lock = threading.Lock()

    def __init__(self, image, namespaces, vfs=(4,), pf_options=None, append="", memory=640, extra=(), disks=(), iommu=False, virtio=True):
        """vfs: of each PF, 0 is one without SR-IOV; disks: empty ones that `extra` names as {dir}/NAME.img.
        virtio: the guest has its network and the folder `share` by virtio. Without, no module of virtio is loaded, what is in `share`
        at the start is a copy in the guest's memory, and other processes can serve virtio devices, since they have that memory, too."""
        self.image, self.namespaces, self.vfs, self.virtio = image, namespaces, vfs, virtio
        self.pf_options, self.disks, self.iommu = pf_options or {}, disks, iommu
        self.append, self.memory, self.extra = append, memory, list(extra)
        self.dir = tempfile.mkdtemp(prefix="snap-vm-")
        self.share = os.path.join(self.dir, "host")
        os.mkdir(self.share)
        self.shell_port, self.rpc_port = free_port(), free_port()
        self.process, self.processor, self.daemons = None, None, []
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
        # One thread for both processors: with a thread each QEMU before 8.1 may run an instruction that the other processor has just replaced.
        # Linux replaces its own by way of int3, and then panics with "Oops: int3".
        return ["nice", "-n", "5", "qemu-system-x86_64", "-M", "q35", "-accel", "tcg,thread=single", "-cpu", "max", "-smp", "2",
                *(["-device", "intel-iommu"] if self.iommu else []),
                "-m", str(self.memory), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                "-serial", f"file:{self.dir}/serial.log", "-kernel", f"{self.image}/vmlinux",
                # no_timer_check: a busy machine is late with the ticks by which the kernel tests its timer, and it panics.
                "-append", f"console=ttyS0 panic=-1 quiet no_timer_check nvme_core.io_timeout=30 {'' if self.virtio else 'virtio=no '}{self.append}",
                "-qmp", f"unix:{self.dir}/qmp.sock,server=on,wait=off",
                "-netdev", f"user,id=n0,restrict=on,{forward}",
                *(self._with_virtio() if self.virtio else self._without_virtio()), *self._nvme(), *extra]

    def _with_virtio(self):
        return ["-initrd", f"{self.image}/initramfs.cpio", "-fsdev", f"local,id=host,path={self.share},security_model=none",
                "-device", "virtio-9p-pci,fsdev=host,mount_tag=host", "-device", "virtio-net-pci,netdev=n0,romfile="]

    def _without_virtio(self):
        """The kernel unpacks archives that stand one behind the other."""
        own = f"{self.dir}/initramfs.cpio"
        shutil.copy(f"{self.image}/initramfs.cpio", own)
        names = ["host"] + [f"host/{name}" for name in os.listdir(self.share)]
        with open(own, "ab") as f:
            subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], input="\n".join(names).encode(), stdout=f, cwd=self.dir, check=True)
        return ["-initrd", own, "-object", f"memory-backend-memfd,id=memory,size={self.memory}M,share=on", "-machine", "memory-backend=memory",
                "-device", "e1000e,netdev=n0,romfile="]

    # -- life -----------------------------------------------------------------------------------
    def on_its_processor(self, command):
        """`command`, on the one processor that all threads of this guest and of its devices share. With one thread for all of its
        processors QEMU before 8.1 leaves the guest's memory barriers out, although devices run beside that thread. So the guest's note of a
        new command and the device's note that it looks for none pass each other, and the disk stands still until the kernel's timeout:
        once in 3,000 bursts of 256 commands. On one processor nothing passes."""
        return ["taskset", "-c", str(self.processor), *command]

    def start(self, timeout=120):
        began = time.monotonic()
        with VM.lock:
            taken = [vm.processor for vm in VM.running]
            self.processor = min(os.sched_getaffinity(0), key=taken.count)
            VM.running.append(self)
        self.log = open(os.path.join(self.dir, "qemu.log"), "wb")
        self.process = subprocess.Popen(self.on_its_processor(self._command()), stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=subprocess.STDOUT)
        while time.monotonic() - began < timeout:
            if self.process.poll() is not None:
                raise GuestError("QEMU ended: " + self.tail("qemu.log") + self.tail("serial.log"))
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

    def last_words(self):
        """What QEMU and the guest's kernel said last, for the log of a test that failed."""
        ended = self.process.poll()
        state = "QEMU runs" if ended is None else f"QEMU ended with {ended}"
        return "\n".join(part for part in (state, self.tail("qemu.log"), "guest's console:", self.tail("serial.log", 60)) if part)

    @classmethod
    def stop_all(cls):
        for vm in list(cls.running):
            vm.stop()

    def stop(self):
        if self in VM.running:
            VM.running.remove(self)
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process:
            self.log.close()
        for daemon in self.daemons:
            if daemon.poll() is None:
                os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    # -- inside ---------------------------------------------------------------------------------
    def sh(self, script, timeout=150, check=True):
        """Runs a shell script in the guest; its output (stdout and stderr)."""
        out = b""
        try:
            with socket.create_connection(("127.0.0.1", self.shell_port), timeout=timeout) as s:
                s.sendall(f". /etc/guest-lib.sh\n{script}\nrc=$?; echo; echo RC=$rc\n".encode())
                s.shutdown(socket.SHUT_WR)
                # Not until the end of the stream: a background job may keep it open.
                while not RESULT.search(out):
                    part = s.recv(65536)
                    if not part:
                        break
                    out += part
        except TimeoutError as error:
            raise GuestError(f"nothing more for {timeout} s from: {script[:300]}\n{out.decode(errors='replace')}") from error
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
        """Answers are told from events by their id: QEMU also sends events before its greeting, to a client that it has just let in. A
        reader that took the greeting for an answer would close the connection before QEMU has carried the command out."""
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(os.path.join(self.dir, "qmp.sock"))
            f = s.makefile("rw")
            while "QMP" not in json.loads(f.readline()):
                pass
            for name, with_what in (("qmp_capabilities", {}), (command, arguments)):
                f.write(json.dumps({"execute": name, "arguments": with_what, "id": name}) + "\n")
                f.flush()
                answer = json.loads(f.readline())
                while answer.get("id") != name:
                    answer = json.loads(f.readline())
                if "error" in answer:
                    raise GuestError(f"{name}: {answer['error']}")
        return answer["return"]
