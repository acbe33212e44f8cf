// A histogram of trips: draw a rectangle, get the number of distinct trips that crossed it.

import { post } from "../api.js";
import { button, complain, el, input, number, table, text, whole } from "../dom.js";
import { float32s } from "../report/format.js";
import { Plane, drawLegend, peopleScale } from "../report/map.js";

export async function draw(root, release) {
  const look = await post(`/releases/${release.id}/view`);
  const faces = float32s(look.faces), scale = peopleScale(look.end);
  const canvas = el("canvas", { "aria-label": "Map of trips per cell. Draw a rectangle with the mouse, or type its sides beside it." });
  const legend = el("canvas", { class: "legend", "aria-hidden": "true" });
  const answers = el("div", { "aria-live": "polite" }), rows = [];
  const sides = ["west", "south", "east", "north"].map((name, i) => input(number(look.box[i], 7), { "aria-label": name, inputmode: "decimal" }));
  root.replaceChildren(el("div", { class: "two" },
    el("section", { class: "panel" }, el("div", { class: "row apart" }, text("h2", "Distinct trips per cell"), text("span", `${whole(look.trips)} trips in all, as published`, "note")), el("div", { class: "map-box" }, canvas), legend, text("p", "Draw a rectangle on the map.", "note")),
    el("section", { class: "panel" }, text("h2", "Trips in a rectangle"), text("p", "Answers come from the published file: asking is free, as often as you like.", "note"), el("div", { class: "row" }, sides.map((side) => el("label", { class: "grow note" }, side.getAttribute("aria-label"), side))), el("p"), button("Ask", () => ask(sides.map((side) => (side.value.trim() ? Number(side.value.replace(/,/g, "")) : NaN))), { class: "main" }), answers)));
  const image = picture(look, faces, scale), plane = new Plane(canvas, look.box, look.planar);
  let drawn = null, snapped = null, from = null;
  plane.paint = (context) => {
    const [x0, y0] = plane.at(look.box[0], look.box[3]), [x1, y1] = plane.at(look.box[2], look.box[1]);
    context.imageSmoothingEnabled = false;
    context.drawImage(image, x0, y0, x1 - x0, y1 - y0);
    for (const [box, colour, wide] of [[snapped, "#ffffff", 4], [snapped, "#d00070", 2], [drawn, "#1c2126", 1]]) {
      if (!box) continue;
      const [a, b] = plane.at(box[0], box[3]), [c, d] = plane.at(box[2], box[1]);
      context.strokeStyle = colour;
      context.lineWidth = wide;
      context.strokeRect(a, b, c - a, d - b);
    }
  };
  async function ask(box) {
    if (!box.every(Number.isFinite) || !(box[0] < box[2] && box[1] < box[3])) throw Object.assign(new Error("A rectangle has four numbers, west below east and south below north."), { remedy: "Draw it on the map, or correct the fields." });
    const began = performance.now();
    const { answers: [answer] } = await post(`/releases/${release.id}/view`, { boxes: [box] });
    globalThis.shoalQueryMs = performance.now() - began;
    snapped = answer.snapped;
    box.forEach((side, i) => { sides[i].value = side.toFixed(look.planar ? 0 : 4); });
    plane.draw();
    rows.unshift([answer.trips === null ? "no answer" : whole(answer.trips), box.map((side) => side.toFixed(look.planar ? 0 : 3)).join(", "), whole(answer.cells), answer.notes.join(" ")]);
    answers.replaceChildren(el("p", { class: "big" }, answer.trips === null ? "No answer" : `${whole(answer.trips)} trips`), table(["trips", "west, south, east, north", "cells", ""], rows.slice(0, 20), [0, 2]));
  }
  canvas.addEventListener("pointerdown", (event) => { from = [event.offsetX, event.offsetY]; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => { if (!from) return; drawn = boxOf(plane, from, [event.offsetX, event.offsetY]); plane.draw(); });
  canvas.addEventListener("pointerup", (event) => {
    if (!from) return;
    const box = boxOf(plane, from, [event.offsetX, event.offsetY]), small = Math.abs(event.offsetX - from[0]) < 3 || Math.abs(event.offsetY - from[1]) < 3;
    from = drawn = null;
    if (small) plane.draw(); else ask(box).catch(complain);
  });
  const resize = () => { plane.resize(); drawLegend(legend, scale); };
  window.addEventListener("resize", resize);
  plane.draw();
  drawLegend(legend, scale);
  return () => window.removeEventListener("resize", resize);
}

const boxOf = (plane, one, other) => {
  const [ax, ay] = plane.from(...one), [bx, by] = plane.from(...other);
  return [Math.min(ax, bx), Math.min(ay, by), Math.max(ax, bx), Math.max(ay, by)];
};

function picture(look, faces, scale) {
  const canvas = document.createElement("canvas");
  canvas.width = look.columns;
  canvas.height = look.rows;
  const image = new ImageData(look.columns, look.rows), pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < faces.length; i++) pixels[i] = scale.at(faces[i]);
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}
