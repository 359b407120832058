"""Scenarios of Kubernetes 1.37's feature gate CSIVolumeHealth: what kubelet writes into a pod's status.volumeHealth and into the
CSINode's status.storageHealth. cluster.sh lets kubelet ask every 5 s."""
import os
import subprocess

import hotplug
import shares
from hotplug import end
from kube import DIR, DRIVER, NODE, Failed, claim, create, get, log, mounts, pod, running, sim, until, volume_of
from scenario import scenario

# name: (StorageClass, raw block)
KINDS = {"files": ("snap-nvme", False), "raw": ("snap-nvme", True), "plugged": (hotplug.CLASS, False), "plugged-raw": (hotplug.CLASS, True)}


def conditions(ns, name):
    """"Status Reason" of each condition of the pod's volume."""
    health = get("Pod", ns, name)["status"].get("volumeHealth", [])
    found = [c for h in health if h["name"] == "data" for c in h.get("healthConditions", [])]
    for c in found:
        if len(c["message"].encode()) > 1024 or len(c["reason"]) > 256:
            raise Failed(f"too long: {c}")
    return sorted(f"{c['status']} {c['reason']}" for c in found)


def shows(ns, name, wanted):
    until(f"volumeHealth of {name} is {wanted}", lambda: conditions(ns, name) == wanted, 60, 0.5)


def probes(volume):
    return sum("NodeGetVolumeHealth" in line and volume in line for line in log("driver").splitlines())


def start(ns, kinds):
    for name, (storage_class, block) in kinds.items():
        create(claim(name, storage_class, block=block), ns)
        create(pod(name, name, block=block), ns)
    for name in kinds:
        running(ns, name)
    return {name: volume_of(ns, name) for name in kinds}


@scenario("volume health: sound volumes on VFs and hot-plugged functions, files and raw block, show nothing in the pod", since=37)
def _(ns):
    volumes = start(ns, KINDS)
    for name, volume in volumes.items():
        until(f"three probes of {name}", lambda volume=volume: probes(volume) >= 3, 60)
        shows(ns, name, [])
    end(ns, *volumes)


@scenario("volume health: a frozen filesystem is Degraded in the pod until it is thawed", since=37)
def _(ns):
    start(ns, {"files": KINDS["files"]})
    path = next(m for m in mounts() if m.endswith("/globalmount"))
    subprocess.run(["fsfreeze", "-f", path], check=True)
    try:
        shows(ns, "files", ["Degraded FilesystemFrozen"])
    finally:
        subprocess.run(["fsfreeze", "-u", path], check=True)
    shows(ns, "files", [])
    end(ns, "files")


@scenario("volume health: functions that vanish are Inaccessible in the pods, files and raw block", since=37)
def _(ns):
    kinds = {name: KINDS[name] for name in ("plugged", "plugged-raw")}
    for name, volume in start(ns, kinds).items():
        sim("POST", "/sim/unplug", {"volume": volume})
        shows(ns, name, ["Inaccessible DeviceGone"])
    end(ns, *kinds)


@scenario("volume health: a virtio-fs server that hangs is Inaccessible in the pod until it answers", since=37)
def _(ns):
    volume = start(ns, {"share": (shares.CLASS, False)})["share"]
    until("three probes", lambda: probes(volume) >= 3, 60)
    shows(ns, "share", [])
    sim("POST", "/sim/share", {"volume": volume, "do": "stop"})
    try:
        shows(ns, "share", ["Inaccessible FilesystemNotResponding"])
    finally:
        sim("POST", "/sim/share", {"volume": volume, "do": "continue"})
    shows(ns, "share", [])
    end(ns, "share")


@scenario("storage health: a host without functions is StorageUnreachable in the CSINode until they are back", since=37)
def _(_ns):
    def storage():
        health = get("CSINode", None, NODE).get("status", {}).get("storageHealth", [])
        return [f"{c['status']} {c['reason']}" for h in health if h["name"] == DRIVER for c in h.get("healthConditions", [])]
    host = f"{DIR}/sim/{NODE}"
    until("the node's storage is sound", lambda: not storage(), 60)
    os.rename(f"{host}/sys", f"{host}/away")
    try:
        until("NoFunctions", lambda: "StorageUnreachable NoFunctions" in storage(), 60, 0.5)
    finally:
        os.rename(f"{host}/away", f"{host}/sys")
    until("the node's storage is sound again", lambda: not storage(), 60)
