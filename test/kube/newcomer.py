"""The newcomer's way: the chart, from a cluster without any object of the driver to a pod with a volume, through an upgrade
and a rollback, and an uninstallation. The cluster has the same objects before and after. With UPDATE_DOCS=1 it writes the
transcript of test/reports/helm.md. It also runs the commands of docs/getting-started.md, from the first pod to the repair."""
import contextlib
import os
import re
import subprocess

import images
import page
from kube import BIN, BUILD, DIR, DPF, NODE, ROOT, Failed, find, until
from scenario import scenario

WORK = f"{DIR}/newcomer"
# What an installation could leave anywhere. Events go by themselves.
KINDS = ("all,crd,csidriver,storageclass,pv,pvc,volumeattachment,priorityclass,clusterrole,clusterrolebinding,role,rolebinding,serviceaccount,"
         "secret,configmap,pdb,networkpolicy,lease,controllerrevision,namespace,dpuvolume,dpuvolumeattachment")
POD = """apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  storageClassName: dpu
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 64Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: writer}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: writer
      image: docker.io/local/busybox:1
      command: [sh, -c, 'echo hello >/data/greeting; exec sleep infinity']
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
"""


class Shell:
    """A newcomer's terminal: commands as they are written in the page, and what they print."""

    def __init__(self, namespace):
        self.namespace, self.lines = namespace, []
        os.makedirs(WORK, exist_ok=True)
        with open(f"{DIR}/admin.kubeconfig", encoding="utf-8") as file:
            config = file.read().replace("user: user}", f"user: user, namespace: {namespace}}}")
        with open(f"{WORK}/kubeconfig", "w", encoding="utf-8") as file:
            file.write(config)

    def run(self, command, shown=True):
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=300, check=False, cwd=WORK, stdin=subprocess.DEVNULL,
                              env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "KUBECONFIG": f"{WORK}/kubeconfig", "HOME": WORK})
        said = "\n".join(line for line in (done.stdout + done.stderr).splitlines() if "found symbolic link" not in line)
        if done.returncode:
            raise Failed(f"$ {command}\n{said}")
        if shown:
            self.lines += ["", f"    $ {command}", *(f"    {line}".rstrip() for line in page.align(said, {}).splitlines() if said)]
        return said

    def say(self, text):
        self.lines += ["", text]


def prepare():
    """Images of the sidecars that start by themselves, values, the claim with its pod, and the chart where a newcomer has it."""
    programs = ("csi-provisioner", "csi-attacher")
    files = [(p, f"{BIN}/{p}") for p in programs] + [library for p in programs for library in images.libraries(f"{BIN}/{p}")]
    images.write(f"{WORK}/sidecars.tar", images.layer((), dict(files).items()), {f"localhost/{p}:test": [f"/{p}"] for p in programs})
    subprocess.run(["ctr", "-a", f"{DIR}/run/containerd.sock", "-n", "k8s.io", "images", "import", f"{WORK}/sidecars.tar"],
                   check=True, capture_output=True, timeout=300)
    with open(f"{ROOT}/test/kube/chart-pods.yaml", encoding="utf-8") as file:
        values = file.read()
    for word, path in (("@KUBELET@", f"{DIR}/kubelet"), ("@HOST@", f"{DIR}/sim/{NODE}"), ("@HELPER@", f"{ROOT}/test/lib/share/mount.snapsim")):
        values = values.replace(word, path)
    for name, text in (("values.yaml", values), ("pod.yaml", POD)):
        with open(f"{WORK}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    os.makedirs(f"{WORK}/charts", exist_ok=True)
    if not os.path.lexists(f"{WORK}/charts/snap-csi"):
        os.symlink(f"{ROOT}/charts/snap-csi", f"{WORK}/charts/snap-csi")


def story(shell):
    release = f"snap-csi charts/snap-csi -n {DPF} -f values.yaml"
    shell.say("The cluster before the installation:")
    shell.run(f"kubectl get {KINDS} -A -o name | sort >before; wc -l <before")
    shell.say("Install and wait. A node's pod is ready when kubelet has registered the driver:")
    shell.run(f"kubectl label --overwrite namespace {DPF} pod-security.kubernetes.io/enforce=privileged")
    shell.run(f"helm install {release} --wait --timeout 4m | grep -E '^(NAME|NAMESPACE|STATUS|REVISION):'")
    shell.run(f"kubectl get pods -n {DPF}")
    shell.run("kubectl get csidrivers,storageclasses -l app.kubernetes.io/instance=snap-csi")
    shell.say("The chart's own test creates a claim of the first StorageClass and a pod that writes a file to it, and removes both:")
    shell.run(f"helm test snap-csi -n {DPF} --timeout 4m | grep -E '^Phase:'")
    shell.say("A claim of 64 MiB and a pod that writes to it:")
    shell.run("kubectl apply -f pod.yaml")
    shell.run("kubectl wait --for=condition=Ready pod/writer --timeout=120s")
    shell.run("kubectl exec writer -- df -h /data")
    shell.run("kubectl get pvc,pv")
    shell.say("An upgrade with other values, and a rollback. The pod keeps running:")
    shell.run(f"helm upgrade {release} --set node.volumeMetrics=true --wait --timeout 4m | grep -E '^(STATUS|REVISION):'")
    shell.run(f"helm rollback snap-csi -n {DPF} --wait --timeout 4m")
    shell.run("kubectl exec writer -- cat /data/greeting")
    shell.say("Remove the pod and the claim, then the driver. The leases belong to the sidecars' leader election:")
    shell.run("kubectl delete -f pod.yaml")
    shell.run("kubectl wait --for=delete pv --all --timeout=120s")
    shell.run(f"kubectl get dpuvolumes,dpuvolumeattachments -n {DPF}")
    shell.run(f"helm uninstall snap-csi -n {DPF} --wait --timeout 4m")
    shell.run(f"kubectl delete lease -n {DPF} csi-snap-nvidia-com external-attacher-leader-csi-snap-nvidia-com")
    shell.run(f"kubectl label namespace {DPF} pod-security.kubernetes.io/enforce-")
    until("its pods are gone", lambda: not [p for p in find("Pod", DPF) if p["metadata"]["name"].startswith("snap-csi-")])
    shell.run(f"kubectl get {KINDS} -A -o name | sort >after; diff before after && echo the same")


def write(lines):
    path = f"{ROOT}/test/reports/helm.md"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    body = "\n".join(lines).strip("\n")
    text = re.sub(r"(?s)(<!-- transcript: begin -->\n).*(<!-- transcript: end -->)", lambda m: f"{m[1]}\n{body}\n\n{m[2]}", text)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def driver(what):
    """Takes away what manifests/ has installed for the other scenarios, or brings it back: its pods may need minutes."""
    subprocess.run([f"{ROOT}/test/kube/cluster.sh", what], check=True, stdout=subprocess.DEVNULL, timeout=600)


@scenario("a newcomer: the chart, a pod with a volume, an upgrade, and back to nothing", where="pods")
def _(ns):
    shell = Shell(ns)
    driver("pods-away")
    try:
        shell.run("kubectl delete lease -n dpf-operator-system --all", shown=False)
        prepare()
        # Objects of the earlier scenarios would exist at the beginning, and not at the end.
        until("the namespaces that are being deleted are gone", lambda: not [n for n in find("Namespace") if "deletionTimestamp" in n["metadata"]], 300)
        story(shell)
    finally:
        with contextlib.suppress(Failed):
            shell.run(f"helm uninstall snap-csi -n {DPF} --ignore-not-found --wait", shown=False)
        driver("pods-again")
        with open(f"{BUILD}/kube/newcomer.md", "w", encoding="utf-8") as file:
            file.write("\n".join(shell.lines))
    if os.environ.get("UPDATE_DOCS"):
        write(shell.lines)


@scenario("getting started: a pod with a volume, data that outlive it, a claim that is broken and repaired")
def _(ns):
    with open(f"{ROOT}/docs/getting-started.md", encoding="utf-8") as file:
        text = file.read()
    parts = re.findall(r"(?s)^### ([^\n]+)\n(.*?)(?=^##)", text, flags=re.M)
    blocks = {title: "".join(re.findall(r"(?s)^```sh\n(.*?)^```$", body, flags=re.M)) for title, body in parts}
    shell = Shell(ns)
    try:
        said = {title: shell.run(f"cd {ROOT} && set -e\n{blocks[title]}", shown=False)
                for title in ("A pod with a volume", "The data outlives the pod", "Break it", "Repair it")}
        if len(re.findall(r"UTC \d{4}$", said["The data outlives the pod"], flags=re.M)) != 2 or "Pending" not in said["Break it"]:
            raise Failed(str(said))
    finally:
        with contextlib.suppress(Failed):
            shell.run(f"cd {ROOT} && " + blocks["Stop"].replace("make cluster-down", "kubectl delete storageclass gold && "
                      f"kubectl delete dpustoragepolicy gold-policy -n {DPF}").replace("\n", "; "), shown=False)
