"""The list of scenarios, in the order in which their files are read by e2e.py."""
from kube import PODS

SCENARIOS = []  # (title, function of the namespace)
ONLY_HERE = []  # titles of those that run in this form alone
SKIPPED = []    # titles that make no sense with the driver where it runs


def scenario(title, where="both"):
    """where: "both", "processes" or "pods", as the driver runs."""
    def add(function):
        if where in ("both", "pods" if PODS else "processes"):
            SCENARIOS.append((title, function))
            if where != "both":
                ONLY_HERE.append(title)
        else:
            SKIPPED.append(title)
        return function
    return add
