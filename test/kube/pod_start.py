#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the start of a pod goes: claim and pod to Ready for 1, 20 and 100 pods, and the move of a StatefulSet's pod to another
node, divided into steps. Nothing fails because of a time. Run by pod-start.sh in its cluster, once for each setting of kubelet;
the title of the setting is the argument. Environment: POD_START_COUNTS ("1x10 20 100": how many pods at once, and how often),
POD_START_MOVES (5), POD_START_CLASS (snap-nvme).

All programs share one clock. Objects are timed by when a watch brings them, the node's calls by the driver's log."""
import collections
import datetime
import http.client
import json
import os
import re
import sys
import threading
import time

from kube import DIR, DPF, api, claim, create, delete, find, get, gone, nothing_left, path_of, patch, pod, running, stateful_set, until

KINDS = (("PersistentVolumeClaim", None), ("Pod", None), ("VolumeAttachment", None), ("Node", None), ("DPUVolume", DPF), ("DPUVolumeAttachment", DPF))
COUNTS = [(int(n), int(times or 1)) for n, _, times in (word.partition("x") for word in os.environ.get("POD_START_COUNTS", "1x10 20 100").split())]
MOVES = int(os.environ.get("POD_START_MOVES", "5"))
CLASS = os.environ.get("POD_START_CLASS", "snap-nvme")
LINE = re.compile(r"^[IWE] (\S+)Z (formatting|formatted|Node\w+)\b(.*)")
PAIR = re.compile(r'(\w+)=(?:"([^"]*)"|(\S+))')


class Watches:
    """When each fact of an object was first seen: at[kind, name, fact]."""

    def __init__(self):
        self.at, self.lock = {}, threading.Lock()
        for kind, namespace in KINDS:
            threading.Thread(target=self.follow, args=(kind, namespace), daemon=True).start()

    def follow(self, kind, namespace):
        version = ""
        while True:
            try:
                if not version:
                    version = api.call("GET", path_of(kind, namespace))[1]["metadata"]["resourceVersion"]
                connection = http.client.HTTPSConnection("127.0.0.1", 6443, context=api.tls, timeout=600)
                connection.request("GET", f"{path_of(kind, namespace)}?watch=1&resourceVersion={version}")
                for line in connection.getresponse():
                    now, event = time.time(), json.loads(line)
                    if event["type"] == "ERROR":
                        break
                    version = event["object"]["metadata"]["resourceVersion"]
                    self.note(kind, event, now)
            except (OSError, http.client.HTTPException, ValueError):
                pass
            version = ""

    def note(self, kind, event, now):
        o = event["object"]
        name, status = o["metadata"]["name"], o.get("status", {})
        facts = {"made"}
        if event["type"] == "DELETED":
            facts.add("gone")
        if o["metadata"].get("deletionTimestamp"):
            facts.add("deleting")
        if status.get("phase") == "Bound":
            facts.add("bound")
        if status.get("attached") or status.get("dpuAttached"):
            facts.add("attached")
        if kind == "Pod":
            name = o["metadata"]["uid"]  # that of a StatefulSet keeps its name
            if o["spec"].get("nodeName"):
                facts.add("scheduled")
            if any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", [])):
                facts.add("ready")
        if kind == "VolumeAttachment":
            name = f"{o['spec']['source']['persistentVolumeName']} {o['spec']['nodeName']}"
        if kind == "DPUVolumeAttachment":
            name = f"{o['spec']['dpuVolumeName']} {o['spec']['dpuNodeName']}"
        if kind == "Node":
            facts = {f"uses {v.rpartition('^')[2]}" for v in status.get("volumesInUse", [])}
        with self.lock:
            for fact in facts:
                self.at.setdefault((kind, name, fact), now)

    def when(self, kind, name, fact):
        with self.lock:
            return self.at.get((kind, name, fact))


class Logs:
    """The node's calls since the beginning: calls[method, volume] = [(begin, end)], in seconds."""

    def __init__(self):
        self.files = {name: os.path.getsize(name) for name in (f"{DIR}/log/driver.log", f"{DIR}/log/driver2.log") if os.path.exists(name)}

    def calls(self):
        calls = collections.defaultdict(list)
        for name, offset in self.files.items():
            with open(name, encoding="utf-8", errors="replace") as file:
                file.seek(offset)
                for line in file:
                    found = LINE.match(line)
                    pairs = {k: a or b for k, a, b in PAIR.findall(found[3])} if found else {}
                    if pairs.get("code", "OK") != "OK" or "volume" not in pairs:
                        continue
                    end = datetime.datetime.fromisoformat(found[1] + "+00:00").timestamp()
                    calls[found[2], pairs["volume"]].append((end - float(pairs.get("ms", 0)) / 1000, end))
        return calls


def steps_of(watches, calls, uid, claim_uid, node, begun):
    """The steps of one start, in seconds; those of a claim that was bound before are left out."""
    volume = f"pvc-{claim_uid}"  # name of the PersistentVolume and its handle
    at = f"{volume} {node}"

    def last(method):
        return (calls.get((method, volume)) or [(None, None)])[-1]
    scheduled, ready = watches.when("Pod", uid, "scheduled"), watches.when("Pod", uid, "ready")
    wanted, attached = watches.when("VolumeAttachment", at, "made"), watches.when("VolumeAttachment", at, "attached")
    made, carried_out = watches.when("DPUVolumeAttachment", at, "made"), watches.when("DPUVolumeAttachment", at, "attached")
    stage, publish, formatting, formatted = last("NodeStageVolume"), last("NodePublishVolume"), last("formatting"), last("formatted")
    # kubelet mounts a volume once its own Node object lists the volume in volumesInUse.
    listed = watches.when("Node", node, f"uses {volume}")
    tick = max(attached, listed) if attached and listed else attached
    steps = {
        "scheduler, with the claim": (begun, scheduled),
        "attach/detach controller": (scheduled, wanted),
        "attacher and driver, before": (wanted, made),
        "DPF": (made, carried_out),
        "driver and attacher, after": (carried_out, attached),
        "kubelet's tick (volumesInUse)": (attached, tick),
        "kubelet, after": (tick, stage[0]),
        "NodePublishVolume": publish,
        "sandbox and container": (publish[1], ready),
        "all": (begun, ready),
    }
    seconds = {step: b - a for step, (a, b) in steps.items() if a and b}
    if stage[1] and formatting[1] and formatted[1]:
        seconds["device and blank check"] = formatting[1] - stage[0]
        seconds["mkfs"] = formatted[1] - formatting[1]
        seconds["mount"] = stage[1] - formatted[1]
    elif stage[1]:
        seconds["device and mount"] = stage[1] - stage[0]
    missing = [step for step, (a, b) in steps.items() if not (a and b)]
    if missing:
        print(f"      not seen: {', '.join(missing)} of {volume}")
    return seconds


ORDER = ("end of the old pod", "detach", "scheduler, with the claim", "attach/detach controller", "attacher and driver, before", "DPF",
         "driver and attacher, after", "kubelet's tick (volumesInUse)", "kubelet, after", "device and blank check", "mkfs", "mount", "device and mount", "NodePublishVolume",
         "sandbox and container", "all", "all but DPF and mkfs")


def table(title, starts):
    for s in starts:
        s["all but DPF and mkfs"] = s.get("all", 0) - s.get("DPF", 0) - s.get("mkfs", 0)
    print(f"\n### {title}\n\n| step | n | mean, s | p99, s |\n| --- | --- | --- | --- |")
    for step in ORDER:
        values = sorted(s[step] for s in starts if step in s)
        if values:
            p99 = values[min(len(values) - 1, int(len(values) * 0.99))]
            print(f"| {step} | {len(values)} | {sum(values) / len(values):.3f} | {p99:.3f} |")
    sys.stdout.flush()


def uid_of(kind, ns, name):
    return get(kind, ns, name)["metadata"]["uid"]


def together(watches, ns, n, times):
    starts = []
    for turn in range(times):
        logs, begun, names = Logs(), {}, [f"p{turn}-{i}" for i in range(n)]
        for name in names:
            begun[name] = time.time()
            create(claim(name, CLASS), ns)
            create(pod(name, name, on="n1"), ns)
        for name in names:
            running(ns, name, 600)
        time.sleep(1)  # the last events
        calls = logs.calls()
        for name in names:
            starts.append(steps_of(watches, calls, uid_of("Pod", ns, name), uid_of("PersistentVolumeClaim", ns, name), "n1", begun[name]))
        for name in names:
            delete("Pod", ns, name)
            delete("PersistentVolumeClaim", ns, name)
        nothing_left(600)
    return starts


def moves(watches, ns):
    """The pod of a StatefulSet is deleted while its node is cordoned, so the next one starts on the other node."""
    starts, nodes = [], ["n1", "n2"]
    patch("Node", None, "n2", {"spec": {"unschedulable": True}})
    create(stateful_set("set", 1, False), ns)
    running(ns, "set-0", 600)
    claim_uid = uid_of("PersistentVolumeClaim", ns, "data-set-0")
    for _ in range(MOVES):
        old, logs = uid_of("Pod", ns, "set-0"), Logs()
        at = f"pvc-{claim_uid} {nodes[0]}"
        with watches.lock:  # an earlier move had the same names
            for key in [k for k in watches.at if k[0] in ("Node", "VolumeAttachment", "DPUVolumeAttachment") and not k[1].endswith(nodes[0])]:
                del watches.at[key]
        for node in nodes:
            patch("Node", None, node, {"spec": {"unschedulable": node == nodes[0]}})
        begun = time.time()
        delete("Pod", ns, "set-0")
        until("another pod", lambda old=old: (get("Pod", ns, "set-0") or {"metadata": {"uid": old}})["metadata"]["uid"] != old, 600)
        running(ns, "set-0", 600)
        time.sleep(1)
        ended, detached = watches.when("Pod", old, "gone"), watches.when("VolumeAttachment", at, "gone")
        steps = steps_of(watches, logs.calls(), uid_of("Pod", ns, "set-0"), claim_uid, nodes[1], begun)
        if ended and detached:
            # The old attachment and the new one are waited for at the same time.
            steps["end of the old pod"], steps["detach"] = ended - begun, detached - ended
            steps.pop("scheduler, with the claim", None)
        starts.append(steps)
        nodes.reverse()
    for node in nodes:
        patch("Node", None, node, {"spec": {"unschedulable": None}})
    delete("StatefulSet", ns, "set")
    gone("Pod", ns, "set-0", 600)
    delete("PersistentVolumeClaim", ns, "data-set-0")
    nothing_left(600)
    return starts


def main():
    title, ns = sys.argv[1], "pod-start"
    if not any(o["metadata"]["name"] == ns for o in find("Namespace")):
        create({"kind": "Namespace", "metadata": {"name": ns}})
        until("its default account", lambda: api.call("GET", f"/api/v1/namespaces/{ns}/serviceaccounts/default")[0] == 200)
    watches = Watches()
    time.sleep(2)
    for n, times in COUNTS:
        table(f"{title}: {n} {'pod' if n == 1 else 'pods at once'}, {times} {'time' if times == 1 else 'times'}", together(watches, ns, n, times))
    if MOVES:
        table(f"{title}: the move of a StatefulSet's pod, {MOVES} times", moves(watches, ns))
    print("pod-start: done")


if __name__ == "__main__":
    main()
