"""HTTP transport, server-sent events and OAuth."""
