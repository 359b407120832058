"""A scenario of the future CRD of DPF, which lets volumes grow: csi-resizer with the rights that the chart gives it."""
import contextlib
import re
import subprocess
import time

from growing_crd import let_volumes_grow
from hotplug import end
from kube import BIN, DPF, DRIVER, ROOT, Failed, api, apply, claim, cluster, create, delete, get, kubectl, patch, pod, running, shell, until
from scenario import scenario

MIB = 1 << 20


def ask(method, path, body=None):
    status, answer = api.call(method, path, body)
    if status != 200:
        raise Failed(f"{method} {path}: {answer.get('message')}")
    return answer


def roles(documents):
    apply("\n---\n".join(d for d in documents.split("\n---\n") if re.search(r"^kind: (Cluster)?Role$", d, flags=re.M)))


@contextlib.contextmanager
def growing():
    """The CRD with growth, and behind it a driver and csi-resizer with the chart's roles, which have the names of manifests/base."""
    chart = [f"{BIN}/helm", "template", "snap-csi", f"{ROOT}/charts/snap-csi", "-n", DPF, "--set", "controller.resizer.enabled=true"]
    let_volumes_grow(ask, True)
    try:
        roles(subprocess.run(chart, capture_output=True, text=True, timeout=60, check=True).stdout)
        for step in ("stop", "start"):
            cluster(step, "driver")
        cluster("start", "resizer")
        yield
    finally:
        cluster("stop", "resizer")
        let_volumes_grow(ask, False)
        roles(kubectl("kustomize", f"{ROOT}/manifests/base").stdout)
        for step in ("stop", "start"):
            cluster(step, "driver")


@scenario("a claim grows while its pod runs, with csi-resizer: xfs and raw block", where="processes")
def _(ns):
    kinds = {"files": False, "raw": True}
    create({"kind": "StorageClass", "metadata": {"name": "grows"}, "provisioner": DRIVER, "allowVolumeExpansion": True,
            # ext4 needs CAP_SYS_RESOURCE to grow, which the machine may not have.
            "parameters": {"policy": "example-policy", "csi.storage.k8s.io/fstype": "xfs"}})
    try:
        with growing():
            for name, block in kinds.items():
                create(claim(name, "grows", block=block, size="512Mi"), ns)
                create(pod(name, name, block=block), ns)
            for name in kinds:
                running(ns, name)
            shell(ns, "files", "echo kept >/data/file && sync")
            for name in kinds:
                patch("PersistentVolumeClaim", ns, name, {"spec": {"resources": {"requests": {"storage": "1Gi"}}}})

            def grown(name):
                status = get("PersistentVolumeClaim", ns, name)["status"]
                if any(c["type"] == "FileSystemResizePending" for c in status.get("conditions", [])):
                    # kubelet looks at a claim when it synchronises the pod: now, in place of within ten seconds.
                    patch("Pod", ns, name, {"metadata": {"annotations": {"synchronise": str(time.monotonic())}}})
                return status["capacity"]["storage"] == "1Gi"
            for name in kinds:
                until(f"claim {name} has grown", lambda name=name: grown(name), 90, 0.5)
            blocks, size = shell(ns, "files", "stat -f -c '%b %s' /data").split()
            device = shell(ns, "raw", "blockdev --getsize64 /dev/data")
            if int(blocks) * int(size) < 900 * MIB or device != str(1024 * MIB) or shell(ns, "files", "cat /data/file") != "kept":
                raise Failed(f"the filesystem has {blocks} blocks of {size} bytes, the device {device} bytes")
            end(ns, *kinds)
            for name in kinds:
                delete("PersistentVolumeClaim", ns, name)
                until("the volume is gone", lambda name=name: not get("PersistentVolumeClaim", ns, name))
    finally:
        delete("StorageClass", None, "grows")
