// The charts, drawn by plotly. Names of zones never go in here: plotly reads some HTML in its texts.

const RAW = { color: "#c04f00", width: 1.8, dash: "dot" };
const RELEASED = { color: "#0063a6", width: 2 };
const BAND = "rgba(0,99,166,0.18)";
const GRID = "#e4e8ec";

function layout(xTitle, yTitle, more = {}) {
  const axis = { gridcolor: GRID, zerolinecolor: "#9aa4ae", automargin: true, fixedrange: true };
  return {
    margin: { l: 58, r: 12, t: 8, b: 40 },
    font: { family: "system-ui, 'Liberation Sans', Arial, sans-serif", size: 13, color: "#1c2126" },
    paper_bgcolor: "#fff", plot_bgcolor: "#fff", hovermode: "x unified", showlegend: false,
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", xanchor: "left" },
    ...more,
    xaxis: { ...axis, title: { text: xTitle, standoff: 6 }, ...(more.xaxis || {}) },
    yaxis: { ...axis, title: { text: yTitle, standoff: 6 }, rangemode: "tozero", ...(more.yaxis || {}) },
  };
}

// No tool bar: its only remote button would send figures away, and the others are not needed here.
const CONFIG = { displayModeBar: false, responsive: true, displaylogo: false, doubleClick: false };

function plot(id, traces, chartLayout) {
  return Plotly.react(document.getElementById(id), traces, chartLayout, CONFIG);
}

function emptyChart(id, text) {
  document.getElementById(id).replaceChildren(element("p", text, "empty"));
}

// A slot axis: slot numbers, labelled with days; one slot alone still gets some room.
function slotAxis(report, count) {
  return { tickvals: report.dayTicks.slots, ticktext: report.dayTicks.texts, range: [-0.5, count - 0.5] };
}

const marker = (slot) => ({
  type: "line", x0: slot, x1: slot, y0: 0, y1: 1, yref: "paper", line: { color: "#d00070", width: 1.5 },
});

// Lines for several slots, points where one slot is all there is.
const mode = (count) => (count > 1 ? "lines" : "markers");

function seriesChart(report, zone, slot) {
  const count = report.slots, from = zone * count;
  const cut = (name) => Array.from(report.values[name].subarray(from, from + count));
  const x = Array.from({ length: count }, (_, i) => i), labels = report.slotLabels.slice(0, count);
  const hover = (name) => `${name} %{y:,.1f}<extra></extra>`;
  const band = { x, mode: "lines", line: { width: 0 }, hovertemplate: "%{y:,.1f}<extra></extra>" };
  const ends = count > 1
    ? [{ ...band, y: cut("low"), showlegend: false, hovertemplate: hover("95 % from") },
       { ...band, y: cut("high"), fill: "tonexty", fillcolor: BAND, name: "95 % interval", hovertemplate: hover("95 % to") }]
    : [];
  const released = { x, y: cut("released"), mode: mode(count), name: "Released", line: RELEASED, marker: { size: 10, color: RELEASED.color }, hovertemplate: hover("Released") };
  if (count === 1) {
    const [low, high, value] = [cut("low")[0], cut("high")[0], released.y[0]];
    released.error_y = { type: "data", symmetric: false, array: [high - value], arrayminus: [value - low], color: RELEASED.color };
    released.name = "Released, with 95 % interval";
  }
  const raw = { x, y: cut("exact"), mode: mode(count), name: "Raw", line: RAW, marker: { size: 10, symbol: "diamond", color: RAW.color }, customdata: labels, hovertemplate: hover("Raw") };
  return plot("series", [...ends, released, raw], layout("Start of slot, local time", `People per ${report.slotWord}`, {
    showlegend: true, margin: { l: 58, r: 12, t: 30, b: 40 },
    shapes: [marker(slot)],
    xaxis: { ...slotAxis(report, count), hoverformat: "", unifiedhovertitle: { text: "%{x}" } },
  }));
}

function cityChart(report, slot) {
  const count = report.city.exact.length, x = report.city.exact.map((_, i) => i);
  const line = (y, name, style, symbol) => ({ x, y, name, mode: mode(count), line: style, marker: { size: 10, symbol, color: style.color }, hovertemplate: `${name} %{y:,.0f}<extra></extra>` });
  return plot("city", [line(report.city.released, "Released", RELEASED, "circle"), line(report.city.exact, "Raw", RAW, "diamond")],
    layout("Start of slot, local time", `People per ${report.slotWord}`, {
      showlegend: true, margin: { l: 58, r: 12, t: 30, b: 40 },
      shapes: [marker(slot)], xaxis: slotAxis(report, count),
    }));
}

function profileCharts(report) {
  const charts = [["mre", "Mean relative error", { tickformat: ".0%" }, ".1%"], ["mae", "Mean absolute error (people)", {}, ",.1f"]];
  for (const [key, title, yaxis, format] of charts) {
    const whole = report.bySlot, day = report.byHourOfDay;
    const bar = (profile) => [{ type: "bar", x: profile.hours, y: profile[key], marker: { color: RELEASED.color }, hovertemplate: `%{y:${format}}<extra></extra>` }];
    if (whole[key].every((value) => value === null)) {
      emptyChart(`${key}-slot`, "Not defined: no zone had people.");
      emptyChart(`${key}-day`, "Not defined: no zone had people.");
      continue;
    }
    plot(`${key}-slot`, bar(whole), layout("Start of slot, local time", title, { xaxis: slotAxis(report, whole.hours.length), yaxis, bargap: 0.15 }));
    if (!day || day.hours.length < 2) emptyChart(`${key}-day`, "All slots start at the same hour: there is no profile by hour of the day.");
    else plot(`${key}-day`, bar(day), layout("Hour of the day, local time", title, { xaxis: { dtick: 4, tick0: 0, range: [-0.6, 23.6] }, yaxis, bargap: 0.15 }));
  }
}

const BOXES = [
  ["mre", "Relative error", ".0%"],
  ["mae", "Absolute error (people)", ",~g"],
  ["pearson", "Correlation (Pearson)", ".2f"],
  ["bias", "Bias of the zone's total", "+.0%"],
  ["coverage", "Raw values in interval", ".0%"],
];
const MOST_OUTLIERS = 400;

function boxCharts(report) {
  const holder = document.getElementById("boxes");
  for (const [key, title, format] of BOXES) {
    const box = report.boxes[key];
    if (!box) continue;
    const node = element("div", undefined, "chart");
    node.id = `box-${key}`;
    holder.append(node);
    if (box.count === 0) { emptyChart(node.id, `${title}: not defined for any zone.`); continue; }
    const every = Math.ceil(box.outliers.length / MOST_OUTLIERS) || 1;
    const outliers = box.outliers.filter((_, i) => i % every === 0);
    const one = (value) => [value];
    const traces = [
      { type: "box", x: [0], q1: one(box.q1), median: one(box.median), q3: one(box.q3), mean: one(box.mean), lowerfence: one(box.whisker_low), upperfence: one(box.whisker_high), fillcolor: BAND, line: { color: RELEASED.color }, hoverinfo: "y", yhoverformat: format },
      { type: "scatter", mode: "markers", x: outliers.map(() => 0), y: outliers, marker: { color: RELEASED.color, size: 4, opacity: 0.45 }, hovertemplate: `%{y:${format}}<extra></extra>` },
    ];
    plot(node.id, traces, layout("", title, { hovermode: "closest", margin: { l: 58, r: 6, t: 8, b: 30 },
      xaxis: { tickvals: [0], ticktext: [`${box.count.toLocaleString("en")} zone${box.count === 1 ? "" : "s"}`], range: [-0.6, 0.6], showgrid: false },
      yaxis: { tickformat: format, rangemode: "normal" } }));
  }
}

function moveMarkers(slot) {
  for (const id of ["series", "city"]) {
    const node = document.getElementById(id);
    if (node.layout) Plotly.relayout(node, { shapes: [marker(slot)] });
  }
}
