# SPDX-License-Identifier: Apache-2.0
"""What suites in Python expect, and how long they wait for it."""
import time


class Failed(AssertionError):
    """An expectation that did not come true."""


def check(true, what):
    if not true:
        raise Failed(what)


def until(what, condition, seconds=120, pause=0.1):
    """Waits for a true value of condition() and returns it."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        check(time.monotonic() < end, f"not within {seconds} s: {what}")
        time.sleep(pause)
