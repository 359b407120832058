# SPDX-License-Identifier: Apache-2.0
"""Kills the controller at every kill point of create, expand, publish, unpublish and delete, and while its request is on its
way.

snap-sim has no devices here. Two controllers serve the same namespace: the first one is killed; the replica runs all the
time, so its watches have seen everything. After each kill one of these follows, each in a separate run: the same call to the
restarted first controller; the same call to the replica; a user who waits until DPF has completed all requests of the
objects, and checks them; and another call instead, as when the first one is no longer wanted. Callers retry as the sidecars
do: with growing pauses after a code that is open, and never after a final one. Then the volume is used to the end of its
life.
"""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import kubelet
import sim_switch
from expect import Failed, check, until
from host import MIB, NAMESPACE, NODE
from kubelet import Refused

OTHER_NODE = "dpu-host-2"
OPEN_CODES = ("CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE", "ABORTED")
GROWN = 600  # MiB, of a volume that is expanded
KINDS = ("dpuvolumes", "dpuvolumeattachments")


class Controller:
    """One controller and the connection to it."""

    def __init__(self, cluster, name):
        self.cluster, self.socket = cluster, f"{cluster.dir}/{name}.sock"
        self.process = self.kubelet = None

    def start(self, **environment):
        self.process = subprocess.Popen(
            [self.cluster.kill_out + "/snap-csi-plugin", "--mode=controller", f"--bind-address=unix://{self.socket}",
             f"--namespace={NAMESPACE}", f"--kubeconfig={self.cluster.dir}/kubeconfig", "--wait-timeout=2s"],
            stdin=subprocess.DEVNULL, stdout=self.cluster.log, stderr=self.cluster.log, env={**os.environ, **environment})
        self.kubelet = kubelet.Kubelet(self.cluster.messages, "unix:" + self.socket, min_reconnect_backoff_ms=20,
                                       initial_reconnect_backoff_ms=20)
        self.kubelet.call("Identity", "Probe", wait_for_ready=True)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        return self.wait_for_death()

    def wait_for_death(self):
        """How it ended, as Popen has it: -9 when it was killed."""
        if not self.process:
            return None
        status = self.process.wait(60)
        self.kubelet.close()
        self.process = self.kubelet = None
        return status


class Cluster:
    def __init__(self, out, kill_out, messages):
        self.out, self.kill_out, self.messages = out, kill_out, messages
        self.dir = tempfile.mkdtemp(prefix="snap-csi-kill.", dir=os.environ.get("TMPDIR", "/var/tmp"))
        self.log = open(self.dir + "/controller.log", "ab")
        with open(self.dir + "/sim.log", "wb") as log:
            self.sim = subprocess.Popen(
                [out + "/snap-sim", "--no-fabric", f"--state={self.dir}/sim", f"--write-kubeconfig={self.dir}/kubeconfig",
                 f"--port-file={self.dir}/port", f"--namespace={NAMESPACE}", f"--node={NODE}", f"--node={OTHER_NODE}", "--seed",
                 "--hotplug-slots=1", "--growing-volumes"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until("snap-sim is ready", lambda: os.path.exists(self.dir + "/port") and os.path.exists(self.dir + "/kubeconfig"), 60, 0.01)
        with open(self.dir + "/port", encoding="ascii") as f:
            self.port = f.read()
        self.first, self.replica = Controller(self, "first"), Controller(self, "replica")
        self.replica.start()

    def close(self, keep_logs):
        self.first.kill()
        self.replica.kill()
        self.sim.terminate()
        self.sim.wait(30)
        self.log.close()
        if keep_logs:
            os.makedirs(keep_logs, exist_ok=True)
            shutil.copy(self.dir + "/controller.log", keep_logs)
        shutil.rmtree(self.dir, ignore_errors=True)

    # -- the API server -------------------------------------------------------------------------
    def request(self, method, path, body=None):
        text = sim_switch.request(self.port, method, path, body)
        return json.loads(text) if text.startswith(("{", "[")) else text

    def path(self, kind):
        return f"/apis/storage.dpu.nvidia.com/v1alpha1/namespaces/{NAMESPACE}/{kind}"

    def objects(self, kind):
        return self.request("GET", self.path(kind))["items"]

    def warnings(self):
        """{uid: message} of the Events of type Warning."""
        events = self.request("GET", f"/api/v1/namespaces/{NAMESPACE}/events")["items"]
        return {e["involvedObject"]["uid"]: e["message"] for e in events if e["type"] == "Warning"}

    def fault(self, *faults):
        self.request("POST", "/sim/faults", list(faults))

    def no_faults(self):
        self.request("DELETE", "/sim/faults")

    def hanging(self):
        """Has a request fallen into a fault of requests?"""
        return any(f.get("verb") and f["applications"] for f in self.request("GET", "/sim/faults"))

    def settled(self):
        """All objects, once DPF has done everything that they ask for: no more changes come. "warning": an Event's message."""
        def end_of_all():
            found = [o for kind in KINDS for o in self.objects(kind)]
            warnings = self.warnings()
            for o in found:
                o["warning"] = warnings.get(o["metadata"]["uid"])
            return all(is_settled(o) for o in found) and [found]
        return until("DPF has done everything", end_of_all, 20, 0.005)[0]

    def empty(self):
        """Takes everything away, whatever happened in a case."""
        self.no_faults()
        for kind in reversed(KINDS):
            for o in self.objects(kind):
                if "deletionTimestamp" not in o["metadata"]:
                    self.request("DELETE", f"{self.path(kind)}/{o['metadata']['name']}")
            until(f"all {kind} are gone", lambda k=kind: not self.objects(k), 20, 0.005)


def conditions(o):
    return {c["type"]: c for c in o.get("status", {}).get("conditions", [])}


def is_settled(o):
    if "deletionTimestamp" in o["metadata"]:
        return False
    return conditions(o).get("Ready", {}).get("status") == "True" and has_grown(o) or bool(o["warning"])


def asked_for(o):
    """In MiB."""
    return int(o["spec"]["resources"]["requests"]["storage"].removesuffix("Mi"))


def has_grown(o):
    size = o.get("status", {}).get("state", {}).get("volumeInfo", {}).get("capacity", {}).get("storage", "0")
    return o["kind"] != "DPUVolume" or int(size) >= asked_for(o) * MIB


def shown(o):
    """An object as a person sees it."""
    ready = f"Event: {o['warning']}" if o.get("warning") else "Ready"
    if o["kind"] == "DPUVolume":
        size = o["status"].get("state", {}).get("volumeInfo", {}).get("capacity", {}).get("storage")
        return f"DPUVolume {o['status'].get('phase')}{f', {int(size) // MIB} MiB' if (size or '').isdigit() else ''}, {ready}"
    return f"DPUVolumeAttachment to {o['spec']['dpuNodeName']}, {ready}"


# ---------------------------------------------------------------- a volume and its calls

class Claim:
    """One volume, and how its sidecars ask for it. Calls raise Refused."""
    made = 0

    def __init__(self, cluster):
        Claim.made += 1
        self.cluster, self.id = cluster, f"pvc-{Claim.made}"
        self.limit = self.uid = None
        self.mode = 1  # SINGLE_NODE_WRITER
        self.share = False  # virtio-fs; else raw block
        self.elsewhere = 0  # attachments to other nodes, which stay

    def capability(self, pb):
        cap = pb.VolumeCapability(access_mode={"mode": self.mode})
        (cap.mount if self.share else cap.block).SetInParent()
        return cap

    def parameters(self):
        kind = {"csi.snap.nvidia.com/emulation": "virtiofs"} if self.share else {"functionType": "vf", "hotplugFunction": "false"}
        return {"policy": "example-policy", **kind,
                # As external-provisioner does with --extra-create-metadata.
                "csi.storage.k8s.io/pvc/name": "claim", "csi.storage.k8s.io/pvc/namespace": "default",
                "csi.storage.k8s.io/pv/name": self.id}

    def call(self, controller, name, node=NODE):
        k = controller.kubelet
        if name == "create":
            size = {"required_bytes": 400 * MIB, "limit_bytes": self.limit or 0}
            return k.call("Controller", "CreateVolume", name=self.id, capacity_range=size,
                          volume_capabilities=[self.capability(k.pb)], parameters=self.parameters())
        if name == "publish":
            return k.call("Controller", "ControllerPublishVolume", volume_id=self.id, node_id=node,
                          volume_capability=self.capability(k.pb))
        if name == "unpublish":
            return k.call("Controller", "ControllerUnpublishVolume", volume_id=self.id, node_id=node)
        if name == "unpublish everywhere":
            return k.call("Controller", "ControllerUnpublishVolume", volume_id=self.id)
        if name == "expand":
            return k.call("Controller", "ControllerExpandVolume", volume_id=self.id, capacity_range={"required_bytes": GROWN * MIB})
        return k.call("Controller", "DeleteVolume", volume_id=self.id)

    def ask(self, controller, name, node=NODE):
        """Repeats the call like a sidecar; "OK", or the first final code and its text."""
        pause, end = 0.02, time.monotonic() + 60
        while True:
            try:
                self.call(controller, name, node)
                return "OK"
            except Refused as refused:
                answer = f"{refused.code}: {refused.text}".replace(self.id, "pvc-1")
                if refused.code not in OPEN_CODES:
                    return answer
                check(time.monotonic() < end, f"{name} does not end: {answer}")
            time.sleep(pause)
            pause = min(2 * pause, 1)

    def must(self, controller, name, node=NODE):
        answer = self.ask(controller, name, node)
        check(answer == "OK", f"{name}: {answer}")

    # -- the existing objects --------------------------------------------------------------------
    def volumes(self):
        return [o for o in self.cluster.objects("dpuvolumes") if o["metadata"]["name"] == self.id]

    def attachments(self):
        return [o for o in self.cluster.objects("dpuvolumeattachments") if o["spec"]["dpuVolumeName"] == self.id]

    def attachments_here(self):
        return [o for o in self.attachments() if o["spec"]["dpuNodeName"] == NODE]

    def remember(self):
        """From here on the volume may hold data: it must stay the same object until it is deleted."""
        self.uid = self.volumes()[0]["metadata"]["uid"]

    def check_nothing_lost(self):
        check(len(self.attachments()) <= 1 or self.mode != 1, "two attachments of a single-node volume")
        check(len(self.attachments()) - len(self.attachments_here()) >= self.elsewhere, "an attachment of another node is lost")
        if self.uid:
            check([o["metadata"]["uid"] for o in self.volumes()] == [self.uid], "the volume is another one, or lost")

    def check_nothing_left(self):
        left = [shown(o) for o in self.cluster.settled()]
        check(not left, f"left is {left}")
        state = self.cluster.request("GET", "/sim/state")
        check(not state["volumes"] and not state["attachments"], f"behind the objects is {state}")


# ---------------------------------------------------------------- operations

def new(_, claim):
    return claim


def vendor_is_full(cluster, claim):
    cluster.fault({"dpf": "volume-failure"})
    return claim


def made_too_large(cluster, claim):
    claim.limit = 500 * MIB
    cluster.fault({"dpf": "volume-capacity", "value": "600Mi"})
    return claim


def created(cluster, claim):
    claim.must(cluster.replica, "create")
    claim.remember()
    return claim


def attached(cluster, claim):
    created(cluster, claim)
    claim.must(cluster.replica, "publish")
    return claim


def attached_twice(cluster, claim):
    claim.mode = 5  # MULTI_NODE_MULTI_WRITER
    attached(cluster, claim)
    claim.must(cluster.replica, "publish", OTHER_NODE)
    return claim


def share_elsewhere(cluster, claim):
    """A virtio-fs volume that many nodes write, and another one has it already."""
    claim.share, claim.mode = True, 5
    created(cluster, claim)
    claim.must(cluster.replica, "publish", OTHER_NODE)
    claim.elsewhere = 1
    return claim


def unpublish_instead(cluster, claim):
    answer = claim.ask(cluster.replica, "unpublish")
    claim.check_nothing_lost()
    check(not claim.attachments_here(), "the attachment is left")
    return f"ControllerUnpublishVolume: {answer}"


def publish_elsewhere(cluster, claim):
    """At once, which must not make a second attachment, and again when DPF has done everything."""
    answers = []
    for _ in range(2):
        answers.append(claim.ask(cluster.replica, "publish", OTHER_NODE))
        claim.check_nothing_lost()
        cluster.settled()
    if answers[1] == "OK":
        answer = claim.ask(cluster.first, "publish")
        check(answer.startswith("FAILED_PRECONDITION"), f"attached to both nodes: {answer}")
        claim.must(cluster.first, "unpublish", OTHER_NODE)
    return f"to another node: {answers[1]}"


def delete_instead(cluster, claim):
    answer = claim.ask(cluster.replica, "delete")
    claim.uid = None
    claim.check_nothing_left()
    return f"DeleteVolume: {answer}"


def publish_instead(cluster, claim):
    cluster.settled()
    answer = claim.ask(cluster.replica, "publish")
    check(bool(claim.volumes()) == (answer == "OK"), f"there are {len(claim.volumes())} volumes, but publish says {answer}")
    if answer == "OK":
        claim.must(cluster.replica, "unpublish")
    return f"ControllerPublishVolume: {answer}"


POST_LOST = ("POST sent, not executed", {"verb": "create", "hang": True})
POST_DONE = ("POST executed, not answered", {"verb": "create", "hang": True, "applied": True})
PATCH_LOST = ("PATCH sent, not executed", {"verb": "patch", "resource": "dpuvolumes", "hang": True})
PATCH_DONE = ("PATCH executed, not answered", {"verb": "patch", "resource": "dpuvolumes", "hang": True, "applied": True})
DELETE_LOST = ("DELETE sent, not executed", {"verb": "delete", "hang": True})
DELETE_DONE = ("DELETE executed, not answered", {"verb": "delete", "hang": True, "applied": True})
POSTS, PATCHES, DELETES = (POST_LOST, POST_DONE), (PATCH_LOST, PATCH_DONE), (DELETE_LOST, DELETE_DONE)


class Operation:
    """name, what comes before the call, the call, the code that it must end with, requests that die on their way, other calls."""

    def __init__(self, name, prepare, call, code, requests, *instead):
        self.name, self.prepare, self.call, self.code, self.requests, self.instead = name, prepare, call, code, requests, instead


OPERATIONS = [
    Operation("CreateVolume", new, "create", "OK", POSTS, delete_instead),
    Operation("CreateVolume, refused by the storage", vendor_is_full, "create", "RESOURCE_EXHAUSTED", POSTS + DELETES, delete_instead),
    Operation("CreateVolume, made too large", made_too_large, "create", "OUT_OF_RANGE", POSTS + DELETES, delete_instead),
    Operation("ControllerExpandVolume", created, "expand", "OK", PATCHES, delete_instead),
    Operation("ControllerPublishVolume", created, "publish", "OK", POSTS, unpublish_instead, publish_elsewhere),
    Operation("ControllerPublishVolume, virtio-fs that another node has", share_elsewhere, "publish", "OK", POSTS,
              unpublish_instead),
    Operation("ControllerUnpublishVolume", attached, "unpublish", "OK", DELETES, publish_elsewhere),
    Operation("ControllerUnpublishVolume, from all nodes", attached_twice, "unpublish everywhere", "OK", DELETES),
    Operation("DeleteVolume", created, "delete", "OK", DELETES, publish_instead),
]


# ---------------------------------------------------------------- dying

def die_at(cluster, claim, call, point):
    cluster.first.start(SNAP_CSI_KILL_AT=point)
    answer, end = "DEADLINE_EXCEEDED", time.monotonic() + 60
    # A slow machine may need more than one wait.
    while answer.startswith("DEADLINE_EXCEEDED") and time.monotonic() < end:
        try:
            claim.call(cluster.first, call)
            answer = "OK"
        except Refused as refused:
            answer = f"{refused.code}: {refused.text}"
            # The end of the connection; every other code is an answer of a controller that lives.
            if refused.code == "UNAVAILABLE":
                status = cluster.first.wait_for_death()
                check(status == -signal.SIGKILL, f"the controller ended with {status}: {answer}")
                return
    raise Failed(f"the controller did not pass {point}: {answer}")


def die_sending(cluster, claim, call, fault):
    """The request hangs in the API server, which has carried it out or never will; then the controller is killed."""
    cluster.fault({**fault, "times": 1})
    cluster.first.start()

    def ask():
        try:
            claim.call(cluster.first, call)
        except Refused:
            pass
    caller = threading.Thread(target=ask)
    caller.start()
    try:
        until("the request is sent", cluster.hanging, 20, 0.005)
        if fault.get("applied"):
            until("it is executed", lambda: is_done(claim, call, fault["verb"]), 20, 0.005)
    finally:
        cluster.first.kill()
        caller.join()


def is_done(claim, call, verb):
    if verb == "create":
        return bool(claim.volumes() if call == "create" else claim.attachments_here())
    if verb == "patch":
        return [asked_for(o) for o in claim.volumes()] == [GROWN]
    found = claim.volumes() if call == "delete" else claim.attachments()
    return len(found) < 2 and call == "unpublish everywhere" or all("deletionTimestamp" in o["metadata"] for o in found)


def trace(cluster, operation):
    """Runs the operation once, and returns the points that it passes first, in order."""
    claim = operation.prepare(cluster, Claim(cluster))
    path = cluster.dir + "/trace"
    try:
        cluster.first.start(SNAP_CSI_KILL_TRACE=path)
        answer = claim.ask(cluster.first, operation.call)
        check(answer.split(":")[0] == operation.code, answer)
        with open(path, encoding="utf-8") as f:
            return list(dict.fromkeys(f.read().splitlines()))
    finally:
        cluster.first.kill()
        cluster.empty()
        if os.path.exists(path):
            os.unlink(path)


# ---------------------------------------------------------------- one case

def live_on(cluster, claim):
    """To the end of the volume, one call by each controller in turn. Objects that existed must still exist, once."""
    if claim.uid and claim.volumes():
        claim.check_nothing_lost()
        claim.must(cluster.first, "publish")
        claim.check_nothing_lost()
        check(len(claim.attachments_here()) == 1, "no attachment after publish")
        claim.elsewhere = 0
        claim.must(cluster.replica, "unpublish everywhere" if claim.mode == 5 else "unpublish")
        claim.check_nothing_lost()
    claim.must(cluster.first, "delete")
    claim.check_nothing_left()


def finish(cluster, claim, operation, controller):
    """The call to the end, and what must be true then."""
    answer = claim.ask(controller, operation.call)
    check(answer.split(":")[0] == operation.code, f"{operation.call}: {answer}")
    if operation.call == "create" and answer == "OK":
        check(len(claim.volumes()) == 1, "OK without a volume")
        claim.remember()
    elif operation.call == "expand":
        check([shown(o) for o in claim.volumes()] == [f"DPUVolume Bound, {GROWN} MiB, Ready"], "OK, but it has not grown")
    elif operation.call == "publish":
        check([shown(o) for o in claim.attachments_here()] == [f"DPUVolumeAttachment to {NODE}, Ready"], "OK without an attachment")
    elif operation.call.startswith("unpublish"):
        check(not claim.attachments(), "OK, but it is attached")
    else:
        claim.uid = None
        check(not claim.volumes(), f"{answer.split(':')[0]}, but the volume is left")
        claim.check_nothing_left()
    return answer


def look(cluster, claim, operation):
    seen = "; ".join(shown(o) for o in cluster.settled()).replace(claim.id, "pvc-1") or "nothing"
    finish(cluster, claim, operation, cluster.replica)
    return seen


def retry_of(which):
    return lambda cluster, claim, operation: finish(cluster, claim, operation, getattr(cluster, which))


def case(cluster, operation, die, way):
    """What the way found."""
    try:
        claim = operation.prepare(cluster, Claim(cluster))
        die(claim)
        # A user checks while the first controller is dead, and the next call goes to the replica.
        if way is not look:
            cluster.first.start()
        found = way(cluster, claim, operation)
        if way is look:
            cluster.first.start()
        live_on(cluster, claim)
        return found
    finally:
        cluster.first.kill()
        cluster.empty()


def ways(operation):
    """{name: function}; those behind the first three are the other calls."""
    found = {"a person": look, "the retry": retry_of("first"), "a replica": retry_of("replica")}
    for instead in operation.instead:
        found[instead.__name__.replace("_", " ")] = lambda cluster, claim, _, f=instead: f(cluster, claim)
    return found


def walk(walker, out, kill_out, messages, keep_logs):
    """Gives the walker's controller_rows (operation, point, [what each way found])."""
    operations = [o for o in OPERATIONS if walker.only in o.name]
    if not operations:
        return
    cluster, failed_before = Cluster(out, kill_out, messages), walker.failed
    try:
        for operation in operations:
            walk_one(cluster, walker, operation)
    finally:
        cluster.close(keep_logs if walker.failed > failed_before else None)


def walk_one(cluster, walker, operation):
    def die(point, how):
        found = [walker.case(f"{operation.name}, {point}: {name}", lambda w=way: case(cluster, operation, how, w))
                 for name, way in ways(operation).items()]
        if None not in found:
            walker.controller_rows.append((operation.name, point, found))
            walker.died_at.add(point)

    points = walker.case(operation.name, lambda: trace(cluster, operation))
    for point in points or []:
        die(point, lambda claim, p=point: die_at(cluster, claim, operation.call, p))
    for point, fault in operation.requests:
        die(point, lambda claim, f=fault: die_sending(cluster, claim, operation.call, f))
