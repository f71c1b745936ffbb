"""What all rooms use and no request needs: names, strict JSON, schemas, logs, callers, keys."""
