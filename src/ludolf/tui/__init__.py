"""The terminal front end: a client of the server's protocol that draws inline."""
