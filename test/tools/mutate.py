#!/usr/bin/env python3
"""Do the tests fail when the driver is wrong? Changes single lines of src/ at random and runs the tests.

Usage: test/tools/mutate.py [--seed N] [--count N] [--like TREE] [--list] [--suite 'make ...']...

Each mutation is applied to a clone below build/mutate. A mutation is caught if a test program fails twice: first the one
of the same file is run, then those of the same module, then all unit tests, then each --suite. The choice depends on the
seed and on the lines of src/ only. With --like, two trees are compared: run in either, with the other as TREE, the script
chooses the same lines. A line counts as the same if it and its two neighbours are, and if they occur once in each tree.
Ends with "N caught, N survived"; a mutation that the compiler rejects is replaced by the next one.
"""
import argparse
import collections
import os
import random
import re
import subprocess
import sys

OPERATORS = [
    (re.compile(r" == "), " != "),
    (re.compile(r" != "), " == "),
    (re.compile(r" < "), " <= "),
    (re.compile(r" <= "), " < "),
    (re.compile(r" > "), " >= "),
    (re.compile(r" >= "), " > "),
    (re.compile(r" && "), " || "),
    (re.compile(r" \|\| "), " && "),
    (re.compile(r"\(!"), "("),
    (re.compile(r"return -1;"), "return 0;"),
    (re.compile(r"return true;"), "return false;"),
    (re.compile(r"return false;"), "return true;"),
    (re.compile(r" \+ 1\b"), ""),
    (re.compile(r" - 1\b"), ""),
    (re.compile(r"^\t+(?!return|goto|break|continue)[a-z]\w*\(.*\);$"), "\t;"),
]
# Not behaviour: log lines, assertions, loop headers that would never end, code for tests only.
SKIPPED = re.compile(r'log_|assert|\bfor \(|while \(|kill_point|^\s*(\*|/\*|"|#)|WITH_LOCK')


def sources(tree):
    out = subprocess.run(["git", "-C", tree, "ls-files", "src/*.c"], check=True, capture_output=True, text=True)
    return sorted(out.stdout.split())


def candidates(tree):
    """All mutations of a tree: where, the new line, and a key that names the line by its text and its neighbours'."""
    for path in sources(tree):
        with open(os.path.join(tree, path), encoding="utf-8") as f:
            lines = f.read().split("\n")
        for number, line in enumerate(lines):
            if SKIPPED.search(line) or not line.startswith("\t"):
                continue
            for pattern, text in OPERATORS:
                if pattern.search(line):
                    new = pattern.sub(text, line, count=1)
                    around = tuple(near.strip() for near in lines[number - 1:number + 2])
                    yield (line.strip(), new.strip(), around), path, number, line, new


def chosen(like, seed):
    choice = list(candidates("."))
    if like:
        here = collections.Counter(c[0] for c in choice)
        there = collections.Counter(c[0] for c in candidates(like))
        choice = [c for c in choice if here[c[0]] == there[c[0]] == 1]
    choice.sort(key=lambda c: c[:3])
    random.Random(seed).shuffle(choice)
    return choice


def run(command, clone, **more):
    return subprocess.run(command, cwd=clone, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", **more)


def tests_of(path, clone):
    """Test programs in the order in which they are run: those of the file, of its room, all."""
    every = [t[:-2] for t in run(["git", "ls-files", "test/unit/*/test_*.c"], clone).stdout.split()]
    room = "test/unit/" + os.path.dirname(path)[4:] + "/"
    own = room + "test_" + os.path.basename(path)[:-2]
    first = [t for t in every if t == own]
    second = [t for t in every if t.startswith(room) and t != own]
    return [first, second, [t for t in every if t not in first and t not in second]]


def failing(programs, clone, jobs):
    if not programs:
        return []
    out = run(["test/lib/run-suites.sh", "mutate", *programs], clone, env={**os.environ, "RUN_JOBS": str(jobs)}).stdout
    return re.findall(r"^FAIL (\S+)", out, re.M)


def caught_by(path, clone, flavour, suites):
    """Text, or "" if no test fails; None: the mutation cannot be built."""
    make = ["make", "--no-print-directory", f"-j{os.cpu_count()}", f"FLAVOUR={flavour}"]
    out = f"build/{flavour}/"
    if run(make + [out + "snap-csi-plugin"], clone).returncode:
        return None
    for tests in tests_of(path, clone):
        if not tests:
            continue
        programs = [out + t for t in tests]
        if run(make + programs, clone).returncode:
            return None
        failed = failing(failing(programs, clone, 8), clone, 1)
        if failed:
            return " ".join(failed[:3])
    for suite in suites:
        if run(["sh", "-c", suite], clone).returncode:
            return suite
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--like")
    parser.add_argument("--flavour", default="debug")
    parser.add_argument("--suite", action="append", default=[])
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    clone = "build/mutate/tree"
    if not options.list and not os.path.isdir(clone):
        os.makedirs("build/mutate", exist_ok=True)
        subprocess.run(["git", "clone", "-q", ".", clone], check=True)
    caught = survived = 0
    for _, path, number, old, new in chosen(options.like, options.seed):
        if caught + survived == options.count:
            break
        text = f"{path}:{number + 1}: {old.strip()} -> {new.strip()}"
        if options.list:
            survived += 1
            print(text)
            continue
        run(["git", "checkout", "-q", "."], clone)
        with open(os.path.join(clone, path), encoding="utf-8") as f:
            lines = f.read().split("\n")
        lines[number] = new
        with open(os.path.join(clone, path), "w", encoding="utf-8") as f:
            f.write("\n".join(lines))
        by = caught_by(path, clone, options.flavour, options.suite)
        if by is None:
            print(f"REJECTED {text}", flush=True)
            continue
        caught, survived = caught + bool(by), survived + (not by)
        print(f"{'caught' if by else 'SURVIVED'} {text} {by and 'by ' + by}", flush=True)
    if not options.list:
        print(f"{caught} caught, {survived} survived")
    return 0


if __name__ == "__main__":
    sys.exit(main())
