"""`--engine spark`: the release of a seed is the one DuckDB makes; what is missing is said in two lines."""

import json
import re
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.errors import EngineError
from shoal.privacy.ledger import open_ledger

SPARK = ("--engine", "spark", "--spark-conf", "spark.master=local[2]", "--partitions", "2")


@pytest.fixture
def town(tmp_path, monkeypatch, command):
    """A simulated town with trips, and a population to release."""
    monkeypatch.setenv("SHOAL_LEDGER", str(tmp_path / "ledger.sqlite"))
    monkeypatch.chdir(tmp_path)

    def make(*more):
        assert command("simulate", "town", "--users", "600", "--out", "town", *more)[0] == 0
        assert command("ledger", "create", "town", "--epsilon", "8", "--delta", "1e-6")[0] == 0
        return tmp_path / "town"

    return make


def spent():
    """What is spent of each part of the budget of the town, in 1e-9 of its currency."""
    return {name: pot.spent_nano for name, pot in open_ledger().state().population("town").pots.items()}


def runs(command, *arguments):
    """The same seeded run by both engines: their folders."""
    folders = []
    for name, engine in (("here", ()), ("there", SPARK)):
        code, _, err = command(*arguments, "--seed", "7", "--owner", name, *engine)
        assert code == 0, err
        assert "Warning" not in err
        folders.append(f"{name}/seeded-7")
    return folders


def same_files(folders, *names):
    assert names
    for name in names:
        one, other = (Path(folder) / name for folder in folders)
        if name.endswith(".parquet"):
            assert pq.read_table(one).equals(pq.read_table(other)), name
            assert pq.read_table(one).num_rows > 0
        else:
            assert one.read_bytes() == other.read_bytes(), name
    manifests = [json.loads((Path(folder) / "manifest.json").read_text()) for folder in folders]
    assert manifests[0]["public"] == manifests[1]["public"]


def files_of(folder):
    """What was published, but for words about it."""
    words = {"manifest.json", "README.md", "checksums.txt"}
    return sorted(path.name for path in Path(folder).iterdir() if path.name not in words)


def test_density(town, command, spark):
    folder = town()
    found = runs(command, "density", "run", "--plan", folder / "density.toml")
    same_files(found, *files_of(found[0]))


def test_histogram(town, command, spark):
    folder = town("--what", "trips")
    small = ("--cells", "32", "--given", "200")
    found = runs(command, "histogram", "run", "--plan", folder / "histogram.toml", *small)
    same_files(found, *files_of(found[0]))


def test_synthetic_trips(town, command, spark):
    folder = town("--what", "trips")
    found = runs(command, "synthesize", "run", "--plan", folder / "synthetic.toml", "--method", "markov")
    same_files(found, "trips.parquet")


def test_synthetic_site_events(town, command, spark):
    folder = town()
    arguments = [
        "synthesize",
        "run",
        folder / "events",
        "--method",
        "commute",
        "--sites",
        folder / "sites.csv",
    ]
    arguments += ["--start", "2026-03-02", "--end", "2026-03-09", "--time-zone", "Europe/Paris"]
    found = runs(command, *arguments, "--population", "town", "--epsilon", "2", "--delta", "1e-6")
    same_files(found, "events.parquet")


def test_a_published_release_is_not_paid_twice_by_the_other_engine(town, command, spark):
    folder = town()
    run = ("density", "run", "--plan", folder / "density.toml", "--method", "gaussian", "--epsilon", "1")
    assert command(*run, "--out", "one", *SPARK)[0] == 0
    paid = spent()
    assert paid["gaussian"] > 0
    code, out, _ = command(*run, "--out", "one")
    assert code == 0
    assert "stored" in out.lower() or "nothing" in out.lower()
    assert spent() == paid


def test_trajectories(tmp_path, monkeypatch, command, spark):
    monkeypatch.chdir(tmp_path)
    assert command("simulate", "abi", "--users", "400", "--weeks", "1", "--out", "abi")[0] == 0
    plan = ("--plan", "abi/trajectories.toml", "--end", "2026-03-03")
    shown = {}
    for name, engine in (
        ("here", ()),
        ("there", SPARK[:4]),
    ):  # a ledger each: windows that overlap are refused
        monkeypatch.setenv("SHOAL_LEDGER", str(tmp_path / f"{name}.sqlite"))
        assert command("ledger", "create", "abi", "--epsilon", "4", "--delta", "1e-6")[0] == 0
        code, out, err = command(
            "trajectories", "run", *plan, "--out", name, "--owner", f"{name}-owner", "--run-id", name,
            *engine, "--json",
        )  # fmt: skip
        assert code == 0, err
        shown[name] = json.loads(out)
    here, there = (pq.read_table(f"{name}/records.parquet").drop_columns("record") for name in shown)
    order = [(name, "ascending") for name in here.schema.names]
    assert here.sort_by(order).equals(there.sort_by(order))
    assert shown["there"]["verified"] == shown["here"]["verified"]
    assert shown["there"]["verified"]


def test_bad_rows_stop_it_before_anything_is_spent(town, command, spark):
    folder = town()
    path = sorted((folder / "events").iterdir())[0]
    table = pq.read_table(path)
    at = table.schema.get_field_index("site")
    nowhere = pa.array(["nowhere"] * table.num_rows).cast(table.schema.field("site").type)
    pq.write_table(table.set_column(at, "site", nowhere), path)
    code, _, err = command("density", "run", "--plan", folder / "density.toml", *SPARK)
    assert code == 3
    assert "unknown-site" in err
    assert f"in {path.name}" in err
    assert "Traceback" not in err
    assert set(spent().values()) == {0}


def test_a_master_that_is_not_there_is_said_at_once():
    from shoal.engine.spark.session import need_master

    with pytest.raises(EngineError, match="spark-master: nothing answers"):
        need_master("spark://127.0.0.1:1,127.0.0.1:2")
    need_master("local[2]")


def test_options_of_spark_are_for_spark(town, command):
    folder = town()
    run = ("density", "run", "--plan", folder / "density.toml")
    assert "spark-options" in command(*run, "--partitions", "3")[2]
    code, _, err = command(*run, "--engine", "spark", "--spark-conf", "master=local")
    assert (code, "spark-conf" in err) == (2, True)


def test_tables_in_a_plan_are_left_to_spark(town, command, spark):
    folder = town()
    spark.read.parquet(str(folder / "events")).createOrReplaceTempView("town_events")
    plan = folder / "density.toml"
    paths = re.search(r"paths = .*", plan.read_text())[0]
    plan.write_text(plan.read_text().replace(paths, 'paths = ["table:town_events"]'))
    run = ("density", "run", "--plan", plan, "--method", "gaussian", "--out", "release")
    code, _, err = command(*run)
    assert (code, "needs-spark" in err, "--engine spark" in err) == (3, True, True)
    code, _, err = command(*run, *SPARK)
    assert code == 0, err
    assert Path("release/manifest.json").exists()


def test_missing_pieces_are_said(town, command, monkeypatch):
    folder = town()
    run = ("density", "run", "--plan", folder / "density.toml", *SPARK)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    code, _, err = command(*run)
    assert (code, "missing-java" in err, "Install a Java runtime" in err) == (7, True, True)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    code, _, err = command(*run)
    assert (code, "JAVA_HOME" in err) == (7, True)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    code, _, err = command(*run)
    assert (code, "missing-spark" in err, "pip install 'shoal[spark]'" in err) == (7, True, True)
