"""Prompt overhead: what an agent adds to the first prompt, as the model server receives it."""

from http.client import HTTPConnection

from bench.programs import Program
from bench.stage import Stage

# An estimate that holds for English and for JSON, and needs no tokenizer.
_BYTES_OF_A_TOKEN = 4


def measure(stage: Stage) -> None:
    def once(program: Program) -> None:
        port = stage.home(program).port
        _largest_since(port)
        with stage.agent(program) as agent:
            agent.run("Bench text 5")
        stage.put(program, "overhead", _largest_since(port) / _BYTES_OF_A_TOKEN)

    stage.each("overhead", once, others=True)


def _largest_since(port: int) -> int:
    """Return the bytes of the largest request since the last call."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/overhead")
        return int(connection.getresponse().read())
    finally:
        connection.close()
