"""The account of `host watch` (manifests/components/host-watch) on the real API server: enough to follow an attachment from
its making to its end, and good for nothing else. A row of api.py."""
import json
import os
import signal

from api_lab import (ATTACHMENTS, DIR, DPF, NODE, OUT, PORT, ROOT, STORAGE, VOLUMES, Failed, Process, ask, kubeconfig, kubectl, raw, replace,
                     until)

ACCOUNT = "snap-csi-host-watch"
RULE = {"verbs": ["get", "list", "watch"], "apiGroups": ["storage.dpu.nvidia.com"], "resources": ["dpuvolumeattachments"]}
# What every authenticated user may ask about himself.
SELF = ("authorization.k8s.io", "authentication.k8s.io")


def asked(since):
    """[(verb, answer)] of the requests of host watch; a watch is included when it has ended."""
    with open(f"{DIR}/audit.log", encoding="utf-8") as lines:
        lines.seek(since)
        # The last line may be half written.
        events = [json.loads(line) for line in lines if line.endswith("\n")]
    return [(e["verb"], e.get("responseStatus", {}).get("code")) for e in events
            if e["user"]["username"].endswith(f":{ACCOUNT}") and e.get("userAgent", "").startswith("snap-csi-host/")]


def must_be_refused(bearer, name):
    """Asks for what a thief of the token would like; the answers are 403, and nothing has changed."""
    one, core = f"{ATTACHMENTS}/{name}", f"/api/v1/namespaces/{DPF}"
    before = ask("GET", one)
    other = {**before, "metadata": {"name": "another"}}
    change = {"metadata": {"annotations": {"example.com/changed": "1"}}}
    elsewhere = ATTACHMENTS.replace(DPF, "default")
    requests = [("POST", ATTACHMENTS, other), ("PUT", one, before), ("PATCH", one, change), ("PATCH", f"{one}/status", {"status": {}}),
                ("DELETE", one, None), ("DELETE", ATTACHMENTS, None), ("GET", VOLUMES, None), ("GET", elsewhere, None),
                ("GET", STORAGE.replace(f"/namespaces/{DPF}", "") + "/dpuvolumeattachments", None),
                ("GET", f"{STORAGE}/dpustoragepolicies", None), ("GET", f"{core}/secrets", None), ("GET", f"{core}/configmaps", None),
                ("POST", f"{core}/serviceaccounts/{ACCOUNT}/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                                                                     "spec": {}})]
    for method, path, body in requests:
        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        status, answer = raw(method, path, body, content, token=bearer)
        if status != 403:
            raise Failed(f"the token of host watch: {method} {path}: {status} {answer}")
    after = ask("GET", one)
    if (after["metadata"]["uid"], after["metadata"]["resourceVersion"]) != (before["metadata"]["uid"], before["metadata"]["resourceVersion"]):
        raise Failed(f"the attachment has changed: {after}")
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": DPF}}
    rules = raw("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review, token=bearer)[1]["status"]["resourceRules"]
    if [r for r in rules if not set(r["apiGroups"]) <= set(SELF)] != [RULE]:
        raise Failed(f"the account may {rules}")
    return len(requests)


def start_watch(bearer):
    for folder in ("host/sys/bus/pci/devices", "host/dev"):
        os.makedirs(f"{DIR}/{folder}", exist_ok=True)
    replace(f"{DIR}/host/token", bearer)
    return Process("host-watch", [
        f"{OUT}/snap-csi-plugin", "host", "watch", f"--node={NODE}", "--timeout=5", f"--sysfs-root={DIR}/host/sys", f"--dev-root={DIR}/host/dev",
        f"--state-dir={DIR}/host/state", f"--kubeconfig={kubeconfig('host-watch.kubeconfig', PORT, {'tokenFile': f'{DIR}/host/token'})}"]).start()


def said(watch, *words):
    """The first line of its log with all of these words."""
    def look():
        if not watch.alive():
            raise Failed(f"host watch has ended: {watch.log()[-800:]}")
        if "not allowed" in watch.log():
            raise Failed(f"a right is missing: {watch.log()[-800:]}")
        return next((line for line in watch.log().splitlines() if all(word in line for word in words)), None)
    return until(f"{words} in the log of host watch", look)


def follows_and_may_nothing_else(create, publish, unpublish, delete):
    """Each of them does its call for the volume of a name."""
    kubectl("apply", "-n", DPF, "-f", f"{ROOT}/manifests/components/host-watch/rbac.yaml")
    bearer = kubectl("create", "token", "-n", DPF, ACCOUNT).strip()
    # A server that has just started has not read its roles yet.
    until("the account has its role", lambda: raw("GET", f"{ATTACHMENTS}?limit=1", token=bearer)[0] == 200)
    since = os.path.getsize(f"{DIR}/audit.log")
    watch = start_watch(bearer)
    try:
        said(watch, "watching")
        create("pvc-host")
        publish("pvc-host")
        line = said(watch, "cannot be attached yet", "pvc-host", "no PCI function")
        refused = must_be_refused(bearer, f"{NODE}-pvc-host")
        watch.kill(signal.SIGTERM)
        before = len(watch.log())
        watch.start()
        until("one that finds it there sees it, too", lambda: "no PCI function" in watch.log(before))
        unpublish("pvc-host")
        said(watch, "detached", f"attachment={NODE}-pvc-host")
    finally:
        watch.kill(signal.SIGTERM)
    if watch.process.returncode:
        raise Failed(f"host watch ends with {watch.process.returncode}: {watch.log()[-800:]}")
    delete("pvc-host")
    until("the ends of both watches are in the audit log", lambda: [verb for verb, _ in asked(since)].count("watch") >= 2)
    forbidden = [a for a in asked(since) if a[1] in (401, 403)]
    if forbidden or bearer in watch.log():
        raise Failed(f"forbidden is {forbidden}; log: {watch.log()[-800:]}")
    used = ", ".join(sorted({verb for verb, _ in asked(since)}))
    return f"{line.split(' ', 2)[2]}; used: {used}; {refused} other requests: 403"
