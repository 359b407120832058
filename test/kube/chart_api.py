"""The chart on a real API server without kubelet: installed, upgraded from each set of values to the next one, rolled back
and uninstalled; objects that cannot be changed; objects that kustomize has made. Rows of chart.py, run by api.sh."""
import glob
import json
import os
import subprocess

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
    for path in VALUES:
        text = helm("template", "snap-csi", CHART, "-n", NAMESPACE, "-f", path, "--kube-version", "1.36.0")
        done = subprocess.run([f"{BIN}/kubectl", f"--kubeconfig={DIR}/admin.kubeconfig", "apply", "--dry-run=server", "--validate=strict", "-f", "-"],
                              input=text, capture_output=True, text=True, timeout=120, check=False)
        check(done.returncode == 0 and "Warning" not in done.stderr, f"{os.path.basename(path)}: {done.stderr}")
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


def killed():
    """Kills an upgrade in its middle, when its record is there and before it says that it is done."""
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
        for function in (life, strict, fixed_objects, pod_security, adoption, broken)]


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
