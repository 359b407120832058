"""The list of scenarios, in the order in which their files are read by e2e.py."""
from kube import PODS, minor

SCENARIOS = []  # (title, function of the namespace)
ONLY_HERE = []  # titles of those that run only in this form
SKIPPED = []    # (title, why not in this form)


def scenario(title, where="both", since=0, unless=None):
    """where: "both", "processes" or "pods", as the driver runs. since: the minor version of Kubernetes that has the field. unless: why it
    cannot run on this machine, or a false value."""
    def add(function):
        if since and minor() < since:
            SKIPPED.append((title, f"needs Kubernetes 1.{since}"))
        elif unless:
            SKIPPED.append((title, unless))
        elif where in ("both", "pods" if PODS else "processes"):
            SCENARIOS.append((title, function))
            if where != "both":
                ONLY_HERE.append(title)
        else:
            SKIPPED.append((title, f"not with the driver in {'pods' if PODS else 'processes'}"))
        return function
    return add
