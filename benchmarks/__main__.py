"""All measurements, one after the other."""

from __future__ import annotations

from benchmarks import footprint, passes

passes.main()
footprint.main()
