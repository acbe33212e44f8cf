// A density: released beside raw, hour by hour, and how far apart they are.

import { post } from "../api.js";
import { chart, layout, seriesTraces, slotAxis } from "../charts.js";
import { choices, el, ownerOnly, percent, select, text, number } from "../dom.js";
import { float32s, people, zoneLabel } from "../report/format.js";
import { WORSE, ZoneMap, drawLegend, peopleScale, scaleOf } from "../report/map.js";

const SPEEDS = [["6", "slow"], ["15", "normal"], ["30", "fast"], ["0", "every frame"]];

export async function draw(root, release) {
  const look = await post(`/releases/${release.id}/view`);
  for (const name of ["released", "low", "high"]) look[name] = float32s(look[name]);
  const raw = look.raw ? { ...look.raw, exact: float32s(look.raw.exact) } : null;
  const view = layOut(root, look, raw);
  return play(view, look, raw);
}

function layOut(root, look, raw) {
  const box = (label) => { const canvas = el("canvas", { "aria-label": label }), tip = el("div", { class: "tip", hidden: true }); return { canvas, tip, node: el("div", { class: "map-box" }, canvas, tip) }; };
  const view = {
    released: box("Map of zones, coloured by released people"), raw: raw ? box("Map of zones, coloured by raw people or by error") : null,
    legend: el("canvas", { class: "legend", "aria-hidden": "true" }), rawLegend: el("canvas", { class: "legend", "aria-hidden": "true" }),
    slot: el("input", { type: "range", min: "0", max: String(look.slots - 1), step: "1", "aria-label": "Time slot" }), label: el("output"),
    playing: el("button", { type: "button", "aria-pressed": "false" }, "Play"), speed: select(SPEEDS, "15", { "aria-label": "Speed" }),
    zone: select(look.zones.ids.map((_, i) => [i, zoneLabel(look.zones, i)]), 0, { "aria-label": "Zone" }),
    series: el("div", { class: "chart" }), facts: el("p", { class: "note" }), hours: el("div", { class: "chart" }), layer: "exact",
  };
  view.slot.value = String(Math.min(look.slots - 1, 12));
  const rawHead = el("div", { class: "row apart" }, el("h2", {}, "Raw ", ownerOnly()), choices([["exact", "People"], ["mre", "Error by zone"]], "exact", (value) => { view.layer = value; view.again(); }, "What the right map shows"));
  root.replaceChildren(
    el("div", { class: raw ? "two" : "" },
      el("section", { class: "panel" }, el("div", { class: "row apart" }, text("h2", "Released"), text("span", "people per zone", "note")), view.released.node, view.legend),
      raw ? el("section", { class: "panel" }, rawHead, view.raw.node, view.rawLegend) : null),
    el("div", { class: "row panel soft" }, view.playing, view.speed.parentNode || el("span", {}, view.speed), el("div", { class: "grow row" }, el("span", { class: "grow field-line" }, view.slot)), view.label),
    el("div", { class: "two" },
      el("section", { class: "panel" }, el("div", { class: "row apart" }, text("h2", "One zone over time"), view.zone), view.facts, view.series),
      raw ? el("section", { class: "panel" }, el("h2", {}, "Error by hour of the day ", ownerOnly()), text("p", `Off by ${number(raw.mae, 3)} people on average, ${percent(raw.share)} of the mean count: the figure that the plan page expects. Relative to each single count, small ones included, ${percent(raw.mre)}.`, "note"), view.hours) : el("section", { class: "panel soft" }, text("p", "Raw counts are not in the owner's folder of this release, so it is not shown against them.", "empty"))));
  return view;
}

function play(view, look, raw) {
  const scale = peopleScale(look.end, look.most), worse = raw ? scaleOf(WORSE, Math.max(0.05, ...quantiles(raw.mreByZone))) : null;
  const left = new ZoneMap(view.released.canvas, look.zones), right = raw ? new ZoneMap(view.raw.canvas, look.zones) : null;
  let slot = Number(view.slot.value), frame = 0, last = 0;
  left.colourOf = (zone) => scale.at(look.released[zone * look.slots + slot]);
  if (right) right.colourOf = (zone) => (view.layer === "mre" ? worse.at(raw.mreByZone[zone]) : scale.at(raw.exact[zone * look.slots + slot]));

  function paint() {
    left.draw();
    if (right) right.draw();
    view.label.value = look.slotLabels[slot];
    view.slot.setAttribute("aria-valuetext", look.slotLabels[slot]);
  }
  const tick = (now) => {
    frame = requestAnimationFrame(tick);
    const every = Number(view.speed.value);
    if (every && now - last < 1000 / every) return;
    last = now;
    slot = (slot + 1) % look.slots;
    view.slot.value = String(slot);
    paint();
  };
  const toggle = () => {
    if (frame) { cancelAnimationFrame(frame); frame = 0; } else frame = requestAnimationFrame(tick);
    view.playing.setAttribute("aria-pressed", String(Boolean(frame)));
    view.playing.textContent = frame ? "Pause" : "Play";
  };
  view.playing.addEventListener("click", toggle);
  let asked = 0;  // the slider may fire more often than the screen: one redraw per frame
  view.slot.addEventListener("input", () => { slot = Number(view.slot.value); asked ||= requestAnimationFrame(() => { asked = 0; paint(); }); });

  const choose = (zone) => { left.chosen = zone; if (right) right.chosen = zone; view.zone.value = String(zone); paint(); showZone(view, look, raw, zone); };
  view.zone.addEventListener("change", () => choose(Number(view.zone.value)));
  for (const [map, place] of right ? [[left, view.released], [right, view.raw]] : [[left, view.released]]) {
    place.canvas.addEventListener("click", (event) => { const zone = map.zoneAt(event.offsetX, event.offsetY); if (zone >= 0) choose(zone); });
    place.canvas.addEventListener("mousemove", (event) => tip(place.tip, look, raw, map.zoneAt(event.offsetX, event.offsetY), slot, event));
    place.canvas.addEventListener("mouseleave", () => { place.tip.hidden = true; });
  }
  view.again = () => { legends(); paint(); };
  const legends = () => { drawLegend(view.legend, scale); if (right) drawLegend(view.rawLegend, view.layer === "mre" ? { ...worse, words: (value) => percent(value, 0) } : scale); };
  const resize = () => { left.resize(); if (right) right.resize(); view.again(); };
  window.addEventListener("resize", resize);
  const busiest = busiestZone(look);
  legends();
  choose(busiest);
  if (raw) drawHours(view, raw);
  return () => { cancelAnimationFrame(frame); window.removeEventListener("resize", resize); };
}

// The end of the error scale: most zones below it, a few far above.
function quantiles(values) {
  const known = values.filter((value) => value !== null).sort((one, other) => one - other);
  return known.length ? [known[Math.floor(0.95 * (known.length - 1))]] : [0.1];
}

function busiestZone(look) {
  let best = 0, most = -1;
  for (let zone = 0; zone < look.zones.ids.length; zone++) {
    let sum = 0;
    for (let at = zone * look.slots; at < (zone + 1) * look.slots; at++) sum += look.released[at];
    if (sum > most) { most = sum; best = zone; }
  }
  return best;
}

function tip(node, look, raw, zone, slot, event) {
  node.hidden = zone < 0;
  if (zone < 0) return;
  const at = zone * look.slots + slot;
  node.replaceChildren(el("b", {}, zoneLabel(look.zones, zone)), el("div", {}, `released ${people(look.released[at])} (${people(look.low[at])} to ${people(look.high[at])})`), raw ? el("div", {}, `raw ${people(raw.exact[at])} (owner only)`) : "");
  node.style.left = `${Math.max(0, Math.min(event.offsetX + 14, event.target.clientWidth - 200))}px`;
  node.style.top = `${event.offsetY + 14}px`;
}

function showZone(view, look, raw, zone) {
  const error = raw ? raw.mreByZone[zone] : null;
  view.facts.textContent = `${zoneLabel(look.zones, zone)}${raw ? `: mean relative error ${percent(error)} (owner only)` : ""}`;
  chart(view.series, seriesTraces(look, zone, raw && raw.exact), layout("", `people per ${look.slotWord}`, { showlegend: true, xaxis: slotAxis(look, look.slots) })).catch(() => {});
}

function drawHours(view, raw) {
  if (!raw.hours) { view.hours.replaceChildren(text("p", "Slots are longer than an hour.", "empty")); return; }
  chart(view.hours, [{ x: raw.hours, y: raw.mreByHour, type: "bar", marker: { color: "#0063a6" }, hovertemplate: "%{x} h: %{y:.1%}<extra></extra>" }], layout("hour of the day (local)", "mean relative error", { yaxis: { tickformat: ".0%" }, xaxis: { dtick: 3 } })).catch(() => {});
}
