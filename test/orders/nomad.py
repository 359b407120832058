# SPDX-License-Identifier: Apache-2.0
"""What Nomad does with a CSI plugin: its supervisor, its fingerprints, and the calls that volumes and allocations cause, with
its paths, its fields and its repetitions. Written from the behaviour of its public client; nothing of it is copied.

A volume file is the JSON of hcl_json.go. A usage is what an allocation asks for: it is part of the paths.
"""
import os
import stat
import time

from kubelet import Refused
from machine import is_mounted

ACCESS = {"single-node-reader-only": 2, "single-node-writer": 1, "multi-node-reader-only": 3,
          "multi-node-single-writer": 4, "multi-node-multi-writer": 5}
UNITS = {"GiB": 1 << 30, "MiB": 1 << 20, "GB": 10 ** 9, "G": 10 ** 9}
RETRIED = ("UNAVAILABLE", "RESOURCE_EXHAUSTED")


def capacity(text):
    for unit, size in UNITS.items():
        if text.endswith(unit):
            return int(text[:-len(unit)]) * size
    return int(text)


def block_of(body, kind):
    """The attributes of the block, {} without one."""
    return next((dict(b["body"]["attributes"]) for b in body["blocks"] if b["type"] == kind), {})


class Usage:
    def __init__(self, access_mode="single-node-writer", attachment_mode="file-system", read_only=False):
        self.access_mode, self.attachment_mode, self.read_only = access_mode, attachment_mode, read_only

    def folder(self):
        return f"{'ro' if self.read_only else 'rw'}-{self.attachment_mode}-{self.access_mode}"


class Volume:
    def __init__(self, body, **instead):
        have = {**body["attributes"], **instead}
        self.id, self.name, self.namespace = have["id"], have["name"], "default"
        self.external_id, self.context = have.get("external_id", ""), {}
        self.capacity = {"required_bytes": capacity(have.get("capacity_min", "0")), "limit_bytes": capacity(have.get("capacity_max", "0"))}
        self.capabilities = [b["body"]["attributes"] for b in body["blocks"] if b["type"] == "capability"]
        self.options, self.parameters = block_of(body, "mount_options"), block_of(body, "parameters")
        self.secrets = {}


class Nomad:
    """One client with a monolith plugin, and the server's part of the calls."""

    def __init__(self, machine):
        self.m, self.used = machine, {}

    def call(self, service, method, **fields):
        """Nomad repeats what is UNAVAILABLE or RESOURCE_EXHAUSTED, three times in all."""
        for pause in (0.1, 0.2, None):
            try:
                return self.m.call(service, method, **fields)
            except Refused as refused:
                if refused.code not in RETRIED or pause is None:
                    raise
                time.sleep(pause)
        return None

    # -- the plugin -----------------------------------------------------------------------------
    def supervise(self):
        """Until the plugin is healthy, then every 30 s: is it ready? Once: its name."""
        ready = self.m.call("Identity", "Probe")
        if ready.HasField("ready") and not ready.ready.value:
            return None
        return self.m.call("Identity", "GetPluginInfo")

    def fingerprint(self):
        """Every 30 s for each of the two roles; unchanging parts only the first time. [RPC types], node's answer."""
        self.m.call("Identity", "GetPluginCapabilities")
        info = self.m.call("Node", "NodeGetInfo")
        self.m.call("Identity", "Probe")
        controller = self.m.call("Controller", "ControllerGetCapabilities")
        self.m.call("Identity", "Probe")
        node = self.m.call("Node", "NodeGetCapabilities")
        kinds = self.m.messages
        names = [kinds.ControllerServiceCapability.RPC.Type.Name(c.rpc.type) for c in controller.capabilities]
        return names + [kinds.NodeServiceCapability.RPC.Type.Name(c.rpc.type) for c in node.capabilities], info

    # -- volumes --------------------------------------------------------------------------------
    def capability(self, mode, options):
        cap = self.m.messages.VolumeCapability(access_mode={"mode": ACCESS[mode["access_mode"]]})
        if mode["attachment_mode"] == "block-device":
            cap.block.SetInParent()
        else:
            cap.mount.fs_type = options.get("fs_type", "")
            cap.mount.mount_flags.extend(options.get("mount_flags", []))
        return cap

    def of_usage(self, volume, usage):
        return self.capability({"access_mode": usage.access_mode, "attachment_mode": usage.attachment_mode}, volume.options)

    def create(self, volume):
        """nomad volume create: the topology requirements are always present, and empty. The result is then validated."""
        made = self.m.call("Controller", "CreateVolume", name=volume.name, parameters=volume.parameters, secrets=volume.secrets,
                           capacity_range=volume.capacity, accessibility_requirements={},
                           volume_capabilities=[self.capability(c, volume.options) for c in volume.capabilities]).volume
        volume.external_id, volume.context = made.volume_id, dict(made.volume_context)
        self.register(volume)
        return made

    def register(self, volume):
        """nomad volume register. The confirmed capabilities must be the requested ones; without a confirmation the volume is
        accepted anyway."""
        caps = [self.capability(c, volume.options) for c in volume.capabilities]
        answer = self.call("Controller", "ValidateVolumeCapabilities", volume_id=volume.external_id, volume_capabilities=caps,
                           volume_context=volume.context, parameters=volume.parameters, secrets=volume.secrets)
        return answer.HasField("confirmed") and all(cap in answer.confirmed.volume_capabilities for cap in caps)

    def delete(self, volume):
        self.call("Controller", "DeleteVolume", volume_id=volume.external_id, secrets=volume.secrets)

    # -- the server's part of a claim -----------------------------------------------------------
    def attach(self, volume, usage, node):
        return dict(self.call("Controller", "ControllerPublishVolume", volume_id=volume.external_id, node_id=node,
                              volume_capability=self.of_usage(volume, usage), readonly=usage.read_only, secrets=volume.secrets,
                              volume_context=volume.context).publish_context)

    def detach(self, volume, node):
        """A volume that is not there is fine: the server may have forgotten that it has detached it."""
        try:
            self.call("Controller", "ControllerUnpublishVolume", volume_id=volume.external_id, node_id=node)
        except Refused as refused:
            if refused.code != "NOT_FOUND":
                raise

    # -- the client's part ----------------------------------------------------------------------
    def staging(self, volume, usage):
        return f"{self.m.local}/staging/{volume.namespace}/{volume.id}/{usage.folder()}"

    def target(self, volume, allocation, usage):
        return f"{self.m.local}/per-alloc/{allocation}/{volume.id}/{usage.folder()}"

    def mount(self, volume, allocation, usage, publish_context):
        """Stages and publishes, each only where nothing is mounted yet. The target's parent is made, the target is not."""
        staging, target = self.staging(volume, usage), self.target(volume, allocation, usage)
        key = (volume.id, usage.folder())
        self.used.setdefault(key, set()).add(allocation)
        same = {"volume_id": volume.external_id, "publish_context": publish_context, "staging_target_path": staging,
                "volume_capability": self.of_usage(volume, usage), "secrets": volume.secrets, "volume_context": volume.context}
        try:
            os.makedirs(staging, 0o700, exist_ok=True)
            if not is_mounted(staging):
                self.call("Node", "NodeStageVolume", **same)
            os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
            if not is_mounted(target):
                self.call("Node", "NodePublishVolume", target_path=target, readonly=usage.read_only, **same)
        except Refused:
            self.used[key].discard(allocation)
            raise
        return target

    def unmount(self, volume, allocation, usage):
        """Unpublishes, removes the target if it is still there, and unstages after the last allocation that is known."""
        target = self.target(volume, allocation, usage)
        self.call("Node", "NodeUnpublishVolume", volume_id=volume.external_id, target_path=target)
        if os.path.lexists(target):
            if stat.S_ISDIR(os.lstat(target).st_mode):
                os.rmdir(target)
            else:
                os.remove(target)
        left = self.used.get((volume.id, usage.folder()), set())
        left.discard(allocation)
        if not left:
            self.call("Node", "NodeUnstageVolume", volume_id=volume.external_id, staging_target_path=self.staging(volume, usage))

    def restart(self):
        """The client restarts: its record of volume users is lost, its mounts are checked, and no call is made for those that
        exist."""
        self.used = {}

    def stop(self, volume, allocation, usage, node):
        self.unmount(volume, allocation, usage)
        self.detach(volume, node)

    def expand(self, volume, allocation, usage, size):
        """Controller first; the node only where that asks for it."""
        answer = self.call("Controller", "ControllerExpandVolume", volume_id=volume.external_id, capacity_range={"required_bytes": size},
                           secrets=volume.secrets, volume_capability=self.of_usage(volume, usage))
        if answer.node_expansion_required:
            self.call("Node", "NodeExpandVolume", volume_id=volume.external_id, volume_path=self.target(volume, allocation, usage),
                      staging_target_path=self.staging(volume, usage), volume_capability=self.of_usage(volume, usage),
                      capacity_range={"required_bytes": size})
        return answer
