"""Scenarios of encrypted volumes: from docs/use/encryption.md to the header on the disk. Where the kernel has no dm-crypt, the container is
created but cannot be opened, so the pods do not start and their events say so; the guests of test/vm have dm-crypt."""
import contextlib
import os
import re
import subprocess

from kube import DIR, ROOT, Failed, apply, claim, create, delete, events, find, get, gone, kubectl, log, pod, second_node, until, volume_of
from scenario import scenario

DM_CRYPT = os.path.exists("/sys/module/dm_crypt") or subprocess.run(["modprobe", "-nq", "dm_crypt"], check=False).returncode == 0
NO_DM_CRYPT = "has no dm-crypt"
PASSPHRASE = "a tenant's passphrase, 7f3c"
KEYS = "storage-keys"
MAGIC = b"LUKS\xba\xbe"


@contextlib.contextmanager
def encrypted_class():
    """The StorageClass of the page, and its Secret with another passphrase."""
    with open(f"{ROOT}/docs/use/encryption.md", encoding="utf-8") as file:
        page = file.read()
    command = f"create secret generic volume-key -n {KEYS} --from-literal=encryption-passphrase="
    if f"kubectl {command}" not in page:
        raise Failed(f"the page does not have: kubectl {command}")
    create({"kind": "Namespace", "metadata": {"name": KEYS}})
    try:
        done = kubectl(*command.split()[:-1], command.split()[-1] + PASSPHRASE)
        if done.returncode:
            raise Failed(done.stderr)
        apply(re.search(r"^```yaml\n(.*?)^---$", page, flags=re.M | re.S)[1])
        yield "snap-encrypted"
    finally:
        kubectl("delete", "storageclass", "snap-encrypted")
        delete("Namespace", None, KEYS)
        gone("Namespace", None, KEYS)


def staged(ns, name):
    """Waits until the pod runs, or until its events say that the kernel cannot open the container."""
    def look():
        phase = (get("Pod", ns, name) or {"status": {}})["status"].get("phase")
        return phase == "Running" or any(NO_DM_CRYPT in e for e in events(ns, name))
    try:
        until(f"pod {name} has its volume", look, 120)
    except Failed as failure:
        raise Failed(f"{failure}; its events: {events(ns, name)}") from None


def header_of(volume):
    """The only header on the disks of the DPU, which is the volume's."""
    heads = []
    for folder, _, names in os.walk(f"{DIR}/sim"):
        for path in (f"{folder}/{name}" for name in names):
            if os.path.isfile(path) and os.path.getsize(path) > 16 << 20:
                with open(path, "rb") as disk:
                    heads.append(disk.read(4096))
    heads = [head for head in heads if head.startswith(MAGIC)]
    if len(heads) != 1 or volume.encode() not in heads[0]:
        raise Failed(f"{len(heads)} disks have a LUKS2 header; expected one, of {volume}: {heads}")
    return heads[0]


def formats(*processes):
    return sum(" formatting " in line and "luks2" in line for process in processes for line in log(process).splitlines())


def end_pod(ns, name):
    delete("Pod", ns, name)
    gone("Pod", ns, name)


@scenario("encrypted volume, as its page says: kubelet sends the Secret, the disk gets the volume's header, and keeps it")
def _(ns):
    with encrypted_class() as name:
        create(claim("encrypted", name), ns)
        heads = []
        for who in ("first", "second"):
            create(pod(who, "encrypted"), ns)
            staged(ns, who)
            heads.append(header_of(volume_of(ns, "encrypted")))
            end_pod(ns, who)
        if heads[0] != heads[1]:
            raise Failed("the container was created again")
        if PASSPHRASE in log("driver") + str(find("Event", ns)) + str(find("PersistentVolume")):
            raise Failed("a log or an object has the passphrase")


@scenario("encrypted volume, ReadWriteMany: two pods on two nodes get a new volume at once, and one node creates the container",
          unless=DM_CRYPT and "both nodes are this machine, and they would open the same mapping")
def _(ns):
    with encrypted_class() as name, second_node():
        before = formats("driver", "driver2")
        create(claim("both", name, mode="ReadWriteMany", block=True), ns)
        for node in ("n1", "n2"):
            create(pod(f"on-{node}", "both", block=True, on=node), ns)
        for node in ("n1", "n2"):
            staged(ns, f"on-{node}")
        made = formats("driver", "driver2") - before
        header_of(volume_of(ns, "both"))
        if made != 1:
            raise Failed(f"the container was created {made} times")
        for node in ("n1", "n2"):
            end_pod(ns, f"on-{node}")
