"""Retries, the budget, and failures that end a batch."""

from ludolf.fleet.schedule import MOST_LOSSES, BatchCost, EarlyStop, Schedule, WaitingItem
from ludolf.fleet.tasks import items_given, make_tasks


def _items(count: int) -> list[WaitingItem]:
    tasks = make_tasks(items_given({"id": str(number)} for number in range(count)))
    return [WaitingItem(task, 0) for task in tasks]


def test_a_failed_item_starts_again_after_its_pauses_and_then_no_more() -> None:
    first, second = _items(2)
    schedule = Schedule([first, second], 2, (5.0, 25.0))
    assert schedule.peek(0.0) is first
    schedule.take()
    assert schedule.retry(first, 0.0)
    assert (schedule.next_at(), schedule.peek(4.9), schedule.peek(5.0)) == (5.0, second, first)
    schedule.take()
    assert schedule.retry(first, 5.0)
    assert schedule.next_at() == 30.0
    assert not schedule.retry(first, 40.0)
    assert len(schedule) == 2


def test_an_item_that_progressed_in_a_lost_worker_starts_again_at_once() -> None:
    (item,) = _items(1)
    schedule = Schedule([item], 0, (5.0,))
    for _ in range(MOST_LOSSES):
        schedule.take()
        assert schedule.lost(item, 0.0, progressed=True)
        assert schedule.peek(0.0) is item
    schedule.take()
    assert not schedule.lost(item, 0.0, progressed=True)


def test_an_item_fits_if_the_mean_of_the_others_does() -> None:
    cost = BatchCost(1.0, 0.0, 0)
    assert cost.fits("a", ())
    cost.note("a", 0.3)
    cost.record("a", 0.4)
    assert cost.total == 0.4
    assert cost.fits("b", ())
    assert not cost.fits("c", ("b",))
    cost.note("b", 0.6)
    assert (cost.is_used_up, cost.fits("c", ())) == (True, False)
    assert BatchCost(None, 5.0, 1).fits("a", ())


def test_five_equal_failures_before_a_success_stop_the_batch() -> None:
    stop = EarlyStop(had_success=False)
    assert not any(stop.failed("bad_request", "x") for _ in range(4))
    assert stop.failed("bad_request", "other") is None
    assert not any(stop.failed("bad_request", "x") for _ in range(4))
    assert "x" in (stop.failed("bad_request", "x") or "")
    later = EarlyStop(had_success=False)
    later.succeeded()
    assert not any(later.failed("bad_request", "x") for _ in range(9))
    assert later.failed("quota", "used up") == "used up"
