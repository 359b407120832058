# SPDX-License-Identifier: Apache-2.0
"""Lives of volumes, called as sidecars and kubelet call: one call at a time for a volume, growing pauses after a refusal, the
same call again until it is answered. And the book of what there must be, which the checks compare with what there is."""
import collections
import os
import random
import threading
import time

from kubelet import Refused, Volume
from world import CONTROLLERS, HOSTS

MIB = 1 << 20
SIZE = 320 * MIB
CALL_SECONDS = 15
PATIENCE = 240  # no call may be refused for longer, however the faults fall
SHOWN = 40  # what is wrong, in the output; the rest is counted
OPEN_CODES = ("CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE", "ABORTED")
# Other codes that a fault explains: a vendor that is full, a full node; a disk that became another one under a call.
EXPLAINED = {"CreateVolume": ("RESOURCE_EXHAUSTED",), "ControllerPublishVolume": ("RESOURCE_EXHAUSTED",),
             "NodeStageVolume": ("INTERNAL",), "NodePublishVolume": ("FAILED_PRECONDITION", "INTERNAL"),
             "NodeUnstageVolume": ("FAILED_PRECONDITION",),
             "NodeGetVolumeStats": ("FAILED_PRECONDITION", "INTERNAL", "NOT_FOUND")}
KINDS = (("ext4", False), ("xfs", False), ("", True))


class Stopped(Exception):
    """A life cannot continue; the book has the reason."""


class Book:
    def __init__(self):
        self.lock = threading.Lock()
        self.claims = {}   # name -> (phase, uid or None); phase: "asked", "there", "going"
        self.wrongs = []
        self.codes = collections.Counter()
        self.lives = 0

    def set(self, name, phase, uid=None):
        with self.lock:
            if phase is None:
                del self.claims[name]
            else:
                self.claims[name] = (phase, uid)

    def snapshot(self):
        with self.lock:
            return dict(self.claims)

    def wrong(self, text):
        with self.lock:
            self.wrongs.append(text)
        if len(self.wrongs) <= SHOWN:
            print("WRONG " + text, flush=True)

    def count(self, method, code):
        with self.lock:
            self.codes[f"{method} {code}"] += 1

    def compare(self, world):
        """An object without an owner is leaked; a volume that was returned to a caller and does not exist is lost."""
        before = self.snapshot()
        volumes = {o["metadata"]["name"]: o["metadata"]["uid"] for o in world.objects("dpuvolumes")}
        attached = collections.Counter(o["spec"]["dpuVolumeName"] for o in world.objects("dpuvolumeattachments"))
        after = self.snapshot()
        for name in [*volumes, *attached]:
            if name not in before and name not in after:
                self.wrong(f"leaked: {name}, {attached[name]} attachments")
        for name, n in attached.items():
            if n > 1:
                self.wrong(f"{name} has {n} attachments")
        for name, (phase, uid) in before.items():
            if phase == "there" and after.get(name) == (phase, uid) and volumes.get(name) != uid:
                self.wrong(f"lost: {name} was {uid}, is {volumes.get(name)}")


class Life(threading.Thread):
    """Volumes of one claimant, one after the other, while `go` is set; `quiet` is set while it has no volume."""

    def __init__(self, world, book, number, go, seed):
        super().__init__(daemon=True)
        self.world, self.book, self.number, self.go = world, book, number, go
        self.random = random.Random(seed * 1000 + number)
        self.quiet, self.ends = threading.Event(), False
        self.controller = world.drivers[CONTROLLERS[number % 2]].kubelet

    def run(self):
        n = 0
        while not self.ends:
            if not self.go.is_set():
                self.quiet.set()
                self.go.wait(0.2)
                continue
            self.quiet.clear()
            try:
                self.life(f"pvc-{self.number}-{n}", KINDS[(self.number + n) % len(KINDS)])
                with self.book.lock:
                    self.book.lives += 1
            except Stopped:
                time.sleep(1)
            except Exception as error:  # pylint: disable=broad-except
                self.book.wrong(f"pvc-{self.number}-{n}: {type(error).__name__}: {error}")
                time.sleep(1)
            n += 1
        self.quiet.set()

    def go_on(self, seconds):
        """A while of a pod's life, without one in a rest."""
        if self.go.is_set():
            time.sleep(self.random.uniform(0, seconds))

    # -- calls ----------------------------------------------------------------------------------
    def repeat(self, name, method, call, tries=None, refused=None):
        """Calls until OK. After `tries` refusals (those of kubelet's calls that another call must heal) returns None."""
        pause, end, n = 0.1, time.monotonic() + PATIENCE, 0
        while True:
            try:
                answer = call()
                self.book.count(method, "OK")
                return answer
            except Refused as why:
                self.book.count(method, why.code)
                if why.code not in OPEN_CODES:
                    if why.code not in EXPLAINED.get(method, ()):
                        self.book.wrong(f"{name}: {method} says {why.code}: {why.text}")
                    if refused:
                        refused(why)
                last = why
            n += 1
            if tries and n >= tries:
                return None
            if time.monotonic() > end:
                self.book.wrong(f"{name}: {method} is never answered, last {last}")
                raise Stopped
            time.sleep(pause * self.random.uniform(0.8, 1.2))
            pause = min(pause * 2, 5)

    def ask(self, volume_name, method, refused=None, **fields):
        return self.repeat(volume_name, method, lambda: self.controller.call("Controller", method, CALL_SECONDS, **fields), refused=refused)

    # -- a life ---------------------------------------------------------------------------------
    def life(self, name, kind):
        fs, block = kind
        volume = Volume(self.controller, name, {}, fs=fs, block=block)
        self.book.set(name, "asked")
        made = self.ask(name, "CreateVolume", lambda why: self.check_none(name, why), name=name,
                        capacity_range={"required_bytes": SIZE}, volume_capabilities=[volume.capability()],
                        parameters={"policy": "example-policy", "functionType": "vf", "hotplugFunction": "false"})
        volume.volume_context = dict(made.volume.volume_context)
        uid = next((o["metadata"]["uid"] for o in self.world.objects("dpuvolumes") if o["metadata"]["name"] == name), None)
        if not uid:
            self.book.wrong(f"{name}: created, and not there")
        self.book.set(name, "there", uid)
        data = self.random.randbytes(MIB)
        hosts = self.random.sample(HOSTS, 2)
        self.stay(name, volume, hosts[0], data, new=True)
        self.stay(name, volume, hosts[1], data, new=False)
        self.book.set(name, "going", uid)
        self.ask(name, "DeleteVolume", volume_id=name)
        if any(o["metadata"]["name"] == name for o in self.world.objects("dpuvolumes")):
            self.book.wrong(f"{name}: deleted, and still there")
        self.book.set(name, None)

    def check_none(self, name, why):
        """A final code of CreateVolume leaves nothing."""
        if any(o["metadata"]["name"] == name for o in self.world.objects("dpuvolumes")):
            self.book.wrong(f"{name}: {why}, but the volume is there")

    def stay(self, name, volume, host, data, new):
        """From the attachment to a host to its end."""
        where = f"{self.world.kubelet_dir}/{host}"
        node = Volume(self.world.drivers[host].kubelet, name, self.publish_context(name, volume, host), fs=volume.fs, block=volume.block,
                      volume_context=volume.volume_context)
        node.staging = f"{where}/plugins/{name}"
        target = f"{where}/pods/{name}/mount"
        node.target = lambda pod="": target
        os.makedirs(node.staging, exist_ok=True)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        self.start_pod(name, node)
        if new:
            write(target, node.block, data)
        self.go_on(1.5)
        self.repeat(name, "NodeGetVolumeStats", node.stats, tries=3)
        if read(target, node.block, len(data)) != data:
            self.book.wrong(f"{name}: the data is lost")
        self.end_pod(name, node)
        for path in (node.staging, os.path.dirname(target)):
            os.rmdir(path)
        self.ask(name, "ControllerUnpublishVolume", volume_id=name, node_id=host)
        if any(o["spec"]["dpuVolumeName"] == name for o in self.world.objects("dpuvolumeattachments")):
            self.book.wrong(f"{name}: detached, and still attached")

    def publish_context(self, name, volume, host):
        answer = self.ask(name, "ControllerPublishVolume", volume_id=name, node_id=host, volume_capability=volume.capability(),
                          volume_context=volume.volume_context)
        return answer.publish_context

    def start_pod(self, name, node):
        """A pod that does not come up is deleted, and another one is made: what heals a disk that vanished under its mount."""
        end = time.monotonic() + PATIENCE
        while True:
            if self.repeat(name, "NodeStageVolume", lambda: node.stage(CALL_SECONDS), tries=12):
                if self.repeat(name, "NodePublishVolume", lambda: node.publish(timeout=CALL_SECONDS), tries=6):
                    return
            self.end_pod(name, node)
            if time.monotonic() > end:
                self.book.wrong(f"{name}: its pods never start")
                raise Stopped

    def end_pod(self, name, node):
        self.repeat(name, "NodeUnpublishVolume", lambda: node.unpublish(timeout=CALL_SECONDS))
        self.repeat(name, "NodeUnstageVolume", lambda: node.unstage(CALL_SECONDS))


def write(target, block, data):
    fd = os.open(target if block else target + "/data", os.O_WRONLY | (0 if block else os.O_CREAT | os.O_TRUNC), 0o600)
    try:
        while data:
            data = data[os.write(fd, data):]
        os.fsync(fd)
    finally:
        os.close(fd)


def read(target, block, n):
    with open(target if block else target + "/data", "rb") as f:
        return f.read(n)
