"""Comparing two sweeps, and the command ``adokernels compare``."""

import dataclasses

import numpy as np
import pytest
from charting import SIZES, clashes, make_gpp, make_transpose, new_figure, with_peers

import adokernels as ado
from adokernels.cli.program import main


def run_again(sweep, machine="NVIDIA H200", **factors):
    """The sweep of another run, with the times of the named variants multiplied."""

    def repeated(m):
        context = {**m.context, "device_name": machine}
        samples = m.samples * factors.get(m.variant, 1.0)
        return dataclasses.replace(m, samples=samples, session="another run", context=context)

    again = {name: tuple(map(repeated, getattr(sweep, name))) for name in ("measurements", "peers")}
    return dataclasses.replace(sweep, **again)


@pytest.fixture
def pair():
    before = run_again(with_peers(make_transpose()))
    return before, run_again(before, tiled=1.5, padded=0.5)


def test_variants_are_paired_by_name(pair):
    before, after = pair
    changes = ado.compare(before, after)
    assert [c.variant for c in changes] == [m.variant for m in (*before, *before.peers)]
    assert changes["tiled"].comparison.verdict == "slower"
    assert changes["tiled"].comparison.ratio == pytest.approx(1 / 1.5, rel=0.02)
    assert changes["padded"].comparison.verdict == "faster"
    assert changes["naive"].comparison.verdict in ("same", "unclear")
    assert changes["padded"].before is before["padded"]
    with pytest.raises(KeyError, match="padded"):
        changes["nothing"]


def test_arguments_that_stored_sweeps_lack(pair):
    words = r"compare has no option 'across_machine' .* did you mean 'across_machines'"
    with pytest.raises(TypeError, match=words):
        ado.compare(*pair, across_machine=True)
    before = pair[0]
    with pytest.raises(ValueError, match=r"and tiled: after.compare\(before\) compares"):
        ado.compare(before["naive"], before["tiled"])


def test_a_change_of_the_machine_during_the_run_widens_the_interval():
    """Between two samples of one round, the machine becomes slower, which changes one median."""
    first = make_transpose()["naive"]
    rounds = np.arange(len(first.samples))
    noise = 1e-3 * np.linspace(1, 1.01, len(rounds))
    half = len(rounds) // 2
    before = dataclasses.replace(first, samples=noise * np.where(rounds < half, 1, 2))
    after = dataclasses.replace(first, samples=0.9 * noise * np.where(rounds <= half, 1, 2))
    change = ado.records.ComparedVariant(before=before, after=after)
    found = ado.records.SweepComparison(changes=(change,), title="t", labels=("a", "b"))
    ratio = before.seconds / after.seconds
    assert ratio > 1.5
    low, high = change.comparison.interval
    assert (low, high) == (pytest.approx(1.11, abs=0.01), ratio)
    assert f"\N{MULTIPLICATION SIGN}{ratio:.2f} | {low:.3g} to {high:.3g}" in found.to_markdown()


def test_variants_of_one_sweep_only_are_listed(pair):
    before, after = pair
    shorter = dataclasses.replace(after, measurements=after.measurements[:-1])
    changes = ado.compare(before, shorter)
    last = before.measurements[-1].variant
    assert changes.only_before == (last,)
    assert changes.only_after == ()
    assert f"only before: {last}" in repr(changes)
    with pytest.raises(ValueError, match="in common"):
        ado.compare(before["tiled"], before["padded"])


def test_only_variants_slower_by_more_than_the_limit_count(pair):
    changes = ado.compare(*pair)
    assert [c.variant for c in changes.slower()] == ["tiled"]
    assert [c.variant for c in changes.slower(0.4)] == ["tiled"]
    assert changes.slower(0.6) == ()


def test_different_machines_are_compared_only_on_request(pair):
    before, _ = pair
    other = run_again(before, machine="NVIDIA A100")
    with pytest.raises(ValueError, match=r"NVIDIA A100 and NVIDIA H200: pass across_machines=True"):
        ado.compare(before, other)
    with pytest.raises(ValueError, match="different machines"):
        other["naive"].compare(before["naive"])
    changes = ado.compare(before, other, across_machines=True)
    assert changes.labels == ("NVIDIA H200", "NVIDIA A100")
    sentence = repr(other["naive"].compare(before["naive"], across_machines=True))
    assert "on NVIDIA A100" in sentence
    assert "on NVIDIA H200" in sentence


def test_caches_made_cold_in_different_ways_are_different_quantities(pair):
    before, after = (
        dataclasses.replace(pair[1]["naive"], flush=flush) for flush in ("read", "overwritten")
    )
    with pytest.raises(ValueError, match="were read with ones whose caches were overwritten"):
        before.compare(after)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("make", [make_transpose, make_gpp])
def test_no_words_overlap_in_the_slope_chart(make, size):
    before = run_again(with_peers(make()))
    names = [m.variant for m in before]
    after = run_again(before, **{name: 0.9**i for i, name in enumerate(names)})
    ax = new_figure(size, layout="constrained").add_subplot()
    assert ado.compare(before, after).plot(ax) is ax
    ax.figure.draw_without_rendering()
    assert not clashes(ax)


def test_the_slope_chart_states_no_mean_gain_if_a_verdict_is_unclear(pair):
    before, after = pair
    changes = ado.compare(before, after)
    assert "mean speed-up" in changes.plot().get_title(loc="left")
    few = tuple(dataclasses.replace(m, samples=m.samples[:2]) for m in after.measurements)
    unclear = ado.compare(before, dataclasses.replace(after, measurements=few))
    title = unclear.plot().get_title(loc="left")
    assert "unclear" in title
    assert "mean" not in title


def test_the_title_of_the_slope_chart_does_not_count_ceilings():
    before = make_transpose()
    after = run_again(before, **{m.variant: 0.5 for m in before.variants})
    assert before.measurements[0].ceiling
    ax = ado.compare(before, after).plot()
    rows = [label.get_text() for label in ax.get_yticklabels()]
    assert rows[0] == "copy (ceiling)"
    title = ax.get_title(loc="left").replace("\n", " ")
    assert title.endswith(f": {len(rows) - 1} faster; mean speed-up \N{MULTIPLICATION SIGN}2.00")


class TestCommand:
    @pytest.fixture
    def files(self, pair, tmp_path):
        paths = [tmp_path / "before.json", tmp_path / "after.json"]
        for sweep, path in zip(pair, paths, strict=True):
            sweep.save(path)
        return [str(path) for path in paths]

    def test_it_prints_the_table_and_draws_the_chart(self, files, tmp_path, capsys):
        chart = tmp_path / "slopes.png"
        assert main(["compare", *files, "--plot", str(chart)]) == 0
        assert "padded" in capsys.readouterr().out
        assert chart.stat().st_size > 0

    @pytest.mark.parametrize(("limit", "code"), [("5%", 1), ("40 %", 1), ("60%", 0)])
    def test_a_slower_variant_fails(self, files, limit, code, capsys):
        assert main(["compare", *files, "--fail-if-slower", limit]) == code
        assert ("tiled takes 50 % longer" in capsys.readouterr().err) is bool(code)

    @pytest.mark.parametrize("limit", ["-5%", "much", "nan%", "5", "0.05"])
    def test_a_limit_must_be_a_percentage(self, files, limit, capsys):
        with pytest.raises(SystemExit):
            main(["compare", *files, f"--fail-if-slower={limit}"])
        assert "percentage" in capsys.readouterr().err

    def test_a_gate_does_not_pass_without_verdicts(self, pair, tmp_path, capsys):
        before, after = pair
        busy = tuple(
            dataclasses.replace(m, samples=m.samples + 3e-3, waits=np.full(len(m.samples), 3e-3))
            for m in before.measurements
        )
        few = tuple(dataclasses.replace(m, samples=m.samples[:5]) for m in before.measurements)
        path = tmp_path / "before.json"
        before.save(path)
        for measurements, why in [(busy, "other work disturbed"), (few, "it requires 11 samples")]:
            other = tmp_path / "other.json"
            dataclasses.replace(before, measurements=measurements).save(other)
            assert main(["compare", str(path), str(other)]) == 0
            assert main(["compare", str(path), str(other), "--fail-if-slower", "5%"]) == 4
            error = capsys.readouterr().err
            assert f"inconclusive: {measurements[0].variant}: {why}" in error
        after.save(other)  # one variant is slower, whatever the others are
        assert main(["compare", str(path), str(other), "--fail-if-slower", "5%"]) == 1

    @pytest.mark.parametrize(("limit", "status"), [("0.1%", 4), ("2%", 0)])
    def test_equal_times_are_inconclusive_if_their_interval_exceeds_the_limit(
        self, limit, status, tmp_path, capsys
    ):
        noise = np.random.default_rng(1).normal(1, 2e-3, (2, 40))
        m = make_transpose()["tiled"]
        files = [str(tmp_path / f"{name}.json") for name in "ab"]
        for path, times in zip(files, noise, strict=True):
            dataclasses.replace(m, samples=1e-3 * times).save(path)
        assert main(["compare", *files, "--fail-if-slower", limit]) == status
        text = "inconclusive: tiled: the time may have increased by up to 0."
        assert (text in capsys.readouterr().err) == (status == 4)

    @pytest.mark.parametrize(("limit", "status"), [("5%", 4), ("30%", 0)])
    def test_an_unclear_difference_is_inconclusive_if_it_may_exceed_the_limit(
        self, limit, status, tmp_path
    ):
        noise = np.random.default_rng(1).normal(1, 0.2, (2, 40))
        m = make_transpose()["tiled"]
        files = [str(tmp_path / f"{name}.json") for name in "ab"]
        for path, times in zip(files, noise, strict=True):
            dataclasses.replace(m, samples=1e-3 * times).save(path)
        assert main(["compare", *files, "--fail-if-slower", limit]) == status
