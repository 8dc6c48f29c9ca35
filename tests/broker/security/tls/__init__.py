"""Tests of certificates, principals, logins and the audit log."""
