"""RPC mode: JSON lines on stdin and stdout."""
