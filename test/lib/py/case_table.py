# SPDX-License-Identifier: Apache-2.0
"""Runs the table of test/sim/cases.json, which says how the API server and DPF behave: test/sim against snap-sim, test/kube
against a real API server with snap-sim as its DPF.

A case is a list of steps:
  {"do": "POST dpuvolumes", "body": {...}, "code": 201, "is": {...}, "says": TEXT, "keep": NAME, "type": CONTENT TYPE}
      says: the whole message of a Status; names: of a list's items; keep: later texts may hold ${NAME.path}
  {"until": "dpuvolumes/v", "is": {...}}    asks until it is so; "is": null: until there is no such object
Paths are below the namespace; with a slash in front they are whole. A body with "as" is a template's with the rest merged
into it. In "is", a path is a.b[type].c or a.b[0].c, null means absent and "*" anything. What a case makes is removed."""
import copy
import json
import os
import re
import time

NAMESPACE = "dpf-operator-system"
GROUP = "/apis/storage.dpu.nvidia.com/v1alpha1"
TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../sim/cases.json")
PATIENCE = 120


class Wrong(Exception):
    pass


def at(tree, path):
    for name, index in re.findall(r"([^.\[\]]+)|\[([^\]]*)\]", path):
        if name:
            tree = tree.get(name.replace("|", ".")) if isinstance(tree, dict) else None
        elif index.isdigit():
            tree = tree[int(index)] if isinstance(tree, list) and len(tree) > int(index) else None
        else:
            tree = next((i for i in tree or [] if i.get("type") == index), None)
        if tree is None:
            return None
    return tree


def merge(tree, patch):
    if not isinstance(patch, dict):
        return patch
    tree = copy.deepcopy(tree) if isinstance(tree, dict) else {}
    for name, value in patch.items():
        if value is None:
            tree.pop(name, None)
        else:
            tree[name] = merge(tree.get(name), value)
    return tree


def differs(tree, wanted):
    """Text that names the paths of `wanted` with another value in the tree; "" when all are equal."""
    found = {path: at(tree, path) for path in wanted}
    return ", ".join(f"{path} is {json.dumps(found[path])}, not {json.dumps(value)}" for path, value in wanted.items()
                     if (found[path] is None if value == "*" else found[path] != value))


def mistakes(text):
    return sorted(re.split(r", |\[|\]", text))


class Run:
    """One case. send(method, path, body, content type) returns (code, object or text)."""

    def __init__(self, send, templates):
        self.send, self.templates, self.kept, self.made = send, templates, {}, []

    def fill(self, value):
        if isinstance(value, str):
            return re.sub(r"\$\{(\w+)\.([^}]*)\}", lambda m: str(at(self.kept[m[1]], m[2])), value)
        if isinstance(value, list):
            return [self.fill(v) for v in value]
        if isinstance(value, dict):
            return {k: self.fill(v) for k, v in value.items()}
        return value

    def body_of(self, step):
        body = self.fill(step.get("body"))
        if isinstance(body, dict) and "as" in body:
            rest = {k: v for k, v in body.items() if k != "as"}
            body = merge(self.templates[body["as"]], rest)
        return body if body is None or isinstance(body, str) else json.dumps(body)

    @staticmethod
    def whole(path):
        return path if path.startswith("/") else f"{GROUP}/namespaces/{NAMESPACE}/{path}"

    def do(self, step):
        method, path = self.fill(step["do"]).split(" ", 1)
        kind = step.get("type", "application/merge-patch+json" if method == "PATCH" else "application/json")
        code, answer = self.send(method, self.whole(path), self.body_of(step), kind)
        if method == "POST" and code == 201 and isinstance(answer, dict) and "dryRun" not in path:
            self.made.append(f"{self.whole(path).split('?')[0]}/{answer['metadata']['name']}")
        where = f"{method} {path}"
        if code != step["code"]:
            raise Wrong(f"{where}: {code}, not {step['code']}: {json.dumps(answer)[:600]}")
        if "says" in step:
            said = answer.get("message") if isinstance(answer, dict) else answer
            # Several mistakes are told in any order.
            if mistakes(said) != mistakes(self.fill(step["says"])):
                raise Wrong(f"{where}: says\n       {said}\n     not\n       {self.fill(step['says'])}")
        if difference := differs(answer, self.fill(step.get("is", {}))):
            raise Wrong(f"{where}: {difference}")
        if "names" in step and [i["metadata"]["name"] for i in answer["items"]] != step["names"]:
            raise Wrong(f"{where}: {[i['metadata']['name'] for i in answer['items']]}, not {step['names']}")
        if "keep" in step:
            self.kept[step["keep"]] = answer

    def until(self, step):
        end = time.monotonic() + PATIENCE
        path = self.fill(step["until"])
        while True:
            code, answer = self.send("GET", self.whole(path), None, "application/json")
            if step["is"] is None:
                difference = code != 404 and "it is still there"
            else:
                difference = f"{code}" if code != 200 else differs(answer, self.fill(step["is"]))
            if not difference:
                return
            if time.monotonic() > end:
                raise Wrong(f"{path}: {difference}")
            time.sleep(0.02)

    def clean(self):
        for path in reversed(self.made):
            self.send("DELETE", path, None, "application/json")
            end = time.monotonic() + PATIENCE
            while self.send("GET", path, None, "application/json")[0] == 200 and time.monotonic() < end:
                code, left = self.send("GET", path, None, "application/json")
                foreign = [f for f in at(left, "metadata.finalizers") or [] if not f.startswith("storage.dpu.nvidia.com/")] if code == 200 else []
                if foreign:
                    self.send("PATCH", path, json.dumps({"metadata": {"finalizers": None}}), "application/merge-patch+json")
                time.sleep(0.02)


def cases():
    with open(TABLE, encoding="utf-8") as file:
        return json.load(file)


def run_all(send, words=()):
    """[(title, None or what is wrong)]"""
    table, results = cases(), []
    for case in table["cases"]:
        if words and not any(word in case["what"] for word in words):
            continue
        run, wrong = Run(send, table["templates"]), None
        try:
            for step in case["steps"]:
                (run.do if "do" in step else run.until)(step)
        except Wrong as why:
            wrong = str(why)
        run.clean()
        results.append((case["what"], wrong))
    return results


def sender(connect):
    def send(method, path, body, kind):
        connection = connect()
        try:
            connection.request(method, path, body, {"Content-Type": kind})
            answer = connection.getresponse()
            text = answer.read().decode()
            return answer.status, json.loads(text) if text.startswith("{") else text
        finally:
            connection.close()
    return send
