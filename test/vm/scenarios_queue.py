# SPDX-License-Identifier: Apache-2.0
"""Settings of a disk's request queue, with a kernel that refuses what its driver cannot do."""
from scenario import scenario
from scenarios_faults import clean

NAMES = ("scheduler", "nr_requests", "read_ahead_kb", "rq_affinity")
PREFIX = "csi.snap.nvidia.com/"


def queue_of(w, ns):
    """The values of NAMES; a namespace of native multipath may lack one."""
    return w.vm.sh(f"cd /sys/block/$(basename {w.device_of(ns)})/queue; for name in {' '.join(NAMES)}; do cat $name 2>/dev/null || echo absent; done").split("\n")


def staged_and_unstaged(w, given, wanted, **options):
    """Stages with these keys, restarts the driver, and unstages; `wanted` is the queue's state in between."""
    ns = w.ns["a"]
    w.attach(ns, 0)
    w.bind(0)
    before = queue_of(w, ns)
    volume = w.volume("pvc-queue", ns, 0, volume_context={PREFIX + key: value for key, value in given.items()}, **options)
    volume.stage()
    for name, value in wanted.items():
        now = queue_of(w, ns)[NAMES.index(name)]
        w.check(value in now, f"{name} has {now}, expected {value}")
    volume.publish()
    w.kill_driver()
    w.start_driver()
    volume.k = w.kubelet
    clean(w, volume)
    w.check(queue_of(w, ns) == before, f"the queue had {before}, and has {queue_of(w, ns)}")
    w.detach(ns, 0)
    w.blank("a")


@scenario("plain")
def all_settings(w):
    """all four settings of a disk's queue last from stage to unstage, across a restart of the driver"""
    given = {"ioScheduler": "mq-deadline", "nrRequests": "64", "readAheadKb": "4096", "rqAffinity": "2"}
    wanted = {"scheduler": "[mq-deadline]", "nr_requests": "64", "read_ahead_kb": "4096", "rq_affinity": "2"}
    staged_and_unstaged(w, given, wanted)


@scenario("multipath", "newer")
def settings_of_multipath(w):
    """native multipath: the read-ahead is set and restored, a scheduler is refused and nothing is left"""
    staged_and_unstaged(w, {"readAheadKb": "4096"}, {"read_ahead_kb": "4096"})
    ns = w.ns["a"]
    w.attach(ns, 0)
    w.bind(0)
    before = queue_of(w, ns)
    volume = w.volume("pvc-queue", ns, 0, volume_context={PREFIX + "ioScheduler": "mq-deadline", PREFIX + "readAheadKb": "0"})
    w.expect("FAILED_PRECONDITION", volume.stage, PREFIX + "ioScheduler")
    w.check(queue_of(w, ns) == before, f"the queue had {before}, and has {queue_of(w, ns)}")
    w.detach(ns, 0)
    w.blank("a")
