"""Tests of other folders that prove requirements exactly: by folder and file, test and ids."""

Tests = dict[str, tuple[str, ...]]

ELSEWHERE: dict[tuple[str, str], Tests] = {
    ("unit", "test_sdk"): {"test_a_prompt_is_answered": ("RPC2-intro-02",)},
    ("loop", "test_dialect_omp"): {
        "test_a_refused_prompt_is_acknowledged_and_refused_under_one_id": ("RPC2-prompt-09",),
        "test_the_first_records_are_ready_and_the_commands": ("RPC2-intro-04",),
    },
    ("loop", "test_dialect_omp_details"): {
        "test_an_answer_that_ends_with_the_input_was_not_interrupted_by_anyone": ("RPC2-start-06",),
    },
}
