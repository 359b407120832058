"""Scenarios of pod placement (docs/operate/topology.md): only on nodes with functions, and on a new node when it has the driver."""
import contextlib
import hashlib
import json
import os
import re
import subprocess

from expect import Failed, until
from kube import (BIN, BUILD, DIR, DPF, DRIVER, FLAVOUR, NODE, ROOT, apply, bound, claim, cluster, create, delete, driver_with, event_with, events, find,
                  get, gone, kubectl, mounts, patch, pod, pod_spec, rollout, running, second_node, volume_of)
from nodes import PREFER_SECOND, SECOND, node_of
from nodes import second_node as node_without_driver
from rbac import ACCOUNT
from scenario import scenario

KEY = f"topology.{DRIVER}/dpu"
TAINT = f"{DRIVER}/agent-not-ready"


@contextlib.contextmanager
def rights_of(path):
    """The account with the rights that these manifests give it, and within their limits."""
    def roles(of):
        documents = kubectl("kustomize", f"{ROOT}/{of}").stdout.split("\n---\n")
        apply("\n---\n".join(d for d in documents if re.search(r"^kind: (ClusterRole|ValidatingAdmissionPolicy.*)$", d, flags=re.M)))
    roles(path)
    try:
        yield
    finally:
        roles("manifests/base")
        for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
            kubectl("delete", kind, "snap-csi-startup-taint")


@contextlib.contextmanager
def topology():
    with rights_of("test/kube/components"):
        with driver_with("--topology"):
            until("the node has its label", lambda: get("Node", None, NODE)["metadata"]["labels"].get(KEY) == "true")
            yield
        # The one that knows of the topology goes before its rights do.
        cluster("stop", "provisioner")
    cluster("start", "provisioner")


def storage_class(name, binding, key=None):
    topologies = {"allowedTopologies": [{"matchLabelExpressions": [{"key": key, "values": ["true"]}]}]} if key else {}
    create({"kind": "StorageClass", "metadata": {"name": name}, "provisioner": DRIVER, "volumeBindingMode": binding,
            "parameters": {"policy": "example-policy"}, **topologies})


def affinity(volume):
    terms = volume["spec"].get("nodeAffinity", {}).get("required", {}).get("nodeSelectorTerms", [])
    return [(e["key"], e["values"]) for t in terms for e in t["matchExpressions"]]


def stranger(name, claim_name):
    """A pod that would rather go to the node without the driver."""
    wanted = pod(name, claim_name)
    wanted["spec"]["affinity"] = PREFER_SECOND
    return wanted


@scenario("topology: pods go where the functions are, of Immediate and of WaitForFirstConsumer, and volumes of before go on",
          where="processes")
def _(ns):
    classes = {"topology-later": ("WaitForFirstConsumer", KEY), "topology-nowhere": ("Immediate", "example.com/zone")}
    node_without_driver()
    try:
        for name, (binding, key) in classes.items():
            storage_class(name, binding, key)
        create({"kind": "Pod", "metadata": {"name": "plain"}, "spec": {**pod_spec(), "affinity": PREFER_SECOND}}, ns)
        if until("the pod without a volume has a node", lambda: node_of(ns, "plain")) != SECOND:
            raise Failed("a pod without a volume did not go to the other node, so that this scenario shows nothing")
        create(claim("before", "snap-nvme-now"), ns)
        if affinity(bound(ns, "before")):
            raise Failed("a volume has a nodeAffinity without --topology")
        with topology():
            create(claim("now", "snap-nvme-now"), ns)
            create(claim("later", "topology-later"), ns)
            create(claim("nowhere", "topology-nowhere"), ns)
            if affinity(bound(ns, "now")) != [(KEY, ["true"])]:
                raise Failed(f"the nodeAffinity is {affinity(bound(ns, 'now'))}")
            for name in ("now", "later"):
                create(stranger(name, name), ns)
                running(ns, name)
                if node_of(ns, name) != NODE:
                    raise Failed(f"{name} runs on {node_of(ns, name)}")
            if affinity(bound(ns, "later")) != [(KEY, ["true"])]:
                raise Failed(f"the nodeAffinity is {affinity(bound(ns, 'later'))}")
            create(pod("before", "before", on=NODE), ns)
            running(ns, "before")
            print("      ", event_with(ns, "nowhere", "AccessibilityRequirements")[:300])
        # Turned off: the label stays, and with it the pods' way.
        for name in ("now", "later"):
            delete("Pod", ns, name)
            gone("Pod", ns, name)
            create(stranger(name, name), ns)
            running(ns, name)
        create(claim("after", "snap-nvme-now"), ns)
        if affinity(bound(ns, "after")):
            raise Failed("a volume has a nodeAffinity although the topology was turned off")
    finally:
        delete("Pod", ns, "plain", grace=0)
        for name in classes:
            delete("StorageClass", None, name)
        delete("Node", None, SECOND)
        patch("Node", None, NODE, {"metadata": {"labels": {KEY: None}}})


def taints(node):
    """Without those that Kubernetes itself puts on a node as long as it is not ready, and takes off some time later."""
    keys = [t["key"] for t in get("Node", None, node)["spec"].get("taints", [])]
    return [key for key in keys if not key.startswith("node.kubernetes.io/")]


def registered(node):
    drivers = (get("CSINode", None, node) or {"spec": {}})["spec"].get("drivers") or []
    return DRIVER in [d["name"] for d in drivers]


@contextlib.contextmanager
def controller_alone():
    """A controller that starts during this time does not have the controller's argument."""
    argument = os.environ.pop("DRIVER_ARGUMENT")
    try:
        yield
    finally:
        os.environ["DRIVER_ARGUMENT"] = argument


@scenario("start-up taint: a new node gets no pod until kubelet has the driver, and keeps its other taints", where="processes")
def _(ns):
    os.environ["SECOND_TAINTS"] = f"[{{key: {TAINT}, effect: NoExecute}}, {{key: example.com/other, effect: PreferNoSchedule}}]"
    os.environ["SECOND_LATE"] = "1"
    try:
        with rights_of("test/kube/components"), driver_with("--startup-taint"), controller_alone(), second_node():
            create(claim("data"), ns)
            create(pod("early", "data", on="n2"), ns)
            print("      ", event_with(ns, "early", "untolerated taint(s)")[:300])
            if TAINT not in taints("n2"):
                raise Failed(f"the node has the taints {taints('n2')}")
            cluster("start", "driver2")
            running(ns, "early")
            if taints("n2") != ["example.com/other"] or not registered("n2"):
                raise Failed(f"the node has the taints {taints('n2')}")
            # That is all which its right is good for.
            for change in (("label", "node", "n2", "a=b"), ("annotate", "node", "n2", "a=b"), ("cordon", "n2"),
                           ("taint", "node", "n2", "example.com/other-"), ("taint", "node", "n2", f"{TAINT}=:NoSchedule")):
                done = kubectl(f"--as={ACCOUNT}", *change)
                if "the account of snap-csi may" not in done.stderr:  # an unsuccessful cordon exits with 0
                    raise Failed(f"the driver's account may {change}: {done.stdout}{done.stderr}")
            # Another client adds it again while the driver is not running; kubelet sees it.
            delete("Pod", ns, "early")
            gone("Pod", ns, "early")
            cluster("stop", "driver2")
            until("kubelet has no such driver any more", lambda: not registered("n2"))
            kubectl("taint", "node", "n2", f"{TAINT}=:NoSchedule")
            cluster("start", "driver2")
            until("the taint is gone again", lambda: taints("n2") == ["example.com/other"])
            if not registered("n2"):
                raise Failed("it went before the driver was registered")
    finally:
        del os.environ["SECOND_TAINTS"], os.environ["SECOND_LATE"]


HOOK = [f"{BUILD}/{FLAVOUR}/snap-csi-plugin", f"--kubelet-dir={DIR}/kubelet"]


def hook(seconds, *around):
    """(exit status, what it says) of the preStop hook."""
    done = subprocess.run([*around, *HOOK, f"--pre-stop={seconds}s"], capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stderr.strip()


@scenario("pre-stop: the driver's end waits for the unmounts of ended pods, and for nothing while pods live", where="processes")
def _(ns):
    for name in ("ends", "lives"):
        create(claim(name, block=name == "lives"), ns)
        create(pod(name, name, block=name == "lives"), ns)
    for name in ("ends", "lives"):
        running(ns, name)
    # As during an update; the second time with a private view of control groups, as in a container.
    for around in ((), ("unshare", "--cgroup")):
        if hook(60, *around) != (0, ""):
            raise Failed(f"it waits for pods that live: {hook(1, *around)}")
    blind = hook(60, "unshare", "--pid", "--fork", "--mount-proc")
    if blind[0] != 1 or "hostPID" not in blind[1]:
        raise Failed(f"without hostPID: {blind}")
    cluster("stop", "driver")  # nobody unmounts
    delete("Pod", ns, "ends")
    until("the hook waits", lambda: hook(1)[0] == 1)
    print("      ", hook(1)[1][:300])
    with subprocess.Popen([*HOOK, "--pre-stop=180s"], stderr=subprocess.PIPE, text=True) as waiting:
        cluster("start", "driver")
        said = waiting.communicate(timeout=200)[1]
    volume = bound(ns, "ends")["metadata"]["name"]
    left = [m for m in mounts() if volume in m]
    if waiting.returncode or said or left:
        raise Failed(f"exit status {waiting.returncode}: {said}; mounted: {left}")
    gone("Pod", ns, "ends")
    if hook(60) != (0, ""):
        raise Failed("it waits for the pod that lives")


@contextlib.contextmanager
def hooked_node():
    """The node's pods with the hook of manifests/base for this cluster's kubelet. A longer time than there: the rarer kubelet tries
    again what was refused, the longer has the machine been busy."""
    pod_path = "/spec/template/spec"
    hook_path = f"{pod_path}/containers/0/lifecycle/preStop/exec/command"
    patches = [{"op": "test", "path": hook_path, "value": ["/snap-csi-plugin", "--pre-stop=30s"]},
               {"op": "replace", "path": hook_path, "value": ["/snap-csi-plugin", "--pre-stop=90s", f"--kubelet-dir={DIR}/kubelet"]},
               {"op": "replace", "path": f"{pod_path}/terminationGracePeriodSeconds", "value": 120}]
    done = kubectl("patch", "-n", DPF, "daemonset", "snap-csi-node", "--type=json", "-p", json.dumps(patches))
    if done.returncode:
        raise Failed(f"the hook of manifests/base: {done.stderr}")
    try:
        rollout("daemonset/snap-csi-node")
        yield
    finally:
        kubectl("rollout", "undo", "-n", DPF, "daemonset/snap-csi-node")
        rollout("daemonset/snap-csi-node")


def node_pod():
    """The node's pod that is not about to end, once its container runs."""
    def look():
        return next((p for p in find("Pod", DPF) if p["metadata"]["name"].startswith("snap-csi-node-") and
                     not p["metadata"].get("deletionTimestamp") and
                     any("running" in c["state"] for c in p["status"].get("containerStatuses", []))), None)
    return until("the driver's pod on the node runs", look)["metadata"]["name"]


def hook_runs():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            words = file.read().split("\0")
            if words[0] == "/snap-csi-plugin" and f"--kubelet-dir={DIR}/kubelet" in words and "--pre-stop=90s" in words:
                return True
    return False


def must_not_fail(name):
    """kubelet reports a hook that cannot be run, fails, or takes too long."""
    told = [e for e in events(DPF, name) if e.startswith("FailedPreStopHook")]
    if told:
        raise Failed(f"the hook of {name}: {told}")


@scenario("pre-stop in kubelet: the driver's container ends after the last unstage, and at once beside a pod that lives", where="pods")
def _(ns):
    with hooked_node():
        for name in ("ends", "lives"):
            create(claim(name), ns)
            create(pod(name, name), ns)
        for name in ("ends", "lives"):
            running(ns, name)
        volume = volume_of(ns, "ends")
        staged = f"{DIR}/kubelet/plugins/kubernetes.io/csi/{DRIVER}/{hashlib.sha256(volume.encode()).hexdigest()}/globalmount"
        first = node_pod()
        with subprocess.Popen([f"{BIN}/kubectl", f"--kubeconfig={DIR}/admin.kubeconfig", "logs", "-f", "-n", DPF, first],
                              stdout=subprocess.PIPE, text=True) as log:
            try:
                with open(f"{staged}/held", "w", encoding="ascii"):  # nobody unstages it
                    delete("Pod", ns, "ends")
                    gone("Pod", ns, "ends")
                    kubectl("delete", "pod", "-n", DPF, first, "--wait=false")
                    until("the hook runs", hook_runs)
                    if staged not in mounts():
                        raise Failed("it was unstaged although it was held, so that this scenario shows nothing")
                gone("Pod", DPF, first)
                left = [m for m in mounts() if m == staged]
                said = log.communicate(timeout=60)[0]
            finally:
                log.kill()
        must_not_fail(first)
        unstaged = [line for line in said.splitlines() if "NodeUnstageVolume code=OK" in line and volume in line]
        if left or not unstaged or " stopping " in said[:said.find(unstaged[0])]:
            raise Failed(f"mounted is {left}; the driver's last words: {said[-1500:]}")
        print("      ", unstaged[0][:200])
        before, second = mounts(), node_pod()
    # The end of that one, too, is behind its hook, which had nothing to wait for beside the pod that lives.
    gone("Pod", DPF, second)
    must_not_fail(second)
    if not before or mounts() != before or get("Pod", ns, "lives")["status"]["containerStatuses"][0]["restartCount"]:
        raise Failed(f"mounted was {before}, and is {mounts()}")
