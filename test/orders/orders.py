#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plays the orders of calls of Nomad and of Mesos (docs/hosts/nomad.md) against one process for both roles.

The job and volume files are those of manifests/examples/nomad, read by hcl_json.go. Usage: orders.py --out build/release --build build
[--only WORD]. Needs root and a mount namespace of its own. Ends with "orders: N passed, N failed".
"""
import argparse
import json
import os
import re
import signal
import subprocess
import sys
import traceback

import mesos
import nomad
from expect import Failed, check, until
from kubelet import Refused
from machine import NODE, OTHER_NODE, Machine, is_mounted, mountinfo, run

FILES = "manifests/examples/nomad"
GIB = 1 << 30
SCENARIOS = []


def scenario(function):
    SCENARIOS.append(function)
    return function


def read_files(build):
    """{name: body} of the example's HCL files."""
    files = {}
    for name in sorted(os.listdir(FILES)):
        with open(f"{FILES}/{name}", encoding="utf-8") as f:
            parsed = subprocess.run([build + "/tools/hcl-json"], stdin=f, capture_output=True, text=True, check=False)
        check(parsed.returncode == 0, f"{FILES}/{name}: {parsed.stderr}")
        files[name] = json.loads(parsed.stdout)
    return files


def blocks(body, kind):
    """The bodies of all blocks of a kind, however deep."""
    for block in body["blocks"]:
        if block["type"] == kind:
            yield block["body"]
        yield from blocks(block["body"], kind)


def plugin_of(body):
    """(arguments, attributes of csi_plugin) of a plugin's job."""
    return next(blocks(body, "config"))["attributes"]["args"], next(blocks(body, "csi_plugin"))["attributes"]


def refused(code, words, function, *args, **fields):
    try:
        function(*args, **fields)
    except Refused as error:
        check(error.code == code and all(word in error.text for word in words), f"expected {code} with {words}: {error}")
        return error.text
    raise Failed(f"{function.__name__}: not refused")


def put(target, text):
    with open(target + "/file", "w", encoding="utf-8") as f:
        f.write(text)


def get(target):
    with open(target + "/file", encoding="utf-8") as f:
        return f.read()


def options_of(path):
    return next(row[1] for row in mountinfo() if row[0] == path)


class World:
    def __init__(self, machine, files):
        self.m, self.files = machine, files
        self.n = nomad.Nomad(machine)

    def volume(self, file, **instead):
        return nomad.Volume(self.files[file], **instead)

    def start(self, file="plugin.nomad.hcl"):
        self.m.start_driver(plugin_of(self.files[file])[0])

    def restart(self):
        self.m.stop_driver(signal.SIGKILL)
        self.start()

    def created(self, file="data.volume.hcl", **instead):
        volume = self.volume(file, **instead)
        self.n.create(volume)
        return volume

    def running(self, volume, allocation, usage, node=NODE):
        """An allocation with its volume; the target."""
        return self.n.mount(volume, allocation, usage, self.n.attach(volume, usage, node))

    def kinds(self):
        return [json.loads(self.m.objects(kind))["items"] for kind in ("dpuvolumes", "dpuvolumeattachments")]

    def check_clean(self):
        volumes, attachments = self.kinds()
        check(not volumes, f"DPUVolumes are left: {[v['metadata']['name'] for v in volumes]}")
        check(not attachments, f"DPUVolumeAttachments are left: {[a['metadata']['name'] for a in attachments]}")
        check(not self.m.mounts(), f"mounts are left: {self.m.mounts()}")


WRITER = nomad.Usage()


# ---------------------------------------------------------------- Nomad

@scenario
def nomad_the_roles_apart_start_from_their_job_files(w):
    w.m.stop_driver(signal.SIGTERM)
    for file, kind, service, other in (("controller.nomad.hcl", "controller", "Controller", "Node"), ("node.nomad.hcl", "node", "Node", "Controller")):
        w.start(file)
        check(plugin_of(w.files[file])[1]["type"] == kind, f"{file}: the type of its csi_plugin is not {kind}")
        check(w.n.supervise(), f"{file}: not ready")
        w.m.call(service, service + "GetCapabilities")
        refused("UNIMPLEMENTED", [], w.m.call, other, other + "GetCapabilities")
        w.m.stop_driver(signal.SIGTERM)
    w.start()


@scenario
def nomad_finds_the_plugin_healthy_with_both_roles(w):
    args, plugin = plugin_of(w.files["plugin.nomad.hcl"])
    check("--mode=all" in args and plugin["type"] == "monolith", "plugin.nomad.hcl is no monolith of both roles")
    info = w.n.supervise()
    check(info.name == "csi.snap.nvidia.com" and info.vendor_version, f"GetPluginInfo: {info}")
    for _ in range(3):
        names, node = w.n.fingerprint()
        check({"CREATE_DELETE_VOLUME", "PUBLISH_UNPUBLISH_VOLUME", "LIST_VOLUMES", "STAGE_UNSTAGE_VOLUME"} <= set(names), f"capabilities: {names}")
        check(node.node_id == NODE and node.max_volumes_per_node == 8 and not node.HasField("accessible_topology"), f"NodeGetInfo: {node}")


@scenario
def nomad_a_volume_lives_from_create_to_delete(w):
    volume = w.created()
    first = volume.external_id
    made = w.n.create(volume)
    check(made.volume_id == first and made.capacity_bytes == GIB, f"created twice: {made}")
    check(w.n.register(volume), "what was created is not confirmed")
    target = w.running(volume, "a1", WRITER)
    check("noatime" in options_of(target), f"the mount options: {options_of(target)}")
    put(target, "written by a1")
    refused("FAILED_PRECONDITION", [], w.n.delete, volume)
    w.n.stop(volume, "a1", WRITER, NODE)
    target = w.running(volume, "a2", WRITER)
    check(get(target) == "written by a1", "the data of before are not there")
    w.n.stop(volume, "a2", WRITER, NODE)
    w.n.delete(volume)
    w.n.delete(volume)


@scenario
def nomad_a_name_may_be_any_text_and_an_id_may_have_brackets(w):
    volume = w.created(id="data[0]", name="Data of Müller, first copy")
    target = w.running(volume, "a1", WRITER)
    put(target, "x")
    w.n.stop(volume, "a1", WRITER, NODE)
    w.n.delete(volume)


@scenario
def nomad_two_allocations_share_a_volume(w):
    volume = w.created()
    context = w.n.attach(volume, WRITER, NODE)
    first = w.n.mount(volume, "a1", WRITER, context)
    second = w.n.mount(volume, "a2", WRITER, w.n.attach(volume, WRITER, NODE))
    put(first, "shared")
    check(get(second) == "shared", "the second allocation does not see it")
    w.n.unmount(volume, "a1", WRITER)
    check(get(second) == "shared", "the second one has lost it")
    w.n.stop(volume, "a2", WRITER, NODE)
    w.n.delete(volume)


@scenario
def nomad_after_its_restart_the_first_of_two_allocations_does_not_take_the_volume_from_the_second(w):
    volume = w.created()
    first, second = (w.running(volume, allocation, WRITER) for allocation in ("a1", "a2"))
    put(first, "kept")
    w.n.restart()
    w.n.fingerprint()
    # Nothing is called for what is mounted; then the first one ends, and the client knows of no other.
    refused("FAILED_PRECONDITION", [w.n.target(volume, "a2", WRITER)], w.n.unmount, volume, "a1", WRITER)
    check(get(second) == "kept", "the second allocation has lost its volume")
    put(second, "written after")
    w.n.stop(volume, "a2", WRITER, NODE)
    check(get(w.running(volume, "a3", WRITER)) == "written after", "what was written meanwhile is lost")
    w.n.stop(volume, "a3", WRITER, NODE)
    w.n.delete(volume)


@scenario
def nomad_everything_may_be_undone_twice(w):
    volume = w.created()
    w.running(volume, "a1", WRITER)
    for _ in range(2):
        w.n.stop(volume, "a1", WRITER, NODE)
    # The path of a client before namespaces were part of it: nothing was ever staged there.
    w.m.call("Node", "NodeUnstageVolume", volume_id=volume.external_id, staging_target_path=f"{w.m.local}/staging/{volume.id}/{WRITER.folder()}")
    for _ in range(2):
        w.n.delete(volume)
    w.n.detach(volume, NODE)
    w.n.unmount(volume, "a1", WRITER)


@scenario
def nomad_a_reader_and_a_writer_do_not_stage_one_disk_in_two_ways(w):
    reader = nomad.Usage("single-node-reader-only", read_only=True)
    volume = w.created()
    target = w.running(volume, "a1", WRITER)
    put(target, "data")
    context = w.n.attach(volume, reader, NODE)
    text = refused("FAILED_PRECONDITION", [w.n.staging(volume, WRITER)], w.n.mount, volume, "a2", reader, context)
    check(os.path.isdir(w.n.staging(volume, reader)) and not is_mounted(w.n.staging(volume, reader)), f"something is mounted: {text}")
    w.n.unmount(volume, "a2", reader)
    put(target, "the writer goes on")
    w.n.stop(volume, "a1", WRITER, NODE)
    target = w.running(volume, "a2", reader)
    check(get(target) == "the writer goes on" and "ro" in options_of(target), "the reader alone")
    try:
        put(target, "x")
        raise Failed("the reader has written")
    except OSError:
        pass
    w.n.stop(volume, "a2", reader, NODE)
    w.n.delete(volume)


@scenario
def nomad_a_host_that_died_is_detached_without_its_calls(w):
    volume = w.created()
    target = w.running(volume, "a1", WRITER)
    put(target, "of the first host")
    refused("FAILED_PRECONDITION", [NODE], w.n.attach, volume, WRITER, OTHER_NODE)
    # Its mounts are gone with it. Here both hosts have one kernel.
    for path in reversed(w.m.mounts()):
        run("umount", path)
    w.n.detach(volume, NODE)
    check(w.n.attach(volume, WRITER, OTHER_NODE), "no publish context on the other host")
    # The first host comes back and clears up what its allocation has left; so does the server, late.
    w.n.unmount(volume, "a1", WRITER)
    w.n.detach(volume, NODE)
    check(any(a["spec"]["dpuNodeName"] == OTHER_NODE for a in w.kinds()[1]), "the late detach has taken it from the other host")
    w.n.detach(volume, OTHER_NODE)
    w.n.delete(volume)


@scenario
def nomad_the_plugin_is_killed_under_a_volume(w):
    volume = w.created()
    target = w.running(volume, "a1", WRITER)
    put(target, "kept")
    w.restart()
    w.n.fingerprint()
    check(get(target) == "kept", "the volume has gone with the plugin")
    check(get(w.running(volume, "a2", WRITER)) == "kept", "a second allocation after the restart")
    w.n.unmount(volume, "a2", WRITER)
    w.n.stop(volume, "a1", WRITER, NODE)
    w.n.delete(volume)


@scenario
def nomad_raw_block(w):
    usage = nomad.Usage(attachment_mode="block-device")
    volume = w.created("raw.volume.hcl")
    target = w.running(volume, "a1", usage)
    check(run("blockdev", "--getsize64", target).strip() == str(GIB), "the published file is not the device")
    refused("INVALID_ARGUMENT", ["block"], w.running, volume, "a2", WRITER)
    w.n.stop(volume, "a1", usage, NODE)
    w.n.delete(volume)


def by_hand(w, name):
    w.m.api("POST", "dpuvolumes", json.dumps({
        "apiVersion": "storage.dpu.nvidia.com/v1alpha1", "kind": "DPUVolume", "metadata": {"name": name},
        "spec": {"dpuStoragePolicyName": "example-policy", "accessModes": ["ReadWriteOnce"], "volumeMode": "Block",
                 "resources": {"requests": {"storage": "1Gi"}}}}))
    listed = mesos.Agent(w.m).list
    until(f"{name} is listed", lambda: name in listed(), 60)


@scenario
def nomad_a_volume_grows_while_it_is_used(w):
    """Where DPF's CRD lets it. An xfs, since a mounted ext4 grows only with CAP_SYS_RESOURCE."""
    volume = w.volume("data.volume.hcl", id="grows", name="grows")
    volume.options["fs_type"], volume.capacity["limit_bytes"] = "xfs", 0
    w.n.create(volume)
    target = w.running(volume, "a1", WRITER)
    put(target, "before")
    was = os.statvfs(target).f_blocks
    answer = w.n.expand(volume, "a1", WRITER, 2 * GIB)
    check(answer.capacity_bytes == 2 * GIB and answer.node_expansion_required, f"ControllerExpandVolume: {answer}")
    check(os.statvfs(target).f_blocks > 1.5 * was and get(target) == "before", "the filesystem has not grown")
    w.n.expand(volume, "a1", WRITER, 2 * GIB)
    w.n.stop(volume, "a1", WRITER, NODE)
    w.n.delete(volume)


@scenario
def nomad_a_volume_that_was_there_is_registered(w):
    volume = w.volume("existing.volume.hcl")
    refused("NOT_FOUND", [volume.external_id], w.n.register, volume)
    by_hand(w, volume.external_id)
    check(w.n.register(volume), "not confirmed")
    put(w.running(volume, "a1", WRITER), "x")
    w.n.stop(volume, "a1", WRITER, NODE)
    w.n.delete(volume)


@scenario
def nomad_fields_that_it_leaves_out_or_gives_for_nothing(w):
    volume = w.created()
    volume.secrets = {"unused": "marker-of-secret"}
    volume.context = {}
    volume.parameters = {}
    check(w.n.register(volume), "without a context")
    w.running(volume, "a1", WRITER)
    w.n.stop(volume, "a1", WRITER, NODE)
    # A filesystem type is left out: the default, or what is on the disk.
    volume.options = {}
    w.running(volume, "a2", WRITER)
    w.n.stop(volume, "a2", WRITER, NODE)
    w.n.delete(volume)
    with open(w.m.dir + "/driver.log", encoding="utf-8") as f:
        check("marker-of-secret" not in f.read(), "a secret is in the log")


@scenario
def nomad_what_cannot_be_is_refused_with_a_reason(w):
    without = w.volume("data.volume.hcl", id="w", name="w")
    del without.parameters["policy"]
    refused("INVALID_ARGUMENT", ["policy"], w.n.create, without)
    many = w.volume("data.volume.hcl", id="m", name="m")
    many.capabilities = [{"access_mode": "multi-node-multi-writer", "attachment_mode": "file-system"}]
    refused("INVALID_ARGUMENT", ["filesystem"], w.n.create, many)
    both = w.volume("data.volume.hcl", id="b", name="b")
    both.capabilities.append({"access_mode": "single-node-writer", "attachment_mode": "block-device"})
    refused("INVALID_ARGUMENT", ["block"], w.n.create, both)
    copy = w.volume("data.volume.hcl")
    refused("INVALID_ARGUMENT", ["clone"], w.m.call, "Controller", "CreateVolume", name="copy", parameters=copy.parameters,
            volume_capabilities=[w.n.capability(c, {}) for c in copy.capabilities], volume_content_source={"volume": {"volume_id": "data"}})
    less = w.volume("data.volume.hcl", id="l", name="l", capacity_min="2GiB", capacity_max="1GiB")
    refused("OUT_OF_RANGE", [], w.n.create, less)
    volume = w.created()
    refused("NOT_FOUND", ["no-such-host"], w.n.attach, volume, WRITER, "no-such-host")
    elsewhere = w.m.dir + "/elsewhere"
    os.makedirs(elsewhere)
    refused("FAILED_PRECONDITION", [elsewhere], w.m.call, "Node", "NodeStageVolume", volume_id=volume.external_id,
            staging_target_path=elsewhere, volume_capability=w.n.of_usage(volume, WRITER), publish_context=w.n.attach(volume, WRITER, NODE),
            volume_context=volume.context)
    w.n.detach(volume, NODE)
    w.n.delete(volume)


# ---------------------------------------------------------------- Mesos

def profile(w, block=False, fs="xfs"):
    """The content of a disk profile: a capability and parameters."""
    mode = {"access_mode": "single-node-writer", "attachment_mode": "block-device" if block else "file-system"}
    return w.n.capability(mode, {} if block else {"fs_type": fs}), {"policy": "example-policy"}


@scenario
def mesos_asks_for_the_older_interface_and_is_told(w):
    refused("UNIMPLEMENTED", [], old_probe, w)
    mesos.Agent(w.m).recover()


def old_probe(w):
    import grpc  # pylint: disable=import-outside-toplevel
    probe = w.m.caller.channel.unary_unary("/csi.v0.Identity/Probe", request_serializer=lambda m: m, response_deserializer=lambda m: m)
    try:
        probe(b"", timeout=60)
    except grpc.RpcError as error:
        raise Refused("csi.v0 Probe", error) from error


def pre_existing(w, name, block=False, fs="xfs"):
    """An agent whose volume comes from ListVolumes."""
    by_hand(w, name)
    agent = mesos.Agent(w.m)
    agent.recover()
    size, context = agent.list()[name]
    check(size == GIB, f"ListVolumes: {size} bytes")
    wrong = agent.validate(name, context, *profile(w, block, fs))
    check(wrong is None, f"the profile is not confirmed: {wrong}")
    return agent


@scenario
def mesos_a_mount_disk_of_a_volume_that_was_there(w):
    agent = pre_existing(w, "mesos-mount")
    agent.publish("mesos-mount")
    put(agent.path("mesos-mount", "target"), "x")
    agent.delete("mesos-mount")


@scenario
def mesos_a_block_disk_of_a_volume_that_was_there(w):
    agent = pre_existing(w, "mesos-block", block=True)
    agent.publish("mesos-block")
    check(run("blockdev", "--getsize64", agent.path("mesos-block", "target")).strip() == str(GIB), "not the device")
    agent.delete("mesos-block")


@scenario
def mesos_a_volume_that_it_makes_has_exactly_its_size(w):
    agent = mesos.Agent(w.m)
    agent.recover()
    made = agent.create("mesos disk 1", GIB + 4096, *profile(w, block=True))
    check(made.capacity_bytes == GIB + 4096, f"{made.capacity_bytes} bytes")
    agent.publish(made.volume_id)
    agent.delete(made.volume_id)


@scenario
def mesos_another_profile_does_not_fit(w):
    by_hand(w, "mesos-other")
    agent = mesos.Agent(w.m)
    agent.recover()
    cap, parameters = profile(w)
    context = agent.list()["mesos-other"][1]
    check("mismatch" in agent.validate("mesos-other", context, cap, {"policy": "another"}), "another policy is confirmed")
    many = w.m.messages.VolumeCapability(access_mode={"mode": 5})
    many.block.SetInParent()
    check("does not allow" in agent.validate("mesos-other", context, many, parameters), "another access mode is confirmed")
    agent.call("Controller", "DeleteVolume", volume_id="mesos-other")


@scenario
def mesos_the_agent_dies_at_each_call_and_its_successor_goes_on(w):
    name = "mesos-dies"
    agent = pre_existing(w, name)
    agent.publish(name)
    target = agent.path(name, "target")
    put(target, "written once")
    agent.detach(name)
    for way, methods in (("PUBLISHED", ("ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume")),
                         ("CREATED", ("NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume"))):
        for method in methods:
            for when in ("before", "after"):
                for then in ("PUBLISHED", "CREATED"):
                    dies(w, name, way, (method, when), then)
    agent = mesos.Agent(w.m)
    agent.recover()
    agent.publish(name)
    check(get(target) == "written once", "the data are not what they were")
    agent.delete(name)


def dies(w, name, way, at, then):
    """In reverse order on the way there; the next agent has to do `then`."""
    agent = mesos.Agent(w.m)
    agent.recover()
    agent.volumes[name]["node_publish_required"] = False
    agent.go(name, "CREATED" if way == "PUBLISHED" else "PUBLISHED")
    agent.volumes[name]["node_publish_required"] = False
    agent.die_at = at
    try:
        agent.go(name, way)
        raise Failed(f"nothing is called at {at}")
    except mesos.Died:
        pass
    agent = mesos.Agent(w.m)
    agent.recover()
    agent.go(name, then)
    published = is_mounted(agent.path(name, "target"))
    check(published == (then == "PUBLISHED"), f"died {at[1]} {at[0]}, then {then}: mounted: {published}")


@scenario
def mesos_the_host_boots_again(w):
    name = "mesos-boots"
    agent = pre_existing(w, name, fs="ext4")
    agent.publish(name)
    put(agent.path(name, "target"), "before the boot")
    run("sync", "-f", agent.path(name, "target"))
    w.m.stop_driver(signal.SIGKILL)
    for path in reversed(w.m.mounts()):
        run("umount", path)
    w.start()
    agent = mesos.Agent(w.m, boot_id="boot-2")
    agent.recover()
    check(get(agent.path(name, "target")) == "before the boot", "not staged again from the publish context of before")
    agent.delete(name)


# ---------------------------------------------------------------- main

def play(w, function):
    try:
        function(w)
        w.check_clean()
        check(w.m.driver.poll() is None, "the driver has ended")
        return None
    except (Failed, Refused, OSError, AssertionError, subprocess.CalledProcessError):
        return traceback.format_exc(limit=-4)


def begin(options, files):
    machine = Machine(options.out, options.build)
    try:
        machine.start_sim()
        world = World(machine, files)
        world.start()
        return world
    except BaseException:
        machine.close(True)
        raise


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if os.getuid() != 0 or not os.path.exists("/dev/loop-control"):
        print("orders: this needs root and loop devices (/dev/loop-control)", file=sys.stderr)
        return 77
    for sign in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, lambda *_: sys.exit(143))
    files = read_files(options.build)
    passed, failed, world = 0, 0, None
    try:
        for function in SCENARIOS:
            if options.only not in function.__name__:
                continue
            world = world or begin(options, files)
            wrong = play(world, function)
            print(f"{'FAIL' if wrong else 'ok  '} {function.__name__.replace('_', ' ')}", flush=True)
            failed, passed = failed + bool(wrong), passed + (not wrong)
            if wrong:
                print(re.sub("^", "     ", wrong, flags=re.MULTILINE), flush=True)
                world.m.close(True)  # what it has left would fail the next ones
                world = None
    finally:
        if world:
            world.m.close(sys.exc_info()[0] is not None)
    print(f"orders: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
