"""Child processes for large, slow or risky work, with requests and replies as lines of JSON."""

from __future__ import annotations

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Environment of a process before it imports NumPy: results must not depend on the number of cores,
and a fork needs a process without threads of BLAS."""
