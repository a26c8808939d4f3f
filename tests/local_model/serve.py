"""Serve a GGUF file on loopback as the program does, but always with the likeliest word."""

import os
import sys
import threading
from importlib import import_module
from pathlib import Path

from ludolf.ai.local.gguf import read_gguf
from ludolf.ai.local.provider import template_for
from ludolf.ai.local.runtime import Launch, parameters


def main() -> None:
    path, key = sys.argv[1:]
    template = template_for(read_gguf(Path(path)))
    order = Launch(model=path, key=key, context=8192, parent=os.getppid(), template=template)
    params = parameters(order)
    params.sampling.temp = 0.0
    server = import_module("xllamacpp").Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main()
