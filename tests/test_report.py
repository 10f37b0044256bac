"""Reports of synthetic records, as text: structure, identifiers, links."""

import dataclasses
import re

import pytest
from charting import BAD, CPU, H200, draw, make_gpp, make_transpose, with_peers
from matplotlib import pyplot as plt
from pages import Balanced

from adokernels.charts.files import save
from adokernels.records.sweep import Sweep
from adokernels.report.page import write_report

#: The number of the sweep, the row, and a running number.
POINT = re.compile(r"(chart-\d+)-point-(\d+)-(\d+)-\d+")


def page_of(folder, *sweeps, **options):
    path = write_report(folder / "report.html", title="t", sweeps=sweeps, **options)
    return path.read_text(encoding="utf-8")


def sections(page):
    """The text of each section by its identifier."""
    return dict(re.findall(r'<section id="([^"]+)">(.*?)</section>', page, re.DOTALL))


def rows(html, style):
    """The rows of the first table in a box of that class, as lists of cells."""
    table = re.search(rf'class="{style}".*?<tbody>(.*?)</tbody>', html, re.DOTALL).group(1)
    found = re.findall(r"<tr[^>]*>(.*?)</tr>", table, re.DOTALL)
    return [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in found]


def whole_page(folder):
    """A page with every part: two sweeps of one routine, peers, counters, pictures."""
    picture = folder / "p.png"
    save(draw(H200).figure, picture)
    return page_of(
        folder,
        with_peers(make_transpose()),
        make_gpp(counters=True),
        make_transpose(CPU, scale=100),
        pictures=[(f"from a file {BAD}", picture), ("from bytes", picture.read_bytes())],
        context={"cpu": f"EPYC {BAD}"},
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return whole_page(tmp_path_factory.mktemp("report"))


def test_a_report_is_one_self_contained_file(whole):
    assert BAD not in whole
    parser = Balanced.parse(whole)
    sources = [value for name, value in parser.attributes if name == "src"]
    assert len(sources) == parser.seen.count("img") == len(["file", "bytes"])
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    charts = ["transpose", "gpp", "speed of light", "warp states", "transpose on the CPU"]
    assert parser.seen.count("svg") == len(charts)
    assert "http" not in whole
    assert "@import" not in whole
    assert parser.seen.count("script") == parser.seen.count("style") == 1
    for expected in ("skipped clusters", "NVIDIA H200", "naive is &lt;b&gt;", "<details>"):
        assert expected in whole
    assert "prefers-color-scheme: dark" in whole


def test_identifiers_are_unique_and_references_have_a_target(whole):
    parser = Balanced.parse(whole)
    ids = [value for name, value in parser.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    links = [value for name, value in parser.attributes if name == "href"]
    links += [f"#{name}" for name in re.findall(r"url\(#([^)]*)\)", whole)]
    assert len(links) > 100
    assert {link.removeprefix("#") for link in links} <= set(ids)
    assert whole.count("url(") == whole.count("url(#")


def test_the_first_table_names_the_fastest_variant_and_links_to_the_section(whole):
    sweeps = make_transpose(), make_gpp(counters=True), make_transpose(CPU, scale=100)
    found = rows(whole, "adokernels scroll")
    assert whole.index("<h1>") < whole.index("adokernels scroll") < whole.index("<h2>")
    parts = sections(whole)
    for place, (sweep, cells) in enumerate(zip(sweeps, found, strict=True), start=1):
        anchor, routine = re.fullmatch(r'<a href="#([^"]+)">(\w+)</a>', cells[0]).groups()
        assert anchor == f"sweep-{place}"
        assert f"<h2>{routine}</h2>" in parts[anchor]
        lead = f" ({sweep.lead})" if sweep.lead else ""
        assert cells[1] == sweep.fastest.variant + lead
        assert sweep.machine.title in cells


def test_each_mark_of_a_chart_has_a_row_with_its_numbers(whole):
    counted = 0
    for sweep, part in zip(
        (with_peers(make_transpose()), make_gpp(counters=True)),
        sections(whole).values(),
        strict=False,
    ):
        names = [m.variant for m in (*sweep, *sweep.peers)]
        steps, details = rows(part, "scroll variants"), rows(part, "scroll variants details")
        for table in (steps, details):
            assert [cells[0].partition(" (")[0] for cells in table] == names
        marks = {int(row) for _, _, row in POINT.findall(part)}
        assert marks == set(range(len(names)))
        counted += len(marks)
    assert counted > 10


def test_an_interrupted_sweep_is_marked(tmp_path):
    one = make_gpp().measurements[:1]
    page = page_of(tmp_path, dataclasses.replace(make_gpp(), measurements=one, interrupted=True))
    assert ">gpp (interrupted)</a>" in page
    assert "<dt>driver</dt><dd>570</dd>" in page


def test_equal_data_gives_equal_bytes(whole, tmp_path):
    before = plt.get_fignums()
    assert whole_page(tmp_path) == whole
    assert plt.get_fignums() == before


def test_a_report_on_nothing_measured(tmp_path):
    empty = Sweep(routine="gpp", measurements=(), skipped={"naive": "declined"})
    page = page_of(tmp_path, empty)
    assert "skipped naive: declined" in page
    assert "no variant measured" in page
    Balanced.parse(page_of(tmp_path))
