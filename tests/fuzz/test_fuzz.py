"""Every target under a few inputs in `make test`, and 2,000 in `make test-all`."""

import pytest
from tests.fuzz import run as harness
from tests.fuzz.mutate import no_internal_error
from tests.fuzz.run import TARGETS, fuzz, run
from tests.loops import for_each

from shoal.errors import SourceError

# Inputs of about one CPU second.
QUICK = {"csv": 75, "parquet": 50, "geopackage": 75}
READERS = ("csv", "parquet", "geojson", "shapefile", "geopackage", "geoparquet", "sites", "plan", "queries")
READERS += ("manifest", "published")


@for_each("target", READERS)
def test_no_input_is_an_internal_error(target):
    assert run(target, QUICK.get(target, 250), seed=7) == {}


@pytest.mark.parametrize("number", [1849, 7402])
def test_a_parquet_footer_with_odd_histograms_does_not_end_the_process(number):
    assert run("parquet", 1, seed=3, start=number) == {}


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", READERS)
def test_no_input_of_many_is_an_internal_error(target):
    assert run(target, 2000, seed=8) == {}


def test_an_internal_error_is_a_failure(monkeypatch):
    def sometimes(rng):
        def read():
            raise KeyError("x") if rng.random() < 0.5 else SourceError("code", "clear")

        no_internal_error(read)

    monkeypatch.setitem(TARGETS, "sometimes", sometimes)
    failed = run("sometimes", 100)
    assert 20 < len(failed) < 80
    assert run("sometimes", 100) == failed  # the same inputs
    assert run("sometimes", 1, start=min(failed)) == {min(failed): failed[min(failed)]}


def test_a_run_goes_on_where_it_stopped(monkeypatch, tmp_path):
    monkeypatch.setattr(harness, "OUT", tmp_path)
    monkeypatch.setenv("SHOAL_FUZZ_OUT", str(tmp_path))
    assert fuzz("queries", 5, seed=3)["done"] == 5
    before = (tmp_path / "queries-3.json").read_text()
    assert fuzz("queries", 5, seed=3)["done"] == 5
    assert (tmp_path / "queries-3.json").read_text() == before
