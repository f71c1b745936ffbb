"""What a worker keeps of memory that is free: its limit counts what is mapped."""

from __future__ import annotations

import subprocess
import sys

import pytest

WORK = """
import numpy as np
from service.common.malloc import bound_free_memory
if {bounded}: bound_free_memory()
def mapped():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmData")) // 1024
np.ones(1 << 20)  # freed: by default, arrays of this length come from the heap now
before = mapped()
states = [(np.ones(1 << 18), np.ones(1 << 12)) for _ in range(64)]  # 2 MiB and 32 KiB
states = [small for _, small in states]
print(mapped() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_vectors_that_are_freed_leave_no_holes() -> None:
    """By default the heap stays as long as it was."""
    kept = [
        int(subprocess.check_output([sys.executable, "-c", WORK.format(bounded=bounded)]))
        for bounded in (True, False)
    ]
    assert kept[0] < 10
    assert kept[1] > 100
