"""Scenarios of Kubernetes 1.37's feature gate CSIVolumeHealth: what kubelet writes into a pod's status.volumeHealth and into the
CSINode's status.storageHealth. cluster.sh lets kubelet ask every CLUSTER_HEALTH_PERIOD, and each condition that is waited for is printed as
a row of the matrix in ../reports/kubernetes-1.37.md. HEALTH_PROBES: the number of probes that must find no fault (20). With three
hot-plug slots or more (CLUSTER_SLOTS) all kinds are in use at once."""
import glob
import os
import re
import subprocess

import hotplug
import shares
from hotplug import address_of, end
from kube import (DIR, DPF, DRIVER, NODE, Failed, claim, create, delete, fault, find, get, kubectl, log, mounts, pod, pod_spec, running, sim, until,
                  volume_of)
from scenario import scenario

# name: (StorageClass, raw block)
KINDS = {"files": ("snap-nvme", False), "raw": ("snap-nvme", True), "plugged": (hotplug.CLASS, False), "plugged-raw": (hotplug.CLASS, True)}
SHARE = {"share": (shares.CLASS, False)}
PROBES = int(os.environ.get("HEALTH_PROBES", "20"))
SLOTS = int(os.environ.get("CLUSTER_SLOTS", "2"))
# kubelet's, of a pod whose volumes were not mounted in time; the driver's wait for a device is shorter.
PATIENCE = 180


def conditions(health):
    found = [c for h in health for c in h.get("healthConditions", [])]
    for c in found:
        if len(c["message"].encode()) > 1024 or len(c["reason"]) > 256:
            raise Failed(f"too long: {c}")
    return found


def shows(ns, name, wanted, seconds=60):
    """Waits until the pod's conditions are these, each as "Status Reason"; returns the messages."""
    def look():
        health = [h for h in get("Pod", ns, name)["status"].get("volumeHealth", []) if h["name"] == "data"]
        found = conditions(health)
        said = sorted(f"{c['status']} {c['reason']}" for c in found)
        return (said, found) if said == wanted else None
    _, found = until(f"volumeHealth of {name} is {wanted}", look, seconds, 0.5)
    for c in found:
        print(f"      | {name} | {c['status']} | {c['reason']} | {c['message']} |")
    return [c["message"] for c in found]


def probes(volume):
    return sum("NodeGetVolumeHealth" in line and volume in line for line in log("driver").splitlines())


def fitting(kinds):
    return {name: kind for name, kind in kinds.items() if SLOTS > 2 or name != "plugged-raw"}


def start(ns, kinds):
    for name, (storage_class, block) in kinds.items():
        create(claim(name, storage_class, block=block), ns)
        create(pod(name, name, block=block), ns)
    for name in kinds:
        running(ns, name)
    return {name: volume_of(ns, name) for name in kinds}


@scenario("volume health: a pod with healthy volumes of each kind, which are written, has no volumeHealth", since=37)
def _(ns):
    names, kinds = [], fitting({**KINDS, **SHARE})
    files = [kind for kind, (_, block) in kinds.items() if not block]
    script = "while :; do " + "".join(f"date >/{kind}/now; " for kind in files) + "sync; sleep 1; done"
    for i in range(max(SLOTS // 3, 1)):
        for kind, (storage_class, block) in kinds.items():
            create(claim(f"{kind}-{i}", storage_class, block=block), ns)
        volumes = [{"name": kind, "persistentVolumeClaim": {"claimName": f"{kind}-{i}"}} for kind in kinds]
        spec = pod_spec([{"name": kind, "mountPath": f"/{kind}"} for kind in files],
                        [{"name": kind, "devicePath": f"/dev/{kind}"} for kind in kinds if kind not in files], volumes, script=script)
        create({"kind": "Pod", "metadata": {"name": f"all-{i}"}, "spec": spec}, ns)
        names.append(f"all-{i}")
    for name in names:
        running(ns, name, 600)
    volumes = [volume_of(ns, f"{kind}-{i}") for kind in kinds for i in range(len(names))]

    def enough():
        # A fault stays in the status until the next probe at least, which is later than the next look.
        wrong = [(p["metadata"]["name"], h["name"], c) for p in find("Pod", ns) for h in p["status"].get("volumeHealth", []) for c in conditions([h])]
        if wrong:
            raise Failed(f"healthy volumes have {wrong}")
        counts = count_probes(volumes)
        return sum(counts.values()) >= PROBES and min(counts.values()) > 2 and counts
    counts = until(f"{PROBES} probes", enough, 3600, 0.5)
    print(f"       {sum(counts.values())} probes of {len(volumes)} volumes, {min(counts.values())} to {max(counts.values())} of each: no fault")
    end(ns, *names)


def count_probes(volumes):
    counts = dict.fromkeys(volumes, 0)
    for volume in re.findall(r"NodeGetVolumeHealth code=OK .*?volume=\"?([^\s\"]+)", log("driver")):
        if volume in counts:
            counts[volume] += 1
    return counts


@scenario("volume health: a frozen filesystem is Degraded in the pod until it is thawed", since=37)
def _(ns):
    start(ns, {name: KINDS[name] for name in ("files", "plugged")})
    paths = [m for m in mounts() if m.endswith("/globalmount")]
    for path in paths:
        subprocess.run(["fsfreeze", "-f", path], check=True)
    try:
        for name in ("files", "plugged"):
            shows(ns, name, ["Degraded FilesystemFrozen"])
    finally:
        for path in paths:
            subprocess.run(["fsfreeze", "-u", path], check=True)
    for name in ("files", "plugged"):
        shows(ns, name, [])
    end(ns, "files", "plugged")


@scenario("volume health: a controller that is not live is Inaccessible in the pods until it is, files and raw block", since=37)
def _(ns):
    states = []
    for volume in start(ns, KINDS).values():
        states += glob.glob(f"{DIR}/sim/{NODE}/sys/bus/pci/devices/*{address_of(volume)}/nvme/nvme*/state")
    if len(states) != len(KINDS):
        raise Failed(f"the controllers' states are {states}")

    def write(state):
        for path in states:
            with open(path, "w", encoding="ascii") as file:
                file.write(f"{state}\n")
    write("resetting")
    try:
        for name in KINDS:
            shows(ns, name, ["Inaccessible ControllerNotLive"])
    finally:
        write("live")
    for name in KINDS:
        shows(ns, name, [])
    end(ns, *KINDS)


@scenario("volume health: functions that vanish are Inaccessible in the pods, files and raw block", since=37)
def _(ns):
    volumes = start(ns, KINDS)
    for name in ("plugged", "plugged-raw"):
        sim("POST", "/sim/unplug", {"volume": volumes[name]})
    # The DPU takes a VF's namespace away; csi-attacher brings it back within minutes.
    for name in ("files", "raw"):
        attachment = next(a for a in find("DPUVolumeAttachment", DPF) if a["spec"]["dpuVolumeName"] == volumes[name])
        delete("DPUVolumeAttachment", DPF, attachment["metadata"]["name"])
    for name in KINDS:
        shows(ns, name, ["Inaccessible DeviceGone"])
    end(ns, *KINDS)


@scenario("volume health: a virtio-fs server that hangs is Inaccessible in the pod until it answers, and one that vanishes for good", since=37)
def _(ns):
    volume = start(ns, SHARE)["share"]
    until("three probes", lambda: probes(volume) >= 3, 60)
    shows(ns, "share", [])
    sim("POST", "/sim/share", {"volume": volume, "do": "stop"})
    try:
        shows(ns, "share", ["Inaccessible FilesystemNotResponding"])
    finally:
        sim("POST", "/sim/share", {"volume": volume, "do": "continue"})
    shows(ns, "share", [])
    sim("POST", "/sim/unplug", {"volume": volume})
    shows(ns, "share", ["Inaccessible FilesystemDead"])
    end(ns, "share")


# What makes the driver refuse to stage: data of another on the disk; a device that is not the volume's.
REFUSED = {"files": {"dpf": "foreign-data", "value": "536", "text": "LVM2 001and somebody's data"}, "raw": {"dpf": "wrong-uuid"},
           "plugged": {"dpf": "foreign-data", "value": "536", "text": "LVM2 001and somebody's data"}, "plugged-raw": {"dpf": "wrong-uuid"},
           "share": {"dpf": "wrong-tag"}}


@scenario("volume health: of a volume that was never mounted the pod shows why, by the error of the driver's call", since=37)
def _(ns):
    kinds = fitting({**KINDS, **SHARE})
    for name, (storage_class, block) in kinds.items():
        volume = f"pvc-{create(claim(name, storage_class, block=block), ns)['metadata']['uid']}"
        fault(name=f"^{volume}$", **REFUSED[name])
        create(pod(name, name, block=block), ns)
    for name in kinds:
        shows(ns, name, ["Inaccessible LastCallFailed"], PATIENCE)
    print(kubectl("get", "pod", "-n", ns, "files", "-o", "yaml").stdout.partition("  volumeHealth:")[2].replace("\n", "\n      "))
    end(ns, *kinds)


@scenario("storage health: a host without functions is StorageUnreachable in the CSINode until they are back", since=37)
def _(_ns):
    def storage():
        health = get("CSINode", None, NODE).get("status", {}).get("storageHealth", [])
        return conditions([h for h in health if h["name"] == DRIVER])
    host = f"{DIR}/sim/{NODE}"
    until("the node's storage is healthy", lambda: not storage(), 60)
    os.rename(f"{host}/sys", f"{host}/away")
    try:
        until("NoFunctions", lambda: "NoFunctions" in [c["reason"] for c in storage() if c["status"] == "StorageUnreachable"], 60, 0.5)
        for c in storage():
            print(f"      | CSINode | {c['status']} | {c['reason']} | {c['message']} |")
    finally:
        os.rename(f"{host}/away", f"{host}/sys")
    until("the node's storage is healthy again", lambda: not storage(), 60)
