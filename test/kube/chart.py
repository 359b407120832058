#!/usr/bin/env python3
"""Tests charts/snap-csi without a cluster: it renders the same objects as manifests/, for every version and component; every
value file of chart/ and every kustomization decodes strictly; invalid values are refused with words that name them. With a
folder (api.sh chart) also runs the rows of chart_api.py, on a real API server. CHART_ONLY: words of titles to run. Prints
"chart: N passed, N failed"."""
import concurrent.futures
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import chart_dpf
from expect import Failed, check

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
BIN = os.environ.get("KUBE_BIN", f"{BUILD}/kube/bin")
CHART = f"{ROOT}/charts/snap-csi"
VALUES = sorted(glob.glob(f"{ROOT}/test/kube/chart/*.yaml"))
NAMESPACE = "dpf-operator-system"
# Of each overlay: versions of Kubernetes for which the chart renders the same.
OVERLAYS = {"manifests/base": ("1.26.0", "1.27.9"), "manifests/overlays/kubernetes-1.28": ("1.28.0", "1.34.5"),
            "manifests/overlays/kubernetes-1.35": ("1.35.0", "1.35.2-eks-1"), "manifests/overlays/kubernetes-1.36": ("1.36.0", "1.36.9"),
            "manifests/overlays/kubernetes-1.37": ("1.37.0", "v1.37.1+k3s1")}
# In the order in which a kustomization names them, which is that of the arguments.
COMPONENTS = {"sidecars": "sidecars.enabled=true", "topology": "topology.enabled=true", "startup-taint": "startupTaint.enabled=true",
              "startup-taint-policy": "startupTaint.enabled=true,startupTaint.policy=true",
              "gate": "node.gate.enabled=true", "networkpolicy": "networkPolicy.enabled=true",
              "host-network": "node.hostNetwork=true"}
# For hosts outside of the cluster: not part of the installation.
ELSEWHERE = {"host-watch"}
# Labels that only Helm gives.
HELM_LABELS = ("app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart")
ROWS = []


def row(title):
    def add(function):
        ROWS.append((title, function))
        return function
    return add


# ---------------------------------------------------------------- programs
def run(*words, text=None):
    return subprocess.run(words, input=text, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)


def must(done):
    check(done.returncode == 0, f"{' '.join(done.args[:3])}: {done.stderr[-1500:]}{done.stdout[-500:] if not done.stderr else ''}")
    return done.stdout


def template(*arguments, version="1.36.0", release="snap-csi"):
    return run(f"{BIN}/helm", "template", release, CHART, "-n", NAMESPACE, "--kube-version", version, *arguments)


def values(*settings):
    return [word for setting in settings for word in ("--set", setting)]


def decode(text):
    """The objects of a YAML text by (kind, namespace, name), each field known and in the form of the API's types."""
    objects = {}
    for o in json.loads(must(run(f"{BIN}/decode", text=text))):
        key = (o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"])
        check(key not in objects, f"{key} is there twice")
        objects[key] = o
    return objects


def kustomize(path):
    return must(run(f"{BIN}/kubectl", "kustomize", path))


def combine(resource, components):
    """Renders a kustomization of an overlay with components, as a user writes it."""
    os.makedirs(f"{BUILD}/chart", exist_ok=True)
    folder = tempfile.mkdtemp(dir=f"{BUILD}/chart")
    up = os.path.relpath(ROOT, folder)
    with open(f"{folder}/kustomization.yaml", "w", encoding="ascii") as file:
        json.dump({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": [f"{up}/{resource}"],
                   "components": [f"{up}/manifests/components/{c}" for c in components]}, file)
    text = kustomize(folder)
    shutil.rmtree(folder)
    return text


# ---------------------------------------------------------------- comparison
def plain(value):
    """Without what means nothing: empty parts, and the order of lists whose elements have names."""
    if isinstance(value, dict):
        cleaned = {k: plain(v) for k, v in value.items()}
        return {k: v for k, v in cleaned.items() if v not in (None, {}, [])}
    if isinstance(value, list):
        items = [plain(v) for v in value]
        if items and all(isinstance(v, dict) and ("name" in v or "mountPath" in v) for v in items):
            items.sort(key=lambda v: (v.get("name", ""), v.get("mountPath", "")))
        return items
    return value


def normal(objects):
    for o in objects.values():
        for label in HELM_LABELS:
            o["metadata"].get("labels", {}).pop(label, None)
    return {key: plain(o) for key, o in objects.items()}


def differences(ours, theirs, at=""):
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [d for k in sorted({*ours, *theirs}, key=str) for d in differences(ours.get(k), theirs.get(k), f"{at}/{k}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [d for i, (a, b) in enumerate(zip(ours, theirs)) for d in differences(a, b, f"{at}/{i}")]
    return [] if ours == theirs else [f"{at}: the chart has {json.dumps(ours)}, manifests/ {json.dumps(theirs)}"]


def same(chart, manifests, at=""):
    found = differences(normal(chart), normal(manifests), at)
    check(not found, "\n      ".join(found[:12]))
    return f"{len(chart)} objects"


def containers(objects):
    return [(kind, name, c) for (kind, _, name), o in objects.items() if kind in ("Deployment", "DaemonSet")
            for c in o["spec"]["template"]["spec"]["containers"]]


# ---------------------------------------------------------------- rows
@row("the chart is manifests/: every overlay, alone, with each component and with all of them")
def _():
    check({*COMPONENTS, *ELSEWHERE} == set(os.listdir(f"{ROOT}/manifests/components")), "a component that the chart does not have")
    choices = [(), *((c,) for c in COMPONENTS if c != "startup-taint-policy"), tuple(COMPONENTS)]
    count = 0
    for overlay, versions in OVERLAYS.items():
        for chosen in choices:
            # An object of Kubernetes 1.30 and newer.
            chosen = tuple(c for c in chosen if c != "startup-taint-policy" or versions[0] >= "1.30")
            want = decode(combine(overlay, chosen))
            for version in versions if len(chosen) != 1 else versions[:1]:
                got = decode(must(template(*values(*(COMPONENTS[c] for c in chosen)), version=version)))
                same(got, want, f"{overlay} {'+'.join(chosen) or 'alone'} for {version}")
                count += 1
    return f"{count} pairs"


@row("the chart is manifests/monitoring: PodMonitors, rules and dashboard")
def _():
    want = decode(kustomize("manifests/monitoring"))
    got = decode(must(template(*values("monitoring.podMonitor.enabled=true", "monitoring.rules.enabled=true",
                                       "monitoring.dashboard.enabled=true"))))
    got = {key: o for key, o in got.items() if key[0] in ("PodMonitor", "PrometheusRule", "ConfigMap")}
    # kustomize's generator knows no labels of ours.
    want["ConfigMap", NAMESPACE, "snap-csi-dashboard"]["metadata"]["labels"]["app.kubernetes.io/name"] = "snap-csi"
    return same(got, want)


@row("the chart's StorageClasses are those of manifests/examples")
def _():
    with open(f"{ROOT}/manifests/examples/storageclass.yaml", encoding="utf-8") as file:
        want = decode(file.read())
    got = decode(must(template("-f", f"{ROOT}/test/kube/chart/classes.yaml")))
    got = {key: o for key, o in got.items() if key[0] == "StorageClass"}
    for o in got.values():
        o["metadata"]["labels"].pop("app.kubernetes.io/name")
    return same(got, want)


@row("every value file: lint, and each field of each object is one that its kind has")
def _():
    counts = []
    for path in VALUES:
        must(run(f"{BIN}/helm", "lint", "--strict", CHART, "-f", path))
        counts.append(f"{os.path.basename(path)} {len(decode(must(template('-f', path))))}")
    check(len(counts) >= 5, "fewer than five value files")
    return ", ".join(counts)


@row("older Kubernetes: each kind and field of an overlay, its components and the chart is in the API of its oldest version")
def _():
    counts, newest = [], []
    for overlay, versions in OVERLAYS.items():
        minor = versions[0].split(".")[1]
        reader = f"{BIN}/older-{minor}"
        if not os.path.exists(reader):  # the newest ones, which decode reads
            newest.append(overlay)
            continue
        chosen = tuple(c for c in COMPONENTS if c != "startup-taint-policy")
        for text in (combine(overlay, chosen), must(template(*values(*(COMPONENTS[c] for c in chosen)), version=versions[0]))):
            counts.append(f"1.{minor} {must(run(reader, text=text)).strip()}")
    check(len(counts) == 6 and newest == list(OVERLAYS)[-2:], f"read by {counts}")
    overlays = list(OVERLAYS)
    for minor, newer in (("28", overlays[-3]), ("35", overlays[-2])):
        check(run(f"{BIN}/older-{minor}", text=kustomize(newer)).returncode == 1, f"{newer} is read by the API of 1.{minor} all the same")
    return ", ".join(counts)


@row("a field that there is not, a field that is there twice and an unknown kind are refused by this test")
def _():
    good = kustomize("manifests/base")
    for wrong in (good.replace("hostPID: true", "hostPid: true"), good.replace("hostPID: true", "hostPID: true\n      hostPID: true"),
                  good.replace("kind: DaemonSet", "kind: DaemonSets")):
        check(run(f"{BIN}/decode", text=wrong).returncode == 1, "decoded all the same")


@row("every container has a memory limit, and no more rights than it needs; so has each container of every kustomization")
def _():
    texts = [must(template("-f", path)) for path in VALUES] + [combine(o, COMPONENTS) for o in OVERLAYS]
    count = 0
    for text in texts:
        for kind, name, c in containers(decode(text)):
            where = f"{kind} {name}: container {c['name']}"
            check(c.get("resources", {}).get("limits", {}).get("memory"), f"{where} has no memory limit")
            check(c["securityContext"]["readOnlyRootFilesystem"], f"{where}: its root filesystem can be written")
            privileged = kind == "DaemonSet" and c["name"] == "snap-csi-plugin"
            check(bool(c["securityContext"].get("privileged")) == privileged, f"{where}: privileged")
            check(privileged or c["securityContext"]["capabilities"]["drop"] == ["ALL"], f"{where}: capabilities")
            # SELinux lets only spc_t connect to the socket of a privileged container; the controller's driver does not run as
            # spc_t.
            label = c["securityContext"].get("seLinuxOptions")
            check(label == ({"type": "spc_t"} if kind == "DaemonSet" and not privileged else None), f"{where}: SELinux {label}")
            count += 1
    return f"{count} containers"


@row("every argument of the driver's containers is a flag of the driver")
def _():
    with open(f"{ROOT}/src/flags/flags.def", encoding="utf-8") as file:
        flags = set(re.findall(r'^FLAG\([A-Z]+, \w+, "([a-z-]+)"', file.read(), flags=re.M))
    seen = set()
    for path in VALUES:
        for _, name, c in containers(decode(must(template("-f", path)))):
            if c["name"] == "snap-csi-plugin":
                probes = [c[p].get("exec", {}).get("command", [""])[1:] for p in ("livenessProbe", "readinessProbe")]
                hook = c.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", [""])[1:]
                given = [*c["args"], *hook, *(word for probe in probes for word in probe)]
                seen.update((name, re.match(r"--([a-z-]+)", word).group(1)) for word in given)
    wrong = [f"{name}: --{flag}" for name, flag in seen if flag not in flags]
    check(not wrong and len(seen) > 20, f"no flags of the driver: {wrong}")
    return f"{len(seen)} arguments"


def tolerated(text, key):
    """Whether a controller's pod may run on a node with this taint of any effect."""
    pods = [o["spec"]["template"]["spec"] for (kind, _, _), o in decode(text).items() if kind == "Deployment"]
    return [{"key": key, "operator": "Exists"} in spec.get("tolerations", []) for spec in pods] == [True]


@row("the controller tolerates the start-up taint that it takes off, whatever else it tolerates, and no taint that it leaves")
def _():
    usual, other, on = "csi.snap.nvidia.com/agent-not-ready", "fs.csi.example.com/agent-not-ready", "startupTaint.enabled=true"
    check(tolerated(combine("manifests/base", ["startup-taint"]), usual), "manifests/components/startup-taint: it stays Pending where all nodes have the taint")
    for arguments, key in (([], usual), (["--set-json", "controller.tolerations=[]"], usual), (values("driver.name=fs.csi.example.com"), other)):
        check(tolerated(must(template(*values(on), *arguments)), key), f"{' '.join(arguments)}: it stays Pending where all nodes have the taint")
    check(not tolerated(must(template()), usual), "tolerated without startupTaint")


@row("in the host's network every port is a value, and OpenShift allows it then alone")
def _():
    ports = ("node.ports.http=19810", "node.ports.registrar=19811", "node.ports.livenessProbe=19808")
    on = ("openshift.enabled=true", "sidecars.enabled=true")
    for network in (False, True):
        objects = decode(must(template(*values(*on, *(("node.hostNetwork=true", *ports) if network else ())))))
        spec = objects["DaemonSet", NAMESPACE, "snap-csi-node"]["spec"]["template"]["spec"]
        allowed = objects["SecurityContextConstraints", "", "snap-csi-node"]
        check(bool(spec.get("hostNetwork")) == allowed["allowHostNetwork"] == allowed["allowHostPorts"] == network, f"node.hostNetwork={network}")
    said = {c["name"]: (c["args"][-2:], [p["containerPort"] for p in c.get("ports", [])]) for c in spec["containers"]}
    check("--http-endpoint=:19810" in spec["containers"][0]["args"], str(said))
    check(said["snap-csi-plugin"][1] == [19810, 19808] and said["node-driver-registrar"][1] == [19811], str(said))
    check(said["node-driver-registrar"][0][-1] == "--http-endpoint=:19811" and said["liveness-probe"][0][-1] == "--health-port=19808", str(said))


@row("labels of pods and how the controllers spread: a constraint without a selector means the controllers")
def _():
    objects = decode(must(template(*values("controller.podLabels.team=storage", "node.podLabels.team=host"), "--set-json",
                                   'controller.topologySpreadConstraints=[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"},'
                                   '{"maxSkew":2,"topologyKey":"rack","whenUnsatisfiable":"ScheduleAnyway","labelSelector":{"matchLabels":{"a":"b"}}}]')))
    controller = objects["Deployment", NAMESPACE, "snap-csi-controller"]["spec"]
    own = controller["selector"]["matchLabels"]
    check(controller["template"]["metadata"]["labels"] == {**own, "team": "storage"}, "the controller's labels")
    node = objects["DaemonSet", NAMESPACE, "snap-csi-node"]["spec"]
    check(node["template"]["metadata"]["labels"] == {**node["selector"]["matchLabels"], "team": "host"}, "the node's labels")
    spread = [c["labelSelector"]["matchLabels"] for c in controller["template"]["spec"]["topologySpreadConstraints"]]
    check(spread == [own, {"a": "b"}], str(spread))


@row("helm show readme: what it is, how it is installed, and every value that it names is one")
def _():
    text = must(run(f"{BIN}/helm", "show", "readme", CHART))
    check("helm install" in text and "values.yaml" in text, f"it says {text!r}")
    with open(f"{CHART}/values.yaml", encoding="utf-8") as file:
        written = json.loads(must(run(f"{BIN}/decode", "--any", text=file.read())))
    named = re.findall(r"^\| (`.*?) \|", text, flags=re.M)
    check(named, "no table of values")
    for name in re.findall(r"`([A-Za-z.]+)`", " ".join(named)):
        part = written
        for word in name.split("."):
            check(isinstance(part, dict) and word in part, f"there is no value {name}")
            part = part[word]
    return f"{len(named)} rows"


@row("kubelet's folder is one value: nothing else changes, and seven paths follow")
def _():
    usual = must(template(*values("sidecars.enabled=false")))
    moved = must(template(*values("kubeletDir=/data/kubelet")))
    check("/var/lib/kubelet" not in moved, "a path is left")
    want = [line.replace("/var/lib/kubelet", "/data/kubelet") for line in usual.splitlines()]
    got = moved.splitlines()
    got.remove("            - --kubelet-dir=/data/kubelet")
    got.remove("                  - --kubelet-dir=/data/kubelet")  # of the preStop hook
    check(got == want, "something else has changed")
    count = usual.count("/var/lib/kubelet")
    check(count == 7, f"{count} paths")
    sidecars = must(template("-f", f"{ROOT}/test/kube/chart/k0s.yaml", *values("sidecars.enabled=true")))
    check("/var/lib/kubelet" not in sidecars, "a path of the sidecars is left")
    return f"{count} paths"


@row("a mirror and digests: every image comes from there, and what has a digest by it")
def _():
    objects = decode(must(template("-f", f"{ROOT}/test/kube/chart/k0s.yaml", *values("sidecars.enabled=true"))))
    images = {c["image"] for _, _, c in containers(objects)}
    check(len(images) == 6 and all(i.startswith("mirror.example.com:5000/k8s/") for i in images), str(images))
    check(sum("@sha256:" in i for i in images) == 4 and sum(":v2." in i for i in images) == 2, str(images))


@row("two releases side by side have no object in common, nor a pod that the other one selects")
def _():
    first = decode(must(template()))
    second = decode(must(template("-f", f"{ROOT}/test/kube/chart/virtiofs.yaml", release="second")))
    common = set(first) & set(second)
    check(not common, f"in both: {common}")

    def selectors(objects):
        return {json.dumps(o["spec"]["selector"], sort_keys=True) for o in objects.values() if o["kind"] in ("Deployment", "DaemonSet")}
    check(not selectors(first) & selectors(second), "one selector for both")
    leases = [name for o in second.values() if o["kind"] == "Role" for rule in o["rules"] for name in rule.get("resourceNames", [])]
    check(leases == ["fs-csi-example-com", "external-attacher-leader-fs-csi-example-com"], str(leases))


@row("names that YAML would take for numbers or truths stay names, and long ones stay within 63 characters")
def _():
    everything = [f"{group}.enabled=true" for group in ("sidecars", "openshift", "networkPolicy", "monitoring.serviceMonitor", "monitoring.rules",
                                                       "monitoring.dashboard", "controller.resizer", "topology")]
    everything.append("networkPolicy.metricsFrom[0].podSelector.matchLabels.a=b")
    classes = ["--set-json", 'storageClasses=[{"name":"true","policy":"1e3","kind":"nvme","annotations":{"a":"1"}}]']
    for release, name in (("123", "1e3"), ("1e3", "0x1f"), ("null", "true"), ("r" * 53, "d" * 48), ("a-" + "snap-csi" * 5 + "-end-of-it", "x.y")):
        said = must(template(*values(*everything, "priorityClass.create=true"), "--set-string", f"driver.name={name}", *classes,
                             "-n", "123", *(("--set", "monitoring.rules.enabled=false", "--set-string", "fullnameOverride=true") if release == "null" else ()), release=release))
        for kind, _, own in decode(said):
            check(len(own) <= 63 or kind == "ConfigMap", f"release {release}: {kind} {own}: {len(own)} characters")
        for o in decode(said).values():
            for key, value in o["metadata"].get("labels", {}).items():
                check(len(value) <= 63, f"release {release}: label {key}={value}")


@row("what cannot be changed in an object does not come from a value or a version of the chart")
def _():
    usual = decode(must(template()))
    for path in VALUES:
        other = decode(must(template("-f", path, "--set", "driver.name=csi.snap.nvidia.com", version="1.30.0")))
        for key, old in usual.items():
            new = other.get(key)
            if not new:
                continue
            for fixed in (("spec", "selector"), ("roleRef",), ("spec", "attachRequired"), ("spec", "volumeLifecycleModes")):
                a, b = old, new
                for part in fixed:
                    a, b = (a or {}).get(part), (b or {}).get(part)
                check(a == b, f"{os.path.basename(path)}: {key}: {'.'.join(fixed)}")


TERMS = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]}


def one_class(parameters, **more):
    """Arguments that give one StorageClass."""
    return ["--set-json", "storageClasses=" + json.dumps([{"name": "a", "policy": "p", "kind": "nvme", "parameters": parameters, **more}])]


@row("examples/dpuservice: DPF's kinds take each object, and its names fit together; a fault of each sort is found")
def _():
    found, patch = chart_dpf.examples()
    for o in found.values():
        faults = chart_dpf.object_faults(o)
        check(not faults, f"{o['kind']} {o['metadata']['name']}: {faults}")
    site = {"apiVersion": "svc.dpu.nvidia.com/v1alpha1", "kind": "DPUDeployment", "metadata": {"name": "hbn-snap"}, "spec": {"dpus": {}, **patch["spec"]}}
    check(not chart_dpf.object_faults(site), f"the patch: {chart_dpf.object_faults(site)}")
    kinds = ("DPUServiceTemplate", "DPUServiceConfiguration")
    for name, service in patch["spec"]["services"].items():
        refers = [(found[kind]["metadata"]["name"], found[kind]["spec"]["deploymentServiceName"]) for kind in kinds]
        check(refers == [(service["serviceTemplate"], name), (service["serviceConfiguration"], name)], f"service {name}: {refers}")
    version = re.search(r"^version: (.*)$", must(run(f"{BIN}/helm", "show", "chart", CHART)), flags=re.M).group(1)
    for kind, path in (("DPUService", ("replicas",)), ("DPUServiceTemplate", ("helmChart", "values")), ("DPUServiceConfiguration", ("deploymentServiceName",))):
        broken = json.loads(json.dumps(found[kind]))
        at = broken["spec"]
        for word in path[:-1]:
            at = at[word]
        at[path[-1]] = 5 if path[-1] != "deploymentServiceName" else "n" * 29
        check(len(chart_dpf.object_faults(broken)) == 1, f"{kind}: {'.'.join(path)} is not refused")
        source = found[kind]["spec"].get("helmChart", {}).get("source")
        check(not source or (source["chart"], source["version"]) == ("snap-csi", version), f"{kind}: {source}, and the chart is {version}")
    return ", ".join(found)


@row("as DPF renders it: labels, annotations, hosts, strategy and resources of the service reach the DaemonSet and its pods")
def _():
    found, _ = chart_dpf.examples()
    services = [chart_dpf.service_of(found["DPUServiceTemplate"], found["DPUServiceConfiguration"]), found["DPUService"]]
    for service in services:
        check(not chart_dpf.object_faults(service), f"{chart_dpf.object_faults(service)}")
        release, namespace = chart_dpf.release_of(service)
        given = chart_dpf.argo_values(service)
        with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="ascii") as file:
            json.dump(given, file)
            file.flush()
            objects = decode(must(template("-f", file.name, "-n", namespace, release=release)))
        left = {o["kind"] for o in objects.values()} - {o["kind"] for o in chart_dpf.without_hooks(objects.values())}
        check(left == {"Pod", "PersistentVolumeClaim"}, f"left out by ArgoCD: {left}")
        daemons, wanted = objects["DaemonSet", namespace, "snap-csi-node"], given["serviceDaemonSet"]
        pod = daemons["spec"]["template"]
        for o in (daemons, pod):
            check(wanted["labels"].items() <= o["metadata"]["labels"].items(), f"labels: {o['metadata']['labels']}")
        check(pod["metadata"]["labels"]["app.kubernetes.io/name"] == "snap-csi", "a label of the selector")
        terms = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
        check(terms == wanted.get("nodeSelector"), f"hosts: {terms}")
        check(("feature.node.kubernetes.io/dpu-enabled" in pod["spec"]["nodeSelector"]) == (not terms), "the chart's own label for hosts")
        strategy = wanted.get("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}})
        check(all(daemons["spec"]["updateStrategy"][key] == value or value.items() <= daemons["spec"]["updateStrategy"][key].items() for key, value in strategy.items()),
              f"strategy: {daemons['spec']['updateStrategy']}")
        check(all(c["image"].startswith("registry.example.com/storage/") for _, _, c in containers(objects)), "an image from elsewhere")
    apart = services[0]["spec"]["helmChart"]["values"]["node"]["affinity"]["podAntiAffinity"]
    check("snap-csi-plugin" in json.dumps(apart), "beside the Go plugin on one host")
    objects = decode(must(template("-f", f"{ROOT}/test/kube/chart/dpf.yaml")))
    for group in ("bf2", "bf3"):
        daemons = objects["DaemonSet", NAMESPACE, f"snap-csi-node-{group}"]
        check(daemons["metadata"]["annotations"]["example.com/owner"] == daemons["spec"]["template"]["metadata"]["annotations"]["example.com/owner"] == "dpf", "annotations")
        check(daemons["spec"]["updateStrategy"]["type"] == "OnDelete", "strategy")
        driver = daemons["spec"]["template"]["spec"]["containers"][0]["resources"]
        check(driver["limits"]["memory"] == driver["requests"]["memory"] == "2Gi" and driver["requests"]["cpu"] == "10m", f"resources: {driver}")
    return f"{len(services)} services, 2 groups"


@row("releases of the controller alone and of the nodes alone: together the objects of one release, each of them once, and no right for the nodes")
def _():
    whole = {kind for kind, _, _ in decode(must(template(*values("monitoring.podMonitor.enabled=true"))))}
    parts = [decode(must(template(*values("monitoring.podMonitor.enabled=true", f"{other}.enabled=false"), release=f"snap-csi-{part}")))
             for part, other in (("control", "node"), ("nodes", "controller"))]
    check({kind for part in parts for kind, _, _ in part} == whole, "a kind is missing")
    check(not set(parts[0]) & set(parts[1]), f"in both: {set(parts[0]) & set(parts[1])}")
    check({kind for kind, _, _ in parts[1]} == {"DaemonSet", "ServiceAccount", "PodMonitor"}, f"the nodes' release: {sorted(parts[1])}")
    check(not any(kind == "DaemonSet" for kind, _, _ in parts[0]), f"the controller's release: {sorted(parts[0])}")
    args = [next(c for _, _, c in containers(part) if c["name"] == "snap-csi-plugin")["args"] for part in parts]
    check(all("--name=csi.snap.nvidia.com" in a for a in args), f"{args}")
    for other in ("node", "controller"):
        everything = [f"{group}.enabled=true" for group in ("openshift", "networkPolicy")]
        kinds = decode(must(template(*values(*everything, f"{other}.enabled=false"))))
        names = {name for kind, _, name in kinds if kind in ("NetworkPolicy", "SecurityContextConstraints", "RoleBinding")}
        check(not any(name.endswith(f"-{other}") for name in names), f"without {other}: {names}")
    return f"{len(parts[0])} and {len(parts[1])} objects"


@row("node groups: a DaemonSet for each, with what differs and the rest as it is, whose pods are on no host together")
def _():
    objects = decode(must(template("-f", f"{ROOT}/test/kube/chart/dpf.yaml")))
    daemons = {name: o["spec"] for (kind, _, name), o in objects.items() if kind == "DaemonSet"}
    check(set(daemons) == {"snap-csi-node-bf2", "snap-csi-node-bf3"}, str(set(daemons)))
    selectors = [d["selector"]["matchLabels"] for d in daemons.values()]
    check(not selectors[0].items() <= daemons["snap-csi-node-bf3"]["template"]["metadata"]["labels"].items(), "one selects the other's pods")
    pods = [daemons[f"snap-csi-node-{group}"]["template"]["spec"] for group in ("bf2", "bf3")]
    args = [p["containers"][0]["args"] for p in pods]
    check("--node-snap-controller-device-id=6002" in args[0] and "--node-nvme-create-vfs=false" in args[0], str(args[0]))
    check("--kubelet-dir=/var/lib/k0s/kubelet" in args[1] and "--volume-metrics" in args[1] and not any("6002" in a for a in args[1]), str(args[1]))
    paths = [json.dumps([p["volumes"], p["containers"][0]["volumeMounts"]]) for p in pods]
    check("/var/lib/kubelet/" not in paths[1] and "/k0s/" not in paths[0], "a path of the other group")
    check("tolerations" in pods[0] and "tolerations" not in pods[1], "tolerations")
    check([p["containers"][0].get("lifecycle") is None for p in pods] == [True, False], "the hook")
    check([p["terminationGracePeriodSeconds"] for p in pods] == [30, 60], "the time to end")
    for spec in pods:
        rule = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        check([(r["topologyKey"], r["labelSelector"]["matchLabels"].items() <= selectors[0].items() & selectors[1].items()) for r in rule] ==
              [("kubernetes.io/hostname", True)], str(rule))
    monitor = objects["PodMonitor", NAMESPACE, "snap-csi-node"]["spec"]["selector"]["matchLabels"]
    check(all(monitor.items() <= s.items() for s in selectors), "the monitor does not find a group")


@row("labels and annotations of all objects and pods, another namespace, further containers, relabelings, csi-resizer")
def _():
    objects = decode(must(template("-f", f"{ROOT}/test/kube/chart/dpf.yaml", *values("namespaceOverride=elsewhere", "openshift.enabled=true", "networkPolicy.enabled=true",
                                                                                 "networkPolicy.metricsFrom[0].podSelector.matchLabels.a=b"))))
    for (kind, namespace, name), o in objects.items():
        for part in (o, o["spec"]["template"]) if kind in ("Deployment", "DaemonSet") else (o,):
            said = part["metadata"]
            check(said.get("labels", {}).get("example.com/cost") == "storage" and said.get("annotations", {}).get("example.com/contact"), f"{kind} {name}: {said}")
        check(namespace in ("", "elsewhere"), f"{kind} {name} is in {namespace}")
    check(NAMESPACE not in json.dumps(list(objects.values())), "the release's namespace is left")
    check("helper" in [c["name"] for kind, _, c in containers(objects) if kind == "Deployment"], "the further container")
    for part in ("controller", "node"):
        spec = objects["PodMonitor", "elsewhere", f"snap-csi-{part}"]["spec"]
        check(spec["attachMetadata"] == {"node": True}, str(spec))
        check(all(e["relabelings"][0]["targetLabel"] == "node" and e["metricRelabelings"][0]["action"] == "drop" for e in spec["podMetricsEndpoints"]), str(spec))
    # The same of a ServiceMonitor.
    arguments = ("--set-json", 'monitoring.serviceMonitor={"enabled":true,"attachMetadata":{"node":true},"relabelings":[{"targetLabel":"a"}]}', *values("controller.resizer.enabled=true"))
    others = decode(must(template(*arguments)))
    spec = others["ServiceMonitor", NAMESPACE, "snap-csi-controller"]["spec"]
    check(spec["attachMetadata"] == {"node": True} and [e["port"] for e in spec["endpoints"]] == ["http", "http-provision", "http-attach", "http-resize"] and
          all(e["relabelings"] for e in spec["endpoints"]), str(spec))
    ports = {p["name"] for p in others["Service", NAMESPACE, "snap-csi-controller-metrics"]["spec"]["ports"]}
    check(ports == {e["port"] for e in spec["endpoints"]}, str(ports))
    resizer = next(c for _, _, c in containers(objects) if c["name"] == "csi-resizer")
    check("--timeout=120s" in resizer["args"], str(resizer["args"]))
    rules = [r for (kind, _, name), o in objects.items() if kind in ("Role", "ClusterRole") for r in o["rules"]]
    check(any("persistentvolumeclaims/status" in r["resources"] for r in rules) and any("dpuvolumes" in r["resources"] and "patch" in r["verbs"] for r in rules), "its rights")
    leases = [name for r in rules for name in r.get("resourceNames", [])]
    check("external-resizer-csi-snap-nvidia-com" in leases, str(leases))
    return f"{len(objects)} objects"


@row("the preStop hook is there by default, beside the sidecars never, and its time is part of the pod's")
def _():
    for settings, seconds in (((), 30), (("node.preStop.seconds=45",), 45), (("node.preStop.enabled=false",), 0), (("sidecars.enabled=true",), 0)):
        spec = decode(must(template(*values(*settings))))["DaemonSet", NAMESPACE, "snap-csi-node"]["spec"]["template"]["spec"]
        command = spec["containers"][0].get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
        check(command == (["/snap-csi-plugin", f"--pre-stop={seconds}s"] if seconds else None) and spec["terminationGracePeriodSeconds"] == 30 + seconds,
              f"{settings}: {command}, {spec['terminationGracePeriodSeconds']} s")


@row("helm test: a claim of the first class or of another one, a pod of the level restricted that mounts it, and both only as hooks")
def _():
    check(not [k for k in decode(must(template())) if k[0] == "Pod"], "a test without a class")
    for arguments, name in ((one_class({}), "a"), ([*one_class({}), "--set", "test.storageClass=other"], "other"), (values("test.storageClass=mine"), "mine")):
        objects = decode(must(template(*arguments)))
        claim, pod = (objects[kind, NAMESPACE, "snap-csi-test"] for kind in ("PersistentVolumeClaim", "Pod"))
        check(claim["spec"]["storageClassName"] == name, str(claim["spec"]))
        check(all(o["metadata"]["annotations"]["helm.sh/hook"] == "test" for o in (claim, pod)), "no hook")
        check(int(claim["metadata"]["annotations"]["helm.sh/hook-weight"]) < 0, "the claim comes behind the pod")
        check(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"], "another claim")
        writer, safe = pod["spec"]["containers"][0], pod["spec"]["securityContext"]
        check(safe["runAsNonRoot"] and safe["fsGroup"] and writer["securityContext"]["capabilities"]["drop"] == ["ALL"] and writer["resources"]["limits"]["memory"], "the pod")


# What is refused, by which arguments, and a word of the reason.
REFUSED = (
    ("an unknown key", values("kubletDir=/x"), "kubletDir"),
    ("an unknown key in a group", values("node.gate.enable=true"), "enable"),
    ("an unknown key of an image", values("controller.image.name=x"), "name"),
    ("an unknown key in a StorageClass", ["--set-json", 'storageClasses=[{"name":"a","policy":"p","kind":"nvme","fstype":"xfs"}]'], "fstype"),
    ("an unknown key of a toleration", ["--set-json", 'node.tolerations=[{"operators":"Exists"}]'], "operators"),
    ("a resource that there is not", values("node.resources.limits.mem=1Gi"), "mem"),
    ("no memory limit", ["--set-json", 'node.resources={"limits":null}'], "limits"),
    ("a kubelet folder with a slash at the end", values("kubeletDir=/var/lib/kubelet/"), "kubeletDir"),
    ("a kubelet folder that is no path", values("kubeletDir=var/lib"), "kubeletDir"),
    ("a gate's socket without a folder", values("node.gate.socket=/control.sock"), "socket"),
    ("another kind", values("driver.emulationMode=scsi"), "emulationMode"),
    ("a name with capitals", values("driver.name=CSI.example.com"), "driver/name"),
    ("a digest that is too short", values("node.image.digest=sha256:abcd"), "digest"),
    ("a number that is a text", ["--set-string", "controller.replicas=2"], "replicas"),
    ("no replicas", values("controller.replicas=0"), "replicas"),
    ("a device id that is a number", values("node.nvme.deviceID=6001"), "deviceID"),
    ("101 %", values("node.maxUnavailable=101%"), "maxUnavailable"),
    ("an update period below kubelet's least", values("csiDriver.nodeAllocatableUpdatePeriodSeconds=9"), "nodeAllocatable"),
    ("a priority of the system's", values("priorityClass.value=2000000000"), "priorityClass"),
    ("an address without a mask", ["--set-json", 'networkPolicy.apiServer.cidrs=["198.51.100.1"]'], "cidrs"),
    ("no port", ["--set-json", "networkPolicy.apiServer.ports=[]"], "ports"),
    ("a class of an unknown kind", ["--set-json", 'storageClasses=[{"name":"a","policy":"p","kind":"vf"}]'], "kind"),
    ("a class without a policy", ["--set-json", 'storageClasses=[{"name":"a","kind":"nvme"}]'], "policy"),
    ("the kind's own key among a class's parameters",
     ["--set-json", 'storageClasses=[{"name":"a","policy":"p","kind":"nvme","parameters":{"functionType":"pf"}}]'], "functionType"),
    ("a filesystem of virtio-fs", ["--set-json", 'storageClasses=[{"name":"a","policy":"p","kind":"virtiofs","fsType":"xfs"}]'], "leave fsType out"),
    ("PodMonitors and ServiceMonitors", values("monitoring.podMonitor.enabled=true", "monitoring.serviceMonitor.enabled=true"), "scraped twice"),
    ("one port for two", values("node.ports.http=9811", "sidecars.enabled=true", "node.hostNetwork=true"), "node.ports"),
    ("PodMonitors whose Prometheus no policy lets in", values("monitoring.podMonitor.enabled=true", "networkPolicy.enabled=true"), "metricsFrom"),
    ("ServiceMonitors whose Prometheus no policy lets in", values("monitoring.serviceMonitor.enabled=true", "networkPolicy.enabled=true"), "metricsFrom"),
    ("a pod's label that its selector has", ["--set-json", 'node.podLabels={"app.kubernetes.io/component":"x"}'], "app.kubernetes.io/component"),
    ("a spread without what it spreads over", ["--set-json", 'controller.topologySpreadConstraints=[{"maxSkew":1}]'], "topologySpreadConstraints"),
    ("an argument that is none", ["--set-json", 'node.extraArgs=["v=4"]'], "extraArgs"),
    ("an account with a line of its own", values("node.serviceAccountName=a\nhostNetwork: true"), "serviceAccountName"),
    ("a priority class with a space", values("node.priorityClassName=a b"), "priorityClassName"),
    ("a mirror with a space", values("imageRegistry=a b"), "imageRegistry"),
    ("alerts that would not find the driver", values("monitoring.rules.enabled=true", "fullnameOverride=storage"), "snap-csi in its name"),
    ("nobody who may read metrics", ["--set-json", "networkPolicy.metricsFrom=[{}]"], "metricsFrom"),
    ("a socket whose path is too long for the kernel", values(f"kubeletDir=/{'k' * 80}"), "107"),
    ("a policy without what it holds back", values("startupTaint.policy=true"), "enable the taint"),
    ("a policy on a Kubernetes that has none", [*values("startupTaint.enabled=true,startupTaint.policy=true"), "--kube-version", "1.29.9"], "1.30"),
    ("an older Kubernetes", ["--kube-version", "1.25.9"], "1.25.9"),
    ("a hook beside the registrar, which does not wait for it", values("sidecars.enabled=true", "node.preStop.enabled=true"), "would stay mounted"),
    ("a hook of one group beside the registrar", values("sidecars.enabled=true", "nodeGroups.a.preStop.enabled=true"), "would stay mounted"),
    ("neither controller nor node", values("controller.enabled=false", "node.enabled=false"), "nothing is left to install"),
    ("a task of the controller without one", values("controller.enabled=false", "startupTaint.enabled=true"), "startupTaint"),
    ("csi-resizer without a controller", values("controller.enabled=false", "controller.resizer.enabled=true"), "controller.resizer"),
    ("groups without nodes", values("node.enabled=false", "nodeGroups.a.volumeMetrics=true"), "nodeGroups"),
    ("groups of the same hosts", values("nodeGroups.a.volumeMetrics=true", "nodeGroups.b.volumeMetrics=false"), "a and b"),
    ("a group with an unknown key", values("nodeGroups.a.serviceAccountName=x"), "serviceAccountName"),
    ("a group whose name is no name", values("nodeGroups.A_B.volumeMetrics=true"), "A_B"),
    ("a group whose socket's path is too long", values(f"nodeGroups.a.kubeletDir=/{'k' * 80}"), "107"),
    ("hosts chosen twice", ["--set-json", f"serviceDaemonSet.nodeSelector={json.dumps(TERMS)}", "--set-json",
                            f'node.affinity={{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{json.dumps(TERMS)}}}}}'], "leave node.affinity.nodeAffinity to DPF"),
    ("a node selector of DPF that is a map of labels", ["--set-json", 'serviceDaemonSet.nodeSelector={"a":"b"}'], "nodeSelector"),
    ("a key that DPF does not add", values("serviceDaemonSet.tolerations=x"), "tolerations"),
    ("two drivers on one host during an update", ["--set-json", 'serviceDaemonSet.updateStrategy={"rollingUpdate":{"maxSurge":1}}'], "maxSurge"),
    ("a strategy that a DaemonSet does not have", values("node.updateStrategy.type=Recreate"), "updateStrategy"),
    ("a common label that selectors have", ["--set-json", 'commonLabels={"app.kubernetes.io/name":"x"}'], "app.kubernetes.io/name"),
    ("a label of DPF's that selectors have", ["--set-json", 'serviceDaemonSet.labels={"app.kubernetes.io/component":"x"}'], "app.kubernetes.io/component"),
    ("a container without a memory limit", ["--set-json", 'node.extraContainers=[{"name":"a","image":"b"}]'], "resources"),
    ("an expansion that nothing does", one_class({}, allowVolumeExpansion=True), "enable controller.resizer"),
)


def key(name):
    return f"csi.snap.nvidia.com/{name}"


STAGE_SECRET = {f"csi.storage.k8s.io/node-stage-secret-{part}": "volume-key" for part in ("name", "namespace")}
ENCRYPTED = {key("encryption"): "luks2"} | STAGE_SECRET
# StorageClass keys that the driver refuses, and those of vendors that it takes.
KEYS_REFUSED = (
    ({key("formatpolicy"): "never"}, f"write {key('formatPolicy')}"), ({key("formatPolcy"): "never"}, f"write {key('formatPolicy')}"),
    ({"formatPolicy": "never"}, f"write {key('formatPolicy')}"), ({"csi.snap.nvidia/blockSize": "4096"}, f"write {key('blockSize')}"),
    ({"fsType": "xfs"}, "write csi.storage.k8s.io/fstype"), ({"polcy": "a"}, "write policy"), ({"functiontype": "vf"}, "write functionType"),
    ({"HotplugFunction": "true"}, "write hotplugFunction"), ({key("inodeSzie"): "256"}, f"write {key('inodeSize')}"),
    ({key("ioScheduler"): "fast"}, "ioScheduler"), ({key("nrRequests"): "3"}, "nrRequests"), ({key("readAheadKb"): "130"}, "readAheadKb"),
    ({key("readAheadKb"): "128"}, "btrfs", {"fsType": "btrfs"}), ({key("rqAffinity"): "3"}, "rqAffinity"),
    ({key("stripe"): "1"}, "those of this driver are"), ({key("formatPolicy"): "always"}, "formatPolicy"), ({key("blockSize"): "512"}, "blockSize"),
    ({key("ext4BigAlloc"): "yes"}, "ext4BigAlloc"), ({key("numberOfInodes"): "many"}, "numberOfInodes"),
    ({key("bytesPerInode"): "4096", key("numberOfInodes"): "4096"}, "exclude each other"), ({key("ext4ClusterSize"): "16384"}, "needs ext4BigAlloc"),
    ({key("ext4ClusterSize"): "4096", key("ext4BigAlloc"): "true"}, "more than the block size"),
    ({key("inodeSize"): "2048", key("blockSize"): "1024"}, "inodeSize"), ({key("inodeSize"): "128"}, "xfs", {"fsType": "xfs"}),
    ({key("bytesPerInode"): "4096"}, "no meaning for xfs", {"fsType": "xfs"}), ({key("blockSize"): "4096"}, "no meaning for btrfs", {"fsType": "btrfs"}),
    ({key("formatPolicy"): "never"}, "no meaning with virtiofs", {"kind": "virtiofs"}),
    ({key("encryption"): "luks1"} | STAGE_SECRET, "encryption"), ({key("encryptionKDF"): "pbkdf2"}, f"write {key('encryptionKdf')}"),
    ({key("encryption"): "luks2"}, "needs csi.storage.k8s.io/node-stage-secret-name"),
    ({key("encryption"): "luks2", "csi.storage.k8s.io/node-stage-secret-name": "a"}, "needs csi.storage.k8s.io/node-stage-secret-namespace"),
    (ENCRYPTED, "needs csi.storage.k8s.io/node-expand-secret-name", {"allowVolumeExpansion": True}),
    (ENCRYPTED | {key("encryptionKdf"): "scrypt"}, "encryptionKdf"), (ENCRYPTED | {key("allowDiscards"): "on"}, "allowDiscards"),
    ({key("encryptionKdf"): "pbkdf2"}, f"needs {key('encryption')}: luks2"), ({key("allowDiscards"): "true"}, f"needs {key('encryption')}: luks2"),
    (ENCRYPTED, "no meaning with virtiofs", {"kind": "virtiofs"}),
)
KEYS_TAKEN = (
    ({"vendor.example.com/blockSize": "1", "pool": "fast", "qos": "formatPolicy"},), ({key("formatPolicy"): "unformatted", key("blockSize"): "1024"},),
    ({key("ext4BigAlloc"): "true", key("ext4ClusterSize"): "65536", key("inodeSize"): "256"}, {"fsType": "ext4"}),
    ({key("inodeSize"): "512", key("blockSize"): "4096"}, {"fsType": "xfs"}), ({key("formatPolicy"): "never"}, {"fsType": "btrfs"}),
    ({"vendor.example.com/pool": "fast"}, {"kind": "virtiofs"}),
    ({key("ioScheduler"): "none", key("nrRequests"): "4096", key("readAheadKb"): "131072", key("rqAffinity"): "2"}, {"fsType": "xfs"}),
    (ENCRYPTED | {key("encryptionKdf"): "pbkdf2", key("allowDiscards"): "true"}, {"fsType": "btrfs"}),
)


@row("parameters of a StorageClass that the driver would refuse are refused, and the chart knows the keys that the driver knows")
def _():
    with open(f"{ROOT}/src/volume/volume_params.c", encoding="utf-8") as file:
        table = re.search(r"prefixed_keys\[\] = \{(.*?)\}", file.read(), flags=re.S).group(1)
    with open(f"{ROOT}/src/volume/context_keys.h", encoding="utf-8") as file:
        names = dict(re.findall(r'^#define (PARAM_\w+) DRIVER_PREFIX "(\w+)"', file.read(), flags=re.M))
    driver = {key(names[word]) for word in re.findall(r"PARAM_\w+", table)}
    for parameters, word, *rest in KEYS_REFUSED:
        done = template(*one_class(parameters, **(rest[0] if rest else {})))
        check(done.returncode and word in done.stderr, f'{parameters}: "{word}" is not in: {done.stderr or "it is taken"}')
    for parameters, *rest in KEYS_TAKEN:
        must(template(*one_class(parameters, **(rest[0] if rest else {}))))
    listed = template(*one_class({key("stripe"): "1"})).stderr.rsplit("those of this driver are: ", 1)[1].splitlines()[0]
    check({k for k in listed.split(", ") if k.startswith(key(""))} == driver, f"the chart lists {listed}")
    return f"{len(KEYS_REFUSED)} refused, {len(KEYS_TAKEN)} taken"


@row("what makes no sense is refused, and the reason names it")
def _():
    for what, arguments, word in REFUSED:
        done = template(*arguments)
        check(done.returncode, f"{what}: taken")
        check(word in done.stderr, f'{what}: "{word}" is not in: {done.stderr}')
    return f"{len(REFUSED)} refusals"


@row("values.yaml and values.schema.json know the same keys")
def _():
    with open(f"{CHART}/values.schema.json", encoding="utf-8") as file:
        schema = json.load(file)
    with open(f"{CHART}/values.yaml", encoding="utf-8") as file:
        written = json.loads(must(run(f"{BIN}/decode", "--any", text=file.read())))

    def walk(part, value, at):
        if "$ref" in part:
            part = schema["$defs"][part["$ref"].rsplit("/", 1)[1]]
        if part.get("type") == "object" and "properties" in part and isinstance(value, dict) and value and at != ".affinity":
            check(part.get("additionalProperties") is False, f"{at}: unknown keys are taken")
            known = set(part["properties"]) - {"global"}
            if not at.endswith(("resources", "requests", "limits", "affinity")):
                check(known == set(value), f"{at}: {known ^ set(value)}")
            for key, below in value.items():
                walk(part["properties"][key], below, f"{at}.{key}")
    walk(schema, written, "")


@row("the version of chart and driver is that of the Makefile, and the sidecars' are those of the tests")
def _():
    with open(f"{ROOT}/Makefile", encoding="utf-8") as file:
        version = re.search(r"^VERSION := (.*)$", file.read(), flags=re.M).group(1)
    chart = must(run(f"{BIN}/helm", "show", "chart", CHART))
    check(f"\nversion: {version}\n" in chart and f"appVersion: {version}\n" in chart, chart)
    check(f"localhost/snap-csi:{version}" in must(template()), "the driver's image has another version")
    with open(f"{ROOT}/test/kube/tools/v1.37.mod", encoding="utf-8") as file:
        pins = dict(re.findall(r"external-(\w+)/v\d+ (v[0-9.]+)$", file.read(), flags=re.M))
    with open(f"{CHART}/values.yaml", encoding="utf-8") as file:
        text = file.read()
    for name, what in (("attacher", "csi-attacher"), ("provisioner", "csi-provisioner"), ("resizer", "csi-resizer")):
        check(f"repository: sig-storage/{what}, tag: {pins[name]}" in text, f"{what} is tested as {pins[name]}")


@row("a chart of others may have it as a part: what it gets from there is not refused")
def _():
    folder = f"{BUILD}/chart/above"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(f"{folder}/charts")
    with open(f"{folder}/Chart.yaml", "w", encoding="ascii") as file:
        file.write("apiVersion: v2\nname: above\nversion: 0.1.0\n")
    must(run(f"{BIN}/helm", "package", CHART, "-d", f"{folder}/charts"))
    text = must(run(f"{BIN}/helm", "template", "site", folder, "-n", NAMESPACE, "--set", "global.site=here,snap-csi.controller.replicas=3"))
    objects = decode(text)
    check(objects["Deployment", NAMESPACE, "site-snap-csi-controller"]["spec"]["replicas"] == 3, "its values do not arrive")
    text = must(run(f"{BIN}/helm", "template", "site", folder, *values("snap-csi.monitoring.rules.enabled=true")))
    check("snap_csi:calls_in_time" in text, "the package is without the rules")


def attempt(title, function):
    """Runs a row and prints its result; returns whether it has passed."""
    began = time.monotonic()
    try:
        said, failure = function(), None
    except Failed as e:
        said, failure = None, e
    text = f"{'FAIL' if failure else 'ok  '}  {time.monotonic() - began:5.1f} s  {title}{f' ({said})' if said else ''}"
    print(text + (f"\n      {failure}" if failure else ""), flush=True)
    return failure is None


def main():
    words = os.environ.get("CHART_ONLY", "").split()

    def chosen(rows):
        return [r for r in rows if not words or any(word in r[0] for word in words)]
    # Beside the API server, which waits more than it works.
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = [pool.submit(attempt, *r) for r in chosen(ROWS)]
        passed = 0
        rows = []
        if len(sys.argv) > 1:
            import chart_api  # needs root and namespaces of its own
            rows = chosen(chart_api.ROWS)
            if rows:
                chart_api.start()
            for r in rows:
                if attempt(*r):
                    passed += 1
                else:
                    chart_api.clean()
        passed += sum(r.result() for r in results)
    count = len(results) + len(rows)
    print(f"chart: {passed} passed, {count - passed} failed")
    sys.exit(passed != count)


main()
