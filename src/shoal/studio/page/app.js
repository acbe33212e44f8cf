// The page has six views and shows one at a time. Views show what the server sends; only drawings are computed here.

import { get, takeToken } from "./api.js";
import { complain, el, quiet, text } from "./dom.js";

const VIEWS = {
  data: "Data", plan: "Plan", run: "Run", look: "Look", attack: "Attack", ledger: "Ledger",
};

let leave = null;  // called when the open view is left
let turn = 0;

// Where we are: #view or #view/what, so that reload, back and a second tab keep their place.
const here = () => { const [view, what] = location.hash.slice(1).split("/"); return { view: view in VIEWS ? view : "data", what: what ? decodeURIComponent(what) : null }; };
export const go = (view, what = null) => { location.hash = what ? `${view}/${encodeURIComponent(what)}` : view; };

async function show() {
  const { view, what } = here();
  const mine = ++turn;
  if (leave) leave();
  leave = null;
  quiet();
  for (const link of document.querySelectorAll("#views a")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  document.title = `${VIEWS[view]} · Shoal Studio`;
  const main = document.getElementById("view");
  main.replaceChildren(text("p", "Opening …", "loading"));
  try {
    const { open } = await import(`./views/${view}.js`);
    const state = await get("/state");
    if (mine !== turn) return;
    document.getElementById("place").textContent = state.folder;
    document.getElementById("place").title = `Folder: ${state.folder}\nLedger: ${state.ledger}`;
    const root = el("div");
    main.replaceChildren(root);
    const stop = await open(root, { state, what });
    if (mine !== turn) { if (stop) stop(); return; }
    leave = stop || null;
  } catch (error) {
    if (mine !== turn) return;
    if (error.status === 401) return locked(main);
    main.replaceChildren(el("p", { class: "empty" }, "This view could not be opened."));
    complain(error);
  }
}

function locked(main) {
  main.replaceChildren(el("div", { class: "panel hero" }, el("div", {},
    text("h1", "This page is locked"),
    text("p", "Open the address that `shoal studio` printed in the terminal, with all that follows the #. It holds a token that lets only you in; each start of the server has a new one."))));
}

function start() {
  const nav = document.getElementById("views");
  for (const [view, words] of Object.entries(VIEWS)) nav.append(el("a", { href: `#${view}`, "data-view": view }, words));
  window.addEventListener("hashchange", () => { takeToken(); show(); });
  if (!takeToken()) return locked(document.getElementById("view"));
  if (!location.hash) history.replaceState(null, "", "/#data");
  show();
}

start();
