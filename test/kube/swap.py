#!/usr/bin/env python3
"""Our image in the Go plugin's deployment: works, with its rights and arguments, and goes on with the volumes that it
left: objects of its shape are made by hand. Prints a table and "kube-swap: N passed, N failed". Run by swap.sh."""
import hashlib
import json
import os
import subprocess
import sys
import time

import kube
from kube import (BUILD, DIR, DPF, DRIVER, NODE, Failed, bound, claim, create, delete, find, get, gone, kubectl, nothing_left, pod,
                  running, shell, until)

SHARES = f"virtiofs.{DRIVER}"  # the name of its second release, with --emulation-mode=virtiofs
ACCOUNT = f"system:serviceaccount:{DPF}:swap-snap-csi-plugin-sa"
PARTS = ("controller", "node")
ROWS = []


def row(title):
    def add(function):
        ROWS.append((title, function))
        return function
    return add


def pod_of(part, release="swap"):
    """By its name: the labels of both parts are the same."""
    return next(p for p in find("Pod", DPF) if p["metadata"]["name"].startswith(f"{release}-snap-csi-plugin-{part}-"))


def logs(part, container="plugin"):
    return kubectl("logs", "-n", DPF, pod_of(part)["metadata"]["name"], "-c", container).stdout


def call(method, request, driver=DRIVER):
    done = subprocess.run([f"{BUILD}/{os.environ.get('FLAVOUR', 'release')}/csi-call",
                           f"--endpoint=unix://{DIR}/kubelet/plugins/{driver}/csi.sock", "--timeout=60", method, json.dumps(request)],
                          capture_output=True, text=True, timeout=90, check=False)
    if done.returncode:
        raise Failed(f"{method}: {done.stderr}")
    return json.loads(done.stdout)


@row("the Go plugin's Deployment, DaemonSet, account and CSIDriver with our image: pods ready, driver registered")
def _(ns):
    csinode = until("the driver is registered", lambda: [d for d in (get("CSINode", None, NODE)["spec"].get("drivers") or []) if d["name"] == DRIVER])
    if "registered true" not in logs("node", "node-driver-registrar"):
        raise Failed(f"the registrar says: {logs('node', 'node-driver-registrar')}")
    return f"node id {csinode[0]['nodeID']}, {csinode[0]['allocatable']['count']} volumes"


def ports(release):
    said = []
    for label, port in zip(PARTS, (9808, 29808)):
        connection = kube.http.client.HTTPConnection(pod_of(label, release)["status"]["podIP"], port, timeout=10)
        connection.request("GET", "/healthz")
        status = connection.getresponse().status
        if status != 200:
            raise Failed(f"{label}: {status}")
        said.append(f"{label} :{port} {status}")
    return ", ".join(said)


@row("its liveness ports answer 200")
def _(ns):
    del ns
    return ports("swap")


@row("raw block, as its StorageClasses: claim, pod, data outlive the pod, all deleted")
def _(ns):
    create(claim("raw", block=True), ns)
    create(pod("raw", "raw", block=True), ns)
    running(ns, "raw")
    shell(ns, "raw", "echo kept | dd of=/dev/data conv=fsync 2>/dev/null")
    volume = bound(ns, "raw")
    context = volume["spec"]["csi"]["volumeAttributes"]
    delete("Pod", ns, "raw")
    gone("Pod", ns, "raw")
    create(pod("raw", "raw", block=True), ns)
    running(ns, "raw")
    if shell(ns, "raw", "head -c 4 /dev/data") != "kept":
        raise Failed("the data are gone")
    delete("Pod", ns, "raw")
    gone("Pod", ns, "raw")
    delete("PersistentVolumeClaim", ns, "raw")
    gone("DPUVolume", DPF, volume["spec"]["csi"]["volumeHandle"])
    return f"volume {volume['spec']['csi']['volumeHandle'][:12]}..., context {', '.join(sorted(context))}"


@row("a filesystem, which it could not: claim, pod, data, deleted")
def _(ns):
    create(claim("files"), ns)
    create(pod("files", "files"), ns)
    running(ns, "files")
    shell(ns, "files", "echo kept >/data/file && sync && grep ' /data ext4 ' /proc/mounts")
    spec = bound(ns, "files")["spec"]["csi"]
    volume = spec["volumeHandle"]
    delete("Pod", ns, "files")
    gone("Pod", ns, "files")
    delete("PersistentVolumeClaim", ns, "files")
    gone("DPUVolume", DPF, volume)
    return f"fsType {spec.get('fsType', 'not given')}: made as ext4"


# ---------------------------------------------------------------- what it left
def its_volume(name, modes=("ReadWriteOnce",), volume_mode="Block"):
    """The DPUVolume as it makes it: no labels, annotations, limits."""
    kube.api.call("POST", kube.path_of("DPUVolume", DPF), {
        "apiVersion": "storage.dpu.nvidia.com/v1alpha1", "kind": "DPUVolume", "metadata": {"name": name},
        "spec": {"dpuStoragePolicyName": "example-policy", "accessModes": list(modes), "volumeMode": volume_mode,
                 "resources": {"requests": {"storage": "67108864"}}}})
    return until(f"{name} is bound", lambda: (v := get("DPUVolume", DPF, name)) and v.get("status", {}).get("phase") == "Bound" and v)


def its_attachment(name, function="vf"):
    """Its DPUVolumeAttachment, and the publish_context that it hands on."""
    attachment = f"{NODE}-{name}"
    kube.api.call("POST", kube.path_of("DPUVolumeAttachment", DPF), {
        "apiVersion": "storage.dpu.nvidia.com/v1alpha1", "kind": "DPUVolumeAttachment", "metadata": {"name": attachment},
        "spec": {"dpuNodeName": NODE, "dpuVolumeName": name, "functionType": function, "hotplugFunction": function == "pf"}})
    made = until(f"{attachment} is attached",
                 lambda: (a := get("DPUVolumeAttachment", DPF, attachment)) and a.get("status", {}).get("dpuAttached") and a)
    dpu = made["status"]["dpu"]
    what = {"nv-nvmeNsID": str(dpu["nvmeAttrs"]["namespaceID"])} if "nvmeAttrs" in dpu else {
        "nv-virtioFsTag": dpu["virtioFSAttrs"]["filesystemTag"]}
    return {"nv-volumeName": name, "nv-volumeAttachmentName": attachment, "nv-pciDeviceAddress": dpu["pciAddress"], **what}


def its_pv(name, ns, claim_name):
    create({"kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER,
                                                       "volume.kubernetes.io/provisioner-deletion-secret-name": "",
                                                       "volume.kubernetes.io/provisioner-deletion-secret-namespace": ""}},
            "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "64Mi"}, "volumeMode": "Block",
                     "persistentVolumeReclaimPolicy": "Delete", "storageClassName": "snap-nvme",
                     "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": ns, "name": claim_name},
                     "csi": {"driver": DRIVER, "volumeHandle": name, "volumeAttributes": {
                         "storage.kubernetes.io/csiProvisionerIdentity": f"1700000000000-8081-{DRIVER}",
                         "storagePolicyName": "example-policy", "storageVendorName": "example-vendor",
                         "storageVendorPluginName": "example-vendor-plugin", "functionType": "vf", "hotplugFunction": "false"}}}})
    create(claim(claim_name, block=True, volume=name), ns)
    bound(ns, claim_name)


def use_and_delete(ns, name, claim_name):
    create(pod("old", claim_name, block=True), ns)
    running(ns, "old")
    shell(ns, "old", "echo mine | dd of=/dev/data conv=fsync 2>/dev/null && head -c 4 /dev/data")
    delete("Pod", ns, "old")
    gone("Pod", ns, "old")
    gone("DPUVolumeAttachment", DPF, f"{NODE}-{name}")
    delete("PersistentVolumeClaim", ns, claim_name)
    gone("PersistentVolume", None, name)
    gone("DPUVolume", DPF, name)


@row("a PersistentVolume that it provisioned: attaches, publishes, detaches, is deleted")
def _(ns):
    name = "pvc-0d5a4b6e-0000-4000-8000-000000000001"
    its_volume(name)
    its_pv(name, ns, "old")
    use_and_delete(ns, name, "old")
    return "object without our labels and annotations, volume_context with its five keys"


@row("a volume that it had attached: its VolumeAttachment and DPUVolumeAttachment are taken over, staged from its publish_context, detached")
def _(ns):
    name = "pvc-0d5a4b6e-0000-4000-8000-000000000002"
    its_volume(name)
    context = its_attachment(name)
    uid = get("DPUVolumeAttachment", DPF, f"{NODE}-{name}")["metadata"]["uid"]
    its_pv(name, ns, "old")
    attachment = "csi-" + hashlib.sha256(f"{name}{DRIVER}{NODE}".encode()).hexdigest()
    made = {"kind": "VolumeAttachment", "metadata": {"name": attachment, "finalizers": ["external-attacher/csi-snap-nvidia-com"],
                                                      "annotations": {"csi.alpha.kubernetes.io/node-id": NODE}},
            "spec": {"attacher": DRIVER, "nodeName": NODE, "source": {"persistentVolumeName": name}}}
    create(made)
    status, answer = kube.api.call("PATCH", kube.path_of("VolumeAttachment", None, attachment) + "/status",
                                   {"status": {"attached": True, "attachmentMetadata": context}}, "application/merge-patch+json")
    if status != 200:
        raise Failed(f"{answer}")
    create(pod("old", "old", block=True), ns)
    running(ns, "old")
    now = get("DPUVolumeAttachment", DPF, f"{NODE}-{name}")
    if now["metadata"]["uid"] != uid:
        raise Failed("it was attached anew")
    delete("Pod", ns, "old")
    gone("Pod", ns, "old")
    use_and_delete(ns, name, "old")
    return f"publish_context {', '.join(sorted(context))}"


@row("a volume that it had staged and published: unpublished and unstaged, with the file and folder that it made")
def _(ns):
    name = "pvc-0d5a4b6e-0000-4000-8000-000000000003"
    its_volume(name)
    context = its_attachment(name)
    staging = f"{DIR}/kubelet/plugins/kubernetes.io/csi/volumeDevices/staging/{name}"
    target = f"{DIR}/kubelet/plugins/kubernetes.io/csi/volumeDevices/publish/{name}/0d5a4b6e-0000-4000-8000-0000000000ff"
    capability = {"block": {}, "access_mode": {"mode": "SINGLE_NODE_WRITER"}}
    # Staged once by ours, to have the namespace's block device on the host; then what it does: a bind mount of the node
    # onto <staging>/<volume id>, and one of that onto the target.
    call("NodeStageVolume", {"volume_id": name, "publish_context": context, "staging_target_path": staging, "volume_capability": capability})
    call("NodeUnstageVolume", {"volume_id": name, "staging_target_path": staging})
    device = next(f"{DIR}/sim/{NODE}/dev/{d}" for d in sorted(os.listdir(f"{DIR}/sim/{NODE}/dev")) if d.startswith("nvme") and "n" in d[4:])
    os.makedirs(staging, exist_ok=True)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    for file, source in ((f"{staging}/{name}", device), (target, f"{staging}/{name}")):
        with open(file, "w", encoding="ascii"):
            pass
        subprocess.run(["mount", "--bind", source, file], check=True)
    call("NodeUnpublishVolume", {"volume_id": name, "target_path": target})
    call("NodeUnstageVolume", {"volume_id": name, "staging_target_path": staging})
    with open("/proc/self/mountinfo", encoding="utf-8") as lines:
        left = [line for line in lines if name in line]
    if left or os.path.exists(target) or os.path.exists(f"{staging}/{name}"):
        raise Failed(f"left: {left} {os.path.exists(target)} {os.path.exists(f'{staging}/{name}')}")
    delete("DPUVolumeAttachment", DPF, f"{NODE}-{name}")
    gone("DPUVolumeAttachment", DPF, f"{NODE}-{name}")
    delete("DPUVolume", DPF, name)
    gone("DPUVolume", DPF, name)
    return "no mount, no file"


# ---------------------------------------------------------------- its second release
@row("its second release beside the first, with another name and --emulation-mode=virtiofs: both are registered, ports answer")
def _(ns):
    del ns
    names = until("both are registered", lambda: (n := sorted(d["name"] for d in get("CSINode", None, NODE)["spec"].get("drivers") or [])) == [DRIVER, SHARES] and n)
    return f"{', '.join(names)}; ports: {ports('share')}"


@row("virtio-fs as its StorageClass, ReadWriteMany: two pods share the data, which outlive them; beside a raw block of the first release")
def _(ns):
    create({"kind": "StorageClass", "metadata": {"name": "its-virtiofs"}, "provisioner": SHARES,
            "parameters": {"policy": "example-policy", "functionType": "pf", "hotplugFunction": "true"}})
    try:
        create(claim("files", "its-virtiofs", mode="ReadWriteMany"), ns)
        create(claim("raw", block=True), ns)
        for name in ("one", "two"):
            create(pod(name, "files"), ns)
        create(pod("raw", "raw", block=True), ns)
        for name in ("one", "two", "raw"):
            running(ns, name)
        shell(ns, "one", "echo kept >/data/file && sync && grep ' /data fuse.virtiofs ' /proc/mounts")
        if shell(ns, "two", "cat /data/file") != "kept":
            raise Failed("the other pod does not see it")
        for name in ("one", "two", "raw"):
            delete("Pod", ns, name)
        for name in ("one", "two", "raw"):
            gone("Pod", ns, name)
        create(pod("next", "files"), ns)
        running(ns, "next")
        if shell(ns, "next", "cat /data/file") != "kept":
            raise Failed("the data are gone")
        delete("Pod", ns, "next")
        gone("Pod", ns, "next")
        spec = bound(ns, "files")["spec"]["csi"]
        for name in ("files", "raw"):
            delete("PersistentVolumeClaim", ns, name)
        gone("DPUVolume", DPF, spec["volumeHandle"])
    finally:
        delete("StorageClass", None, "its-virtiofs")
    return f"driver {spec['driver']}, fsType {spec.get('fsType', 'not given')}, context {', '.join(sorted(spec['volumeAttributes']))}"


@row("a virtio-fs volume that it had mounted at the target itself: unpublished and unstaged")
def _(ns):
    del ns
    name = "pvc-0d5a4b6e-0000-4000-8000-000000000004"
    its_volume(name, ("ReadWriteMany",), "Filesystem")
    context = its_attachment(name, "pf")
    staging = f"{DIR}/kubelet/plugins/kubernetes.io/csi/{SHARES}/{hashlib.sha256(name.encode()).hexdigest()}/globalmount"
    target = f"{DIR}/kubelet/pods/0d5a4b6e-0000-4000-8000-0000000000fe/volumes/kubernetes.io~csi/{name}/mount"
    capability = {"mount": {}, "access_mode": {"mode": "MULTI_NODE_MULTI_WRITER"}}
    # Staged once by ours, which gives the function to virtio-pci; then what it does: nothing at the staging path.
    call("NodeStageVolume", {"volume_id": name, "publish_context": context, "staging_target_path": staging, "volume_capability": capability}, SHARES)
    call("NodeUnstageVolume", {"volume_id": name, "staging_target_path": staging}, SHARES)
    os.makedirs(staging, exist_ok=True)
    os.makedirs(target)
    subprocess.run(["mount", "-t", "snapsim", context["nv-virtioFsTag"], target], check=True,
                   env={**os.environ, "SNAP_SIM_TAGS": f"{DIR}/sim/{NODE}/tags"})
    for _ in range(2):  # kubelet may retry
        call("NodeUnpublishVolume", {"volume_id": name, "target_path": target}, SHARES)
        call("NodeUnstageVolume", {"volume_id": name, "staging_target_path": staging}, SHARES)
    with open("/proc/self/mountinfo", encoding="utf-8") as lines:
        left = [line for line in lines if name in line]
    if left or os.path.exists(target):
        raise Failed(f"left: {left} {os.path.exists(target)}")
    delete("DPUVolumeAttachment", DPF, f"{NODE}-{name}")
    gone("DPUVolumeAttachment", DPF, f"{NODE}-{name}")
    delete("DPUVolume", DPF, name)
    gone("DPUVolume", DPF, name)
    return f"publish_context {', '.join(sorted(context))}"


@row("no error about rights that it never had: in audit log and drivers' logs nothing but looks for the DPUNode, told as information")
def _(ns):
    # The role has no dpunodes. The driver asks twice, since a refusal may be a mistake, then for the Node instead; and again
    # after one minute, then two, up to ten.
    asked, refused = 0, []
    with open(f"{DIR}/log/audit.jsonl", encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            if event["user"]["username"] != ACCOUNT:
                continue
            asked += 1
            if event.get("responseStatus", {}).get("code") == 403:
                refused.append(f"{event['userAgent'].split('/')[0]} {event['verb']} {event.get('requestURI')}")
    looks = [r for r in refused if r.startswith("snap-csi get ") and r.endswith(f"/dpunodes/{NODE}")]
    if not asked or len(looks) not in (0, 2, 4) or looks != refused:
        raise Failed(f"{asked} requests, refused: {refused}")
    told = [line for part in PARTS for line in logs(part).splitlines() if "forbidden" in line or "not allowed" in line]
    first = [line for line in told if line.startswith("I ") and "DPUNode objects cannot be read" in line]
    again = [line for line in told if "get dpunodes" in line and "retrying in" in line]
    if len(first) != bool(looks) or sorted(first + again) != sorted(told):
        raise Failed(f"the log says: {told}")
    return f"{asked} requests of the account; refused and told: {told or 'none'}"


def main():
    results = []
    for number, (title, function) in enumerate(ROWS):
        ns, began = f"swap-{number}", time.monotonic()
        kube.api.call("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns}})
        try:
            until("the namespace's account", lambda: kube.api.call("GET", f"/api/v1/namespaces/{ns}/serviceaccounts/default")[0] == 200)
            got, passed = function(ns), True
            nothing_left()
        except Exception as failure:  # pylint: disable=broad-except
            got, passed = f"{type(failure).__name__}: {failure}", False
        delete("Namespace", None, ns)
        results.append(passed)
        print(f"{'ok  ' if passed else 'FAIL'} {time.monotonic() - began:5.1f} s  {title}\n             {got}", flush=True)
    print(f"kube-swap: {sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
