"""From the bytes of an upload to canonical arrays, in a process of its own.

`parser` is the service's side of that process, `child` the other one. `reader.read` does the work:
one module for each format, then `summary` looks at the arrays that they wrote.
"""
