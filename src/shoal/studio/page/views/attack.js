// Attack: run an adversary on the raw data and on the release, and compare what it learns about each person.

import { get, openTicket, post } from "../api.js";
import { go } from "../app.js";
import { LINE_COLOURS, chart, layout, plotText } from "../charts.js";
import { button, el, field, input, ownerOnly, percent, select, table, text, when } from "../dom.js";
import { runInPlace } from "./run.js";

const PRIORS = [["freq_roi", "visit frequency of each person at each place"], ["roi_day", "place of each person at each time of day"], ["roi_day_week", "place of each person at each time of the week"], ["last_week", "place of each person one week earlier"]];

export async function open(root, { what }) {
  const [releases, adversaries] = await Promise.all([get("/releases"), get("/adversaries")]);
  const stop = new AbortController();
  root.replaceChildren(text("h1", "Attack"), el("p", { class: "lead" }, "Compare what an adversary learns from a release with what the same adversary learns from the raw data, before you publish the release. All figures are computed on raw data. ", ownerOnly()));
  if (!releases.length) {
    root.append(el("div", { class: "panel soft" }, text("p", "There is no release to attack yet.", "empty"), el("p", { class: "empty" }, button("To the plan view", () => go("plan"), { class: "main" }))));
    return null;
  }
  const chosen = releases.find((each) => each.id === what) || releases[0];
  const details = await get(`/releases/${chosen.id}`);
  const fitting = adversaries.filter((each) => each.kinds.includes(chosen.kind));
  const results = el("div"), progress = el("div");
  const pick = select(releases.map((each) => [each.id, `${each.name} (${each.kind}, ${when(each.at)})`]), chosen.id, { onchange: (event) => go("attack", event.target.value) });
  const panel = el("section", { class: "panel" }, field("Release", pick));
  root.append(el("div", { class: "side" }, panel, el("div", {}, progress, results)));
  for (const result of details.attacks) results.append(outcome(chosen, result));
  if (!details.attacks.length) results.append(el("div", { class: "panel soft" }, text("p", fitting.length ? "This release has not been attacked yet. Choose an adversary." : "No adversary is implemented for this kind of release. The audit checks its promise.", "empty")));
  if (fitting.length) panel.append(form(chosen, fitting, progress, stop, (details.attacks[0] || {}).adversary));
  drawAll(results, details.attacks);
  return () => stop.abort();
}

function form(chosen, fitting, progress, stop, last) {
  let adversary = (fitting.find((each) => each.name === last) || fitting[0]).name;
  const known = input("", { placeholder: "a week before the release" }), prior = select(PRIORS, "freq_roi");
  const more = el("div", {}, field("Prior knowledge of the adversary", prior), field("Observed since", known, "The data must cover this date."));
  const list = el("div", { role: "radiogroup", "aria-label": "Adversary" });
  for (const each of fitting) {
    const radio = el("input", { type: "radio", name: "adversary", value: each.name, checked: each.name === adversary, onchange: () => { adversary = each.name; more.hidden = adversary !== "inference"; } });
    list.append(el("label", { class: "field" }, el("span", {}, radio, " ", each.goal), text("small", `${each.name}: knows ${each.knows}${each.slow ? `; ${each.slow}` : ""}`)));
  }
  more.hidden = adversary !== "inference";
  const start = async () => {
    const run = await post("/attacks", { release: chosen.id, adversary, prior: prior.value, known_from: known.value.trim() || null });
    const ended = await runInPlace(progress, run, stop.signal);
    if (ended && ended.status === "done") window.dispatchEvent(new HashChangeEvent("hashchange"));
  };
  return el("div", {}, text("h2", "Adversary"), list, more, el("p"), button("Run the attack", start, { class: "main" }), text("p", "An attack costs no budget. The ledger records that raw data was used.", "note"));
}

function outcome(chosen, result) {
  return el("section", { class: "panel" },
    el("h2", {}, `${result.goal} `, ownerOnly()),
    text("p", result.sentence, "sentence"),
    el("p", { class: "note" }, `The adversary knows ${result.knows}.`),
    el("div", { class: "chart tall", "data-attack": result.adversary }),
    result.spread ? table(["", "mean", "first quartile", "median", "third quartile"], result.spread.series.map((each) => [each.name, short(each.mean), ...each.quartiles.map(short)]), [1, 2, 3, 4]) : null,
    result.summary.length ? el("details", {}, el("summary", {}, "Details"), el("ul", {}, result.summary.map((line) => text("li", line)))) : null,
    result.page ? button("Open the attack's own page", () => openTicket(`/releases/${chosen.id}/open`, { what: "attack", adversary: result.adversary })) : null);
}

const short = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));

function drawAll(results, attacks) {
  for (const result of attacks) {
    const node = results.querySelector(`[data-attack="${result.adversary}"]`);
    if (result.spread) drawSpread(node, result.spread);
    else if (result.curves) drawCurves(node, result.curves);
    else if (result.bars && result.bars.length) drawBars(node, result.bars, result.bars_of);
    else node.remove();
  }
}

// The distribution over people, one outline per data set.
function drawSpread(node, spread) {
  const middle = spread.edges.slice(1).map((edge, i) => (edge + spread.edges[i]) / 2);
  const traces = spread.series.map((each, i) => {
    const all = each.counts.reduce((sum, count) => sum + count, 0) || 1;
    return { x: middle, y: each.counts.map((count) => count / all), name: plotText(each.name), mode: "lines", line: { shape: "hvh", width: [2.5, 6, 2.5][i] || 2.5, color: ["#7a7a7a", "rgba(192,79,0,0.45)", "#0063a6"][i] || LINE_COLOURS[i], dash: ["dot", "solid", "solid"][i] }, hovertemplate: `${plotText(each.name)}: %{y:.1%} of people<extra></extra>` };
  });
  chart(node, traces, layout(spread.of, `share of ${spread.counted}`, { showlegend: true, xaxis: { range: [0, reach(spread)] }, yaxis: { tickformat: ".0%" } })).catch(() => {});
}

// The 99.9 % quantile, rounded up to a tenth: most errors lie close together.
function reach(spread) {
  const last = Math.max(...spread.series.map((each) => { const all = each.counts.reduce((sum, count) => sum + count, 0); let sum = 0; return each.counts.findIndex((count) => (sum += count) >= 0.999 * all); }));
  return Math.min(1, Math.ceil(10 * spread.edges[last + 1] + 1e-9) / 10);
}

function drawCurves(node, curves) {
  const traces = curves.map((each, i) => ({ x: each.x, y: each.y, name: plotText(each.name), mode: "lines", line: { width: 2.5, color: LINE_COLOURS[i % LINE_COLOURS.length], dash: each.name.startsWith("raw") ? "dash" : "solid" } }));
  traces.push({ x: [0, 1], y: [0, 1], name: "random guess", mode: "lines", line: { color: "#9aa4ae", dash: "dot" } });
  chart(node, traces, layout("false positive rate (share of non-members)", "true positive rate (share of members)", { showlegend: true, hovermode: "closest", xaxis: { tickformat: ".0%", range: [0, 1] }, yaxis: { tickformat: ".0%", range: [0, 1.02] } })).catch(() => {});
}

function drawBars(node, bars, of) {
  chart(node, [{ type: "bar", orientation: "v", x: bars.map((each) => plotText(each.name)), y: bars.map((each) => each.share), marker: { color: "#0063a6" }, text: bars.map((each) => percent(each.share, 0)), hoverinfo: "text" }], layout("", of, { yaxis: { tickformat: ".0%", range: [0, 1.05] }, xaxis: { type: "category" } })).catch(() => {});
}
