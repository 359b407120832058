# SPDX-License-Identifier: Apache-2.0
"""snap-sim's own paths, /sim/...: faults and the like (test/sim/README.md). Standard library only."""
import http.client
import json

from expect import check


def request(port, method, path, body=None):
    """The text of the answer; body is an object for JSON, or None."""
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=120)
    connection.request(method, path, json.dumps(body) if body is not None else None)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    check(answer.status < 300, f"snap-sim: {method} {path}: {text}")
    return text
