#!/usr/bin/env python3
"""Runs the scenarios of the other modules in the cluster of cluster.sh, each with claims and pods in its own namespace, which
must leave nothing. Prints a table with seconds and "e2e-kube: N passed, N failed, N skipped". E2E_ONLY: words of titles to
run. E2E_REST=1: only the scenarios that apply to this form (pods or processes) but not to the other.
UPDATE_DOCS=1 writes docs/use/kubernetes-life.md with the results of the scenarios."""
import os
import signal
import sys
import time

import life  # noqa: F401 each of them adds its scenarios, in this order
import hotplug  # noqa: F401
import shares  # noqa: F401
import encryption  # noqa: F401
import growth  # noqa: F401
import health  # noqa: F401
import refusals  # noqa: F401
import nodes  # noqa: F401
import restarts  # noqa: F401
import gates  # noqa: F401
import placement  # noqa: F401
import install  # noqa: F401
import newcomer  # noqa: F401
import page
from kube import DPF, PODS, cluster, create, delete, find, gone, heal, kubectl, nothing_left, until
from scenario import ONLY_HERE, SCENARIOS, SKIPPED


def clean(ns):
    heal()
    for kind in ("StatefulSet", "Pod", "PersistentVolumeClaim"):
        for o in find(kind, ns):
            delete(kind, ns, o["metadata"]["name"])
            gone(kind, ns, o["metadata"]["name"])
    nothing_left()
    delete("Namespace", None, ns)


def rescue(ns):
    """After a failure: removes what would disturb the next scenario, as far as possible."""
    heal()
    for name in ("apiserver", "kubelet") if PODS else ("apiserver", "kubelet", "driver", "provisioner", "attacher"):
        cluster("ensure", name)
    for kind in ("Deployment", "StatefulSet", "Pod", "PersistentVolumeClaim"):
        for o in find(kind, ns):
            delete(kind, ns, o["metadata"]["name"], grace=0)
    for kind, where in (("PersistentVolume", None), ("DPUVolume", DPF)):
        for o in find(kind, where):
            delete(kind, where, o["metadata"]["name"])
    nothing_left(60)


def one(number, title, function):
    ns = f"e2e-{number}"
    create({"kind": "Namespace", "metadata": {"name": ns}})
    until("its default account", lambda: kubectl("get", "serviceaccount", "-n", ns, "default").returncode == 0)
    begin = time.monotonic()
    try:
        function(ns)
        took = time.monotonic() - begin
        clean(ns)
        print(f"ok    {title:96} {took:5.1f} s", flush=True)
        return True
    except Exception as failure:  # whatever it is, the next scenario gets its chance
        print(f"FAIL  {title:96} {time.monotonic() - begin:5.1f} s\n      {type(failure).__name__}: {failure}", flush=True)
    try:
        rescue(ns)
    except Exception as failure:
        print(f"      and it left something: {failure}", flush=True)
    return False


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    only = os.environ.get("E2E_ONLY", "").split()
    chosen = [s for s in SCENARIOS if not only or any(word in s[0] for word in only)]
    if os.environ.get("E2E_REST"):
        chosen = [s for s in chosen if s[0] in ONLY_HERE]
    begin = time.monotonic()
    passed = sum(one(i, *s) for i, s in enumerate(chosen))
    for title, why in SKIPPED:
        print(f"skip  {title}: {why}")
    if os.environ.get("UPDATE_DOCS"):
        page.write()
    print(f"{len(chosen)} scenarios in {time.monotonic() - begin:.0f} s")
    skipped = len(SCENARIOS) - len(chosen) + len(SKIPPED)
    print(f"e2e-kube: {passed} passed, {len(chosen) - passed} failed, {skipped} skipped")
    sys.exit(passed != len(chosen))


main()
