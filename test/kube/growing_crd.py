"""The CRD of DPUVolumes with and without the rule that spec.resources is immutable."""
import json

from expect import until

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/dpuvolumes.storage.dpu.nvidia.com"
SCHEMA = "/openapi/v3/apis/storage.dpu.nvidia.com/v1alpha1"
FROZEN = "self.resources == oldSelf.resources"
GROWS = "quantity(string(self.resources.requests['storage'])).compareTo(quantity(string(oldSelf.resources.requests['storage']))) >= 0"


def let_volumes_grow(ask, grow):
    """ask(method, path, body=None) returns the answer's object. Returns once the API server publishes the schema, from which the
    driver learns the rule at its start."""
    before, after = (FROZEN, GROWS) if grow else (GROWS, FROZEN)
    crd = ask("GET", CRD)
    rules = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"]
    next(r for r in rules if r["rule"] == before)["rule"] = after
    ask("PUT", CRD, crd)
    until("the schema is published", lambda: json.dumps(after) in json.dumps(ask("GET", SCHEMA)))
