#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds docs/troubleshoot/by-symptom.md and error-texts.md against what the driver prints.

Each row of their tables is provoked as rows.txt says, and each text in backticks of the row's first cell must be in what
was printed: "..." stands for anything, a code in capitals before the texts is the error's own. The rows of error-texts.md
are in alphabetical order. OUT is the folder of the built programs. Ends with "troubleshooting: N passed, N failed".
"""
import collections
import concurrent.futures
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

DOCS = ("docs/troubleshoot/by-symptom.md", "docs/troubleshoot/error-texts.md")
ROWS = "test/troubleshooting/rows.txt"
HEADS = ("text", "the log says", "reason")
CODE = re.compile(r"\b[A-Z]+(?:_[A-Z]+)*\b")
CODES = {"CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
         "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
         "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}

MOUNTINFO_OF_A_CONTAINER = """30 1 0:28 / / rw - overlay overlay rw
40 30 259:2 / /nonexistent/kubelet/pods rw - ext4 /dev/sda2 rw
"""
MOUNTINFO_OF_A_HOST = "30 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
NODE = ["--mode=node", "--node-id=n1", "--bind-address=unix://{dir}/csi.sock", "--sysfs-root={dir}/sys"]



def flood(folder):
    """A client of HTTP/2 that sends frames until it is closed. Their type is unknown, so gRPC ignores them; gRPC itself would
    close the connection after a few PINGs."""
    frame = b"\0\x40\0\xfa\0\0\0\0\0" + bytes(0x4000)
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(100)
        s.connect(f"{folder}/csi.sock")
        try:
            s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0")
            while True:
                s.sendall(frame)
        except OSError:
            pass


# The files in {dir}, how the program is started, and its clients. It is ended as soon as it serves.
driver_cases = {
    "a wrong flag": {"args": ["--mode=both"]},
    "a variable that kubelet has not replaced": {"args": ["--mode=node", "--node-id=$(NODE_NAME)"]},
    "a file at the socket's path": {"files": {"csi.sock": ""}, "args": NODE},
    "a controller without a cluster": {
        "args": ["--mode=controller", "--namespace=ns", "--bind-address=unix://{dir}/csi.sock"]},
    "a container whose mounts no pod would see": {
        "files": {"proc/1/mountinfo": MOUNTINFO_OF_A_CONTAINER}, "links": {"proc/self": "1"},
        "args": [*NODE, "--proc-root={dir}/proc", "--kubelet-dir=/nonexistent/kubelet"]},
    "a host whose mounts are private": {
        "files": {"proc/self/mountinfo": MOUNTINFO_OF_A_HOST, "kubelet/pods/x": ""},
        "args": [*NODE, "--proc-root={dir}/proc", "--kubelet-dir={dir}/kubelet"]},
    "a client that floods it": {"args": NODE, "client": flood},
}


def cells(line):
    return [c.strip().replace(r"\|", "|") for c in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def rows_of(doc):
    """The first cells of all tables of one page whose head is one of HEADS."""
    rows, wanted = [], None
    with open(doc, encoding="utf-8") as f:
        for line in f:
            if not line.startswith("|"):
                wanted = None
            elif wanted is None:
                wanted = cells(line)[0] in HEADS
            elif wanted and not re.match(r"\| *:?-+", line):
                rows.append(cells(line)[0])
    return rows


def misplaced(doc):
    """The rows of a page that come before their predecessor in alphabetical order."""
    rows = rows_of(doc)
    names = [re.sub("[^a-z0-9 ]", "", cell.lower()).strip() for cell in rows]
    return [cell for cell, name, before in zip(rows[1:], names[1:], names) if name < before]


def provokers():
    """[(part of a first cell, how)]"""
    with open(ROWS, encoding="utf-8") as f:
        lines = [line.rstrip("\n") for line in f if line.strip() and not line.startswith("#")]
    return [tuple(part.strip() for part in line.rsplit(" | ", 1)) for line in lines]


def run_unit(what, out, scratch):
    program, test = what.split(": ")
    texts = os.path.join(scratch, "texts")
    done = subprocess.run([f"{out}/test/troubleshooting/{program}"], check=False, capture_output=True, text=True,
                          errors="replace", env={**os.environ, "CK_RUN_CASE": test, "TEXTS": texts})
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    if "SKIP" in done.stdout + done.stderr:
        return None
    with open(texts, encoding="utf-8", errors="replace") as f:
        found = [tuple(line.rstrip("\n").split("\t", 1)) for line in f]
    os.unlink(texts)
    return found


def run_driver(name, out, scratch):
    case = driver_cases[name]
    os.makedirs(f"{scratch}/sys/bus/pci/devices")
    for path, text in case.get("files", {}).items():
        os.makedirs(os.path.dirname(f"{scratch}/{path}"), exist_ok=True)
        with open(f"{scratch}/{path}", "w", encoding="utf-8") as f:
            f.write(text)
    for path, to in case.get("links", {}).items():
        os.symlink(to, f"{scratch}/{path}")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("KUBE", "CSI_"))}
    log = f"{scratch}/log"
    with open(log, "w", encoding="utf-8") as f, \
         subprocess.Popen([f"{out}/snap-csi-plugin", *(a.replace("{dir}", scratch) for a in case["args"])], env=env,
                          stdin=subprocess.DEVNULL, stdout=f, stderr=f) as process:
        end = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end:
            with open(log, encoding="utf-8") as written:
                if " serving " in written.read():
                    break
            time.sleep(0.02)
        if process.poll() is None and "client" in case:
            case["client"](scratch)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    with open(log, encoding="utf-8") as f:
        return [("", line.replace('\\"', '"').replace("\\\\", "\\")) for line in f.read().splitlines()]


def look_into(path):
    with open(path, encoding="utf-8") as f:
        return [("", line.replace(r"\|", "|")) for line in f.read().splitlines()]


def provoke(how, out):
    """[(code or "", text)], or None where the test could not run."""
    kind, what = how.split(" ", 1)
    with tempfile.TemporaryDirectory() as scratch:
        if kind == "unit":
            return run_unit(what, out, scratch)
        if kind == "driver":
            return run_driver(what, out, scratch)
        if kind == "in":
            return look_into(what)
    raise RuntimeError(f"{ROWS}: \"{how}\" is none of unit, driver, in")


def missing(cell, printed):
    """Texts that the row's first cell promises and that were not printed: a list."""
    texts = re.findall(r"`([^`]+)`", cell)
    plain = re.sub(r"`[^`]+`", "", cell)
    codes = [c for c in CODE.findall(plain) if c in CODES]
    if not texts and not codes: # a table of names
        texts = [name.strip() for name in cell.split(",")]
    patterns = [(t, re.compile(".*".join(re.escape(part) for part in t.split("...")))) for t in texts] or \
               [("any text", re.compile(""))]
    return [f"{' '.join(codes)} {text}".strip() for text, pattern in patterns
            if not any((not codes or code in codes) and pattern.search(said) for code, said in printed)]


class Report:
    def __init__(self):
        self.passed = self.failed = 0

    def say(self, cell, problem):
        if problem:
            self.failed += 1
            print(f"FAIL {cell}\n     {problem}")
        else:
            self.passed += 1
            print(f"ok   {cell}")


def judge(cell, hows, provoked, report):
    if not hows:
        report.say(cell, f"nobody provokes this row: {ROWS} needs a line for it")
        return
    printed = []
    for how in hows:
        try:
            found = provoked[how].result()
        except (RuntimeError, OSError, KeyError) as e:
            report.say(cell, f"{how}: {e}")
            return
        if found is None:
            print(f"SKIP: {how} cannot run here")
            return
        printed += found
    lacking = missing(cell, printed)
    codes = set(CODE.findall(cell)) & CODES
    near = [said for code, said in printed if not codes or code in codes][-8:]
    report.say(cell, lacking and f"not printed by {', '.join(hows)}: {lacking}; printed was, for one: {near}")


def main():
    out, report = os.environ.get("OUT", "build/debug"), Report()
    rows, hows = [cell for doc in DOCS for cell in rows_of(doc)], collections.defaultdict(list)
    for part, how in provokers():
        meant = [cell for cell in rows if part in cell]
        if len(meant) == 1:
            hows[meant[0]].append(how)
        else:
            report.say(part, f"{ROWS}: {len(meant)} rows of {' and '.join(DOCS)} have this; it must be one")
    report.say("error-texts.md is in alphabetical order", misplaced("docs/troubleshoot/error-texts.md"))
    with concurrent.futures.ThreadPoolExecutor(4) as pool: # most tests wait more than they work
        provoked = {how: pool.submit(provoke, how, out) for of_row in hows.values() for how in of_row}
        for cell in rows:
            judge(cell, hows[cell], provoked, report)
    print(f"troubleshooting: {report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
