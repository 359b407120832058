"""Scenarios of what an operator applies: manifests with their overlays, the examples, the rights."""
import os
import re

from kube import (DRIVER, ROOT, Failed, apply, apply_manifest, claim, create, delete, find, get, gone, kubectl, patch, pod,
                  running, sidecars_with)
from rbac import one_less, rights
from scenario import scenario

OVERLAYS = ("manifests/base", "manifests/overlays/kubernetes-1.28", "manifests/overlays/kubernetes-1.35",
            "manifests/overlays/kubernetes-1.36", "manifests/overlays/sidecars")


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
        with open(f"{folder}/{name}", encoding="utf-8") as file:
            text = file.read().replace("debian:bookworm-slim", "docker.io/local/busybox:1")
        # What the tests' cluster has under the same name stays.
        text = re.sub(r"name: snap-nvme\b(?!-)", "name: example-snap-nvme", text)
        text = text.replace("storageClassName: snap-nvme\n", "storageClassName: example-snap-nvme\n")
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
        kubectl("delete", "storageclass", "example-snap-nvme", "snap-nvme-ext4", "snap-nvme-xfs", "snap-nvme-hotplug")


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
