# SPDX-License-Identifier: Apache-2.0
"""virtio-fs on real kernels: a share's life, its identity, and shares beside NVMe and on two hosts.

Debian's 6.1 has modules, and shows a tag nowhere; with its backports' kernel virtio is built in, a function is bound as soon as it is
plugged in, and /sys/fs/virtiofs shows the tags.
"""
import os
import threading

from kubelet import Volume
from plugged import OUTSIDE, PF, PluggedDisk, PluggedShare, addresses
from scenario import scenario
from scenarios_faults import clean

READ_ONLY_MANY = 3


def has_modules(w):
    return w.vm.sh("grep -q virtiofs.ko /lib/modules/$(uname -r)/modules.builtin", check=False)[0] != 0


def load(w):
    """As a host that has had a volume before."""
    w.vm.sh("modprobe virtiofs; modprobe virtio_pci")


def driver_of(w, address):
    return os.path.basename(w.vm.sh(f"readlink /sys/bus/pci/devices/{address}/driver; true"))


def at_once(calls):
    """Runs the calls concurrently; returns the exceptions that they raised."""
    failures = []

    def run(call):
        try:
            call()
        except Exception as error:  # pylint: disable=broad-except
            failures.append(error)
    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def share_of(w, volume, pod="pod-1"):
    """mountinfo's filesystem type and source of the published path."""
    line = w.mounts(volume.target(pod))[0]
    return line.split(" - ")[1].split()[:2]


@scenario("shares")
def blacklisted(w):
    """virtio-fs: udev may not load virtio_pci: bound once the driver may load it, refused with the reason before"""
    w.vm.sh("modprobe -r virtiofs virtio_pci 2>/dev/null; true")  # scenarios before this one may have needed them
    share = PluggedShare(w, "black")
    share.plug(0)
    w.vm.sh(f"modprobe -b $(cat /sys/bus/pci/devices/{share.address}/modalias); true")
    w.check(driver_of(w, share.address) == "" and not w.vm.sh("lsmod | grep virtio_pci; true"), "the blacklist of the guest does not work")
    w.stop_driver()
    w.start_driver("--node-virtiofs-load-driver=false")
    fault = w.fault("the kernel module virtio_pci is not loaded, --node-virtiofs-load-driver=false")
    fault.ask("NodeStageVolume", lambda: share.volume().stage(timeout=4), "DEADLINE_EXCEEDED", share.address)
    w.check(not w.mounts(), "something is mounted")
    w.stop_driver()
    w.start_driver()
    volume = share.volume()
    fault.ask("NodeStageVolume, --node-virtiofs-load-driver", volume.stage, "OK")
    volume.publish()
    w.check(share_of(w, volume) == ["virtiofs", share.tag], "the share is not mounted")
    clean(w, volume)
    fault.then("the driver loads the module by name, which a blacklist permits")
    share.unplug()


@scenario("shares")
def kernel_without_virtiofs(w):
    """virtio-fs: a kernel that has no virtiofs: refused, and the text says so"""
    share = PluggedShare(w, "none")
    share.plug(0)
    module = w.vm.sh("modinfo -n virtiofs")
    w.vm.sh(f"lsmod | grep -qw ^virtiofs && rmmod virtiofs; mv {module} /tmp/virtiofs; depmod")
    fault = w.fault("the kernel has no module virtiofs")
    fault.ask("NodeStageVolume", lambda: share.volume().stage(timeout=4), "UNAVAILABLE", "virtiofs")
    w.check(not w.mounts(), "something is mounted")
    w.vm.sh(f"mv /tmp/virtiofs {module}; depmod")
    volume = share.volume()
    fault.ask("NodeStageVolume, with the module", volume.stage, "OK")
    clean(w, volume)
    fault.then("staged by the retry")
    share.unplug()


@scenario("shares", "shares-newer")
def life(w):
    """virtio-fs: every call twice, of a function that the driver binds and of one that the kernel has bound; the folder has the data"""
    load(w)
    for unbound in (True, False):
        share = PluggedShare(w, "unbound" if unbound else "bound")
        share.plug(0, unbound)
        w.check(driver_of(w, share.address) == ("" if unbound else "virtio-pci"), "the function's driver: " + driver_of(w, share.address))
        for pod in ("pod-1", "pod-2"):
            volume = share.volume()
            for call in (volume.stage, volume.stage, lambda p=pod, v=volume: v.publish(p), lambda p=pod, v=volume: v.publish(p)):
                call()
            w.check(share_of(w, volume, pod) == ["virtiofs", share.tag], "the share is not mounted")
            w.check(len(w.mounts()) == 2, "mounted are: " + "\n".join(w.mounts()))
            w.vm.sh(f"echo {pod} >>{volume.target(pod)}/hello; sync {volume.target(pod)}/hello")
            w.check(volume.stats(pod).usage[0].total > 0, "statistics have no size")
            w.check(not volume.health(volume_publish_path=volume.target(pod)).volume_health.health_statuses, "the volume is not well")
            volume.expand(pod, required=1 << 40)
            for call in (lambda p=pod, v=volume: v.unpublish(p), lambda p=pod, v=volume: v.unpublish(p), volume.unstage, volume.unstage):
                call()
            w.check(not w.mounts(), "mounted are: " + "\n".join(w.mounts()))
        with open(share.folder + "/hello", encoding="utf-8") as f:
            w.check(f.read() == "pod-1\npod-2\n", "the folder does not have what the pods wrote")
        share.unplug()


@scenario("shares", "shares-newer")
def late_function(w):
    """virtio-fs: the function is plugged in while its volume is staged; only readers: a write fails"""
    share, slots = PluggedShare(w, "late"), addresses(w)
    with open(share.folder + "/kept", "w", encoding="utf-8") as f:
        f.write("kept\n")
    room = w.kubelet.node("NodeGetInfo").max_volumes_per_node
    volume = share.volume(slots[1], mode=READ_ONLY_MANY)
    fault = w.fault("a virtio-fs function that the DPU has not plugged in yet")
    fault.ask("NodeStageVolume", lambda: volume.stage(timeout=3), "DEADLINE_EXCEEDED", "no PCI function", slots[1])
    timer = threading.Timer(2, share.plug, (1,))
    timer.start()
    volume.stage()
    timer.join()
    fault.then("staged as soon as the function appears")
    volume.publish(readonly=True)
    target = volume.target("pod-1")
    w.check(w.vm.sh(f"cat {target}/kept; touch {target}/x 2>/dev/null || echo refused").split() == ["kept", "refused"], "a reader can write")
    w.check(w.kubelet.node("NodeGetInfo").max_volumes_per_node == room, "the slot is no room any more")
    clean(w, volume)
    share.unplug()


@scenario("shares", "shares-newer")
def wrong_tag(w):
    """virtio-fs: the function has another tag than the attachment says: refused naming both, nothing mounted"""
    load(w)
    for unbound in (True, False):
        share = PluggedShare(w, f"mine{unbound:d}")
        share.plug(0, unbound)
        fault = w.fault("the function has another tag, " + ("no driver holds it yet" if unbound else "it is bound"))
        fault.ask("NodeStageVolume", lambda s=share: s.volume(context={"nv-virtioFsTag": "tag-else"}).stage(timeout=6), "FAILED_PRECONDITION", "tag-else",
                  share.tag)
        w.check(not w.mounts(), "something is mounted")
        fault.then("nothing mounted")
        share.unplug()


@scenario("shares", "shares-newer")
def somebody_elses(w):
    """virtio-fs: the wanted tag is another function's, outside of the DPU's slots: never mounted, in whatever order they came"""
    load(w)
    foreign = PluggedShare(w, "foreign", tag="wanted")
    foreign.plug(OUTSIDE)
    with open(foreign.folder + "/secret", "w", encoding="utf-8") as f:
        f.write("of somebody else\n")
    fault = w.fault("another device of this host has the wanted tag")
    fault.ask("NodeStageVolume, the address is that device's", lambda: foreign.volume().stage(timeout=6), "FAILED_PRECONDITION", foreign.address, "slots")
    for what, tag, unbound in (("ours has another tag", "ours", False), ("ours has another tag and no driver", "ours", True),
                               ("ours has the same tag", "wanted", False), ("ours has the same tag and no driver", "wanted", True)):
        mine = PluggedShare(w, what.replace(" ", "-"), tag=tag)
        mine.plug(0, unbound)
        volume = mine.volume(context={"nv-virtioFsTag": "wanted"})
        fault.ask("NodeStageVolume, " + what, lambda v=volume: v.stage(timeout=6), "FAILED_PRECONDITION|DEADLINE_EXCEEDED", "wanted")
        w.check(not w.mounts(), "the other device's share is mounted: " + "\n".join(w.mounts()))
        mine.unplug()
    fault.then("never mounted")
    mine = PluggedShare(w, "beside")
    mine.plug(0)
    volume = mine.volume()
    volume.stage()
    volume.publish()
    w.check(share_of(w, volume)[1] == mine.tag, "the wrong share is mounted")
    clean(w, volume)
    mine.unplug()
    foreign.unplug()


@scenario("shares", "shares-newer")
def first_one_goes(w):
    """virtio-fs: a function with the same tag as another keeps its volume away, until the other one goes: then bound again, to its own share"""
    load(w)
    foreign, mine = PluggedShare(w, "first", tag="twice"), PluggedShare(w, "second", tag="twice")
    foreign.plug(OUTSIDE)
    mine.plug(0)
    with open(mine.folder + "/mine", "w", encoding="utf-8"):
        pass
    volume = mine.volume()
    fault = w.fault("another device had the tag first")
    fault.ask("NodeStageVolume", lambda: volume.stage(timeout=6), "FAILED_PRECONDITION", "twice")
    foreign.unplug()
    fault.ask("NodeStageVolume, after its removal", volume.stage, "OK")
    volume.publish()
    w.check(w.vm.sh(f"ls {volume.target('pod-1')}") == "mine", "another folder is mounted")
    clean(w, volume)
    fault.then("staged by the retry")
    mine.unplug()


@scenario("shares", "shares-newer")
def two_at_once(w):
    """virtio-fs: two volumes staged at once, whose functions have no driver: each has its own share"""
    load(w)
    shares = [PluggedShare(w, f"at-once-{i}") for i in range(2)]
    for i, share in enumerate(shares):
        share.plug(i, unbound=True)
        with open(f"{share.folder}/{share.name}", "w", encoding="utf-8"):
            pass
    volumes = [share.volume() for share in shares]
    failures = at_once([v.stage for v in volumes])
    w.check(not failures, str(failures))
    for share, volume in zip(shares, volumes):
        w.check(w.vm.sh(f"ls {volume.staging}") == share.name, f"{share.name}: another folder is mounted")
    for share, volume in zip(shares, volumes):
        volume.unstage()
        share.unplug()


@scenario("shares")
def given_back(w):
    """virtio-fs: a stage that fails behind its bind gives the function back, but not while anybody on this host may use it"""
    load(w)
    share = PluggedShare(w, "back")
    share.plug(0, unbound=True)
    volume = share.volume()
    folder = os.path.dirname(volume.staging)
    w.vm.sh(f"mkdir -p {os.path.dirname(folder)}; : >{folder}")
    fault = w.fault("the staging directory cannot be created")
    fault.ask("NodeStageVolume", volume.stage, "UNAVAILABLE|INTERNAL|FAILED_PRECONDITION", folder)
    w.check(driver_of(w, share.address) == "", "the function has kept its driver")
    other = PluggedShare(w, "mounted")
    other.plug(1)
    w.vm.sh(f"mkdir -p /mnt/other; unshare -m sh -c '/sbin/mount -t virtiofs {other.tag} /mnt/other && touch /tmp/mounted && sleep 600'"
            " </dev/null >/dev/null 2>&1 & echo $! >/tmp/holder.pid; until [ -e /tmp/mounted ]; do sleep 0.05; done; rm /tmp/mounted")
    fault.ask("NodeStageVolume, a share is mounted in another mount namespace", volume.stage, "UNAVAILABLE|INTERNAL|FAILED_PRECONDITION",
              "stays bound to driver virtio-pci")
    w.vm.sh(f"p=$(cat /tmp/holder.pid); kill $(pgrep -P $p) $p; rm {folder}")
    fault.ask("NodeStageVolume, after that mount is removed", volume.stage, "OK")
    volume.unstage()
    fault.then("unbound only after it is verified to be unused")
    share.unplug()
    other.unplug()


@scenario("shares", "shares-newer")
def side_by_side(w):
    """an NVMe VF, a hot-plugged NVMe controller and a virtio-fs function staged and published at once by one driver"""
    disk, share, ns = PluggedDisk(w, "side", 64), PluggedShare(w, "beside-disks"), w.ns["a"]
    w.attach(ns, 0)
    share.plug(0)
    disk.plug(1)
    volumes = [w.volume("pvc-vf", ns, 0), disk.volume(addresses(w)[1], block=True), share.volume()]
    failures = at_once([lambda v=v: (v.stage(), v.publish()) for v in volumes])
    w.check(not failures, str(failures))
    vf, block, files = (v.target("pod-1") for v in volumes)
    w.vm.sh(f"echo vf >{vf}/who; echo plugged | dd of={block} conv=fsync,notrunc 2>/dev/null; echo share >{files}/who; sync")
    said = w.vm.sh(f"cat {vf}/who; head -c 7 {block}; echo; cat {files}/who; stat -f -c %T {vf} {files}").split()
    w.check(said[:3] == ["vf", "plugged", "share"], f"read: {said}")
    for volume in volumes:
        volume.unpublish()
        volume.unstage()
    w.check(not w.mounts(), "nothing stays mounted")
    w.detach(ns, 0)
    ns.blank()
    disk.unplug(addresses(w)[1])
    share.unplug()


@scenario("shares")
def two_hosts(w):
    """virtio-fs: two guests share one volume, each by a daemon of its own over one folder: both write and read"""
    load(w)
    share = PluggedShare(w, "both")
    share.plug(0)
    with w.another_guest() as other:
        same = PluggedShare(other, "both", folder=share.folder)
        same.plug(2)
        one, two = share.volume(), same.volume()
        for volume in (one, two):
            volume.stage()
            volume.publish()
        for here, there, mine, theirs, word in ((w, other, one, two, "one"), (other, w, two, one, "two")):
            path = mine.target("pod-1") + "/" + word
            here.vm.sh(f"echo {word} >{path}; sync {path}")
            w.check(there.vm.sh(f"cat {theirs.target('pod-1')}/{word}") == word, f"the other host does not read what {word} wrote")
            here.vm.sh(f"echo {word} >>{mine.target('pod-1')}/log; sync {mine.target('pod-1')}/log")
        w.check(w.vm.sh(f"sleep 1; cat {one.target('pod-1')}/log").split() == ["one", "two"], "what the hosts wrote in turn is not there")
        clean(other, two)
        w.check(w.vm.sh(f"cat {one.target('pod-1')}/two") == "two", "the other host's unstage took the volume away from this one")
        same.unplug()
    clean(w, one)
    share.unplug()


@scenario("shares", "shares-newer")
def of_the_go_plugin(w):
    """virtio-fs: what the Go plugin mounted at the target directly is unpublished and unstaged"""
    load(w)
    share = PluggedShare(w, "go")
    share.plug(0)
    volume = share.volume()
    target = volume.target("pod-1")
    w.vm.sh(f"mkdir -p {target} {volume.staging}; /sbin/mount -t virtiofs {share.tag} {target}; echo kept >{target}/kept")
    clean(w, volume)
    w.check(os.path.exists(share.folder + "/kept"), "the data is lost")
    share.unplug()


@scenario("shares")
def held_elsewhere(w):
    """virtio-fs: unstage of a share that somebody else has mounted: refused, the holder named"""
    load(w)
    share = PluggedShare(w, "held")
    share.plug(0)
    volume = share.volume()
    volume.stage()
    w.vm.sh(f"mkdir -p /mnt/held; mount --bind {volume.staging} /mnt/held")
    fault = w.fault("unstaged while the share is mounted elsewhere")
    fault.ask("NodeUnstageVolume", volume.unstage, "FAILED_PRECONDITION", "/mnt/held")
    w.vm.sh("umount /mnt/held")
    fault.ask("NodeUnstageVolume, after the unmount", volume.unstage, "OK")
    fault.then("unstaged by the retry")
    share.unplug()


@scenario("shares")
def two_contexts(w):
    """virtio-fs: a publish context that names a namespace as well as a tag: refused"""
    share = PluggedShare(w, "two")
    volume = Volume(w.kubelet, "pvc-two", {**share.context("0000:03:00.0"), "nv-nvmeNsID": "1"}, volume_context=PF)
    fault = w.fault("the publish context has a namespace id and a tag")
    fault.ask("NodeStageVolume", volume.stage, "INVALID_ARGUMENT")
    fault.then("nothing was touched")
