"""Scenarios of the gate (docs/operate/gate.md): pods that wait until a daemon lets the driver use the DPU's functions."""
import contextlib
import os
import subprocess

from expect import Failed, until
from kube import DIR, DRIVER, NODE, ROOT, claim, cluster, create, delete, event_with, get, gone, pod, running, shell
from scenario import scenario

SOCKET = f"{DIR}/run/gate.sock"


@contextlib.contextmanager
def gated_driver():
    """The driver of this node with --controlled-mode."""
    def restart():
        for step in ("stop", "start"):
            cluster(step, "driver")
    os.environ["DRIVER_GATE"] = SOCKET
    try:
        restart()
        yield
    finally:
        del os.environ["DRIVER_GATE"]
        restart()
        until("kubelet has the driver again", registered)


@contextlib.contextmanager
def daemon(generation):
    """Holds the gate open. The end is that of a daemon that crashes."""
    process = subprocess.Popen(["/usr/bin/python3", f"{ROOT}/test/lib/py/enable_devices.py", SOCKET, NODE, str(generation)],
                               stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def registered():
    drivers = get("CSINode", None, NODE)["spec"].get("drivers") or []
    return DRIVER in [d["name"] for d in drivers]


@scenario("the gate: a pod waits until it opens, runs on when it closes, and the next one waits", where="processes")
def _(ns):
    with gated_driver():
        until("kubelet has no such driver", lambda: not registered())
        for name in ("first", "second"):
            create(claim(name), ns)
        create(pod("first", "first"), ns)
        event_with(ns, "first", f"does not contain driver {DRIVER}")
        with daemon(1):
            running(ns, "first")
            shell(ns, "first", "echo kept >/data/file")
        create(pod("second", "second"), ns)
        event_with(ns, "second", "the gate is closed")
        if shell(ns, "first", "cat /data/file") != "kept" or not registered():
            raise Failed("the pod that ran has lost its volume, or the node its driver")
        with daemon(2):
            running(ns, "second")
        # Staged volumes are unstaged even while the gate is closed; then the driver unregisters from kubelet.
        for name in ("first", "second"):
            delete("Pod", ns, name)
            gone("Pod", ns, name)
        until("kubelet has no such driver any more", lambda: not registered())
