"""The page in a real browser, as a person uses it; pictures of every view are kept in tests/out/studio/."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.browser import in_a_browser

from shoal.privacy.ledger import open_ledger

OUT = Path(__file__).parents[1] / "out" / "studio"
ROOMS = ("data", "plan", "run", "look", "attack", "ledger")
NASTY = "<img src=x onerror=\"document.title='broken'\">"

pytestmark = in_a_browser


class Seen:
    """What a tab asked for and complained about."""

    def __init__(self, page, port):
        self.asked, self.complaints, self.port = [], [], port
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("console", lambda message: message.type == "error" and self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def foreign(self):
        """Requests that left this machine's server."""
        here = f"127.0.0.1:{self.port}"
        web = [url for url in self.asked if urlsplit(url).scheme not in ("blob", "data", "about")]
        return [url for url in web if urlsplit(url).netloc != here]


@pytest.fixture
def context(browser):
    """A browser without memory of the tests before."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(60_000)
    context.on("page", lambda page: page.on("dialog", lambda dialog: dialog.accept()))
    yield context
    context.close()


def shot(page, name):
    OUT.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=OUT / f"{name}.png", full_page=True)


def view(page, name):
    page.click(f"nav a[data-view={name}]")
    page.wait_for_selector(f"nav a[data-view={name}][aria-current=page]")
    page.wait_for_selector("main h1")


def button(page, words, where="main"):
    page.click(f"{where} button:has-text('{words}')")


@pytest.mark.slow
def test_from_the_first_click_to_a_published_release_its_report_an_attack_and_the_ledger(
    live, tmp_path, context
):
    """The landing path: clicks only."""
    page = context.new_page()
    seen = Seen(page, live.port)
    page.goto(live.address)
    page.wait_for_selector("text=Try with a simulated city")
    assert "token" not in page.url
    shot(page, "1-landing")
    button(page, "Simulate a town")
    page.wait_for_selector("text=What this release promises")
    page.wait_for_selector("#expected svg")
    before = page.inner_text("p.big")
    page.locator("input[aria-label=Epsilon]").focus()
    for _ in range(6):
        page.keyboard.press("ArrowLeft")
    page.wait_for_function("before => document.querySelector('p.big')?.innerText !== before", arg=before)
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    page.wait_for_function("before => document.querySelector('p.big')?.innerText === before", arg=before)
    shot(page, "2-plan")
    button(page, "Publish")
    page.wait_for_selector("button:has-text('Cancel')")
    shot(page, "3-running")
    page.wait_for_selector("button:has-text('Look at it')")
    shot(page, "3-published")
    with context.expect_page() as opened:
        button(page, "Open the owner")
    report = opened.value
    report.wait_for_selector("text=Owner's eyes only")
    report.wait_for_selector("#series svg")
    assert (
        report.evaluate("(() => { try { return sessionStorage.length } catch { return 'none' } })()")
        == "none"
    )
    report.screenshot(path=OUT / "3-report.png")
    report.close()
    button(page, "Look at it")
    page.wait_for_selector("text=One zone over time")
    page.wait_for_selector(".chart svg")
    first = page.inner_text("output")
    button(page, "Play")
    page.wait_for_function("first => document.querySelector('.panel.soft output').value !== first", arg=first)
    button(page, "Pause")
    page.mouse.click(*middle(page, "canvas >> nth=0"))
    shot(page, "4-look")
    button(page, "Error by zone")
    shot(page, "4-look-errors")
    button(page, "Check as recipient")
    page.wait_for_selector("text=every hash and the guarantee hold")
    with page.expect_download() as saved:
        button(page, "Download")
    assert saved.value.suggested_filename.endswith(".zip")
    button(page, "Copy to public/")
    page.wait_for_selector("text=A checked copy lies in")
    button(page, "Attack it")
    page.wait_for_selector("button:has-text('Run the attack')")
    page.check("input[value=inference]")
    button(page, "Run the attack")
    page.wait_for_selector("[data-attack=inference] svg")
    assert "it falls to" in page.inner_text("main")
    shot(page, "5-attack")
    view(page, "ledger")
    page.wait_for_selector("[data-history] svg")
    button(page, "Verify the chain")
    page.wait_for_selector("text=chain and totals hold")
    assert "committed" in page.inner_text("[data-population=simulated-town]")
    shot(page, "6-ledger")
    with context.expect_page() as opened:
        button(page, "Open with the attack annex")
    opened.value.wait_for_selector("text=Annex for the owner alone")
    shot(opened.value, "6-evidence")
    assert seen.foreign() == []
    assert seen.complaints == []
    population = open_ledger().state().population("simulated-town")
    assert [each.status for each in population.spends] == ["committed"]
    assert (tmp_path / "work" / "public").is_dir()


def middle(page, selector):
    box = page.locator(selector).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_without_its_token_the_page_is_locked(live, context):
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{live.port}/")
    page.wait_for_selector("text=This page is locked")
    page.goto(f"http://127.0.0.1:{live.port}/#token=wrong")
    page.reload()
    page.wait_for_selector("text=This page is locked")


def test_empty_views_say_what_to_do_and_no_view_is_wider_than_the_screen(live, context):
    page = context.new_page()
    seen = Seen(page, live.port)
    page.goto(live.address)
    for name in ROOMS:
        view(page, name)
        page.wait_for_function("() => !document.querySelector('.loading')")
        assert len(page.inner_text("main")) > 60
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, name
    assert seen.complaints == []


def test_wrong_input_is_answered_in_words(town, context):
    """Every form, filled in wrongly: an error that says what to do, and the page goes on."""

    def said(page, words):
        page.wait_for_selector(f"[role=alert]:has-text('{words}')")

    page = context.new_page()
    page.goto(town.address)
    page.click("summary:has-text('Register your own files')")
    button(page, "Register", "details")
    said(page, "needs a name and files")
    page.fill("label:has-text('Name') input", "mine")
    page.fill("label:has-text('Records') input >> nth=0", "../../etc/passwd")
    button(page, "Register", "details")
    said(page, "leads out of it")
    page.fill("label:has-text('People, about') input", "many")
    button(page, "Register", "details")
    said(page, "whole number")
    view(page, "plan")
    page.wait_for_selector("text=What this release promises")
    page.fill("label:has-text('Window from') input", "2026-03-30")
    page.press("label:has-text('Window from') input", "Tab")
    said(page, "window")
    page.fill("label:has-text('Window from') input", "2026-03-09")
    page.press("label:has-text('Window from') input", "Tab")
    page.wait_for_selector("text=What this release promises")
    page.click("summary:has-text('More settings')")
    page.fill("[data-setting=users] input", "20,5 km")
    page.press("[data-setting=users] input", "Tab")
    page.wait_for_selector("[data-setting=users] .fault:has-text('a decimal comma and the unit km')")
    page.fill("[data-setting=users] input", "20000")
    page.press("[data-setting=users] input", "Tab")
    page.wait_for_selector("text=What this release promises")
    page.fill("label:has-text('Name of the release') input", "../x")
    page.press("label:has-text('Name of the release') input", "Tab")
    said(page, "name")
    view(page, "ledger")
    page.click("summary:has-text('Create a population')")
    button(page, "Create", "details")
    said(page, "needs a name")
    page.fill("label:has-text('Name') input", "p")
    page.fill("label:has-text('Lifetime epsilon') input >> nth=0", "lots")
    button(page, "Create", "details")
    said(page, "must be a number")
    page.click("summary:has-text('Change the budget')")
    page.fill("[data-population=town] label:has-text('Lifetime epsilon') input", "1e-7")
    button(page, "Set the new limit")
    page.wait_for_selector("[role=alert]")
    shot(page, "7-wrong-input")


def test_a_run_survives_reload_a_second_tab_and_the_page_being_closed(town, context):
    page = context.new_page()
    page.goto(town.address)
    view(page, "plan")
    page.wait_for_selector("text=What this release promises")
    button(page, "Publish")
    page.wait_for_selector("button:has-text('Cancel')")
    page.reload()
    page.wait_for_selector("main h1:has-text('Run')")
    second = context.new_page()
    second.goto(town.address)
    view(second, "run")
    second.wait_for_selector("text=density: town-density-1")
    page.close()
    second.close()
    run = town.ended(town.get("/runs").json()[0]["id"])
    assert run["status"] == "done"
    third = context.new_page()
    third.goto(town.address)
    view(third, "run")
    third.wait_for_selector("button:has-text('Look at it')")


def test_an_interrupted_run_is_said_after_a_restart(town, context):
    """As the page tells it; that it is true is tested with the ledger."""
    folder = town.folder / "studio" / "runs" / "abcdef0123456789"
    folder.mkdir()
    asked = '{"id": "abcdef0123456789", "title": "density: lost", "job": {"do": "release", "form": {}}, '
    (folder / "run.json").write_text(asked + '"asked_at": "2026-11-17T00:00:00.000000+00:00"}')
    page = context.new_page()
    page.goto(town.address)
    view(page, "run")
    page.wait_for_selector("text=The server was stopped while this ran")
    page.wait_for_selector("text=Nothing was reserved and nothing was spent.")
    shot(page, "8-interrupted")


def test_names_are_text_and_never_run(live, context):
    open_ledger().create(NASTY, currency="rho", limit_nano=10**9, delta=1e-6, note=NASTY)
    (live.folder / f"{NASTY.replace('/', '')}.csv").write_text("user,time\n")
    page = context.new_page()
    page.goto(live.address)
    page.click("summary:has-text('Register your own files')")
    page.wait_for_selector(".files li")
    view(page, "ledger")
    page.wait_for_selector("h2:has-text('onerror')")
    view(page, "plan")
    assert page.title() != "broken"
    assert page.locator("main img").count() == 0


@pytest.mark.exhaustive
def test_views_fit_the_screen_once_they_are_full(town, context):
    """A laptop and a projector: no view scrolls sideways, the slider is in sight below the maps."""
    told = town.post("/runs", {"plan": town_plan(town.source)})
    assert town.ended(told.json()["id"])["status"] == "done"
    page = context.new_page()
    page.goto(town.address)
    for width, height in ((1280, 800), (1920, 1080)):
        page.set_viewport_size({"width": width, "height": height})
        for name in ROOMS:
            view(page, name)
            page.wait_for_function("() => !document.querySelector('.loading')")
            page.wait_for_timeout(300)
            root = "document.documentElement"
            assert page.evaluate(f"{root}.scrollWidth - {root}.clientWidth") <= 0, name
            shot(page, f"9-{name}-{width}")
        view(page, "look")
        page.wait_for_selector("input[aria-label='Time slot']")
        box = page.locator("input[aria-label='Time slot']").bounding_box()
        assert box["y"] + box["height"] < height


def town_plan(source):
    return {
        "kind": "density",
        "source": source,
        "population": "town",
        "name": "week-1",
        "epsilon": 1.0,
        "delta": 1e-6,
    }
