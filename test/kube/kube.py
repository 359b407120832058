"""How scenarios use the cluster of cluster.sh: its API by HTTPS, its pods by kubectl, snap-sim's switches, its
processes. Standard library only. Runs inside the cluster's network namespace."""
import contextlib
import functools
import http.client
import json
import os
import re
import ssl
import subprocess
import time

import sim_switch
from expect import Failed, until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAME = os.environ.get("CLUSTER_NAME", "snap-csi-cluster")
DIR = os.environ.get("CLUSTER_DIR", f"/var/tmp/{NAME}")
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
FLAVOUR = os.environ.get("FLAVOUR", "release")
BIN = os.environ.get("KUBE_BIN", f"{BUILD}/kube/bin")
DPF = "dpf-operator-system"
DRIVER = "csi.snap.nvidia.com"
NODE = "n1"
PODS = bool(os.environ.get("E2E_PODS"))  # the driver and its sidecars are pods of manifests/, not processes
SOCKET_DIR = f"{DIR}/kubelet/plugins_registry"

# kind: (path of the group, plural, namespaced)
KINDS = {
    "Pod": ("/api/v1", "pods", True),
    "Namespace": ("/api/v1", "namespaces", False),
    "Node": ("/api/v1", "nodes", False),
    "Event": ("/api/v1", "events", True),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims", True),
    "PersistentVolume": ("/api/v1", "persistentvolumes", False),
    "Deployment": ("/apis/apps/v1", "deployments", True),
    "StatefulSet": ("/apis/apps/v1", "statefulsets", True),
    "StorageClass": ("/apis/storage.k8s.io/v1", "storageclasses", False),
    "CSIDriver": ("/apis/storage.k8s.io/v1", "csidrivers", False),
    "CSINode": ("/apis/storage.k8s.io/v1", "csinodes", False),
    "VolumeAttachment": ("/apis/storage.k8s.io/v1", "volumeattachments", False),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles", True),
    "ClusterRole": ("/apis/rbac.authorization.k8s.io/v1", "clusterroles", False),
    "DPUNode": ("/apis/provisioning.dpu.nvidia.com/v1alpha1", "dpunodes", True),
    "DPUStoragePolicy": ("/apis/storage.dpu.nvidia.com/v1alpha1", "dpustoragepolicies", True),
    "DPUVolume": ("/apis/storage.dpu.nvidia.com/v1alpha1", "dpuvolumes", True),
    "DPUVolumeAttachment": ("/apis/storage.dpu.nvidia.com/v1alpha1", "dpuvolumeattachments", True),
}


class Api:
    def __init__(self):
        self.tls = ssl.create_default_context(cafile=f"{DIR}/pki/ca.crt")
        self.tls.load_cert_chain(f"{DIR}/pki/admin.crt", f"{DIR}/pki/admin.key")

    def call(self, method, path, body=None, content="application/json"):
        """Returns (status, object); retries while the API server is unreachable."""
        end = time.monotonic() + 60
        while True:
            connection = http.client.HTTPSConnection("127.0.0.1", 6443, context=self.tls, timeout=30)
            try:
                connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": content})
                answer = connection.getresponse()
                text = answer.read()
                if answer.status not in (429, 503) or time.monotonic() > end:
                    return answer.status, json.loads(text)
            except (OSError, http.client.HTTPException):
                if time.monotonic() > end:
                    raise
            finally:
                connection.close()
            time.sleep(0.3)


api = Api()


@functools.cache
def minor():
    """Of Kubernetes: 37 for 1.37.2."""
    return int(re.match(r"\d+", api.call("GET", "/version")[1]["minor"])[0])


def path_of(kind, namespace=None, name=None):
    group, plural, namespaced = KINDS[kind]
    path = group + (f"/namespaces/{namespace}" if namespaced and namespace else "") + "/" + plural
    return path + (f"/{name}" if name else "")


def get(kind, namespace, name):
    """The object, or None."""
    status, body = api.call("GET", path_of(kind, namespace, name))
    return body if status == 200 else None


def find(kind, namespace=None):
    status, body = api.call("GET", path_of(kind, namespace))
    if status != 200:
        raise Failed(f"list {kind}: {body.get('message')}")
    return body["items"]


def create(obj, namespace=None):
    kind = obj["kind"]
    group = KINDS[kind][0]
    obj["apiVersion"] = group[len("/apis/"):] if group.startswith("/apis/") else "v1"
    status, body = api.call("POST", path_of(kind, namespace), obj)
    if status not in (200, 201):
        raise Failed(f"create {kind} {obj['metadata']['name']}: {body.get('message')}")
    return body


def patch(kind, namespace, name, change, subresource=""):
    status, body = api.call("PATCH", path_of(kind, namespace, name) + subresource, change, "application/merge-patch+json")
    if status != 200:
        raise Failed(f"patch {kind} {name}: {body.get('message')}")
    return body


def delete(kind, namespace, name, grace=None):
    query = "" if grace is None else f"?gracePeriodSeconds={grace}"
    api.call("DELETE", path_of(kind, namespace, name) + query)


def allowed(user, group, resource, verb, namespace=DPF):
    """Whether the API server's authorizer allows it now."""
    name, _, subresource = resource.partition("/")
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
        "user": user, "groups": ["system:serviceaccounts", "system:authenticated"], "resourceAttributes": {
            "group": group, "resource": name, "subresource": subresource, "verb": verb, "namespace": namespace}}}
    status, body = api.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    if status not in (200, 201):
        raise Failed(f"SubjectAccessReview: {body.get('message')}")
    return body["status"]["allowed"]


def gone(kind, namespace, name, seconds=120):
    until(f"{kind} {name} is gone", lambda: get(kind, namespace, name) is None, seconds)


def running(namespace, name, seconds=120):
    def look():
        pod = get("Pod", namespace, name)
        if not pod or pod["metadata"].get("deletionTimestamp"):
            return False
        return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))
    try:
        until(f"pod {name} runs", look, seconds)
    except Failed as failure:
        raise Failed(f"{failure}; its events: {events(namespace, name)}") from None


def bound(namespace, name, seconds=120):
    """The claim's PersistentVolume."""
    try:
        until(f"claim {name} is bound",
              lambda: (get("PersistentVolumeClaim", namespace, name) or {}).get("status", {}).get("phase") == "Bound", seconds)
    except Failed as failure:
        raise Failed(f"{failure}; its events: {events(namespace, name)}") from None
    return get("PersistentVolume", None, get("PersistentVolumeClaim", namespace, name)["spec"]["volumeName"])


def events(namespace, name):
    return [f"{e['reason']}: {e['message']}" for e in find("Event", namespace) if e["involvedObject"]["name"] == name]


def event_with(namespace, name, text, seconds=60):
    def look():
        return next((e for e in events(namespace, name) if text in e), None)
    try:
        return until(f'an event of {name} with "{text}"', look, seconds)
    except Failed as failure:
        raise Failed(f"{failure}; there are: {events(namespace, name)}") from None


def kubectl(*arguments):
    return subprocess.run([f"{BIN}/kubectl", f"--kubeconfig={DIR}/admin.kubeconfig", *arguments],
                          capture_output=True, text=True, timeout=120, check=False)


def apply(text, *arguments):
    """kubectl apply of a YAML text."""
    done = subprocess.run([f"{BIN}/kubectl", f"--kubeconfig={DIR}/admin.kubeconfig", "apply", "-f", "-", *arguments],
                          input=text, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise Failed(f"kubectl apply: {done.stderr}")


def apply_manifest(path, kind):
    """The one object of this kind that `kubectl kustomize` prints for a folder of manifests/."""
    documents = kubectl("kustomize", f"{ROOT}/{path}").stdout.split("\n---\n")
    apply(next(d for d in documents if re.search(rf"^kind: {kind}$", d, flags=re.M)))


def rollout(*what):
    """Waits until all pods of a Deployment or DaemonSet have its newest template and are ready."""
    for name in what:
        done = kubectl("rollout", "status", "-n", DPF, name, "--timeout=110s")
        if done.returncode:
            raise Failed(f"{name}: {done.stdout}{done.stderr}")


@contextlib.contextmanager
def sidecars_with(variable, value):
    """Restarts csi-provisioner and csi-attacher with an environment variable."""
    def restart(assignment):
        if PODS:
            for container in ("csi-provisioner", "csi-attacher"):
                kubectl("set", "env", "-n", DPF, "deployment/snap-csi-controller", "-c", container, assignment)
            rollout("deployment/snap-csi-controller")
            return
        for process in ("provisioner", "attacher"):
            cluster("stop", process)
            cluster("start", process)
    if not PODS:
        os.environ[variable] = value
    try:
        restart(f"{variable}={value}")
        yield
    finally:
        os.environ.pop(variable, None)
        restart(f"{variable}-")


@contextlib.contextmanager
def attacher_with(argument):
    """Restarts csi-attacher as a process with one more argument."""
    def restart():
        cluster("stop", "attacher")
        cluster("start", "attacher")
    os.environ["ATTACHER_ARGUMENT"] = argument
    try:
        restart()
        yield
    finally:
        del os.environ["ATTACHER_ARGUMENT"]
        restart()


@contextlib.contextmanager
def driver_with(argument):
    """Restarts the controller with one more argument."""
    if not PODS:
        os.environ["DRIVER_ARGUMENT"] = argument
        try:
            for step in ("stop", "start"):
                cluster(step, "driver")
            yield
        finally:
            del os.environ["DRIVER_ARGUMENT"]
            for step in ("stop", "start"):
                cluster(step, "driver")
        return
    place = "/spec/template/spec/containers/0/args/-"
    change = json.dumps([{"op": "add", "path": place, "value": argument}])
    kubectl("patch", "-n", DPF, "deployment", "snap-csi-controller", "--type=json", "-p", change)
    try:
        rollout("deployment/snap-csi-controller")
        yield
    finally:
        kubectl("rollout", "undo", "-n", DPF, "deployment/snap-csi-controller")
        rollout("deployment/snap-csi-controller")


def shell(namespace, pod, script, ok=True):
    """Output of a script in the pod; with ok=False it must fail, and its error text is returned."""
    done = kubectl("exec", "-n", namespace, pod, "--", "sh", "-c", script)
    if (done.returncode == 0) != ok:
        raise Failed(f"in pod {pod}: {script}: exit status {done.returncode}: {done.stdout}{done.stderr}")
    return (done.stdout if ok else done.stdout + done.stderr).strip()


def cluster(*arguments):
    subprocess.run([f"{ROOT}/test/kube/cluster.sh", *arguments], check=True, stdout=subprocess.DEVNULL, timeout=120)


@contextlib.contextmanager
def second_node():
    """Another node with a DPU, for pods on="n2". A failure inside leaves pods there: they are deleted, so that nothing waits
    for the detach of a node that has gone."""
    def detached():
        until("nothing is attached to n2", lambda: not [a for a in find("VolumeAttachment") if a["spec"]["nodeName"] == "n2"], 60)
    cluster("second", "up")
    try:
        yield
        # The pods are gone, but the node may not have said yet that it no longer uses their volumes: without that they
        # would be detached after six minutes only.
        detached()
    except BaseException:
        for o in find("Deployment") + [p for p in find("Pod") if p["spec"].get("nodeName") == "n2"]:
            if o["metadata"]["namespace"] != DPF:
                delete("Deployment" if "replicas" in o["spec"] else "Pod", o["metadata"]["namespace"], o["metadata"]["name"])
        with contextlib.suppress(Failed):
            detached()
        raise
    finally:
        cluster("second", "down")


def log(process):
    """The log of a process so far; for the driver in pods, the logs of the pods that run now."""
    if process == "driver" and PODS:
        return kubectl("logs", "-n", DPF, "-l", "app.kubernetes.io/name=snap-csi", "-c", "snap-csi-plugin", "--tail=-1").stdout
    with open(f"{DIR}/log/{process}.log", encoding="utf-8", errors="replace") as lines:
        return lines.read()


# ---------------------------------------------------------------- snap-sim's faults
def sim(method, path, body=None):
    with open(f"{DIR}/run/sim.port", encoding="ascii") as file:
        return sim_switch.request(file.read(), method, path, body)


def fault(**what):
    sim("POST", "/sim/faults", what)


def heal():
    sim("DELETE", "/sim/faults")


# ---------------------------------------------------------------- objects
def volume_of(ns, name):
    """The DPUVolume behind a claim."""
    return bound(ns, name)["spec"]["csi"]["volumeHandle"]


def claim(name, storage_class="snap-nvme", mode="ReadWriteOnce", block=False, size="64Mi", volume=None):
    spec = {"storageClassName": storage_class, "accessModes": [mode], "resources": {"requests": {"storage": size}}}
    if block:
        spec["volumeMode"] = "Block"
    if volume:
        spec["volumeName"] = volume
    return {"kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def pod_spec(mounts=(), devices=(), volumes=(), security=None, script="exec sleep infinity", on=None):
    container = {"name": "main", "image": "docker.io/local/busybox:1", "imagePullPolicy": "Never",
                 "command": ["sh", "-c", script], "volumeMounts": list(mounts), "volumeDevices": list(devices)}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container], "volumes": list(volumes),
            "automountServiceAccountToken": False, "enableServiceLinks": False}
    if security:
        spec["securityContext"] = security
    if on:
        spec["nodeSelector"] = {"kubernetes.io/hostname": on}
    return spec


def pod(name, claim_name, read_only=False, block=False, sub_path=None, **more):
    mounts = [] if block else [{"name": "data", "mountPath": "/data", **({"subPath": sub_path} if sub_path else {})}]
    devices = [{"name": "data", "devicePath": "/dev/data"}] if block else []
    source = {"claimName": claim_name, **({"readOnly": True} if read_only else {})}
    volumes = [{"name": "data", "persistentVolumeClaim": source}]
    return {"kind": "Pod", "metadata": {"name": name}, "spec": pod_spec(mounts, devices, volumes, **more)}


def stateful_set(name, replicas, block):
    mounts = [] if block else [{"name": "data", "mountPath": "/data"}]
    devices = [{"name": "data", "devicePath": "/dev/data"}] if block else []
    template = {"metadata": {"labels": {"app": name}}, "spec": pod_spec(mounts, devices)}
    return {"kind": "StatefulSet", "metadata": {"name": name},
            "spec": {"serviceName": name, "replicas": replicas, "selector": {"matchLabels": {"app": name}},
                     "podManagementPolicy": "Parallel", "template": template, "volumeClaimTemplates": [claim("data", block=block)]}}


# ---------------------------------------------------------------- what is left
def mounts():
    with open("/proc/self/mountinfo", encoding="utf-8") as lines:
        return [m for m in (line.split()[4] for line in lines)
                if re.match(re.escape(DIR) + "/(n2/)?kubelet/(plugins/kubernetes.io/csi|pods/.*kubernetes.io~csi)/", m)]


def nothing_left(seconds=120):
    def look():
        left = [f"{o['kind'] if 'kind' in o else kind} {o['metadata']['name']}" for kind in
                ("DPUVolume", "DPUVolumeAttachment", "VolumeAttachment", "PersistentVolume") for o in find(kind)]
        return left + mounts()
    until("all volumes, attachments and mounts are gone", lambda: not look(), seconds)
