"""Credentials: keys, logins, renewal."""
