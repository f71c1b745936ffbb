"""From stored arrays to the formats of uploads; what is read from them again is the same."""
