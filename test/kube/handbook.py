#!/usr/bin/env python3
"""The named commands of the pages of docs, word for word and in a possible order of an operator: from the Go plugin's deployment
to ours while a pod writes, upgrade, support case, backup, back to the Go plugin, to ours again, and removal. Run by swap.sh
in its cluster, where the Go plugin's objects have our image. Prints a table and "handbook: N passed, N failed".

DPF has two ways to deploy the Go plugin: both parts are a service of a DPUDeployment (first way, a release named "swap"), or
only the node is, and the controller is the Helm release snap-csi-plugin (the way back and again). DPF and ArgoCD are
simulated here: removing the service from a DPUDeployment deletes the objects of the service. The Helm release is real.

A block is the text between ```sh and ``` after a line "<!-- run: NAME -->". It runs in its own folder, which has manifests/
and site/ as the page says; where the page has an overlay, site/ contains this cluster's settings (test/kube/pods)."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import kube
from kube import (DIR, DPF, DRIVER, NODE, ROOT, Failed, bound, claim, create, delete, find, get, gone, kubectl, pod, running,
                  shell, until)

NS = "handbook"
RELEASE = "swap"  # of the Go plugin's chart
HELM, SERVICE = "snap-csi-plugin", "snap-csi-plugin-x7k2p"  # its names by DPF's guide: the second has a random end
DEPLOYMENT = "storage"  # the DPUDeployment
TAGS = {"old": "test", "new": "test-new"}
IMAGES = ("localhost/snap-csi", "localhost/snap-csi-controller")
ROWS = []
PAGES = {}  # by name: those with named blocks
for path in sorted(glob.glob(f"{ROOT}/docs/**/*.md", recursive=True)):
    with open(path, encoding="utf-8") as page:
        text = page.read()
    # chart_api.py runs those of dpuservice.md, whose names begin with dpf_.
    if re.search(r"^<!-- run: (?!dpf_)", text, flags=re.M):
        PAGES[os.path.relpath(path, f"{ROOT}/docs")] = text
PAGE = "\n".join(PAGES.values())
NAMES = re.findall(r"^<!-- run: (\w+) -->$", PAGE, flags=re.M)
BLOCKS = dict(re.findall(r"^<!-- run: (\w+) -->\n```sh\n(.*?)^```$", PAGE, flags=re.M | re.S))
DONE = set()
HOME = tempfile.mkdtemp(prefix="snap-csi-handbook.")


def row(title):
    def add(function):
        ROWS.append((title, function))
        return function
    return add


def attempt(name, **other):
    """Runs a block; other values for its variables, as an operator would write them."""
    script = BLOCKS[name]
    for variable, value in other.items():
        script, found = re.subn(rf"^{variable}=.*$", f"{variable}={value}", script, flags=re.M)
        if found != 1:
            raise Failed(f"block {name} sets {variable} {found} times")
    return subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=HOME, capture_output=True, text=True, timeout=400, check=False,
                          stdin=subprocess.DEVNULL, env={**os.environ, "PATH": f"{HOME}/bin:{os.environ['PATH']}"})


def run(name, **other):
    """Runs a block and returns what it printed."""
    done = attempt(name, **other)
    if done.returncode:
        raise Failed(f"block {name}: exit status {done.returncode}: {done.stdout}{done.stderr}")
    DONE.add(name)
    return done.stdout


def site(tag=TAGS["old"], kubelet=f"{DIR}/kubelet"):
    """site/ for this cluster, in place of the page's."""
    made = kubectl("kustomize", "--load-restrictor=LoadRestrictionsNone", f"{ROOT}/test/kube/pods").stdout
    for old, new in (("/var/lib/kubelet", kubelet), ("path: /simulated-host", f"path: {DIR}/sim/{NODE}"),
                     ("path: /mount-helper", f"path: {ROOT}/test/lib/share/mount.snapsim")):
        made = made.replace(old, new)
    shutil.rmtree(f"{HOME}/site", ignore_errors=True)
    os.mkdir(f"{HOME}/site")
    with open(f"{HOME}/site/all.yaml", "w", encoding="utf-8") as out:
        out.write(made)
    with open(f"{HOME}/site/kustomization.yaml", "w", encoding="utf-8") as out:
        out.write("resources: [all.yaml]\nimages:\n" + "".join(f"- {{name: {name}, newTag: {tag}}}\n" for name in IMAGES))


def drivers():
    return sorted(d["name"] for d in get("CSINode", None, NODE)["spec"].get("drivers") or [])


def writes():
    """The pod that has run from the beginning still writes its disk and reads what it has written."""
    mark = f"{time.monotonic():.3f}"
    if shell(NS, "raw", f"echo {mark} | dd of=/dev/data bs=512 seek=8 conv=fsync,notrunc 2>/dev/null; "
                        "dd if=/dev/data bs=512 skip=8 count=1 2>/dev/null | head -n 1") != mark:
        raise Failed("the pod that has run all the time does not read what it wrote")
    if shell(NS, "raw", "head -c 4 /dev/data") != "kept":
        raise Failed("the data are gone")


def again():
    """The pod is deleted and re-created: detached, attached, and the data are intact."""
    delete("Pod", NS, "raw", 1)
    gone("Pod", NS, "raw")
    create(pod("raw", "raw", block=True), NS)
    running(NS, "raw")
    writes()


def apply(text, *more, verb="apply"):
    done = subprocess.run([f"{HOME}/bin/kubectl", verb, *more, "-f", "-"], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(done.stderr)


# ---------------------------------------------------------------- what DPF and ArgoCD would do
SVC = "svc.dpu.nvidia.com"
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {plural}.svc.dpu.nvidia.com}}
spec:
  group: svc.dpu.nvidia.com
  scope: Namespaced
  names: {{kind: {kind}, plural: {plural}, singular: {singular}}}
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema: {{openAPIV3Schema: {{type: object, properties: {{spec: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}}}}}
---"""
DPF_SERVICE = f"""
apiVersion: {SVC}/v1alpha1
kind: DPUDeployment
metadata: {{name: {DEPLOYMENT}, namespace: {DPF}}}
spec:
  services:
    doca-snap: {{serviceTemplate: doca-snap, serviceConfiguration: doca-snap}}
    {HELM}: {{serviceTemplate: {HELM}, serviceConfiguration: {HELM}}}
---
apiVersion: {SVC}/v1alpha1
kind: DPUServiceConfiguration
metadata: {{name: {HELM}, namespace: {DPF}}}
spec: {{deploymentServiceName: {HELM}, serviceConfiguration: {{deployInCluster: true}}}}
---
apiVersion: {SVC}/v1alpha1
kind: DPUServiceTemplate
metadata: {{name: {HELM}, namespace: {DPF}}}
spec: {{deploymentServiceName: {HELM}}}
"""


def dpf_service():
    """What makes the service: [] when nothing does any more."""
    made = kubectl("get", f"dpudeployments.{SVC},dpuserviceconfigurations.{SVC},dpuservicetemplates.{SVC}", "-n", DPF, "-o",
                   "jsonpath={range .items[*]}{.kind} {.metadata.name} {.spec.services}{'\\n'}{end}")
    if made.returncode or f"DPUDeployment {DEPLOYMENT} " not in made.stdout or "doca-snap" not in made.stdout:
        raise Failed(f"{made.stdout}{made.stderr}")
    return [line for line in made.stdout.splitlines() if HELM in line]


def begin_dpf():
    for kind in ("DPUDeployment", "DPUServiceConfiguration", "DPUServiceTemplate"):
        apply(CRD.format(kind=kind, singular=kind.lower(), plural=kind.lower() + "s"))
    until("DPF's kinds are served", lambda: not kubectl("get", f"dpudeployments.{SVC},dpuserviceconfigurations.{SVC},dpuservicetemplates.{SVC}", "-n", DPF).returncode)
    apply(DPF_SERVICE)


def objects(part):
    """The Go plugin's objects: all of one release, or those of the service and of the Helm release."""
    with open(f"{DIR}/{RELEASE}.yaml", encoding="utf-8") as text:
        every = text.read()
    if part == RELEASE:
        return every
    return "---\n".join(one.replace(f"{RELEASE}-{HELM}", part).replace(f"instance: {RELEASE}", f"instance: {part}")
                        for one in every.split("---\n") if one.strip() and ("kind: DaemonSet" in one) == (part == SERVICE))


def argocd_removes(part):
    if made := dpf_service():
        raise Failed(f"DPF would make it again: {made}")
    apply(objects(part), "-n", DPF, "--cascade=foreground", "--timeout=2m", verb="delete")


def go_plugin():
    """What DPF and ArgoCD do when they have the service again, beside the Helm release of DPF's guide."""
    if len(dpf_service()) != 3:
        raise Failed(f"DPF has only {dpf_service()}")
    os.makedirs(f"{HOME}/dpf-storage/templates")
    with open(f"{HOME}/dpf-storage/Chart.yaml", "w", encoding="utf-8") as out:
        out.write("{apiVersion: v2, name: dpf-storage, version: 1.0.0}\n")
    with open(f"{HOME}/dpf-storage/templates/all.yaml", "w", encoding="utf-8") as out:
        out.write(objects(HELM))
    done = subprocess.run([f"{HOME}/bin/helm", "install", "-n", DPF, HELM, f"{HOME}/dpf-storage"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(done.stderr)
    apply(objects(SERVICE), "-n", DPF)
    kube.rollout(f"deployment/{HELM}-controller", f"daemonset/{SERVICE}-node")
    until("the Go plugin's deployment is registered", lambda: DRIVER in drivers())


def still_there(*names):
    """The page's check refuses to continue and names these, and nothing else except their pods."""
    done = attempt("gone")
    said = done.stdout.partition("the Go plugin is still there:")[2].split()
    if not done.returncode or sorted(name for name in said if not name.startswith("Pod/")) != sorted(names):
        raise Failed(f"exit status {done.returncode}: {done.stdout}{done.stderr}")


def image(what):
    return get("Deployment", DPF, what)["spec"]["template"]["spec"]["containers"][0]["image"]


@row("site/kustomization.yaml of the page makes the overlay with the operator's image, also for another kubelet folder")
def _():
    overlay = r"^```yaml\n# {}site/kustomization\.yaml\n(.*?)^```$"
    (first,), (rest,), (secret,) = (re.findall(overlay.format(where), PAGE, flags=re.M | re.S)
                                    for where in ("", "at the end of ", "one of the patches of "))
    os.mkdir(f"{HOME}/page")
    os.mkdir(f"{HOME}/page/site")
    os.symlink(f"{ROOT}/manifests", f"{HOME}/page/manifests")
    version = subprocess.run([f"{ROOT}/packaging/version.sh"], capture_output=True, text=True, check=True).stdout.strip()
    for text, want in ((first, f"image: registry.example.com/snap-csi:{version}"), (first, f"image: registry.example.com/snap-csi-controller:{version}"),
                       (first + "patches:\n" + secret, "imagePullSecrets:\n      - name: my-registry"),
                       (first.replace(f"newTag: {version}", f"digest: sha256:{64 * 'a'}"), f"image: registry.example.com/snap-csi@sha256:{64 * 'a'}"),
                       (first + rest, "- --kubelet-dir=/var/lib/kubelet")):
        with open(f"{HOME}/page/site/kustomization.yaml", "w", encoding="utf-8") as out:
            out.write(text)
        made = kubectl("kustomize", f"{HOME}/page/site")
        if made.returncode or want not in made.stdout or (text.endswith(secret) and made.stdout.count("imagePullSecrets:") != 2):
            raise Failed(f"no {want}: {made.stdout}{made.stderr}")
        apply(made.stdout, "--dry-run=server")
    return "--kubelet-dir"


@row("the images of an overlay, and those of components/sidecars, are those of the page's list")
def _():
    made = run("images").split()
    os.mkdir(f"{HOME}/sidecars")
    with open(f"{HOME}/sidecars/kustomization.yaml", "w", encoding="utf-8") as out:
        out.write("resources: [../manifests/overlays/kubernetes-1.36]\ncomponents: [../manifests/components/sidecars]\n")
    more = set(re.findall(r"^ *image: (\S+)$", kubectl("kustomize", f"{HOME}/sidecars").stdout, flags=re.M))
    listed = re.findall(r"^\| (\S+:\S+) \| ", PAGES["install/air-gapped.md"], flags=re.M)
    if not set(made) < more or more != set(listed):
        raise Failed(f"manifests: {made}, with components/sidecars {more}; the page: {listed}")
    return ", ".join(listed)


@row("a pod with raw block in the Go plugin's deployment, a service of DPF; the service is taken away: the pod writes on")
def _():
    create(claim("raw", block=True), NS)
    create(pod("raw", "raw", block=True), NS)
    running(NS, "raw")
    shell(NS, "raw", "echo kept | dd of=/dev/data conv=fsync 2>/dev/null")
    run("before")
    csidriver = f"csidriver.storage.k8s.io/{DRIVER}"
    still_there(f"Deployment/{RELEASE}-{HELM}-controller", f"DaemonSet/{RELEASE}-{HELM}-node", csidriver)
    run("service", deployment=DEPLOYMENT)
    argocd_removes(RELEASE)
    run("gone")
    until("its driver is no longer registered", lambda: DRIVER not in drivers())
    left = [p["metadata"]["name"] for p in find("Pod", DPF) if p["metadata"]["name"].startswith(f"{RELEASE}-")]
    if left or get("CSIDriver", None, DRIVER) or get("ClusterRole", None, f"{RELEASE}-{HELM}-role"):
        raise Failed(f"left: {left or 'CSIDriver or role'}")
    writes()
    return f"registered: {drivers() or 'nothing'}"


@row("ours is installed: volumes and attachments are as before, no findings; the pod writes on, and ends and begins")
def _():
    site()
    run("namespace")
    run("install")
    until("the driver is registered", lambda: DRIVER in drivers())
    checked = run("check")
    if "FINDINGS: none" not in checked:
        raise Failed(checked)
    run("after")
    writes()
    again()
    create(claim("files"), NS)
    create(pod("files", "files"), NS)
    running(NS, "files")
    shell(NS, "files", "echo kept >/data/file && sync")
    return next(line for line in checked.splitlines() if line.startswith(NODE))


@row("the example's policy: the controller's account makes and deletes volumes of the driver, and writes no other PersistentVolume or VolumeAttachment")
def _():
    with open(f"{ROOT}/manifests/examples/account-policy/policy.yaml", encoding="utf-8") as file:
        policy = file.read()
    account = f"system:serviceaccount:{DPF}:snap-csi-controller"
    ours = {"csi": {"driver": DRIVER, "volumeHandle": "none"}}
    others = {"hostPath": {"path": "/"}, "csi": {"driver": f"x.{DRIVER}", "volumeHandle": "none"}}

    def volume(name, source):
        return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
                "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Mi"}, **source}}

    def write(verb, thing, *more):
        return subprocess.run([f"{HOME}/bin/kubectl", verb, f"--as={account}", "-f", "-", "--dry-run=server", *more], input=json.dumps(thing),
                              capture_output=True, text=True, check=False)

    def refused(verb, thing, *more):
        done = write(verb, thing, *more)
        if not done.returncode or "of csi.snap.nvidia.com alone" not in done.stderr:
            raise Failed(f"{verb} {' '.join(more)} of {thing} is not refused by the policy: {done.stdout}{done.stderr}")

    change = ("--type=merge", "--patch", '{"metadata":{"finalizers":["x.example/y"]}}')
    apply(policy)
    try:
        until("the policy is in force", lambda: "alone" in write("create", volume("policy", {"hostPath": {"path": "/"}})).stderr)
        for key, source in others.items():
            refused("create", volume("policy", {key: source}))
            made = volume(f"policy-{key.lower()}", {key: source})
            apply(json.dumps(made))
            refused("patch", made, *change)
            refused("delete", made)
            delete("PersistentVolume", None, made["metadata"]["name"])
        made = {"kind": "VolumeAttachment", "metadata": {"name": "policy"},
                "spec": {"attacher": f"x.{DRIVER}", "nodeName": NODE, "source": {"persistentVolumeName": "policy"}}}
        create(made)
        refused("patch", made, *change)
        refused("patch", made, "--subresource=status", "--type=merge", "--patch", '{"status":{"attached":true}}')
        delete("VolumeAttachment", None, "policy")
        done = write("create", volume("policy", ours))
        if done.returncode:
            raise Failed(f"a volume of the driver is refused: {done.stderr}")
        # The sidecars' whole life of a volume: made, bound, attached, detached, deleted.
        create(claim("ruled", block=True), NS)
        create(pod("ruled", "ruled", block=True), NS)
        running(NS, "ruled")
        name = bound(NS, "ruled")["metadata"]["name"]
        delete("Pod", NS, "ruled", 1)
        gone("Pod", NS, "ruled")
        until("it is detached", lambda: not [a for a in find("VolumeAttachment") if a["spec"]["source"]["persistentVolumeName"] == name])
        delete("PersistentVolumeClaim", NS, "ruled")
        gone("PersistentVolume", None, name)
    finally:
        apply(policy, verb="delete")
    return "hostPath and another driver's are refused"


@row("another kubelet folder than /var/lib/kubelet: the page's command makes what is right for this cluster, all of it")
def _():
    site(kubelet="/var/lib/kubelet")
    said = run("kubelet", kubelet=f"{DIR}/kubelet")
    # (A PodDisruptionBudget is "configured" by each apply.)
    changed = [line for line in said.splitlines() if not line.endswith("unchanged") and not line.startswith("poddisruptionbudget")]
    if changed:
        raise Failed(f"changed: {changed}")
    site()
    return f"{len(said.splitlines())} objects"


@row("upgrade to another tag and back: pods of the driver are new, pods with volumes are not")
def _():
    begun = {name: get("Pod", NS, name)["metadata"]["uid"] for name in ("raw", "files")}
    site(TAGS["new"])
    said = run("upgrade")
    if any(f"+        image: {name}:{TAGS['new']}" not in said for name in IMAGES) or not image("snap-csi-controller").endswith(TAGS["new"]):
        raise Failed(f"{image('snap-csi-controller')}: {said}")
    writes()
    run("undo")
    if not image("snap-csi-controller").endswith(":" + TAGS["old"]):
        raise Failed(image("snap-csi-controller"))
    site()
    writes()
    if begun != {name: get("Pod", NS, name)["metadata"]["uid"] for name in begun} or shell(NS, "files", "cat /data/file") != "kept":
        raise Failed("pods with volumes are not those of before")
    return "two rollouts"


@row("a support case: both archives have a report, the logs are there, no token is in any of it")
def _():
    run("bundle", node=NODE)
    said = []
    for name in ("controller", "node"):
        files = subprocess.run(["tar", "-tf", f"{HOME}/{name}.tar"], capture_output=True, text=True, check=True).stdout.split()
        if not any("report" in file for file in files):
            raise Failed(f"{name}.tar has {files}")
        said.append(f"{name}: {len(files)} files")
        for file in (f"{name}.tar", f"{name}.log"):
            with open(f"{HOME}/{file}", "rb") as content:
                held = content.read()
            if len(held) < 200 or b"eyJhbGciOi" in held:
                raise Failed(f"{file}: {len(held)} bytes, or a token in it")
    return ", ".join(said)


@row("a backup holds volumes, attachments, PersistentVolumes and claims")
def _():
    run("backup")
    volume = bound(NS, "raw")["spec"]["csi"]["volumeHandle"]
    for file, wanted in (("dpf-storage", (f"name: {volume}", f"name: {NODE}-{volume}", "kind: DPUStoragePolicy")),
                         ("volumes", (f"volumeHandle: {volume}", "kind: StorageClass", "kind: VolumeAttachment")),
                         ("claims", ("kind: PersistentVolumeClaim", f"volumeName: {volume}"))):
        with open(f"{HOME}/{file}.yaml", encoding="utf-8") as content:
            held = content.read()
        for want in wanted:
            if want not in held:
                raise Failed(f"{file}.yaml has no {want}")
    return volume


@row("back to the Go plugin's deployment, a Helm release and a service: the pod writes on, and ends and begins there; then ours again")
def _():
    delete("Pod", NS, "files", 1)
    gone("Pod", NS, "files")
    run("back")
    until("the driver is no longer registered", lambda: DRIVER not in drivers())
    writes()
    run("returned", deployment=DEPLOYMENT)
    go_plugin()
    writes()
    again()
    run("service", deployment=DEPLOYMENT)
    argocd_removes(SERVICE)
    still_there(f"Deployment/{HELM}-controller", f"csidriver.storage.k8s.io/{DRIVER}")
    run("release")
    until("the pods of the release are gone", lambda: attempt("gone").returncode == 0)
    run("gone")
    site()
    run("install")
    until("the driver is registered", lambda: DRIVER in drivers())
    writes()
    create(pod("files", "files"), NS)
    running(NS, "files")
    if shell(NS, "files", "cat /data/file") != "kept":
        raise Failed("the filesystem's data are gone")
    return "raw block both ways, a filesystem afterwards"


@row("uninstalled in the page's order: nothing of the driver is left but what the page says")
def _():
    if DRIVER not in run("users"):
        raise Failed("the lists do not show what is in use")
    for name in ("raw", "files"):
        delete("Pod", NS, name, 1)
    for name in ("raw", "files"):
        gone("Pod", NS, name)
        delete("PersistentVolumeClaim", NS, name)
    # The releases of the earlier tests have attachments of another driver's name; ours has no attachments.
    try:
        until("no volume is left", lambda: not re.search(rf"(?<!\.){re.escape(DRIVER)}", run("users")))
    except Failed as failure:
        raise Failed(f"{failure}; there are: {run('users')}") from None
    run("uninstall")
    until("the driver is no longer registered", lambda: DRIVER not in drivers())
    kinds = kubectl("api-resources", "--verbs=list", "-o", "name").stdout.split()
    labelled = kubectl("get", ",".join(k for k in kinds if not k.startswith("events")), "--all-namespaces", "-o", "name", "-l", "app.kubernetes.io/name=snap-csi")
    # Pods and what makes them go a moment later.
    left = until("the objects are gone", lambda: kubectl("get", ",".join(k for k in kinds if not k.startswith("events")), "--all-namespaces",
                                                         "-o", "name", "-l", "app.kubernetes.io/name=snap-csi").stdout == "" and "none")
    if labelled.returncode:
        raise Failed(labelled.stderr)
    leases = kubectl("get", "leases", "-n", DPF, "-o", "name").stdout.split()
    if [lease for lease in leases if lease.endswith(("/csi-snap-nvidia-com", "attacher-leader-csi-snap-nvidia-com"))] or get("CSIDriver", None, DRIVER):
        raise Failed(f"left: {leases}, or the CSIDriver")
    kept = os.listdir(f"{DIR}/kubelet/plugins/{DRIVER}")
    if get("DPUStoragePolicy", DPF, "example-policy") is None or not kept or find("DPUVolume", DPF):
        raise Failed(f"what should stay has gone, or the other way round: {kept}")
    return f"objects: {left}; on the node: {', '.join(sorted(kept))}"


@row("every block of the page was run")
def _():
    every = re.findall(r"^```sh$", PAGE, flags=re.M)
    if DONE != set(BLOCKS) or len(every) != len(BLOCKS) or len(NAMES) != len(BLOCKS):
        raise Failed(f"not run: {sorted(set(BLOCKS) - DONE)}; {len(every)} blocks, {len(BLOCKS)} of them with a name of its own, {len(NAMES)} names")
    return f"{len(BLOCKS)} blocks"


def main():
    os.mkdir(f"{HOME}/bin")
    for name in ("kubectl", "helm"):
        with open(f"{HOME}/bin/{name}", "w", encoding="utf-8") as out:
            out.write(f'#!/bin/sh\nHOME={HOME} exec {kube.BIN}/{name} --kubeconfig={DIR}/admin.kubeconfig "$@"\n')
        os.chmod(f"{HOME}/bin/{name}", 0o755)
    os.symlink(f"{ROOT}/manifests", f"{HOME}/manifests")
    begin_dpf()
    kube.api.call("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})
    until("the namespace's account", lambda: kube.api.call("GET", f"/api/v1/namespaces/{NS}/serviceaccounts/default")[0] == 200)
    results = []
    try:
        for title, function in ROWS:
            began = time.monotonic()
            try:
                got, passed = function(), True
            except Exception as failure:  # pylint: disable=broad-except
                got, passed = f"{type(failure).__name__}: {failure}", False
            results.append(passed)
            print(f"{'ok  ' if passed else 'FAIL'} {time.monotonic() - began:5.1f} s  {title}\n             {got}", flush=True)
    finally:
        shutil.rmtree(HOME)
    print(f"handbook: {sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
