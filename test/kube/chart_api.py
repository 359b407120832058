"""The chart on a real API server without kubelet: installed, upgraded from each set of values to the next one, rolled back
and uninstalled; objects that cannot be changed; objects that kustomize has made. Rows of chart.py, run by api.sh."""
import glob
import json
import os
import re
import subprocess
import tempfile

import yaml

import chart_dpf
from api_lab import BIN, DIR, ROOT, Cluster, kubectl
from expect import check

CHART = f"{ROOT}/charts/snap-csi"
VALUES = sorted(glob.glob(f"{ROOT}/test/kube/chart/*.yaml"))
NAMESPACE = "dpf-operator-system"
# What Kubernetes itself makes and renews.
RESTLESS = ("events", "events.events.k8s.io", "leases.coordination.k8s.io")
# The kinds of others that the chart can make objects of.
FOREIGN = (("monitoring.coreos.com", "PodMonitor"), ("monitoring.coreos.com", "ServiceMonitor"),
           ("monitoring.coreos.com", "PrometheusRule"), ("security.openshift.io", "SecurityContextConstraints"))


def try_helm(*words):
    return subprocess.run([f"{BIN}/helm", f"--kubeconfig={DIR}/admin.kubeconfig", *words], capture_output=True, text=True, timeout=120,
                          check=False, cwd=ROOT, env={**os.environ, "HOME": DIR})


def helm(*words):
    done = try_helm(*words)
    check(done.returncode == 0, f"helm {' '.join(words[:4])}: {done.stderr[-1500:]}")
    return done.stdout


def install(*words, verb="install"):
    return helm(verb, "snap-csi", CHART, "-n", NAMESPACE, *words)


def refused(word, *words, verb="upgrade"):
    done = try_helm(verb, "snap-csi", CHART, "-n", NAMESPACE, *words)
    check(done.returncode, f"taken: {' '.join(words)}")
    check(word in done.stderr, f'"{word}" is not in: {done.stderr}')


def everything():
    """The names of all objects of the cluster, by kind."""
    kinds = [k for k in kubectl("api-resources", "--verbs=list", "-o", "name").split() if k not in RESTLESS]
    rows = kubectl("get", ",".join(kinds), "-A", "--no-headers", "-o",
                   "custom-columns=K:.kind,A:.apiVersion,NS:.metadata.namespace,NAME:.metadata.name")
    return {" ".join(line.split()) for line in rows.splitlines()}


def get(kind, name, *where):
    return json.loads(kubectl("get", kind, name, "-o", "json", *where))


def foreign_kinds():
    documents = []
    for group, kind in FOREIGN:
        plural = kind.lower() + ("" if kind.endswith("s") else "s")
        documents.append({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {
                "name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
            "spec": {"group": group, "scope": "Cluster" if "security" in group else "Namespaced",
                     "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": {
                         "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}})
    kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))
    kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")


# ---------------------------------------------------------------- rows
def life():
    """Install, upgrade to every value file and back, roll back, uninstall: each is taken, and nothing is left."""
    before = everything()
    install()
    first = everything()
    check(len(first - before) > 12, f"it made only {first - before}")
    spec = get("csidriver", "csi.snap.nvidia.com")["spec"]
    check(spec.get("seLinuxMount") is True and spec.get("nodeAllocatableUpdatePeriodSeconds") == 600
          and spec.get("preventPodSchedulingIfMissing") is True, f"the API server's version did not choose the fields: {spec}")
    for path in VALUES:
        said = install("-f", path, verb="upgrade")
        check("Warning" not in said, said)
    for path in reversed(VALUES):
        install("-f", path, verb="upgrade")
    install("--reset-values", verb="upgrade")  # without a word about values Helm keeps those of the last time
    again = {o for o in everything() if not o.startswith("Secret ")}
    missing, more = {o for o in first if not o.startswith("Secret ")} - again, again - first
    check(not missing and not more, f"after all upgrades there is not {missing}, but {more}")
    install("-f", f"{ROOT}/test/kube/chart/k0s.yaml", verb="upgrade")
    helm("rollback", "snap-csi", "-n", NAMESPACE)
    image = get("daemonset", "snap-csi-node", "-n", NAMESPACE)["spec"]["template"]["spec"]["containers"][0]["image"]
    check(image.startswith("localhost/snap-csi:"), f"after the rollback the image is {image}")
    helm("uninstall", "snap-csi", "-n", NAMESPACE)
    left = everything() ^ before
    check(not left, f"before and after differ: {left}")
    return f"{2 * len(VALUES) + 2} upgrades, {len(first - before)} objects made, none left"


def strict():
    """Each field that a value file renders is taken, without a warning."""
    # The pod of helm test needs its account, which a controller would make.
    kubectl("create", "serviceaccount", "default", "-n", NAMESPACE)
    for path in VALUES:
        text = helm("template", "snap-csi", CHART, "-n", NAMESPACE, "-f", path, "--kube-version", "1.36.0")
        done = subprocess.run([f"{BIN}/kubectl", f"--kubeconfig={DIR}/admin.kubeconfig", "apply", "--dry-run=server", "--validate=strict", "-f", "-"],
                              input=text, capture_output=True, text=True, timeout=120, check=False)
        check(done.returncode == 0 and "Warning" not in done.stderr, f"{os.path.basename(path)}: {done.stderr}")
    kubectl("delete", "serviceaccount", "default", "-n", NAMESPACE)
    return f"{len(VALUES)} value files"


def fixed_objects():
    """A StorageClass and a PriorityClass that would have to change: refused before anything is changed, with the way out."""
    one = ["--set-json", 'storageClasses=[{"name":"fast","policy":"p","kind":"nvme"}]', "--set", "priorityClass.create=true"]
    install(*one)
    version = get("deployment", "snap-csi-controller", "-n", NAMESPACE)["metadata"]["resourceVersion"]
    other = ["--set-json", 'storageClasses=[{"name":"fast","policy":"p","kind":"nvme","fsType":"xfs"}]', "--set", "controller.replicas=3"]
    refused("kubectl delete storageclass fast", *other)
    refused("kubectl delete priorityclass snap-csi", *one, "--set", "priorityClass.value=1,controller.replicas=3")
    now = get("deployment", "snap-csi-controller", "-n", NAMESPACE)["metadata"]["resourceVersion"]
    check(now == version, "a refused upgrade has changed the Deployment")
    kubectl("delete", "storageclass", "fast")
    kubectl("delete", "priorityclass", "snap-csi")
    install(*other, "--set", "priorityClass.create=true,priorityClass.value=1", verb="upgrade")
    check(get("storageclass", "fast")["parameters"]["csi.storage.k8s.io/fstype"] == "xfs", "the class is the old one")
    # What may change does.
    install(*other, "--set-json", 'storageClasses=[{"name":"fast","policy":"p","kind":"nvme","fsType":"xfs","mountOptions":["noatime"],"default":true}]',
            "--set", "topology.enabled=true", verb="upgrade")
    check(get("storageclass", "fast")["mountOptions"] == ["noatime"], "the options are the old ones")
    helm("uninstall", "snap-csi", "-n", NAMESPACE)


def pod_security():
    """A namespace whose Pod Security level refuses the node's pods: said before anything is made."""
    label = "pod-security.kubernetes.io/enforce"
    kubectl("label", "--overwrite", "namespace", NAMESPACE, f"{label}=baseline")
    refused(f"kubectl label --overwrite namespace {NAMESPACE} {label}=privileged", verb="install")
    check(not helm("list", "-n", NAMESPACE, "-q").strip(), "a release is there")
    kubectl("label", "--overwrite", "namespace", NAMESPACE, f"{label}=privileged")
    install()
    helm("uninstall", "snap-csi", "-n", NAMESPACE)
    kubectl("label", "namespace", NAMESPACE, f"{label}-")


def adoption():
    """What kubectl apply -k has made is refused, and with --take-ownership kept: no Deployment is made anew."""
    kubectl("apply", "-k", f"{ROOT}/manifests/overlays/kubernetes-1.36")
    objects = [("deployment", "snap-csi-controller", "-n", NAMESPACE), ("daemonset", "snap-csi-node", "-n", NAMESPACE), ("csidriver", "csi.snap.nvidia.com")]
    uids = [get(*o)["metadata"]["uid"] for o in objects]
    specs = [get(*o)["spec"] for o in objects]
    refused("cannot be imported", verb="install")
    # Objects of kubectl apply are changed by Helm's server-side apply only if it may take the fields over.
    install("--take-ownership", "--force-conflicts")
    check([get(*o)["metadata"]["uid"] for o in objects] == uids, "an object was made anew")
    check([get(*o)["spec"] for o in objects] == specs, "adopting has changed a spec: pods would be replaced")
    helm("uninstall", "snap-csi", "-n", NAMESPACE)


def broken():
    """An upgrade that is refused half-way, and one that is killed: after a rollback all is as before, and the next one goes."""
    before = everything()
    install()
    first = {o for o in everything() if not o.startswith("Secret ")}

    def as_before():
        now = {o for o in everything() if not o.startswith("Secret ")}
        check(now == first, f"before and after differ: {now ^ first}")
    # Policies are made, then the DaemonSet is refused.
    refused("Nope", "--set", "networkPolicy.enabled=true", "--set-json", 'node.extraVolumes=[{"name":"x","hostPath":{"path":"/x","type":"Nope"}}]')
    check(any(o.startswith("NetworkPolicy ") for o in everything()), "it was refused before anything was made")
    helm("rollback", "snap-csi", "-n", NAMESPACE)
    as_before()
    killed()
    refused("another operation")
    helm("rollback", "snap-csi", "-n", NAMESPACE)
    as_before()
    install("--reset-values", verb="upgrade")
    helm("uninstall", "snap-csi", "-n", NAMESPACE)
    left = everything() ^ before
    check(not left, f"before and after differ: {left}")


# ---------------------------------------------------------------- DPF and ArgoCD, played
def service_kinds():
    """Every object of manifests/examples/dpuservice is taken by DPF's kinds, each field of it, and their rules hold."""
    kubectl("apply", "-f", chart_dpf.SERVICE_KINDS)
    kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    found, patch = chart_dpf.examples()
    site = {"apiVersion": "svc.dpu.nvidia.com/v1alpha1", "kind": "DPUDeployment", "metadata": {"name": "hbn-snap", "namespace": NAMESPACE},
            "spec": {"dpus": {"bfb": "bf-bundle", "flavor": "hbn-snap"}, "services": {"doca-hbn": {"serviceTemplate": "doca-hbn", "serviceConfiguration": "doca-hbn"}}}}
    kubectl("apply", "-f", "-", text=json.dumps(site))
    kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", text=yaml.safe_dump_all(found.values()))
    kubectl("-n", NAMESPACE, "patch", "dpudeployment", "hbn-snap", "--type=merge", f"--patch-file={chart_dpf.EXAMPLES}/dpudeployment-patch.yaml")
    check(set(get("dpudeployment", "hbn-snap", "-n", NAMESPACE)["spec"]["services"]) == {"doca-hbn", *patch["spec"]["services"]}, "the patch")
    for change, word in (({"security": {"privileged": True}}, "security.privileged must not be set"), ({"interfaces": ["a"]}, "serviceID must be provided")):
        wrong = chart_dpf.merged(found["DPUService"], {"spec": change})
        done = subprocess.run([f"{BIN}/kubectl", f"--kubeconfig={DIR}/admin.kubeconfig", "apply", "--dry-run=server", "-f", "-"], input=json.dumps(wrong),
                              capture_output=True, text=True, timeout=60, check=False)
        check(done.returncode and word in done.stderr, f"{change}: {done.stderr or 'taken'}")
    return ", ".join(found)


def key_of(o):
    return o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]


def sync(before, after):
    """ArgoCD with pruning and self-heal: deletes what is no longer rendered, then applies what is."""
    kept = {key_of(o) for o in after}
    gone = [o for o in before if key_of(o) not in kept]
    if gone:
        kubectl("delete", "--wait=true", "-f", "-", text=yaml.safe_dump_all(gone))
    if after:
        kubectl("apply", "--server-side", "--force-conflicts", "--field-manager=argocd-controller", "-f", "-", text=yaml.safe_dump_all(after))
    return after


def go_plugin():
    """What DPF's chart makes of the Go plugin."""
    objects = []
    for part in ("csidriver", "rbac", "controller", "node"):
        objects += chart_dpf.documents(f"{ROOT}/test/kube/swap/{part}.yaml")
    for o in objects:
        if o["kind"] in ("Deployment", "DaemonSet", "ServiceAccount"):
            o["metadata"]["namespace"] = NAMESPACE
    return objects


def rendered():
    """What ArgoCD gets from the chart for the service as it is written in the API server: objects, or Helm's refusal."""
    service = chart_dpf.service_of(*(get(kind, "snap-csi-plugin", "-n", NAMESPACE) for kind in ("dpuservicetemplate", "dpuserviceconfiguration")))
    release, namespace = chart_dpf.release_of(service)
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="ascii") as file:
        json.dump(chart_dpf.argo_values(service), file)
        file.flush()
        done = try_helm("template", release, CHART, "-n", namespace, "-f", file.name, "--kube-version", "1.36.0")
    return (chart_dpf.without_hooks(o for o in yaml.safe_load_all(done.stdout) if o), None) if done.returncode == 0 else (None, done.stderr)


def chart_source():
    """The Go plugin as a service of DPF becomes this driver by the commands of docs/install/dpuservice.md, which change its chart source, and back."""
    with open(f"{ROOT}/docs/install/dpuservice.md", encoding="utf-8") as file:
        blocks = dict(re.findall(r"^<!-- run: (\w+) -->\n```sh\n(.*?)^```$", file.read(), flags=re.M | re.S))
    home = tempfile.mkdtemp(dir=DIR)
    os.symlink(f"{ROOT}/manifests", f"{home}/manifests")

    def run(name):
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", blocks[name]], cwd=home, capture_output=True, text=True, timeout=120, check=False,
                              env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "KUBECONFIG": f"{DIR}/admin.kubeconfig"})
        check(done.returncode == 0, f"block {name}: {done.stdout}{done.stderr}")
    metadata = {"name": "snap-csi-plugin", "namespace": NAMESPACE}
    # As DPF's guides have them, by kubectl apply.
    its = [{"apiVersion": "svc.dpu.nvidia.com/v1alpha1", "kind": "DPUServiceTemplate", "metadata": metadata, "spec": {
                "deploymentServiceName": "snap-csi-plugin", "helmChart": {"source": {"repoURL": "https://charts.example.com", "version": "v26.1.0", "chart": "dpf-storage"}}}},
           {"apiVersion": "svc.dpu.nvidia.com/v1alpha1", "kind": "DPUServiceConfiguration", "metadata": metadata, "spec": {
                "deploymentServiceName": "snap-csi-plugin", "upgradePolicy": {"applyNodeEffect": False}, "serviceConfiguration": {
                    "deployInCluster": True, "helmChart": {"values": {"host": {"snapCsiPlugin": {"enabled": True}}}}}}}]
    kubectl("apply", "-f", "-", text=yaml.safe_dump_all(its))
    theirs = sync([], go_plugin())
    uid = get("csidriver", "csi.snap.nvidia.com")["metadata"]["uid"]
    run("dpf_before")
    # A moment between the two objects: the chart refuses the other one's values, and ArgoCD changes nothing.
    replaced = chart_dpf.examples()[0]
    kubectl("replace", "-f", "-", text=json.dumps(replaced["DPUServiceTemplate"]))
    _, refusal = rendered()
    check(refusal and "'host' not allowed" in refusal, f"the chart takes the Go plugin's values: {refusal}")
    run("dpf_change")
    objects, refusal = rendered()
    check(objects, f"the chart refuses the values of the example: {refusal}")
    check(not {key_of(o) for o in objects} & {key_of(o) for o in theirs} - {("CSIDriver", "", "csi.snap.nvidia.com")}, "an object of both but the CSIDriver")
    sync(theirs, objects)
    check(get("csidriver", "csi.snap.nvidia.com")["metadata"]["uid"] == uid, "the CSIDriver was deleted")
    left = kubectl("get", "deployments,daemonsets,serviceaccounts", "-A", "-l", "app.kubernetes.io/name=snap-csi-plugin", "-o", "name").strip()
    check(not left, f"left of the Go plugin: {left}")
    generations = [get(kind, name, "-n", NAMESPACE)["metadata"]["generation"] for kind, name in (("daemonset", "snap-csi-node"), ("deployment", "snap-csi-controller"))]
    sync(objects, rendered()[0])
    again = [get(kind, name, "-n", NAMESPACE)["metadata"]["generation"] for kind, name in (("daemonset", "snap-csi-node"), ("deployment", "snap-csi-controller"))]
    check(generations == again, "a second sync changes the objects: ArgoCD would never be in sync")
    run("dpf_back")
    check(get("dpuservicetemplate", "snap-csi-plugin", "-n", NAMESPACE)["spec"] == its[0]["spec"], "the Go plugin's template is another one")
    check(get("dpuserviceconfiguration", "snap-csi-plugin", "-n", NAMESPACE)["spec"]["serviceConfiguration"] == its[1]["spec"]["serviceConfiguration"], "its values are other ones")
    sync(objects, go_plugin())
    check(get("csidriver", "csi.snap.nvidia.com")["metadata"]["uid"] == uid, "the CSIDriver was deleted on the way back")
    sync(go_plugin(), [])
    kubectl("delete", "crd", *(c["metadata"]["name"] for c in chart_dpf.documents(chart_dpf.SERVICE_KINDS)[0]["items"]))
    return f"{len(theirs)} objects of the Go plugin, {len(objects)} of this driver"


def killed():
    """Kills an upgrade halfway, when its record exists and before it is marked as complete."""
    for _ in range(30):
        with subprocess.Popen([f"{BIN}/helm", f"--kubeconfig={DIR}/admin.kubeconfig", "upgrade", "snap-csi", CHART, "-n", NAMESPACE,
                               "--set", "networkPolicy.enabled=true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env={**os.environ, "HOME": DIR}) as process:
            while process.poll() is None:
                if "sh.helm" in kubectl("get", "secret", "-n", NAMESPACE, "-l", "status=pending-upgrade", "-o", "name"):
                    process.kill()
        if "sh.helm" in kubectl("get", "secret", "-n", NAMESPACE, "-l", "status=pending-upgrade", "-o", "name"):
            return
        install("--reset-values", verb="upgrade")  # it was faster
    check(False, "no upgrade was met in its middle")


ROWS = [(f"API server: {function.__doc__[0].lower()}{function.__doc__[1:].rstrip('.')}", function)
        for function in (life, strict, fixed_objects, pod_security, adoption, broken, service_kinds, chart_source)]


def start():
    """An API server with DPF's kinds and nothing of the driver."""
    Cluster(["--allow-privileged", "--feature-gates=VolumeLimitScaling=true"])
    only = subprocess.run(["python3", f"{ROOT}/test/kube/only.py", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"],
                          input=subprocess.run([f"{BIN}/kubectl", "kustomize", f"{ROOT}/manifests/base"], capture_output=True, text=True, check=True).stdout,
                          capture_output=True, text=True, check=True).stdout
    kubectl("delete", "-f", "-", text=only)
    kubectl("delete", "storageclass", "--all")
    foreign_kinds()


def clean():
    """After a row that failed, for the next one."""
    try_helm("uninstall", "snap-csi", "-n", NAMESPACE)
    kubectl("delete", "storageclass", "--all")
    kubectl("delete", "priorityclass", "snap-csi", "--ignore-not-found")


__all__ = ["ROWS", "start", "clean"]
