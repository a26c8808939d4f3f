"""Telemetry of a batch: one trace for each item, linked to the span of the batch."""

from pathlib import Path

from tests.batch_stage import BatchStage, ItemModel
from tests.otlp_collector import collector
from tests.process.harness import Lab


def test_each_item_is_a_trace_that_is_linked_to_the_batch(tmp_path: Path) -> None:
    with ItemModel(turns=2) as model, collector() as seen:
        lab = Lab(tmp_path, model)
        stage = BatchStage(lab, ("a", "b", "c"))
        lab.settings(telemetry={"enabled": False})  # the option is stronger
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": seen.address}
        done = stage.run("-j", "2", "--workers", "2", "--telemetry", **env)
        assert done.code == 0, done.stderr
    batch = seen.one("invoke_workflow batch")
    assert batch.attributes["ludolf.batch.items.ok"] == 3
    items = seen.named("invoke_agent ludolf")
    assert {span.attributes["ludolf.item.id"] for span in items} == {"a", "b", "c"}
    assert {span.links for span in items} == {(batch.id,)}
    assert len({span.trace for span in (*items, batch)}) == 4
    one = ["invoke_agent ludolf", "  chat large", "  execute_tool bash", "  chat large"]
    assert seen.tree() == ["invoke_workflow batch", *one, *one, *one]
    assert {span.attributes["ludolf.mode"] for span in items} == {"batch"}
    assert [(p.value, p.attributes) for p in seen.metric("ludolf.batch.items")] == [
        (3, {"ludolf.status": "ok"})
    ]
    (waited,) = seen.metric("ludolf.gate.wait")[:1]
    assert waited.attributes == {"ludolf.provider": "claude"}
