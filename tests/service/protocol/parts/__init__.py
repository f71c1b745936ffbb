"""The protocol of parts: a model, and schedules of the real code."""
