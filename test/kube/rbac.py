"""The rights of the driver's account, from manifests/base/rbac.yaml as they are in the cluster, against what the API
server's audit log says was asked for with them, by the driver and by its sidecars."""
import json

from kube import DIR, DPF, Failed, get

# Granted for what these scenarios do not do, each with its reason.
LISTED = "these sidecars list by watching (WatchList of client-go 0.35 and later); earlier ones ask for a list"
RARE = "the provisioner reads or writes it afresh when a claim is moved to another node, or when its cache is behind"
NOT_SEEN = {
    ("", "persistentvolumes", "list"): LISTED,
    ("", "persistentvolumeclaims", "list"): LISTED,
    ("storage.k8s.io", "storageclasses", "list"): LISTED,
    ("storage.k8s.io", "csinodes", "list"): LISTED,
    ("storage.k8s.io", "volumeattachments", "list"): LISTED,
    ("", "persistentvolumes", "get"): RARE,
    ("", "persistentvolumeclaims", "get"): RARE,
    ("", "persistentvolumeclaims", "update"): RARE,
    ("storage.k8s.io", "storageclasses", "get"): RARE,
    ("storage.k8s.io", "volumeattachments", "get"): "the attacher reads it afresh after a conflict",
    ("", "nodes", "get"): "the driver asks only where no DPUNode is found, to tell an unknown node from a slow one",
}


def granted():
    found = set()
    for role in (get("Role", DPF, "snap-csi-controller"), get("ClusterRole", None, "snap-csi-controller")):
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    found.update((group, resource, verb) for verb in rule["verbs"])
    return found


def asked():
    """({right}, {right that was refused})"""
    used, refused = set(), set()
    with open(f"{DIR}/log/audit.jsonl", encoding="utf-8") as lines:
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:  # the line that is being written
                continue
            what = event.get("objectRef")
            if not what or "resource" not in what:
                continue
            resource = what["resource"] + ("/" + what["subresource"] if what.get("subresource") else "")
            right = (what.get("apiGroup", ""), resource, event["verb"])
            code = event.get("responseStatus", {}).get("code", 0)
            (refused if code == 403 else used).add(right)
    return used, refused


def text(rights):
    return ", ".join(" ".join(r) for r in sorted(rights))


def rights():
    have = granted()
    used, refused = asked()
    # An API server that has just started refuses for a moment what it has not read the roles of yet.
    if refused - have:
        raise Failed(f"refused: {text(refused - have)}")
    unused = have - used - set(NOT_SEEN)
    print(f"       {len(have)} rights, {len(have & used)} of them seen in use")
    if unused:
        raise Failed(f"granted and not used: {text(unused)}")
