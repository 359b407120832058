"""Scenarios of driver, sidecars, kubelet, API server and node ending and coming back while there is work."""
import os
import time

from kube import (DPF, DRIVER, NODE, SOCKET_DIR, Failed, attacher_with, bound, claim, cluster, create, delete, find, get, gone,
                  kubectl, log, mounts, pod, rollout, running, shell, until)
from scenario import scenario


def load(ns, names):
    for name in names:
        create(claim(name), ns)
        create(pod(name, name, script=f"echo {name} >>/data/who; sync; exec sleep infinity"), ns)


def check_load(ns, names):
    for name in names:
        running(ns, name, 180)
        if set(shell(ns, name, "cat /data/who").split()) != {name}:
            raise Failed(f"{name} has other data")


@scenario("the driver is killed six times while pods come and go", "processes")
def _(ns):
    names = [f"k{i}" for i in range(3)]
    load(ns, names)
    for _ in range(3):
        time.sleep(0.7)
        cluster("stop", "driver", "KILL")
        cluster("start", "driver")
    check_load(ns, names)
    handles = {a["spec"]["dpuVolumeName"] for a in find("DPUVolumeAttachment", DPF)}
    if len(handles) != 3 or len(find("DPUVolumeAttachment", DPF)) != 3:
        raise Failed(f"attachments: {sorted(handles)}")
    for name in names:
        delete("Pod", ns, name)
    for _ in range(3):
        time.sleep(0.7)
        cluster("stop", "driver", "KILL")
        cluster("start", "driver")
    for name in names:
        gone("Pod", ns, name, 120)
        create(pod(name, name), ns)
    check_load(ns, names)


@scenario("the driver's pods are deleted four times while pods come and go", "pods")
def _(ns):
    names = [f"p{i}" for i in range(3)]

    def replace_pods():
        for _ in range(2):
            time.sleep(0.7)
            kubectl("delete", "pods", "-n", DPF, "--all", "--wait=false")
            time.sleep(3)
    load(ns, names)
    replace_pods()
    check_load(ns, names)
    if len(find("DPUVolumeAttachment", DPF)) != 3:
        raise Failed("there are not three attachments")
    for name in names:
        delete("Pod", ns, name)
    replace_pods()
    for name in names:
        gone("Pod", ns, name, 180)
        create(pod(name, name), ns)
    check_load(ns, names)


@scenario("kubelet restarts: the pod runs on, the driver is registered again")
def _(ns):
    create(claim("stay"), ns)
    create(pod("stay", "stay"), ns)
    running(ns, "stay")
    shell(ns, "stay", "echo x >/data/x")
    before = log("driver").count("registered with kubelet driver")
    cluster("stop", "kubelet")
    cluster("start", "kubelet")
    until("the driver is registered again", lambda: log("driver").count("registered with kubelet driver") > before)
    create(pod("next", "stay"), ns)
    running(ns, "next")
    if get("Pod", ns, "stay")["status"]["containerStatuses"][0]["restartCount"]:
        raise Failed("the pod was restarted")
    shell(ns, "stay", "cat /data/x")


WRITER = 'i=0; while :; do i=$((i+1)); echo $i >>/data/log; sync; sleep 0.1; done'


def lines_of(ns, name):
    """The numbers that the writer has written: 1, 2, 3, ... without a gap; their count."""
    numbers = shell(ns, name, "cat /data/log").split()
    if numbers != [str(i + 1) for i in range(len(numbers))]:
        raise Failed(f"the writer's file has {len(numbers)} lines, and not each number once")
    return len(numbers)


def under_load(ns, restart):
    """A writer continues and five claims are served while restart() replaces driver and sidecars."""
    create(claim("log"), ns)
    create(pod("log", "log", script=WRITER), ns)
    running(ns, "log")
    for name in ("c0", "c1"):
        create(claim(name, "snap-nvme-now"), ns)
    restart(lambda: [create(claim(name, "snap-nvme-now"), ns) for name in ("c2", "c3", "c4")])
    for name in ("c0", "c1", "c2", "c3", "c4"):
        bound(ns, name, 150)
    before = lines_of(ns, "log")
    until("the writer goes on", lambda: lines_of(ns, "log") > before)
    if get("Pod", ns, "log")["status"]["containerStatuses"][0]["restartCount"]:
        raise Failed("the writer was restarted")
    volumes, attachments = len(find("DPUVolume", DPF)), find("DPUVolumeAttachment", DPF)
    if volumes != 6 or len(find("PersistentVolume")) != 6 or len(attachments) != 1:
        raise Failed(f"of six volumes, one attached, there are {volumes}, {len(attachments)} attached")
    # The new driver takes care of what the old one has mounted.
    delete("Pod", ns, "log")
    gone("Pod", ns, "log", 120)
    create(pod("log", "log", script=WRITER.replace("i=0", "i=$(wc -l </data/log)")), ns)
    running(ns, "log", 120)
    if lines_of(ns, "log") < before:
        raise Failed("what was written is lost")


@scenario("upgrade: Deployment and DaemonSet roll while a writer runs and claims are made; nothing lost, no second attach", "pods")
def _(ns):
    workloads = ("deployment/snap-csi-controller", "daemonset/snap-csi-node")

    def restart(more):
        kubectl("rollout", "restart", "-n", DPF, *workloads)
        more()
        rollout(*workloads)
    under_load(ns, restart)


@scenario("driver and sidecars are replaced while a writer runs and claims are made; nothing lost, no second attach", "processes")
def _(ns):
    def restart(more):
        for name in ("driver", "provisioner", "attacher"):
            cluster("stop", name, "KILL")
        more()
        for name in ("driver", "provisioner", "attacher"):
            cluster("start", name)
    under_load(ns, restart)


@scenario("kubelet and driver restart together, mounts stay: the pod runs on, the next one gets the volume", "processes")
def _(ns):
    create(claim("kept"), ns)
    create(pod("kept", "kept", script=WRITER), ns)
    running(ns, "kept")
    before = mounts()
    cluster("stop", "kubelet")
    cluster("stop", "driver", "KILL")
    cluster("start", "driver")
    cluster("start", "kubelet")
    until("the driver is registered again", lambda: kubectl("get", "csinode", NODE, "-o", "name").returncode == 0 and
          any(d["name"] == DRIVER for d in get("CSINode", None, NODE)["spec"].get("drivers") or []))
    create(pod("beside", "kept"), ns)
    running(ns, "beside")
    if not set(before) <= set(mounts()):
        raise Failed(f"mounts are gone: {set(before) - set(mounts())}")
    if get("Pod", ns, "kept")["status"]["containerStatuses"][0]["restartCount"]:
        raise Failed("the pod was restarted")
    lines_of(ns, "beside")


@scenario("the node reboots, mounts are gone: the pod runs again with its data", "processes")
def _(ns):
    create(claim("boot"), ns)
    create(pod("boot", "boot", script="date >>/data/boots; sync; exec sleep infinity"), ns)
    running(ns, "boot")
    cluster("reboot")
    until("the pod was started again", lambda: get("Pod", ns, "boot")["status"]["containerStatuses"][0]["restartCount"], 120)
    running(ns, "boot", 120)
    if shell(ns, "boot", "wc -l </data/boots") != "2":
        raise Failed("the pod does not find what it wrote: " + shell(ns, "boot", "cat /data/boots; mount | grep data"))


@scenario("somebody deletes a DPUVolumeAttachment: the attacher lists, attaches again, and then has nothing to do", "processes")
def _(ns):
    def attached():
        """Volume -> uid of its attachment."""
        return {a["spec"]["dpuVolumeName"]: a["metadata"]["uid"] for a in find("DPUVolumeAttachment", DPF)
                if a.get("status", {}).get("dpuAttached")}

    def repairs():
        return log("attacher").count("attached status and actual state do not match")
    for name in ("lost", "used"):
        create(claim(name), ns)
        create(pod(name, name), ns)
    for name in ("lost", "used"):
        running(ns, name)
    # No pod has the first one mounted any more: snap-sim attaches a volume again only when its last device is free.
    delete("Pod", ns, "lost")
    until("it is detached", lambda: len(find("VolumeAttachment")) == 1 and len(attached()) == 1)
    volume = bound(ns, "lost")
    handle = volume["spec"]["csi"]["volumeHandle"]
    create({"kind": "VolumeAttachment", "metadata": {"name": f"{ns}-lost"},
            "spec": {"attacher": DRIVER, "nodeName": NODE, "source": {"persistentVolumeName": volume["metadata"]["name"]}}})
    first = until("both are attached", lambda: len(attached()) == 2 and attached())
    with attacher_with("--reconcile-sync=2s"):
        delete("DPUVolumeAttachment", DPF, next(a["metadata"]["name"] for a in find("DPUVolumeAttachment", DPF)
                                                if a["spec"]["dpuVolumeName"] == handle))
        until("it is attached again", lambda: attached().get(handle, first[handle]) != first[handle], 60)
        # The following lists agree with Kubernetes: nothing more is requested.
        time.sleep(3)
        before = repairs()
        time.sleep(5)
        if not before or repairs() != before:
            raise Failed(f"the attacher repaired {before} times, and {repairs()} times five seconds later")
    now = attached()
    if {**now, handle: None} != {**first, handle: None}:
        raise Failed(f"attachments: {first} before, {now} now")
    if not get("VolumeAttachment", None, f"{ns}-lost")["status"]["attached"]:
        raise Failed("the VolumeAttachment is not attached")
    delete("VolumeAttachment", None, f"{ns}-lost")
    gone("VolumeAttachment", None, f"{ns}-lost")


@scenario("the registration socket is removed: it comes back, the driver stays registered")
def _(ns):
    path = f"{SOCKET_DIR}/{DRIVER}-reg.sock"
    before = log("driver").count("registered with kubelet driver")
    os.unlink(path)
    until("the socket is back and kubelet has seen it",
          lambda: os.path.exists(path) and log("driver").count("registered with kubelet driver") > before)
    until("CSINode has the driver", lambda: any(d["name"] == DRIVER for d in
                                                (get("CSINode", None, NODE)["spec"].get("drivers") or [])))
    create(claim("after"), ns)
    create(pod("after", "after"), ns)
    running(ns, "after")


@scenario("API server and sidecars restart while claims are made", "processes")
def _(ns):
    names = [f"r{i}" for i in range(3)]
    load(ns, names)
    time.sleep(0.5)
    cluster("stop", "apiserver", "KILL")
    cluster("stop", "provisioner", "KILL")
    cluster("start", "apiserver")
    cluster("start", "provisioner")
    check_load(ns, names)
