"""Scenarios of virtio-fs: directories that the DPU shares, without and next to volumes on NVMe functions."""
from hotplug import address_of, detached, end
from kube import (DPF, DRIVER, NODE, ROOT, Failed, apply, claim, create, delete, event_with, find, get, gone, kubectl, mounts, pod,
                  pod_spec, running, second_node, shell, sim, until, volume_of)
from scenario import scenario

CLASS = "snap-virtiofs"
USER = {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 2345}


def owners(ns, name, *files):
    return shell(ns, name, f"stat -c %g {' '.join(files)} | sort -u")


def modes_of(volume):
    spec = get("DPUVolume", DPF, volume)["spec"]
    return spec["volumeMode"], spec["accessModes"]


@scenario("virtio-fs, ReadWriteMany: manifests/examples' Deployment on two nodes; fsGroup leaves the volume's group alone")
def _(ns):
    with open(f"{ROOT}/manifests/examples/shared.yaml", encoding="utf-8") as file:
        text = file.read().replace("debian:bookworm-slim", "docker.io/local/busybox:1")
    text = text.replace("ScheduleAnyway", "DoNotSchedule")
    with second_node():
        apply(text, "-n", ns)
        done = kubectl("rollout", "status", "-n", ns, "deployment/shared", "--timeout=110s")
        if done.returncode:
            raise Failed(done.stdout + done.stderr)
        names = {p["spec"]["nodeName"]: p["metadata"]["name"] for p in find("Pod", ns)}
        volume = volume_of(ns, "shared")
        if sorted(names) != ["n1", "n2"] or modes_of(volume) != ("Filesystem", ["ReadWriteMany"]):
            raise Failed(f"pods {names}, volume {modes_of(volume)}")
        for name in names.values():
            until(f"{name} sees the files of both", lambda name=name: shell(ns, name, "ls /data").split() == sorted(names.values()), 30)
        # One writes what the other reads, and they append to one file.
        for _ in range(5):
            for name in names.values():
                shell(ns, name, "echo x >>/data/both")
        if {shell(ns, name, "wc -l </data/both") for name in names.values()} != {"10"}:
            raise Failed("lines are lost")
        create(pod("group", "shared", security={**USER, "runAsUser": 0}), ns)
        running(ns, "group")
        if owners(ns, "group", "/data", "/data/both") != "0":
            raise Failed(f"kubelet has changed the group: {shell(ns, 'group', 'ls -ln /data')}")
        kubectl("delete", "deployment", "-n", ns, "shared", "--cascade=foreground")
        end(ns, "group", *names.values())
        detached(volume)
    create(pod("later", "shared", read_only=True), ns)
    running(ns, "later")
    if shell(ns, "later", "wc -l </data/both") != "10" or "Read-only" not in shell(ns, "later", "touch /data/x", ok=False):
        raise Failed("the data are not there, or not read-only")
    end(ns, "later")


@scenario("virtio-fs, ReadWriteOnce: an ordinary user writes, the volume belongs to the fsGroup; data outlive the pod; subPath")
def _(ns):
    create(claim("once", CLASS), ns)
    create(pod("once", "once", security=USER), ns)
    running(ns, "once")
    if modes_of(volume_of(ns, "once")) != ("Filesystem", ["ReadWriteOnce"]):
        raise Failed(f"{modes_of(volume_of(ns, 'once'))}")
    shell(ns, "once", "echo kept >/data/file && mkdir /data/left && echo left >/data/left/who && sync")
    if owners(ns, "once", "/data", "/data/file", "/data/left/who") != "2345":
        raise Failed(f"another group: {shell(ns, 'once', 'ls -lan /data')}")
    end(ns, "once")
    for name in ("left", "right"):
        create(pod(name, "once", sub_path=name), ns)
    for name in ("left", "right"):
        running(ns, name)
    shell(ns, "right", "echo right >/data/who")
    create(pod("all", "once", read_only=True), ns)
    running(ns, "all")
    if shell(ns, "all", "cat /data/file /data/left/who /data/right/who") != "kept\nleft\nright" or shell(ns, "left", "cat /data/who") != "left":
        raise Failed("the folders are not those of the pods")


@scenario("virtio-fs, ReadOnlyMany: a volume that one pod filled is read on two nodes; ReadWriteOncePod: one pod only")
def _(ns):
    create(claim("fill", CLASS, mode="ReadWriteMany"), ns)
    create(pod("fill", "fill"), ns)
    running(ns, "fill")
    shell(ns, "fill", "echo kept >/data/file && sync")
    volume = volume_of(ns, "fill")
    end(ns, "fill")
    create({"kind": "PersistentVolume", "metadata": {"name": f"read-{ns}"},
            "spec": {"capacity": {"storage": "64Mi"}, "accessModes": ["ReadOnlyMany"], "storageClassName": "by-hand",
                     "persistentVolumeReclaimPolicy": "Retain", "csi": {"driver": DRIVER, "volumeHandle": volume}}})
    create(claim("read", "by-hand", mode="ReadOnlyMany", volume=f"read-{ns}"), ns)
    with second_node():
        for node in ("n1", "n2"):
            create(pod(node, "read", on=node), ns)
        for node in ("n1", "n2"):
            running(ns, node)
            if shell(ns, node, "cat /data/file") != "kept" or "Read-only" not in shell(ns, node, "touch /data/x", ok=False):
                raise Failed(f"the data are not there on {node}, or not read-only")
        end(ns, "n1", "n2")
        detached(volume)
    delete("PersistentVolumeClaim", ns, "read")
    delete("PersistentVolume", None, f"read-{ns}")
    create(claim("single", CLASS, mode="ReadWriteOncePod"), ns)
    create(pod("one", "single"), ns)
    running(ns, "one")
    create(pod("two", "single"), ns)
    event_with(ns, "two", "ReadWriteOncePod")
    end(ns, "one", "two")


@scenario("all three kinds in one pod: a VF, a hot-plugged NVMe function and virtio-fs; the next pod finds all data")
def _(ns):
    kinds = {"vf": "snap-nvme", "hot": "snap-nvme-hotplug", "share": CLASS}
    for name, storage_class in kinds.items():
        create(claim(name, storage_class, mode="ReadWriteMany" if name == "share" else "ReadWriteOnce", block=name == "hot"), ns)

    def use(name):
        volumes = [{"name": kind, "persistentVolumeClaim": {"claimName": kind}} for kind in kinds]
        create({"kind": "Pod", "metadata": {"name": name}, "spec": pod_spec(
            [{"name": "vf", "mountPath": "/vf"}, {"name": "share", "mountPath": "/share", "subPath": "part"}],
            [{"name": "hot", "devicePath": "/dev/hot"}], volumes)}, ns)
        running(ns, name)
    use("first")
    shell(ns, "first", "echo vf >/vf/file; echo share >/share/file; echo hot | dd of=/dev/hot conv=fsync 2>/dev/null; sync")
    types = shell(ns, "first", "grep -e ' /vf ' -e ' /share ' /proc/mounts | while read a b c d; do echo $b $c; done").splitlines()
    if sorted(types) != ["/share fuse.virtiofs", "/vf ext4"]:
        raise Failed(f"mounted are {types}")
    end(ns, "first")
    use("second")
    if shell(ns, "second", "cat /vf/file /share/file; head -c 3 /dev/hot") != "vf\nshare\nhot":
        raise Failed("the data are not there")
    end(ns, "second")


def lost(ns, volume, *names):
    """The volume is no longer served; its pods end anyway, and leave nothing."""
    shell(ns, names[0], "cat /data/file", ok=False)
    end(ns, *names)
    until("nothing is mounted any more", lambda: not mounts(), 60)
    detached(volume)


@scenario("a virtio-fs device vanishes under its pods, or its daemon dies: they can be deleted, the data come back")
def _(ns):
    create(claim("lost", CLASS, mode="ReadWriteMany"), ns)
    for name in ("lost", "also"):
        create(pod(name, "lost", sub_path="part" if name == "also" else None), ns)
    for name in ("lost", "also"):
        running(ns, name)
    shell(ns, "lost", "echo kept >/data/file && sync")
    volume = volume_of(ns, "lost")
    sim("POST", "/sim/unplug", {"volume": volume})
    lost(ns, volume, "lost", "also")
    create(pod("again", "lost"), ns)
    running(ns, "again")
    if shell(ns, "again", "cat /data/file") != "kept":
        raise Failed("the data are not there")
    sim("POST", "/sim/share", {"volume": volume, "node": NODE, "do": "kill"})
    lost(ns, volume, "again")
    create(pod("last", "lost"), ns)
    running(ns, "last")
    if shell(ns, "last", "cat /data/file") != "kept":
        raise Failed("the data are not there")
    end(ns, "last")


@scenario("what virtio-fs cannot be is refused in the claim's events: a raw block, a filesystem to make")
def _(ns):
    create({"kind": "StorageClass", "metadata": {"name": "xfs-share"}, "provisioner": DRIVER,
            "parameters": {"policy": "example-policy", "csi.snap.nvidia.com/emulation": "virtiofs", "csi.storage.k8s.io/fstype": "xfs"}})
    try:
        create(claim("raw", "snap-virtiofs-now", block=True), ns)
        create(claim("xfs", "xfs-share"), ns)
        for name, words in (("raw", "write volumeMode: Filesystem"), ("xfs", "csi.storage.k8s.io/fstype: virtiofs")):
            print("      ", event_with(ns, name, words, 60)[:400])
    finally:
        delete("StorageClass", None, "xfs-share")
