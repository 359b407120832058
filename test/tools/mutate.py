#!/usr/bin/env python3
"""Do the tests fail when the driver is wrong? Changes single lines of src/ at random and runs the tests.

Usage: test/tools/mutate.py [--seed N] [--count N] [--like TREE] [--list] [--suite 'make ...']...

Each mutation is applied to a clone below build/mutate. A mutation is caught if the build's tests fail: first the test
program of the same file, then those of the same room, then all unit tests, then each --suite. The choice depends on the
seed and on the lines of src/ only. With --like, only lines that the other tree has, too, are chosen, so that two trees
can be compared. Ends with "N caught, N survived".
"""
import argparse
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


def candidates(tree, like):
    known = None
    if like:
        known = set()
        for path in sources(like):
            with open(os.path.join(like, path), encoding="utf-8") as f:
                known.update(line.strip() for line in f)
    for path in sources(tree):
        with open(os.path.join(tree, path), encoding="utf-8") as f:
            lines = f.read().split("\n")
        for number, line in enumerate(lines):
            if SKIPPED.search(line) or (known is not None and line.strip() not in known):
                continue
            for operator, (pattern, new) in enumerate(OPERATORS):
                if line.startswith("\t") and pattern.search(line):
                    yield path, number, operator, line, pattern.sub(new, line, count=1)


def run(command, clone, **more):
    return subprocess.run(command, cwd=clone, stdin=subprocess.DEVNULL, capture_output=True, text=True, **more)


def tests_of(path, clone):
    """Test programs in the order in which they are run: those of the file, of its room, all."""
    every = [t[:-2] for t in run(["git", "ls-files", "test/unit/*/test_*.c"], clone).stdout.split()]
    room = "test/unit/" + os.path.dirname(path)[4:] + "/"
    own = room + "test_" + os.path.basename(path)[:-2]
    first = [t for t in every if t == own]
    second = [t for t in every if t.startswith(room) and t != own]
    return [first, second, [t for t in every if t not in first and t not in second]]


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
        done = run(["test/lib/run-suites.sh", "mutate", *programs], clone, env={**os.environ, "RUN_JOBS": "8"})
        if done.returncode:
            return " ".join(re.findall(r"^FAIL (\S+)", done.stdout, re.M)[:3]) or "tests"
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
    choice = sorted(candidates(".", options.like), key=lambda c: (c[3].strip(), c[4], c[0], c[1]))
    random.Random(options.seed).shuffle(choice)
    clone = "build/mutate/tree"
    if not options.list and not os.path.isdir(clone):
        os.makedirs("build/mutate", exist_ok=True)
        subprocess.run(["git", "clone", "-q", ".", clone], check=True)
    caught = survived = 0
    for path, number, _, old, new in choice:
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
            continue
        caught, survived = caught + bool(by), survived + (not by)
        print(f"{'caught' if by else 'SURVIVED'} {text} {by and 'by ' + by}", flush=True)
    if not options.list:
        print(f"{caught} caught, {survived} survived")
    return 0


if __name__ == "__main__":
    sys.exit(main())
