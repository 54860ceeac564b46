"""Cases from the field, by number: what users of other tuners reported, and the test of ours that holds it.

 1  test_interchange::test_another_machines_smaller_time_never_wins
 1  test_interchange::test_an_imported_champion_is_never_executed_before_it_is_certified_here
 1  gemm/cases::test_a_planted_wrong_champion_is_never_run
 1  test_service::test_what_is_not_certified_here_is_shown_and_not_served
 2  test_lookup::test_dtype_and_transposes_are_never_near
 3  test_field_cases::test_a_certificate_has_the_odd_the_doubled_and_the_short_shape
 3  test_search::test_the_winner_that_fails_its_certificate_is_out_and_the_next_is_promoted
 3  test_field_cases::test_what_a_certificate_refused_is_never_the_best
 3  mutants/test_wrong::test_what_is_right_on_its_own_shape_only_is_refused_on_another
 5  test_verify::test_one_element_of_a_million_off_by_five
 7  mutants/test_wrong::test_refused_on_integers_by_every_path
 8  mutants/test_wrong::test_refused_by_every_path_in_the_kinds_of_call_that_show_it
 9  test_verify::test_a_lost_product_is_rejected_with_floats_too
 9  mutants/test_right::test_every_order_of_summation_is_accepted_by_every_path
10  test_search::test_a_wrong_configuration_has_no_time_and_is_never_best
12  test_field_cases::test_whatever_changes_the_product_changes_the_key
12  test_field_cases::test_a_certificate_has_every_kind_of_alpha_and_beta
12  test_family::test_all_else_changes_the_source_hash
13  test_verify::test_references_agree_with_exact_arithmetic
14  test_verify::test_operands_rounded_to_16_bits_are_rejected
14  test_verify::test_every_order_of_summation_is_accepted
14  test_stored::test_the_bound_of_16_bit_types_scales_with_k
14  mutants/test_wrong::test_refused_on_floats_by_every_path
15  test_bench::test_two_runs_or_builds_that_differ_are_wrong
17  test_field_cases::test_a_compilers_warning_is_stored_with_the_trial
18  faults/test_tuner_kill::test_kill_9_of_the_measuring_process_costs_no_verdict
19  test_bench::test_a_compiler_that_kills_its_process_is_a_verdict
20  faults/test_kernels::test_a_hanging_kernel_is_killed_at_its_deadline
21  test_field_cases::test_too_much_local_memory_is_illegal_for_every_family
21  test_bench::test_too_much_local_memory_is_never_launched
22  faults/test_kernels::test_a_kernel_that_writes_far_outside_ends_its_process_only
24  test_search::test_after_a_reboot_the_candidate_in_flight_is_skipped
24  faults/test_tuner_kill::test_what_was_in_flight_when_the_machine_went_down_is_never_launched_again
25  test_search::test_when_all_fail_nothing_is_published_and_the_run_goes_to_its_end
26  test_cli::test_a_run_without_a_correct_configuration_fails_and_publishes_nothing
27  faults/test_kernels::test_a_hanging_kernel_is_killed_at_its_deadline
29  test_timing::test_impossible_event_times
29  test_bench::test_two_impossible_times_are_a_bad_clock
30  test_timing::test_one_absurdly_fast_sample_does_not_win
30  test_bench::test_faster_than_the_device_can_be_is_a_bad_clock
31  test_nights::test_equal_configurations_do_not_change_places
32  test_field_cases::test_a_lucky_first_measurement_does_not_make_a_champion
32  test_field_cases::test_a_time_far_below_all_others_is_confirmed_before_it_is_the_best
33  test_field_cases::test_the_budget_of_seconds_is_kept_with_slow_kernels
33  test_timing::test_one_sample_has_no_noise_rather_than_nan
35  test_field_cases::test_the_default_wins_if_it_is_the_fastest
35  test_nightly::test_a_champion_that_is_seventeen_times_slower_than_stored_is_told
36  test_lookup::test_other_silicon_is_another_device
37  test_opencl::test_device_name
37  test_search::test_new_software_starts_from_what_won_before
39  test_lookup::test_other_silicon_is_another_device
40  test_opencl::test_names_are_never_cut
40  test_field_cases::test_a_name_with_colons_and_signs_is_found_again
41  test_lookup::test_each_size_gets_its_own
42  test_lookup::test_the_nearest_is_rendered_for_what_was_asked_and_claims_nothing
43  test_field_cases::test_sizes_that_no_tile_divides
45  test_nightly::test_the_cost_of_the_defaults_is_in_the_summary
46  test_lookup::test_a_near_one_that_breaks_a_rule_is_passed_over_and_said
47  test_lookup::test_an_empty_store_answers_the_default
47  test_nightly::test_what_was_asked_for_in_vain_is_tuned_too
47  test_misses::test_what_is_asked_for_in_vain_is_counted
48  test_lookup::test_another_devices_data_changes_no_answer
49  test_lookup::test_another_driver_is_told_and_not_certified
49  test_service::test_a_champion_of_another_driver_is_shown_and_not_served
49  gemm/cases::test_what_was_found_wrong_is_not_tried_again_by_the_next_process
49  test_nightly::test_a_changed_driver_proves_the_old_champions_first
50  test_store::test_a_damaged_trial_is_left_out_and_named
50  test_interchange::test_a_malformed_file_is_refused_with_its_line_and_nothing_is_imported
50  test_lookup::test_a_truncated_snapshot_serves_the_rest
50  test_snapshot::test_damage_that_keeps_the_length_is_found_when_the_row_is_read
51  gemm/cases::test_a_champion_of_another_driver_is_proven_here_first
51  test_nightly::test_a_changed_driver_proves_the_old_champions_first
53  faults/test_night_kill::test_kill_9_at_some_moments_of_a_night
53  faults/test_store_kill::test_whatever_was_acknowledged_is_there
53  faults/test_tuner_kill::test_kill_9_of_the_tuner_measures_nothing_twice
54  test_interchange::test_a_new_field_is_kept
54  test_interchange::test_a_new_kind_of_line_is_left_out_and_said
55  test_store_stress::test_writers_and_readers_are_never_locked_out
55  test_store_stress::test_eight_readers_keep_no_writer_waiting_for_ever
55  test_store::test_readers_and_writers_are_never_locked_out
55  test_store::test_a_network_file_system_is_told_and_gets_a_rollback_journal
56  test_search::test_when_all_fail_nothing_is_published_and_the_run_goes_to_its_end
58  test_lookup::test_an_exact_answer_is_the_stored_source_though_the_template_changed
58  gemm/cases::test_a_certified_champion_is_run_from_its_stored_source_at_once
59  test_field_cases::test_reports_in_a_loop_lose_no_trial
59  test_field_cases::test_a_check_while_a_champion_is_being_published_finds_nothing_wrong
60  test_store::test_six_processes_make_the_same_store_at_once
60  test_store_postgresql::test_six_processes_make_the_same_store_at_once
61  test_nightly::test_what_is_exhausted_costs_nothing_until_the_family_changes
61  test_search::test_two_hundred_asks_in_a_small_space_end_early
63  faults/test_night_kill::test_kill_9_at_some_moments_of_a_night
63  test_search::test_a_candidate_of_a_killed_tuner_is_measured_once_more_and_last
63  test_field_cases::test_nothing_stays_in_flight_when_an_axis_was_added_since
64  test_nightly::test_what_is_exhausted_costs_nothing_until_the_family_changes
64  test_search::test_added_choices_keep_old_trials
65  test_store::test_twenty_thousand_trials_come_back
65  test_field_cases::test_twenty_thousand_stored_trials_are_searched_on
66  test_nightly::test_a_champion_that_turns_wrong_is_withdrawn_and_comes_first
66  test_field_cases::test_what_a_certificate_refused_is_never_the_best
68  test_bench::test_a_driver_that_refuses_its_own_binary_gets_the_source
69  test_field_cases::test_no_kernel_object_is_made_after_loading
69  gemm/cases::test_a_warm_call_makes_no_kernel_and_asks_nobody
70  test_cli::test_what_a_device_lacks_is_unsupported_and_no_failure
70  test_field_cases::test_half_needs_no_extension
72  test_bench::test_an_endless_compiler_meets_its_deadline
74  gemm/cases::test_what_is_pinned_is_what_is_run_whatever_is_promoted_after
74  test_nightly::test_a_pinned_champion_survives_the_night
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fakes import DEVICE, PROBLEM, SILICON, SOFTWARE, FakeBench, small_family, tuned, valley
from tuner.cli.app import run
from tuner.family import Family, load_families, load_family
from tuner.lookup import Snapshot, lookup
from tuner.model import (
    CompilerInfo,
    Config,
    Device,
    Facts,
    Measurement,
    Problem,
    Record,
    Silicon,
    Verdict,
)
from tuner.search import certificate_cases
from tuner.store import Process, Store, open_store, publish

ROOT = Path(__file__).parents[1]
KEY = (SILICON, SOFTWARE, PROBLEM)
WHEN = "2026-11-29T22:00:00.000000+00:00"


@pytest.fixture
def families(tmp_path: Path) -> dict[str, Family]:
    return {"grid": small_family(tmp_path)}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "tuner.db"), upgrade=True) as opened:
        yield opened


def test_every_test_named_above_exists() -> None:
    named = re.findall(r"^ *(\d+)  ([\w/]+)::(\w+)$", __doc__ or "", re.MULTILINE)
    assert len(named) > 60
    for number, module, name in named:
        tree = ast.parse((ROOT / "tests" / f"{module}.py").read_text())
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert name in functions, f"case {number}: {module} has no {name}"


# Wrong results that look fast


def test_a_certificate_has_the_odd_the_doubled_and_the_short_shape(store: Store, families: dict[str, Family]) -> None:
    bench = FakeBench()
    tuned(bench, store, families, evaluations=5)
    shapes = {(case.problem.m, case.problem.n, case.problem.k) for case in bench.checked}
    assert shapes >= {(64, 64, 64), (65, 67, 69), (128, 128, 128), (64, 64, 3), (64, 64, 1), (1, 1, 1)}


@pytest.mark.parametrize("problem", [PROBLEM, Problem.packed(33, 2000, 7, dtype="float64", trans_a=True, batch=3)])
def test_a_certificate_has_every_kind_of_alpha_and_beta(families: dict[str, Family], problem: Problem) -> None:
    family = families["grid"]
    config = Config.of("grid", x=1, y=1)
    found = certificate_cases(config, family, problem, DEVICE, family.render(config, problem, DEVICE))
    [own] = [case for case in found if case.problem == problem]
    assert own.fresh and own.repeats > 1
    assert {"plain", "alpha", "add", "beta", "alpha_beta", "beta_zero_nan_c", "alpha_zero", "both_zero"} <= set(
        own.kinds
    )
    assert all(max(case.problem.m, case.problem.n, case.problem.k) <= 2048 for case in found if case is not own)
    kinds = {(case.problem.dtype, case.problem.trans_a, case.problem.trans_b) for case in found}
    assert kinds == {(problem.dtype, problem.trans_a, problem.trans_b)}


def test_what_a_certificate_refused_is_never_the_best(store: Store, families: dict[str, Family]) -> None:
    for evaluations in (64, 1):  # in the run that finds it out, and in the next
        bench = FakeBench(certifies=lambda config: config["x"] != 5)
        outcome = tuned(bench, store, families, evaluations=evaluations)
        assert outcome.best.config["x"] != 5


def test_when_nothing_can_be_certified_there_is_no_best(store: Store, families: dict[str, Family]) -> None:
    outcome = tuned(FakeBench(certifies=lambda _: False), store, families, evaluations=4)
    assert not outcome.promotion.promoted
    assert outcome.best is None
    assert outcome.verdicts == {Verdict.WRONG_RESULT: 4}


@pytest.mark.parametrize(
    "other",
    [
        replace(PROBLEM, dtype="float64"),
        replace(PROBLEM, trans_a=True),
        replace(PROBLEM, trans_b=True),
        replace(PROBLEM, align=4),
        replace(PROBLEM, batch=2),
        replace(PROBLEM, k=65),
    ],
    ids=str,
)
def test_whatever_changes_the_product_changes_the_key(
    store: Store, families: dict[str, Family], other: Problem
) -> None:
    tuned(FakeBench(), store, families, evaluations=5)
    assert store.history(SILICON, SOFTWARE, other) == [] and store.champion(SILICON, SOFTWARE, other) is None
    assert lookup(Snapshot(store.snapshot), DEVICE, other, families).origin.is_miss
    bench = FakeBench()
    tuned(bench, store, families, evaluations=64, problem=other)
    assert len(bench.measured) == 64


def test_a_compilers_warning_is_stored_with_the_trial(store: Store) -> None:
    run_number = store.start_run(*KEY, {})
    log = "7:3: warning: variable 'i' is uninitialized when used here"
    found = Measurement(Verdict.CORRECT, (1.0,), compiler=CompilerInfo(log=log))
    store.add(Record(*KEY, Config.of("grid", x=1, y=1), found, "h", run_number, WHEN))
    assert store.history(*KEY)[0].measurement.compiler.log == log


# Crash, hang, reset


@pytest.mark.parametrize("name", sorted(load_families()))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_too_much_local_memory_is_illegal_for_every_family(name: str, dtype: str) -> None:
    """Whatever is legal on a device with little local memory needs no more than that."""
    family = load_families()[name]
    facts = Facts(local_mem_bytes=4096, fp64=True, max_group_size=1024, max_item_sizes=(1024, 1024, 64))
    little = replace(DEVICE, facts=facts)
    problem = replace(PROBLEM, dtype=dtype)
    for config in family.space(problem, little).sample(np.random.default_rng(1), 50):
        derived = family.derive(config, problem, little)
        assert int(derived.get("local_bytes", 0)) <= 4096, f"{config}"


# Timing noise


class LuckyBench(FakeBench):
    """Gives one configuration a hundredth of its time, once."""

    LUCKY = Config.of("grid", x=1, y=8)

    def __init__(self) -> None:
        super().__init__(self.time_of)
        self.lucky = True

    def time_of(self, config: Config) -> float:
        return valley(config) * (0.01 if config == self.LUCKY and self.lucky else 1.0)

    def measure(self, *args: Any, **more: Any) -> Measurement:
        found = super().measure(*args, **more)
        if self.measured and self.measured[-1] == self.LUCKY:
            self.lucky = False
        return found


def test_a_lucky_first_measurement_does_not_make_a_champion(store: Store, families: dict[str, Family]) -> None:
    outcome = tuned(LuckyBench(), store, families, evaluations=64)
    champion = store.champion(*KEY)
    assert champion is not None and outcome.promotion.promoted
    assert champion.config == Config.of("grid", x=5, y=3)
    assert champion.time_ms == 1.0


def test_a_time_far_below_all_others_is_confirmed_before_it_is_the_best(
    store: Store, families: dict[str, Family]
) -> None:
    outcome = tuned(LuckyBench(), store, families, evaluations=64)
    assert outcome.best.config == Config.of("grid", x=5, y=3)
    assert outcome.best.measurement.time_ms == 1.0


def test_the_budget_of_seconds_is_kept_with_slow_kernels(store: Store, families: dict[str, Family]) -> None:
    bench = FakeBench(on_measure=lambda _: time.sleep(0.3))
    outcome = tuned(bench, store, families, seconds=1.0)
    assert outcome.stopped_by == "seconds"
    assert 1 <= outcome.evaluated <= 3  # a fifth is kept for race and certificate, and the last may run over


def test_the_default_wins_if_it_is_the_fastest(store: Store, families: dict[str, Family]) -> None:
    def time_of(config: Config) -> float:
        return valley(config) * (0.1 if config == Config.of("grid", x=1, y=1) else 1.0)

    outcome = tuned(FakeBench(time_of, noise=0.02), store, families, evaluations=20)
    assert outcome.promotion.config == Config.of("grid", x=1, y=1)


# Keys, look-up, shapes


@pytest.mark.parametrize("name", ["gfx906:sramecc+:xnack-", "Intel(R) UHD Graphics 770 [0x4680] – 50 %", "x" * 300])
def test_a_name_with_colons_and_signs_is_found_again(store: Store, families: dict[str, Family], name: str) -> None:
    device = replace(DEVICE, silicon=Silicon("AMD", name, "gpu", 60, 16))
    tuned(FakeBench(device=device), store, families, evaluations=5)
    found = lookup(Snapshot(store.snapshot), device, PROBLEM, families)
    assert (found.origin.value, found.certified) == ("exact", True)
    near = replace(device, silicon=replace(device.silicon, name=name[:-1] + "?"))
    assert lookup(Snapshot(store.snapshot), near, PROBLEM, families).origin.value == "similar_device"


@pytest.mark.parametrize("size", ["500 500 500", "1 1 1", "127 129 131"])
def test_sizes_that_no_tile_divides(size: str, any_device: Device, tmp_path: Path) -> None:
    where = ["--device", any_device.address, "--db", str(tmp_path / "tuner.db"), "--json"]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        status = run(["tune", *size.split(), "--evals", "4", *where])
    found = json.loads(out.getvalue())
    assert (status, found["promoted"]) == (0, True)
    assert found["verdicts"] == {"correct": 4}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_needs_no_extension(dtype: str, device: Device, tmp_path: Path) -> None:
    assert replace(device, facts=replace(device.facts, extensions=())).has(dtype)
    where = ["--device", device.address, "--db", str(tmp_path / "tuner.db"), "--json"]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        status = run(["tune", "24", "40", "33", "--dtype", dtype, "--evals", "2", *where])
    found = json.loads(out.getvalue())
    assert (status, found["promoted"], found["verdicts"]) == (0, True, {"correct": 2})


# Persistence and the search


READER = """
import contextlib, io, sys, time
from pathlib import Path
from tuner.cli.app import run

database, stop = sys.argv[1:]
count = 0
while not Path(stop).exists():
    for command in (["history", "64", "64", "64", "--json"], ["champions"], ["db", "stats"]):
        with contextlib.redirect_stdout(io.StringIO()):
            status = run([*command, "--db", database])
        if status:
            sys.exit(f"{command}: {status}")
    count += 1
    print(count, flush=True)
"""


def test_reports_in_a_loop_lose_no_trial(tmp_path: Path, store: Store, families: dict[str, Family]) -> None:
    stop = tmp_path / "stop"
    script = tmp_path / "reader.py"
    script.write_text(READER)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, str(script), str(tmp_path / "tuner.db"), str(stop)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    readers = [subprocess.Popen(command, env=environment, text=True, **pipes) for _ in range(2)]  # type: ignore[call-overload]
    for reader in readers:
        assert reader.stdout.readline() == "1\n"  # it has come round once
    outcome = tuned(FakeBench(on_measure=lambda _: time.sleep(0.02)), store, families, evaluations=64)
    stop.touch()
    for reader in readers:
        printed, said = reader.communicate(timeout=60)
        assert reader.returncode == 0, said
        assert "Traceback" not in said and len(printed.splitlines()) >= 1
    assert outcome.evaluated == 64
    assert len({record.config for record in store.history(*KEY)}) == 64
    assert store.check() == []


def test_a_check_while_a_champion_is_being_published_finds_nothing_wrong(
    store: Store, families: dict[str, Family], monkeypatch: pytest.MonkeyPatch
) -> None:
    committed = threading.Event()
    publish_now = publish.publish

    def publish_late(*place: Any) -> Path:
        committed.set()
        time.sleep(0.5)
        return publish_now(*place)

    monkeypatch.setattr(publish, "publish", publish_late)
    config = Config.of("grid", x=1, y=1)
    rendered = families["grid"].render(config, PROBLEM, DEVICE)
    tuner = threading.Thread(target=lambda: store.pin(*KEY, config, rendered, reason="ours"))
    tuner.start()
    assert committed.wait(10)
    found = store.check()
    tuner.join()
    assert found == [] == store.check()


def test_nothing_stays_in_flight_when_an_axis_was_added_since(tmp_path: Path) -> None:
    place = str(tmp_path / "tuner.db")
    family = small_family(tmp_path, x=3, y=3)
    old = Config.of("grid", x=2, y=2)
    with open_store(place, upgrade=True, process=Process("here", "boot", 4_000_000, "1")) as killed:
        source_hash = family.render(old, PROBLEM, DEVICE).source_hash
        killed.begin(killed.start_run(*KEY, {}), *KEY, old, source_hash, "launch")
    small_family(tmp_path, x=3, y=3, z=[1, 2])
    text = family.path.read_text().replace(
        "[1, 2], meaning = 'a number' }", "[1, 2], meaning = 'a number', before = 1 }"
    )
    family.path.write_text(text)
    family.path.with_name("grid.cl.j2").write_text(
        "kernel grid x={{ x }} y={{ y }}{% if z != 1 %} z={{ z }}{% endif %}\n"
    )
    grown = {"grid": load_family(family.path)}
    me = Process.current()
    bench = FakeBench()
    with open_store(place, upgrade=True, process=Process("here", "boot", me.pid, me.started)) as resumed:
        outcome = tuned(bench, resumed, grown, evaluations=100)
        assert (outcome.evaluated, outcome.stopped_by) == (18, "exhausted")
        assert len(bench.measured) == len(set(bench.measured)) == 18
        assert resumed.stats()["tables"]["in_flight"] == 0


def test_twenty_thousand_stored_trials_are_searched_on(tmp_path: Path, store: Store) -> None:
    family = small_family(tmp_path, name="wide", x=200, y=200)
    tuned(FakeBench(), store, {"wide": family}, evaluations=1)
    with closing(sqlite3.connect(tmp_path / "tuner.db")) as connection, connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(trial)")]
        values = {
            "id": "i + 10",
            "config": "'{\"x\":' || (i % 200 + 1) || ',\"y\":' || (i / 200 + 2) || '}'",
            "source_hash": "'h' || i",
        }
        picked = ", ".join(values.get(name, f'trial."{name}"') for name in columns)
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 19999) "
            f"INSERT INTO trial SELECT {picked} FROM trial, n WHERE trial.id = 1"
        )
    stored = {record.config for record in store.history(*KEY)}
    assert len(stored) == 20_001
    bench = FakeBench()
    outcome = tuned(bench, store, {"wide": family}, evaluations=5)
    assert outcome.evaluated == 5
    assert not stored & set(bench.measured)


KERNEL_COUNT = """
import sys
import tempfile
from pathlib import Path
from tests.bench_kernels import naive
from tuner.bench import choose, list_devices
from tuner.model import Problem
from tuner.opencl import drivers

if __name__ == "__main__":
    device = choose(list_devices(), sys.argv[1])
    with tempfile.TemporaryDirectory() as vendors:
        drivers.write_icd_files(Path(vendors, "icd"))
        drivers.install(Path(vendors, "icd"))
        import pyopencl as cl
        from tuner.bench.operands import Bound, OperandStore
        from tuner.opencl.run import Machine

        made = []
        real = cl.Kernel
        cl.Kernel = lambda program, name: made.append(name) or real(program, name)
        machine = Machine(device)
        problem = Problem.packed(16, 16, 16)
        rendered = naive(problem)
        built = machine.build(rendered)
        bound = Bound(machine, machine.load(rendered, built.binary))
        assert made
        made.clear()
        operands = OperandStore(machine)
        bound.point_at(operands.get(problem, 0, "integers", "plain", False))
        for _ in range(50):
            machine.launch(bound.program)
        machine.finish()
        print(len(made))
"""


def test_no_kernel_object_is_made_after_loading(any_device: Device, tmp_path: Path) -> None:
    script = tmp_path / "count.py"
    script.write_text(KERNEL_COUNT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, str(script), any_device.address]
    found = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert found.stdout == "0\n", found.stderr
