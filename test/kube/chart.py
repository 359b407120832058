#!/usr/bin/env python3
"""charts/snap-csi without a cluster: what it renders is what manifests/ renders, object for object, for every version and
component; every value file of chart/ and every kustomization decodes strictly; values that make no sense are refused with
words that name them. With a folder (api.sh chart) also the rows of chart_api.py, on a real API server. CHART_ONLY: words of
titles to run. Prints "chart: N passed, N failed"."""
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

from expect import Failed, check

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
BIN = f"{BUILD}/kube/bin"
CHART = f"{ROOT}/charts/snap-csi"
VALUES = sorted(glob.glob(f"{ROOT}/test/kube/chart/*.yaml"))
NAMESPACE = "dpf-operator-system"
# Of each overlay: versions of Kubernetes for which the chart renders the same.
OVERLAYS = {"manifests/base": ("1.26.0", "1.27.9"), "manifests/overlays/kubernetes-1.28": ("1.28.0", "1.34.5"),
            "manifests/overlays/kubernetes-1.35": ("1.35.0", "1.35.2-eks-1"), "manifests/overlays/kubernetes-1.36": ("1.36.0", "v1.37.1+k3s1")}
# In the order in which a kustomization names them, which is that of the arguments.
COMPONENTS = {"sidecars": "sidecars.enabled=true", "topology": "topology.enabled=true", "startup-taint": "startupTaint.enabled=true",
              "startup-taint-policy": "startupTaint.enabled=true,startupTaint.policy=true",
              "pre-stop": "node.preStop.enabled=true", "gate": "node.gate.enabled=true", "networkpolicy": "networkPolicy.enabled=true",
              "host-network": "node.hostNetwork=true"}
# For hosts that are no nodes of the cluster: not of the installation.
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
    counts, newest = [], None
    for overlay, versions in OVERLAYS.items():
        minor = versions[0].split(".")[1]
        reader = f"{BIN}/older-{minor}"
        if not os.path.exists(reader):  # the newest, which decode reads
            newest = overlay
            continue
        chosen = tuple(c for c in COMPONENTS if c != "startup-taint-policy")
        for text in (combine(overlay, chosen), must(template(*values(*(COMPONENTS[c] for c in chosen)), version=versions[0]))):
            counts.append(f"1.{minor} {must(run(reader, text=text)).strip()}")
    check(len(counts) == 6 and newest == list(OVERLAYS)[-1], f"read by {counts}")
    overlays = list(OVERLAYS)
    for minor, newer in (("28", overlays[-2]), ("35", overlays[-1])):
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
            # SELinux lets spc_t alone connect to the socket of a privileged container; the controller's driver is none.
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
                                                       "monitoring.dashboard", "node.preStop", "topology")]
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
)


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
        if part.get("type") == "object" and "properties" in part and isinstance(value, dict) and at != ".affinity":
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
    with open(f"{ROOT}/test/kube/tools/go.mod", encoding="utf-8") as file:
        pins = dict(re.findall(r"external-(\w+)/v\d+ (v[0-9.]+)$", file.read(), flags=re.M))
    with open(f"{CHART}/values.yaml", encoding="utf-8") as file:
        text = file.read()
    for name, what in (("attacher", "csi-attacher"), ("provisioner", "csi-provisioner")):
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
    """Runs a row and prints what came of it; returns whether it has passed."""
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
