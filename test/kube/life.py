"""Scenarios of claims, pods and their volumes when nothing goes wrong."""
import re
import subprocess
import time

import page
from kube import (DPF, DRIVER, DIR, Failed, claim, create, delete, event_with, events, fault, find, get,
                  gone, kubectl, log, patch, pod, pod_spec, running, shell, stateful_set, until,
                  volume_of)
from scenario import scenario


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


@scenario("hostUsers: false: the pod runs with its volume, or its events say that the container runtime cannot")
def _(ns):
    create(claim("mapped"), ns)
    mapped = pod("mapped", "mapped")
    mapped["spec"]["hostUsers"] = False
    create(mapped, ns)
    refusal = "user namespace"

    def outcome():
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in get("Pod", ns, "mapped")["status"].get("conditions", []))
        return ready or next((e for e in events(ns, "mapped") if refusal in e), None)
    said = until("the pod runs or is refused", outcome)
    if said is not True:
        print("      ", said[:300])
    elif shell(ns, "mapped", "touch /data/x && stat -c %u /data/x && cat /proc/self/uid_map").split()[:3] == ["0", "0", "0"]:
        raise Failed("the pod has the users of the host")


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


@scenario("the objects of one claim's life, as kubectl shows them")
def _(ns):
    create(claim("data"), ns)
    create(pod("app", "data"), ns)
    running(ns, "app")
    page.show("A claim with a running pod", "kubectl get pvc,pod", "get", "pvc,pod", "-n", ns)
    page.show("", "kubectl get pv,volumeattachments,csinodes", "get", "pv,volumeattachments,csinodes")
    page.show("", "kubectl get dpuvolumes,dpuvolumeattachments -n dpf-operator-system", "get",
              "dpuvolumes,dpuvolumeattachments", "-n", DPF)
    page.show_events("", "kubectl describe pvc data", "pvc", ns, "data")
    page.show_events("", "kubectl describe pod app", "pod", ns, "app")
    volume = volume_of(ns, "data")
    delete("Pod", ns, "app")
    gone("Pod", ns, "app")
    until("it is detached", lambda: not find("VolumeAttachment") and not find("DPUVolumeAttachment", DPF))
    page.show("The pod is deleted: the volume is detached, and stays", "kubectl get pvc,pv,volumeattachments", "get",
              "pvc,pv,volumeattachments", "-n", ns)
    delete("PersistentVolumeClaim", ns, "data")
    gone("DPUVolume", DPF, volume)
    until("the PersistentVolume is gone", lambda: not find("PersistentVolume"))
    page.show("The claim is deleted: nothing is left", "kubectl get pvc,pv,dpuvolumes -A", "get", "pvc,pv,dpuvolumes", "-A")
