"""The chart as DPF deploys it: the objects of manifests/examples/dpuservice by the schema of DPF's kinds (svc-crds.yaml, our own
words), and the values that DPF gives to ArgoCD for them. Used by chart.py without a cluster and by chart_api.py on an API server."""
import copy
import glob
import os
import re

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLES = f"{ROOT}/manifests/examples/dpuservice"
SERVICE_KINDS = f"{ROOT}/test/kube/svc-crds.yaml"
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
# What DPF gives a service of a DPUDeployment in the cluster of the hosts: the hosts of its DPUSets, and a version of its own.
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [
    {"key": "feature.node.kubernetes.io/dpu-enabled", "operator": "In", "values": ["true"]},
    {"key": "svc.dpu.nvidia.com/dpuservice-hbn-snap-snap-csi-plugin-version", "operator": "In", "values": ["hbn-snap-snap-csi-plugin-x7k2p"]}]}]}


def documents(path):
    with open(path, encoding="utf-8") as file:
        return [o for o in yaml.safe_load_all(file) if o]


def schemas():
    return {c["spec"]["names"]["kind"]: c["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for c in documents(SERVICE_KINDS)[0]["items"]}


def faults(schema, value, at):
    """What an API server refuses of a value, without the rules in CEL: those are chart_api.py's."""
    wanted = TYPES.get(schema.get("type"))
    if wanted and (not isinstance(value, wanted) or (wanted is int and isinstance(value, bool))):
        return [f"{at}: {value!r} is not of type {schema['type']}"]
    found = []
    if isinstance(value, dict):
        known, more = schema.get("properties", {}), schema.get("additionalProperties")
        found += [f"{at}.{k}: required" for k in schema.get("required", []) if k not in value]
        for name, below in value.items():
            if name in known or isinstance(more, dict):
                # metadata is the API server's own.
                found += faults(known.get(name, more), below, f"{at}.{name}") if f"{at}.{name}" != ".metadata" else []
            elif not schema.get("x-kubernetes-preserve-unknown-fields"):
                found.append(f"{at}.{name}: unknown field")
    if isinstance(value, list):
        found += [f for i, v in enumerate(value) for f in faults(schema.get("items", {}), v, f"{at}[{i}]")]
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{at}: {value!r} does not match {schema['pattern']}")
    for least, most in (("minLength", "maxLength"), ("minItems", "maxItems"), ("minProperties", "maxProperties")):
        if isinstance(value, (str, list, dict)) and not schema.get(least, 0) <= len(value) <= schema.get(most, len(value)):
            found.append(f"{at}: {len(value)} is not from {schema.get(least, 0)} to {schema.get(most, 'any')}")
    return found


def object_faults(o):
    schema = schemas().get(o["kind"])
    return faults(schema, o, "") if schema else [f"{o['kind']}: not one of DPF's kinds"]


def examples():
    """The examples by kind, and the file that is a patch."""
    found = {o["kind"]: o for path in sorted(glob.glob(f"{EXAMPLES}/*.yaml")) for o in documents(path) if "kind" in o}
    return found, documents(f"{EXAMPLES}/dpudeployment-patch.yaml")[0]


def merged(below, above):
    ret = copy.deepcopy(below)
    for key, value in above.items():
        ret[key] = merged(ret[key], value) if isinstance(value, dict) and isinstance(ret.get(key), dict) else copy.deepcopy(value)
    return ret


def service_of(template, configuration):
    """The DPUService that DPF makes of a service of a DPUDeployment."""
    part = configuration["spec"]["serviceConfiguration"]
    values = merged(template["spec"]["helmChart"].get("values", {}), part.get("helmChart", {}).get("values", {}))
    return {"apiVersion": template["apiVersion"], "kind": "DPUService",
            "metadata": {"name": TERMS["nodeSelectorTerms"][0]["matchExpressions"][1]["values"][0], "namespace": template["metadata"]["namespace"]},
            "spec": {"deployInCluster": part.get("deployInCluster", False), "helmChart": {"source": template["spec"]["helmChart"]["source"], "values": values},
                     "serviceDaemonSet": {**part.get("serviceDaemonSet", {}), "nodeSelector": TERMS}}}


def argo_values(service):
    """The values that ArgoCD gives to the chart: those of the DPUService, and serviceDaemonSet with a label of DPF's."""
    spec = service["spec"]
    daemons = copy.deepcopy(spec.get("serviceDaemonSet", {}))
    daemons.setdefault("labels", {})["svc.dpu.nvidia.com/service"] = spec.get("serviceID", "a1b2c3d4e5")
    return merged({"serviceDaemonSet": daemons}, spec["helmChart"].get("values", {}))


def release_of(service):
    """The release's name in ArgoCD, and the namespace."""
    return service["spec"]["helmChart"]["source"].get("releaseName") or f"in-cluster-{service['metadata']['name']}", service["metadata"]["namespace"]


def without_hooks(objects):
    """ArgoCD knows no `helm test`: it leaves its objects out."""
    return [o for o in objects if "helm.sh/hook" not in o["metadata"].get("annotations", {})]
