"""A job as a row: its states, leases, attempts and events, whatever its kind is."""
