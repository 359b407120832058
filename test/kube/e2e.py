#!/usr/bin/env python3
"""Scenarios in the cluster of cluster.sh, each with claims and pods in a namespace of its own, which must leave nothing.
Prints a table with seconds and "e2e-kube: N passed, N failed, N skipped". E2E_ONLY: words of titles to run."""
import os
import re
import signal
import subprocess
import sys
import time

from kube import (BUILD, DPF, PODS, DRIVER, NODE, SOCKET_DIR, DIR, Failed, bound, claim, cluster, create, delete, event_with, events, fault,
                  find, get, gone, heal, kubectl, log, mounts, nothing_left, patch, pod, pod_spec, running, shell, stateful_set,
                  until)
from rbac import rights

SCENARIOS = []
SKIPPED = []


def scenario(title, where="both"):
    """where: "both", "processes" or "pods", as the driver runs."""
    def add(function):
        if where in ("both", "pods" if PODS else "processes"):
            SCENARIOS.append((title, function))
        else:
            SKIPPED.append(title)
        return function
    return add


def volume_of(ns, name):
    """The DPUVolume behind a claim."""
    return bound(ns, name)["spec"]["csi"]["volumeHandle"]


# ---------------------------------------------------------------- pods and their volumes
@scenario("StatefulSet, filesystem: data outlive the pods; claims deleted, DPUVolumes gone")
def _(ns):
    create(stateful_set("db", 2, False), ns)
    for name in ("db-0", "db-1"):
        running(ns, name)
        shell(ns, name, f"echo {name} >/data/who && sync")
    uid = get("Pod", ns, "db-0")["metadata"]["uid"]
    delete("Pod", ns, "db-0")
    until("db-0 is another pod", lambda: (get("Pod", ns, "db-0") or {"metadata": {"uid": uid}})["metadata"]["uid"] != uid)
    for name in ("db-0", "db-1"):
        running(ns, name)
        if shell(ns, name, "cat /data/who") != name:
            raise Failed(f"{name} has the data of another")
    volumes = [volume_of(ns, f"data-db-{i}") for i in (0, 1)]
    delete("StatefulSet", ns, "db")
    for i in (0, 1):
        gone("Pod", ns, f"db-{i}")
        delete("PersistentVolumeClaim", ns, f"data-db-{i}")
    for volume in volumes:
        gone("DPUVolume", DPF, volume)


@scenario("StatefulSet, raw block: data outlive the pod")
def _(ns):
    create(stateful_set("raw", 1, True), ns)
    running(ns, "raw-0")
    total = shell(ns, "raw-0", "dd if=/dev/urandom of=/tmp/x bs=1M count=4 2>/dev/null && dd if=/tmp/x of=/dev/data bs=1M "
                  "conv=fsync 2>/dev/null && sha256sum </tmp/x")
    uid = get("Pod", ns, "raw-0")["metadata"]["uid"]
    delete("Pod", ns, "raw-0")
    until("raw-0 is another pod", lambda: (get("Pod", ns, "raw-0") or {"metadata": {"uid": uid}})["metadata"]["uid"] != uid)
    running(ns, "raw-0")
    if shell(ns, "raw-0", "dd if=/dev/data bs=1M count=4 2>/dev/null | sha256sum") != total:
        raise Failed("the device has other data")


@scenario("WaitForFirstConsumer: no volume before there is a pod")
def _(ns):
    create(claim("late"), ns)
    event_with(ns, "late", "WaitForFirstConsumer")
    if find("DPUVolume", DPF):
        raise Failed("there is a DPUVolume already")
    create(pod("late", "late"), ns)
    running(ns, "late")


@scenario("Retain: the volume outlives its claim and is bound again, with its data (xfs)")
def _(ns):
    create(claim("first", "snap-nvme-keep", size="512Mi"), ns)
    create(pod("first", "first"), ns)
    running(ns, "first")
    shell(ns, "first", "echo kept >/data/file && sync && grep -q ' /data xfs ' /proc/mounts")
    pv = get("PersistentVolumeClaim", ns, "first")["spec"]["volumeName"]
    volume = volume_of(ns, "first")
    delete("Pod", ns, "first")
    gone("Pod", ns, "first")
    delete("PersistentVolumeClaim", ns, "first")
    until("the volume is Released", lambda: get("PersistentVolume", None, pv)["status"]["phase"] == "Released")
    if not get("DPUVolume", DPF, volume):
        raise Failed("the DPUVolume went with the claim")
    patch("PersistentVolume", None, pv, {"spec": {"claimRef": None}})
    create(claim("second", "snap-nvme-keep", size="512Mi", volume=pv), ns)
    create(pod("second", "second"), ns)
    running(ns, "second")
    if shell(ns, "second", "cat /data/file") != "kept":
        raise Failed("the data are not there")
    delete("Pod", ns, "second")
    gone("Pod", ns, "second")
    patch("PersistentVolume", None, pv, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}})
    delete("PersistentVolumeClaim", ns, "second")
    gone("DPUVolume", DPF, volume)


def static_volume(ns, name, read_write_script=None):
    create({"kind": "DPUVolume", "metadata": {"name": name},
            "spec": {"dpuStoragePolicyName": "example-policy", "accessModes": ["ReadWriteOnce"], "volumeMode": "Block",
                     "resources": {"requests": {"storage": "64Mi"}}}}, DPF)
    until("the DPUVolume is Bound", lambda: get("DPUVolume", DPF, name).get("status", {}).get("phase") == "Bound")
    create({"kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"capacity": {"storage": "64Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
                     "persistentVolumeReclaimPolicy": "Retain", "csi": {"driver": DRIVER, "volumeHandle": name}}})
    create(claim(name, "by-hand", volume=name), ns)
    create(pod(name, name, **({"script": read_write_script} if read_write_script else {})), ns)


def static_end(ns, name):
    delete("Pod", ns, name)
    gone("Pod", ns, name)
    delete("PersistentVolumeClaim", ns, name)
    gone("PersistentVolumeClaim", ns, name)
    delete("PersistentVolume", None, name)
    gone("PersistentVolume", None, name)
    until("it is detached", lambda: not find("DPUVolumeAttachment", DPF))
    delete("DPUVolume", DPF, name)
    gone("DPUVolume", DPF, name)


@scenario("static PersistentVolume on a DPUVolume that a user made, without volumeAttributes")
def _(ns):
    static_volume(ns, "by-hand")
    running(ns, "by-hand")
    shell(ns, "by-hand", "echo x >/data/x && sync")
    static_end(ns, "by-hand")


@scenario("static PersistentVolume with foreign data: never formatted, the pod's events say why")
def _(ns):
    # An old LVM label: nothing that blkid would call a filesystem to mount, and certainly not blank.
    fault(dpf="foreign-data", name="^foreign$", value="536", text="LVM2 001and somebody's data")
    static_volume(ns, "foreign")
    print("      ", event_with(ns, "foreign", "FailedMount", 90)[:300])
    shellless = kubectl("get", "pod", "-n", ns, "foreign", "-o", "jsonpath={.status.phase}").stdout
    if shellless != "Pending":
        raise Failed(f"the pod is {shellless}")
    image = subprocess.run(["grep", "-rla", "somebody's data", f"{DIR}/sim"], capture_output=True, text=True, check=False)
    if not image.stdout:
        raise Failed("the foreign data are gone")
    static_end(ns, "foreign")


@scenario("generic ephemeral volume: comes and goes with its pod")
def _(ns):
    template = {"spec": claim("x")["spec"]}
    volumes = [{"name": "data", "ephemeral": {"volumeClaimTemplate": template}}]
    create({"kind": "Pod", "metadata": {"name": "scratch"},
            "spec": pod_spec([{"name": "data", "mountPath": "/data"}], volumes=volumes)}, ns)
    running(ns, "scratch")
    shell(ns, "scratch", "echo x >/data/x")
    volume = volume_of(ns, "scratch-data")
    delete("Pod", ns, "scratch")
    gone("DPUVolume", DPF, volume)


@scenario("ReadWriteOncePod: the second pod waits for the end of the first")
def _(ns):
    create(claim("single", mode="ReadWriteOncePod"), ns)
    create(pod("one", "single"), ns)
    running(ns, "one")
    shell(ns, "one", "echo one >/data/x && sync")
    create(pod("two", "single"), ns)
    event_with(ns, "two", "ReadWriteOncePod")
    delete("Pod", ns, "one")
    running(ns, "two")
    if shell(ns, "two", "cat /data/x") != "one":
        raise Failed("the data are not there")


@scenario("read-only pod beside a writer; two pods share a volume on one node")
def _(ns):
    create(claim("shared"), ns)
    create(pod("writer", "shared"), ns)
    running(ns, "writer")
    shell(ns, "writer", "echo hello >/data/x && sync")
    create(pod("reader", "shared", read_only=True), ns)
    running(ns, "reader")
    if shell(ns, "reader", "cat /data/x") != "hello":
        raise Failed("the reader does not see the writer's data")
    if "Read-only" not in shell(ns, "reader", "echo y >/data/y", ok=False):
        raise Failed("the reader could write")
    shell(ns, "writer", "echo more >/data/z")


@scenario("fsGroup: an ordinary user writes, the volume belongs to the group")
def _(ns):
    create(claim("group"), ns)
    create(pod("group", "group", security={"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 2345}), ns)
    running(ns, "group")
    if shell(ns, "group", "touch /data/x && stat -c %g /data /data/x | sort -u") != "2345":
        raise Failed("another group: " + shell(ns, "group", "stat -c '%u %g %a' /data /data/x"))


@scenario("subPath: two pods, each in its own folder of one volume")
def _(ns):
    create(claim("paths"), ns)
    for name in ("left", "right"):
        create(pod(name, "paths", sub_path=name), ns)
    for name in ("left", "right"):
        running(ns, name)
        shell(ns, name, f"echo {name} >/data/who")
    create(pod("all", "paths"), ns)
    running(ns, "all")
    if shell(ns, "all", "cat /data/left/who /data/right/who") != "left\nright":
        raise Failed("the folders are not those of the pods")


@scenario("forced deletion of a pod: the next one gets the volume and its data")
def _(ns):
    create(claim("forced"), ns)
    create(pod("a", "forced"), ns)
    running(ns, "a")
    shell(ns, "a", "echo a >/data/x && sync")
    delete("Pod", ns, "a", grace=0)
    create(pod("b", "forced"), ns)
    running(ns, "b")
    if shell(ns, "b", "cat /data/x") != "a":
        raise Failed("the data are not there")


STEPS = ("CreateVolume", "ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume")


@scenario("from claim to running pod: how long, and the driver's share of it")
def _(ns):
    waits, shares = [], []
    for name in ("t0", "t1", "t2"):
        begin = time.monotonic()
        create(claim(name), ns)
        create(pod(name, name), ns)
        running(ns, name)
        waits.append(time.monotonic() - begin)
        volume = volume_of(ns, name)
        calls = {}
        for line in log("driver").splitlines():
            call = re.search(r" (\w+) code=OK ms=([0-9.]+) .*" + re.escape(volume), line)
            if call and call.group(1) in STEPS:
                calls.setdefault(call.group(1), float(call.group(2)))
        if set(calls) != set(STEPS):
            raise Failed(f"the driver's log has only {sorted(calls)} of {volume}")
        shares.append(calls)
    for wait, calls in zip(waits, shares):
        print(f"       {wait:4.1f} s, of these in the driver {sum(calls.values()):.0f} ms:",
              ", ".join(f"{step} {calls[step]:.0f}" for step in STEPS))
    with open(f"{BUILD}/kube/life.txt", "w", encoding="utf-8") as life:
        for what in (["pvc,pod", "-n", ns], ["pv,volumeattachments,csinodes"], ["dpuvolumes,dpuvolumeattachments", "-n", DPF]):
            life.write(kubectl("get", "-o", "wide", *what).stdout + "\n")
        life.write(kubectl("describe", "pvc", "-n", ns, "t0").stdout)
    print("       the objects of these volumes: build/kube/life.txt")


# ---------------------------------------------------------------- refusals, as a user sees them
@scenario("DPF refuses (vendor full): our text is in the claim's events, and it heals")
def _(ns):
    fault(dpf="volume-failure", name=".*", text="vendor full: 0 of 12 TiB left")
    create(claim("full", "snap-nvme-now"), ns)
    print("      ", event_with(ns, "full", "vendor full: 0 of 12 TiB left", 150)[:400])
    heal()
    bound(ns, "full", 150)


@scenario("the DPU refuses to attach: our text is in the pod's events, and it heals")
def _(ns):
    fault(dpf="attachment-failure", name=".*", text="no NVMe controller left on the DPU")
    create(claim("refused"), ns)
    create(pod("refused", "refused"), ns)
    print("      ", event_with(ns, "refused", "no NVMe controller left on the DPU", 150)[:400])
    heal()
    running(ns, "refused", 150)


@scenario("a policy that is not there: the claim's events name it")
def _(ns):
    create({"kind": "DPUVolume", "metadata": {"name": "no-policy"},
            "spec": {"dpuStoragePolicyName": "no-such-policy", "accessModes": ["ReadWriteOnce"],
                     "resources": {"requests": {"storage": "1Mi"}}}}, DPF)
    until("DPF says so", lambda: any("no-such-policy not found" in c["message"] for c in
                                     get("DPUVolume", DPF, "no-policy").get("status", {}).get("conditions", [])))
    delete("DPUVolume", DPF, "no-policy")
    gone("DPUVolume", DPF, "no-policy")


# ---------------------------------------------------------------- restarts
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


@scenario("the driver's account: every right is used, none is missing")
def _(ns):
    del ns
    rights()


# ---------------------------------------------------------------- running them
def clean(ns):
    heal()
    for kind in ("StatefulSet", "Pod", "PersistentVolumeClaim"):
        for o in find(kind, ns):
            delete(kind, ns, o["metadata"]["name"])
            gone(kind, ns, o["metadata"]["name"])
    nothing_left()
    delete("Namespace", None, ns)


def rescue(ns):
    """After a failure: what is in the way of the next scenario is removed, as far as that is possible."""
    heal()
    for name in ("apiserver", "kubelet") if PODS else ("apiserver", "kubelet", "driver", "provisioner", "attacher"):
        cluster("ensure", name)
    for kind in ("StatefulSet", "Pod", "PersistentVolumeClaim"):
        for o in find(kind, ns):
            delete(kind, ns, o["metadata"]["name"], grace=0)
    for kind, where in (("PersistentVolume", None), ("DPUVolume", DPF)):
        for o in find(kind, where):
            delete(kind, where, o["metadata"]["name"])
    nothing_left(60)


def one(number, title, function):
    ns = f"e2e-{number}"
    create({"kind": "Namespace", "metadata": {"name": ns}})
    until("its default account", lambda: kubectl("get", "serviceaccount", "-n", ns, "default").returncode == 0)
    begin = time.monotonic()
    try:
        function(ns)
        took = time.monotonic() - begin
        clean(ns)
        print(f"ok    {title:96} {took:5.1f} s", flush=True)
        return True
    except Exception as failure:  # whatever it is, the next scenario gets its chance
        print(f"FAIL  {title:96} {time.monotonic() - begin:5.1f} s\n      {type(failure).__name__}: {failure}", flush=True)
    try:
        rescue(ns)
    except Exception as failure:
        print(f"      and it left something: {failure}", flush=True)
    return False


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    only = os.environ.get("E2E_ONLY", "").split()
    chosen = [s for s in SCENARIOS if not only or any(word in s[0] for word in only)]
    begin = time.monotonic()
    passed = sum(one(i, *s) for i, s in enumerate(chosen))
    for title in SKIPPED:
        print(f"skip  {title}: not with the driver in {'pods' if PODS else 'processes'}")
    print(f"{len(chosen)} scenarios in {time.monotonic() - begin:.0f} s")
    skipped = len(SCENARIOS) - len(chosen) + len(SKIPPED)
    print(f"e2e-kube: {passed} passed, {len(chosen) - passed} failed, {skipped} skipped")
    sys.exit(passed != len(chosen))


main()
