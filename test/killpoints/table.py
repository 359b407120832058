# SPDX-License-Identifier: Apache-2.0
"""The tables of test/reports/kill-points.md: rows that differ only in the kind of volume are merged."""
import os

from expect import check

BEGIN, END = "<!-- {}: begin -->\n", "<!-- {}: end -->\n"


def merged(rows):
    """{(operation, point, left, retry, state): kinds}, with the other way's answer beside the retry's."""
    cases = {}
    for operation, kind, point, way, left, answer, state in rows:
        cases.setdefault((operation, kind, point), {"left": left})[way] = (answer, state)
    together = {}
    for (operation, kind, point), c in cases.items():
        if "retry" not in c:
            continue
        other = c.get("give up", ("", ""))[0]
        key = (operation, point, c["left"], *c["retry"], other)
        together.setdefault(key, []).append(kind)
    return together


def text_of(rows):
    out, last = [], None
    together = merged(rows)
    order = []
    for key in together:
        if key[0] not in order:
            order.append(key[0])
    for operation in order:
        for key, kinds in together.items():
            if key[0] != operation:
                continue
            _, point, left, answer, state, other = (part.replace("|", "\\|") for part in key)
            if operation != last:
                out.append(f"\n### {operation}\n\n| killed after | volume | what is left | the retry | then there is | "
                           "unpublish, unstage instead |\n| --- | --- | --- | --- | --- | --- |\n")
                last = operation
            out.append(f"| {point} | {', '.join(kinds)} | {left} | {answer} | {state} | {other or '-'} |\n")
    return "".join(out)


def controller_text_of(rows):
    out, last = [], None
    for operation, point, found in rows:
        if operation != last:
            out.append(f"\n### {operation}\n\n| killed after | a person finds | the retry | another replica | another call instead |\n"
                       "| --- | --- | --- | --- | --- |\n")
            last = operation
        person, retry, replica, *instead = (part.replace("|", "\\|") for part in found)
        out.append(f"| {point} | {person} | {retry} | {'the same' if replica == retry else replica} | {'; '.join(instead) or '-'} |\n")
    return "".join(out)


def compare(path, name, text):
    """The part of the page between the marks of that name."""
    with open(path, encoding="utf-8") as f:
        doc = f.read()
    begin, end = BEGIN.format(name), END.format(name)
    head, rest = doc.split(begin)
    tail = rest.split(end)[1]
    want = head + begin + text + "\n" + end + tail
    if os.environ.get("UPDATE_DOCS") and want != doc:
        with open(path, "w", encoding="utf-8") as f:
            f.write(want)
    else:
        differ = [line for line in want.splitlines() if line not in doc.splitlines()]
        check(want == doc, f"{path} differs; UPDATE_DOCS=1 make killpoints writes it. Not in it: {differ[:3]}")
