"""Requests to the host: dialogs, approvals, tools, documents, logins."""
