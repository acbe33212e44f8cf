// Synthetic trips: maps of visits, distributions of trips, distances to the nearest real trip.

const REAL_BAR = "rgba(213,94,0,0.95)";

function start(report) {
  if (!report.map) return;
  cellMaps(report.map, { unit: "visits per 1,000 trips", title: "Visits per 1,000 trips" }, "synthetic", "real");
  for (const [name, spread] of Object.entries(report.spread)) spreadChart(name, spread);
  if (report.nearest) nearestChart(report.nearest);
}

// What stands below a chart, and how a bin is called.
const AXES = {
  distance: ["Between the farthest cells, whole km", (bin, last) => (last ? `${bin} and more` : `${bin} to ${bin + 1}`)],
  moves: ["Moves from cell to cell", (bin, last) => (last ? `${bin} and more` : `${bin}`)],
  stay: ["Steps stayed anywhere", (bin, last) => (last ? `${bin} and more` : `${bin}`)],
  duration: ["Steps from start to end", (bin, last) => (last ? `${bin} and more` : `${bin}`)],
  hours: ["Hour of day at the start", (bin) => `${bin}:00 to ${bin + 1}:00`],
};

function spreadChart(name, spread) {
  const [title, words] = AXES[name], bins = [...Array(spread.bins).keys()];
  const labels = bins.map((bin) => words(bin, spread.open && bin === spread.bins - 1));
  const every = Math.max(1, roundSteps(spread.bins, 8)[1]);
  const ticks = bins.filter((bin) => bin % every === 0 && !(spread.open && spread.bins - 1 - bin > 0 && spread.bins - 1 - bin < every / 2));
  if (spread.open && !ticks.includes(spread.bins - 1)) ticks.push(spread.bins - 1);
  const ticktext = ticks.map((bin) => (spread.open && bin === spread.bins - 1 ? `${bin}+` : `${bin}`));
  bars(`spread-${name}`, title, bins, labels, spread, { tickvals: ticks, ticktext });
}

function nearestChart(nearest) {
  const bins = nearest.synthetic.map((_, i) => i), last = bins.length - 1;
  const metres = (value) => Math.round(value).toLocaleString("en");
  const label = (bin) => (bin === 0 ? "a copy" : bin === last ? `${metres((last - 1) * nearest.stepM)} m and more` : `${metres((bin - 1) * nearest.stepM)} to ${metres(bin * nearest.stepM)} m`);
  const ticks = [0, ...bins.filter((bin) => bin > 0 && (bin - 1) % 5 === 0 && bin > 1)];
  const ticktext = ticks.map((bin) => (bin === 0 ? "copy" : metres((bin - 1) * nearest.stepM)));
  // The left edge of a bin is where its number stands.
  bars("nearest", "Metres to the nearest real trip", bins, bins.map(label), nearest, { tickvals: ticks.map((bin) => (bin === 0 ? 0 : bin - 0.5)), ticktext });
}

function bars(id, title, bins, labels, sides, axis) {
  const named = (side) => ({ customdata: labels, hovertemplate: `${side} %{y:.1%}<extra>%{customdata}</extra>` });
  const traces = [{ type: "bar", x: bins, y: sides.synthetic, name: "Synthetic", marker: { color: "rgba(0,114,178,0.55)" }, ...named("Synthetic") }];
  if (sides.real)
    traces.push({ x: bins, y: sides.real, name: "Real", mode: "lines+markers", line: { color: REAL_BAR, width: 1.8, shape: "hvh" }, marker: { size: 5, color: REAL_BAR }, ...named("Real") });
  plot(id, traces, layout(title, "Share of trips", {
    showlegend: Boolean(sides.real), bargap: 0.08, xaxis: { ...axis, range: [-0.6, bins.length - 0.4] }, yaxis: { tickformat: ".0~%" },
  }));
}

try { start(readJson()); } catch (error) { showFailure(error); }
