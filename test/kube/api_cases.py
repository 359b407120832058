"""The cases of test/sim/cases.json against the real API server, where snap-sim is only DPF."""
import http.client

import case_table
from api_lab import PORT, context


def against_server(words):
    """One boolean for each case, True if it passed. With words none runs unless one of them is "cases"."""
    if words and "cases" not in words:
        return []
    send = case_table.sender(lambda: http.client.HTTPSConnection("127.0.0.1", PORT, context=context(), timeout=30))
    results = case_table.run_all(send)
    for what, wrong in results:
        print(f"{'FAIL' if wrong else 'ok  '}          cases.json: {what}{f': {wrong}' if wrong else ''}", flush=True)
    return [not wrong for _, wrong in results]
