"""Adapters without the harness that they are for."""

import importlib
import importlib.util

import pytest


def test_a_missing_inspect_is_an_error_that_names_the_extra() -> None:
    if importlib.util.find_spec("inspect_ai") is not None:
        pytest.skip("Inspect is installed here")
    with pytest.raises(ImportError, match=r"pip install \"ludolf\[inspect\]\""):
        importlib.import_module("ludolf.adapters.inspect_agent")
