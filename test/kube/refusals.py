"""Scenarios of what DPF and the DPU refuse, as a user sees it: in the events of claims and pods."""
import time

import page
from kube import (DPF, DRIVER, Failed, bound, claim, create, delete, driver_with, event_with, fault, find, heal, pod, running,
                  until)
from scenario import scenario


@scenario("DPF refuses (vendor full): our text is in the claim's events, and it heals")
def _(ns):
    with driver_with("--wait-timeout=3s"):
        fault(dpf="volume-failure", name=".*")
        create(claim("full", "snap-nvme-now"), ns)
        print("      ", event_with(ns, "full", "ResourceExhausted desc = no space left on lvstore", 60)[:600])
        page.show_events("The vendor is full (the driver waits 110 s, here 3 s)", "kubectl describe pvc full", "pvc", ns, "full")
        heal()
        bound(ns, "full", 150)


@scenario("the DPU refuses to attach: our text is in the pod's events, and it heals")
def _(ns):
    with driver_with("--wait-timeout=3s"):
        fault(dpf="attachment-failure", name=".*", text="no NVMe controller left on the DPU")
        create(claim("refused"), ns)
        create(pod("refused", "refused"), ns)
        print("      ", event_with(ns, "refused", "no NVMe controller left on the DPU", 60)[:400])
        page.show_events("The DPU refuses to attach (the driver waits 110 s, here 3 s)", "kubectl describe pod refused", "pod", ns,
                         "refused")
        heal()
        running(ns, "refused", 150)


@scenario("a slow DPU: claim and pod wait for it, with one volume and one attachment")
def _(ns):
    fault(dpf="volume-never-bound", name=".*", text="the vendor is busy")
    create(claim("slow"), ns)
    create(pod("slow", "slow"), ns)
    volume = until("there is a DPUVolume", lambda: find("DPUVolume", DPF))[0]["metadata"]["uid"]
    time.sleep(5)  # nothing is visible during this time, in which the DPU does nothing
    heal()
    fault(dpf="attachment-never-ready", name=".*", text="the DPU is busy")
    bound(ns, "slow")
    attachment = until("there is a DPUVolumeAttachment", lambda: find("DPUVolumeAttachment", DPF))[0]["metadata"]["uid"]
    time.sleep(5)
    heal()
    running(ns, "slow")
    made = [o["metadata"]["uid"] for kind in ("DPUVolume", "DPUVolumeAttachment") for o in find(kind, DPF)]
    if made != [volume, attachment]:
        raise Failed("volume or attachment were made anew")


@scenario("slower than --wait-timeout, or a policy that is not there: the events say what is waited for, and it heals")
def _(ns):
    create({"kind": "StorageClass", "metadata": {"name": "no-policy"}, "provisioner": DRIVER,
            "parameters": {"policy": "no-such-policy"}})
    try:
        with driver_with("--wait-timeout=3s"):
            fault(dpf="attachment-never-ready", name=".*", text="the DPU is busy")
            create(claim("slower"), ns)
            create(pod("slower", "slower"), ns)
            create(claim("unmade", "no-policy"), ns)
            print("      ", event_with(ns, "slower", "the DPU is busy", 60)[:400])
            page.show_events("The DPU takes longer than the driver waits (110 s, here 3 s)", "kubectl describe pod slower", "pod", ns,
                             "slower")
            print("      ", event_with(ns, "unmade", "no-such-policy not found", 60)[:400])
            page.show_events("The StorageClass names a policy that is not there", "kubectl describe pvc unmade", "pvc", ns, "unmade")
            heal()
            create({"kind": "DPUStoragePolicy", "metadata": {"name": "no-such-policy"},
                    "spec": {"dpuStorageVendors": ["example-vendor"]}}, DPF)
            running(ns, "slower", 120)
            bound(ns, "unmade", 120)
    finally:
        delete("StorageClass", None, "no-policy")
        delete("DPUStoragePolicy", DPF, "no-such-policy")


@scenario("a wrong key in a StorageClass: the claim's events name it and the right one")
def _(ns):
    create({"kind": "StorageClass", "metadata": {"name": "wrong-key"}, "provisioner": DRIVER,
            "parameters": {"policy": "example-policy", "csi.snap.nvidia.com/formatPolicys": "never"}})
    try:
        create(claim("wrong", "wrong-key"), ns)
        print("      ", event_with(ns, "wrong", "write csi.snap.nvidia.com/formatPolicy", 60)[:400])
        page.show_events("A typo in the StorageClass", "kubectl describe pvc wrong", "pvc", ns, "wrong")
    finally:
        delete("StorageClass", None, "wrong-key")
