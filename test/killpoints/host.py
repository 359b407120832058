# SPDX-License-Identifier: Apache-2.0
"""A host whose NVMe namespaces are loop devices and whose virtio-fs devices are folders (snap-sim), the driver on it,
kubelet's calls, and checks of the host's state.

Everything is created in one directory; Host.close() removes everything below it, even after a failure.
"""
import ctypes
import fcntl
import glob
import os
import re
import shutil
import signal
import subprocess
import tempfile

import expect
import kubelet
import sim_switch
from expect import check

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MIB = 1 << 20
NODE = "dpu-host-1"
NAMESPACE = "dpf-operator-system"
PR_SET_CHILD_SUBREAPER = 36


def until(what, condition, seconds=120):
    return expect.until(what, condition, seconds, pause=0.005)


def run(*argv, **options):
    return subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options).stdout


class Host:
    def __init__(self, out, kill_out, messages):
        self.out, self.kill_out, self.messages = out, kill_out, messages
        self.dir = tempfile.mkdtemp(prefix="snap-csi-kill.", dir=os.environ.get("TMPDIR", "/var/tmp"))
        self.kubelet_dir = self.dir + "/kubelet"
        self.sysfs = f"{self.dir}/sim/{NODE}/sys"
        self.socket = self.dir + "/run/csi.sock"
        self.sim = self.driver = self.kubelet = self.volume = self.mount_helper = None
        self.settled = 0
        self.log = open(self.dir + "/driver.log", "ab")
        os.mkdir(self.dir + "/run")
        # Processes that a killed driver leaves become children of this one, which children() lists.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    # -- snap-sim -------------------------------------------------------------------------------
    def start_sim(self):
        token = "marker-of-token"
        with open(self.dir + "/sim.log", "wb") as log:
            self.sim = subprocess.Popen(
                [self.out + "/snap-sim", f"--state={self.dir}/sim", f"--write-kubeconfig={self.dir}/kubeconfig",
                 f"--port-file={self.dir}/port", f"--token={token}", f"--namespace={NAMESPACE}", f"--node={NODE}",
                 "--vfs=2", "--hotplug-slots=2", "--blacklist-virtio", "--seed"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until("snap-sim is ready", lambda: os.path.exists(self.dir + "/port") and os.path.exists(self.dir + "/kubeconfig"))
        with open(self.dir + "/port", encoding="ascii") as f:
            self.sim_port = f.read()

    # -- the driver -----------------------------------------------------------------------------
    def spawn_driver(self, **environment):
        """Starts the driver that ships, or with an environment the build with kill points."""
        binary = (self.kill_out if environment else self.out) + "/snap-csi-plugin"
        self.driver = subprocess.Popen(
            [binary, "--mode=all", f"--bind-address=unix://{self.socket}", f"--namespace={NAMESPACE}",
             f"--node-id={NODE}", f"--kubeconfig={self.dir}/kubeconfig", f"--sysfs-root={self.sysfs}",
             f"--dev-root={self.dir}/sim/{NODE}/dev", "--node-nvme-load-driver=false", f"--plugin-dir={self.dir}/run",
             f"--kubelet-dir={self.kubelet_dir}", "--node-virtiofs-load-driver=false",
             "--node-virtiofs-filesystem-type=snapsim"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            env={**os.environ, "SNAP_SIM_TAGS": f"{self.dir}/sim/{NODE}/tags", **environment})

    def start_driver(self, **environment):
        self.spawn_driver(**environment)
        self.kubelet = kubelet.Kubelet(self.messages, "unix:" + self.socket, min_reconnect_backoff_ms=20,
                                       initial_reconnect_backoff_ms=20)
        self.kubelet.call("Identity", "Probe", timeout=60, wait_for_ready=True)

    def kill_driver(self):
        if self.driver and self.driver.poll() is None:
            self.driver.kill()
        self.wait_for_death()

    def wait_for_death(self):
        """How the driver ended, as Popen has it: -9 when it was killed."""
        if not self.driver:
            return None
        status = self.driver.wait(60)
        if self.kubelet:
            self.kubelet.close()
        self.driver = self.kubelet = None
        return status

    # -- the state of the host ---------------------------------------------------------------------
    def mounts(self):
        """Mount points below our directory but snap-sim's own, in mountinfo's order."""
        with open("/proc/self/mountinfo", encoding="utf-8") as f:
            points = [line.split()[4] for line in f]
        return [point for point in points if point.startswith(self.dir + "/") and not point.startswith(self.dir + "/sim/")]

    def mount_is_read_only(self, path):
        with open("/proc/self/mountinfo", encoding="utf-8") as f:
            return any(line.split()[4] == path and "ro" in line.split()[5].split(",") for line in f)

    def loops(self):
        text = run("losetup", "--list", "--noheadings", "--raw", "--output", "NAME,BACK-FILE")
        return [line.split()[0] for line in text.splitlines() if line.split()[1:] and line.split()[1].startswith(self.dir + "/")]

    def records(self):
        """Of formats and unstages that have begun, and of changed settings, as "formatting/0123"."""
        run_dir = self.dir + "/run"
        return sorted(os.path.relpath(path, run_dir) for kind in ("formatting", "unstaging", "settings") for path in glob.glob(f"{run_dir}/{kind}/*"))

    def looking(self):
        """Folders in which the driver mounts tags to read them; their mounts are in mounts()."""
        return glob.glob(self.dir + "/run/looking/*")

    def children(self):
        """Names of the processes that a killed driver has left. Reaps those that have ended."""
        known = {p.pid for p in (self.sim, self.driver, self.mount_helper, self.volume and self.volume.holder) if p}
        left = []
        with open("/proc/thread-self/children", encoding="ascii") as f:
            pids = [int(word) for word in f.read().split()]
        for pid in pids:
            if pid in known:
                continue
            try:
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    with open(f"/proc/{pid}/cmdline", "rb") as f:
                        words = f.read().decode().split("\0")
                    at = next((i for i, word in enumerate(words) if word.endswith("/tool.py")), None)
                    left.append((pid, words[at + 3] if at is not None else os.path.basename(words[0])))
            except (ChildProcessError, FileNotFoundError):
                pass
        return left

    # -- functions ------------------------------------------------------------------------------
    def function(self, pci):
        """(driver or None, driver_override or "") of a PCI function."""
        path = f"{self.sysfs}/bus/pci/devices/{pci}"
        try:
            driver = os.path.basename(os.readlink(path + "/driver"))
        except FileNotFoundError:
            driver = None
        with open(path + "/driver_override", encoding="ascii") as f:
            override = f.read().strip()
        return driver, "" if override == "(null)" else override

    def functions(self):
        return [os.path.basename(os.path.dirname(p)) for p in sorted(glob.glob(self.sysfs + "/bus/pci/devices/*/physfn"))]

    def settle(self):
        """Waits until snap-sim has processed all earlier writes to bind and unbind, which it reads in order (it logs a word
        that is not an address), and until a running driver has removed what a killed driver mounted to probe a tag, which it
        does beside the calls."""
        for name in ("nvme/unbind", "nvme/bind", "virtio-pci/unbind", "virtio-pci/bind"):
            self.settled += 1
            word = f"mark{self.settled}."
            with open(f"{self.sysfs}/bus/pci/drivers/{name}", "w", encoding="ascii") as f:
                f.write(word + "\n")
            until(f"{name} was obeyed", lambda w=word: w in self.sim_log())
        if self.driver:
            until("the directories in which tags were probed are removed", lambda: not self.looking())

    def sim_log(self):
        with open(self.dir + "/sim.log", encoding="utf-8", errors="replace") as f:
            return f.read()

    def free_functions(self):
        """Unbinds all functions, as after the host's boot."""
        for pci in self.functions():
            if self.function(pci)[0]:
                with open(self.sysfs + "/bus/pci/drivers/nvme/unbind", "w", encoding="ascii") as f:
                    f.write(pci)
                until(f"{pci} has no driver", lambda p=pci: self.function(p)[0] is None)

    # -- the end --------------------------------------------------------------------------------
    def close(self, keep_logs=None):
        self.kill_driver()
        for _, target in reversed(list(enumerate(self.mounts()))):
            subprocess.run(["umount", "-l", target], check=False)
        for pid, _ in self.children():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        if self.sim:
            self.sim.terminate()
            self.sim.wait(30)
        for loop in self.loops():
            subprocess.run(["losetup", "--detach", loop], check=False)
        self.log.close()
        if keep_logs:
            os.makedirs(keep_logs, exist_ok=True)
            for path in glob.glob(self.dir + "/*.log"):
                shutil.copy(path, keep_logs)
        shutil.rmtree(self.dir, ignore_errors=True)


# For each kind of volume its parameters; a kind of its own is the name of its filesystem, on a VF.
VF = {"policy": "example-policy", "functionType": "vf", "hotplugFunction": "false"}
PARAMETERS = {"hot-plugged": {"policy": "example-policy", "functionType": "pf", "hotplugFunction": "true"},
              "virtio-fs": {"policy": "example-policy", "csi.snap.nvidia.com/emulation": "virtiofs"},
              "queue": VF | {"csi.snap.nvidia.com/readAheadKb": "4096", "csi.snap.nvidia.com/rqAffinity": "2"}}
FILESYSTEMS = {"block": "", "hot-plugged": "ext4", "virtio-fs": "", "queue": "xfs"}
MULTI_WRITER = 5


class Volume(kubelet.Volume):
    """A volume that is made and attached through the controller service of the same driver. "hot-plugged" is an ext4 on a
    hot-plugged function, "virtio-fs" a share that all nodes may write, on a function that the driver has to bind, "queue" an xfs whose StorageClass has
    two settings of the disk's queue."""
    made = 0

    def __init__(self, host, kind, mib=400, mode=1, flags=()):
        Volume.made += 1
        self.host, self.kind, self.readonly = host, kind, False
        self.has_data = False
        self.holder = self.refusal = None  # a process that keeps it mounted; the code that its call must fail with
        host.volume = self
        block, self.is_share = kind == "block", kind == "virtio-fs"
        name = f"pvc-{Volume.made}"
        super().__init__(host.kubelet, name, {}, fs=FILESYSTEMS.get(kind, kind), mode=MULTI_WRITER if self.is_share else mode,
                         block=block, flags=flags)
        self.staging = f"{host.kubelet_dir}/plugins/{name}/globalmount"
        self.target_path = f"{host.kubelet_dir}/pods/pod-1/volumes/{name}"
        os.makedirs(self.staging)
        os.makedirs(os.path.dirname(self.target_path), exist_ok=True)
        self.bytes = mib * MIB
        self.controller("CreateVolume", name=name, capacity_range={"required_bytes": self.bytes},
                        volume_capabilities=[self.capability()],
                        parameters=PARAMETERS.get(kind, VF),
                        keep="volume_context", of="volume")
        self.controller("ControllerPublishVolume", volume_id=name, node_id=NODE, volume_capability=self.capability(),
                        volume_context=self.volume_context, keep="publish_context")
        self.pci = self.publish_context["nv-pciDeviceAddress"]
        self.loop = None if self.is_share else host.loops()[0]
        self.make_writable()

    def controller(self, method, keep=None, of=None, **fields):
        answer = self.host.kubelet.call("Controller", method, timeout=60, **fields)
        if keep:
            setattr(self, keep, dict(getattr(getattr(answer, of) if of else answer, keep)))

    def call(self, name):
        """Calls stage, publish, unpublish, unstage or expand as kubelet does now; raises Refused."""
        self.k = self.host.kubelet
        if name == "publish":
            return self.publish(readonly=self.readonly)
        if name == "expand":
            return self.expand(required=self.bytes)
        return getattr(self, name)()

    def target(self, pod="pod-1"):
        return self.target_path

    def staged_at(self):
        return f"{self.staging}/{self.id}" if self.block else self.staging

    # -- data -----------------------------------------------------------------------------------
    def write_at(self, path):
        """Writes this volume's marker and syncs it."""
        text = f"data of {self.id}\n".encode().ljust(4096, b".")
        fd = os.open(path if self.block else path + "/marker", os.O_WRONLY | (0 if self.block else os.O_CREAT), 0o644)
        try:
            os.write(fd, text)
            os.fsync(fd)
        finally:
            os.close(fd)

    def check_at(self, path):
        with open(path if self.block else path + "/marker", "rb") as f:
            check(f.read(4096) == f"data of {self.id}\n".encode().ljust(4096, b"."), "the data is lost")

    def make_by_hand(self):
        """Data that existed before: a filesystem (an xfs that is smaller than its device), or bytes at the start of the
        device."""
        if self.block:
            return self.write_at(self.loop)
        if self.is_share:
            folder = f"{self.host.dir}/sim/shares/{NAMESPACE}.{self.id}"
            os.makedirs(folder, exist_ok=True)
            return self.write_at(folder)
        run("mkfs." + self.fs, "-q", *{"ext4": [], "xfs": ["-f", "-dsize=310m"]}[self.fs], self.loop)
        point = self.host.dir + "/by-hand"
        os.makedirs(point, exist_ok=True)
        run("mount", self.loop, point)
        try:
            self.write_at(point)
        finally:
            run("umount", point)
        return None

    def grow_storage(self, mib):
        self.bytes = mib * MIB
        sim_switch.request(self.host.sim_port, "POST", "/sim/resize", {"volume": self.id, "bytes": self.bytes})

    def is_read_only(self):
        """The read-only switch of the device; a share does not have one."""
        if self.is_share:
            return False
        fd = os.open(self.loop, os.O_RDONLY)
        try:
            return fcntl.ioctl(fd, 0x125e, b"\0" * 8)[0] != 0  # BLKROGET
        finally:
            os.close(fd)

    def queue_is_changed(self):
        if self.is_share:
            return False
        number = os.stat(self.loop).st_rdev
        queue = f"{self.host.sysfs}/dev/block/{os.major(number)}:{os.minor(number)}/queue"
        if not os.path.isdir(queue):
            return False  # the function has no driver at this moment
        now = []
        for name in ("read_ahead_kb", "rq_affinity"):
            with open(f"{queue}/{name}", encoding="ascii") as f:
                now.append(f.read().strip())
        return now != ["128", "1"]

    def make_writable(self):
        """Clears the read-only switch, which a loop device keeps for its next file."""
        for loop in self.host.loops():
            run("blockdev", "--setrw", loop)

    def left(self):
        """What this volume has left on the host, in words."""
        host, found = self.host, []
        host.settle()
        driver, override = host.function(self.pci)
        found.append("function bound" if driver else "function not bound")
        if override:
            found[-1] += f", driver_override {override}"
        for name in host.records():
            half = "half a " if name.endswith(".tmp") else ""
            kind = os.path.dirname(name) + " record"
            found.append("record of e2fsck" if name.endswith(".e2fsck") else half + kind)
        if self.is_read_only():
            found.append("device read-only")
        if self.queue_is_changed():
            found.append("settings of the queue")
        mounts = host.mounts()
        for what, path in (("staged", self.staged_at()), ("published", self.target_path)):
            n = mounts.count(path)
            if n:
                found.append(what + (" read-only" if host.mount_is_read_only(path) else "") + (f" {n} times" if n > 1 else ""))
            elif os.path.lexists(path) and path != self.staging:
                found.append("empty staging file" if what == "staged" else "empty target")
        if any("/run/looking/" in point for point in mounts):
            found.append("mount of the tag probe")
        elif host.looking():
            found.append("directory of the tag probe")
        found += [name + " still runs" for _, name in host.children()]
        return "; ".join(found)

    def tell(self, text):
        """A text of the driver without the parts that differ from run to run."""
        text = text.replace(self.host.dir, "").replace(self.id, "pvc-1").replace(self.pci, "0000:26:00.1")
        text = text.replace(self.publish_context.get("nv-virtioFsTag", " "), "nvme-01234567tag" if self.is_share else " ")
        text = re.sub(r"\bpid \d+\b", "pid 1234", text)
        text = re.sub(r"\b7:\d+\b", "7:0", text)
        text = re.sub(r"/sim/[^ ]*/(dev|sys)\b", r"/\1", text)
        text = re.sub(r"nvme\d+(c\d+)?n\d+", "nvme0n1", text)
        return re.sub(r"\d+\.\d s\b", "0.1 s", text)

    def delete(self):
        self.k = self.host.kubelet
        self.make_writable()
        self.controller("ControllerUnpublishVolume", volume_id=self.id, node_id=NODE)
        self.controller("DeleteVolume", volume_id=self.id)
