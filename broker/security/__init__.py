"""Who speaks to the broker, and how: certificates, principals, logins."""
