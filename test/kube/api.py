#!/usr/bin/env python3
"""The behaviour of the real API server towards a client, and the driver's reaction: conflicts, expired resource versions,
refusal by priority and fairness, bookmarks, restarts, another CRD, the account of host watch, replaced tokens and
certificates. Prints a table with the driver's own words and "kube-api: N passed, N failed". Run by api.sh; API_ONLY: words of
titles to run."""
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback

import api_cases
import api_host
import bench
import growing_crd
from api_lab import (ACCOUNT, ATTACHMENTS, DIR, DPF, NODE, PORT, VOLUMES, Driver, Failed, Lab, ask, certify, compact, exists, is_answered,
                     make_account_key, raw, remove, replace, slow_request, text_of, token, until)

ROWS = []
GI = 1 << 30


def row(title, expected):
    def add(function):
        ROWS.append((title, expected, function))
        return function
    return add


# ---------------------------------------------------------------- calls
def create(name, size=GI):
    return {"name": name, "capacity_range": {"required_bytes": size}, "parameters": {"policy": "example-policy"},
            "volume_capabilities": [{"block": {}, "access_mode": {"mode": "SINGLE_NODE_WRITER"}}]}


def publish(name):
    return {"volume_id": name, "node_id": NODE, "volume_capability": {"block": {}, "access_mode": {"mode": "SINGLE_NODE_WRITER"}}}


def must(answer, code, *parts):
    got, text = answer
    text = json.dumps(text) if got == "OK" else text
    if got != code:
        raise Failed(f"{got}, not {code}: {text}")
    for part in parts:
        if part not in text:
            raise Failed(f'no "{part}" in: {text}')
    return got if got == "OK" else f"{got}: {text}"


def log_line(driver, part, since=0):
    """The driver's log line with these words, without the prefix of its text."""
    line = until(f'"{part}" in the log of {driver.name}',
                 lambda: next((line for line in driver.log(since).splitlines() if part in line), None))
    return line.split(" ", 2)[2]


def delete_volume(driver, name):
    """A POST that a restart has cut may be carried out for 35 s, and is UNAVAILABLE until then."""
    def deleted():
        code, said = driver.call("DeleteVolume", {"volume_id": name})
        if code != "OK" and "had no answer" not in str(said):
            raise Failed(f"DeleteVolume {name}: {code}: {said}")
        return code == "OK"
    until(f"{name} is deleted", deleted)


# ---------------------------------------------------------------- 409
@row("409 AlreadyExists: the same volume is made while our POST is on its way",
     "the other object is read, compared, and taken: OK; one volume")
def _(lab):
    gate = lab.relay.hold("POST", "/dpuvolumes")
    answer = lab.relayed.later("CreateVolume", create("pvc-same"))
    gate.wait()
    ask("POST", VOLUMES, json.loads(gate.body))
    mark = lab.relay.mark()
    gate.opened.set()
    must(answer(), "OK", "pvc-same")
    if not lab.relay.requests("GET", "/dpuvolumes/pvc-same", 200, mark):
        raise Failed("the object was not read")
    conflict = lab.relay.requests("POST", "/dpuvolumes", 409)[-1]
    delete_volume(lab.relayed, "pvc-same")
    return f"server: 409 {json.loads(conflict['answer'])['message']}; driver: OK"


@row("409 AlreadyExists: another volume of that name", "ALREADY_EXISTS, naming what differs; the other one stays")
def _(lab):
    gate = lab.relay.hold("POST", "/dpuvolumes")
    answer = lab.relayed.later("CreateVolume", create("pvc-other"))
    gate.wait()
    other = json.loads(gate.body)
    other["spec"]["dpuStoragePolicyName"] = "another-policy"
    # With the hash of this request it would be the volume of this request, which an admission policy has changed.
    del other["metadata"]["annotations"]["csi.snap.nvidia.com/request"]
    ask("POST", VOLUMES, other)
    gate.opened.set()
    said = must(answer(), "ALREADY_EXISTS", "different parameters", "pvc-other")
    if not exists(f"{VOLUMES}/pvc-other"):
        raise Failed("the other one is gone")
    remove(f"{VOLUMES}/pvc-other")
    return said


@row("409 Conflict: the volume is deleted and made again between our GET and our DELETE",
     "the uid in the DELETE spares the new one: it stays, and the call is ABORTED, since there is a volume of that id")
def _(lab):
    must(lab.relayed.call("CreateVolume", create("pvc-twice")), "OK")
    mark = lab.relay.mark()
    gate = lab.relay.hold("DELETE", "/dpuvolumes/pvc-twice")
    answer = lab.relayed.later("DeleteVolume", {"volume_id": "pvc-twice"})
    gate.wait()
    old = ask("GET", f"{VOLUMES}/pvc-twice")
    remove(f"{VOLUMES}/pvc-twice")
    new = ask("POST", VOLUMES, {"apiVersion": old["apiVersion"], "kind": "DPUVolume", "metadata": {"name": "pvc-twice"}, "spec": old["spec"]})
    gate.opened.set()
    said = must(answer(), "ABORTED", "was created again by another client")
    conflict = lab.relay.requests("DELETE", "/dpuvolumes/pvc-twice", 409, mark)
    now = ask("GET", f"{VOLUMES}/pvc-twice")
    if not conflict or now["metadata"]["uid"] != new["metadata"]["uid"] or "deletionTimestamp" in now["metadata"]:
        raise Failed("the new one was touched")
    remove(f"{VOLUMES}/pvc-twice")
    return f"server: 409 {json.loads(conflict[0]['answer'])['message']}; driver: {said}, the new one stays"


@row("409 Conflict: DPF changes the attachment between our GET and our DELETE",
     "no version is demanded: deleted, OK")
def _(lab):
    must(lab.relayed.call("CreateVolume", create("pvc-changed")), "OK")
    must(lab.relayed.call("ControllerPublishVolume", publish("pvc-changed")), "OK")
    gate = lab.relay.hold("DELETE", "/dpuvolumeattachments/")
    answer = lab.relayed.later("ControllerUnpublishVolume", {"volume_id": "pvc-changed", "node_id": NODE})
    gate.wait()
    path = f"{ATTACHMENTS}/{NODE}-pvc-changed"
    ask("PATCH", path, {"metadata": {"annotations": {"example.com/changed": "1"}}}, "application/merge-patch+json")
    gate.opened.set()
    said = must(answer(), "OK")
    delete_volume(lab.relayed, "pvc-changed")
    return said


# ---------------------------------------------------------------- 410
@row("410 Gone: the place of a watch has been compacted away and the server restarted",
     "list again, read what is waited for: the call gets its volume")
def _(lab):
    lab.fault({"dpf": "volume-never-bound", "name": "pvc-place"})
    answer = lab.relayed.later("CreateVolume", create("pvc-place"))
    until("the volume is made", lambda: exists(f"{VOLUMES}/pvc-place"))
    mark = lab.relay.mark()
    gate = lab.relay.hold("GET", "/dpuvolumes.*watch=1")
    until("a watch is open", lambda: lab.relay.cut("dpuvolumes"))
    gate.wait()
    ask("PATCH", f"{VOLUMES}/pvc-place", {"metadata": {"annotations": {"example.com/a": "b"}}}, "application/merge-patch+json")
    compact()
    lab.apiserver.restart()
    lab.heal()
    until("the volume is bound", lambda: ask("GET", f"{VOLUMES}/pvc-place").get("status", {}).get("phase") == "Bound")
    gate.opened.set()
    must(answer(), "OK", "pvc-place")
    expired = [n for n in lab.relay.requests("GET", "/dpuvolumes.*watch=1", None, mark)
               if n["status"] == 410 or any(code == 410 for _, _, code in n["events"])]
    if not expired:
        raise Failed("the server did not answer 410")
    if not lab.relay.requests("GET", r"/dpuvolumes\?limit=1$", 200, mark) or not lab.relay.requests("GET", "/dpuvolumes/pvc-place", 200, mark):
        raise Failed("no list and no read afterwards")
    delete_volume(lab.relayed, "pvc-place")
    how = "an ERROR event" if expired[0]["status"] == 200 else "the answer"
    return f"server: 410 in {how} of the watch; driver: lists, reads pvc-place, OK"


@row("410 Gone: the continue token of a list expires between two pages",
     "goes on with the token that the 410 offers: every attachment is seen, the one of this volume too")
def _(lab):
    must(lab.relayed.call("CreateVolume", create("pvc-pages")), "OK")
    lab.sim.kill()
    made = [f"hand-{i:03}" for i in range(520)] + ["zz-last"]

    def make(names):
        for name in names:
            ask("POST", ATTACHMENTS, {
                "apiVersion": "storage.dpu.nvidia.com/v1alpha1", "kind": "DPUVolumeAttachment", "metadata": {"name": name},
                "spec": {"dpuNodeName": "far", "dpuVolumeName": "pvc-pages" if name == "zz-last" else f"other-{name}",
                         "functionType": "vf", "hotplugFunction": False}})
    parts = [threading.Thread(target=make, args=(made[i::4],)) for i in range(4)]
    for part in parts:
        part.start()
    for part in parts:
        part.join()
    # A driver whose index of attachments stays empty, since its watch is not answered: it asks for lists after a while.
    watch = lab.relay.hold("GET", "/dpuvolumeattachments.*watch=1")
    driver = Driver("driver-pages", f"{DIR}/relayed.kubeconfig")
    gate = lab.relay.hold("GET", "/dpuvolumeattachments.*continue=")
    answer = driver.later("DeleteVolume", {"volume_id": "pvc-pages"})
    gate.wait()
    ask("DELETE", f"{ATTACHMENTS}/hand-000")
    compact()
    lab.apiserver.restart()
    mark = lab.relay.mark()
    gate.opened.set()
    said = must(answer(), "FAILED_PRECONDITION", "zz-last")
    expired = lab.relay.requests("GET", "/dpuvolumeattachments.*continue=", 410)
    after = lab.relay.requests("GET", "/dpuvolumeattachments.*continue=", 200, mark)
    if not expired or not after:
        raise Failed(f"{len(expired)} answers 410, {len(after)} pages afterwards")
    watch.opened.set()
    driver.kill(signal.SIGTERM)
    ask("DELETE", ATTACHMENTS)
    until("the attachments are gone", lambda: not ask("GET", ATTACHMENTS)["items"])
    lab.start_sim()
    delete_volume(lab.relayed, "pvc-pages")
    return f"server: 410 {json.loads(expired[-1]['answer'])['reason']} with a token; driver: {said}"


# ---------------------------------------------------------------- 429
FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"


@row("429: priority and fairness leaves the driver's account no seat",
     "waits as long as Retry-After says, tells it in the log, and goes on when there is a seat again: OK")
def _(lab):
    ask("POST", f"{FLOW}/prioritylevelconfigurations", {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration", "metadata": {"name": "no-seat"},
        "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
                                                "limitResponse": {"type": "Reject"}}}})
    ask("POST", f"{FLOW}/flowschemas", {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": "no-seat"},
        "spec": {"priorityLevelConfiguration": {"name": "no-seat"}, "matchingPrecedence": 2,
                 "rules": [{"subjects": [{"kind": "ServiceAccount", "serviceAccount": {"namespace": DPF, "name": "snap-csi-controller"}}],
                            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}]}]}})
    mine = token()

    def occupy():
        """Holds the one seat that a level without seats has. The server does not know the level at once, and another request
        of the account may have the seat for a moment, so each request that holds no seat is replaced."""
        held = slow_request("POST", VOLUMES, mine)
        refusals = [raw("GET", VOLUMES, token=mine)[0] == 429 for _ in range(20)]
        if all(refusals) and not is_answered(held):
            return held
        held.close()
        return None
    occupant = until("a request holds the seat of the account", occupy)
    driver = Driver("driver-429", f"{DIR}/relayed.kubeconfig")  # with a log that has not yet said such a thing
    mark = lab.relay.mark()
    answer = driver.later("CreateVolume", create("pvc-seat"))
    refused = until("three refusals of the POST", lambda: (r := lab.relay.requests("POST", "/dpuvolumes", 429, mark))[2:] and r)
    pauses = [b["at"] - a["at"] for a, b in zip(refused, refused[1:])]
    asked = int(refused[0]["retry_after"])
    if min(pauses) < asked:
        raise Failed(f"Retry-After is {asked} s, the pauses are {pauses}")
    said = log_line(driver, "create dpuvolumes")
    occupant.close()
    must(answer(), "OK", "pvc-seat")
    ask("DELETE", f"{FLOW}/flowschemas/no-seat")
    ask("DELETE", f"{FLOW}/prioritylevelconfigurations/no-seat")
    delete_volume(driver, "pvc-seat")
    driver.kill(signal.SIGTERM)
    return f"server: 429, Retry-After {asked}, pauses {', '.join(f'{p:.1f}' for p in pauses)} s; log: {said}; then OK"


# ---------------------------------------------------------------- bookmarks
@row("a bookmark moves the place of a watch on", "cut behind a bookmark, it is opened again at the bookmark's version; nothing is lost")
def _(lab):
    must(lab.relayed.call("CreateVolume", create("pvc-mark")), "OK")
    delete_volume(lab.relayed, "pvc-mark")

    def marked():
        ask("PATCH", f"/api/v1/namespaces/{DPF}", {"metadata": {"annotations": {"example.com/now": str(time.time())}}},
            "application/merge-patch+json")  # the versions of other kinds continue to grow
        with lab.relay.lock:
            return next((n for c, n in lab.relay.watches if "/dpuvolumes?" in n["path"] and n["events"] and n["events"][-1][0] == "BOOKMARK"), None)
    note = until("a bookmark comes", marked, 150)
    at = note["events"][-1][1]
    mark = lab.relay.mark()
    lab.relay.cut("dpuvolumes")
    again = until("the watch is opened again", lambda: lab.relay.requests("GET", "/dpuvolumes.*watch=1", None, mark))
    if f"resourceVersion={at}&" not in again[0]["path"]:
        raise Failed(f"the bookmark is {at}, asked for is {again[0]['path']}")
    must(lab.relayed.call("CreateVolume", create("pvc-mark2")), "OK")
    delete_volume(lab.relayed, "pvc-mark2")
    return f"BOOKMARK {at}; driver: watch?resourceVersion={at}"


# ---------------------------------------------------------------- restarts
def load(lab, n, kill):
    """n volumes through their lives, each call repeated until it is OK, as a sidecar does; kill() is called on the way."""
    answers, lock, seconds = {}, threading.Lock(), []
    calls = (("CreateVolume", create), ("ControllerPublishVolume", publish),
             ("ControllerUnpublishVolume", lambda v: {"volume_id": v, "node_id": NODE}), ("DeleteVolume", lambda v: {"volume_id": v}))
    made = threading.Barrier(n + 1)
    broken = []

    def live(name):
        try:
            for step, (method, request) in enumerate(calls):
                began = time.monotonic()
                while True:
                    code, text = lab.direct.call(method, request(name), 30)
                    with lock:
                        answers[code] = answers.get(code, 0) + 1
                    if code == "OK":
                        break
                    # PERMISSION_DENIED: a server that has just started has not read its roles yet.
                    if code not in ("UNAVAILABLE", "ABORTED", "DEADLINE_EXCEEDED", "PERMISSION_DENIED") or time.monotonic() - began > 120:
                        raise Failed(f"{method} {name}: {code}: {text}")
                seconds.append(time.monotonic() - began)
                if step == 1:
                    made.wait(300)
                    made.wait(300)
        except Exception as failure:  # pylint: disable=broad-except
            broken.append(failure)
            made.abort()
    threads = [threading.Thread(target=live, args=(f"pvc-load-{i:02}",)) for i in range(n)]
    for thread in threads:
        thread.start()
    kill()
    try:
        made.wait(300)
        volumes, attached = ask("GET", VOLUMES)["items"], ask("GET", ATTACHMENTS)["items"]
        made.wait(300)
        kill()
    except threading.BrokenBarrierError:
        pass
    for thread in threads:
        thread.join()
    if broken:
        raise broken[0]
    if len(volumes) != n or len(attached) != n:
        raise Failed(f"{n} volumes, but {len(volumes)} DPUVolumes and {len(attached)} DPUVolumeAttachments")
    until("nothing is left", lambda: not ask("GET", VOLUMES)["items"] and not ask("GET", ATTACHMENTS)["items"])
    return answers, max(seconds)


@row("the API server is killed (-9) and started, under load", "every call succeeds by itself or on its retry; one object each, none left")
def _(lab):
    def kill():
        began = time.monotonic()
        until("the load is on its way", lambda: len(raw("GET", VOLUMES)[1]["items"]) or time.monotonic() - began > 5)
        lab.apiserver.restart()
    answers, slowest = load(lab, 12, kill)
    return f"killed twice during 12 volumes' lives: {answers}, slowest call with its retries {slowest:.1f} s, 0 left"


@row("etcd and the API server are killed (-9) and started, under load", "the same")
def _(lab):
    def kill():
        lab.etcd.kill()
        lab.apiserver.kill()
        lab.etcd.start()
        lab.apiserver.start()
        lab.apiserver.ready()
    answers, slowest = load(lab, 12, kill)
    return f"killed twice during 12 volumes' lives: {answers}, slowest call with its retries {slowest:.1f} s, 0 left"


# ---------------------------------------------------------------- costs
REQUESTS = {"create": {"create dpuvolumes": 1},
            "publish": {"get dpuvolumes": 1, "create dpuvolumeattachments": 1},
            "unpublish": {"delete dpuvolumeattachments": 1},
            "delete": {"get dpuvolumes": 1, "delete dpuvolumes": 1}}


@row("a short form of make bench-kube", "calls of the driver and of the bare client succeed, with so many requests each as are in api.py")
def _(lab):
    n = 20
    lab.sim.kill()
    b = bench.Bench(lab, lab.direct, f"{DIR}/direct.kubeconfig")
    try:
        for names in ("stay", "more"):  # on each node, whose object and limit are read for its first two
            for op in bench.OPS[:2]:
                b.does("csi", op, names, bench.NODES, 10)
        costs = {}
        for who, parallel in (("bare", 10), ("csi", 1)):
            for op in bench.OPS:
                got = b.does(who, op, who, n, parallel)
                if got["failed"]:
                    raise Failed(f"{who} {op}: {got['why']}")
                # Rounded: a wait without events for some seconds reads its object.
                requests = got["requests"]
                each = {kind: round(requests.count(kind) / n) for kind in sorted(set(requests))}
                costs[who, op] = {kind: times for kind, times in each.items() if times}
        for names in ("stay", "more"):
            for op in bench.OPS[2:]:
                b.does("csi", op, names, bench.NODES, 10)
        for op, want in REQUESTS.items():
            if costs["csi", op] != want:
                raise Failed(f"{op}: {costs['csi', op]}, not {want}")
            if sum(costs["bare", op].values()) != 1:
                raise Failed(f"{op} of the bare client: {costs['bare', op]}")
    finally:
        b.dpf.kill()
        lab.start_sim()
    return "; ".join(f"{op} {sum(want.values())}" for op, want in REQUESTS.items())


# ---------------------------------------------------------------- another CRD
ROLE = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{DPF}/roles/{ACCOUNT}"


def offers_growth(driver):
    """Does the driver advertise expansion? Both services must say the same."""
    found = {"EXPAND_VOLUME" in json.dumps(driver.call("ControllerGetCapabilities", {})),
             "ONLINE" in json.dumps(driver.call("GetPluginCapabilities", {}))}
    if len(found) != 1:
        raise Failed("controller and plugin disagree about expansion")
    return found.pop()


def growth(driver):
    if not offers_growth(driver):
        raise Failed("not offered")
    must(driver.call("CreateVolume", create("pvc-grow")), "OK")
    request = {"volume_id": "pvc-grow", "capacity_range": {"required_bytes": 2 * GI}}
    said = must(driver.call("ControllerExpandVolume", request), "PERMISSION_DENIED", "patch", "dpuvolumes")
    role = ask("GET", ROLE)
    role["rules"][0]["verbs"].append("patch")
    ask("PUT", ROLE, role)
    until("the right is there", lambda: driver.call("ControllerExpandVolume", request)[0] == "OK")
    must(driver.call("ControllerExpandVolume", request), "OK", str(2 * GI))
    asked = ask("GET", f"{VOLUMES}/pvc-grow")["spec"]["resources"]["requests"]["storage"]
    if asked != "2Gi":
        raise Failed(f"asked for is {asked}")
    role = ask("GET", ROLE)
    role["rules"][0]["verbs"].remove("patch")
    ask("PUT", ROLE, role)
    delete_volume(driver, "pvc-grow")
    return said


@row("another CRD: spec.resources of a DPUVolume may grow",
     "expansion is not offered before; a driver started behind it offers it, names the missing right, and expands with it")
def _(lab):
    if offers_growth(lab.direct):
        raise Failed("offered where spec.resources is immutable")
    command = lab.sim.command
    lab.sim.kill()
    lab.sim.command = [*command, "--growing-volumes"]
    lab.start_sim()
    growing_crd.let_volumes_grow(ask, True)
    driver = Driver("driver-growing", f"{DIR}/direct.kubeconfig")
    try:
        said = growth(driver)
    finally:
        driver.kill()
        growing_crd.let_volumes_grow(ask, False)
        lab.sim.kill()
        lab.sim.command = command
        lab.start_sim()
    if offers_growth(lab.direct):
        raise Failed("the driver that runs has changed its mind")
    return f"{said}; with the right: OK"


# ---------------------------------------------------------------- host watch
STORAGE = "storage.dpu.nvidia.com"
STORAGE_KINDS = ("dpuvolumes", "dpuvolumeattachments", "dpustoragepolicies", "dpustoragevendors")


def serve_versions(*served):
    """DPF's storage kinds in these versions, which are the same but for their name."""
    for plural in STORAGE_KINDS:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{STORAGE}"
        crd = ask("GET", path)
        known = next(v for v in crd["spec"]["versions"] if v["name"] == "v1alpha1")
        versions = [{**known, "served": "v1alpha1" in served, "storage": True}]
        versions += [{**known, "name": name, "served": True, "storage": False} for name in served if name != "v1alpha1"]
        crd["spec"]["versions"] = versions
        ask("PUT", path, crd)

    def published():
        names = [v["version"] for v in ask("GET", f"/apis/{STORAGE}")["versions"]]
        documents = ask("GET", "/openapi/v3")["paths"]
        return set(names) == set(served) and all(f"apis/{STORAGE}/{name}" in documents for name in served)
    until(f"the API server serves {', '.join(served)}", published)


@row("DPF serves v1alpha1 and v1beta1, then v1beta1 alone, then v1alpha1 alone",
     "a volume is created, attached and deleted across the versions, without a restart of the driver; v1alpha1 is used while it is served")
def _(lab):
    driver = lab.direct
    pid = driver.process.pid
    command = lab.sim.command
    try:
        serve_versions("v1alpha1", "v1beta1")
        must(driver.call("CreateVolume", create("pvc-versions")), "OK")
        lab.sim.kill()
        serve_versions("v1beta1")
        lab.sim.command = [*command, "--storage-version=v1beta1"]
        lab.start_sim()
        until("a call succeeds in v1beta1", lambda: driver.call("CreateVolume", create("pvc-versions"))[0] == "OK")
        must(driver.call("CreateVolume", create("pvc-beta")), "OK")
        said = "used in another version" if "in another version" in driver.log() else "the log does not name the version"
    finally:
        lab.sim.kill()
        lab.sim.command = command
        serve_versions("v1alpha1")
        lab.start_sim()
    until("a call succeeds in v1alpha1", lambda: driver.call("CreateVolume", create("pvc-versions"))[0] == "OK")
    for name in ("pvc-versions", "pvc-beta"):
        delete_volume(driver, name)
    if driver.process.pid != pid or not driver.alive():
        raise Failed("the driver is another process")
    return said


@row("host watch with the Role of manifests/components/host-watch",
     "sees attachments come and go, nothing that it asks is forbidden; its token changes nothing and reads nothing else: 403")
def _(lab):
    def does(method, request):
        return lambda name: must(lab.direct.call(method, request(name)), "OK")
    return api_host.follows_and_may_nothing_else(
        does("CreateVolume", create), does("ControllerPublishVolume", publish),
        does("ControllerUnpublishVolume", lambda name: {"volume_id": name, "node_id": NODE}), lambda name: delete_volume(lab.direct, name))


# ---------------------------------------------------------------- credentials
MOUNT = "/run/secrets/kubernetes.io/serviceaccount"


def project(files):
    """Files as kubelet projects them: behind a link that is replaced at once."""
    folder = f"{MOUNT}/..{time.monotonic_ns()}"
    os.makedirs(folder)
    for name, text in files.items():
        replace(f"{folder}/{name}", text)
        if not os.path.islink(f"{MOUNT}/{name}"):
            os.symlink(f"..data/{name}", f"{MOUNT}/{name}")
    os.symlink(os.path.basename(folder), f"{MOUNT}/..data_tmp")
    os.replace(f"{MOUNT}/..data_tmp", f"{MOUNT}/..data")


def in_pod(lab, first):
    """A driver with the files of a pod, made once."""
    project({"token": first, "ca.crt": text_of(f"{DIR}/ca.crt")})
    if not hasattr(lab, "pod"):
        lab.pod = Driver("driver-pod", None, {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(PORT)})
    return lab.pod


def token_row(lab, name, revoke, before, after):
    first = before()
    driver = in_pod(lab, first)
    pid = driver.process.pid
    must(driver.call("CreateVolume", create(f"pvc-{name}-1")), "OK")
    revoke()
    until("the token is refused", lambda: raw("GET", VOLUMES, token=first)[0] == 401)
    said = must(driver.call("DeleteVolume", {"volume_id": f"pvc-{name}-1"}), "UNAUTHENTICATED", "does not accept the credentials of", "serviceaccount")
    # Here it cannot be sure that nothing was made: because it cannot look, or because a first POST was cut.
    must(driver.call("CreateVolume", create(f"pvc-{name}-2")), "UNAVAILABLE", "does not accept the credentials of")
    project({"token": after(), "ca.crt": text_of(f"{DIR}/ca.crt")})
    must(driver.call("CreateVolume", create(f"pvc-{name}-2")), "OK")
    if driver.process.pid != pid or not driver.alive():
        raise Failed("the driver is another process")
    for part in (first, first.split(".")[1]):
        if part in driver.log() or part in said:
            raise Failed("the token is in the log")
    for i in (1, 2):
        delete_volume(driver, f"pvc-{name}-{i}")
    return f"{said}; new file: OK, same process"


@row("token revoked: the Secret it is bound to is deleted",
     "UNAUTHENTICATED, naming the files; the projected file replaced: OK, without restart; no token in the log")
def _(lab):
    secret = f"/api/v1/namespaces/{DPF}/secrets"

    def before():
        ask("POST", secret, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bound"}})
        return token("bound")
    return token_row(lab, "revoked", lambda: ask("DELETE", f"{secret}/bound"), before, token)


@row("token revoked: the key that signs the accounts' tokens is rotated", "the same")
def _(lab):
    def rotate():
        make_account_key("sa2")
        lab.apiserver.account_key = "sa2"
        lab.apiserver.restart()
    said = token_row(lab, "rotated", rotate, token, token)
    for driver, name in ((lab.direct, "direct"), (lab.relayed, "relayed")):
        path = f"{DIR}/{name}.kubeconfig"
        config = json.loads(text_of(path))
        config["users"][0]["user"]["token"] = token()
        replace(path, json.dumps(config))
        # UNAVAILABLE while a watch still has the version of the API that an earlier row served: the sidecar repeats the call.
        until("a volume by the new token", lambda d=driver, n=name: d.call("CreateVolume", create(f"pvc-{n}"))[0] == "OK")
        delete_volume(driver, f"pvc-{name}")
    return said


@row("CA rotated: the server's certificate is of a new CA",
     "UNAVAILABLE, saying that the certificate is not trusted; ca.crt replaced: OK, without restart")
def _(lab):
    driver = in_pod(lab, token())
    must(driver.call("CreateVolume", create("pvc-ca-1")), "OK")
    old, mine = text_of(f"{DIR}/ca.crt"), token()
    certify("server", "/CN=kube-apiserver", "ca2")
    replace(f"{DIR}/ca.crt", text_of(f"{DIR}/ca2.crt"))
    project({"token": mine, "ca.crt": old})
    lab.apiserver.restart()
    said = must(driver.call("CreateVolume", create("pvc-ca-2"), 8), "UNAVAILABLE", "certificate")
    pid = driver.process.pid
    project({"token": mine, "ca.crt": text_of(f"{DIR}/ca2.crt")})
    must(driver.call("CreateVolume", create("pvc-ca-2")), "OK")
    must(lab.direct.call("CreateVolume", create("pvc-ca-2")), "OK")
    if driver.process.pid != pid or not driver.alive():
        raise Failed("the driver is another process")
    for i in (1, 2):
        delete_volume(driver, f"pvc-ca-{i}")
    return f"{said}; new ca.crt: OK, same process"


# ---------------------------------------------------------------- main
def run(lab, title, expected, function):
    began = time.monotonic()
    try:
        got = function(lab)
        passed = True
    except Exception as failure:  # pylint: disable=broad-except
        if not isinstance(failure, Failed):
            traceback.print_exc()
        got, passed = str(failure) or repr(failure), False
        lab.relay.gates.clear()
    print(f"{'ok  ' if passed else 'FAIL'} {time.monotonic() - began:5.1f} s  {title}\n     expected: {expected}\n     got:      {got}", flush=True)
    return passed


def main():
    began = time.monotonic()
    words = os.environ.get("API_ONLY", "").split()
    rows = [r for r in ROWS if not words or any(word in r[0] for word in words)]
    lab = Lab()
    print(f"     {time.monotonic() - began:5.1f} s  etcd, API server, snap-sim and drivers are up", flush=True)
    results = api_cases.against_server(words) + [run(lab, *r) for r in rows]
    print(f"kube-api: {sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    # The mounts are private: at the paths of a pod's files nothing of the machine is touched.
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    sys.exit(main())
