# SPDX-License-Identifier: Apache-2.0
"""What the driver answers to each fault, as the scenarios see it, and test/reports/faults.md, which says the same to people.

A row of the table is a fault, the guests in which it was caused (kernel, native multipath), a call, the answer, and
what recovery leads to. Numbers are not compared: device names, times and sizes differ from kernel to kernel.
"""
import re

from kubelet import Refused

BEGIN, END = "<!-- faults: begin -->\n", "<!-- faults: end -->\n"
HEAD = "| fault | kernel, multipath | call | the driver's answer | afterwards |\n| --- | --- | --- | --- | --- |\n"
NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


def normal(text):
    return NUMBER.sub("0", text)


class Answers:
    """Rows: (fault, call, answer, afterwards) -> guests, in the order of the run."""

    def __init__(self, path):
        self.path, self.rows = path, {}

    def add(self, guest, fault, call, answer, afterwards):
        key = (fault, call, answer, afterwards)
        for known in self.rows:
            if tuple(map(normal, known)) == tuple(map(normal, key)):
                key = known
        guests = self.rows.setdefault(key, [])
        if guest not in guests:
            guests.append(guest)

    def take(self, other):
        """Adds what another run has seen."""
        for (fault, call, answer, afterwards), guests in other.rows.items():
            for guest in guests:
                self.add(guest, fault, call, answer, afterwards)

    def _written(self):
        with open(self.path, encoding="utf-8") as f:
            text = f.read()
        before, table = text.split(BEGIN)
        table, after = table.split(END)
        rows = []
        for line in table[len(HEAD):].splitlines():
            fault, guests, call, answer, afterwards = [c.replace("\\|", "|") for c in re.split(r" (?<!\\)\| ", line[2:-2])]
            rows.append((fault, guests.split("; "), call, answer, afterwards))
        return before, rows, after

    @staticmethod
    def _flat(rows):
        return {tuple(map(normal, (fault, call, answer, afterwards))) + (guest,)
                for fault, guests, call, answer, afterwards in rows for guest in guests}

    def _seen(self):
        return [(fault, guests, call, answer, afterwards) for (fault, call, answer, afterwards), guests in self.rows.items()]

    def differences(self, whole):
        """Lines that tell where the file is not true; `whole`: every scenario has run, so what was not seen is not true."""
        written, seen = self._flat(self._written()[1]), self._flat(self._seen())
        lines = ["test/reports/faults.md does not have: " + " | ".join(row) for row in sorted(seen - written)]
        if whole:
            lines += ["test/reports/faults.md has, but was not seen: " + " | ".join(row) for row in sorted(written - seen)]
        return lines + (["UPDATE_DOCS=1 writes it"] if lines else [])

    def write(self, whole):
        """Writes the table; unless every scenario has run, the rows of faults that were not caused stay."""
        before, written, after = self._written()
        caused = {(fault, guest) for (fault, *_), guests in self.rows.items() for guest in guests}
        seen, self.rows = self._seen(), {}
        kept = [] if whole else [(fault, [g for g in guests if (fault, g) not in caused], *rest) for fault, guests, *rest in written]
        for fault, guests, *rest in kept + seen:
            for guest in guests:
                self.add(guest, fault, *rest)
        with open(self.path, "w", encoding="utf-8") as f:
            f.write(before + BEGIN + HEAD)
            for fault, guests, call, answer, afterwards in self._seen():
                cells = [c.replace("|", "\\|") for c in (fault, "; ".join(guests), call, answer, afterwards)]
                f.write("| " + " | ".join(cells) + " |\n")
            f.write(END + after)
        return []


class Fault:
    """One fault: the call made while it lasted, and its result."""

    def __init__(self, answers, guest, what):
        self.answers, self.guest, self.what, self.asked = answers, guest, what, []

    def ask(self, call, function, wanted, *words, varies=False):
        """The call must end with this code (one of A|B, OK too) and a text that has these words. `varies`: which of the
        codes it is depends on the moment, so the text is not told."""
        for _ in range(5):
            code, text = "OK", ""
            try:
                function()
            except Refused as refused:
                code, text = refused.code, refused.text
            if text != "Deadline Exceeded":
                break  # those are this side's words: the machine was too slow for the driver's answer to arrive in time
        if code not in wanted.split("|"):
            raise AssertionError(f"{self.what}: {call}: wanted {wanted}, got {code}: {text}")
        if code != "OK":
            for word in words:
                if word not in text:
                    raise AssertionError(f"{self.what}: {call}: {code}: {text} does not say {word!r}")
        answer = wanted.replace("|", " or ") if varies else f"{code}: {text}" if text else code
        self.asked.append((call, answer))
        return text

    def then(self, afterwards):
        """The fault is over, and this was checked."""
        for call, answer in self.asked:
            self.answers.add(self.guest, self.what, call, answer, afterwards)


class Recorder:
    """Of one scenario in one guest."""

    def __init__(self, answers, kernel, multipath):
        self.answers, self.guest = answers, f"{kernel}, {multipath}"

    def fault(self, what):
        return Fault(self.answers, self.guest, what)
