#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs cases.json against a snap-sim of its own ($SNAP_SIM) and prints a summary in Check's words. Usage: cases.py [WORD...];
with words only cases whose title has one of them."""
import http.client
import os
import subprocess
import sys
import tempfile

import case_table
from expect import check, until


def main():
    with tempfile.TemporaryDirectory() as folder:
        port = f"{folder}/port"
        with subprocess.Popen([os.environ.get("SNAP_SIM", "build/debug/snap-sim"), "--no-fabric", "--seed", "--node=n1", "--hotplug-slots=4",
                               f"--namespace={case_table.NAMESPACE}", f"--port-file={port}"], stdout=subprocess.DEVNULL) as sim:
            def serves():
                check(sim.poll() is None, "snap-sim has ended")
                return os.path.exists(port)
            try:
                until("snap-sim serves", serves, pause=0.01)
                with open(port, encoding="ascii") as file:
                    number = int(file.read())
                results = case_table.run_all(
                    case_table.sender(lambda: http.client.HTTPConnection("127.0.0.1", number, timeout=case_table.PATIENCE)), sys.argv[1:])
            finally:
                sim.terminate()
    failed = [r for r in results if r[1]]
    for what, wrong in failed:
        print(f"{what}: {wrong}")
    print(f"{100 * (len(results) - len(failed)) // max(len(results), 1)}%: Checks: {len(results)}, Failures: {len(failed)}, Errors: 0")
    return 1 if failed or not results or sim.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
