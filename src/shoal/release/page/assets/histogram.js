// Maps of trips per cell, error against the size of a rectangle, methods side by side.

function start(report) {
  cellMaps(report.map, { unit: "trips", title: "Trips through the cell" }, "released", "exact");
  bySize(report.bySize);
  compared(report.compared);
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
