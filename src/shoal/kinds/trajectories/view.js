// A generalised record: the boxes of space and time that it became.

import { post } from "../api.js";
import { chart, layout } from "../charts.js";
import { button, complain, el, input, text, whole } from "../dom.js";
import { PEOPLE, Plane, colourTable } from "../report/map.js";

export async function draw(root, release) {
  let look = await post(`/releases/${release.id}/view`, { first: 1 });
  const canvas = el("canvas", { "aria-label": "Map of the boxes of one record, coloured by time" });
  const wanted = input("1", { "aria-label": "Record", inputmode: "numeric", style: "width:7em" }), facts = el("p", { class: "note" }), profile = el("div", { class: "chart tall" });
  const other = async (record) => { look = await post(`/releases/${release.id}/view`, { first: record }); wanted.value = String(record); show(); };
  root.replaceChildren(el("div", { class: "two" },
    el("section", { class: "panel" }, text("h2", "One record on the map"), el("div", { class: "map-box" }, canvas), text("p", "Boxes from dark (first) to yellow (last). The person was somewhere inside each, as were others.", "note")),
    el("section", { class: "panel" }, el("div", { class: "row apart" }, text("h2", "In space and time"), el("span", { class: "row" }, text("span", `of ${whole(look.records)}`, "note"), wanted, button("Show", () => { const record = Number(wanted.value); if (!(Number.isInteger(record) && record > 0)) throw Object.assign(new Error("A record has a whole number above 0."), { remedy: `There are ${look.records}.` }); return other(record); }), button("Any", () => other(1 + Math.floor(Math.random() * look.records))))), facts, profile)));
  const km = () => look.lattice.metres / 1000, colours = colourTable(PEOPLE);
  const edges = () => [look.extent.x[0] * km() * 1000, look.extent.y[0] * km() * 1000, (look.extent.x[1] + 1) * km() * 1000, (look.extent.y[1] + 1) * km() * 1000];
  const plane = new Plane(canvas, edges(), true);
  plane.paint = (context) => {
    const last = Math.max(1, look.t1.at(-1) || 1), side = km() * 1000;
    look.t0.forEach((t0, i) => {
      const [x0, y0] = plane.at(look.x0[i] * side, (look.y1[i] + 1) * side), [x1, y1] = plane.at((look.x1[i] + 1) * side, look.y0[i] * side);
      const colour = colours[Math.round(255 * t0 / last)];
      context.fillStyle = colour.replace("rgb", "rgba").replace(")", ",0.25)");
      context.fillRect(x0, y0, Math.max(2, x1 - x0), Math.max(2, y1 - y0));
      context.strokeStyle = colour;
      context.strokeRect(x0, y0, Math.max(2, x1 - x0), Math.max(2, y1 - y0));
    });
  };
  function show() {
    plane.draw();
    const count = look.t0.length;
    facts.textContent = count ? `Record ${whole(look.record)}: ${whole(count)} boxes. Bars are times at which it is known where the person was; their height is how far east to west the box reaches.` : `Record ${whole(look.record)} has no box: nothing of it could be kept, or there is no such record.`;
    drawProfile(profile, look, km()).catch(complain);
  }
  show();
  const resize = () => plane.resize();
  window.addEventListener("resize", resize);
  return () => window.removeEventListener("resize", resize);
}

async function drawProfile(node, look, km) {
  const start = Date.parse(look.lattice.start), step = look.lattice.minutes * 60_000;
  const time = (value) => new Date(start + value * step).toISOString();
  const shapes = look.t0.slice(0, 2000).map((t0, i) => ({ type: "rect", x0: time(t0), x1: time(look.t1[i] + 1), y0: look.x0[i] * km, y1: (look.x1[i] + 1) * km, line: { width: 1, color: "#0063a6" }, fillcolor: "rgba(0,99,166,0.3)" }));
  const ends = { x: [time(look.extent.t[0]), time(look.extent.t[1] + 1)], y: [look.extent.x[0] * km, (look.extent.x[1] + 1) * km] };
  await chart(node, [{ ...ends, mode: "markers", marker: { opacity: 0 }, hoverinfo: "skip" }], layout("time (UTC)", "km east of the lattice's origin", { shapes, hovermode: false, xaxis: { type: "date" }, yaxis: { rangemode: "normal" } }));
}
