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


class Component:
    """A part of an engine that uses several of its bundles."""

    def __init__(self, bundles: Bundles) -> None:
        self.bundles = bundles
        self.workspace = bundles.workspace
        self.conversation = bundles.conversation
        self.models = bundles.models
        self.toolset = bundles.toolset
        self.resources = bundles.resources
        self.features = bundles.features
