// Ledger: budgets and spends of all populations, the chain of hashes, and the evidence pack.

import { get, openTicket, post, save } from "../api.js";
import { go } from "../app.js";
import { LINE_COLOURS, chart, layout } from "../charts.js";
import { budgetBar, button, el, field, input, number, ownerOnly, say, select, table, text, when } from "../dom.js";
import { runInPlace } from "./run.js";

const NOTED = { raise: "limit changed", lower: "limit lowered", supersede: "release superseded", listing: "released, not differentially private", disclosure: "seen by the owner only", tuned: "chosen by looking at private data" };

export async function open(root, { what }) {
  const [ledger, releases] = await Promise.all([get("/ledger"), get("/releases")]);
  const stop = new AbortController();
  root.replaceChildren(text("h1", "Ledger"), text("p", "All releases about the same people share one lifetime budget. Reserved budget is spent for good and never returned.", "lead"),
    el("div", { class: "side" }, el("div", {}, chain(ledger), create(), evidence(releases, what, stop)), el("div", {}, ledger.populations.length ? ledger.populations.map((each) => population(each)) : el("div", { class: "panel soft" }, text("p", "There is no population yet. Simulating a city creates one; for your own data, create one here.", "empty")))));
  for (const each of ledger.populations) if (each.spends.length) drawHistory(each);
  return () => stop.abort();
}

function chain(ledger) {
  const head = input("", { placeholder: "a head that you noted before (optional)" }), verdict = el("div", { "aria-live": "polite" });
  const verify = async () => {
    const check = await post("/ledger/verify", { head: head.value.trim() || null });
    verdict.replaceChildren(el("div", { class: check.ok ? "notice good" : "notice bad" }, check.ok ? `The ledger has ${check.rows} rows; chain and totals hold.` : `The ledger does not verify: ${check.findings.map((each) => `row ${each.row}: ${each.message}`).join(" ")}`));
  };
  return el("section", { class: "panel" }, text("h2", "The chain"), el("p", { class: "note" }, "Head ", el("code", {}, ledger.head)), text("p", "Keep a copy of the head elsewhere; it proves later that no row was removed at the end.", "note"), el("p", { class: "note" }, "File ", el("code", {}, ledger.where)), head, el("p"), button("Verify the chain", verify), verdict);
}

function create() {
  const name = input("", { placeholder: "city-2026" }), epsilon = input("4", { inputmode: "decimal" }), delta = input("1e-6"), note = input("");
  const send = async () => {
    const named = name.value.trim();
    if (!named) throw Object.assign(new Error("A population needs a name."), { remedy: "Enter a name such as city-2026." });
    await post("/populations", { population: named, ...budget(epsilon, delta), note: note.value.trim() });
    say(`The population ${named} has a budget now.`);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  };
  return el("details", { class: "panel" }, el("summary", {}, "Create a population"), text("p", "A population is the people in the data. Its budget bounds the privacy loss of each of them over all releases.", "note"), field("Name", name), field("Lifetime epsilon", epsilon), field("Delta", delta, "Leave empty or 0 for pure releases only, counted in epsilon."), field("Note", note), el("p"), button("Create", send, { class: "main" }));
}

function budget(epsilon, delta) {
  const e = Number(epsilon.value), d = delta.value.trim() ? Number(delta.value) : null;
  if (!(e > 0) || Number.isNaN(d)) throw Object.assign(new Error("Epsilon must be a number above 0, delta a number or empty."), { remedy: "Enter for example 4 and 1e-6." });
  return { epsilon: e, delta: d };
}

function evidence(releases, what, stop) {
  if (!releases.length) return el("section", { class: "panel soft" }, text("h2", "Evidence pack"), text("p", "The evidence pack of a release contains manifest, plan, accounting and audit on one page. There is no release yet.", "note"));
  const pick = select(releases.map((each) => [each.id, each.name]), what || releases[0].id), progress = el("div");
  const pack = (annex) => openTicket("/evidence", { release: pick.value, annex });
  const audit = async () => {
    const ended = await runInPlace(progress, await post("/audits", { release: pick.value }), stop.signal);
    if (ended && ended.status === "done") say(ended.result.problems.length ? `The audit found: ${ended.result.problems.join("; ")}` : "The audit found nothing wrong; it is in the pack now.", ended.result.problems.length ? "bad" : "good");
  };
  return el("section", { class: "panel" }, text("h2", "Evidence pack"), text("p", "The evidence pack contains manifest, plan, accounting and audit of a release on one page, to sign off or to file. Print it for a PDF.", "note"), field("Release", pick), el("p"),
    el("div", { class: "row" }, button("Audit the mechanism first (about a minute)", audit), button("Open", () => pack(false), { class: "main" }), button("Save", () => save("/evidence", { release: pick.value, annex: false }, "save"))),
    el("p", {}, button("Open with the attack annex", () => pack(true)), " ", ownerOnly()), progress);
}

function population(each) {
  const lines = [
    ...each.spends.map((spend) => ({ at: spend.at, cells: [when(spend.at), look(spend.name ? `${spend.name}: ${spend.what}` : spend.what, spend.release), spend.cost, spend.status] })),
    ...each.notes.map((note) => ({ at: note.at, cells: [when(note.at), look(note.what, note.release), "", NOTED[note.kind] || note.kind] })),
  ].sort((one, other) => (one.at < other.at ? 1 : -1));
  return el("section", { class: "panel", "data-population": each.name },
    el("div", { class: "row apart" }, text("h2", each.name), text("span", each.note, "note")),
    each.pots.map((pot) => el("div", {}, budgetBar(pot.limit_nano, pot.spent_nano), text("p", `${pot.line}.`))),
    text("p", each.lifetime, "note"),
    each.mixture ? el("div", { class: "notice bad" }, each.mixture) : null,
    each.tuned ? el("div", { class: "notice bad" }, "A choice was made by looking at private data; every later manifest says so.") : null,
    each.spends.length ? el("div", { class: "chart", "data-history": each.name }) : null,
    lines.length ? table(["when", "what", "price", "status"], lines.map((line) => line.cells), [2]) : text("p", "Nothing was spent or noted yet.", "note"),
    raise(each));
}

const look = (words, release) => (release ? el("span", {}, words, " ", button("look", () => go("look", release), { class: "text" })) : words);

function raise(each) {
  const epsilon = input("", { placeholder: each.epsilon ? number(each.epsilon, 4) : "" }), delta = input(each.delta ? String(each.delta) : "", { disabled: each.delta !== null || each.pots.every((pot) => pot.currency === "epsilon") }), note = input("");
  const send = async () => {
    await post(`/populations/${encodeURIComponent(each.name)}/raise`, { ...budget(epsilon, delta), note: note.value.trim() });
    say("The new limit is in the ledger.");
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  };
  return el("details", {}, el("summary", {}, "Change the budget"), text("p", "A larger budget is a weaker promise to these people, and it holds only if the decision did not depend on released answers. The pure part stays as it is. Nothing is lowered below what is spent.", "note"), el("div", { class: "three" }, field("Lifetime epsilon", epsilon), field("Delta", delta), field("Why", note)), el("p"), button("Set the new limit", send, { class: "danger" }));
}

// Share of every part of the budget that is spent, over time.
function drawHistory(each) {
  const node = document.querySelector(`[data-history="${CSS.escape(each.name)}"]`);
  if (!node) return;
  const now = new Date().toISOString();
  const traces = each.pots.filter((pot) => pot.limit_nano).map((pot, i) => {
    let sum = 0;
    const at = [each.at], spent = [0];
    for (const spend of each.spends) if (spend.pot === pot.pot) { sum += spend.cost_nano / pot.limit_nano; at.push(spend.at); spent.push(100 * sum); }
    return { x: [...at, now], y: [...spent, 100 * sum], mode: "lines", line: { shape: "hv", color: LINE_COLOURS[i], width: 2.5 }, name: pot.title };
  });
  chart(node, [...traces, { x: [each.at, now], y: [100, 100], mode: "lines", line: { color: "#c04f00", dash: "dash" }, name: "limit" }], layout("", "% spent", { showlegend: true, xaxis: { type: "date" } })).catch(() => {});
}
