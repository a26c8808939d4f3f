"""Put the parts together into one session that commands can act on."""
