// Synthetic trips: many at once, and one of them in space and time.

import { post } from "../api.js";
import { chart, layout } from "../charts.js";
import { button, el, select, text, whole } from "../dom.js";
import { PEOPLE, Plane, colourTable } from "../report/map.js";

const SHOWN = 60;

export async function draw(root, release) {
  let first = 0, chosen = 0, look = await post(`/releases/${release.id}/view`, { count: SHOWN });
  const canvas = el("canvas", { "aria-label": "Map of synthetic trips; the chosen one is coloured from its start to its end" });
  const pick = el("span"), profile = el("div", { class: "chart" }), facts = el("p", { class: "note" });
  root.replaceChildren(el("div", { class: "two" },
    el("section", { class: "panel" }, el("div", { class: "row apart" }, text("h2", "Synthetic trips"), el("span", { class: "note" }, `${whole(look.count)} in all; nobody made them`)), el("div", { class: "map-box" }, canvas), text("p", `${SHOWN} trips in grey, the chosen one from dark (start) to yellow (end).`, "note")),
    el("section", { class: "panel" }, el("div", { class: "row apart" }, text("h2", "One trip in space and time"), pick), facts, profile,
      el("div", { class: "row" }, button("Other trips", async () => { first = look.count > SHOWN ? Math.floor(Math.random() * (look.count - SHOWN)) : 0; look = await post(`/releases/${release.id}/view`, { first, count: SHOWN }); chosen = 0; fill(); })))));
  const plane = new Plane(canvas, look.box, look.planar), colours = colourTable(PEOPLE);
  plane.paint = (context) => {
    context.lineWidth = 1;
    context.strokeStyle = "rgba(90,100,110,0.35)";
    for (const trip of look.trips) line(context, plane, trip);
    const trip = look.trips[chosen];
    if (trip) coloured(context, plane, trip, colours);
  };
  const show = () => { plane.draw(); if (look.trips[chosen]) showTrip(profile, facts, look.trips[chosen], look.planar); };
  function fill() {
    pick.replaceChildren(select(look.trips.map((trip, i) => [i, `trip ${whole(trip.trip + 1)}`]), chosen, { "aria-label": "Trip", onchange: (event) => { chosen = Number(event.target.value); show(); } }));
    show();
  }
  fill();
  const resize = () => plane.resize();
  window.addEventListener("resize", resize);
  return () => window.removeEventListener("resize", resize);
}

function line(context, plane, trip) {
  context.beginPath();
  trip.x.forEach((x, i) => { const [px, py] = plane.at(x, trip.y[i]); if (i) context.lineTo(px, py); else context.moveTo(px, py); });
  context.stroke();
}

function coloured(context, plane, trip, colours) {
  const [start, end] = [trip.time[0], trip.time.at(-1)];
  context.lineWidth = 3.5;
  context.lineCap = "round";
  for (let i = 1; i < trip.x.length; i++) {
    context.strokeStyle = colours[Math.round(255 * (trip.time[i] - start) / Math.max(1, end - start))];
    context.beginPath();
    context.moveTo(...plane.at(trip.x[i - 1], trip.y[i - 1]));
    context.lineTo(...plane.at(trip.x[i], trip.y[i]));
    context.stroke();
  }
}

// How far from its start, minute by minute: a flat period is a stay.
function showTrip(node, facts, trip, planar) {
  const shrink = planar ? 1 : Math.cos(trip.y[0] * Math.PI / 180), unit = planar ? 0.001 : 111.32;
  const far = trip.x.map((x, i) => Math.hypot((x - trip.x[0]) * shrink, trip.y[i] - trip.y[0]) * unit);
  const clock = trip.time.map((time) => new Date(1000 * time).toISOString().slice(0, 19).replace("T", " "));
  facts.textContent = `${clock[0]} to ${clock.at(-1)} UTC, ${trip.x.length} points, ${far.at(-1).toFixed(1)} km from start to end.`;
  chart(node, [{ x: clock, y: far, mode: "lines+markers", line: { color: "#0063a6" }, marker: { size: 4 }, hovertemplate: "%{x}: %{y:.2f} km<extra></extra>" }], layout("time (UTC)", "km from its start", { hovermode: "closest", xaxis: { type: "date" } })).catch(() => {});
}
