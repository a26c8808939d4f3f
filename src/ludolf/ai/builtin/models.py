"""Data of the built-in models, available without loading their providers."""

from ludolf.ai.models import BUILT_IN_PROVIDER, Model, ModelCost

OFFLINE_API = "ludolf-offline"
SCRIPTED_API = "ludolf-scripted"


def offline_model() -> Model:
    return _model("offline", "Ludolf offline demo", OFFLINE_API)


def scripted_model() -> Model:
    return _model("scripted", "Ludolf scripted", SCRIPTED_API)


def _model(model_id: str, name: str, api: str) -> Model:
    return Model(
        id=model_id,
        name=name,
        api=api,
        provider=BUILT_IN_PROVIDER,
        base_url=f"builtin:{model_id}",
        reasoning=True,
        input=("text", "image"),
        cost=ModelCost(),
        context_window=128_000,
        max_tokens=8_192,
    )
