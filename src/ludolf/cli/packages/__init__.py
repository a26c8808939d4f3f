"""Install, update, remove and list packages of pi."""
