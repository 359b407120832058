"""Scenarios of volumes on functions that the DPU hot-plugs: their life, and functions that come late, move, or vanish
under a pod."""
import time

from kube import (DPF, Failed, claim, create, delete, event_with, fault, find, get, gone, heal, mounts, pod, running, second_node,
                  shell, sim, until, volume_of)
from scenario import scenario

CLASS = "snap-nvme-hotplug"


def address_of(volume):
    """Where DPF says that the volume's function is; "" while it says nothing, None without an attachment."""
    of = [a for a in find("DPUVolumeAttachment", DPF) if a["spec"]["dpuVolumeName"] == volume]
    return of[0].get("status", {}).get("dpu", {}).get("pciAddress", "") if of else None


def end(ns, *names):
    for name in names:
        delete("Pod", ns, name)
    for name in names:
        gone("Pod", ns, name, 60)


def detached(volume):
    until("the volume is detached", lambda: address_of(volume) is None, 60)


@scenario("hot-plugged NVMe: data outlive the pod; the next one finds them on another function, which comes late")
def _(ns):
    for name, block in (("files", False), ("raw", True)): # one after the other, so that the owner of the first slot is known
        create(claim(name, CLASS, block=block), ns)
        create(pod(name, name, block=block), ns)
        running(ns, name)
    shell(ns, "files", "echo kept >/data/file && sync && grep -q ' /data ext4 ' /proc/mounts")
    shell(ns, "raw", "echo kept | dd of=/dev/data conv=fsync 2>/dev/null")
    volumes = {name: volume_of(ns, name) for name in ("files", "raw")}
    before = {name: address_of(volume) for name, volume in volumes.items()}
    kinds = {(a["spec"]["functionType"], a["spec"]["hotplugFunction"]) for a in find("DPUVolumeAttachment", DPF)}
    if kinds != {("pf", True)}:
        raise Failed(f"attached as {kinds}")
    end(ns, "files", "raw")
    for volume in volumes.values():
        detached(volume)
    # In the other order, so that each gets the slot of the other; the address is 00:00.0 first, and the function appears even
    # later.
    fault(dpf="pci-zero-first", name=".*", ms=2000)
    fault(dpf="device-late", name=".*", ms=4000)
    for name, block in (("raw", True), ("files", False)):
        create(pod(name, name, block=block), ns)
        until("it is attached", lambda volume=volumes[name]: address_of(volume) not in (None, "", "0000:00:00.0", "00:00.0"))
    running(ns, "files")
    running(ns, "raw")
    heal()
    if {name: address_of(volume) for name, volume in volumes.items()} == before:
        raise Failed(f"they are where they were: {before}, which shows nothing")
    if shell(ns, "files", "cat /data/file") != "kept" or shell(ns, "raw", "head -c 4 /dev/data") != "kept":
        raise Failed("the data are not there")


@scenario("hot-plugged NVMe on two nodes: a volume goes from one to the other with its data; both have a raw block")
def _(ns):
    create(claim("files", CLASS), ns)
    create(claim("both", CLASS, mode="ReadWriteMany", block=True), ns)
    with second_node():
        create(pod("files", "files", on="n1"), ns)
        for node in ("n1", "n2"):
            create(pod(f"raw-{node}", "both", block=True, on=node), ns)
        running(ns, "files")
        shell(ns, "files", "echo kept >/data/file && sync")
        end(ns, "files")
        create(pod("moved", "files", on="n2"), ns)
        running(ns, "moved")
        if shell(ns, "moved", "cat /data/file") != "kept":
            raise Failed("the data are not there")
        running(ns, "raw-n1")
        running(ns, "raw-n2")
        shell(ns, "raw-n1", "echo both | dd of=/dev/data conv=fsync 2>/dev/null")
        if shell(ns, "raw-n2", "head -c 4 /dev/data") != "both":
            raise Failed("the other node reads something else")
        end(ns, "moved", "raw-n1", "raw-n2")


@scenario("a hot-plugged function vanishes under its pods: they can be deleted, nothing stays Terminating, the data come back")
def _(ns):
    for name, block in (("files", False), ("raw", True)):
        create(claim(name, CLASS, block=block), ns)
        create(pod(name, name, block=block), ns)
    running(ns, "files")
    running(ns, "raw")
    shell(ns, "files", "echo kept >/data/file && sync")
    shell(ns, "raw", "echo kept | dd of=/dev/data conv=fsync 2>/dev/null")
    volumes = [volume_of(ns, name) for name in ("files", "raw")]
    for volume in volumes:
        sim("POST", "/sim/unplug", {"volume": volume})
    # No other pod gets the dead device, and its error says why.
    create(pod("beside", "files"), ns)
    print("      ", event_with(ns, "beside", "no longer exists", 60)[:300])
    end(ns, "files", "raw", "beside")
    until("nothing is mounted any more", lambda: not mounts(), 60)
    for volume in volumes:
        detached(volume)
    for name, block in (("files", False), ("raw", True)):
        create(pod(f"{name}-again", name, block=block), ns)
    running(ns, "files-again")
    running(ns, "raw-again")
    if shell(ns, "files-again", "cat /data/file") != "kept" or shell(ns, "raw-again", "head -c 4 /dev/data") != "kept":
        raise Failed("the data are not there")


@scenario("a hot-plugged function is away when the pod comes, and appears in another slot: the pod waits, then runs")
def _(ns):
    create(claim("moves", CLASS), ns)
    create(pod("moves", "moves", script="echo first >/data/file; sync; exec sleep infinity"), ns)
    running(ns, "moves")
    volume = volume_of(ns, "moves")
    end(ns, "moves")
    detached(volume)
    # The kernel binds nothing for now, so that the pod cannot be ready before the function is taken away.
    fault(dpf="bind-ignored", name=f"^{volume}$")
    create(pod("moved", "moves"), ns)
    until("it is attached", lambda: address_of(volume))
    sim("POST", "/sim/unplug", {"volume": volume})
    heal()
    time.sleep(4)  # the driver waits for it during this time; kubelet would report it only after two minutes
    if get("Pod", ns, "moved")["status"]["phase"] != "Pending":
        raise Failed("the pod does not wait")
    sim("POST", "/sim/plug", {"volume": volume, "slot": 1})
    running(ns, "moved", 150)
    if shell(ns, "moved", "cat /data/file") != "first":
        raise Failed("the data are not there")
    end(ns, "moved")
