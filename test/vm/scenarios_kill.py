# SPDX-License-Identifier: Apache-2.0
"""The kill points of stage and publish on a real NVMe function; test/killpoints walks all of them on loop devices."""
from kubelet import Refused
from scenario import scenario

NAME, NAMESPACE, FUNCTION = "pvc-killed", "b", 0


def volume(w):
    """As kubelet asks the driver that runs now."""
    return w.volume(NAME, w.ns[NAMESPACE], FUNCTION)


def killable(w, **environment):
    """The driver that can be told where to die."""
    program = w.copy_killable()
    w.kill_driver()
    w.start_driver(program="env " + " ".join(f"'{k}={v}'" for k, v in environment.items()) + " " + program)


def die_at_call(w, which, call, point):
    """The driver dies at this point of the volume's call, and another one is started."""
    killable(w, SNAP_CSI_KILL_AT=point)
    which.k = w.kubelet
    try:
        getattr(which, call)()
    except Refused:
        pass
    w.check(w.has_died(), f"{call} did not pass {point}")
    w.start_driver()


def die_at(w, call, point):
    die_at_call(w, volume(w), call, point)


def trace(w):
    """The points of stage and of publish, in order."""
    passed = []
    killable(w, SNAP_CSI_KILL_TRACE="/tmp/trace")
    for call in ("stage", "publish"):
        w.vm.sh(": >/tmp/trace")
        getattr(volume(w), call)()
        passed += [(call, point) for point in w.vm.sh("cat /tmp/trace").splitlines()]
    w.kill_driver()
    w.start_driver()
    return passed


def take_down(w):
    volume(w).unpublish()
    volume(w).unstage()
    w.check(not w.mounts(), "something stays mounted: " + "\n".join(w.mounts()))


def unbind(w):
    pci = w.vf(FUNCTION)
    w.vm.sh(f"[ ! -e /sys/bus/pci/devices/{pci}/driver ] || echo {pci} >/sys/bus/pci/drivers/nvme/unbind")


def check_once(w):
    v = volume(w)
    mounts = [line.split()[4] for line in w.mounts()]
    w.check(sorted(mounts) == sorted([v.staging, v.target("pod-1")]), f"mounted are {mounts}")


@scenario("multipath")
def killed_at_every_step(w):
    """driver killed -9 at every step of stage and publish: retried, mounted once, the data are intact"""
    ns = w.ns[NAMESPACE]
    w.blank(NAMESPACE)
    w.attach(ns, FUNCTION)
    unbind(w)
    points = trace(w)
    w.check(len(points) >= 10, f"only {points} were passed")
    take_down(w)
    for call, point in points:
        fresh = call == "stage"
        if fresh:
            w.blank_attached(ns, FUNCTION)
        else:
            volume(w).stage()
            w.vm.sh(f"echo kept >{volume(w).staging}/kept; sync {volume(w).staging}/kept")
        if point.startswith(("bind: ", "forget: ")):
            unbind(w)
        die_at(w, call, point)
        getattr(volume(w), call)()
        volume(w).publish()
        check_once(w)
        target = volume(w).target("pod-1")
        if fresh:
            w.vm.sh(f"echo kept >{target}/kept; sync {target}/kept")
            take_down(w)
            volume(w).stage()
            volume(w).publish()
        w.check(w.vm.sh(f"cat {target}/kept") == "kept", f"killed after {point}: the data is lost")
        take_down(w)
    w.detach(ns, FUNCTION)
    w.blank(NAMESPACE)
