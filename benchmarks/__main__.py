"""All measurements, one after the other."""

from __future__ import annotations

from benchmarks import course_results, footprint, passes

passes.main()
footprint.main()
course_results.main()
