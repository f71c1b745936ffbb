"""Bodies of requests: limits, validation, uploads, idempotency keys."""
