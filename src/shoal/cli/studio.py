"""`shoal studio`: the local page."""

from __future__ import annotations

from pathlib import Path

import click

EXAMPLE = """\b
Examples:
  shoal studio                          opens the page on this folder
  shoal studio --simulated              with a simulated town to try it on
  shoal studio --folder project         only files in project/ can be read
  shoal studio --port 0 --no-open       any free port; open the printed address yourself
"""


@click.command(epilog=EXAMPLE)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="The one folder that the page may read and write.  [default: this one]",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8765,
    show_default=True,
    help="Port on 127.0.0.1; 0 takes any that is free.",
)
@click.option("--simulated", is_flag=True, help="Make the simulated town first, and open the page on it.")
@click.option("--no-open", is_flag=True, help="Only print the address; do not open a browser.")
def studio(folder: Path, port: int, simulated: bool, no_open: bool) -> None:
    """Open the local page: publish, look, attack and account by clicks.

    It listens on this machine alone. The printed address holds a token; who has it may do on the page what
    you may do here, so keep it to yourself. Ctrl-C ends the page and what runs on it. The ledger is the
    command's: SHOAL_LEDGER, or ledger.sqlite in your data folder.
    """
    from shoal.studio.serve import serve_studio

    if simulated:
        _simulate(folder)

    def ready(address: str) -> None:
        click.echo(f"The page is open at\n\n  {address}\n")
        click.echo(f"folder  {folder.resolve()}\nCtrl-C ends it.")
        if not no_open:
            _open(address, folder)

    try:
        serve_studio(folder, port, ready)
    finally:
        click.echo("The page is closed.")
        _end_threads()


def _end_threads() -> None:
    """Leave at once where a request is still being answered: Python would wait for its thread."""
    import os
    import sys
    import threading

    from shoal.cli.printing import exit_code, interrupted
    from shoal.scratch import remove_all

    if all(each.daemon or each is threading.main_thread() for each in threading.enumerate()):
        return
    remove_all()
    sys.stdout.flush()
    os._exit(exit_code() if interrupted() else 1)


def _open(address: str, folder: Path) -> None:
    """The browser reads the address from a file of ours: its command line can be read by everybody here."""
    import threading
    import webbrowser

    from shoal.studio.workspace import Workspace

    page = Workspace(folder.resolve()).write_door(address)
    threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()


def _simulate(folder: Path) -> None:
    """The town of the page's first button, made or found."""
    from shoal.cli.printing import Bars
    from shoal.kinds.simulated import CITIES, make_simulated
    from shoal.privacy.ledger import open_ledger
    from shoal.studio.sources import SourceShelf
    from shoal.studio.workspace import Workspace

    work, city = Workspace.at(folder), CITIES["town"]
    click.echo(f"{city.users:,} simulated people go to {work.relative(work.city(city.name))}/")
    with Bars() as bars:
        settings = make_simulated(city, work.city(city.name), open_ledger(), bars)
    SourceShelf(work).keep_simulated(city, work.city(city.name), settings)
