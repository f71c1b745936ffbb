"""Programs that write what is generated: the synchronous client, tables and replies."""
