"""Foreign clients over TLS, with logins and access rules."""
