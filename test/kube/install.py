"""Scenarios of what an operator applies: manifests with their overlays, the examples, the rights."""
import os
import re

from kube import (DPF, DRIVER, ROOT, Failed, apply, apply_manifest, claim, create, delete, find, get, gone, kubectl, patch, pod,
                  running, sidecars_with, volume_of)
from rbac import one_less, rights
from scenario import scenario

OVERLAYS = ("manifests/base", "manifests/overlays/kubernetes-1.28", "manifests/overlays/kubernetes-1.35",
            "manifests/overlays/kubernetes-1.36", "manifests/overlays/kubernetes-1.37", "test/kube/gate", "test/kube/components")


@scenario("the API server takes base and every overlay, each field of them")
def _(ns):
    del ns
    for path in OVERLAYS:
        done = kubectl("apply", "--dry-run=server", "--validate=strict", "-k", f"{ROOT}/{path}")
        if done.returncode or "Warning" in done.stderr:
            raise Failed(f"{path}: {done.stderr}")
    apply_manifest("manifests/overlays/kubernetes-1.36", "CSIDriver")
    try:
        spec = get("CSIDriver", None, DRIVER)["spec"]
        want = {"seLinuxMount": True, "nodeAllocatableUpdatePeriodSeconds": 600, "preventPodSchedulingIfMissing": True}
        if {key: spec.get(key) for key in want} != want:
            raise Failed(f"the API server has kept {spec}")
    finally:
        apply_manifest("manifests/base", "CSIDriver")
    done = kubectl("apply", "--dry-run=server", "-f", f"{ROOT}/test/kube/unknown-field.yaml")
    if not done.returncode or "unknown field" not in done.stderr:
        raise Failed(f"an unknown field of a CSIDriver is not refused: {done.stdout}{done.stderr}")


@scenario("manifests/examples run as they are, but for the image of their pods")
def _(ns):
    folder = f"{ROOT}/manifests/examples"
    for name in sorted(os.listdir(folder)):
        # virtio-fs has scenarios of its own, and a folder is not for this cluster: dpuservice is that of chart.py.
        if name == "shared.yaml" or os.path.isdir(f"{folder}/{name}"):
            continue
        with open(f"{folder}/{name}", encoding="utf-8") as file:
            text = file.read().replace("debian:bookworm-slim", "docker.io/local/busybox:1")
        # What the tests' cluster has under the same name stays.
        text = re.sub(r"\b(name|storageClassName): snap-", r"\1: example-snap-", text)
        apply(text, *(() if "namespace:" in text else ("-n", ns)))
    try:
        for name in ("writer", "archiver", "raw-writer", "counter-0"):
            running(ns, name, 120)
        delete("Pod", ns, "raw-writer")  # there are four functions
        running(ns, "counter-1", 120)
        delete("StatefulSet", ns, "counter")
        for name in ("writer", "archiver", "raw-writer", "counter-0", "counter-1"):
            delete("Pod", ns, name)
            gone("Pod", ns, name)
    finally:
        for volume in find("PersistentVolume"):
            patch("PersistentVolume", None, volume["metadata"]["name"], {"spec": {"persistentVolumeReclaimPolicy": "Delete"}})
        classes = [c["metadata"]["name"] for c in find("StorageClass") if c["metadata"]["name"].startswith("example-")]
        kubectl("delete", "storageclass", *classes)


@scenario("inspect in the pods of the driver: a volume in use is seen from both sides, and nothing is wrong with it", where="pods")
def _(ns):
    create(claim("seen"), ns)
    create(pod("seen", "seen"), ns)
    running(ns, "seen")
    volume = volume_of(ns, "seen")
    node = next(p["metadata"]["name"] for p in find("Pod", DPF) if p["metadata"]["name"].startswith("snap-csi-node-"))
    for where, fact in ((f"pod/{node}", "staged"), ("deployment/snap-csi-controller", "attachments")):
        done = kubectl("exec", "-n", DPF, "-c", "snap-csi-plugin", where, "--", "snap-csi-plugin", "inspect", "volume", volume)
        if done.returncode or "FINDINGS: none" not in done.stdout or f"  {volume}" not in done.stdout or fact not in done.stdout:
            raise Failed(f"inspect in {where}: exit status {done.returncode}: {done.stdout}{done.stderr}")


@scenario("sidecars that list before they watch, as older ones do, may do so")
def _(ns):
    with sidecars_with("KUBE_FEATURE_WatchListClient", "false"):
        create(claim("older"), ns)
        create(pod("older", "older"), ns)
        running(ns, "older", 120)


@scenario("the driver's own rights: one verb less, and the call that needs it says which")
def _(ns):
    del ns
    one_less()


@scenario("the account: every right is used, none is missing")
def _(ns):
    del ns
    rights()
