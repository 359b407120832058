# SPDX-License-Identifier: Apache-2.0
"""What Mesos' storage local resource provider does with a CSI plugin: a state for each volume, written down before and after
each call, and from any of them the way on. Written from the behaviour of its public source; nothing of it is copied.

die_at is (method, "before" or "after"): the agent dies there, and what its successor knows is the last state written.
"""
import json
import os
import shutil
import urllib.parse

# State while the call runs, the call, the state after it. A failed call is taken up again from its own state.
UP = {"CREATED": ("CONTROLLER_PUBLISH", "NODE_READY"), "NODE_READY": ("NODE_STAGE", "VOL_READY"), "VOL_READY": ("NODE_PUBLISH", "PUBLISHED")}
DOWN = {"PUBLISHED": ("NODE_UNPUBLISH", "VOL_READY"), "VOL_READY": ("NODE_UNSTAGE", "NODE_READY"),
        "NODE_READY": ("CONTROLLER_UNPUBLISH", "CREATED")}
LEVEL = ("CREATED", "NODE_READY", "VOL_READY", "PUBLISHED")
# A call that was under way is ended by its opposite, or repeated on the way up.
UNDER_WAY_UP = {during: (before, after) for before, (during, after) in UP.items()}
UNDER_WAY_DOWN = {during: (before, after) for before, (during, after) in DOWN.items()}


class Died(Exception):
    pass


class Agent:
    def __init__(self, machine, boot_id="boot-1"):
        self.m, self.boot_id, self.die_at = machine, boot_id, None
        self.root = machine.local + "/mesos"
        self.checkpoints = machine.dir + "/mesos.json"
        self.volumes, self.node_id = {}, None

    def call(self, service, method, **fields):
        if self.die_at == (method, "before"):
            raise Died(method)
        answer = self.m.call(service, method, **fields)
        if self.die_at == (method, "after"):
            raise Died(method)
        return answer

    def write(self):
        with open(self.checkpoints + ".new", "w", encoding="utf-8") as f:
            json.dump(self.volumes, f)
        os.replace(self.checkpoints + ".new", self.checkpoints)

    # -- the plugin -----------------------------------------------------------------------------
    def recover(self):
        """Both services' answers, then the volumes from the stored state; published volumes are published again."""
        self.call("Identity", "Probe")
        self.call("Identity", "GetPluginCapabilities")
        infos = [self.call("Identity", "GetPluginInfo") for _ in ("CONTROLLER_SERVICE", "NODE_SERVICE")]
        assert infos[0] == infos[1]
        self.call("Controller", "ControllerGetCapabilities")
        self.call("Node", "NodeGetCapabilities")
        self.node_id = self.call("Node", "NodeGetInfo").node_id
        if os.path.exists(self.checkpoints):
            with open(self.checkpoints, encoding="utf-8") as f:
                self.volumes = json.load(f)
        for volume, v in self.volumes.items():
            if v["state"] in ("VOL_READY", "PUBLISHED", "NODE_UNSTAGE", "NODE_PUBLISH", "NODE_UNPUBLISH") and v["boot_id"] != self.boot_id:
                v["state"] = "NODE_READY"
            if v["node_publish_required"]:
                self.publish(volume)

    # -- volumes --------------------------------------------------------------------------------
    def list(self):
        """One page, {id: (bytes, context)}."""
        return {e.volume.volume_id: (e.volume.capacity_bytes, dict(e.volume.volume_context))
                for e in self.call("Controller", "ListVolumes").entries}

    def track(self, volume, cap, parameters, context):
        self.volumes[volume] = {"state": "CREATED", "cap": cap.SerializeToString().hex(), "parameters": parameters, "context": context,
                                "publish_context": {}, "boot_id": "", "node_publish_required": False}
        self.write()

    def create(self, name, size, cap, parameters):
        made = self.call("Controller", "CreateVolume", name=name, capacity_range={"required_bytes": size, "limit_bytes": size},
                         volume_capabilities=[cap], parameters=parameters).volume
        self.track(made.volume_id, cap, parameters, dict(made.volume_context))
        return made

    def validate(self, volume, context, cap, parameters):
        """None, or why the pre-existing volume cannot be used with this profile."""
        answer = self.call("Controller", "ValidateVolumeCapabilities", volume_id=volume, volume_context=context, volume_capabilities=[cap],
                           parameters=parameters)
        if not answer.HasField("confirmed"):
            return "not confirmed: " + answer.message
        if dict(answer.confirmed.volume_context) != context:
            return "mismatched volume context"
        if cap not in answer.confirmed.volume_capabilities:
            return "unsupported volume capability"
        if dict(answer.confirmed.parameters) != parameters:
            return "mismatched parameters"
        self.track(volume, cap, parameters, context)
        return None

    def path(self, volume, what):
        return f"{self.root}/mounts/{urllib.parse.quote(volume, safe='')}/{what}"

    def cap(self, v):
        return self.m.messages.VolumeCapability.FromString(bytes.fromhex(v["cap"]))

    # -- the calls ------------------------------------------------------------------------------
    def do(self, during, volume, v):
        staging, target = self.path(volume, "staging"), self.path(volume, "target")
        of_node = {"publish_context": v["publish_context"], "volume_context": v["context"], "staging_target_path": staging,
                   "volume_capability": self.cap(v)}
        if during == "CONTROLLER_PUBLISH":
            answer = self.call("Controller", "ControllerPublishVolume", volume_id=volume, node_id=self.node_id,
                               volume_capability=self.cap(v), volume_context=v["context"])
            v["publish_context"] = dict(answer.publish_context)
        elif during == "NODE_STAGE":
            os.makedirs(staging, exist_ok=True)
            self.call("Node", "NodeStageVolume", volume_id=volume, **of_node)
            v["boot_id"] = self.boot_id
        elif during == "NODE_PUBLISH":
            os.makedirs(os.path.dirname(target), exist_ok=True)
            self.call("Node", "NodePublishVolume", volume_id=volume, target_path=target, **of_node)
            assert os.path.lexists(target), "the target was not created"
            v["node_publish_required"] = True
        elif during == "NODE_UNPUBLISH":
            self.call("Node", "NodeUnpublishVolume", volume_id=volume, target_path=target)
            assert not os.path.lexists(target), "the target was not removed"
        elif during == "NODE_UNSTAGE":
            self.call("Node", "NodeUnstageVolume", volume_id=volume, staging_target_path=staging)
            v["boot_id"] = ""
        else:
            self.call("Controller", "ControllerUnpublishVolume", volume_id=volume, node_id=self.node_id)
            v["publish_context"] = {}

    def step(self, volume, during, after):
        v = self.volumes[volume]
        if v["state"] != during:
            v["state"] = during
            self.write()
        self.do(during, volume, v)
        v["state"] = after
        self.write()

    def go(self, volume, goal):
        """To one of LEVEL. On the way up a call that failed is repeated, on the way down its opposite is called."""
        v = self.volumes[volume]
        while v["state"] != goal:
            state = v["state"]
            if state in UNDER_WAY_DOWN:
                self.step(volume, state, UNDER_WAY_DOWN[state][1])
            elif state in UNDER_WAY_UP:
                before, after = UNDER_WAY_UP[state]
                if LEVEL.index(goal) >= LEVEL.index(after):
                    self.step(volume, state, after)
                else:
                    self.step(volume, DOWN[after][0], before)
            elif LEVEL.index(state) < LEVEL.index(goal):
                self.step(volume, *UP[state])
            else:
                self.step(volume, *DOWN[state])

    def publish(self, volume):
        self.go(volume, "PUBLISHED")

    def detach(self, volume):
        self.volumes[volume]["node_publish_required"] = False
        self.go(volume, "CREATED")

    def delete(self, volume):
        """Of a persistent volume first its data, through the target, which stays."""
        v, target = self.volumes[volume], self.path(volume, "target")
        if v["node_publish_required"] and os.path.isdir(target):
            for name in os.listdir(target):
                path = os.path.join(target, name)
                if os.path.isdir(path):
                    shutil.rmtree(path)
                else:
                    os.remove(path)
        self.detach(volume)
        self.call("Controller", "DeleteVolume", volume_id=volume)
        del self.volumes[volume]
        self.write()
        shutil.rmtree(os.path.dirname(target), ignore_errors=True)
