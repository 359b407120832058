# SPDX-License-Identifier: Apache-2.0
"""A host without kubelet: `snap-csi-plugin host`, from the file of an attachment to files on each kind of device, and back."""
import json

from plugged import PluggedDisk, PluggedShare, addresses
from scenario import scenario
from world import DRIVER_FLAGS


def host(w, command, check=True):
    """One command; its output. Without `check` its exit status, too."""
    flags = " ".join(f for f in f"{DRIVER_FLAGS} {w.driver_flags}".split() if "pci-vendor" in f or "snap-controller" in f)
    return w.vm.sh(f"/host/driver host {command} {flags} --state-dir=/run/snap-csi/host", timeout=120, check=check)


def attachment(w, name, pf, dpu):
    """Writes the file of an attachment as kubectl prints it; its path in the guest."""
    condition = {"type": "Ready", "status": "True", "reason": "Success", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    text = json.dumps({"apiVersion": "storage.dpu.nvidia.com/v1alpha1", "kind": "DPUVolumeAttachment",
                       "metadata": {"name": f"guest-{name}", "namespace": "dpf-operator-system", "generation": 1},
                       "spec": {"dpuNodeName": "guest", "dpuVolumeName": name, "functionType": "pf" if pf else "vf", "hotplugFunction": pf},
                       "status": {"dpuAttached": True, "dpu": dpu, "conditions": [condition]}}, indent=2)
    w.vm.sh(f"cat >/tmp/{name}.json <<'END'\n{text}\nEND")
    return f"/tmp/{name}.json"


def life(w, name, path, options, kept):
    """Attached twice, held, detached, attached again: one mount, the holder is named, the data are intact."""
    point = f"/srv/{name}"
    for _ in range(2):
        said = host(w, f"attach -f {path} --mount {point} {options}")
        w.check(said.splitlines()[-1] == point, f"attach says {said}")
    w.check(len(w.mounts(point)) == 1, f"mounts: {w.mounts(point)}")
    w.vm.sh(f"echo kept >{point}/kept; sync; sleep 600 </dev/null >/dev/null 2>&1 9<{point}/kept & echo $! >/tmp/holder.pid")
    status, said = host(w, f"detach {name} --timeout 10", check=False)
    holder = w.vm.sh("cat /tmp/holder.pid")
    w.check(status == 1 and (not kept or f"pid {holder}" in said), f"detach of a volume in use: {status}, {said}")
    w.vm.sh("kill $(cat /tmp/holder.pid); sleep 0.2")
    w.check(f'"{name}"' in host(w, "list -o json"), "it is not listed")
    host(w, f"detach {name}")
    w.check(not w.mounts(point), f"mounts after detach: {w.mounts(point)}")
    host(w, f"attach -f {path} --mount {point}")
    w.check(w.vm.sh(f"cat {point}/kept") == "kept", "the data is lost")
    host(w, f"detach -f {path}")


@scenario("multipath", "newer")
def host_with_vf(w):
    """a host without kubelet: a volume on a VF is mounted from a file, and made a disk; what is not ready waits"""
    ns = w.ns["a"]
    path = attachment(w, "data-1", False, {"pciAddress": w.vf(0), "nvmeAttrs": {"namespaceID": ns.nsid, "namespaceUUID": ns.uuid}})
    status, said = host(w, f"attach -f {path} --timeout 3", check=False)
    w.check(status == 1, f"attach of what is not there: {status}, {said}")
    w.attach(ns, 0)
    host(w, "check", check=False)
    life(w, "data-1", path, "--fstype xfs --format blank", True)
    link = host(w, f"attach -f {path}").splitlines()[-1]
    w.check(link == "/dev/snap-csi/data-1", f"attach says {link}")
    w.check(w.vm.sh(f"readlink -f {link}") == w.device_of(ns), "the link leads elsewhere")
    host(w, "detach data-1")
    w.detach(ns, 0)
    w.blank("a")


@scenario("hotplug")
def host_with_plugged(w):
    """a host without kubelet: a volume on a hot-plugged function is mounted from a file"""
    disk = PluggedDisk(w, "host", 64)
    path = attachment(w, "plugged-1", True, {"pciAddress": addresses(w)[1], "nvmeAttrs": {"namespaceID": 1}})
    disk.plug(1)
    life(w, "plugged-1", path, "--format blank", True)
    disk.unplug(addresses(w)[1])


@scenario("shares", "shares-newer")
def host_with_share(w):
    """a host without kubelet: a virtio-fs volume is mounted from a file"""
    share = PluggedShare(w, "host")
    share.plug(1)
    path = attachment(w, "share-1", True, {"pciAddress": share.address, "virtioFSAttrs": {"filesystemTag": share.tag}})
    life(w, "share-1", path, "", False)
    share.unplug()
