"""From stored arrays back to the formats of uploads; what is read from them again is the same.

`render.render` does the work, in the parsing process: a module for texts, one for NumPy's formats,
one for Parquet.
"""
