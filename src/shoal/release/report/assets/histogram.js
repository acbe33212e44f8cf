// Maps of trips per cell, error against the size of a rectangle, methods side by side.

const SEQUENTIAL = ["#f0f4f8", "#b9dbe0", "#74b9c7", "#3a8fb0", "#226694", "#173b6c", "#0d1b45"];
const DIVERGING = ["#b35806", "#f1a340", "#fee0b6", "#f7f7f7", "#d8daeb", "#998ec3", "#542788"];

function start(report) {
  maps(report.map);
  bySize(report.bySize);
  compared(report.compared);
}

function maps(map) {
  const x = [...Array(map.columns).keys()].map((i) => (i + 0.5) * map.widthKm);
  const y = [...Array(map.rows).keys()].map((j) => (j + 0.5) * map.heightKm);
  const table = (value) => y.map((_, j) => x.map((_, i) => value(j * map.columns + i)));
  const released = float32s(map.released), exact = map.exact ? float32s(map.exact) : null;
  // Colours follow the root of the number: half-empty cells can still be told apart.
  const warped = SEQUENTIAL.map((colour, i) => [(i / (SEQUENTIAL.length - 1)) ** 2, colour]);
  const evenly = DIVERGING.map((colour, i) => [i / (DIVERGING.length - 1), colour]);
  const heat = (value, colorscale, zmin, zmax) => [{
    type: "heatmap", x, y, z: table(value), colorscale, zmin, zmax, hovertemplate: "%{x:.2f} km east, %{y:.2f} km north: %{z:,.1f} trips<extra></extra>",
    colorbar: { orientation: "h", thickness: 10, len: 1, y: -0.14, yanchor: "top", nticks: 5, title: { text: "Trips through the cell", side: "bottom", font: { size: 12 } } },
  }];
  const ground = layout("", "", { hovermode: "closest", margin: { l: 40, r: 8, t: 6, b: 78 }, xaxis: { ticksuffix: " km", zeroline: false, constrain: "domain", nticks: 5 }, yaxis: { ticksuffix: " km", rangemode: "normal", zeroline: false, scaleanchor: "x", constrain: "domain", nticks: 6 } });
  plot("map-released", heat((i) => released[i], warped, 0, map.end), ground);
  if (!exact) return;
  plot("map-exact", heat((i) => exact[i], warped, 0, map.end), ground);
  plot("map-difference", heat((i) => released[i] - exact[i], evenly, -map.differenceEnd, map.differenceEnd), ground);
}

const SERIES = [
  ["released", "Published", { color: RELEASED.color, width: 2.4 }],
  ["euler", "Euler, no noise", { color: RAW.color, width: 1.8, dash: "dot" }],
  ["euler_blocks", "Euler with 2 x 2 blocks, no noise", { color: LINE_COLOURS[2], width: 1.8, dash: "dash" }],
];

function bySize(figures) {
  if (!figures) return;
  const above = (value) => (value > 0 ? value : null);  // a log axis has no zero
  const traces = SERIES.map(([name, title, line]) => ({
    x: figures[name].share, y: figures[name].error.map(above), name: title, mode: "lines+markers", line, marker: { size: 6 },
    hovertemplate: `${title}: %{y:,.1f} trips<extra></extra>`,
  }));
  const of = figures.released;
  traces.push({ x: of.share, y: of.exact.map(above), name: "Exact answer itself", mode: "lines", line: { color: "#7a7a7a", width: 1 }, hovertemplate: "Mean exact answer: %{y:,.1f} trips<extra></extra>" });
  if (!of.share.length || !traces.some((trace) => trace.y.some((value) => value !== null))) { emptyChart("by-size", "There are no trips to compare with."); return; }
  plot("by-size", traces, layout("Share of the map that a rectangle covers", "Mean absolute error, trips", {
    showlegend: true, xaxis: { type: "log", tickformat: ".1~%", ...logTicks(Math.min(...of.share), Math.max(...of.share), (value) => `${Number((100 * value).toPrecision(2))} %`) }, yaxis: { type: "log", rangemode: "normal", exponentformat: "none", dtick: 1 },
  }));
}

function compared(rows) {
  if (!rows.length) return;
  const names = rows.map((row) => plotText(row.method));
  const bars = (figure, title, colour) => ({ type: "bar", x: names, y: rows.map((row) => row[figure]), name: title, marker: { color: colour }, hovertemplate: `${title}: %{y:,.1f} trips<extra></extra>` });
  plot("compared", [bars("given", "Given rectangles", LINE_COLOURS[4]), bars("unseen", "Unseen rectangles", LINE_COLOURS[0])],
    layout("", "Mean absolute error, trips", { showlegend: true, barmode: "group", hovermode: "closest", xaxis: { type: "category" } }));
}

try { start(readJson()); } catch (error) { showFailure(error); }
