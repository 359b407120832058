# SPDX-License-Identifier: Apache-2.0
"""The list of scenarios: a function, the worlds that it needs, its sentence."""

SCENARIOS = []


def scenario(*worlds):
    """Registers a scenario for the named worlds (run.py, WORLDS). Its docstring is its name in the table."""
    def register(function):
        SCENARIOS.append((function, worlds))
        return function
    return register
