# SPDX-License-Identifier: Apache-2.0
"""Encrypted volumes with the kernel's dm-crypt: life, refusals, rotation, growth, kills, lost devices."""
import mmap
import os
import random
import threading
import time

from kill_points import OF_DEVICE_MAPPER
from kubelet import Refused
from scenario import scenario
from scenarios_host import attachment, host
from scenarios_kill import die_at_call, killable
from world import DRIVER_FLAGS

PREFIX = "csi.snap.nvidia.com/"
KEY, OTHER = "correct horse battery staple", "not the passphrase"
MARKER = "PLAINTEXT-OF-THE-TENANT"


def secret(current=KEY, previous=""):
    return {"encryption-passphrase": current} | ({"encryption-passphrase-previous": previous} if previous else {})


def encrypted(w, ns, vf=0, name="pvc-luks", **options):
    """PBKDF2 is fast in an emulated guest; one scenario has the default."""
    context = {PREFIX + "encryption": "luks2", PREFIX + "encryptionKdf": "pbkdf2"} | options.pop("keys", {})
    return w.volume(name, ns, vf, volume_context=context, secrets=options.pop("secrets", secret()), **options)


def mappings(w):
    return w.vm.sh("cd /sys/block; for d in dm-*; do [ ! -e $d/dm/name ] || cat $d/dm/name; done").split()


def device(w, ns, vf=0):
    w.attach(ns, vf)
    w.bind(vf)
    return w.device_of(ns)


def none_open(w):
    w.check(not mappings(w), f"left open: {mappings(w)}")


def disk_has(ns, text):
    """Read on the host, where it takes a moment."""
    with open(ns.path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as disk:
        return disk.find(text.encode()) >= 0


def written_and_kept(w, volume):
    """Writes by the pod, restages with another driver process, and reads."""
    volume.stage()
    volume.stage()
    volume.publish()
    where = volume.target("pod-1")
    if volume.block:
        w.vm.sh(f"printf {MARKER} | dd of={where} bs=512 count=1 conv=sync,fsync 2>/dev/null")
    else:
        w.vm.sh(f"echo {MARKER} >{where}/file; sync {where}/file")
    w.check(volume.stats().usage[0].total > 0, "no statistics")
    health = volume.health(volume_publish_path=where, staging_target_path=volume.staging).volume_health
    w.check(not health.health_statuses, f"unhealthy: {health}")
    w.kill_driver()
    w.start_driver()
    volume.k = w.kubelet
    volume.stage()
    volume.unpublish()
    volume.unstage()
    volume.unstage()
    none_open(w)
    volume.stage()
    volume.publish()
    read = w.vm.sh(f"head -c {len(MARKER)} {where if volume.block else where + '/file'}")
    w.check(read == MARKER, f"read {read!r}")
    volume.unpublish()
    volume.unstage()
    none_open(w)


@scenario("multipath", "newer")
def life(w):
    """encrypted ext4, xfs, btrfs and raw block: formatted, staged, restarted, unstaged; the disk has no plaintext, the kernel no key"""
    for fs, name, block in (("ext4", "a", False), ("xfs", "big", False), ("btrfs", "big", False), ("", "a", True)):
        ns = w.ns[name]
        disk = device(w, ns)
        # Without a UUID, a publish looks for the disk by its address.
        volume = encrypted(w, ns, fs=fs, block=block, context={"nv-nvmeUUID": None} if fs == "xfs" else {})
        written_and_kept(w, volume)
        dump = w.vm.sh(f"cryptsetup luksDump {disk}")
        for fact in ("pvc-luks", "csi.snap.nvidia.com", "aes-xts-plain64"):
            w.check(fact in dump, f"the header has no {fact}: {dump}")
        w.check(not disk_has(ns, MARKER), f"{disk} has the plaintext ({fs or 'raw block'})")
        w.detach(ns, 0)
        w.blank(name)


@scenario("multipath")
def default_derivation(w):
    """the default derivation is Argon2id of 64 MiB and four passes with a lane per processor, and the mapping skips the work queues"""
    ns = w.ns["a"]
    disk = device(w, ns)
    volume = encrypted(w, ns, keys={PREFIX + "encryptionKdf": "argon2id", PREFIX + "allowDiscards": "true"})
    volume.stage(timeout=600)
    dump = w.vm.sh(f"cryptsetup luksDump {disk}")
    for fact in ("argon2id", "Time cost:  4", "Memory:     65536", "Threads:    2"):
        w.check(fact in dump, f"the header has no {fact!r}: {dump}")
    table = w.vm.sh("dmsetup table")
    for fact in ("no_read_workqueue", "no_write_workqueue", "allow_discards", ":logon:"):
        w.check(fact in table, f"{table} has no {fact}")
    volume.unstage()
    none_open(w)
    w.detach(ns, 0)
    w.blank("a")


@scenario("multipath")
def refused(w):
    """refused, and nothing is changed: no or a wrong passphrase, another volume's header, a damaged one, plain data, LUKS under a plain class"""
    ns = w.ns["a"]
    disk = device(w, ns)
    volume = encrypted(w, ns)
    volume.secrets = {}
    w.expect("INVALID_ARGUMENT", volume.stage, "encryption-passphrase")
    w.check(w.vm.sh(f"blkid -p {disk} || true") == "", "the disk was formatted without a passphrase")
    volume.secrets = secret()
    volume.stage()
    volume.unstage()
    before = ns.digest()
    fault = w.fault("an encrypted volume's container cannot be opened")
    volume.secrets = secret(OTHER)
    fault.ask("NodeStageVolume, wrong passphrase", volume.stage, "FAILED_PRECONDITION", "does not open", "encryption-passphrase")
    volume.secrets = secret(OTHER, "nor this one")
    w.expect("FAILED_PRECONDITION", volume.stage, "nor does the previous one")
    other = encrypted(w, ns, name="pvc-other")
    fault.ask("NodeStageVolume, the header of another volume", other.stage, "FAILED_PRECONDITION", "pvc-luks", "pvc-other")
    plain = w.volume("pvc-luks", ns, 0)
    fault.ask("NodeStageVolume, a LUKS disk under a plain class", plain.stage, "FAILED_PRECONDITION", "crypto_LUKS", "encryption: luks2")
    w.check(ns.digest() == before, "a refused call has written to the disk")
    w.vm.sh(f"for at in 0 4; do dd if=/dev/urandom of={disk} bs=4096 seek=$at count=1 conv=notrunc,fsync 2>/dev/null; printf 'LUKS\\272\\276' |"
            f" dd of={disk} bs=1 conv=notrunc 2>/dev/null; done")
    volume.secrets = secret()
    w.expect("FAILED_PRECONDITION", volume.stage)
    w.blank_attached(ns, 0)
    w.vm.sh(f"mkfs.ext4 -q {w.device_of(ns)}")
    fault.ask("NodeStageVolume, plain data under an encrypted class", volume.stage, "FAILED_PRECONDITION", "ext4", "encryption: luks2")
    fault.then("the disk is unchanged")
    w.blank_attached(ns, 0)
    raw = encrypted(w, ns, block=True)
    raw.stage()
    raw.unstage()
    before = ns.digest()
    w.expect("FAILED_PRECONDITION", volume.stage, "its LUKS2 container contains no known signature", "no record")
    w.check(ns.digest() == before, "a container without a filesystem was changed")
    none_open(w)
    w.detach(ns, 0)
    w.blank("a")


@scenario("multipath")
def rotated(w):
    """a rotation: opened with the previous passphrase, the current one is added, then the previous one is removed; also after an interruption"""
    ns = w.ns["a"]
    disk = device(w, ns)
    volume = encrypted(w, ns)
    volume.stage()
    volume.unstage()
    volume.secrets = secret(OTHER, KEY)
    for _ in range(2):
        volume.stage()
        volume.unstage()
    w.check(w.vm.sh(f"cryptsetup luksDump {disk} | grep -c 'luks2$'") == "1", "the previous passphrase still has its slot")
    volume.secrets = secret(KEY)
    w.expect("FAILED_PRECONDITION", volume.stage, "does not open")
    # The interruption: both passphrases have a slot.
    w.vm.sh(f"printf '{OTHER}' >/tmp/now; printf '{KEY}' >/tmp/was; cryptsetup luksAddKey -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000"
            f" --key-file /tmp/now {disk} /tmp/was")
    volume.secrets = secret(OTHER, KEY)
    volume.stage()
    volume.unstage()
    volume.secrets = secret(KEY)
    w.expect("FAILED_PRECONDITION", volume.stage, "does not open")
    w.check("the previous passphrase of a volume was removed" in w.log(), "the rotation was not logged")
    w.check(not any(text in w.log() for text in (KEY, OTHER)), "a passphrase is in the log")
    none_open(w)
    w.detach(ns, 0)
    w.blank("a")


def small_container(w, disk, volume):
    """Stages and publishes a volume whose container is smaller than its disk: QEMU does not resize a namespace."""
    volume.k = w.kubelet
    volume.stage()
    name = mappings(w)[0]
    volume.unstage()
    w.vm.sh(f"printf '{KEY}' >/tmp/key-bytes; cryptsetup open --key-file /tmp/key-bytes {disk} {name};"
            f" cryptsetup resize --key-file /tmp/key-bytes --size 409600 {name}; mkfs.ext4 -q /dev/mapper/{name};"
            f" mkdir -p {volume.staging}; mount /dev/mapper/{name} {volume.staging}")
    volume.publish()


@scenario("multipath")
def expanded(w):
    """NodeExpandVolume grows the container and the filesystem online with the secret, and without it says which key is missing"""
    ns = w.ns["big"]
    disk = device(w, ns)
    volume = encrypted(w, ns)
    small_container(w, disk, volume)
    w.vm.sh(f"echo kept >{volume.target('pod-1')}/kept")
    volume.secrets = {}
    w.expect("FAILED_PRECONDITION", lambda: volume.expand(required=ns.mib << 20), "node-expand-secret-name")
    volume.secrets = secret()
    for _ in range(2):
        w.check(volume.expand(required=ns.mib << 20).capacity_bytes == ns.mib << 20, "another size than the device's")
    size = int(w.vm.sh(f"df -Pk {volume.staging} | awk 'END {{print $2}}'"))
    w.check(size > 300 << 10, f"the filesystem has {size} KiB")
    w.check(w.vm.sh(f"cat {volume.target('pod-1')}/kept") == "kept", "the data is lost")
    volume.unpublish()
    volume.unstage()
    none_open(w)
    w.detach(ns, 0)
    w.blank("big")


@scenario("multipath")
def read_only(w):
    """a reader's volume: its mapping and its filesystem are read-only, and a blank one is not formatted"""
    ns = w.ns["a"]
    device(w, ns)
    volume = encrypted(w, ns)
    reader = encrypted(w, ns, mode=3)
    w.expect("FAILED_PRECONDITION", reader.stage, "read-only volume is never formatted")
    volume.stage()
    volume.unstage()
    reader.stage()
    w.check(w.vm.sh("cat /sys/block/dm-0/ro") == "1", "the mapping can be written")
    reader.unstage()
    many = encrypted(w, ns, mode=5, block=True)
    many.stage()
    many.unstage()
    none_open(w)
    w.blank_attached(ns, 0)
    w.expect("FAILED_PRECONDITION", many.stage, "names none")
    many = encrypted(w, ns, mode=5, block=True, context={PREFIX + "formatNode": "another"})
    w.expect("UNAVAILABLE", many.stage, "only another creates it")
    first = encrypted(w, ns, mode=5, block=True, context={PREFIX + "formatNode": "snap-guest"})
    first.stage()
    first.unstage()
    many.stage()
    many.unstage()
    none_open(w)
    w.detach(ns, 0)
    w.blank("a")


def points_of(w, volume, calls):
    """The kill points of these calls, in order."""
    passed = []
    killable(w, SNAP_CSI_KILL_TRACE="/tmp/trace")
    volume.k = w.kubelet
    for call in calls:
        w.vm.sh(": >/tmp/trace")
        getattr(volume, call)()
        passed += [(call, point) for point in w.vm.sh("cat /tmp/trace").splitlines()]
    w.kill_driver()
    w.start_driver()
    volume.k = w.kubelet
    return passed


@scenario("multipath")
def killed(w):
    """driver killed -9 at every step of an encrypted volume's stage and unstage: retried, the data are kept, no key is left in the kernel"""
    ns = w.ns["a"]
    disk = device(w, ns)
    volume = encrypted(w, ns)
    points = points_of(w, volume, ("stage", "unstage"))
    died_at = {point for _, point in points}
    for call, point in points:
        if call == "stage":
            w.blank_attached(ns, 0)
        else:
            volume.stage()
            w.vm.sh(f"echo kept >{volume.staging}/kept; sync {volume.staging}/kept")
        die_at_call(w, volume, call, point)
        volume.k = w.kubelet
        getattr(volume, call)()
        if call == "stage":
            volume.unstage()
        else:
            volume.stage()
            w.check(w.vm.sh(f"cat {volume.staging}/kept") == "kept", f"killed at {point}: the data is lost")
            volume.unstage()
        none_open(w)
    # A format that is interrupted before it has written a key slot.
    w.blank_attached(ns, 0)
    die_at_call(w, volume, "stage", "format: container created")
    w.vm.sh(f"cryptsetup luksErase -q {w.device_of(ns)}")
    volume.k = w.kubelet
    volume.stage()
    volume.unstage()
    die_at_call(w, volume, "stage", "stage: record of the open written")
    volume.k = w.kubelet
    volume.unstage()
    w.verify()
    # Another node has written to the container before this node's format was repeated.
    w.blank_attached(ns, 0)
    die_at_call(w, volume, "stage", "format: container opened")
    w.vm.sh(f"printf '{KEY}' >/tmp/key-bytes; cryptsetup open --key-file /tmp/key-bytes {disk} by-hand &&"
            " printf 'LUKS\\272\\276\\0\\1' | dd of=/dev/mapper/by-hand conv=notrunc,fsync 2>/dev/null; cryptsetup close by-hand")
    before = ns.digest()
    volume.k = w.kubelet
    w.expect("FAILED_PRECONDITION", volume.stage, "its LUKS2 container contains crypto_LUKS")
    w.check(ns.digest() == before, "the data of another node is overwritten")
    w.blank_attached(ns, 0)
    # The kernel refuses the scheduler after the container was opened.
    refused_later = encrypted(w, ns, keys={PREFIX + "ioScheduler": "mq-deadline"})
    die_at_call(w, refused_later, "stage", "stage: container closed")
    small_container(w, disk, volume)
    die_at_call(w, volume, "expand", "expand: container grown")
    volume.k = w.kubelet
    volume.expand(required=ns.mib << 20)
    volume.unpublish()
    volume.unstage()
    none_open(w)
    died_at |= {"stage: record of the open written", "stage: container closed", "expand: container grown"}
    w.check(OF_DEVICE_MAPPER <= died_at, f"never reached: {OF_DEVICE_MAPPER - died_at}")
    w.detach(ns, 0)
    w.blank("a")


def inspected(w):
    return w.vm.sh(f"/host/driver inspect node {DRIVER_FLAGS} {w.driver_flags}; true", timeout=120)


def left_by_hand(w, disk, volume):
    """A mapping under the driver's name, beside a staged one: inspect reports it and its holder, and the driver's start closes it."""
    staged = mappings(w)
    volume.stage()
    name, = set(mappings(w)) - set(staged)
    report = inspected(w)
    w.check("encrypted mapping" not in report and "encryption luks2" in report, f"both are staged: {report}")
    volume.unstage()
    w.kill_driver()
    w.vm.sh(f"printf '{KEY}' >/tmp/key-bytes; cryptsetup open --key-file /tmp/key-bytes {disk} {name}")
    report = inspected(w)
    w.check(f"encrypted mapping {name} (/dev/dm-" in report and "no visible process has it open" in report, report)
    w.check(report.count("encrypted mapping ") == 1, f"a staged mapping is reported: {report}")
    w.vm.sh(f"(exec sleep 900 </dev/mapper/{name} >/dev/null 2>&1) & echo $! >/tmp/holder; until grep -q sleep /proc/$!/comm; do sleep 0.1; done")
    report = inspected(w)
    w.check("(sleep)" in report and "end the processes that have it open" in report, report)
    w.check(KEY not in report and set(mappings(w)) == {*staged, name}, f"inspect has changed something: {report}")
    w.vm.sh("kill $(cat /tmp/holder); while kill -0 $(cat /tmp/holder) 2>/dev/null; do sleep 0.1; done")
    w.start_driver()
    w.vm.sh("i=0; until [ $(ls -d /sys/block/dm-* | wc -l) = 1 ]; do i=$((i + 1)); [ $i -lt 600 ] || exit 1; sleep 0.1; done")
    w.check(mappings(w) == staged, f"open are {mappings(w)}")
    volume.k = w.kubelet
    report = inspected(w)
    w.check("encrypted mapping" not in report, f"a closed mapping is reported: {report}")


@scenario("multipath")
def orphans(w):
    """a container that a killed driver has opened is found by inspect and closed when the driver starts; a staged one stays"""
    ns, other = w.ns["a"], w.ns["big"]
    disk = device(w, ns)
    device(w, other, 1)
    staged = encrypted(w, other, 1, name="pvc-staged", block=True)
    volume = encrypted(w, ns)
    staged.stage()
    die_at_call(w, volume, "stage", "stage: container opened")
    w.vm.sh("i=0; until [ $(ls -d /sys/block/dm-* | wc -l) = 1 ]; do i=$((i + 1)); [ $i -lt 600 ] || exit 1; sleep 0.1; done")
    volume.k = staged.k = w.kubelet
    staged.stage()
    left_by_hand(w, disk, volume)
    staged.k = w.kubelet
    staged.stage()
    staged.unstage()
    volume.stage()
    volume.unstage()
    none_open(w)
    for name, vf in (("a", 0), ("big", 1)):
        w.detach(w.ns[name], vf)
        w.blank(name)


@scenario("multipath")
def lost(w):
    """the disk below a staged container is removed: unstaged, the key is gone; attached again, the volume is staged again"""
    ns = w.ns["a"]
    device(w, ns)
    volume = encrypted(w, ns)
    volume.stage()
    w.vm.sh(f"echo kept >{volume.staging}/kept; sync {volume.staging}/kept")
    w.detach(ns, 0)
    w.vm.sh("i=0; while ls /sys/block | grep -q nvme; do i=$((i + 1)); [ $i -lt 300 ] || exit 1; sleep 0.1; done", check=False)
    w.attach(ns, 0)
    w.bind(0)
    try:
        volume.stage()
    except Refused:
        volume.unstage()
        volume.stage()
    w.check(w.vm.sh(f"cat {volume.staging}/kept") == "kept", "the data is lost")
    volume.unstage()
    none_open(w)
    w.detach(ns, 0)
    w.blank("a")


@scenario("multipath")
def shown_elsewhere(w):
    """a mapping that a pod still shows is not closed: not by a stage after the loss of the staging path, and not below an idle loop device"""
    ns = w.ns["a"]
    device(w, ns)
    volume = encrypted(w, ns, block=True)
    volume.stage()
    volume.publish()
    staged = f"{volume.staging}/{volume.id}"
    w.vm.sh(f"umount {staged}")
    fault = w.fault("an encrypted mapping is still in use")
    fault.ask("NodeStageVolume, the pod shows the mapping", volume.stage, "FAILED_PRECONDITION", "still shown at", volume.target("pod-1"))
    w.check(len(mappings(w)) == 1, "the mapping was closed below the pod")
    volume.unpublish()
    volume.stage()
    loop = w.vm.sh(f"modprobe loop; /sbin/losetup -f --show {staged}")
    fault.ask("NodeUnstageVolume, an idle loop device", volume.unstage, "FAILED_PRECONDITION", loop.replace("/dev/", ""), "losetup -d")
    fault.then("closed once nothing shows it")
    w.check(len(w.mounts(volume.staging)) == 1, "it was unmounted")
    w.vm.sh(f"/sbin/losetup -d {loop}")
    volume.unstage()
    none_open(w)
    w.detach(ns, 0)
    w.blank("a")


@scenario("multipath")
def host_encrypted(w):
    """a host without kubelet: an encrypted volume is mounted and made a disk with a key file, which other users must not be able to read"""
    ns = w.ns["a"]
    disk = device(w, ns)
    path = attachment(w, "data-1", False, {"pciAddress": w.vf(0), "nvmeAttrs": {"namespaceID": ns.nsid, "namespaceUUID": ns.uuid}})
    w.vm.sh(f"echo '{KEY}' >/tmp/key; chmod 644 /tmp/key")
    options = "--encryption luks2 --key-file /tmp/key"
    status, said = host(w, f"attach -f {path} --mount /srv/data-1 --format blank {options}", check=False)
    w.check(status == 1 and "chmod 600" in said, f"a key that all may read: {status}, {said}")
    w.vm.sh("chmod 600 /tmp/key; head -c 8 /dev/zero >/tmp/zeros; chmod 600 /tmp/zeros")
    status, said = host(w, f"attach -f {path} --mount /srv/data-1 --format blank --encryption luks2 --key-file /tmp/zeros", check=False)
    w.check(status == 1 and "NUL byte" in said, f"a key with zeros: {status}, {said}")
    for _ in range(2):
        host(w, f"attach -f {path} --mount /srv/data-1 --format blank {options}")
    w.vm.sh(f"echo {MARKER} >/srv/data-1/kept; sync /srv/data-1/kept")
    host(w, "detach data-1")
    none_open(w)
    w.check(not disk_has(ns, MARKER), f"{disk} has the plaintext")
    link = host(w, f"attach -f {path} {options}").splitlines()[-1]
    w.check(w.vm.sh(f"blkid -p -o value -s TYPE $(readlink -f {link})") == "ext4", "the disk is not the container's content")
    # A driver in a container starts, and its mount namespace lacks the mount of the host's command.
    bound = [line.split()[4] for line in w.mounts("/run/snap-csi")]
    w.check(len(bound) == 1, f"bound are {bound}")
    w.kill_driver()
    other = device(w, w.ns["big"], 1)
    w.vm.sh(f"printf '{KEY}' >/tmp/bytes; cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file /tmp/bytes {other};"
            f" cryptsetup open --key-file /tmp/bytes {other} snap-csi-orphan")
    w.vm.sh(f"printf '#!/bin/sh\\numount {bound[0]}\\nexec /host/driver \"$@\"\\n' >/tmp/start; chmod +x /tmp/start")
    w.start_driver(program="unshare -m /tmp/start")
    # The orphan is the second mapping of the list.
    w.vm.sh("i=0; while cat /sys/block/dm-*/dm/name | grep -q orphan; do i=$((i + 1)); [ $i -lt 600 ] || exit 1; sleep 0.1; done")
    w.check(len(mappings(w)) == 1, "the driver has closed the mapping of host attach")
    w.kill_driver()
    w.start_driver()
    host(w, "detach data-1")
    none_open(w)
    for name, vf in (("a", 0), ("big", 1)):
        w.detach(w.ns[name], vf)
        w.blank(name)


def next_call(volume, staged):
    """The other call; a driver that is killed meanwhile answers with an error."""
    try:
        (volume.unstage if staged else volume.stage)()
    except Refused:
        pass


@scenario("six-vfs")
def random_kills(w):
    """six encrypted volumes, staged and unstaged at once while the driver is killed at random times: data kept, no key left"""
    volumes = []
    for vf, ns in enumerate(w.ns.values()):
        device(w, ns, vf)
        volumes.append(encrypted(w, ns, vf, name=f"pvc-{vf}", block=vf == 0))
        volumes[-1].stage()
        if not volumes[-1].block:
            w.vm.sh(f"echo {vf} >{volumes[-1].staging}/kept; sync {volumes[-1].staging}/kept")
    staged = True
    for _ in range(int(os.environ.get("ENCRYPTION_KILLS", "10"))):
        calls = [threading.Thread(target=next_call, args=(volume, staged)) for volume in volumes]
        for call in calls:
            call.start()
        time.sleep(random.uniform(0, 4))
        w.kill_driver()
        for call in calls:
            call.join()
        w.start_driver()
        for volume in volumes:
            volume.k = w.kubelet
        staged = not staged
    for vf, volume in enumerate(volumes):
        volume.stage()
        if not volume.block:
            w.check(w.vm.sh(f"cat {volume.staging}/kept") == str(vf), f"{volume.id}: the data is lost")
        volume.unstage()
    none_open(w)
    for vf, ns in enumerate(w.ns.values()):
        w.detach(ns, vf)
        ns.blank()
