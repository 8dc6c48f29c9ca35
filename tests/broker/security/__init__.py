"""Tests of certificates, principals and logins."""
