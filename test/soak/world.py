# SPDX-License-Identifier: Apache-2.0
"""snap-sim with two hosts, a relay in front of its API for each controller, two controllers and a node driver per host.

The first controller and the first host's driver are never killed: theirs are the figures that must stay flat. Everything
lies in one directory, and that in a mount namespace of the suite's own (rules.mk), so that no other test sees or copies
a mount of it. snap-sim's images are in a filesystem that can be frozen: then devices hang.
"""
import asyncio
import glob
import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import kubelet
import sim_switch
from expect import check, until

NAMESPACE = "dpf-operator-system"
HOSTS = ("host-a", "host-b")
CONTROLLERS = ("controller-a", "controller-b")
STEADY = ("controller-a", "host-a")  # never killed


def run(*argv, **options):
    return subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options).stdout


class Relay:
    """Passes a controller's connections on to snap-sim, refuses them, or keeps what arrives and then cuts them."""

    def __init__(self, target):
        self.target, self.mode, self.writers, self.port = target, "pass", set(), 0
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.serve, daemon=True).start()
        until("the relay listens", lambda: self.port, 20, 0.01)

    def serve(self):
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(asyncio.start_server(self.connection, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self.loop.run_forever()

    async def connection(self, reader, writer):
        if self.mode == "refuse":
            writer.transport.abort()
            return
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, up_writer}
        self.writers |= both
        await asyncio.gather(self.pump(reader, up_writer), self.pump(up_reader, writer))
        self.writers -= both

    async def pump(self, reader, writer):
        try:
            while data := await reader.read(65536):
                while self.mode == "stall":
                    await asyncio.sleep(0.05)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    def cut(self):
        for writer in list(self.writers):
            writer.transport.abort()

    def disturb(self, mode, seconds):
        """"refuse" or "stall" for so long. Held data are dropped with their connection, never forwarded late."""
        self.mode = mode
        if mode == "refuse":
            self.loop.call_soon_threadsafe(self.cut)
        time.sleep(seconds)
        self.loop.call_soon_threadsafe(self.cut)
        time.sleep(0.1)
        self.mode = "pass"


class Driver:
    def __init__(self, world, name, arguments):
        self.world, self.name, self.arguments = world, name, arguments
        self.socket = f"{world.dir}/{name}/csi.sock"
        self.http = f"{world.dir}/{name}/http.sock"
        self.log = f"{world.logs}/{name}.log"
        self.process, self.starts = None, 0
        os.makedirs(os.path.dirname(self.socket))
        self.kubelet = kubelet.Kubelet(world.messages, "unix:" + self.socket, min_reconnect_backoff_ms=20,
                                       initial_reconnect_backoff_ms=20, max_reconnect_backoff_ms=200)

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([self.world.binary, *self.arguments, f"--bind-address=unix://{self.socket}",
                                             f"--http-endpoint=unix:{self.http}", "--v=2"],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.starts += 1

    def ready(self):
        def answers():
            try:
                return self.kubelet.call("Identity", "Probe", timeout=10, wait_for_ready=True)
            except kubelet.Refused:  # the connection to the one before
                return None
        until(f"{self.name} serves", answers, 60, 0.01)

    def end(self, sign):
        """How it ended; a driver whose device hangs ends when that ends."""
        self.process.send_signal(sign)
        return self.process.wait(90)


class World:
    def __init__(self, out, build, functions):
        self.binary, self.sim_binary = out + "/snap-csi-plugin", out + "/snap-sim"
        self.messages = kubelet.load_messages(build + "/soak/py", os.getcwd())
        self.logs = build + "/soak/logs"
        shutil.rmtree(self.logs, ignore_errors=True)
        os.makedirs(self.logs)
        self.dir = tempfile.mkdtemp(prefix="snap-csi-soak.", dir=os.environ.get("TMPDIR", "/var/tmp"))
        self.kubelet_dir, self.images = self.dir + "/kubelet", self.dir + "/sim"
        self.sim, self.relays, self.drivers = None, {}, {}
        self.freeze_lock = threading.Lock()
        self.functions = functions

    def start(self):
        self.make_mounts()
        self.start_sim()
        for name in CONTROLLERS:
            self.relays[name] = Relay(int(self.port))
            config = f"{self.dir}/{name}.kubeconfig"
            with open(self.dir + "/kubeconfig", encoding="utf-8") as f, open(config, "w", encoding="utf-8") as out:
                out.write(f.read().replace(f":{self.port}", f":{self.relays[name].port}"))
            self.drivers[name] = Driver(self, name, ["--mode=controller", f"--namespace={NAMESPACE}", f"--kubeconfig={config}"])
        for name in HOSTS:
            self.drivers[name] = Driver(self, name, [
                "--mode=node", f"--node-id={name}", f"--sysfs-root={self.images}/{name}/sys", f"--dev-root={self.images}/{name}/dev",
                "--node-nvme-load-driver=false", f"--plugin-dir={self.dir}/{name}", f"--kubelet-dir={self.kubelet_dir}"])
        for driver in self.drivers.values():
            driver.start()
            driver.ready()

    def make_mounts(self):
        # Copies of other tests' mounts would keep their devices.
        with open("/proc/self/mountinfo", encoding="utf-8") as f:
            ours = [line.split() for line in f]
        for words in reversed(ours):
            if words[words.index("-") + 2].startswith("/dev/loop"):
                subprocess.run(["umount", "-l", words[4]], check=False, capture_output=True)
        for path in (self.kubelet_dir, self.images):
            os.mkdir(path)
        run("mount", "--bind", self.kubelet_dir, self.kubelet_dir)
        run("mount", "--make-shared", self.kubelet_dir)
        run("truncate", "-s", "16G", self.dir + "/backend")
        run("mkfs.ext4", "-q", self.dir + "/backend")
        run("mount", "-o", "loop", self.dir + "/backend", self.images)
        os.rmdir(self.images + "/lost+found")

    def start_sim(self):
        with open(self.logs + "/sim.log", "wb") as log:
            self.sim = subprocess.Popen(
                [self.sim_binary, f"--state={self.images}", f"--write-kubeconfig={self.dir}/kubeconfig",
                 f"--port-file={self.dir}/port", f"--namespace={NAMESPACE}", *[f"--node={name}" for name in HOSTS],
                 f"--vfs={self.functions}", "--history=500", "--bookmark-ms=2000", "--seed"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        def ready():
            check(self.sim.poll() is None, f"snap-sim has ended, see {self.logs}/sim.log")
            return os.path.exists(self.dir + "/port") and os.path.exists(self.dir + "/kubeconfig")
        until("snap-sim is ready", ready, 60, 0.01)
        with open(self.dir + "/port", encoding="ascii") as f:
            self.port = f.read().strip()

    # -- the API server, never by way of a relay ------------------------------------------------
    def request(self, method, path, body=None):
        return json.loads(sim_switch.request(self.port, method, path, body))

    def objects(self, kind):
        """All objects. The faults are not meant for this request, so it is repeated."""
        end = time.monotonic() + 120
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", int(self.port), timeout=3)
            try:
                connection.request("GET", f"/apis/storage.dpu.nvidia.com/v1alpha1/namespaces/{NAMESPACE}/{kind}")
                answer = connection.getresponse()
                text = answer.read()
                if answer.status == 200:
                    return json.loads(text)["items"]
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()
            check(time.monotonic() < end, f"snap-sim tells no {kind}")
            time.sleep(0.05)

    # -- hosts ----------------------------------------------------------------------------------
    def functions_in_use(self, host):
        """Those that show a namespace."""
        devices = f"{self.images}/{host}/sys/bus/pci/devices/"
        return sorted({path[len(devices):].split("/")[0] for path in glob.glob(devices + "*/nvme/nvme*/nvme*n*")})

    def write_driver(self, host, name, pci):
        with open(f"{self.images}/{host}/sys/bus/pci/drivers/nvme/{name}", "w", encoding="ascii") as f:
            f.write(pci)

    def freeze(self, seconds):
        """Every device hangs, and so does what a driver writes."""
        with self.freeze_lock:
            run("fsfreeze", "--freeze", self.images)
            try:
                time.sleep(seconds)
            finally:
                run("fsfreeze", "--unfreeze", self.images)

    def mounts(self):
        with open("/proc/self/mountinfo", encoding="utf-8") as f:
            return [line.split()[4] for line in f if line.split()[4].startswith(self.kubelet_dir + "/")]

    def loops(self):
        text = run("losetup", "--list", "--noheadings", "--raw", "--output", "NAME,BACK-FILE")
        return [words[0] for words in map(str.split, text.splitlines()) if words[1:] and words[1].startswith(self.images + "/")]

    def records(self):
        return [p for host in HOSTS for kind in ("formatting", "unstaging", "settings") for p in glob.glob(f"{self.dir}/{host}/{kind}/*")]

    # -- the end --------------------------------------------------------------------------------
    def close(self):
        subprocess.run(["fsfreeze", "--unfreeze", self.images], check=False, capture_output=True)
        for driver in self.drivers.values():
            if driver.process and driver.process.poll() is None:
                driver.process.kill()
                driver.process.wait(90)
        for target in reversed(self.mounts()):
            subprocess.run(["umount", "-l", target], check=False)
        if self.sim:
            self.sim.send_signal(signal.SIGCONT)
            self.sim.terminate()
            self.sim.wait(60)
        for loop in self.loops():
            subprocess.run(["losetup", "--detach", loop], check=False)
        for path in (self.images, self.kubelet_dir):
            subprocess.run(["umount", "-l", path], check=False, capture_output=True)
        shutil.rmtree(self.dir, ignore_errors=True)

    def check_empty(self):
        """Nothing of any volume is left anywhere."""
        def left():
            state = self.request("GET", "/sim/state")
            return ([o["kind"] + " " + o["metadata"]["name"] for kind in ("dpuvolumes", "dpuvolumeattachments") for o in self.objects(kind)]
                    + [f"{kind} behind the objects: {state[kind]}" for kind in ("volumes", "attachments") if state[kind]]
                    + ["mount " + m for m in self.mounts()] + ["loop " + name for name in self.loops()] + ["record " + r for r in self.records()])
        end = time.monotonic() + 60
        while left() and time.monotonic() < end:
            time.sleep(0.2)
        check(not left(), f"left behind: {left()}")
