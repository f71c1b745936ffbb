"""Who may call: API keys, scopes, rate limits, host names, the page to sign in."""
