// Plan: the settings of a release, with the promise, price and expected error that follow from them.

import { get, post } from "../api.js";
import { go } from "../app.js";
import { LINE_COLOURS, chart, layout } from "../charts.js";
import { budgetBar, button, choices, el, field, input, number, percent, say, select, slider, table, text, verdict, whole } from "../dom.js";

const EPSILONS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10];
const DELTAS = [0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4];
const SLOTS = [15, 30, 60, 120, 180, 360, 720, 1440];
const CELLS_M = [100, 200, 300, 420, 500, 750, 1000, 1500, 2000, 3000, 5000];
const SIDES = [16, 32, 64, 128, 256, 512];
const minutes = (value) => (value < 60 ? `${value} min` : value % 60 ? `${value} min` : `${value / 60} h`);

export async function open(root, { state, what }) {
  if (!state.sources.length) {
    root.replaceChildren(text("h1", "Plan"), el("div", { class: "panel soft" }, text("p", "There is no source yet. Simulate a city or register files first.", "empty"), el("p", { class: "empty" }, button("To the data view", () => go("data"), { class: "main" }))));
    return null;
  }
  const ledger = await get("/ledger"), releases = await get("/releases");
  const source = state.sources.find((each) => each.id === what) || state.sources.at(-1);
  const plan = defaults(source, source.kinds[0], ledger, releases, state);
  const view = { root, state, ledger, releases, plan, source, answer: el("div", { "aria-live": "polite" }), turn: 0, known: null };
  draw(view);
  return () => { view.turn = -1; };
}

// The initial form: defaults of the source, and an unused name.
function defaults(source, kind, ledger, releases, state) {
  const given = source.defaults[kind] || {}, about = state.settings[kind], isPrivate = state.kinds.find((each) => each.name === kind).is_private;
  const usual = (name) => about[name]?.default ?? null;
  const population = source.population || "";
  const base = `${(population || "city").replace(/[^A-Za-z0-9._-]/g, "-").replace(/^[^A-Za-z0-9]+/, "") || "city"}`.slice(0, 44) + `-${kind}`;
  let n = 1;
  while (releases.some((each) => each.name === `${base}-${n}`)) n += 1;
  return {
    kind, source: source.id, population, name: `${base}-${n}`,
    epsilon: given.epsilon || about.epsilon?.examples[0] || null,
    delta: !isPrivate ? null : kind === "histogram" ? 0 : given.delta ?? about.delta.examples[0],
    method: null, start: (source.window.start || "").replace("T00:00:00", "") || null, end: (source.window.end || "").replace("T00:00:00", "") || null, time_zone: source.window.time_zone || null,
    slot_minutes: usual("slot_minutes"),
    map: kind === "density" ? (source.space.zones ? "zones" : "squares") : null,
    cell_m: usual("cell_m"), h3: null,
    users: kind === "density" ? source.users : null,
    unit: ["histogram", "synthetic"].includes(kind) ? usual("unit") : null,
    k: usual("k"), tau_minutes: usual("tau_minutes"), epoch_minutes: null,
    cells: SIDES.find((each) => each === (given.space || {}).cells) ?? usual("cells"), trips: null, box: null,
  };
}

// A field of the form: label, help and bounds are those of the setting.
function set(view, name, control, note) {
  const about = view.state.settings[view.plan.kind][name];
  const node = field(about.unit && !about.title.includes(about.unit) && control.tagName === "INPUT" ? `${about.title}, ${about.unit}` : about.title, control, note ?? about.description.replace(/--([a-z])/g, "$1"));
  node.dataset.setting = name;
  return node;
}

// A slider over those of the values that the setting may have.
function slide(view, name, values, shown, note, changed) {
  const about = view.state.settings[view.plan.kind][name];
  const may = (value) => (!about.enum || about.enum.includes(value)) && value >= (about.minimum ?? -Infinity) && value <= (about.maximum ?? Infinity) && value > (about.exclusiveMinimum ?? -Infinity) && value < (about.exclusiveMaximum ?? Infinity);
  const change = changed || ((value) => { view.plan[name] = value; ask(view); });
  return set(view, name, slider(values.filter(may), view.plan[name] ?? 0, shown, change, about.title), note);
}

// What was typed: a number where it is one, else the text, for the server to say what is wrong with it.
function typed(text) {
  const plain = text.trim().replace(/ /g, "");
  return plain === "" ? null : /^[-+]?\d+(\.\d+)?(e[-+]?\d+)?$/i.test(plain) ? Number(plain) : text.trim();
}

function number_input(view, name, options = {}) {
  return input(view.plan[name], { inputmode: "decimal", ...options, onchange: (event) => { view.plan[name] = typed(event.target.value); ask(view); } });
}

function draw(view) {
  const { root, plan, source, state } = view;
  const redraw = () => draw(view);
  const form = el("section", { class: "panel" },
    field("Source", pickSource(view)),
    el("div", { class: "field" }, el("label", { class: "field" }, "Kind of release"), choices(state.kinds.filter((each) => source.kinds.includes(each.name)).map((each) => [each.name, each.title]), plan.kind, (kind) => { view.plan = defaults(source, kind, view.ledger, view.releases, state); draw(view); }, "Kind of release")),
    text("p", kindOf(view).releases, "note"),
    field("Population", pickPopulation(view), "Population whose budget pays for the release. All releases about the same people share one budget."),
    !kindOf(view).is_private ? null : slide(view, "epsilon", EPSILONS, String),
    !kindOf(view).is_private ? null : slide(view, "delta", DELTAS, (value) => (value ? value.toExponential(0) : "none (pure)"), undefined, (value) => { plan.delta = value; if (plan.kind === "density") plan.method = value ? null : "efpa"; ask(view); }),
    ...ofKind(view, redraw),
    el("div", { class: "two" }, set(view, "start", dated(plan, "start", view)), set(view, "end", dated(plan, "end", view))),
    set(view, "time_zone", dated(plan, "time_zone", view)),
    field("Name of the release", dated(plan, "name", view), "A folder of this name appears under releases/."),
    details(view));
  root.replaceChildren(text("h1", "Plan"), text("p", "Planning does not read the data and spends nothing. Everything shown here follows from public numbers alone.", "lead"), el("div", { class: "side" }, form, view.answer));
  ask(view);
}

const kindOf = (view) => view.state.kinds.find((each) => each.name === view.plan.kind);

function dated(plan, name, view) {
  return input(plan[name], { placeholder: view.source.window[name] || "", onchange: (event) => { plan[name] = event.target.value.trim() || null; ask(view); } });
}

function pickSource(view) {
  return select(view.state.sources.map((each) => [each.id, each.name]), view.source.id, { onchange: (event) => go("plan", event.target.value) });
}

function pickPopulation(view) {
  const simulated = new Set(view.state.cities.map((each) => `simulated-${each.name}`));
  const names = view.ledger.populations.map((each) => each.name).filter((name) => view.source.simulated ? name === view.source.population : !simulated.has(name));
  if (view.plan.population && !names.includes(view.plan.population)) names.push(view.plan.population);
  if (!names.length) return el("span", {}, button("These people have no budget yet: create a population", () => go("ledger"), { class: "text" }));
  return select([...(view.plan.population ? [] : [["", "choose a population"]]), ...names.map((name) => [name, name])], view.plan.population, { onchange: (event) => { view.plan.population = event.target.value; ask(view); } });
}

// Controls of one kind only.
function ofKind(view, redraw) {
  const { plan, source } = view;
  if (plan.kind === "density") {
    const ways = [...(source.space.zones ? [["zones", "The source's zones"]] : []), ["squares", "Squares"], ["h3", "Hexagons (H3)"]];
    return [
      el("div", {}, el("label", { class: "field" }, "Zones"), choices(ways, plan.map, (value) => { plan.map = value; plan.cell_m = value === "squares" ? 1000 : null; plan.h3 = value === "h3" ? 8 : null; redraw(); }, "Zones")),
      plan.map === "squares" ? slide(view, "cell_m", CELLS_M.slice(1), (value) => `${whole(value)} m`) : null,
      plan.map === "h3" ? slide(view, "h3", [5, 6, 7, 8, 9], (value) => `${value} (${["8.5", "3.2", "1.2", "0.46", "0.17"][value - 5]} km wide)`) : null,
      slide(view, "slot_minutes", SLOTS, minutes),
    ];
  }
  if (plan.kind === "trajectories") return [
    slide(view, "k", [2, 3, 4, 5, 8, 10], String),
    slide(view, "tau_minutes", [10, 20, 30, 60, 120, 240], minutes),
  ];
  const unit = el("div", {}, el("label", { class: "field" }, "What is protected"), choices([["user", "A user: all their trips"], ["trip", "One trip"]], plan.unit, (value) => { plan.unit = value; ask(view); }, "What is protected"));
  const trips = set(view, "trips", number_input(view, "trips", { placeholder: "measured with part of the budget" }));
  if (plan.kind === "histogram") return [unit, slide(view, "cells", SIDES, String), trips];
  return [unit, slide(view, "cell_m", CELLS_M, (value) => `${whole(value)} m`), trips];
}

function details(view) {
  const { plan, source, state } = view;
  const pure = !plan.delta;
  const methods = state.methods[plan.kind].filter((each) => (pure ? each.pure : each.with_delta) && (each.needs_sites === null || each.needs_sites === Boolean(source.space.sites)));
  const box = input(plan.box ? plan.box.join(", ") : "", { placeholder: "around the zones or sites", onchange: (event) => {
    plan.box = event.target.value.trim() ? event.target.value.split(",").map(typed) : null;
    ask(view);
  } });
  return el("details", {}, el("summary", {}, "More settings"),
    methods.length ? set(view, "method", select([["", "the default"], ...methods.map((each) => [each.name, `${each.name}: ${each.words}`])], plan.method || "", { onchange: (event) => { plan.method = event.target.value || null; ask(view); } })) : null,
    ...(plan.kind === "density" ? ["users", "visits_per_user"].map((name) => set(view, name, number_input(view, name))) : []),
    ["histogram", "synthetic"].includes(plan.kind) ? set(view, "gap_minutes", number_input(view, "gap_minutes"), "Needed only where the source does not name its trips.") : null,
    plan.kind === "trajectories" ? null : set(view, "box", box),
    set(view, "licence", dated(plan, "licence", view)),
    set(view, "run_id", dated(plan, "run_id", view)));
}

// Requests the dry run. Answers to earlier requests are ignored, and a moving slider sends one request per pause.
function ask(view) {
  const mine = ++view.turn;
  clearTimeout(view.timer);
  view.timer = setTimeout(async () => {
    let summary = null, problem = null;
    if (!view.plan.population) { view.answer.replaceChildren(el("section", { class: "panel" }, el("div", { class: "notice" }, "Choose the population first. Its budget pays for the release."))); return; }
    try { summary = await post("/plan", clean(view.plan)); } catch (error) { problem = error; }
    if (mine !== view.turn) return;
    mark(view, problem ? problem.faults : []);
    if (problem) view.answer.replaceChildren(el("section", { class: "panel" }, text("h2", "This plan cannot be made"), el("div", { class: "notice bad", role: "alert" }, el("strong", {}, problem.message), ` ${problem.remedy || ""}`)));
    else answer(view, summary);
  }, 120);
}

// Shows each fault at its field.
function mark(view, faults) {
  for (const node of view.root.querySelectorAll(".fault")) node.remove();
  for (const node of view.root.querySelectorAll("[aria-invalid]")) node.removeAttribute("aria-invalid");
  for (const fault of faults || []) {
    const node = view.root.querySelector(`[data-setting="${CSS.escape(fault.field)}"]`);
    if (!node) continue;
    node.append(el("small", { class: "fault" }, `${fault.message} ${fault.remedy}`));
    node.querySelector("input, select")?.setAttribute("aria-invalid", "true");
  }
}

export const clean = (plan) => Object.fromEntries(Object.entries(plan).filter(([, value]) => value !== null && value !== undefined && value !== "" && !(typeof value === "number" && Number.isNaN(value))));

function answer(view, summary) {
  const { plan } = view;
  const publish = button("Publish", async () => {
    const share = summary.budget && summary.budget.cost_nano ? `Spend ${percent(summary.budget.cost_nano / summary.budget.limit_nano)} of the ${summary.budget.title} of ${plan.population}? This cannot be undone.` : `Publish records of ${plan.population}? No budget is spent. A publication cannot be withdrawn.`;
    if (!view.source.simulated && !window.confirm(share)) return;
    const run = await post("/runs", { plan: clean(plan) });
    say("The run has started. The budget is reserved before anything is counted.");
    go("run", run.id);
  }, { class: summary.verdict.grade === "mostly noise" ? "" : "main", disabled: summary.obstacles.length > 0 });
  const panel = el("section", { class: "panel" },
    el("div", { class: "row apart" }, text("h2", "What this release promises"), publish),
    el("p", { class: "sentence" }, `${summary.unit || ""} ${summary.promise}`),
    verdict(summary.verdict),
    summary.warnings.map((each) => el("div", { class: "notice bad" }, each)),
    summary.obstacles.map((each) => el("div", { class: "notice bad" }, `The run would stop: ${each}`)),
    (summary.to_compose || []).length ? button("Combine with the earlier releases. Then k is not promised; the result of linking is measured and published", () => { plan.compose_with = [...(plan.compose_with || []), ...summary.to_compose]; ask(view); }) : null,
    !summary.budget && summary.obstacles.length && summary.guarantee ? button("Create the population in the ledger view", () => go("ledger")) : null,
    text("h2", "Price"), price(summary), text("h2", "Expected error"), expected(view, summary),
    summary.notes.length ? el("div", {}, text("h2", "Notes"), el("ul", {}, summary.notes.map((each) => text("li", each)))) : null,
    el("details", {}, el("summary", {}, "Public parameters of the release"), table(["parameter", "value"], flat(summary.public || summary.lattice || {}))));
  view.answer.replaceChildren(panel);
  drawExpected(view, summary);
}

function price(summary) {
  if (!summary.guarantee) return el("div", {}, text("p", "It spends nothing. It is not differential privacy, so it has no epsilon and no budget; the ledger lists the release. There is no composition: a recipient of two releases may combine them."));
  const budget = summary.budget;
  if (!budget) return text("p", "The population is not in the ledger yet.", "note");
  if (budget.cost_nano === null) return text("p", "This population accepts pure releases only. Set delta to none.", "note");
  const after = budget.left_nano - budget.cost_nano;
  const amount = (epsilon, nano) => (epsilon === null ? `rho ${number(nano / 1e9, 4)}` : `epsilon ${number(epsilon, 4)}`);
  return el("div", {}, budgetBar(budget.limit_nano, budget.limit_nano - budget.left_nano, budget.cost_nano),
    el("p", {}, `This release costs ${amount(budget.epsilon, budget.cost_nano)} of the ${budget.title}, of which ${amount(budget.epsilon_spent, budget.limit_nano - budget.left_nano)} of ${amount(budget.epsilon_limit, budget.limit_nano)} is spent; ${after >= 0 ? `what remains is enough for ${Math.floor(after / budget.cost_nano)} more like it` : "it costs more than is left"}.`),
    el("details", {}, el("summary", {}, "Parts of the price"), table(["pays for", "rho", "epsilon, if pure"], summary.spends.map((each) => [each.pays_for || each.name, number(each.rho), number(each.epsilon)]), [1, 2])));
}

function expected(view, summary) {
  if (summary.expected_methods) {
    const chosen = summary.expected_methods.find((each) => each.method === summary.public.method);
    const error = chosen && chosen.error_share;
    const words = error === null || error === undefined
      ? "Declare the approximate number of people (more settings) to see the expected error here."
      : `The expected absolute error of a count is about ${number(chosen.error_people, 2)} people with the method ${chosen.method}. This is ${percent(error, 0)} of the mean count of ${number(chosen.error_people / error, 3)} people per zone and slot. The figure was fitted on simulated cities and lies within a factor of ${number(chosen.off_by, 2)} of the measured errors there.`;
    const rows = summary.expected_methods.map((each) => Object.assign([each.method, each.pure ? "pure" : "", number(each.error_people, 3), percent(each.error_share, 0), each.words], { chosen: each.method === summary.public.method }));
    return el("div", {}, error ? el("p", { class: "big" }, percent(error, 0)) : null, text("p", words), el("div", { class: "chart", id: "expected" }), el("details", {}, el("summary", {}, "All methods at this price"), table(["method", "", "error", "of mean", ""], rows, [2, 3])));
  }
  if (summary.expected_share) return el("div", {}, el("p", { class: "big" }, percent(summary.expected_share.share)), text("p", `${summary.expected_share.of}. The figure was measured on San Francisco cabs with the guarantee per trip; results on other data lay within a factor of ${summary.expected_share.off_by}.`));
  if (!summary.guarantee) return text("p", "Boxes grow with k and tau. The report of the run states their size and the share of samples suppressed.");
  return text("p", "With a trip as the unit and a declared number of trips, a measured figure is shown here. Per user, the error depends on how many trips people make, which is private. The noise named below depends on epsilon; the owner's report measures the remaining error.");
}

// The error as a function of epsilon, from dry runs that are requested once per plan.
async function drawExpected(view, summary) {
  const node = document.getElementById("expected");
  if (!node || !summary.expected_methods || !summary.expected_methods.some((each) => each.error_share !== null)) { if (node) node.remove(); return; }
  const mine = view.turn, { plan } = view;
  const key = JSON.stringify({ ...clean(plan), epsilon: 0, name: "" });
  if (!view.known || view.known.key !== key) {
    const some = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10];
    const answers = await Promise.all(some.map((epsilon) => post("/plan", { ...clean(plan), epsilon }).catch(() => null)));
    if (mine !== view.turn) return;
    view.known = { key, x: some, answers };
  }
  const methods = [...new Set(["best", "gaussian", summary.public.method])];
  const share = (answer, method) => ((answer && answer.expected_methods.find((each) => each.method === method)) || {}).error_share ?? null;
  const traces = methods.map((method, i) => ({ x: view.known.x, y: view.known.answers.map((each) => share(each, method)), mode: "lines+markers", name: method, line: { color: LINE_COLOURS[i], dash: ["solid", "dot", "dash"][i] } }));
  traces.push({ x: [plan.epsilon], y: [share(summary, summary.public.method)], mode: "markers", name: "now", marker: { size: 13, color: "#c04f00", symbol: "diamond" } });
  await chart(node, traces, layout("epsilon", "error as a share of the mean count", { showlegend: true, hovermode: "closest", xaxis: { type: "log", tickvals: view.known.x, ticktext: view.known.x.map(String) }, yaxis: { tickformat: ".0%" } }));
}

function flat(value, path = "") {
  if (value === null || typeof value !== "object") return [[path.replace(/_/g, " "), String(value ?? "–")]];
  if (Array.isArray(value)) return [[path.replace(/_/g, " "), value.slice(0, 8).join(", ") + (value.length > 8 ? ", …" : "")]];
  return Object.entries(value).flatMap(([name, inner]) => flat(inner, path ? `${path} · ${name}` : name));
}
