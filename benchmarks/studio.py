"""The local page in a real browser: redraws per second, our own time per frame, answers to rectangles.

    make bench-studio            QUICK=1 for a small run
    python -m benchmarks.studio --docs    writes docs/results/studio.md

A server on a folder of its own; Chromium without a GPU (software rendering, 1280 x 800), so the rate of
redraws is that of the browser's own painting; our part is the milliseconds of our code. `paths` is the map
that fills every outline anew: the baseline for the same frames, in the same page.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import httpx

from benchmarks.table import machine_class, report
from shoal.events.simulate import preset_named
from shoal.events.simulate.city import simulate_city
from shoal.privacy.accounting import rho_for
from shoal.privacy.ledger import open_ledger

DOCS = Path(__file__).parents[1] / "docs" / "results" / "studio.md"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-sync",
    "--no-first-run",
]
FULL = {"users": 50_000, "zones": (120, 1000, 4000), "seconds": 10.0, "rectangles": 200}
QUICK = {"users": 5_000, "zones": (1000,), "seconds": 4.0, "rectangles": 40}

# Draws all slots by filling the outline of each zone anew, as fast as it goes: milliseconds of a frame.
PATHS = """async (id) => {
  const headers = { 'x-shoal-token': sessionStorage.getItem('shoal-token') };
  const look = await (await fetch(`/api/releases/${id}/density?raw=false`, { headers })).json();
  const { ZoneMap, PEOPLE, colourTable } = await import('/page/report/map.js');
  const { float32s } = await import('/page/report/format.js');
  const canvas = document.querySelector('canvas').cloneNode();
  canvas.style.cssText = 'position:fixed;left:0;top:60px;width:600px;height:360px;z-index:50';
  document.body.append(canvas);
  const values = float32s(look.released), table = colourTable(PEOPLE);
  const { context, outlines } = new ZoneMap(canvas, look.zones);
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.strokeStyle = 'rgba(255,255,255,0.55)';
  const began = performance.now();
  for (let slot = 0; slot < look.slots; slot++) {
    outlines.forEach((path, zone) => {
      const place = Math.sqrt(values[zone * look.slots + slot] / look.end);
      context.fillStyle = table[Math.min(255, Math.round(255 * place))];
      context.fill(path, 'evenodd');
      context.stroke(path);
    });
  }
  const took = (performance.now() - began) / look.slots;
  canvas.remove();
  return took;
}"""


def main(quick: bool, docs: bool) -> None:
    if CHROMIUM is None:
        sys.exit("bench-studio needs Chromium (Debian: apt install chromium).")
    size = QUICK if quick else FULL
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.environ["SHOAL_LEDGER"] = str(folder / "ledger.sqlite")
        for name in ("density", "trips"):
            open_ledger().create(name, currency="rho", limit_nano=rho_for(40.0, 1e-6), delta=1e-6)
        server = Server(folder / "work")
        try:
            rows = [row for zones in size["zones"] for row in look_rows(server, size, zones)]
            rows += query_rows(server, size)
        finally:
            server.process.terminate()
    report("studio", rows)
    if docs:
        write_docs(rows)


class Server:
    """`shoal studio` on a folder, and a client for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        began = time.monotonic()
        command = [sys.executable, "-m", "shoal.cli.main", "studio", "--port", "0", "--no-open", "--folder"]
        self.process = subprocess.Popen([*command, str(folder)], stdout=subprocess.PIPE, text=True)
        said = ""
        while (found := re.search(r"http://127\.0\.0\.1:(\d+)/#token=(\S+)", said)) is None:
            said += self.process.stdout.readline()  # pyright: ignore[reportOptionalMemberAccess]
        self.ready_s = time.monotonic() - began
        self.address = found.group(0)
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{found.group(1)}/api",
            headers={"x-shoal-token": found.group(2)},
            timeout=600,
        )

    def post(self, path: str, body: dict) -> dict:
        answer = self.client.post(path, json=body)
        answer.raise_for_status()
        return answer.json()

    def ended(self, run: str) -> dict:
        while (told := self.client.get(f"/runs/{run}").json())["status"] in ("running", "waiting"):
            time.sleep(0.2)
        if told["status"] != "done":
            raise RuntimeError(told["error"])
        return told["result"]


def release_of(server: Server, size: dict, kind: str, zones: int) -> str:
    """A release of a simulated city with so many zones; its id."""
    name = f"{kind}-{zones}"
    what = "events" if kind == "density" else "trips"
    preset = replace(
        preset_named("town"), users=size["users"], weeks=1, zones=zones, sites=zones + 50, what=(what,)
    )
    simulate_city(preset, server.folder / name, seed=1)
    source = {
        "name": name,
        "paths": [f"{name}/{what}/*.parquet"],
        "zones": f"{name}/zones.geojson",
        "time_zone": "Europe/Paris",
        "start": "2026-03-02",
        "end": "2026-03-09",
        "users": size["users"],
        **({"sites": f"{name}/sites.csv"} if kind == "density" else {}),
    }
    found = server.post("/sources", source)
    population = "density" if kind == "density" else "trips"
    plan = {"kind": kind, "source": found["id"], "population": population, "name": name, "epsilon": 1.0}
    return server.ended(server.post("/runs", {"plan": plan})["id"])["manifest_sha256"]


def look_rows(server: Server, size: dict, zones: int) -> list[dict]:
    """Two maps, released and raw, playing as fast as the browser goes."""
    release = release_of(server, size, "density", zones)
    with page_of(server) as page:
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        page.evaluate(f"location.hash = 'look/{release}'")
        page.wait_for_selector("text=One zone over time")
        page.wait_for_selector(".chart svg")
        page.wait_for_timeout(1500)
        page.select_option("select[aria-label=Speed]", "0")
        frames = "async () => ({ ...(await import('/page/report/map.js')).frames, now: performance.now() })"
        page.click("button:has-text('Play')")
        page.wait_for_timeout(500)
        before = page.evaluate(frames)
        page.wait_for_timeout(1000 * size["seconds"])
        after = page.evaluate(frames)
        page.click("button:has-text('Pause')")
        paths = page.evaluate(PATHS, release)
    drawn, seconds = after["drawn"] - before["drawn"], (after["now"] - before["now"]) / 1000
    own = (after["ownMs"] - before["ownMs"]) / drawn
    shape = {"zones": zones, "slots": 168, "maps": 2}
    return [
        {
            "what": "look",
            **shape,
            "by": "pixels",
            "redraws_per_s": round(drawn / 2 / seconds, 1),
            "own_ms_per_map": round(own, 2),
        },
        {
            "what": "look",
            **shape,
            "by": "paths",
            "redraws_per_s": None,
            "own_ms_per_map": round(paths, 2),
        },
        {"what": "first paint", **shape, "by": "browser", "ms_median": round(paint, 0)},
    ]


def query_rows(server: Server, size: dict) -> list[dict]:
    """Rectangles drawn with the mouse: from the release of the button to the answer in the page."""
    release = release_of(server, size, "histogram", 120)
    took = []
    with page_of(server) as page:
        page.evaluate(f"location.hash = 'look/{release}'")
        page.wait_for_selector("text=Trips in a rectangle")
        box = page.locator("canvas >> nth=0").bounding_box()
        for i in range(size["rectangles"]):
            x, y = (
                box["x"] + box["width"] * (0.3 + 0.003 * (i % 60)),
                box["y"] + box["height"] * (0.2 + 0.004 * (i % 50)),
            )
            page.evaluate("globalThis.shoalQueryMs = null")
            page.mouse.move(x, y)
            page.mouse.down()
            page.mouse.move(x + 40 + i % 90, y + 30 + i % 70, steps=2)
            page.mouse.up()
            page.wait_for_function("() => globalThis.shoalQueryMs !== null")
            took.append(page.evaluate("globalThis.shoalQueryMs"))
    shape = {"what": "rectangle", "zones": None, "slots": None, "by": "server and page"}
    return [{**shape, "ms_median": round(statistics.median(took), 1), "ms_most": round(max(took), 1)}]


class page_of:
    """A page on the server, open."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def __enter__(self):
        from playwright.sync_api import sync_playwright

        self.playwright = sync_playwright().start()
        self.browser = self.playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = self.browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
        page.set_default_timeout(120_000)
        page.goto(self.server.address)
        page.wait_for_selector("text=Try with a simulated city")
        return page

    def __exit__(self, *_: object) -> None:
        self.browser.close()
        self.playwright.stop()


def write_docs(rows: list[dict]) -> None:
    look = [row for row in rows if row["what"] == "look"]
    lines = [
        "| zones x slots | drawn by | redraws of both maps per second | our own ms per map |",
        "| --- | --- | ---: | ---: |",
        *(
            f"| {row['zones']:,} x {row['slots']} | {row['by']} | {row['redraws_per_s'] or ''} "
            f"| {row['own_ms_per_map']} |"
            for row in look
        ),
    ]
    paint = [row["ms_median"] for row in rows if row["what"] == "first paint"]
    query = next(row for row in rows if row["what"] == "rectangle")
    DOCS.write_text(
        f"""# The local page

{time.strftime("%Y-%m-%d")}, {machine_class()}. `make bench-studio`: Chromium without a GPU (software
rendering) at 1280 x 800, a release of a simulated city, released and raw maps side by side, playing at every
frame. `paths` is the map of the owner's report, which fills every outline anew, on the same values and a
canvas of about the same size. Our own time is until our calls returned; what the browser paints after them is
in the redraws alone.

{chr(10).join(lines)}

Wanted: 30 redraws per second at 1,000 zones x 168 slots.

First paint of the page on a running server: {max(paint):.0f} ms at most (wanted: below 1,000).
A rectangle drawn on a histogram of 128 x 128 cells: answered in {query["ms_median"]} ms (median),
{query["ms_most"]} ms at most (wanted: below 100).
""",
        "utf-8",
    )


if __name__ == "__main__":
    main("--quick" in sys.argv, "--docs" in sys.argv)
