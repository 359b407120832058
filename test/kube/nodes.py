"""Scenarios of more than one node, of a node that goes, and of a DPU that has no function left."""
import time

from kube import (DPF, DRIVER, NODE, Failed, apply_manifest, claim, cluster, create, delete, event_with, find,
                  get, kubectl, patch, pod, pod_spec, running, shell, stateful_set, until)
from scenario import scenario

SECOND = "n0"  # without kubelet; n2 is that of cluster.sh
# A pod would rather go to the second node.
PREFER_SECOND = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
    "weight": 100, "preference": {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In",
                                                        "values": [SECOND]}]}}]}}


def ready(name, status):
    """Says for a node without kubelet whether it is ready."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    condition = {"type": "Ready", "status": status, "reason": "Test", "message": "", "lastHeartbeatTime": now,
                 "lastTransitionTime": now}
    others = [c for c in get("Node", None, name)["status"].get("conditions", []) if c["type"] != "Ready"]
    capacity = {"capacity": {"cpu": "4", "memory": "4Gi", "pods": "50"}, "allocatable": {"cpu": "4", "memory": "4Gi", "pods": "50"}}
    patch("Node", None, name, {"status": {"conditions": others + [condition], **(capacity if name == SECOND else {})}}, "/status")


def second_node():
    create({"kind": "Node", "metadata": {
        "name": SECOND, "labels": {"kubernetes.io/hostname": SECOND, "kubernetes.io/os": "linux"},
        # As kubelet writes it; without it nothing is attached to the node.
        "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}}})
    ready(SECOND, "True")
    until("the second node is Ready and has no taint", lambda: not get("Node", None, SECOND)["spec"].get("taints"))


def node_of(ns, name):
    return (get("Pod", ns, name) or {}).get("spec", {}).get("nodeName")


@scenario("mixed cluster: a pod with a volume goes where the DPU is, whatever it would rather have")
def _(ns):
    second_node()
    try:
        # The CSIDriver object as the overlay for this Kubernetes has it.
        apply_manifest("manifests/overlays/kubernetes-1.36", "CSIDriver")
        create({"kind": "Pod", "metadata": {"name": "plain"}, "spec": {**pod_spec(), "affinity": PREFER_SECOND}}, ns)
        if until("the pod without a volume has a node", lambda: node_of(ns, "plain")) != SECOND:
            raise Failed("a pod without a volume did not go to the second node, so that this scenario shows nothing")
        create(claim("mixed"), ns)
        wanted = pod("mixed", "mixed")
        wanted["spec"]["affinity"] = PREFER_SECOND
        create(wanted, ns)
        running(ns, "mixed")
        if node_of(ns, "mixed") != NODE:
            raise Failed(f"it runs on {node_of(ns, 'mixed')}")
    finally:
        delete("Pod", ns, "plain", grace=0)
        delete("Node", None, SECOND)
        apply_manifest("manifests/base", "CSIDriver")


def refused(ns, name, text):
    """A pod of the second node waits; its events have the text, and nothing was made at DPF."""
    second_node()
    try:
        create({"kind": "CSINode", "metadata": {"name": SECOND}, "spec": {"drivers": [{"name": DRIVER, "nodeID": SECOND}]}})
        create(claim(name, "snap-nvme-now"), ns)
        wanted = pod(name, name)
        wanted["spec"]["nodeName"] = SECOND
        create(wanted, ns)
        print("      ", event_with(ns, name, text, 90)[:300])
        if find("DPUVolumeAttachment", DPF):
            raise Failed("there is a DPUVolumeAttachment all the same")
        delete("Pod", ns, name, grace=0)
        until("nothing asks for an attachment any more", lambda: not find("VolumeAttachment"))
    finally:
        delete("Pod", ns, name, grace=0)
        delete("CSINode", None, SECOND)
        delete("Node", None, SECOND)


@scenario("a node that DPF does not know: the pod's events name the DPUNode that is missing")
def _(ns):
    refused(ns, "lost", "there is no DPUNode")


@scenario("a DPUNode without a DPU: the pod's events say so, and nothing is attached that DPF could not detach")
def _(ns):
    create({"kind": "DPUNode", "metadata": {"name": SECOND}}, DPF)
    try:
        refused(ns, "bare", "has no DPU")
    finally:
        delete("DPUNode", DPF, SECOND)


@scenario("the DPU has no function and no slot left: the next pod waits, its events say why, and it runs when one is free")
def _(ns):
    room, slots = get("CSINode", None, NODE)["spec"]["drivers"][0]["allocatable"]["count"], 2
    names = [f"f{i}" for i in range(room + 1)]
    for i, name in enumerate(names[:-1]):
        create(claim(name, "snap-nvme-hotplug" if i < slots else "snap-nvme"), ns)
        create(pod(name, name), ns)
    for name in names[:-1]:
        running(ns, name)
    last = names[-1]
    create(claim(last), ns)
    create(pod(last, last), ns)
    print("      ", event_with(ns, last, "exceed max volume count", 60)[:300])
    delete("Pod", ns, names[-2])
    running(ns, last, 120)


@scenario("out-of-service taint: a node that is gone loses its volumes, and gets them again when it is back", "processes")
def _(ns):
    create(stateful_set("db", 1, False), ns)
    running(ns, "db-0")
    shell(ns, "db-0", "echo here >/data/who && sync")
    uid = get("Pod", ns, "db-0")["metadata"]["uid"]
    cluster("halt")
    cluster("start", "driver")  # its controller, which lives elsewhere
    ready(NODE, "Unknown")
    taints = get("Node", None, NODE)["spec"].get("taints", [])
    out = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    patch("Node", None, NODE, {"spec": {"taints": taints + [out]}})
    until("the pod of the node is gone", lambda: (get("Pod", ns, "db-0") or {"metadata": {"uid": ""}})["metadata"]["uid"] != uid, 120)
    until("its volume is detached", lambda: not find("VolumeAttachment") and not find("DPUVolumeAttachment", DPF), 120)
    cluster("stop", "driver")
    cluster("boot")
    kubectl("taint", "node", NODE, "node.kubernetes.io/out-of-service-")
    running(ns, "db-0", 150)
    if shell(ns, "db-0", "cat /data/who") != "here":
        raise Failed("the data are not there")
