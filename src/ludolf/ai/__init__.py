"""Turn a request into a stream of message events, for any model provider."""
