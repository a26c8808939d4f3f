"""The frames and answers of each dialect."""

from typing import Any

import msgspec

from ludolf.protocol.wire.answers import ANSWERS
from ludolf.protocol.wire.early_frames import EARLY_FRAMES
from ludolf.protocol.wire.exact_frames import EXACT_ANSWERS, EXACT_FRAMES
from ludolf.protocol.wire.frames import PI_DELTA_FRAMES, PI_FRAMES
from ludolf.protocol.wire.omp_answers import OMP_ANSWERS, XCSH_ANSWERS
from ludolf.protocol.wire.omp_frames import OMP_FRAMES, XCSH_FRAMES


class WireDialect(msgspec.Struct, frozen=True):
    """`answers` is empty if the dialect has no replies. `end`: the event that ends a prompt."""

    name: str
    frames: tuple[type[Any], ...]
    answers: dict[str, Any]
    end: str
    greets: bool = False

    def by_type(self) -> dict[str, type[Any]]:
        """Return the frames by their `type`."""
        return {str(kind.__struct_config__.tag): kind for kind in self.frames}


WIRE: dict[str, WireDialect] = {
    "pi": WireDialect("pi", PI_FRAMES, ANSWERS, "agent_settled"),
    "pi-0.79": WireDialect("pi-0.79", EXACT_FRAMES, EXACT_ANSWERS, "agent_end"),
    "pi-delta": WireDialect("pi-delta", PI_DELTA_FRAMES, ANSWERS, "agent_settled"),
    "omp": WireDialect("omp", OMP_FRAMES, OMP_ANSWERS, "agent_end", greets=True),
    "xcsh": WireDialect("xcsh", XCSH_FRAMES, XCSH_ANSWERS, "agent_end", greets=True),
    "pi-early": WireDialect("pi-early", EARLY_FRAMES, {}, "agent_end"),
}
