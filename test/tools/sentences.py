#!/usr/bin/env python3
"""Draws sentences at random, for a reader who judges them: stumbles, unclear, or fine.

Usage: test/tools/sentences.py [--seed N] [--count N]

The sources are those of test/lint/english.sh: documents, texts of src, block comments. Each line is "number, area, file,
sentence", separated by tabs. The same seed and the same tree give the same sentences.
"""
import argparse
import contextlib
import importlib.util
import os
import random
import re
import sys


def english():
    """test/lint/english.py knows what a sentence of each kind of file is; its last line is a command."""
    path = os.path.join(os.path.dirname(__file__), "..", "lint", "english.py")
    spec = importlib.util.spec_from_file_location("english", path)
    module = importlib.util.module_from_spec(spec)
    argv, sys.argv = sys.argv, [path, "README"]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(None):
        spec.loader.exec_module(module)
    sys.argv = argv
    return module


def sentences(rules, area, path):
    text, _, _ = rules.paragraphs(area, path)
    for paragraph in text.split("\n"):
        for part in re.split(r"(?<=[.!?;])\s+(?=[A-Z`\"(])|\s\|\s|\s\* ", paragraph):
            part = re.sub(r"^[A-Z][a-z]+\.\*\* |^-+ | -+$| \.$", "", part.strip(" |*#"))
            if len(part.split()) >= 5:
                yield part


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    options = parser.parse_args()
    rules = english()
    every = sorted({(area, path, s) for area, paths in rules.AREAS.items() if area != "tests" for path in paths
                    for s in sentences(rules, area, path)})
    chosen = random.Random(options.seed).sample(every, min(options.count, len(every)))
    for number, (area, path, sentence) in enumerate(chosen, 1):
        print(number, area, path, sentence, sep="\t")


if __name__ == "__main__":
    main()
