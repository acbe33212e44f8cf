"""Bad input: one clear message with a code, the right exit code, no traceback, and nothing left behind."""

import os

import pyarrow as pa
import pytest


def no_column(town):
    town.events(user=[1], time=[town.start], antenna_x=["S0"])


def open_quote(town):
    town.csv('user,time,site\n1,"2026-03-02T10:00:00Z,S0\n2,2026-03-02T10:00:00Z,S1\n')


def far_away(town):
    (town.folder / "sites.csv").write_text(
        "site,lon,lat\nS0,20.0,10.0\nS1,20.1,10.0\nS2,20,10.1\nS3,20.1,10.1\n"
    )


def owner_inside(town):
    town.flags["--owner"] = town.flags["--out"] / "owner"


def truncated(town):
    town.source.write_bytes(town.source.read_bytes()[:-20])


def not_there(town):
    town.source = town.folder / "nowhere.parquet"


def day_first(town):
    town.csv("user,time,site\n1,02/03/2026 08:15:00,S0\n")


def renamed_site_columns(town):
    sites = town.folder / "sites.csv"
    sites.write_text(sites.read_text().replace("site,lon,lat", "mast,east,north"))


def renamed_site_ids(town):
    sites = town.folder / "sites.csv"
    sites.write_text(sites.read_text().replace("site,", "mast,"))


def naive_times(town):
    town.csv("user,time,site\n1,2026-03-02T10:00:00,S0\n")
    plan = town.folder / "plan.toml"
    plan.write_text('[window]\nstart = "2026-03-02"\nend = "2026-03-03"\ntime_zone = "Europe/Paris"\n')
    town.flags.update({"--plan": plan, "--time-zone": None, "--start": None, "--end": None})


def holes(town):
    town.zones(*((f"{i}{j}", town.square(i, j)) for i in range(3) for j in range(3) if (i, j) != (1, 1)))


def bow_tie(town):
    x, y = 2.3, 48.8
    town.zones(("A", [[[x, y], [x + 0.01, y + 0.01], [x + 0.01, y], [x, y + 0.01], [x, y]]]))


def file_in_the_way(town):
    (town.folder / "blocked").write_text("")
    town.flags["--out"] = town.folder / "blocked" / "release"


def owner_in_the_way(town):
    (town.folder / "owner").write_text("")


def damaged_ledger(town):
    (town.folder / "ledger.sqlite").write_bytes(b"not a ledger" * 100)


def set_flag(**flags):
    def change(town):
        town.flags.update({"--" + name.replace("_", "-"): value for name, value in flags.items()})

    change.__name__ = "_".join(f"{k}={v}" for k, v in flags.items())
    return change


def bad_plan(text):
    def change(town):
        (town.folder / "plan.toml").write_text(text)
        town.flags["--plan"] = town.folder / "plan.toml"

    change.__name__ = "plan:" + text.replace("\n", " ")
    return change


def long_name_of_a_source(town):
    town.source = town.folder / ("e" * 256 + ".parquet")


def users_that_are_not_utf_8(town):
    raw = pa.array([b"\xff\xfe"])
    names = pa.Array.from_buffers(pa.string(), 1, raw.buffers())
    town.events(user=names, time=[town.start], site=["S0"])


# what is done to the town, the code the message begins with, the exit code, a word of the remedy
CASES = [
    (no_column, "missing-column", 3, "--column"),
    (truncated, "corrupt-parquet", 3, ""),
    (open_quote, "bad-row", 3, "line 2"),
    (far_away, "sites-away", 3, ""),
    (owner_inside, "plan-folders", 2, "--owner"),
    (set_flag(unit="trip"), "plan-unit", 2, "--column user="),
    (set_flag(delta="1e-300"), "delta-range", 2, "--delta"),
    (not_there, "missing-file", 3, ""),
    (day_first, "bad-row", 3, "--time-format"),
    (day_first, "bad-row", 3, '"02/03/2026 08:15:00"'),
    (set_flag(time_format="%d/%m"), "bad-time-format", 2, "--time-format"),
    (set_flag(time_format="%d/%m/%Y"), "time-format-type", 2, "--time-format"),
    (renamed_site_columns, "missing-column", 3, "--site-lon"),
    (renamed_site_ids, "id-column-missing", 3, "--site-id"),
    (set_flag(zone_id="commune"), "missing-column", 3, "--zone-id"),
    (set_flag(zones_layer="other"), "layer-choice", 3, "--zones-layer"),
    (naive_times, "naive-time", 3, "--time-zone"),
    (holes, "zones-holes", 3, "--holes"),
    (bow_tie, "polygon-invalid", 3, "--repair-zones"),
    (set_flag(delta="1"), "delta-range", 2, "--delta"),
    (set_flag(delta="0"), "delta-range", 2, "--delta"),
    (set_flag(delta="nan"), "delta-range", 2, "--delta"),
    (set_flag(method="laplace", delta="1e-6"), "plan-delta", 2, "--delta"),
    (set_flag(method="magic"), "plan-method", 2, "gaussian"),
    (set_flag(ell="0"), "plan-range", 2, "--ell"),
    (set_flag(zones=None), "plan-zones", 2, "--zones"),
    (set_flag(zones=None, cell_m="500"), "plan-box", 2, "--box"),
    (set_flag(sites=None), "plan-sites", 2, "--sites"),
    (set_flag(end="2026-03-01"), "clock-window", 2, ""),
    (set_flag(time_zone="Mars/Olympus"), "time-zone", 2, ""),
    (set_flag(slot_minutes="7"), "slot-minutes", 2, ""),
    (file_in_the_way, "unwritable-folder", 5, ""),
    (owner_in_the_way, "unwritable-folder", 5, ""),
    (damaged_ledger, "ledger-damaged", 4, ""),
    (long_name_of_a_source, "plan-text", 2, "200 bytes"),
    (set_flag(out="o" * 256), "plan-text", 2, "200 bytes"),
    (set_flag(owner="o" * 256), "plan-text", 2, "200 bytes"),
    (set_flag(delimiter="ab"), "delimiter", 2, "--delimiter"),
    (set_flag(zones=None, cell_m="500", box="0,0,1," + "9" * 308), "box-range", 2, "four numbers"),
    (set_flag(zones_crs="IAU_2015:30100"), "crs-kind", 3, "not on the Earth"),
    (users_that_are_not_utf_8, "corrupt-parquet", 3, "UTF"),
    (bad_plan("epsilon = " + "9" * 4301), "plan-file", 2, "digits"),
    (bad_plan("cap = " + "9" * 4000), "plan-range", 2, "cap"),
    (bad_plan("[source]\npaths = 5"), "plan-type", 2, "source.paths"),
    (bad_plan("[source]\ncolumns = 5"), "plan-type", 2, "columns"),
    (bad_plan("epsilon = = 1"), "plan-file", 2, "TOML"),
    (bad_plan("epsilom = 1"), "plan-name", 2, "epsilon"),
    (bad_plan("window = 3"), "plan-type", 2, ""),
    (bad_plan("[space]\nzonez = 1"), "plan-name", 2, "space.zones"),
    (bad_plan("[source]\nshap = 1"), "plan-name", 2, "source.shape"),
    (bad_plan("ell = 'many'"), "plan-type", 2, "ell"),
    (bad_plan("unit = 3"), "plan-type", 2, ""),
    (set_flag(plan="nowhere.toml"), "plan-file", 2, "path"),
]


@pytest.mark.parametrize(
    ("change", "code", "exit_code", "word"), CASES, ids=[c[0].__name__[:60] for c in CASES]
)
def test_one_clear_error(town, change, code, exit_code, word, command):
    change(town)
    ledger = town.folder / "ledger.sqlite"
    before = ledger.read_bytes()
    existing = set(os.listdir(town.folder))
    found, out, err = command(*town.arguments())
    assert err.startswith(code + ": "), err
    assert found == exit_code
    assert word in err
    assert "Traceback" not in out + err
    assert out == ""
    assert len(err.strip().splitlines()) <= 4
    # Nothing half-written, nothing spent.
    assert set(os.listdir(town.folder)) - {"owner", "blocked"} <= existing
    assert not (town.folder / "release" / "manifest.json").exists()
    assert ledger.read_bytes() == before
