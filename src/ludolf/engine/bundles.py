"""The shared parts of an engine, which most components need."""

import msgspec

from ludolf.engine.conversation import Conversation
from ludolf.engine.feature import Features
from ludolf.engine.models import Models
from ludolf.engine.resources import Resources
from ludolf.engine.toolset import Toolset
from ludolf.engine.workspace import Workspace


class Bundles(msgspec.Struct, frozen=True):
    workspace: Workspace
    conversation: Conversation
    models: Models
    toolset: Toolset
    resources: Resources
    features: Features
