"""Pages for people, rendered on the server: what the API does, with forms and charts."""
