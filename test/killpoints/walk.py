#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills the driver at every kill point (common/kill_point.h): here at those of stage, publish, expand and their opposites.

Each operation runs once to record the points that it passes; then it runs again for each point, on a new volume, and the
driver is killed there. The driver is restarted, and either the same call is repeated, as kubelet does, or the volume is
unpublished and unstaged, as kubelet does when the pod was deleted. Then the volume is used again: its data must be unchanged,
each mount must exist once, and at the end nothing may remain: no mount, target, record, driver_override or process.
controller.py does the same for the controller.

Usage: walk.py --out build/release --kill-out build/kill [--only WORD]. Needs root. Writes or compares
test/reports/kill-points.md.
Ends with "killpoints: N passed, N failed".
"""
import argparse
import os
import re
import signal
import subprocess
import sys
import time
import traceback

import controller
import table
from expect import Failed, check
from host import Host, MIB, ROOT, Volume, run, until
from kill_points import OF_DEVICE_MAPPER
from kubelet import Refused, load_messages
from mount_helper import mount_helper

DOC = os.path.join(ROOT, "test", "reports", "kill-points.md")


# ---------------------------------------------------------------- operations

def blank(host, kind, **options):
    return Volume(host, kind, **options)


def with_data(host, kind, **options):
    """An xfs is smaller than its device, an ext4 asks for e2fsck. (Growing a mounted ext4 needs CAP_SYS_RESOURCE, which root in a
    container often lacks; the VM suite grows it.)"""
    volume = Volume(host, kind, **options)
    volume.make_by_hand()
    volume.has_data = True
    if kind == "ext4":
        run("debugfs", "-w", "-R", "ssv state 2", volume.loop)
    return volume


def refused(host, kind):
    """Staging mounts the volume, then finds a mount option missing and undoes everything."""
    volume = with_data(host, kind, flags=["context=system_u:object_r:container_file_t:s0"])
    volume.refusal = "FAILED_PRECONDITION"
    return volume


def interrupted(host, kind):
    """An earlier mkfs was killed halfway."""
    volume = blank(host, kind)
    host.kill_driver()
    die_in_tool(host, volume, "stage", f"mkfs.{kind}", "dies")
    host.start_driver()
    return volume


def staged(host, kind, **options):
    volume = with_data(host, kind, **options)
    volume.call("stage")
    return volume


def reader_only(host, kind):
    return with_data(host, kind, mode=2)


def staged_reader_only(host, kind):
    return staged(host, kind, mode=2)


def staged_for_reading(host, kind):
    volume = staged(host, kind)
    volume.readonly = True
    return volume


def published(host, kind):
    volume = staged(host, kind)
    volume.call("publish")
    return volume


def published_twice(host, kind):
    """One bind mount on the other, as the Go plugin leaves them."""
    volume = published(host, kind)
    run("mount", "--bind", volume.staged_at(), volume.target_path)
    return volume


def held(host, kind):
    """A process has a directory open through a mount that was detached since: no mount shows it."""
    volume = staged(host, kind)
    copy = host.dir + "/copy"
    os.makedirs(copy, exist_ok=True)
    run("mount", "--bind", volume.staging, copy)
    fd = os.open(copy, os.O_RDONLY | os.O_DIRECTORY)
    volume.holder = subprocess.Popen(["sleep", "infinity"], pass_fds=(fd,))
    os.close(fd)
    run("umount", "--lazy", copy)
    volume.refusal = "UNAVAILABLE"
    return volume


def grown(host, kind):
    volume = published(host, kind)
    volume.grow_storage(500)
    return volume


class Operation:
    """name, its kinds of volumes, what comes before it, the call, and (staged, published) after it."""

    def __init__(self, name, kinds, prepare, call, after, give_up=False, only_new=False, tools=()):
        self.name, self.kinds, self.prepare, self.call, self.after = name, kinds.split(), prepare, call, after
        self.ways = ("retry", "give up") if give_up else ("retry",)
        self.only_new, self.tools = only_new, tools


STAGED, PUBLISHED, NOTHING = (True, False), (True, True), (False, False)
MKFS, CHECK = ("mkfs.{}",), ("e2fsck",)
OPERATIONS = [
    Operation("stage a blank volume", "ext4 xfs btrfs block hot-plugged", blank, "stage", STAGED, give_up=True, tools=MKFS),
    Operation("stage, when mkfs was killed before", "xfs", interrupted, "stage", STAGED, only_new=True),
    Operation("stage a volume with data", "ext4 xfs block", with_data, "stage", STAGED, give_up=True, tools=CHECK),
    Operation("stage for a reader", "block", reader_only, "stage", STAGED, give_up=True, only_new=True),
    Operation("stage, refused after the mount", "ext4", refused, "stage", NOTHING, only_new=True),
    Operation("stage with settings of the queue", "queue", with_data, "stage", STAGED, give_up=True, only_new=True),
    Operation("stage a share", "virtio-fs", with_data, "stage", STAGED, give_up=True),
    Operation("stage a share, staged already", "virtio-fs", staged, "stage", STAGED, give_up=True),
    Operation("publish", "ext4 block virtio-fs", staged, "publish", PUBLISHED, give_up=True),
    Operation("publish read-only", "ext4 block virtio-fs", staged_for_reading, "publish", PUBLISHED, give_up=True),
    Operation("expand", "xfs block", grown, "expand", PUBLISHED),
    Operation("unpublish", "ext4 block virtio-fs", published, "unpublish", STAGED),
    Operation("unpublish, mounted twice", "ext4", published_twice, "unpublish", STAGED, only_new=True),
    Operation("unstage", "ext4 xfs block hot-plugged virtio-fs", staged, "unstage", NOTHING),
    Operation("unstage of a reader", "block", staged_reader_only, "unstage", NOTHING, only_new=True),
    Operation("unstage with settings of the queue", "queue", staged, "unstage", NOTHING, only_new=True),
    Operation("unstage, held by what no mount shows", "ext4", held, "unstage", NOTHING, only_new=True),
]
START = Operation("start of the driver, with a volume in use", "ext4 block", published, "publish", PUBLISHED)
PARKED = Operation("stage a blank volume", "block", blank, "stage", STAGED, give_up=True)


# ---------------------------------------------------------------- dying

def ask(volume, call):
    """"OK", or the code and the text of the refusal."""
    try:
        volume.call(call)
        return "OK"
    except Refused as refused_with:
        return f"{refused_with.code}: {volume.tell(refused_with.text)}"


def must(volume, call):
    answer = ask(volume, call)
    check(answer == "OK", f"{call}: {answer}")


def die_at(host, volume, call, point):
    host.start_driver(SNAP_CSI_KILL_AT=point)
    answer = ask(volume, call)
    if answer == "OK":
        host.kill_driver()
        raise Failed(f"the driver did not pass {point}")
    status = host.wait_for_death()
    check(status == -signal.SIGKILL, f"the driver ended with {status}: {answer}")


def die_starting(host, volume, point):
    """The next start finds a driver_override to clear, left by the Go plugin or by a call that was killed while it waited."""
    with open(f"{host.sysfs}/bus/pci/devices/{volume.pci}/driver_override", "w", encoding="ascii") as f:
        f.write("nvme\n")
    host.spawn_driver(SNAP_CSI_KILL_AT=point)
    status = host.wait_for_death()
    check(status == -signal.SIGKILL, f"the driver ended with {status}")


def die_in_tool(host, volume, call, name, mode):
    """The tool kills the driver when it has done half of its work."""
    tools = host.dir + "/tools"
    os.makedirs(tools, exist_ok=True)
    if not os.path.exists(tools + "/go"):
        os.mkfifo(tools + "/go")
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tool.py")
    with open(f"{tools}/{name}", "w", encoding="ascii") as f:
        f.write(f"#!/bin/sh\nexec /usr/bin/python3 {script} {tools} {mode} {name} \"$@\"\n")
    os.chmod(f"{tools}/{name}", 0o755)
    host.start_driver(SNAP_CSI_KILL_TOOLS=tools)
    answer = ask(volume, call)
    status = host.wait_for_death()
    os.unlink(f"{tools}/{name}")
    check(status == -signal.SIGKILL, f"{name} was not started; the driver ended with {status}: {answer}")
    if mode == "dies":
        until(f"{name} has ended", lambda: not host.children())
    else:
        check([n for _, n in host.children()], f"{name} does not go on")


def let_tool_end(host):
    with open(host.dir + "/tools/go", "w", encoding="ascii") as f:
        f.write("go\n")
    until("the tool has ended", lambda: not host.children(), 60)


def die_taking_from_stub(host, volume, call, point):
    """The function is parked with pci-stub. The driver dies after it has unbound the function; this function does the kernel's part."""
    stub, function = host.sysfs + "/bus/pci/drivers/pci-stub", f"{host.sysfs}/bus/pci/devices/{volume.pci}"
    os.makedirs(stub, exist_ok=True)
    with open(stub + "/unbind", "w", encoding="ascii"):
        pass
    os.symlink(stub, os.path.realpath(function) + "/driver")
    try:
        die_at(host, volume, call, point)
        with open(stub + "/unbind", encoding="ascii") as f:
            check(f.read() == volume.pci, "another function was unbound")
    finally:
        os.unlink(os.path.realpath(function) + "/driver")


# ---------------------------------------------------------------- living on

def check_mounts(host, volume, is_staged, is_published):
    want = [volume.staged_at()] * is_staged + [volume.target_path] * is_published
    check(sorted(host.mounts()) == sorted(want), f"mounted are {host.mounts()}, and not {want}")
    if is_published:
        check((volume.readonly or volume.mode == 2) == host.mount_is_read_only(volume.target_path), "the target's read-only state")


def check_data(volume, path):
    if volume.has_data:
        volume.check_at(path)
    else:
        volume.write_at(path)
        volume.has_data = True


def live_on(host, volume, is_staged, is_published):
    """Uses the volume once from the state that it is in (twice, if it was blank) and unstages it."""
    for _ in range(1 if volume.has_data else 2):
        if not is_staged:
            must(volume, "stage")
        if not is_published:
            must(volume, "publish")
        check_mounts(host, volume, True, True)
        check_data(volume, volume.target_path)
        must(volume, "unpublish")
        check_mounts(host, volume, True, False)
        must(volume, "unstage")
        check_mounts(host, volume, False, False)
        is_staged = is_published = False


def check_nothing_left(host, volume):
    for pci in {volume.pci, *host.functions()}:
        check(host.function(pci)[1] == "", f"driver_override of {pci} is still {host.function(pci)[1]}")
    check(not host.records(), f"records: {host.records()}")
    check(not host.children(), f"processes: {host.children()}")
    check(not host.looking(), f"folders to look at tags: {host.looking()}")
    check(not os.path.lexists(volume.target_path), f"{volume.target_path} is still there")
    check(os.listdir(volume.staging) == [], f"in {volume.staging}: {os.listdir(volume.staging)}")
    check(not volume.is_read_only(), "the device is read-only")
    check(not volume.queue_is_changed(), "the settings of the queue are not restored")


def clean(host, volume):
    """Empties the host for the next case, whatever happened."""
    if volume.holder:
        volume.holder.kill()
        volume.holder.wait()
        volume.holder = None
    for pid, _ in host.children():
        os.kill(pid, signal.SIGKILL)
    for target in reversed(host.mounts()):
        subprocess.run(["umount", "-l", target], check=False)
    if not host.driver or host.driver.poll() is not None:
        host.wait_for_death()
        host.start_driver()
    volume.delete()
    for name in host.records():
        os.unlink(f"{host.dir}/run/{name}")
    host.free_functions()
    until("no loop device is left", lambda: not host.loops())


# ---------------------------------------------------------------- one case

def give_up(host, volume, _):
    answers = [ask(volume, call) for call in ("unpublish", "unstage")]
    state = volume.left()
    told = answers[1]
    if host.children():
        let_tool_end(host)
        check(told.startswith("ABORTED"), told)
        answers[1], state = ask(volume, "unstage"), volume.left()
        told += " Once it has ended: " + answers[1]
    check(answers[0] == "OK", answers[0])
    check(answers[1] == "OK", answers[1])
    check_mounts(host, volume, False, False)
    check(not host.function(volume.pci)[1], "after unstaging: " + state)
    volume.refusal = None
    volume.flags, volume.readonly = [], False
    live_on(host, volume, False, False)
    return told, state


def retry(host, volume, operation):
    answer = ask(volume, operation.call)
    state = volume.left()
    if host.children():
        check(not host.mounts(), "mounted while a tool works on it")
        check(answer.startswith("ABORTED"), answer)
        let_tool_end(host)
        if answer != "OK":
            must(volume, operation.call)
            answer, state = answer + " Once it has ended: OK", volume.left()
    elif volume.refusal:
        check(answer == "OK" or answer.startswith(volume.refusal), answer)
    else:
        check(answer == "OK", answer)
    is_staged, is_published = operation.after
    if volume.holder:
        volume.holder.kill()
        volume.holder.wait()
        volume.holder = None
    check_mounts(host, volume, is_staged, is_published)
    if not is_staged and not volume.refusal:
        check(not host.function(volume.pci)[1], "after unstaging: " + state)
    if operation.call == "expand" and not volume.block:
        space = os.statvfs(volume.target_path)
        check(space.f_blocks * space.f_frsize > 420 * MIB, f"the filesystem has {space.f_blocks * space.f_frsize} bytes")
    if volume.refusal and volume.flags:
        volume.flags = []
    live_on(host, volume, is_staged, is_published)
    return answer, state


def prepare(host, operation, kind):
    if not host.driver:
        host.start_driver()
    try:
        volume = operation.prepare(host, kind)
        host.kill_driver()
        return volume
    except BaseException:
        clean(host, host.volume)
        raise


def case(host, operation, kind, way, die):
    """Returns (state after the death, the retry's answer, state after the retry)."""
    volume = prepare(host, operation, kind)
    try:
        die(volume)
        left = volume.left()
        host.start_driver()
        answer, state = (retry if way == "retry" else give_up)(host, volume, operation)
        check_nothing_left(host, volume)
        return left, answer, state
    finally:
        clean(host, volume)


def trace(host, operation, kind):
    """Runs the operation once and returns the points that it passes, in order; the n-th time as NAME#n."""
    volume = prepare(host, operation, kind)
    path = host.dir + "/trace"
    try:
        host.start_driver(SNAP_CSI_KILL_TRACE=path)
        with open(path, "w", encoding="utf-8"):
            pass  # what was passed at the start is START's
        answer = ask(volume, operation.call)
        check(answer.startswith(volume.refusal or "OK"), f"{operation.call}: {answer}")
        with open(path, encoding="utf-8") as f:
            names = f.read().splitlines()
    finally:
        clean(host, volume)
        host.kill_driver()
        if os.path.exists(path):
            os.unlink(path)
    return [name if names[:i].count(name) == 0 else f"{name}#{names[:i].count(name) + 1}" for i, name in enumerate(names)]


def undisturbed(function):
    """Calls the function again when another test has copied our mounts into its new mount namespace and so keeps our disk."""
    for last in (False, False, True):
        try:
            return function()
        except (Failed, Refused) as error:
            if last or not re.search("in a mount namespace of its own|is in use: mounted", str(error)):
                raise
            print(f"     again, since somebody else has a copy of the mounts: {error}", flush=True)
    return None


# ---------------------------------------------------------------- the walk

class Walk:
    def __init__(self, host, only):
        self.host, self.only, self.rows, self.controller_rows = host, only, [], []
        self.passed = self.failed = 0
        self.died_at = set()

    def case(self, name, function):
        began = time.monotonic()
        try:
            result = function()
            self.passed += 1
            print(f"ok   {name:95.95} {time.monotonic() - began:5.1f} s", flush=True)
            return result
        except Exception as error:  # pylint: disable=broad-except
            self.failed += 1
            print(f"FAIL {name}: {error}", flush=True)
            if not isinstance(error, Failed):
                traceback.print_exc()
            return None

    def die(self, operation, kind, point, die):
        for way in operation.ways:
            result = self.case(f"{operation.name} ({kind}), {point}: {way}",
                               lambda w=way: undisturbed(lambda: case(self.host, operation, kind, w, die)))
            if result:
                self.rows.append((operation.name, kind, point, way, *result))
                self.died_at.add(point.split("#")[0])

    def points(self, operation, kind):
        host, call = self.host, operation.call
        points = self.case(f"{operation.name} ({kind})", lambda: trace(host, operation, kind))
        for point in points or []:
            if not (operation.only_new and any(p.split("#")[0] == point for p in self.died_at)):
                self.die(operation, kind, point, lambda v, p=point: die_at(host, v, call, p))
        for tool in operation.tools:
            if kind in ("hot-plugged", "virtio-fs"):
                continue  # its filesystem is ext4, or none
            name = tool.format(kind)
            if kind == "block" or {"e2fsck": "ext4"}.get(name, kind) != kind:
                continue
            for mode, what in (("dies", "killed with it"), ("goes-on", "continues")):
                self.die(operation, kind, f"{name} half way, {what}", lambda v, n=name, m=mode: die_in_tool(host, v, call, n, m))

    def walk(self):
        for operation in OPERATIONS:
            for kind in operation.kinds:
                if self.only in f"{operation.name} ({kind})":
                    self.points(operation, kind)
        stub = "bind: function taken from pci-stub"
        if self.only in stub:
            self.die(PARKED, "block", stub, lambda v: die_taking_from_stub(self.host, v, "stage", stub))
        forget = "forget: driver_override cleared"
        for kind in START.kinds:
            if self.only in START.name:
                self.die(START, kind, forget, lambda v: die_starting(self.host, v, forget))


def points_of_source():
    found = set()
    for directory, _, files in os.walk(os.path.join(ROOT, "src")):
        for name in files:
            if name.endswith(".c"):
                with open(os.path.join(directory, name), encoding="utf-8") as f:
                    found.update(re.findall(r'kill_point\(\s*"([^"]+)"', f.read()))
    return found


def check_release(out, kill_out, names):
    """The driver that ships has no kill points; the same search finds them in the other build."""
    def has(binary):
        with open(binary, "rb") as f:
            code = f.read()
        words = ["kill_point"] if "kill_point" in run("nm", binary) else []
        return words + [word for word in ["SNAP_CSI_KILL", *sorted(names)] if word.encode() in code]
    check(has(out) == [], f"{out} has {has(out)}")
    check(has(kill_out) == ["kill_point", "SNAP_CSI_KILL", *sorted(names)], f"{kill_out} has only {has(kill_out)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--kill-out", required=True)
    parser.add_argument("--messages", required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("killpoints: this needs root: it makes loop devices and mounts", file=sys.stderr)
        return 77
    names = points_of_source()
    out, kill_out, messages = os.path.abspath(options.out), os.path.abspath(options.kill_out), load_messages(options.messages, ROOT)
    host = Host(out, kill_out, messages)
    walk = Walk(host, options.only)
    keep_logs = os.path.join(os.path.dirname(options.out), "logs", "killpoints")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        walk.case("the driver that ships has no kill points",
                  lambda: check_release(options.out + "/snap-csi-plugin", options.kill_out + "/snap-csi-plugin", names))
        controller.walk(walk, out, kill_out, messages, keep_logs)
        host.start_sim()
        with mount_helper() as host.mount_helper:
            walk.walk()
    finally:
        host.close(keep_logs if walk.failed else None)
    if not options.only:
        here = names - OF_DEVICE_MAPPER
        walk.case("each point of the source was died at", lambda: check(here <= walk.died_at and OF_DEVICE_MAPPER <= names,
                  f"never reached: {sorted(here - walk.died_at)}; not in the source: {sorted(OF_DEVICE_MAPPER - names)}"))
        walk.case("test/reports/kill-points.md is true", lambda: table.compare(DOC, "table", table.text_of(walk.rows)))
        walk.case("test/reports/kill-points.md is true of the controller",
                  lambda: table.compare(DOC, "controller", table.controller_text_of(walk.controller_rows)))
    print(f"killpoints: {walk.passed} passed, {walk.failed} failed")
    return 1 if walk.failed else 0


if __name__ == "__main__":
    sys.exit(main())
