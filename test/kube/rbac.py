"""The rights of the driver's account, from manifests/base/rbac.yaml as they are in the cluster, against what the API
server's audit log says was asked for with them, by the driver and by its sidecars; and what the driver says when one of
its own is missing. The sidecars' rights come from their own documents, and are only held against their use."""
import contextlib
import json
import os
import subprocess

from kube import (BUILD, DIR, DPF, DRIVER, FLAVOUR, NODE, Failed, allowed, create, delete, fault, find, get, heal, patch,
                  until)

OWN, SIDECARS = "snap-csi-controller", "snap-csi-sidecars"
ACCOUNT = f"system:serviceaccount:{DPF}:snap-csi-controller"
STORAGE = "storage.dpu.nvidia.com"
CALLS = ("CreateVolume", "ControllerPublishVolume", "ControllerUnpublishVolume", "DeleteVolume")

# What fails first without the right. A call that waits reads the object afresh only where the watch was slower than it,
# so that the next one may be the first to fail. None: the driver does without, for the reason given.
NEEDED = {
    (STORAGE, "dpuvolumes", "create"): ("CreateVolume",),
    (STORAGE, "dpuvolumes", "list"): ("CreateVolume",),
    (STORAGE, "dpuvolumes", "watch"): ("CreateVolume",),
    (STORAGE, "dpuvolumes", "get"): ("CreateVolume", "ControllerPublishVolume"),
    (STORAGE, "dpuvolumes", "delete"): ("DeleteVolume",),
    (STORAGE, "dpuvolumeattachments", "create"): ("ControllerPublishVolume",),
    (STORAGE, "dpuvolumeattachments", "list"): None,  # this API server sends all of them in the watch
    (STORAGE, "dpuvolumeattachments", "watch"): ("ControllerPublishVolume",),
    (STORAGE, "dpuvolumeattachments", "get"): ("ControllerPublishVolume",),
    (STORAGE, "dpuvolumeattachments", "delete"): ("ControllerUnpublishVolume",),
    ("", "events", "list"): None,  # the text of a time-out says that the right is missing
    ("provisioning.dpu.nvidia.com", "dpunodes", "get"): None,  # asks for the Node then
    ("provisioning.dpu.nvidia.com", "dpus", "list"): None,  # attaches to a node without a DPU, too
    ("storage.k8s.io", "csinodes", "get"): None,  # the DPU itself refuses what is too much
    ("", "nodes", "get"): None,  # asked for only where DPUNodes cannot be read
    ("", "events", "create"): None,  # the Event is dropped; of the driver's own account only refusals need it
    ("", "persistentvolumes", "get"): None,  # the same, for an Event about a volume
}

# DPF does not act during this time. A waiting call reads its object once, right after its creation. If DPF was quicker than
# that read, the call has all it needs, and correctly succeeds without a watch.
NEVER = {
    (STORAGE, "dpuvolumes", "watch"): "volume-never-bound",
    (STORAGE, "dpuvolumeattachments", "watch"): "attachment-never-ready",
}


# ---------------------------------------------------------------- every right is used
def rules(*names):
    for kind, namespace in (("Role", DPF), ("ClusterRole", None)):
        for name in names:
            for rule in get(kind, namespace, name)["rules"]:
                for group in rule["apiGroups"]:
                    for resource in rule["resources"]:
                        for verb in rule["verbs"]:
                            yield (group, resource, verb), kind, namespace, name


def granted(*names):
    return {right for right, *_ in rules(*names)}


def asked():
    """({right}, {right that was refused})"""
    used, refused = set(), set()
    with open(f"{DIR}/log/audit.jsonl", encoding="utf-8") as lines:
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:  # the line that is being written
                continue
            what = event.get("objectRef")
            if not what or "resource" not in what:
                continue
            resource = what["resource"] + ("/" + what["subresource"] if what.get("subresource") else "")
            right = (what.get("apiGroup", ""), resource, event["verb"])
            code = event.get("responseStatus", {}).get("code", 0)
            (refused if code == 403 else used).add(right)
    return used, refused


def text(some):
    return ", ".join(" ".join(r) for r in sorted(some))


def rights():
    """After one_less(), which makes use of those for rare cases."""
    have = granted(OWN, SIDECARS)
    used, refused = asked()
    # An API server that has just started refuses for a moment what it has not read the roles of yet.
    if refused - have:
        raise Failed(f"refused: {text(refused - have)}")
    print(f"       {len(have)} rights, {len(have & used)} of them seen in use")
    if have - used:
        raise Failed(f"granted and not used: {text(have - used)}")


# ---------------------------------------------------------------- one verb less
@contextlib.contextmanager
def without(*missing):
    """The account without these rights, which come back afterwards."""
    saved = {}
    # The sidecars have the same account, and some of the driver's rights by roles of their own.
    for name, kind, namespace in ((name, *role) for name in (OWN, SIDECARS) for role in (("Role", DPF), ("ClusterRole", None))):
        before = get(kind, namespace, name)["rules"]
        saved[name, kind, namespace] = before
        after = []
        for rule in before:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    verbs = [v for v in rule["verbs"] if (group, resource, v) not in missing]
                    if verbs:
                        after.append({"apiGroups": [group], "resources": [resource], "verbs": verbs})
        patch(kind, namespace, name, {"rules": after})
    try:
        for right in missing:
            until(f"{right} is taken away", lambda right=right: not allowed(ACCOUNT, *right))
        yield
    finally:
        for (name, kind, namespace), before in saved.items():
            patch(kind, namespace, name, {"rules": before})
        for right in missing:
            until(f"{right} is back", lambda right=right: allowed(ACCOUNT, *right))


@contextlib.contextmanager
def controller():
    """A driver of its own with the account, which has nothing in memory yet. Gives a function that calls it."""
    socket = f"{DIR}/run/rights.sock"
    command = [f"{BUILD}/{FLAVOUR}/snap-csi-plugin", "--mode=controller", f"--name={DRIVER}", f"--bind-address=unix://{socket}",
               f"--namespace={DPF}", f"--kubeconfig={DIR}/account.kubeconfig", "--wait-timeout=60s"]
    with open(f"{DIR}/log/rights.log", "a", encoding="utf-8") as log:
        driver = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        until("the driver serves", lambda: os.path.exists(socket))

        def call(method, request):
            done = subprocess.run([f"{BUILD}/{FLAVOUR}/csi-call", "-e", f"unix://{socket}", "-t", "90", method, json.dumps(request)],
                                  capture_output=True, text=True, timeout=120, check=False)
            return (json.loads(done.stdout or "{}"), None) if done.returncode == 0 else (None, (done.stdout + done.stderr).strip())
        yield call
    finally:
        driver.terminate()
        driver.wait(20)


CREATE = {"name": "pvc-rights", "capacity_range": {"required_bytes": 1 << 20}, "parameters": {"policy": "example-policy"},
          "volume_capabilities": [{"access_mode": {"mode": "SINGLE_NODE_WRITER"}, "block": {}}]}


def life(call):
    """Creates, attaches twice, detaches, deletes a volume: (the call that fails, its error), or None when none does."""
    capability = CREATE["volume_capabilities"][0]
    created, error = call("CreateVolume", CREATE)
    if error:
        return "CreateVolume", error
    volume = {"volume_id": "pvc-rights"}
    attach = (CALLS[1], {**volume, "node_id": NODE, "volume_capability": capability,
                         "volume_context": created["volume"].get("volume_context", {})})
    # The second time the attachment exists, and is read.
    for method, request in (attach, attach, (CALLS[2], {**volume, "node_id": NODE}), (CALLS[3], volume)):
        error = call(method, request)[1]
        if error:
            return method, error
    return None


@contextlib.contextmanager
def held_up(right):
    """DPF does not do what a call without this right could get without it."""
    if right in NEVER:
        fault(dpf=NEVER[right], name=".*", text="held up")
    try:
        yield
    finally:
        heal()


def one(right):
    group, resource, verb = right
    with without(right), held_up(right), controller() as call:
        failed = life(call)
    expected = NEEDED[right]
    if (failed is None) != (expected is None) or failed and failed[0] not in expected:
        raise Failed(f"without {' '.join(right)}: {failed or 'nothing fails'}; expected is {expected}")
    if failed and f"not allowed to {verb} {resource}" not in failed[1]:
        raise Failed(f"without {' '.join(right)} {failed[0]} does not say what is missing: {failed[1]}")
    print(f"       {verb:7} {resource:21} {failed[0] + ': ' + failed[1].split(':')[0] if failed else 'the driver does without'}")
    with controller() as call:
        failed = life(call)
    if failed:
        raise Failed(f"with {' '.join(right)} again: {failed}")


def orphan():
    """Attaches a volume that has an attachment to another node. It is refused, and for the Event the driver reads the PersistentVolume."""
    with controller() as call:
        if error := call("CreateVolume", CREATE)[1]:
            raise Failed(error)
        create({"apiVersion": f"{STORAGE}/v1alpha1", "kind": "DPUVolumeAttachment", "metadata": {"name": "elsewhere-pvc-rights"},
                "spec": {"dpuVolumeName": "pvc-rights", "dpuNodeName": "elsewhere", "functionType": "vf", "hotplugFunction": False}}, DPF)
        error = call("ControllerPublishVolume", {"volume_id": "pvc-rights", "node_id": NODE,
                                                 "volume_capability": CREATE["volume_capabilities"][0]})[1] or "it is attached"
        if "is attached to node elsewhere" not in error:
            raise Failed(f"a volume with an attachment to another node: {error}")
        until("the driver reads the PersistentVolume", lambda: ("", "persistentvolumes", "get") in asked()[0])


def one_less():
    own = granted(OWN)
    if own != set(NEEDED):
        raise Failed(f"the role and this table differ: {text(own ^ set(NEEDED))}")
    wrong = []
    try:
        for right in NEEDED:
            try:
                one(right)
            except Failed as failure:
                wrong.append(str(failure))
        orphan()
        if wrong:
            raise Failed("\n      ".join(wrong))
    finally:
        for kind in ("DPUVolumeAttachment", "DPUVolume"):
            for left in find(kind, DPF):
                delete(kind, DPF, left["metadata"]["name"])
