"""A typed client that starts the program and talks to it; for hosts and for tests."""

from ludolf.client.client import Client, NoAnswer, Record, Refused
from ludolf.client.process import ClientError, Process, ProgramEnded

__all__ = ["Client", "ClientError", "NoAnswer", "Process", "ProgramEnded", "Record", "Refused"]
